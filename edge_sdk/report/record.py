"""The record of one run: everything a verdict or a report is made from, and nothing recomputed later.

`RunRecorder` collects frames while they are processed; `finish()` turns them into a frozen `RunRecord`.
The file form, and every check that a file must pass, is in `record_file`.
"""

from __future__ import annotations

import datetime
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.machine_state.state import RunState
from edge_sdk.measurements import STAGES, FrameResult
from edge_sdk.power import PowerPart
from edge_sdk.report.facts import (
    ColdStart,
    Dropped,
    EndedEarly,
    EngineFacts,
    ProviderFacts,
    RunFacts,
    SlaFacts,
    SourceFacts,
)
from edge_sdk.stats import Settling, settling

__all__ = [
    "ABSENT",
    "NO_POWER",
    "ColdStart",
    "Dropped",
    "EndedEarly",
    "EngineFacts",
    "FrameColumns",
    "ProviderFacts",
    "RunFacts",
    "RunRecord",
    "RunRecorder",
    "SlaFacts",
    "SourceFacts",
]

ABSENT = -(2**63)
"""Stands in a time column where a frame did not pass that stage or graph."""

NO_POWER = "no power sensor read"
"""What a record says of power when none was measured: never 0 W."""


@dataclass(frozen=True, eq=False)
class FrameColumns:
    """Every processed frame, one entry a frame in each column.

    Attributes:
        key, route, reason: text.
        thermal_consulted: bool [n].
        boxes: int64 [n], objects found.
        start_ns: int64 [n], monotonic clock when work on the pair in memory began.
        latency_ns: int64 [n], from the pair in memory to the result.
        stage_ns, engine_ns: int64 [n] a stage or graph, `ABSENT` where a frame did not pass it.
    """

    key: tuple[str, ...]
    route: tuple[str, ...]
    reason: tuple[str, ...]
    thermal_consulted: NDArray[np.bool_]
    boxes: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    latency_ns: NDArray[np.int64]
    stage_ns: Mapping[str, NDArray[np.int64]]
    engine_ns: Mapping[str, NDArray[np.int64]]

    def __len__(self) -> int:
        return len(self.key)

    @cached_property
    def engine_total_ns(self) -> NDArray[np.int64]:
        """Time inside all graphs, int64 [n]."""
        total = np.zeros(len(self), np.int64)
        for column in self.engine_ns.values():
            total += np.where(column == ABSENT, 0, column)
        return total

    def is_route(self, route: str) -> NDArray[np.bool_]:
        """Marks the frames that took a route, bool [n]."""
        return np.array([taken == route for taken in self.route], dtype=bool)


@dataclass(frozen=True, eq=False)
class RunRecord:
    """One finished run.

    Attributes:
        created: UTC, ISO 8601.
        sdk_version: of the SDK that made it.
        engine, provider, source, run, cold_start, sla: see their types; sla is None for a plain run.
        machine: platform, processor, cores, versions: nothing that names its owner.
        frames: every processed frame, warm-up included.
        dropped: every pair without a result.
        detections: objects found by class, over all frames.
        notes: what was assumed or mended, with the number of frames it holds for.
        conditions: what a reader must know before trusting the figures.
        unsound: why the measurement cannot be judged, beside what its own figures show.
        power: what is known of power, as text.
        machine_state: the machine before, during and after the run; None where it was not read.
        meter: what a power meter gave, None where there was none.
    """

    created: str
    sdk_version: str
    engine: EngineFacts
    provider: ProviderFacts
    source: SourceFacts
    run: RunFacts
    cold_start: ColdStart
    machine: Mapping[str, Any]
    frames: FrameColumns
    dropped: tuple[Dropped, ...] = ()
    detections: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()
    unsound: tuple[str, ...] = ()
    power: str = NO_POWER
    sla: SlaFacts | None = None
    machine_state: RunState | None = None
    meter: PowerPart | None = None

    @property
    def duration_ns(self) -> int:
        """From the first frame's start to the last frame's result, in nanoseconds."""
        if not len(self.frames):
            return 0
        span_ns = self.frames.start_ns[-1] - self.frames.start_ns[0] + self.frames.latency_ns[-1]
        return max(0, int(span_ns))  # a clock that went backwards must not give less than nothing

    @cached_property
    def settling(self) -> Settling:
        """What was warm-up, and whether the run settled within its budget for that."""
        # A clock that went backwards makes the run invalid elsewhere; here it must only not fail.
        latency_ns = np.maximum(self.frames.latency_ns, 1)
        return settling(self.frames.start_ns, latency_ns, self.frames.route, self.run.warm_up)

    @property
    def warm_up_frames(self) -> int:
        """Leading frames kept out of every steady figure: the first result, and a slow head within budget."""
        return self.settling.warm_up

    @cached_property
    def steady(self) -> NDArray[np.bool_]:
        """Marks the frames after warm-up, bool [n]."""
        return np.arange(len(self.frames)) >= self.warm_up_frames


