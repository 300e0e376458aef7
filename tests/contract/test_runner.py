"""What every runner must do, over every implementation that this machine can run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from edge_sdk.buffers import ALIGNMENT
from edge_sdk.buffers.cuda import CudaDevice
from edge_sdk.engine import Bundle, NullRunner, Runner, load_bundle
from edge_sdk.engine.manifest import FEATURES
from edge_sdk.engine.onnx_runner import OnnxRunner
from edge_sdk.engine.tensorrt_api import TensorRt
from edge_sdk.engine.tensorrt_build import BuildOptions, build_plan
from edge_sdk.engine.tensorrt_runner import SharedEngines, TensorRtRunner
from edge_sdk.errors import ConfigError, StateError

TENSORRT = {"tensorrt on a jetson (double)": "integrated", "tensorrt on a card (double)": "discrete"}
"""Runners on the TensorRT double -> what the emulated driver is. Their features stay on the device."""

RUNNERS: dict[str, Callable[[Bundle], Runner]] = {"onnx on cpu": OnnxRunner, "null": NullRunner}


@pytest.fixture(params=[*RUNNERS, *TENSORRT])
def kind(request: pytest.FixtureRequest) -> str:
    """Which runner."""
    return str(request.param)


@pytest.fixture
def make(kind: str, request: pytest.FixtureRequest) -> Callable[[Bundle], Runner]:
    """Makes a runner of one kind."""
    if kind not in TENSORRT:
        return RUNNERS[kind]
    module = request.getfixturevalue("tensorrt_11")
    request.getfixturevalue("emulator").become(TENSORRT[kind])

    def make_tensorrt(bundle: Bundle) -> Runner:
        api = TensorRt(module)
        names = bundle.manifest.graphs
        plans = {name: build_plan(api, bundle.read_graph(name), name, BuildOptions()).plan for name in names}
        shared = SharedEngines(api, CudaDevice.open(), bundle.manifest, plans)
        try:
            return TensorRtRunner(shared)
        finally:
            shared.release()

    return make_tensorrt


@pytest.fixture
def bundle(toy_fusion: Path) -> Bundle:
    """The toy fusion bundle."""
    return load_bundle(toy_fusion)


@pytest.fixture
def runner(make: Callable[[Bundle], Runner], bundle: Bundle) -> Iterator[Runner]:
    """An open runner of the toy fusion bundle."""
    with make(bundle) as opened:
        yield opened


def test_it_is_a_runner_that_says_what_it_runs(runner: Runner, bundle: Bundle) -> None:
    assert isinstance(runner, Runner)
    assert runner.graphs == tuple(bundle.manifest.graphs)
    assert runner.provider


def test_every_tensor_has_memory_of_its_shape(kind: str, runner: Runner, bundle: Bundle) -> None:
    for graph in bundle.manifest.graphs.values():
        for spec in (*graph.inputs, *graph.outputs):
            if kind in TENSORRT and spec.meaning == FEATURES:
                with pytest.raises(ConfigError, match="stays on the device"):
                    runner.array(graph.name, spec.name)
                continue
            array = runner.array(graph.name, spec.name)
            assert array.shape == spec.shape
            assert array.dtype == np.dtype(spec.dtype)
            assert array.flags.c_contiguous
            assert array.ctypes.data % ALIGNMENT == 0


def test_memory_is_shared_by_name_and_detections_are_not(kind: str, runner: Runner) -> None:
    assert runner.array("fuse", "thermal") is runner.array("thermal", "thermal")
    if kind not in TENSORRT:
        assert runner.array("rgb", "features") is runner.array("fuse", "features")
    scores = [runner.array(graph, "scores") for graph in ("rgb", "fuse", "thermal")]
    assert len({array.ctypes.data for array in scores}) == 3


def test_the_same_arrays_for_ever(runner: Runner, bundle: Bundle) -> None:
    places = [
        (graph.name, spec.name)
        for graph in bundle.manifest.graphs.values()
        for spec in (*graph.inputs, *graph.outputs)
        if spec.meaning != FEATURES
    ]
    before = [runner.array(*place) for place in places]
    for _ in range(3):
        for graph in runner.graphs:
            runner.run(graph)
    assert all(runner.array(*place) is array for place, array in zip(places, before, strict=True))


def test_unknown_names_are_refused_with_the_known_ones(runner: Runner) -> None:
    with pytest.raises(ConfigError, match="no graph 'rgbt'; this bundle has rgb, fuse"):
        runner.run("rgbt")
    with pytest.raises(ConfigError, match="no graph 'rgbt'; this bundle has rgb, fuse"):
        runner.array("rgbt", "rgb")
    with pytest.raises(ConfigError, match="'fuse' has no tensor 'rgb'; it has thermal, features"):
        runner.array("fuse", "rgb")


def test_nothing_works_after_close(kind: str, make: Callable[[Bundle], Runner], bundle: Bundle) -> None:
    runner = make(bundle)
    kept = runner.array("rgb", "rgb")
    runner.close()
    runner.close()
    with pytest.raises(StateError, match="closed"):
        runner.run("rgb")
    with pytest.raises(StateError, match="closed"):
        runner.array("rgb", "rgb")
    if kind not in TENSORRT:  # memory of a driver is gone for good
        kept.fill(1)  # a view that was kept is stale, not a crash


def test_a_black_pair_gives_nothing(runner: Runner, bundle: Bundle) -> None:
    for graph in ("rgb", "fuse", "thermal"):
        runner.run(graph)
        scores = runner.array(graph, "scores")
        assert scores.max() < np.log(bundle.manifest.decode.score_min)
    runner.run("screen")
    assert runner.array("screen", "hot") < 0
