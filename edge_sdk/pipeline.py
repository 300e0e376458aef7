"""The path of a frame, as one readable loop: pair in, answer out.

    source -> pairing -> preprocess -> buffers -> routing -> engine -> postprocess -> report

`Detector` takes one pair through the stages; `run_source` does it for a whole source.
Neither knows what hardware runs the graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edge_sdk.buffers import BufferSpec, HostPool
from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.detections import BoxTemperatures, Detections, box_iou
from edge_sdk.devices import DeviceChoice, open_runner
from edge_sdk.engine.bundle import Bundle, load_bundle
from edge_sdk.engine.inputs import GraphInputs
from edge_sdk.engine.manifest import FEATURES, SCREEN_GRAPH, Manifest
from edge_sdk.engine.runner import Runner
from edge_sdk.errors import ConfigError, FrameError, InferenceError, SourceError, StateError
from edge_sdk.frames import FramePair, Registration, ThermalPlane
from edge_sdk.measurements import FrameResult, Reason, Route, Signals
from edge_sdk.postprocess import Candidates, decode, temperatures
from edge_sdk.preprocess import Letterbox, rgb_into, thermal_into
from edge_sdk.report.running import DetectorStats, RunningStats
from edge_sdk.routing import (
    Decision,
    GateConfig,
    Need,
    RouterState,
    advance,
    decide,
    frame_confidence,
    hot_delta_counts,
    look_at_rgb,
    look_at_thermal,
    measure_health,
)

__all__ = ["Detector", "load", "run_source"]

_AUDIT_IOU = 0.5

_FRUITLESS_PAIRS = 1000
"""Pairs in a row without an answer that end a run: an endless source of bad pairs must not hang it."""


def load(
    engine: str,
    *,
    device: str = "auto",
    precision: str | None = None,
    threads: int | None = None,
    allow_fallback: Sequence[str] = (),
    gate: dict[str, float | int | str] | None = None,
    clock: Clock | None = None,
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
        clock: what stages are timed with.

    Raises:
        ManifestError, EngineIntegrityError, EngineMismatchError: the bundle is wrong.
        DeviceNotFoundError, ProviderFallbackError: this machine cannot run it as asked.
        ConfigError: no such bundle, or a threshold is unknown or out of range.
    """
    clock = clock or MonotonicClock()
    start_ns = clock.now_ns()
    bundle = load_bundle(engine)
    thresholds = bundle.manifest.gate.override(**(gate or {}))
    runner, choice = open_runner(
        bundle, device=device, precision=precision, threads=threads, allow_fallback=tuple(allow_fallback)
    )
    try:
        detector = Detector(bundle, runner, choice=choice, gate=thresholds, clock=clock)
    except BaseException:
        runner.close()
        raise
    detector.load_ns = clock.now_ns() - start_ns
    return detector


