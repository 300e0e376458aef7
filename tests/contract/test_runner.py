"""What every runner must do, over every implementation that this machine can run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from edge_sdk.buffers import ALIGNMENT
from edge_sdk.engine import Bundle, NullRunner, Runner, load_bundle
from edge_sdk.engine.onnx_runner import OnnxRunner
from edge_sdk.errors import ConfigError, StateError

RUNNERS: dict[str, Callable[[Bundle], Runner]] = {"onnx on cpu": OnnxRunner, "null": NullRunner}


@pytest.fixture(params=RUNNERS)
def make(request: pytest.FixtureRequest) -> Callable[[Bundle], Runner]:
    """Makes a runner of one kind."""
    return RUNNERS[request.param]


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


def test_every_tensor_has_memory_of_its_shape(runner: Runner, bundle: Bundle) -> None:
    for graph in bundle.manifest.graphs.values():
        for spec in (*graph.inputs, *graph.outputs):
            array = runner.array(graph.name, spec.name)
            assert array.shape == spec.shape
            assert array.dtype == np.dtype(spec.dtype)
            assert array.flags.c_contiguous
            assert array.ctypes.data % ALIGNMENT == 0


def test_memory_is_shared_by_name_and_detections_are_not(runner: Runner) -> None:
    assert runner.array("fuse", "thermal") is runner.array("thermal", "thermal")
    assert runner.array("rgb", "features") is runner.array("fuse", "features")
    scores = [runner.array(graph, "scores") for graph in ("rgb", "fuse", "thermal")]
    assert len({array.ctypes.data for array in scores}) == 3


def test_the_same_arrays_for_ever(runner: Runner, bundle: Bundle) -> None:
    places = [
        (graph.name, spec.name)
        for graph in bundle.manifest.graphs.values()
        for spec in (*graph.inputs, *graph.outputs)
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


def test_nothing_works_after_close(make: Callable[[Bundle], Runner], bundle: Bundle) -> None:
    runner = make(bundle)
    kept = runner.array("rgb", "rgb")
    runner.close()
    runner.close()
    with pytest.raises(StateError, match="closed"):
        runner.run("rgb")
    with pytest.raises(StateError, match="closed"):
        runner.array("rgb", "rgb")
    kept.fill(1)  # a view that was kept is stale, not a crash


def test_a_black_pair_gives_nothing(runner: Runner, bundle: Bundle) -> None:
    for graph in ("rgb", "fuse", "thermal"):
        runner.run(graph)
        scores = runner.array(graph, "scores")
        assert scores.max() < np.log(bundle.manifest.decode.score_min)
    runner.run("screen")
    assert runner.array("screen", "hot") < 0
