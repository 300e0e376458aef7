"""The whole detector on the TensorRT double and the emulated driver, against the CPU runner.

What this proves: names and order of calls, addresses, memory kinds, copies and synchronisation, on a GPU
that shares the CPU's memory and on one that does not. It proves nothing of NVIDIA's kernels or of speed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import half_precision
import numpy as np
import pytest
from emulator import Emulator

import edge_sdk
from edge_sdk.devices import PlanOptions
from edge_sdk.devices.plans import build_plans
from edge_sdk.engine import load_bundle
from edge_sdk.engine.plan_store import PLANS_VARIABLE
from edge_sdk.engine.tensorrt_build import BuildOptions
from edge_sdk.frames import FramePair
from edge_sdk.measurements import FrameResult

ENGINE = "substation-rgbt"
ROUTES = (None, "rgb", "fuse", "thermal")


@pytest.fixture(scope="module")
def pairs() -> tuple[FramePair, ...]:
    """Ten pairs of the shipped clip: by day, dusk and night."""
    with edge_sdk.open_source("clip:substation") as source:
        return tuple(pair.copied() for index, pair in enumerate(source) if index % 15 == 0)


@pytest.fixture(autouse=True)
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of plans."""
    monkeypatch.setenv(PLANS_VARIABLE, str(tmp_path / "plans"))
    return tmp_path / "plans"


@pytest.fixture(scope="module")
def expected(pairs: tuple[FramePair, ...]) -> dict[str | None, list[FrameResult]]:
    """What the CPU runner answers, route by route."""
    answers = {}
    for route in ROUTES:
        with edge_sdk.load(ENGINE, device="cpu", threads=1) as detector:
            answers[route] = [detector(pair, force=route) for pair in pairs]
    return answers


def same(found: FrameResult, wanted: FrameResult) -> None:
    assert (found.route, found.reason) == (wanted.route, wanted.reason)
    np.testing.assert_array_equal(found.detections.xyxy, wanted.detections.xyxy)
    np.testing.assert_array_equal(found.detections.scores, wanted.detections.scores)
    np.testing.assert_array_equal(found.detections.class_ids, wanted.detections.class_ids)
    assert found.detections.temperatures == wanted.detections.temperatures


@pytest.mark.parametrize(
    ("tensorrt", "personality", "cuda_graphs"),
    [
        ("10.3", "integrated", "off"),
        ("10.16", "discrete", "on"),
        ("11.4", "integrated", "on"),
        ("11.4", "discrete", "off"),
    ],
    indirect=["tensorrt"],
)
def test_the_detector_answers_as_on_the_cpu_on_every_route(
    tensorrt: Any,
    emulator: Emulator,
    personality: str,
    cuda_graphs: str,
    pairs: tuple[FramePair, ...],
    expected: dict[str | None, list[FrameResult]],
) -> None:
    emulator.become(personality)
    build_plans(load_bundle(ENGINE), BuildOptions(remainder="fp32"))
    options = PlanOptions(cuda_graphs=cuda_graphs, overlap_upload=True)
    for route in ROUTES:
        with edge_sdk.load(ENGINE, device="tensorrt", plan_options=options) as detector:
            assert detector.provider.startswith(f"TensorRT {tensorrt.__version__} on ")
            assert "(emulated)" in detector.provider
            for pair, wanted in zip(pairs, expected[route], strict=True):
                same(detector(pair, force=route), wanted)
    assert sum(len(result.detections) for result in expected[None]) >= len(pairs)
    assert {result.route.value for result in expected[None]} == {"rgb", "fuse", "thermal"}


@pytest.mark.skipif(half_precision.COARSE, reason=half_precision.WHY)
def test_a_plan_in_half_precision_finds_the_same_objects(
    tensorrt_11: Any, pairs: tuple[FramePair, ...], expected: dict[str | None, list[FrameResult]]
) -> None:
    loaded, built = build_plans(load_bundle(ENGINE), BuildOptions(remainder="fp16"))
    assert built
    figures = loaded.sidecar.canary["graphs"]
    assert 0.005 < max(max(graph["output_rms"].values()) for graph in figures.values()) < 0.06
    assert figures["screen"]["output_rms"] == {"screen": 0.0}  # it keeps fp32
    assert all(
        graph["agreed"] >= 0.98 * graph["detections"] > 100 for graph in figures.values() if "agreed" in graph
    )
    with edge_sdk.load(ENGINE, device="tensorrt") as detector:
        for pair, wanted in zip(pairs[::2], expected["fuse"][::2], strict=True):
            found = detector(pair, force="fuse").detections
            sure = wanted.detections.scores > 0.4
            assert len(found) >= sure.sum()


@pytest.mark.parametrize("route", ["rgb", "fuse", "thermal"])
def test_a_frame_on_an_integrated_gpu_copies_and_allocates_nothing(
    tensorrt_11: Any, emulator: Emulator, route: str, pairs: tuple[FramePair, ...]
) -> None:
    build_plans(load_bundle(ENGINE), BuildOptions(remainder="fp32"))
    with edge_sdk.load(ENGINE, device="tensorrt") as detector:
        detector(pairs[0], force=route)
        emulator.reset_counts()
        for pair in pairs[:3]:
            detector(pair, force=route)
        counts = emulator.counts()
    copied = {name for name in counts if "bytes" in name and not name.startswith("live_")}
    assert copied == set()
    assert "device_allocations" not in counts
    assert "host_allocations" not in counts
    assert not any("pageable" in name for name in counts)
    assert counts["host_functions"] > 0


def test_a_frame_on_a_card_copies_exactly_its_images_and_results(
    tensorrt_11: Any, emulator: Emulator, pairs: tuple[FramePair, ...]
) -> None:
    emulator.become("discrete")
    bundle = load_bundle(ENGINE)
    build_plans(bundle, BuildOptions(remainder="fp32"))
    graphs = bundle.manifest.graphs
    ran = ("rgb", "fuse")
    up = sum(spec.nbytes for name in ran for spec in graphs[name].images)
    down = sum(spec.nbytes for name in ran for spec in graphs[name].outputs if spec.meaning != "features")
    options = PlanOptions(overlap_upload=True)
    with edge_sdk.load(ENGINE, device="tensorrt", plan_options=options) as detector:
        detector(pairs[0], force="fuse")
        emulator.reset_counts()
        for pair in pairs[:3]:
            detector(pair, force="fuse")
        counts = emulator.counts()
    assert counts["host_to_device_bytes"] == 3 * up
    assert counts["device_to_host_bytes"] == 3 * down
    assert "device_allocations" not in counts
    assert not any("pageable" in name for name in counts)
