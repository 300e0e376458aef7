"""Whether a run kept its SLA, clause by clause, and how sure that is.

PASS: the bound that includes the sampling error is within the limit. FAIL: even the bound on the other
side misses it. INCONCLUSIVE: the samples decide neither way, or the run is shorter than asked or did not
settle. INVALID: the measurement itself is unsound, whatever its figures say. A verdict depends on the record
and the SLA alone, so that a record can be judged again years later.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import SlaViolationError
from edge_sdk.machine_state.changes import sees_throttling
from edge_sdk.report.clauses import ClauseVerdict, Outcome, clause_of, invalid, unproven
from edge_sdk.report.machine_clauses import OWN_KEYS, judge_machine, judge_memory
from edge_sdk.report.power_clauses import find_power
from edge_sdk.report.reach import settled, shortfalls, unsettled_text
from edge_sdk.report.record import ABSENT, RunRecord
from edge_sdk.report.rounding import rounded
from edge_sdk.report.soundness import faults_of, mismatches, state_faults
from edge_sdk.sla import LatencyLimit, PowerLimit, Sla, contradictions
from edge_sdk.stats import (
    MIN_RATE_BLOCKS,
    Bounds,
    binomial_cdf,
    block_percentiles,
    lag1_autocorrelation,
    percentile_bounds,
    rate_bounds,
    samples_needed,
    share_bounds,
)

__all__ = ["ClauseVerdict", "Dependence", "Outcome", "Verdicts", "judge"]

_FORESEEABLE_FRAMES = 10_000_000
_SEVERITY = tuple(Outcome)


@dataclass(frozen=True)
class Dependence:
    """How far the steady frames are from independent, which every bound assumes.

    Attributes:
        lag1_autocorrelation: of the latencies; None where it cannot be computed.
        blocks: seconds of the run that hold frames.
        block_p95_ms_min, block_p95_ms_max: P95 latency of the quickest and of the slowest second.
    """

    lag1_autocorrelation: float | None
    blocks: int
    block_p95_ms_min: float | None
    block_p95_ms_max: float | None


@dataclass(frozen=True)
class Verdicts:
    """A judged SLA.

    Attributes:
        sla: its name.
        overall: the worst of its clauses: FAIL, INVALID, INCONCLUSIVE, PASS. A clause that was soundly missed
            decides, whatever could not be measured beside it.
        confidence: of each one-sided bound.
        clauses: in the order of the file.
        unsound: why the measurement is INVALID; empty when it is sound. What happened to the machine spoils
            every clause but those on the machine and on memory.
        dependence: what makes the bounds optimistic.
        warm_up_frames: leading frames that were not judged.
        notes: what a reader of the verdict must know.
    """

    sla: str
    overall: Outcome
    confidence: float
    clauses: tuple[ClauseVerdict, ...]
    unsound: tuple[str, ...]
    dependence: Dependence
    warm_up_frames: int
    notes: tuple[str, ...]

    @property
    def exit_status(self) -> int:
        """What a process that checks the SLA ends with: 0 pass, 1 violated, 2 inconclusive or invalid."""
        return {Outcome.PASS: 0, Outcome.FAIL: 1}.get(self.overall, 2)

    def as_json(self) -> dict[str, Any]:
        """Lays the verdicts out in JSON types, for the record's file. Copies: yes."""
        document = asdict(self)
        document["overall"] = self.overall.value
        document["clauses"] = [{**asdict(clause), "verdict": clause.verdict.value} for clause in self.clauses]
        document["unsound"], document["notes"] = list(self.unsound), list(self.notes)
        document["exit_status"] = self.exit_status
        rounded_document: dict[str, Any] = rounded(document)
        return rounded_document

    def raise_if_violated(self) -> None:
        """Raises for a program that must stop on a missed budget.

        Raises:
            SlaViolationError: the overall verdict is FAIL; the message names each failed clause.
        """
        if self.overall is Outcome.FAIL:
            failed = [f"{c.clause}: {c.reason}" for c in self.clauses if c.verdict is Outcome.FAIL]
            raise SlaViolationError(f"SLA {self.sla!r} is violated. {' '.join(failed)}")


