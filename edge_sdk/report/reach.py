"""Whether a run was as long as asked, and settled: what a clause needs beside its bounds to pass."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from edge_sdk.report.clauses import ClauseVerdict, unproven
from edge_sdk.report.record import ABSENT, RunRecord
from edge_sdk.sla import LatencyLimit, Sla
from edge_sdk.stats import percentile, rate_bounds

__all__ = ["settled", "shortfalls", "unsettled_text"]

_SPARE_SHARE = 0.01
_SPARE_PERIODS = 2
"""No frame starts after the asked time, so the last one may end this much before it."""


def shortfalls(record: RunRecord, sla: Sla) -> Iterator[str]:
    """Says what a record lacks of the length that the SLA states, or that its own run was to have.

    A run that was stopped by hand lacks it; a source that ended and an error make it unsound instead.
    """
    plan, run = sla.run, record.run
    asked = [(plan.frames, plan.duration_s, "the SLA asks for")] if plan.length_stated else []
    if run.ended_early is not None:
        asked.append(
            (run.frames_asked, run.duration_s_asked, f"ended early by {run.ended_early}; asked were")
        )
    for frames, duration_s, who in asked:
        found = len(record.frames)
        if frames is not None and found < frames:
            yield f"the run is too short: {who} {frames} frames, the record holds {found}."
            return
        if duration_s is not None and record.duration_ns / 1e9 + _spare_s(record, duration_s) < duration_s:
            lasted = f"{record.duration_ns / 1e9:.3g} s"
            yield f"the run is too short: {who} {duration_s:g} s, the record lasts {lasted}."
            return


def settled(record: RunRecord, clause: ClauseVerdict, limit: LatencyLimit | None) -> ClauseVerdict:
    """Lets a clause on times pass only if the slow head of a run that did not settle keeps it too.

    Arguments:
        record: the run.
        clause: as judged over all frames.
        limit: on a percentile of latency; None for the frame rate.
    """
    head = record.settling.head
    if not head or (limit is not None and limit.share is None):
        return clause
    frames = record.frames
    first = np.arange(len(frames)) < head
    first[0] = False  # cold
    if limit is None:
        rate = rate_bounds(frames.start_ns[first]).estimate
        kept = rate is None or (isinstance(clause.limit, float) and rate >= clause.limit)
    else:
        column = frames.latency_ns
        if limit.route is not None:
            first &= frames.is_route(limit.route.value)
        if limit.stage is not None:
            column = frames.stage_ns.get(limit.stage, np.full(len(frames), ABSENT))
            first &= column != ABSENT
        assert limit.share is not None
        kept = not first.any() or percentile(column[first] / 1e6, limit.share) <= limit.limit_ms
    return clause if kept else unproven(clause, unsettled_text(record))


def unsettled_text(record: RunRecord) -> str:
    """Says that and how a run did not settle; "" where it did."""
    found, budget = record.settling, record.run.warm_up
    if not found.head:
        return ""
    return (
        f"did not settle in time: the first {found.head} of {len(record.frames)} frames "
        f"({found.head_s:.1f} s) are {found.slower:.2g} times as slow as the rest, "
        f"and warm-up may take {budget.seconds:g} s, {budget.frames} frames and "
        f"{100 * budget.share:g} % of the run. They count with the rest."
    )


def _spare_s(record: RunRecord, duration_s: float) -> float:
    periods_ns = np.diff(record.frames.start_ns)
    period_s = float(np.median(periods_ns)) / 1e9 if len(periods_ns) else 0.0
    return max(_SPARE_SHARE * duration_s, _SPARE_PERIODS * period_s)
