"""The TensorRT runner on the double and the emulated driver: what it refuses, gives back, and never does."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundles import write_toy_fusion_bundle
from emulator import Emulator

from edge_sdk.buffers.cuda import CudaDevice
from edge_sdk.engine import Bundle, Runner, load_bundle
from edge_sdk.engine.onnx_runner import OnnxRunner
from edge_sdk.engine.tensorrt_api import TensorRt, import_tensorrt
from edge_sdk.engine.tensorrt_build import BuildOptions, build_plan
from edge_sdk.engine.tensorrt_runner import SharedEngines, TensorRtRunner
from edge_sdk.errors import (
    ConfigError,
    CudaError,
    DeviceNotFoundError,
    EngineError,
    EngineMismatchError,
    InferenceError,
    StateError,
)


@pytest.fixture
def bundle(toy_fusion: Path) -> Bundle:
    return load_bundle(toy_fusion)


@pytest.fixture
def plans(bundle: Bundle, tensorrt_11: Any) -> dict[str, bytes]:
    api = TensorRt(tensorrt_11)
    return {
        name: build_plan(api, bundle.read_graph(name), name, BuildOptions()).plan
        for name in bundle.manifest.graphs
    }


def opened(bundle: Bundle, plans: dict[str, bytes], **settings: Any) -> TensorRtRunner:
    """Opens GPU, plans and runner, which owns them all."""
    shared = SharedEngines(import_tensorrt(), CudaDevice.open(), bundle.manifest, plans)
    try:
        return TensorRtRunner(shared, **settings)
    finally:
        shared.release()


@pytest.fixture
def runner(bundle: Bundle, plans: dict[str, bytes]) -> Iterator[TensorRtRunner]:
    with opened(bundle, plans) as made:
        yield made


def fill(runner: Runner, seed: int) -> None:
    noise = np.random.default_rng(seed)
    for graph, tensor in (("rgb", "rgb"), ("thermal", "thermal")):
        array = runner.array(graph, tensor)
        array[...] = noise.integers(0, 255, array.shape)


def answers(runner: Runner) -> list[Any]:
    for graph in runner.graphs:
        runner.run(graph)
    places = [(graph, name) for graph in ("rgb", "fuse", "thermal") for name in ("scores", "boxes")]
    return [runner.array(*place).copy() for place in (*places, ("screen", "hot"))]


@pytest.mark.parametrize("personality", ["integrated", "discrete"])
def test_it_answers_as_onnx_runtime_does(
    bundle: Bundle, plans: dict[str, bytes], emulator: Emulator, personality: str
) -> None:
    emulator.become(personality)
    with opened(bundle, plans) as runner, OnnxRunner(bundle) as reference:
        assert isinstance(runner, Runner)
        for seed in (1, 2, 3):
            fill(runner, seed)
            fill(reference, seed)
            for got, wanted in zip(answers(runner), answers(reference), strict=True):
                np.testing.assert_array_equal(got, wanted)


def test_features_stay_on_the_gpu(runner: TensorRtRunner) -> None:
    with pytest.raises(ConfigError, match="fuse/features stays on the device"):
        runner.array("fuse", "features")
    assert set(runner.memory_nbytes) == {"mapped", "device"}
    assert runner.array("fuse", "thermal") is runner.array("thermal", "thermal")


def test_unknown_names_and_a_closed_runner(bundle: Bundle, plans: dict[str, bytes]) -> None:
    runner = opened(bundle, plans)
    with pytest.raises(ConfigError, match="no graph 'rgbt'; this bundle has rgb, fuse"):
        runner.run("rgbt")
    with pytest.raises(ConfigError, match="'fuse' has no tensor 'rgb'"):
        runner.array("fuse", "rgb")
    runner.close()
    runner.close()
    for use in (lambda: runner.run("rgb"), lambda: runner.array("rgb", "rgb"), lambda: runner.layers("rgb")):
        with pytest.raises(StateError, match="closed"):
            use()
    with pytest.raises(StateError, match="the engines are closed"):
        runner.another()


@pytest.mark.parametrize("cuda_graphs", ["off", "on"])
def test_a_refused_enqueue_never_shows_old_results(
    bundle: Bundle, plans: dict[str, bytes], tensorrt_11: Any, cuda_graphs: str
) -> None:
    with opened(bundle, plans, cuda_graphs=cuda_graphs) as runner:
        fill(runner, 1)
        before = answers(runner)
        tensorrt_11.double.refuse_enqueues = 1
        lane = runner._lanes["rgb"]
        if cuda_graphs == "on":  # a replay enqueues nothing; a moved buffer makes it capture again
            lane.bind("rgb", runner._device.allocate(lane.graph.inputs[0].nbytes, "mapped"))
        with pytest.raises(InferenceError, match=r"graph 'rgb' failed on TensorRT 11\.4\.1: enqueue refused"):
            runner.run("rgb")
        assert np.isnan(runner.array("rgb", "scores")).all()
        assert runner.gpu_times("rgb") is None
        runner._lanes["rgb"].bind("rgb", runner._memory.buffer("rgb", "rgb"))  # type: ignore[union-attr]
        for got, wanted in zip(answers(runner), before, strict=True):
            np.testing.assert_array_equal(got, wanted)
        for kept in list(runner._device._owned.values()):
            if getattr(kept, "kind", "") == "mapped" and kept not in runner._memory._buffers.values():  # type: ignore[union-attr]
                kept.close()


def test_a_fault_of_the_driver_is_an_inference_error(runner: TensorRtRunner, emulator: Emulator) -> None:
    fill(runner, 1)
    before = answers(runner)
    emulator.fail("cuStreamSynchronize", 1, 700)
    with pytest.raises(InferenceError, match=r"graph 'rgb' failed on TensorRT.*cuStreamSynchronize failed"):
        runner.run("rgb")
    emulator.stop_failing()
    for got, wanted in zip(answers(runner), before, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_second_thread_is_refused_and_gets_a_runner_of_its_own(runner: TensorRtRunner) -> None:
    fill(runner, 1)
    wanted = answers(runner)
    with runner._alone("rgb"), pytest.raises(StateError, match=r"another thread.*runner\.another\(\)"):
        runner.run("rgb")
    found: list[Any] = []
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with runner.another() as own:
                assert own.array("rgb", "rgb") is not runner.array("rgb", "rgb")
                fill(own, 1)
                found.append(answers(own))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(found) == 3
    for each in found:
        for got, expected in zip(each, wanted, strict=True):
            np.testing.assert_array_equal(got, expected)


def test_the_plans_outlive_the_first_runner(bundle: Bundle, plans: dict[str, bytes]) -> None:
    first = opened(bundle, plans)
    with first.another() as second:
        first.close()
        fill(second, 1)
        assert np.isfinite(answers(second)[0]).all()


def test_ahead_is_used_only_by_the_graph_after_next(
    bundle: Bundle, plans: dict[str, bytes], emulator: Emulator
) -> None:
    emulator.become("discrete")
    thermal = bundle.manifest.graphs["fuse"].images[0].nbytes
    rgb = bundle.manifest.graphs["rgb"].images[0].nbytes
    with opened(bundle, plans, overlap_upload=True) as runner, OnnxRunner(bundle) as reference:
        for seed, between in ((1, ["rgb"]), (2, ["rgb", "screen"])):
            fill(runner, seed)
            fill(reference, seed)
            emulator.reset_counts()
            runner.upload_ahead("fuse")
            for graph in between:
                runner.run(graph)
            runner.run("fuse")
            again = 0 if between == ["rgb"] else 2 * thermal
            assert emulator.count("host_to_device_bytes") == rgb + thermal + again
            reference.run("rgb")
            reference.run("fuse")
            np.testing.assert_array_equal(runner.array("fuse", "scores"), reference.array("fuse", "scores"))


def test_cuda_graphs_replay_and_capture_again_when_a_buffer_moves(
    bundle: Bundle, plans: dict[str, bytes], emulator: Emulator
) -> None:
    with opened(bundle, plans, cuda_graphs="on") as runner, OnnxRunner(bundle) as reference:
        assert [(trial.kept, trial.launches) for trial in runner.graph_trials] == [(True, 1)] * 4
        assert not runner.array("rgb", "rgb").any()
        fill(runner, 5)
        fill(reference, 5)
        emulator.reset_counts()
        for got, wanted in zip(answers(runner), answers(reference), strict=True):
            np.testing.assert_array_equal(got, wanted)
        assert emulator.count("graph_launches") == 4
        moved = runner._device.allocate(bundle.manifest.graphs["rgb"].inputs[0].nbytes, "mapped")
        runner._lanes["rgb"].bind("rgb", moved)
        fill(reference, 6)
        shape = reference.array("rgb", "rgb").shape
        moved.as_array(np.uint8, shape)[...] = reference.array("rgb", "rgb")
        runner.run("rgb")
        reference.run("rgb")
        np.testing.assert_array_equal(runner.array("rgb", "scores"), reference.array("rgb", "scores"))
        assert emulator.count("graph_instantiations") == 1
        runner._lanes["rgb"].bind("rgb", runner._memory.buffer("rgb", "rgb"))  # type: ignore[union-attr]
        moved.free()


def test_an_emulated_driver_has_no_times(bundle: Bundle, plans: dict[str, bytes]) -> None:
    with opened(bundle, plans, cuda_graphs="auto") as runner:
        runner.run("rgb")
        assert runner.emulated
        assert runner.gpu_times("rgb") is None
        assert {trial.why for trial in runner.graph_trials} == {
            "the driver is emulated: its times mean nothing"
        }
        assert all(trial.plain_ms is None and not trial.kept for trial in runner.graph_trials)


def test_events_give_three_times_once_the_graph_has_run(runner: TensorRtRunner) -> None:
    lane = runner._lanes["rgb"]
    with runner._device.current():
        assert lane.times() is None
        runner.run("rgb")
        times = lane.times()
    assert times is not None
    assert min(times.upload_ms, times.engine_ms, times.download_ms) >= 0


OPENING = (
    "cuMemHostAlloc",
    "cuMemAlloc",
    "cuMemsetD8",
    "cuStreamCreate",
    "cuEventCreate",
    "cuStreamBeginCapture",
    "cuStreamEndCapture",
    "cuGraphInstantiate",
    "cuGraphLaunch",
    "cuLaunchHostFunc",
    "cuMemcpyHtoDAsync",
    "cuMemcpyDtoHAsync",
    "cuStreamSynchronize",
)


@pytest.mark.parametrize("function", OPENING)
def test_every_failure_while_opening_gives_everything_back(
    bundle: Bundle, plans: dict[str, bytes], emulator: Emulator, function: str
) -> None:
    """Fails an early or late call of a function, until an opening needs no such call."""
    emulator.become("discrete")
    struck = 0
    for nth in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144):
        emulator.fail(function, nth)
        with contextlib.suppress(CudaError, DeviceNotFoundError, EngineError):
            opened(bundle, plans, cuda_graphs="on", overlap_upload=True).close()
        if not emulator.stop_failing():
            break
        struck += 1
        assert emulator.alive() == {}, f"call {nth} of {function}"
    assert struck >= 1


@pytest.mark.parametrize("damage", ["foreign", "bit-flipped", "truncated", "empty"])
def test_a_plan_that_tensorrt_refuses_gives_its_reason(
    bundle: Bundle, plans: dict[str, bytes], damage: str, emulator: Emulator
) -> None:
    plan = plans["fuse"]
    plans["fuse"] = {
        "foreign": b"ftrt" + bytes(100),
        "bit-flipped": plan[:-1] + bytes([plan[-1] ^ 1]),
        "truncated": plan[:-10],
        "empty": b"",
    }[damage]
    with pytest.raises(EngineError, match=r"TensorRT 11\.4\.1 refuses the plan of graph 'fuse': \[double\]"):
        opened(bundle, plans)
    assert emulator.alive() == {}


def test_a_plan_of_another_shape_and_a_missing_one(
    bundle: Bundle, plans: dict[str, bytes], tmp_path: Path, tensorrt_11: Any
) -> None:
    other = load_bundle(write_toy_fusion_bundle(tmp_path / "other", (128, 96), screen=True))
    api = TensorRt(tensorrt_11)
    wrong = {**plans, "rgb": build_plan(api, other.read_graph("rgb"), "rgb", BuildOptions()).plan}
    with pytest.raises(EngineMismatchError, match=r"'rgb' of the plan: expected uint8\[1, 48, 64, 3\]"):
        opened(bundle, wrong)
    del plans["screen"]
    with pytest.raises(EngineError, match=r"no plan of graph screen.*engines build toy-fusion --force"):
        opened(bundle, plans)


def test_tensorrts_log_goes_to_pythons(
    bundle: Bundle, plans: dict[str, bytes], tensorrt_11: Any, caplog: pytest.LogCaptureFixture
) -> None:
    severity = tensorrt_11.ILogger.Severity
    log = TensorRt(tensorrt_11).log
    with caplog.at_level(logging.DEBUG, "edge_sdk.tensorrt"):
        for level in (
            severity.VERBOSE,
            severity.INFO,
            severity.WARNING,
            severity.ERROR,
            severity.INTERNAL_ERROR,
        ):
            log.log(level, f"as {level.name}")
    found = [(record.levelname, record.message) for record in caplog.records]
    assert found == [
        ("DEBUG", "as VERBOSE"),
        ("INFO", "as INFO"),
        ("WARNING", "as WARNING"),
        ("ERROR", "as ERROR"),
        ("CRITICAL", "as INTERNAL_ERROR"),
    ]
    assert log.why() == "as ERROR; as INTERNAL_ERROR"
    assert TensorRt(tensorrt_11).log is log


@pytest.mark.parametrize(
    ("version", "words"), [("8.6.2", "found 8.6.2, needs 10.3 or later"), ("", "there but empty")]
)
def test_a_tensorrt_that_is_too_old_or_empty_is_refused(tensorrt_11: Any, version: str, words: str) -> None:
    tensorrt_11.__version__ = version
    with pytest.raises(DeviceNotFoundError, match=words):
        TensorRt(tensorrt_11)


def test_without_tensorrt_it_says_which_python_and_which_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tensorrt", None)
    with pytest.raises(DeviceNotFoundError, match=r"system's Python and --system-site-packages"):
        import_tensorrt()


def test_a_mode_that_does_not_exist_is_refused(bundle: Bundle, plans: dict[str, bytes]) -> None:
    with pytest.raises(ConfigError, match="CUDA graphs 'sometimes': expected auto, on, off"):
        opened(bundle, plans, cuda_graphs="sometimes")
