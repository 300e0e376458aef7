"""The path of a frame, as one readable loop: pair in, answer out.

    source -> pairing -> preprocess -> buffers -> routing -> engine -> postprocess -> report

`Detector` takes one pair through the stages and knows no hardware; `runs` does it for a whole source.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.closing import ClosedByWith
from edge_sdk.detections import box_iou
from edge_sdk.devices import DeviceChoice, PlanOptions, open_runner
from edge_sdk.engine.bundle import Bundle, load_bundle
from edge_sdk.engine.manifest import SCREEN_GRAPH
from edge_sdk.engine.runner import Runner
from edge_sdk.errors import ConfigError, SourceError, StateError
from edge_sdk.frames import FramePair, ThermalUnit
from edge_sdk.measurements import FrameResult, Reason, Route, Signals
from edge_sdk.postprocess import Candidates
from edge_sdk.registration import Given
from edge_sdk.report.running import DetectorStats, RunningStats
from edge_sdk.routing import (
    Decision,
    GateConfig,
    Need,
    RouterMemory,
    RouterState,
    advance,
    decide,
    frame_confidence,
    hot_delta_counts,
    look_at_rgb,
    look_at_thermal,
    measure_health,
)
from edge_sdk.sources.base import ReadsInto
from edge_sdk.sources.registration import RegistrationArgument, read_registration
from edge_sdk.stages import Stages, Work, no_pair

__all__ = ["Detector", "load"]

SCORES_ARE_RANKS = "scores only rank here: they were calibrated on radiometric frames, these are counts"
"""Note on results of calibrated graphs that read a thermal frame in counts."""

_AUDIT_IOU = 0.5


def load(
    engine: str,
    *,
    device: str = "auto",
    precision: str | None = None,
    threads: int | None = None,
    allow_fallback: Sequence[str] = (),
    gate: dict[str, float | int | str] | None = None,
    registration: RegistrationArgument = None,
    clock: Clock | None = None,
    plan_options: PlanOptions | None = None,
) -> Detector:
    """Loads an engine bundle and makes it ready to run.

    Arguments:
        engine: name of an installed bundle, or the path of a bundle's folder.
        device: "auto", "cpu", "cuda", "tensorrt", or "null", which infers nothing. "auto" keeps the
            list of what it tried.
        precision: "int8", "fp16" or "fp32"; by default the one the bundle ships to be run.
        threads: CPU threads a graph may use; by default the machine's physical cores.
        allow_fallback: execution providers that may be used instead of the one asked for, by name.
        gate: thresholds of `GateConfig` to override.
        registration: how thermal frames lie on colour frames, for pairs that bring none of their own: a
            `Registration`, the path of a JSON file, "same-view", "centred" or "bundle" (the engine bundle's
            own camera rig). It goes before what a source states. Without it and without one of the pair or
            its source, frames of equal size are taken to share their pixels, and others are refused.
        clock: what stages are timed with.
        plan_options: how TensorRT's plans are found and run; see `edge_sdk.devices.PlanOptions`.

    Raises:
        ManifestError, EngineIntegrityError, EngineMismatchError: the bundle is wrong.
        DeviceNotFoundError, ProviderFallbackError: this machine cannot run it as asked.
        PlanMismatchError: there are TensorRT plans, for something else.
        ConfigError: no such bundle, a threshold is unknown or out of range, or the registration is none.
    """
    clock = clock or MonotonicClock()
    given = read_registration(registration, "load")
    start_ns = clock.now_ns()
    bundle = load_bundle(engine)
    thresholds = bundle.manifest.gate.override(**(gate or {}))
    runner, choice = open_runner(
        bundle,
        device=device,
        precision=precision,
        threads=threads,
        allow_fallback=tuple(allow_fallback),
        plan_options=plan_options,
    )
    try:
        detector = Detector(bundle, runner, choice=choice, gate=thresholds, clock=clock, registration=given)
    except BaseException:
        runner.close()
        raise
    detector.load_ns = clock.now_ns() - start_ns
    return detector


class Detector(ClosedByWith):
    """Finds objects in RGB+thermal pairs. Made by `load`.

    It may be handed from thread to thread, but only one may use it at a time: a second one gets a
    `StateError`. For more threads load one each, or keep a pool of them (`queue.Queue`).

    Attributes:
        bundle: the engine's manifest, folder and hash.
        choice: the device asked for, the one chosen, and what was tried.
        gate: the router's thresholds.
        load_ns: time from the call of `load` to a detector, in nanoseconds.
    """

    def __init__(
        self,
        bundle: Bundle,
        runner: Runner,
        *,
        choice: DeviceChoice,
        gate: GateConfig,
        clock: Clock,
        registration: Given | None = None,
    ) -> None:
        self.bundle, self.choice, self.gate, self.load_ns = bundle, choice, gate, 0
        self._manifest = bundle.manifest
        self._clock = clock
        self._state = RouterState()
        self._stats = RunningStats()
        self._stages = Stages(self._manifest, runner, registration)
        self._in_use = threading.Lock()
        self._origins: set[str] = set()

    @property
    def provider(self) -> str:
        """What really runs the graphs."""
        return self._stages.runner.provider

    @property
    def class_names(self) -> tuple[str, ...]:
        """The engine's classes, in the order of `Detections.class_ids`."""
        return self._manifest.class_names

    def __call__(self, pair: FramePair, *, force: Route | str | None = None) -> FrameResult:
        """Answers one pair.

        Arguments:
            pair: frames of one moment; either may be missing.
            force: take this route ("rgb", "fuse", "thermal") whatever the signals say.

        Copies: frames are read, not kept; the result holds no view of them.

        Raises:
            SensorsUnusableError: neither camera can be used.
            ConfigError: what was given is no pair; a forced route lacks its frame, or the engine has no such
                route; frames of unlike size without a registration, see `load`.
            InferenceError: a graph failed.
            StateError: the detector is closed, or another thread is using it.
        """
        if not isinstance(pair, FramePair):
            raise no_pair(pair)
        with self._alone():
            _ = self._stages.runner  # raises where the detector is closed
            work = Work(pair, self._clock)
            if pair.rgb is not None:
                self._stages.see(pair.rgb.size_wh)
            if self._manifest.kind == "single":
                if force is not None:
                    raise ConfigError(f"engine {self._manifest.name!r} has one graph; drop force={force!r}")
                return self._answer_single(work)
            return self._answer_routed(work, None if force is None else _route(force))

    def read_from(self, source: ReadsInto) -> FramePair | None:
        """Reads the next pair of a source for this detector; None after the last one.

        A colour frame of the engine's own size is decoded straight into the engine's input, and nothing
        copies it again. Other frames come as `next(source)` gives them, and are resized into the input.

            while (pair := detector.read_from(source)) is not None:
                result = detector(pair)

        Copies: see `Source.read_into`. Use the pair before the next one is read, or the next call: its
        colour picture may be the engine's input.

        Raises:
            StateError: the detector or the source is closed, or another thread is using the detector.
            What the source raises.
        """
        with self._alone():
            _ = self._stages.runner  # raises where the detector is closed
            return source.read_into(rgb=self._stages.rgb_picture)

    @property
    def registrations(self) -> tuple[str, ...]:
        """Where the registrations that were in force since the start or `reset` come from, sorted."""
        return tuple(sorted(self._origins))

    def stats(self) -> DetectorStats:
        """Returns counts and latencies since the detector was loaded or reset."""
        return self._stats.snapshot(self.choice.provider)

    @property
    def memory(self) -> RouterMemory:
        """What the next answer depends on beside its pair and the gate: for recordings."""
        return RouterMemory(self._state, self._stages.rgb_wh)

    def resume(self, memory: RouterMemory) -> None:
        """Takes a sequence up where another detector of the same engine and gate left it.

        Raises:
            StateError: another thread is using the detector.
        """
        with self._alone():
            self._state = memory.state
            self._stages.see(memory.rgb_size_wh)

    def reset(self) -> None:
        """Forgets what the router remembers and all statistics: a new sequence begins.

        Raises:
            StateError: another thread is using the detector.
        """
        self.resume(RouterMemory())
        self._stats, self._origins = RunningStats(), set()

    def close(self) -> None:
        """Gives the engine and all memory back. A second call does nothing.

        Raises:
            StateError: another thread is using the detector; its memory cannot be taken away.
        """
        with self._alone():
            self._stages.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Refuses a second user at the same time: it would overwrite the first one's memory."""
        if not self._in_use.acquire(blocking=False):
            raise StateError(
                f"detector {self._manifest.name!r} is in use by another thread: results would mix. "
                "Load one detector for each thread, or lend them from a queue.Queue"
            )
        try:
            yield
        finally:
            self._in_use.release()

    # The routed path of a fusion bundle ---------------------------------------------------------

    def _answer_routed(self, work: Work, force: Route | None) -> FrameResult:
        gate, pair = self.gate, work.pair
        still = pair.is_still
        state = self._state.for_still() if still else self._state
        rgb_look = look_at_rgb(pair.rgb.image) if pair.rgb else None
        thermal_look = look_at_thermal(pair.thermal.filled) if pair.thermal else None
        rgb_health, thermal_health = measure_health(
            gate, state, rgb_look, thermal_look, pair.skew_ms, pair.rgb_fault, pair.thermal_fault
        )
        signals = Signals(
            rgb_health,
            thermal_health,
            luminance=rgb_look.luminance if rgb_look else None,
            contrast=rgb_look.contrast if rgb_look else None,
        )
        try:
            decision = decide(gate, state, signals, key=pair.key, force=force)
            while isinstance(decision, Need):
                work.mark("routing")
                measured = self._measure_heat(work) if decision is Need.HEAT else self._measure_rgb(work)
                signals = Signals(**{**vars(signals), **measured})
                decision = decide(gate, state, signals, key=pair.key, force=force)
        finally:
            after = advance(gate, state, signals, rgb_look, thermal_look)
            self._state = self._state.after_still() if still else after
        if decision.reason is Reason.THERMAL_LOST and after.dark:
            work.notes.append(f"RGB frame dark and thermal frame {thermal_health}: little can be seen")
        work.mark("routing")
        return self._finish(work, decision, signals)

    def _measure_heat(self, work: Work) -> dict[str, Any]:
        """Lays the thermal frame, measures its hottest region and runs the screening graph."""
        plane = self._stages.lay_thermal(work, "fuse")
        thermal = work.pair.thermal
        assert thermal is not None
        measured: dict[str, Any] = {
            "hot_delta_k": hot_delta_counts(thermal.filled) * plane.kelvin_per_count,
            "heat_unit": "kelvin" if thermal.unit is ThermalUnit.CENTIKELVIN else "noise",
        }
        work.mark("routing")
        if self._stages.has_screen:
            self._stages.lay_thermal(work, SCREEN_GRAPH)
            self._stages.run(work, SCREEN_GRAPH)
            measured["screen_score"] = self._stages.screen_score()
        return measured

    def _measure_rgb(self, work: Work) -> dict[str, Any]:
        """Runs the RGB graph and condenses its detections to one confidence."""
        self._stages.run_rgb(work)
        work.rgb_candidates = self._stages.decode(work, "rgb")
        return {"rgb_confidence": frame_confidence(work.rgb_candidates.scores, self.gate.confidence_rule)}

    def _finish(self, work: Work, decision: Decision, signals: Signals) -> FrameResult:
        """Runs the graphs that the route still lacks and reads the answer."""
        route = decision.route
        if route is Route.RGB:
            if work.rgb_candidates is None:
                signals = Signals(**{**vars(signals), **self._measure_rgb(work)})
            candidates = work.rgb_candidates
            assert candidates is not None
            if work.pair.thermal is not None and signals.thermal_health == "ok":
                self._stages.lay_thermal(work, "fuse")  # for the heat under each box
        else:
            if route is Route.FUSE:
                self._stages.run_rgb(work)
            self._stages.lay_thermal(work, route.value)
            self._stages.run(work, route.value)
            candidates = self._stages.decode(work, route.value)
        if decision.reason is Reason.AUDIT:
            self._audit(work, candidates)
        return self._result(work, decision, signals, candidates, route is not Route.RGB)

    def _audit(self, work: Work, fused: Candidates) -> None:
        """Compares what RGB alone would have said with the fused answer."""
        alone = work.rgb_candidates
        assert alone is not None
        sure = fused.scores >= self.gate.rgb_confidence_min
        seen = (box_iou(fused.xyxy, alone.xyxy) >= _AUDIT_IOU) & (
            fused.class_ids[:, None] == alone.class_ids[None, :]
        )
        self._stats.add_audit(bool((sure & ~seen.any(axis=1)).any()))

    # The one path of a single-graph bundle -------------------------------------------------------

    def _answer_single(self, work: Work) -> FrameResult:
        (name,) = self._manifest.graphs
        pictures = self._stages.pictures(name)
        pair = work.pair
        for meaning, frame in (("rgb", pair.rgb), ("thermal", pair.thermal)):
            if meaning in pictures and frame is None:
                raise SourceError(
                    f"pair {pair.key!r}: engine {self._manifest.name!r} needs the {meaning} frame, "
                    "which is missing. Pass on_bad='skip' to count such pairs and go on."
                )
        if "rgb" in pictures:
            self._stages.lay_rgb(work, name)
        if "thermal" in pictures:
            self._stages.lay_thermal(work, name)
        elif pair.thermal is not None:
            self._stages.place_thermal(work)
        self._stages.run(work, name)
        candidates = self._stages.decode(work, name)
        route = Route.FUSE if len(pictures) == 2 else Route(*pictures)
        decision = Decision(route, Reason.ONLY_GRAPH)
        signals = Signals("ok" if pair.rgb else "missing", "ok" if pair.thermal else "missing")
        return self._result(work, decision, signals, candidates, "thermal" in pictures)

    def _result(
        self,
        work: Work,
        decision: Decision,
        signals: Signals,
        candidates: Candidates,
        thermal_consulted: bool,
    ) -> FrameResult:
        pair = work.pair
        detections = self._stages.read(work, candidates)
        in_counts = pair.thermal is not None and pair.thermal.unit is ThermalUnit.COUNTS
        if thermal_consulted and in_counts and self._manifest.decode.score_calibration:
            work.notes.append(SCORES_ARE_RANKS)
        if pair.read_ns:
            work.stage_ns["source"] = pair.read_ns
        result = FrameResult(
            pair.key,
            decision.route,
            decision.reason,
            signals,
            detections,
            thermal_consulted,
            work.stage_ns,
            work.engine_ns,
            pair.notes + tuple(work.notes),
            self._stages.gpu_ms(work),
            self._stages.registration_of(work),
        )
        if work.registration is not None:
            self._origins.add(work.registration.origin)
        self._stats.add(result)
        return result


def _route(name: Route | str) -> Route:
    try:
        return Route(name)
    except ValueError:
        routes = ", ".join(route.value for route in Route)
        raise ConfigError(f"force: expected one of {routes}, found {name!r}") from None
