"""Whether CUDA graphs help: captured, checked against stale results, measured, and kept only if faster.

A CUDA graph replays a whole network with one launch. It replays the addresses of its capture too, so a
refused capture or a moved buffer would show old results as new ones: each capture must give, for two
different inputs, what an ordinary run gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edge_sdk.clock import Clock
from edge_sdk.engine.tensorrt_lane import Lane
from edge_sdk.engine.tensorrt_memory import DeviceMemory
from edge_sdk.errors import ConfigError, CudaError, DeviceNotFoundError, InferenceError
from edge_sdk.stats import percentile, percentile_bounds

__all__ = ["MODES", "GraphTrial", "try_graphs"]

MODES = ("auto", "on", "off")
"""auto: kept where measured faster. on: kept where correct. off: not tried."""

_TURNS = 200
_SEEDS = (1, 2)
_SAME = 0.01
"""A replay may differ from an ordinary run by this share of what the two inputs differ by."""


@dataclass(frozen=True)
class GraphTrial:
    """What became of one graph's CUDA graph.

    Attributes:
        graph: its name.
        kept: whether it is used.
        why: the reason, for people.
        launches: launches of the ordinary run that one launch replaces; 0 where it was not captured.
        plain_ms, replay_ms: medians of a run, copies and waiting included; None where not measured.
        gain_ms: median of what a replay saves, (lower bound, estimate, upper bound) at confidence 0.99.
    """

    graph: str
    kept: bool
    why: str
    launches: int = 0
    plain_ms: float | None = None
    replay_ms: float | None = None
    gain_ms: tuple[float, float, float] | None = None


def try_graphs(
    lanes: Mapping[str, Lane],
    memory: DeviceMemory,
    mode: str,
    clock: Clock,
    *,
    emulated: bool,
    turns: int = _TURNS,
) -> tuple[GraphTrial, ...]:
    """Tries a CUDA graph for every lane and leaves those on that are kept. Overwrites all inputs and results.

    Arguments:
        lanes: in the order in which features flow.
        memory: theirs.
        mode: one of `MODES`.
        clock: what runs are timed with.
        emulated: the driver's times mean nothing, so that nothing is measured.
        turns: pairs of runs, an ordinary one and a replay each.

    Raises:
        ConfigError: no such mode.
        InferenceError, CudaError: an ordinary run fails.
    """
    if mode not in MODES:
        raise ConfigError(f"CUDA graphs {mode!r}: expected {', '.join(MODES)}")
    if mode == "off":
        return ()
    plain = [_answers(lanes, memory, seed) for seed in _SEEDS]
    trials = []
    for name, lane in lanes.items():
        try:
            launches = lane.capture()
        except (InferenceError, CudaError, DeviceNotFoundError) as error:
            trials.append(GraphTrial(name, False, f"cannot be captured: {error}"))
            lane.drop_capture()
            continue
        replayed = [_answers(lanes, memory, seed)[name] for seed in _SEEDS]
        wrong = _wrong([answers[name] for answers in plain], replayed)
        if wrong:
            trial = GraphTrial(name, False, wrong, launches)
        elif mode == "on":
            trial = GraphTrial(name, True, "asked for", launches)
        elif emulated:
            trial = GraphTrial(name, False, "the driver is emulated: its times mean nothing", launches)
        else:
            trial = _measure(name, lane, launches, clock, turns)
        trials.append(trial)
        lane.replays = False
    for trial in trials:
        if trial.kept:
            lanes[trial.graph].replays = True
        else:
            lanes[trial.graph].drop_capture()
    for lane in lanes.values():
        for array in lane.pictures(memory):
            array.fill(0)
    return tuple(trials)


_Answers = dict[str, list[np.ndarray]]  # type: ignore[type-arg]


def _answers(lanes: Mapping[str, Lane], memory: DeviceMemory, seed: int) -> _Answers:
    """Runs all graphs in order on noise, so that features fit too, and copies their results."""
    noise = np.random.default_rng(seed)
    for lane in lanes.values():
        for array in lane.pictures(memory):
            array[...] = noise.integers(0, 255, array.shape).astype(array.dtype)
    found = {}
    for name, lane in lanes.items():
        lane.run()
        found[name] = [array.copy() for array in lane.results]
    return found


def _wrong(plain: Sequence[Sequence[np.ndarray]], replayed: Sequence[Sequence[np.ndarray]]) -> str:  # type: ignore[type-arg]
    """Says why a replay cannot be trusted, or nothing."""
    between = 0.0
    for first, second in zip(*plain, strict=True):
        between = max(between, float(np.abs(first.astype(np.float64) - second).max()))
    if between == 0.0:
        return "two different inputs give one result, so a stale replay could not be told"
    for answers, replays in zip(plain, replayed, strict=True):
        for answer, replay in zip(answers, replays, strict=True):
            off = float(np.abs(answer.astype(np.float64) - replay).max())
            if not off <= _SAME * between:  # NaN is wrong too
                return f"a replay is {off:g} off an ordinary run; two different inputs differ by {between:g}"
    return ""


def _measure(name: str, lane: Lane, launches: int, clock: Clock, turns: int) -> GraphTrial:
    took: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(turns):
        for replays in (False, True):
            lane.replays = replays
            start_ns = clock.now_ns()
            lane.run()
            took[replays].append((clock.now_ns() - start_ns) / 1e6)
    gains = np.subtract(took[False], took[True])
    bounds = percentile_bounds(gains, 0.5)
    assert bounds.estimate is not None
    kept = bounds.lower is not None and bounds.lower > 0
    lower = bounds.lower if bounds.lower is not None else float("-inf")
    upper = bounds.upper if bounds.upper is not None else float("inf")
    return GraphTrial(
        name,
        kept,
        "measured faster" if kept else "not measured faster by more than the noise",
        launches,
        percentile(took[False], 0.5),
        percentile(took[True], 0.5),
        (lower, bounds.estimate, upper),
    )