def judge(record: RunRecord, sla: Sla, *, window: bool = False) -> Verdicts:
    """Judges a run by an SLA. Same record and same SLA, same verdict.

    Arguments:
        record: a finished run.
        sla: the limits; need not be the one the run was made for, but must ask for the same
            engine, source, device and pace, or the verdict is INVALID; no clause passes on a run that is
            shorter than the SLA states.
        window: the record is of the last frames of a run that goes on: how long it is says nothing.
    """
    record = replace(record, run=replace(record.run, warm_up=sla.run.warm_up))
    faults, spoilt = (*faults_of(record), *mismatches(record, sla)), tuple(state_faults(record))
    clauses = [settled(record, _judge_latency(record, limit, sla.confidence), limit) for limit in sla.latency]
    if sla.min_fps is not None:
        clauses.append(settled(record, _judge_rate(record, sla.min_fps, sla.confidence), None))
    if sla.max_dropped_share is not None:
        clauses.append(_judge_dropped(record, sla.max_dropped_share, sla.confidence))
    clauses += [_judge_power(record, limit, sla.confidence) for limit in sla.power]
    clauses += judge_machine(record, sla)
    clauses += judge_memory(record, sla)
    for short in () if window else shortfalls(record, sla):
        clauses = [unproven(clause, short) for clause in clauses]
    if faults:
        clauses = [invalid(clause, faults[0]) for clause in clauses]
    elif spoilt:
        clauses = [
            clause if clause.clause.split(".")[0] in OWN_KEYS else invalid(clause, spoilt[0])
            for clause in clauses
        ]
    dependence = _dependence(record)
    return Verdicts(
        sla=sla.name,
        overall=max((clause.verdict for clause in clauses), key=_SEVERITY.index),
        confidence=sla.confidence,
        clauses=tuple(clauses),
        unsound=(*faults, *spoilt),
        dependence=dependence,
        warm_up_frames=record.warm_up_frames,
        notes=tuple(_notes(record, sla, dependence)),
    )


def _judge_latency(record: RunRecord, limit: LatencyLimit, confidence: float) -> ClauseVerdict:
    values_ms = _latencies_ms(record, limit, record.steady)
    if limit.share is None:
        bounds, verdict, reason = _largest(record, values_ms, limit)
    else:
        bounds = percentile_bounds(values_ms, limit.share, confidence)
        verdict, reason = _decide(bounds, limit.limit_ms, "ms")
        if verdict is Outcome.INCONCLUSIVE:
            reason = _undecided_percentile(values_ms, bounds, limit, confidence)
    return clause_of(limit.clause, limit.limit_ms, "ms", bounds, verdict, reason)


def _latencies_ms(record: RunRecord, limit: LatencyLimit, wanted: NDArray[np.bool_]) -> NDArray[np.float64]:
    frames = record.frames
    if limit.route is not None:
        wanted = wanted & frames.is_route(limit.route.value)
    column = frames.latency_ns
    if limit.stage is not None:
        column = frames.stage_ns.get(limit.stage, np.full(len(frames), ABSENT))
        wanted = wanted & (column != ABSENT)
    return column[wanted] / 1e6


def _largest(
    record: RunRecord, values_ms: NDArray[np.float64], limit: LatencyLimit
) -> tuple[Bounds, Outcome, str]:
    """Judges the slowest frame after warm-up of this very run; it says nothing of other runs."""
    if not len(values_ms):
        return Bounds(None, None, None, 0), Outcome.INCONCLUSIVE, _nothing_measured(limit)
    largest = float(values_ms.max())
    over = int((values_ms > limit.limit_ms).sum())
    reason = f"{over} of {len(values_ms)} frames" if over else "no frame"
    reason += " after warm-up over it."
    apart_ms = _latencies_ms(record, limit, ~record.steady)
    if len(apart_ms) and apart_ms.max() > limit.limit_ms:
        reason += (
            f" Not judged: cold start and warm-up, {len(apart_ms)} of {len(record.frames)} frames, "
            f"up to {_figure(float(apart_ms.max()))} ms."
        )
    verdict = Outcome.FAIL if over else Outcome.PASS
    return Bounds(largest, largest, None, len(values_ms)), verdict, reason + " Holds for this run only."