class Detector:
    """Finds objects in RGB+thermal pairs. Made by `load`; not for several threads at once.

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
    ) -> None:
        self.bundle, self.choice, self.gate, self.load_ns = bundle, choice, gate, 0
        self._manifest = bundle.manifest
        self._runner: Runner | None = runner
        self._clock = clock
        self._state = RouterState()
        self._stats = RunningStats()
        graphs = self._manifest.graphs
        self._inputs = {name: GraphInputs(spec, partial(runner.array, name)) for name, spec in graphs.items()}
        # Features stay where they are: only graphs read them.
        self._outputs = {
            name: {
                spec.meaning: runner.array(name, spec.name)
                for spec in graph.outputs
                if spec.meaning != FEATURES
            }
            for name, graph in graphs.items()
        }
        self._input_wh = width, height = _input_wh(self._manifest)
        self._pool = HostPool(
            [
                BufferSpec("raw thermal", (height, width), "uint16"),
                BufferSpec("difference", (height, width), "int64"),
            ]
        )
        self._raw = self._pool.lease("raw thermal")
        self._scratch = self._pool.lease("difference")
        self._letterboxes: dict[tuple[int, int], Letterbox] = {}
        self._rgb_wh: tuple[int, int] | None = None  # of the last RGB frame seen
        self._thermal_alone = all(graph.reads == {"thermal"} for graph in graphs.values())

    @property
    def provider(self) -> str:
        """What really runs the graphs."""
        return self._open_runner().provider

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
            ConfigError: a forced route lacks its frame, or the engine has no such route.
            InferenceError: a graph failed.
            StateError: the detector is closed.
        """
        self._open_runner()
        work = _Work(pair, self._clock)
        if pair.rgb is not None:
            self._rgb_wh = pair.rgb.size_wh
        if self._manifest.kind == "single":
            if force is not None:
                raise ConfigError(f"engine {self._manifest.name!r} has one graph; drop force={force!r}")
            return self._answer_single(work)
        return self._answer_routed(work, None if force is None else _route(force))

    def stats(self) -> DetectorStats:
        """Returns counts and latencies since the detector was loaded or reset."""
        return self._stats.snapshot(self.choice.provider)

    def reset(self) -> None:
        """Forgets what the router remembers and all statistics: a new sequence begins."""
        self._state = RouterState()
        self._stats = RunningStats()
        self._rgb_wh = None

    def close(self) -> None:
        """Gives the engine and all memory back. A second call does nothing."""
        if self._runner is not None:
            self._raw.release()
            self._scratch.release()
            self._pool.close()
            self._inputs, self._outputs = {}, {}
            self._runner.close()
            self._runner = None

    def __enter__(self) -> Detector:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # The routed path of a fusion bundle ---------------------------------------------------------

    def _answer_routed(self, work: _Work, force: Route | None) -> FrameResult:
        gate, state, pair = self.gate, self._state, work.pair
        rgb_look = look_at_rgb(pair.rgb.image) if pair.rgb else None
        thermal_look = look_at_thermal(pair.thermal.image) if pair.thermal else None
        rgb_health, thermal_health = measure_health(gate, state, rgb_look, thermal_look, pair.skew_ms)
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
                signals = replace(signals, **measured)
                decision = decide(gate, state, signals, key=pair.key, force=force)
        finally:
            self._state = advance(gate, state, signals, rgb_look, thermal_look)
        if decision.reason is Reason.THERMAL_LOST and self._state.dark:
            work.notes.append(f"RGB frame dark and thermal frame {thermal_health}: little can be seen")
        work.mark("routing")
        return self._finish(work, decision, signals)

    def _measure_heat(self, work: _Work) -> dict[str, Any]:
        """Lays the thermal frame, measures its hottest region and runs the screening graph."""
        plane = self._lay_thermal(work, "fuse")
        thermal = work.pair.thermal
        assert thermal is not None
        measured = {"hot_delta_k": hot_delta_counts(thermal.image) * plane.kelvin_per_count}
        work.mark("routing")
        if SCREEN_GRAPH in self._outputs:
            self._lay_thermal(work, SCREEN_GRAPH)
            self._run(work, SCREEN_GRAPH)
            logit = float(self._outputs[SCREEN_GRAPH]["screen"].flat[0])
            measured["screen_score"] = float(1.0 / (1.0 + np.exp(-np.clip(logit, -60, 60))))
        return measured

    def _measure_rgb(self, work: _Work) -> dict[str, Any]:
        """Runs the RGB graph and condenses its detections to one confidence."""
        self._run_rgb(work)
        work.rgb_candidates = self._decode(work, "rgb")
        return {"rgb_confidence": frame_confidence(work.rgb_candidates.scores, self.gate.confidence_rule)}

    def _finish(self, work: _Work, decision: Decision, signals: Signals) -> FrameResult:
        """Runs the graphs that the route still lacks and reads the answer."""
        route = decision.route
        if route is Route.RGB:
            if work.rgb_candidates is None:
                signals = replace(signals, **self._measure_rgb(work))
            candidates = work.rgb_candidates
            assert candidates is not None
            if work.pair.thermal is not None and signals.thermal_health == "ok":
                self._lay_thermal(work, "fuse")  # for the heat under each box
        else:
            if route is Route.FUSE:
                self._run_rgb(work)
            self._lay_thermal(work, route.value)
            self._run(work, route.value)
            candidates = self._decode(work, route.value)
        if decision.reason is Reason.AUDIT:
            self._audit(work, candidates)
        return self._result(work, decision, signals, candidates, route is not Route.RGB)

    def _audit(self, work: _Work, fused: Candidates) -> None:
        """Compares what RGB alone would have said with the fused answer."""
        alone = work.rgb_candidates
        assert alone is not None
        sure = fused.scores >= self.gate.rgb_confidence_min
        seen = (box_iou(fused.xyxy, alone.xyxy) >= _AUDIT_IOU) & (
            fused.class_ids[:, None] == alone.class_ids[None, :]
        )
        self._stats.add_audit(bool((sure & ~seen.any(axis=1)).any()))

    # The one path of a single-graph bundle -------------------------------------------------------

    def _answer_single(self, work: _Work) -> FrameResult:
        (name,) = self._inputs
        pictures = set(self._inputs[name].meanings)
        pair = work.pair
        for meaning, frame in (("rgb", pair.rgb), ("thermal", pair.thermal)):
            if meaning in pictures and frame is None:
                raise SourceError(
                    f"pair {pair.key!r}: engine {self._manifest.name!r} needs the {meaning} frame, "
                    "which is missing. Pass on_bad='skip' to count such pairs and go on."
                )
        if "rgb" in pictures:
            self._lay_rgb(work, name)
        if "thermal" in pictures:
            self._lay_thermal(work, name)
        self._run(work, name)
        candidates = self._decode(work, name)
        route = Route.FUSE if len(pictures) == 2 else Route(*pictures)
        decision = Decision(route, Reason.ONLY_GRAPH)
        signals = Signals("ok" if pair.rgb else "missing", "ok" if pair.thermal else "missing")
        return self._result(work, decision, signals, candidates, "thermal" in pictures)

    # Stages ---------------------------------------------------------------------------------------

    def _lay_rgb(self, work: _Work, graph: str) -> None:
        assert work.pair.rgb is not None
        image = work.pair.rgb.image
        rgb_into(image, self._letterbox(work), self._inputs[graph].picture("rgb"))
        work.mark("preprocess")

    def _lay_thermal(self, work: _Work, graph: str) -> ThermalPlane:
        """Lays the thermal frame once; a graph whose input is other memory gets a copy."""
        picture = self._inputs[graph].picture("thermal")
        if work.plane is None:
            assert work.pair.thermal is not None
            work.plane = thermal_into(
                work.pair.thermal,
                self._registration(work),
                self._letterbox(work),
                self._manifest.radiometry,
                self._raw.array,
                picture,
                self._scratch.array,
            )
            work.laid = picture
        elif work.laid is not None and not np.may_share_memory(picture, work.laid):
            np.copyto(picture, work.laid)
        work.mark("preprocess")
        return work.plane

    def _run_rgb(self, work: _Work) -> None:
        if "rgb" not in work.engine_ns:
            self._lay_rgb(work, "rgb")
            self._run(work, "rgb")

    def _run(self, work: _Work, graph: str) -> None:
        self._inputs[graph].commit()
        work.mark("buffers")
        self._open_runner().run(graph)
        work.engine_ns[graph] = work.mark("engine")

    def _decode(self, work: _Work, graph: str) -> Candidates:
        outputs = self._outputs[graph]
        for meaning, array in outputs.items():
            if np.isnan(array.min()):
                raise InferenceError(graph, self.provider, f"output that means {meaning!r} holds NaN")
        found = decode(self._manifest.decode, graph, self.class_names, outputs)
        work.mark("postprocess")
        return found

    def _result(
        self,
        work: _Work,
        decision: Decision,
        signals: Signals,
        candidates: Candidates,
        thermal_consulted: bool,
    ) -> FrameResult:
        pair = work.pair
        heat: tuple[BoxTemperatures | None, ...] = ()
        if work.plane is not None and pair.thermal is not None:
            heat = temperatures(pair.thermal, work.plane, candidates.xyxy)
        detections = Detections(
            self._boxes(work, candidates),
            candidates.scores,
            candidates.class_ids,
            self.class_names,
            heat,
        )
        work.mark("postprocess")
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
        )
        self._stats.add(result)
        return result

    def _boxes(self, work: _Work, candidates: Candidates) -> NDArray[np.float32]:
        """Boxes in RGB pixels; in thermal pixels where a thermal engine has no registration."""
        boxes = self._letterbox(work).boxes_to_frame(candidates.xyxy)
        if not self._thermal_alone:
            return boxes
        registration = work.pair.registration or self._manifest.registration
        thermal = work.pair.thermal
        assert thermal is not None
        if registration is None:
            work.notes.append("no registration: boxes are in pixels of the thermal frame")
            return boxes
        return registration.boxes_to_rgb(boxes, self._rgb_wh or registration.rgb_size_wh, thermal.size_wh)

    def _letterbox(self, work: _Work) -> Letterbox:
        """Where the RGB frame lies in the network's input; without one, where it would lie.

        An engine that reads thermal alone gets the thermal frame as it is.
        """
        if self._thermal_alone:
            assert work.pair.thermal is not None
            frame_wh = work.pair.thermal.size_wh
        else:
            # While the RGB camera is lost, boxes stay in the pixels that it had.
            frame_wh = self._rgb_wh or self._registration(work).rgb_size_wh
        if frame_wh not in self._letterboxes:
            self._letterboxes[frame_wh] = Letterbox.fit(frame_wh, self._input_wh)
        return self._letterboxes[frame_wh]

    def _registration(self, work: _Work) -> Registration:
        """Where the thermal frame lies on the RGB frame; what is assumed of it is noted."""
        if work.registration is None:
            work.registration = self._choose_registration(work)
        return work.registration

    def _choose_registration(self, work: _Work) -> Registration:
        pair, thermal, default = work.pair, work.pair.thermal, self._manifest.registration
        assert thermal is not None
        if self._thermal_alone:
            return Registration.identity(thermal.size_wh, "the thermal frame itself")
        if pair.registration is not None:
            origin = pair.registration.origin
            if origin.startswith("assumed") and not any(origin in note for note in pair.notes):
                work.notes.append(f"registration {origin}")
            return pair.registration
        if default is not None:
            depth = f", exact at {default.depth_m:g} m" if default.depth_m else ""
            work.notes.append(f"registration assumed: the engine bundle's default{depth}")
            return default
        if self._rgb_wh in (None, thermal.size_wh):
            work.notes.append("registration assumed: RGB and thermal frames share their pixels")
            return Registration.identity(thermal.size_wh, "assumed: equal frame sizes")
        raise ConfigError(
            f"pair {pair.key!r}: no registration of thermal {thermal.size_wh} to RGB {self._rgb_wh} pixels. "
            f"Give the source one, or put [registration] into the manifest of {self._manifest.name!r}."
        )

    def _open_runner(self) -> Runner:
        if self._runner is None:
            raise StateError(f"detector {self._manifest.name!r} is closed: load it again")
        return self._runner


