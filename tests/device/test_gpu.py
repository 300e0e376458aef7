"""On a machine with an NVIDIA GPU or on a Jetson: `make test-device` runs these and writes a record.

Each has a twin that needs no GPU, on the emulated driver (`tests/unit/test_tensorrt_*.py`, `test_plans.py`).
None of these was run by whoever wrote them: no GPU was there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edge_sdk
from edge_sdk.bench.graphs import measure_graphs
from edge_sdk.buffers.cuda import CudaDevice
from edge_sdk.devices import PlanOptions, machine_facts
from edge_sdk.devices.machine import is_jetson
from edge_sdk.devices.plans import build_plans, open_tensorrt
from edge_sdk.engine import load_bundle
from edge_sdk.engine.plan_store import PLANS_VARIABLE
from edge_sdk.engine.tensorrt_api import import_tensorrt
from edge_sdk.engine.tensorrt_build import BuildOptions
from edge_sdk.errors import DeviceNotFoundError

pytestmark = pytest.mark.gpu

ENGINE = "substation-rgbt"
RECORD_VARIABLE = "EDGE_SDK_DEVICE_RECORD"
"""Environment variable: where the record goes; `make test-device` sets it."""


@pytest.fixture(scope="module", autouse=True)
def gpu() -> str:
    """A real GPU and TensorRT, or a skip that names what is missing."""
    try:
        with CudaDevice.open() as device:
            if device.emulated:
                pytest.skip("needs an NVIDIA GPU: the CUDA driver of this process is emulated")
            name = device.name
        import_tensorrt()
    except DeviceNotFoundError as error:
        pytest.skip(f"needs an NVIDIA GPU with TensorRT: {error}")
    return name


@pytest.fixture(scope="module", autouse=True)
def plans(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty cache of plans, so that nothing of the user's is touched."""
    before = os.environ.get(PLANS_VARIABLE)
    folder = tmp_path_factory.mktemp("plans")
    os.environ[PLANS_VARIABLE] = str(folder)
    yield folder
    if before is None:
        del os.environ[PLANS_VARIABLE]
    else:
        os.environ[PLANS_VARIABLE] = before


@pytest.fixture(scope="module")
def record() -> Iterator[dict[str, Any]]:
    """What is measured here, written at the end to the file that `make test-device` names."""
    found: dict[str, Any] = {"schema": "edge-sdk/device-record 1", "machine": machine_facts()}
    yield found
    if path := os.environ.get(RECORD_VARIABLE):
        Path(path).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def built(record: dict[str, Any], gpu: str) -> Any:
    """Plans of the reference engine, built here and compared with ONNX Runtime on the CPU."""
    loaded, _ = build_plans(load_bundle(ENGINE), BuildOptions(), force=True)
    record["plans"] = json.loads(loaded.sidecar.to_json())
    return loaded


def test_plans_agree_with_onnx_runtime(built: Any) -> None:
    graphs = built.sidecar.canary["graphs"]
    assert set(graphs) == {"rgb", "fuse", "thermal", "screen"}
    assert all(ms > 0 for ms in built.sidecar.baseline_ms.values())


def test_the_second_start_needs_no_build(built: Any, gpu: str) -> None:
    with edge_sdk.load(ENGINE, device="auto") as detector:
        assert detector.choice.device == "tensorrt"
        assert gpu in detector.provider


@pytest.mark.parametrize("overlap", [False, True])
def test_the_clip_gives_the_detections_of_the_cpu(built: Any, record: dict[str, Any], overlap: bool) -> None:
    options = PlanOptions(overlap_upload=overlap)
    with (
        edge_sdk.load(ENGINE, device="tensorrt", plan_options=options) as detector,
        edge_sdk.load(ENGINE, device="cpu") as reference,
        edge_sdk.open_source("clip:substation") as source,
    ):
        latencies, same_route, pairs, found, expected = [], 0, 0, 0, 0
        for pair in source:
            kept = pair.copied()
            result, wanted = detector(kept), reference(kept)
            latencies.append(result.latency_ms)
            same_route += result.route == wanted.route
            found += len(result.detections)
            expected += len(wanted.detections)
            pairs += 1
    record[f"clip, overlap {overlap}"] = {
        "pairs": pairs,
        "same_route": same_route,
        "detections": found,
        "detections_cpu": expected,
        "latency_ms_p50": float(np.median(latencies[20:])),
        "latency_ms_max": float(np.max(latencies[20:])),
    }
    assert same_route >= 0.97 * pairs
    assert abs(found - expected) <= 0.03 * expected


def test_cuda_graphs_are_right_and_kept_only_where_faster(built: Any, record: dict[str, Any]) -> None:
    provider, trials = measure_graphs(ENGINE)
    record["cuda_graphs"] = {"provider": provider, "graphs": [asdict(trial) for trial in trials]}
    for trial in trials:
        assert trial.launches > 0, trial.why
        assert "off an ordinary run" not in trial.why
        assert trial.kept == (trial.gain_ms is not None and trial.gain_ms[0] > 0)


def test_gpu_times_come_from_events(built: Any, record: dict[str, Any]) -> None:
    with open_tensorrt(load_bundle(ENGINE), options=PlanOptions(cuda_graphs="off")) as runner:
        times: dict[str, list[float]] = {graph: [] for graph in runner.graphs}
        for _ in range(100):
            for graph in runner.graphs:
                runner.run(graph)
                found = runner.gpu_times(graph)
                assert found is not None
                times[graph].append(found.engine_ms)
        record["memory_nbytes"] = dict(runner.memory_nbytes)
    record["gpu_ms_p50"] = {graph: float(np.median(found)) for graph, found in times.items()}
    assert all(0 < median < 1000 for median in record["gpu_ms_p50"].values())


@pytest.mark.jetson
def test_on_a_jetson_images_are_used_in_place(built: Any, record: dict[str, Any]) -> None:
    if not is_jetson():
        pytest.skip("needs a Jetson")
    with open_tensorrt(load_bundle(ENGINE)) as runner:
        assert set(runner.memory_nbytes) == {"mapped", "device"}
    with CudaDevice.open() as device:
        assert device.integrated
        assert device.compute_capability >= (8, 7)
    assert record["plans"]["key"]["module"] != "none"
