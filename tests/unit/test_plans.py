"""Plans built on the double: what is kept, what is thrown away, and what is said."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from emulator import Emulator
from onnx import numpy_helper
from typer.testing import CliRunner

from edge_sdk.cli.main import app
from edge_sdk.devices import PlanOptions, open_runner
from edge_sdk.devices import plans as module
from edge_sdk.devices.canary import OUTPUT_RMS_MAX, canary_frames, compare
from edge_sdk.devices.plans import build_plans, layer_places, open_tensorrt
from edge_sdk.engine import Bundle, NullRunner, load_bundle
from edge_sdk.engine.onnx_runner import OnnxRunner
from edge_sdk.engine.plan_key import SIDECAR_NAME
from edge_sdk.engine.plan_store import PLANS_VARIABLE, PlanStore
from edge_sdk.engine.tensorrt_build import BuildOptions
from edge_sdk.engine.tensorrt_lane import GpuTimes
from edge_sdk.errors import (
    ConfigError,
    DeviceError,
    DeviceNotFoundError,
    EngineError,
    PlanMismatchError,
    PlanRejectedError,
)
from edge_sdk.frames import FramePair


@pytest.fixture
def bundle(toy_fusion: Path) -> Bundle:
    return load_bundle(toy_fusion)


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlanStore:
    monkeypatch.setenv(PLANS_VARIABLE, str(tmp_path / "plans"))
    return PlanStore()


@pytest.fixture(scope="module")
def few() -> tuple[FramePair, ...]:
    """Three known frames, which the toy bundle sees things in."""
    read = canary_frames(every=60)
    assert len(read) == 3
    return read


@pytest.fixture(autouse=True)
def frames(few: tuple[FramePair, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "canary_frames", lambda: few)


def scaled(data: bytes) -> bytes:
    """What a wrong builder might do: every constant a fifth larger."""
    model = onnx.load_model_from_string(data)
    attributes = [attribute for node in model.graph.node for attribute in node.attribute]
    constants = [attribute.t for attribute in attributes if attribute.HasField("t")]
    for tensor in (*model.graph.initializer, *constants):
        values = numpy_helper.to_array(tensor)
        if values.dtype == np.float32:
            tensor.CopyFrom(numpy_helper.from_array((values * 1.2).astype(np.float32), tensor.name))
    return bytes(model.SerializeToString())


def test_plans_are_built_once_and_found_again(bundle: Bundle, tensorrt: Any, store: PlanStore) -> None:
    steps: list[tuple[str, str, int, int]] = []
    options = BuildOptions(remainder="fp32", workspace_mib=64, optimisation_level=1)
    loaded, built = build_plans(bundle, options, progress=lambda *step: steps.append(step))
    assert built
    assert ("rgb", "Building engine", 3, 3) in steps
    assert {step[0] for step in steps} == set(bundle.manifest.graphs)
    sidecar = json.loads((loaded.folder / SIDECAR_NAME).read_text())
    assert sidecar["key"]["tensorrt"] == tensorrt.__version__
    assert (sidecar["key"]["gpu"], sidecar["key"]["compute_capability"]) == ("Orin (emulated)", "8.7")
    assert sidecar["options"] == {
        "workspace_mib": 64,
        "optimisation_level": 1,
        "remainder": "fp32",
        "dla_core": None,
        "dla_gpu_fallback": False,
    }
    assert sidecar["baseline_ms"] == {}  # the driver is emulated
    assert sidecar["canary"]["graphs"]["rgb"]["output_rms"] == {"scores": 0.0, "boxes": 0.0}
    (cache,) = store.root.glob("timing-*.cache")
    assert cache.read_bytes().startswith(tensorrt.__version__.encode())
    again, built = build_plans(bundle, options)
    assert not built
    assert again.sha256 == loaded.sha256
    with open_tensorrt(bundle) as runner:
        runner.run("rgb")


def test_a_plan_that_answers_otherwise_is_thrown_away_with_the_figures(
    bundle: Bundle, tensorrt_11: Any, store: PlanStore
) -> None:
    build_plans(bundle, BuildOptions(remainder="fp32"))
    tensorrt_11.double.replaces = scaled
    with pytest.raises(PlanRejectedError) as caught:
        build_plans(bundle, BuildOptions(remainder="fp32"), force=True)
    assert "differs from the ONNX graph by" in str(caught.value)
    assert f"the tolerance is {OUTPUT_RMS_MAX:g}" in str(caught.value)
    assert caught.value.graph in bundle.manifest.graphs
    tensorrt_11.double.replaces = None
    _, built = build_plans(bundle, BuildOptions(remainder="fp32"))
    assert not built  # the good ones from before are still there


def test_the_canary_refuses_a_runner_that_finds_nothing(bundle: Bundle) -> None:
    with OnnxRunner(bundle) as reference, NullRunner(bundle) as nothing:
        for frame in module.canary_frames():
            assert frame.rgb is not None
        with pytest.raises(PlanRejectedError):
            compare(bundle.manifest, reference, nothing, module.canary_frames())
        figures = compare(bundle.manifest, reference, reference, module.canary_frames())
    assert figures["frames"] == 3


def test_ctrl_c_while_building_leaves_nothing(bundle: Bundle, tensorrt_11: Any, store: PlanStore) -> None:
    def stop(graph: str, phase: str, done: int, steps: int) -> None:
        if graph == "fuse":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_plans(bundle, BuildOptions(), progress=stop)
    assert list(store.root.glob(f"*/{SIDECAR_NAME}")) == []
    assert list(store.root.glob("**/*.plan")) == []


def test_a_graph_that_the_parser_refuses_names_the_node(
    bundle: Bundle, tensorrt_11: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = onnx.helper.make_node("QLinearConv", ["a"] * 8, ["b"], name="old form")
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], []))
    monkeypatch.setattr(Bundle, "read_graph", lambda *_: model.SerializeToString())
    with pytest.raises(EngineError, match=r"node 0 \(QLinearConv old form\): QOperator"):
        build_plans(bundle, BuildOptions(remainder="fp32"))


def test_auto_takes_tensorrt_where_there_are_plans_and_says_why_not_where_there_are_none(
    bundle: Bundle, tensorrt_11: Any
) -> None:
    runner, choice = open_runner(bundle)
    runner.close()
    assert choice.device == "cpu"
    assert [name for name, _ in choice.tried] == ["tensorrt", "cuda"]
    assert "edge-sdk engines build toy-fusion" in choice.tried[0][1]
    with pytest.raises(EngineError, match="no plans of 'toy-fusion'"):
        open_runner(bundle, "tensorrt")
    build_plans(bundle, BuildOptions())
    for device in ("auto", "tensorrt"):
        runner, choice = open_runner(bundle, device)
        runner.close()
        assert (choice.device, choice.tried) == ("tensorrt", ())
        assert choice.provider == "TensorRT 11.4.1 on Orin (emulated)"


def test_plans_for_another_gpu_are_refused_before_tensorrt_sees_them(
    bundle: Bundle, tensorrt_11: Any, emulator: Emulator
) -> None:
    build_plans(bundle, BuildOptions())
    emulator.become("discrete")
    with pytest.raises(PlanMismatchError, match=r"built for GPU Orin \(emulated\).*found GPU Ada card"):
        open_runner(bundle, "tensorrt")


def test_plans_from_elsewhere_need_a_hash_and_then_load(
    bundle: Bundle, tensorrt_11: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, _ = build_plans(bundle, BuildOptions())
    elsewhere = tmp_path / "elsewhere"
    loaded.folder.rename(elsewhere)
    with pytest.raises(ConfigError, match="plans from elsewhere are code"):
        PlanOptions(folder=elsewhere)
    options = PlanOptions(folder=elsewhere, trust_sha256=loaded.sha256)
    runner, choice = open_runner(bundle, plan_options=options)
    runner.close()
    assert choice.device == "tensorrt"
    with pytest.raises(EngineError, match="not the plans that you trust"):
        open_runner(bundle, plan_options=replace(options, trust_sha256="0" * 64))


# DLA ----------------------------------------------------------------------------------------------


def dla(bundle: Bundle, root: Path, **options: Any) -> Any:
    build = BuildOptions(remainder="fp32", dla_core=0, **options)
    return build_plans(bundle, build, root=root, load_library=lambda name: None)[0]


def board(root: Path, model: str) -> Path:
    (root / "proc/device-tree").mkdir(parents=True)
    (root / "proc/device-tree/model").write_bytes(model.encode() + b"\0")
    return root


def test_the_thermal_graph_goes_on_a_dla_and_the_inspector_says_what_is_left(
    bundle: Bundle, tensorrt_11: Any, tmp_path: Path
) -> None:
    root = board(tmp_path / "root", "NVIDIA Jetson AGX Orin Developer Kit")
    with pytest.raises(EngineError, match="are not supported on DLA"):
        dla(bundle, root)
    loaded = dla(bundle, root, dla_gpu_fallback=True)
    assert loaded.sidecar.plans["thermal"].dla_layers == 1
    assert loaded.sidecar.plans["thermal"].gpu_layers > 0
    assert loaded.sidecar.plans["rgb"].dla_layers == 0
    assert loaded.sidecar.key.dla == "thermal"
    assert loaded.sidecar.key.module == "NVIDIA Jetson AGX Orin Developer Kit"
    with open_tensorrt(bundle, options=PlanOptions(dla=True), root=root) as runner:
        runner.run("thermal")
    with pytest.raises(PlanMismatchError, match="built for DLA thermal, found DLA none"):
        open_tensorrt(bundle, root=root)


def test_a_thermal_graph_that_silently_lies_on_the_gpu_is_refused(
    bundle: Bundle, tensorrt_11: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tensorrt_double.building._DLA_OPERATORS", {"Nothing"})
    with pytest.raises(PlanRejectedError, match=r"0 layers on the DLA and \d+ on the GPU"):
        dla(bundle, board(tmp_path / "root", "NVIDIA Jetson AGX Orin"), dla_gpu_fallback=True)


def test_a_dla_is_refused_with_the_reason(bundle: Bundle, tensorrt_11: Any, tmp_path: Path) -> None:
    nano = board(tmp_path / "nano", "NVIDIA Jetson Orin Nano Developer Kit")
    with pytest.raises(ConfigError, match="Orin Nano Developer Kit has no DLA"):
        dla(bundle, nano)

    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    agx = board(tmp_path / "agx", "NVIDIA Jetson AGX Orin")
    with pytest.raises(ConfigError, match=r"libnvdla_compiler\.so is missing"):
        build_plans(bundle, BuildOptions(dla_core=0), root=agx, load_library=missing)
    tensorrt_11.double.dla_cores = 0
    with pytest.raises(ConfigError, match="this module has 0 DLA cores"):
        dla(bundle, agx)


def test_a_dynamic_shape_cannot_go_on_a_dla(
    bundle: Bundle, tensorrt_11: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Bundle.read_graph

    def open_batch(self: Bundle, graph: str, precision: str | None = None) -> bytes:
        model = onnx.load_model_from_string(real(self, graph, precision))
        if graph == "thermal":
            model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
        return bytes(model.SerializeToString())

    monkeypatch.setattr(Bundle, "read_graph", open_batch)
    with pytest.raises(ConfigError, match=r"'thermal' has the dynamic shape \[-1, 48, 64, 1\]"):
        dla(bundle, board(tmp_path / "root", "NVIDIA Jetson AGX Orin"))


@pytest.mark.parametrize(
    ("layers", "places"),
    [
        ([{"Name": "a", "LayerType": "CaskConvolution"}, {"Name": "b"}], (0, 2)),
        ([{"Name": "{ForeignNode[a...b]}", "LayerType": "Myelin"}], (0, 1)),
        ([{"Name": "{ForeignNode[a...b]}"}], (0, 1)),
        ([{"Name": "x to nvm"}, {"Name": "{ForeignNode[a...b]}"}, {"Name": "y from nvm"}], (1, 0)),
        ([{"Name": "x to nvm"}, {"Name": "{ForeignNode[a]}", "LayerType": "Myelin"}], (0, 1)),
        ([{"Name": "a", "LayerType": "DLA"}, {"Name": "images copy finish"}], (1, 0)),
    ],
)
def test_layers_are_counted_by_where_they_run(layers: list[dict[str, Any]], places: tuple[int, int]) -> None:
    assert layer_places(tuple(layers)) == places


# Baseline -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("now_ms", "warns"), [(1.4, False), (1.6, True)])
def test_a_graph_that_has_become_slower_is_warned_of(
    bundle: Bundle,
    tensorrt_11: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    now_ms: float,
    warns: bool,
) -> None:
    """The times are made up here: an emulated driver has none."""
    runner_type = module.TensorRtRunner
    monkeypatch.setattr(runner_type, "emulated", property(lambda _: False))
    monkeypatch.setattr(runner_type, "gpu_times", lambda *_: GpuTimes(0, 1.0, 0))
    loaded, _ = build_plans(bundle, BuildOptions())
    assert loaded.sidecar.baseline_ms == dict.fromkeys(bundle.manifest.graphs, 1.0)
    monkeypatch.setattr(runner_type, "gpu_times", lambda *_: GpuTimes(0, now_ms, 0))
    with caplog.at_level(logging.WARNING):
        open_tensorrt(bundle).close()
    text = "graph 'rgb' takes 1.60 ms on the GPU, 1.6 times the 1.00 ms measured when its plan was built"
    assert (text in caplog.text) == warns


# Command line -------------------------------------------------------------------------------------


def test_the_command_builds_and_says_what_was_compared(
    toy_fusion: Path, tensorrt_11: Any, tmp_path: Path
) -> None:
    arguments = ["engines", "build", str(toy_fusion), "--json", str(tmp_path / "plans.json")]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "Built for TensorRT 11.4.1 on Orin (emulated)" in result.output
    assert "The CUDA driver is emulated: no time was measured." in result.output
    assert "SHA-256 of their record" in result.output
    assert " ms" not in result.output
    assert json.loads((tmp_path / "plans.json").read_text())["schema"] == 1
    again = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert "there already" in again.output


def test_bench_graphs_prints_no_time_of_an_emulator(toy_fusion: Path, tensorrt_11: Any) -> None:
    build_plans(load_bundle(toy_fusion), BuildOptions())
    with pytest.raises(DeviceError, match="an emulated driver has no times to measure"):
        CliRunner().invoke(app, ["bench", "graphs", "--engine", str(toy_fusion)], catch_exceptions=False)


def test_bench_graphs_prints_what_was_found(
    toy_fusion: Path, tensorrt_11: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The table alone: a clock that this test made up."""
    monkeypatch.setattr(
        "edge_sdk.bench.graphs.measure_graphs",
        lambda engine: (
            "TensorRT (made up)",
            (module_trial("rgb", True), module_trial("fuse", False)),
        ),
    )
    result = CliRunner().invoke(
        app, ["bench", "graphs", "--json", str(tmp_path / "g.json")], env={"COLUMNS": "160"}
    )
    assert result.exit_code == 0, result.output
    assert "0.100 ms (0.080 to 0.120)" in result.output
    assert json.loads((tmp_path / "g.json").read_text())["graphs"][0]["launches"] == 42


def module_trial(graph: str, kept: bool) -> Any:
    from edge_sdk.engine.tensorrt_graphs import GraphTrial

    return GraphTrial(graph, kept, "measured faster", 42, 1.0, 0.9, (0.08, 0.1, 0.12))


@pytest.mark.parametrize("module", ["onnxruntime", "onnx"])
def test_what_the_comparison_needs_is_missed_before_anything_is_built(
    bundle: Bundle, tensorrt: Any, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    steps: list[Any] = []
    with pytest.raises(DeviceNotFoundError, match=rf"pip install '{module}>=") as missing:
        build_plans(bundle, BuildOptions(), progress=lambda *step: steps.append(step))
    assert not steps
    assert "opencv" not in str(missing.value)  # on a Jetson one from pip would hide JetPack's