@dataclass
class _Work:
    """One pair on its way: what was done to it so far, and what that took."""

    pair: FramePair
    clock: Clock
    stage_ns: dict[str, int] = field(default_factory=dict)
    engine_ns: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    plane: ThermalPlane | None = None
    laid: NDArray[np.uint8] | None = None
    registration: Registration | None = None
    rgb_candidates: Candidates | None = None
    _last_ns: int = 0

    def __post_init__(self) -> None:
        self._last_ns = self.clock.now_ns()

    def mark(self, stage: str) -> int:
        """Books the time since the last mark on a stage, and returns it in nanoseconds."""
        now_ns = self.clock.now_ns()
        elapsed_ns = now_ns - self._last_ns
        self.stage_ns[stage] = self.stage_ns.get(stage, 0) + elapsed_ns
        self._last_ns = now_ns
        return elapsed_ns


class Recorder(Protocol):
    """Takes what a run yields."""

    def add(self, result: FrameResult, start_ns: int) -> None:
        """Keeps one answer and when its processing began."""
        ...

    def drop(self, key: str, why: str) -> None:
        """Keeps that a pair got no answer."""
        ...


class Pacer(Protocol):
    """Says when the next pair may start."""

    def wait(self) -> None:
        """Returns when the next pair is due."""
        ...