class RunRecorder:
    """Collects the frames of one run at a few microseconds each.

    Columns are plain arrays of 64-bit integers, so that an hour of frames stays small.
    """

    def __init__(self) -> None:
        self._keys: list[str] = []
        self._routes: list[str] = []
        self._reasons: list[str] = []
        self._consulted = array("b")
        self._boxes = array("q")
        self._start_ns = array("q")
        self._latency_ns = array("q")
        self._stage_ns = {stage: array("q") for stage in STAGES}
        self._engine_ns: dict[str, array[int]] = {}
        self._dropped: list[Dropped] = []
        self._detections: Counter[str] = Counter()
        self._notes: Counter[str] = Counter()

    @property
    def frames(self) -> int:
        """Frames added so far."""
        return len(self._keys)

    @property
    def dropped(self) -> int:
        """Pairs dropped so far."""
        return len(self._dropped)

    @property
    def busy_ns(self) -> tuple[int, int]:
        """When the first frame began and the last one ended, on the clock of `add`; equal without frames."""
        if not self._keys:
            return 0, 0
        return self._start_ns[0], self._start_ns[-1] + self._latency_ns[-1]

    @property
    def first_drop(self) -> str:
        """Why the first dropped pair gave no result, or ""."""
        return self._dropped[0].why if self._dropped else ""

    def add(self, result: FrameResult, start_ns: int) -> None:
        """Takes one processed frame.

        Arguments:
            result: its result. Copies: its figures; the result itself is not kept.
            start_ns: monotonic clock when work on the pair in memory began.
        """
        count = len(self._keys)
        self._keys.append(result.key)
        self._routes.append(result.route.value)
        self._reasons.append(result.reason.value)
        self._consulted.append(result.thermal_consulted)
        self._boxes.append(len(result.detections))
        self._start_ns.append(start_ns)
        self._latency_ns.append(result.latency_ns)
        for stage, column in self._stage_ns.items():
            column.append(result.stage_ns.get(stage, ABSENT))
        for graph in result.engine_ns:
            if graph not in self._engine_ns:
                self._engine_ns[graph] = array("q", [ABSENT]) * count
        for graph, column in self._engine_ns.items():
            column.append(result.engine_ns.get(graph, ABSENT))
        names = result.detections.class_names
        for class_id in result.detections.class_ids.tolist():
            self._detections[names[class_id]] += 1
        for note in result.notes:
            self._notes[note] += 1

    def drop(self, key: str, why: str) -> None:
        """Takes one pair that gave no result.

        Arguments:
            key: the pair's key.
            why: the cause, as text.
        """
        self._dropped.append(Dropped(key, why))

    def finish(
        self,
        *,
        engine: EngineFacts,
        provider: ProviderFacts,
        source: SourceFacts,
        run: RunFacts,
        machine: Mapping[str, Any],
        cold_start: ColdStart | None = None,
        conditions: Sequence[str] = (),
        unsound: Sequence[str] = (),
        sla: SlaFacts | None = None,
        created: datetime.datetime | None = None,
        sdk_version: str = "unknown",
        machine_state: RunState | None = None,
        power: str = NO_POWER,
        meter: PowerPart | None = None,
    ) -> RunRecord:
        """Makes the record of what was collected.

        Arguments:
            engine, provider, source, run, machine, conditions, unsound, sla, machine_state, power, meter: see
                `RunRecord`.
            cold_start: without a first result in it, the first frame's latency is put there.
            created: now, unless a test says otherwise. Needs a time zone.

        Copies: the columns.
        """
        cold = cold_start or ColdStart()
        if cold.first_result_ms is None and self._keys:
            cold = ColdStart(cold.import_ms, cold.load_ms, self._latency_ns[0] / 1e6)
        moment = (created or datetime.datetime.now(datetime.timezone.utc)).astimezone(datetime.timezone.utc)
        stages = {stage: _column(values) for stage, values in self._stage_ns.items()}
        return RunRecord(
            created=moment.isoformat(timespec="seconds"),
            sdk_version=sdk_version,
            engine=engine,
            provider=provider,
            source=source,
            run=run,
            cold_start=cold,
            machine=dict(machine),
            frames=FrameColumns(
                key=tuple(self._keys),
                route=tuple(self._routes),
                reason=tuple(self._reasons),
                thermal_consulted=np.array(self._consulted, dtype=bool),
                boxes=_column(self._boxes),
                start_ns=_column(self._start_ns),
                latency_ns=_column(self._latency_ns),
                stage_ns={stage: values for stage, values in stages.items() if (values != ABSENT).any()},
                engine_ns={graph: _column(values) for graph, values in self._engine_ns.items()},
            ),
            dropped=tuple(self._dropped),
            detections=dict(self._detections),
            notes=dict(self._notes),
            conditions=tuple(conditions),
            unsound=tuple(unsound),
            sla=sla,
            machine_state=machine_state,
            power=power,
            meter=meter,
        )


def _column(values: array[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)
