"""Whether a CUDA graph is used: by its answers first, by made-up times second. No time here is a device's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_sdk.buffers.cuda import CudaDevice
from edge_sdk.buffers.cuda_graphs import CudaGraph, capture
from edge_sdk.engine import load_bundle
from edge_sdk.engine import tensorrt_lane as lane_module
from edge_sdk.engine.tensorrt_api import TensorRt
from edge_sdk.engine.tensorrt_build import BuildOptions, build_plan
from edge_sdk.engine.tensorrt_graphs import GraphTrial, try_graphs
from edge_sdk.engine.tensorrt_runner import SharedEngines, TensorRtRunner
from edge_sdk.errors import ConfigError, CudaError

Cost = Callable[[bool, int], int]
"""(whether a lane replays, number of the call) -> nanoseconds since the last call."""


class LaneClock:
    """A clock on which a run takes what `cost` says, from whether any lane replays."""

    def __init__(self, cost: Cost) -> None:
        self.now, self.calls, self._cost = 0, 0, cost
        self.runner: TensorRtRunner | None = None

    def now_ns(self) -> int:
        assert self.runner is not None
        self.calls += 1
        replays = any(lane.replays for lane in self.runner._lanes.values())
        self.now += self._cost(replays, self.calls)
        return self.now

    def sleep_until_ns(self, deadline_ns: int) -> None:
        raise AssertionError("nothing waits here")


@pytest.fixture
def runner(toy_fusion: Path, tensorrt_11: Any) -> Iterator[TensorRtRunner]:
    bundle, api = load_bundle(toy_fusion), TensorRt(tensorrt_11)
    graphs = bundle.manifest.graphs
    plans = {name: build_plan(api, bundle.read_graph(name), name, BuildOptions()).plan for name in graphs}
    shared = SharedEngines(api, CudaDevice.open(), bundle.manifest, plans)
    with TensorRtRunner(shared) as made:
        shared.release()
        yield made


def tried(
    runner: TensorRtRunner, cost: Callable[[bool, int], int], mode: str = "auto"
) -> tuple[GraphTrial, ...]:
    clock = LaneClock(cost)
    clock.runner = runner
    memory = runner._memory
    assert memory is not None
    with runner._device.current():
        return try_graphs(runner._lanes, memory, mode, clock, emulated=False, turns=20)


def test_a_replay_that_is_faster_by_more_than_the_noise_is_kept(runner: TensorRtRunner) -> None:
    trials = tried(runner, lambda replays, call: 1_000_000 if replays else 2_000_000 + call % 3)
    assert [(trial.kept, trial.why) for trial in trials] == [(True, "measured faster")] * 4
    assert trials[0].plain_ms == pytest.approx(2.0, abs=0.01)
    assert trials[0].replay_ms == pytest.approx(1.0)
    assert trials[0].gain_ms is not None
    assert trials[0].gain_ms[0] > 0.9
    assert all(lane.replays for lane in runner._lanes.values())


@pytest.mark.parametrize(
    "cost",
    [
        lambda replays, call: 1_000_000,
        lambda replays, call: 2_000_000 if replays else 1_000_000,
        lambda replays, call: 1_000_000 + 400_000 * (call // 4 % 2 == 0) - 1_000 * replays,
    ],
    ids=["the same", "slower", "within the noise"],
)
def test_a_replay_that_is_not_is_dropped(runner: TensorRtRunner, cost: Cost) -> None:
    trials = tried(runner, cost)
    assert {(trial.kept, trial.why) for trial in trials} == {
        (False, "not measured faster by more than the noise")
    }
    assert not any(lane.replays for lane in runner._lanes.values())


def test_a_replay_of_old_results_is_found_out(
    runner: TensorRtRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a refused enqueue inside a capture: the graph holds nothing, and the old results stay."""

    def empty(stream: Any, enqueue: Callable[[], None]) -> CudaGraph:
        return capture(stream, lambda: None)

    monkeypatch.setattr(lane_module, "capture", empty)
    trials = tried(runner, lambda replays, call: 1, "on")
    assert not any(trial.kept for trial in trials)
    assert all("off an ordinary run; two different inputs differ by" in trial.why for trial in trials)
    assert not any(lane.replays for lane in runner._lanes.values())


def test_a_capture_that_fails_is_told_and_not_kept(
    runner: TensorRtRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(stream: Any, enqueue: Callable[[], None]) -> CudaGraph:
        raise CudaError("cuStreamEndCapture", "operation not permitted (900)")

    monkeypatch.setattr(lane_module, "capture", refused)
    trials = tried(runner, lambda replays, call: 1)
    assert {trial.kept for trial in trials} == {False}
    assert trials[0].why.startswith("cannot be captured: cuStreamEndCapture failed: operation not permitted")
    runner.run("rgb")


def test_a_mode_that_does_not_exist(runner: TensorRtRunner) -> None:
    with pytest.raises(ConfigError, match="expected auto, on, off"):
        tried(runner, lambda replays, call: 1, "maybe")
    assert tried(runner, lambda replays, call: 1, "off") == ()