def run_source(
    detector: Detector,
    source: Iterable[FramePair],
    *,
    recorder: Recorder | None = None,
    clock: Clock | None = None,
    pace: Pacer | None = None,
    frames: int | None = None,
    duration_ns: int | None = None,
    on_bad: str = "raise",
    force: Route | str | None = None,
    on_result: Callable[[FramePair, FrameResult], None] | None = None,
) -> int:
    """Answers pair after pair until the source, the frame count or the time is at its end.

    Arguments:
        detector, source: what answers, and where pairs come from.
        recorder: takes each result and each dropped pair.
        clock: that of the run; the machine's by default.
        pace: waits until the next pair is due; without one pairs follow back to back.
        frames: at most so many answered pairs.
        duration_ns: no pair starts later than this after the first.
        on_bad: "raise", or "skip" to record a pair that cannot be read or answered and go on.
        force: take this route for every pair.
        on_result: called with each pair and its result; the run's clock stands still meanwhile.

    Returns: the number of pairs answered.

    Raises:
        SourceError: a pair cannot be read or answered and `on_bad` is "raise".
        ConfigError: `on_bad` is neither.
    """
    if on_bad not in ("raise", "skip"):
        raise ConfigError(f"on_bad: expected 'raise' or 'skip', found {on_bad!r}")
    clock = clock or MonotonicClock()
    answered = fruitless = paused_ns = 0
    first_ns: int | None = None
    pairs: Iterator[FramePair] = iter(source)
    while frames is None or answered < frames:
        running_ns = 0 if first_ns is None else clock.now_ns() - paused_ns - first_ns
        if duration_ns is not None and first_ns is not None and running_ns >= duration_ns:
            break
        if fruitless >= _FRUITLESS_PAIRS:
            raise SourceError(f"{fruitless} pairs in a row gave no answer; the run was ended")
        try:
            pair = next(pairs, None)
        except FrameError as error:
            if on_bad == "raise":
                raise
            if recorder is not None:
                recorder.drop(error.key, str(error))
            fruitless += 1
            continue
        if pair is None:
            break
        if pace is not None:
            pace.wait()
        start_ns = clock.now_ns() - paused_ns
        first_ns = start_ns if first_ns is None else first_ns
        if duration_ns is not None and start_ns - first_ns >= duration_ns > 0:
            break
        try:
            result = detector(pair, force=force)
        except SourceError as error:
            if on_bad == "raise":
                raise
            if recorder is not None:
                recorder.drop(pair.key, str(error))
            fruitless += 1
            continue
        answered, fruitless = answered + 1, 0
        if recorder is not None:
            recorder.add(result, start_ns)
        if on_result is not None:
            before_ns = clock.now_ns()
            on_result(pair, result)
            paused_ns += clock.now_ns() - before_ns
    return answered


def _input_wh(manifest: Manifest) -> tuple[int, int]:
    """Width and height in pixels of the pictures that the graphs read; RGB and thermal share one grid."""
    sizes = {size for size in (manifest.rgb_size_wh, manifest.thermal_size_wh) if size is not None}
    if len(sizes) != 1:
        raise ConfigError(
            f"engine {manifest.name!r}: RGB and thermal inputs must have one size, found {sorted(sizes)}"
        )
    return sizes.pop()


def _route(name: Route | str) -> Route:
    try:
        return Route(name)
    except ValueError:
        routes = ", ".join(route.value for route in Route)
        raise ConfigError(f"force: expected one of {routes}, found {name!r}") from None