def _decide(bounds: Bounds, limit: float, unit: str) -> tuple[Outcome, str]:
    if bounds.upper is not None and bounds.upper <= limit:
        return Outcome.PASS, f"upper bound {_amount(bounds.upper, unit)} is within it."
    if bounds.lower is not None and bounds.lower > limit:
        return Outcome.FAIL, f"lower bound {_amount(bounds.lower, unit)} is over it."
    return Outcome.INCONCLUSIVE, ""


def _undecided_percentile(
    values_ms: NDArray[np.float64], bounds: Bounds, limit: LatencyLimit, confidence: float
) -> str:
    assert limit.share is not None
    count = len(values_ms)
    if not count:
        return _nothing_measured(limit)
    over = int((values_ms > limit.limit_ms).sum())
    if bounds.upper is None and not over:
        needed = samples_needed(limit.share, 0, confidence)
        return f"too few frames: {count} after warm-up, at least {needed} are needed."
    state = f"{over} of {count} frames are over it, which decides neither way"
    longer = _frames_to_pass(over, count, limit.share, confidence)
    if longer is None:
        return f"{state}; with this share of slow frames no longer run would pass."
    return f"{state}; with this share of slow frames about {longer} would pass."


def _frames_to_pass(over: int, count: int, share: float, confidence: float) -> int | None:
    """Looks for a longer run that would pass with the same share of frames over the limit."""
    frames = count
    while frames <= _FORESEEABLE_FRAMES:
        if binomial_cdf(math.ceil(over * frames / count), frames, 1.0 - share) <= 1.0 - confidence:
            return frames
        frames += max(1, frames // 8)
    return None


def _nothing_measured(limit: LatencyLimit) -> str:
    if limit.route is not None:
        return f"no frame took the route {limit.route.value} after warm-up."
    return (
        f"no frame passed the stage {limit.stage} after warm-up."
        if limit.stage
        else "no frame after warm-up."
    )


def _judge_rate(record: RunRecord, min_fps: float, confidence: float) -> ClauseVerdict:
    """Judges the mean frame rate by blocks of a second (Student's t over blocks)."""
    bounds = rate_bounds(record.frames.start_ns[record.steady], confidence)
    pace_hz = record.run.pace_hz
    if bounds.lower is not None and bounds.lower >= min_fps:
        verdict, reason = Outcome.PASS, f"lower bound {_figure(bounds.lower)} frames/s reaches it."
    elif pace_hz is not None and min_fps >= pace_hz and not _missed_pace(bounds, pace_hz):
        verdict = Outcome.INCONCLUSIVE
        reason = (
            f"a run paced at {pace_hz:g} Hz cannot show more; ask for less than that or run without a pace."
        )
    elif bounds.upper is not None and bounds.upper < min_fps:
        verdict, reason = Outcome.FAIL, f"upper bound {_figure(bounds.upper)} frames/s does not reach it."
    elif bounds.lower is None:
        verdict = Outcome.INCONCLUSIVE
        reason = f"too short: {bounds.samples} blocks of 1 s after warm-up, {MIN_RATE_BLOCKS} are needed."
    else:
        verdict, reason = Outcome.INCONCLUSIVE, "the rate varies too much to decide; run longer."
    return clause_of("throughput.min_fps", min_fps, "frames/s", bounds, verdict, reason)


def _missed_pace(bounds: Bounds, pace_hz: float) -> bool:
    """Whether frames did not even keep the pace, so that the rate shown is the pipeline's own."""
    return bounds.upper is not None and bounds.upper < 0.99 * pace_hz


def _judge_dropped(record: RunRecord, limit: float, confidence: float) -> ClauseVerdict:
    """Judges lost frames: those that could not be answered, those that live cameras lost, and missed turns.

    Turns of the pace that no frame could take are lost frames of a camera.
    """
    by_cameras = sum(record.source.pairs_lost.values())
    lost = len(record.dropped) + by_cameras + record.run.missed_turns
    total = len(record.frames) + lost
    bounds = share_bounds(lost, total, confidence)
    what = f"{len(record.dropped) + by_cameras} of {total} pairs dropped"
    if by_cameras:
        causes = ", ".join(f"{count} {cause}" for cause, count in record.source.pairs_lost.items() if count)
        what += f" ({causes} by the live cameras)"
    if record.run.missed_turns:
        what += f", {record.run.missed_turns} turns of the pace missed"
    if limit == 0 and total:
        # No number of frames shows a share of exactly 0, so the clause is read as a count.
        verdict = Outcome.FAIL if lost else Outcome.PASS
        reason = f"{what}. Holds for this run only."
    else:
        verdict, reason = _decide(bounds, limit, "share")
        if verdict is Outcome.INCONCLUSIVE:
            needed = samples_needed(1.0 - limit, 0, confidence) if limit else 1
            reason = f"at least {needed} pairs are needed." if total < needed else "more pairs would decide."
        reason = f"{what}: {reason}"
    return clause_of("frames.max_dropped_share", limit, "share", bounds, verdict, reason)


def _judge_power(record: RunRecord, limit: PowerLimit, confidence: float) -> ClauseVerdict:
    """Judges energy and power; without a sensor, or with a window that says nothing, it is INVALID."""
    finding = find_power(record, limit, confidence)
    verdict, reason = _decide(finding.bounds, limit.limit, finding.unit)
    if verdict is Outcome.INCONCLUSIVE:
        reason = finding.undecided
    if finding.invalid:
        verdict, reason = Outcome.INVALID, finding.invalid
    return clause_of(limit.clause, limit.limit, finding.unit, finding.bounds, verdict, reason)


def _dependence(record: RunRecord) -> Dependence:
    steady_ms = record.frames.latency_ns[record.steady] / 1e6
    blocks = block_percentiles(record.frames.start_ns[record.steady], steady_ms, 0.95)
    values = [block.value for block in blocks]
    return Dependence(
        lag1_autocorrelation=lag1_autocorrelation(steady_ms),
        blocks=len(values),
        block_p95_ms_min=min(values, default=None),
        block_p95_ms_max=max(values, default=None),
    )


def _notes(record: RunRecord, sla: Sla, dependence: Dependence) -> Sequence[str]:
    lag1 = dependence.lag1_autocorrelation
    known = "lag-1 autocorrelation unknown" if lag1 is None else f"lag-1 autocorrelation {lag1:.2f}"
    notes = [f"Frames are not independent ({known}): every bound is optimistic."]
    if dependence.block_p95_ms_min is not None and dependence.block_p95_ms_max is not None:
        notes.append(
            f"P95 by second of the run: {_figure(dependence.block_p95_ms_min)} to "
            f"{_figure(dependence.block_p95_ms_max)} ms over {dependence.blocks} blocks."
        )
    notes.append(
        f"The first {record.warm_up_frames} of {len(record.frames)} frames are cold start and warm-up "
        "(change point), reported apart and not judged."
    )
    if why := unsettled_text(record):
        notes.append(f"The run {why}")
    if record.run.ended_early is not None:
        notes.append(f"The run was ended early by {record.run.ended_early}.")
    if sla.min_fps is not None:
        notes.append("The frame rate is bounded by Student's t over blocks of 1 s.")
    if record.machine_state is None:
        notes.append("The machine's state was not read: throttling would not show.")
    elif blind := sees_throttling(record.machine_state):
        notes.append(f"Throttling would not show: {blind}.")
    if sla.power:
        notes.append(
            "Energy and power are those of the steady frames; their bounds hold the sensor's uncertainty. "
            "They are of the scope that the meter names, and hold for this run."
        )
        if record.meter is not None:
            notes.append(f"Meter: {record.meter.facts.named}.")
            tau_s = max((rail.tau_s for rail in record.meter.facts.rails if rail.in_total), default=0.0)
            if tau_s and any(limit.quantity == "p95_w" for limit in sla.power):
                notes.append(
                    f"p95_w is that of the sensor's own average over {tau_s:.2g} s; "
                    "shorter peaks are higher and do not show."
                )
    if record.run.pace_hz is not None:
        notes.append(f"Paced at {record.run.pace_hz:g} Hz: a higher frame rate cannot show.")
    return [*notes, *contradictions(sla)]


def _amount(value: float, unit: str) -> str:
    return f"{_figure(100 * value)} %" if unit == "share" else f"{_figure(value)} {unit}"


def _figure(value: float) -> str:
    """Three or four digits, never a power of ten."""
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
