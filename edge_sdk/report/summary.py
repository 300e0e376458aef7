"""A record condensed to the figures and sentences that every rendering shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_sdk.measurements import STAGES, Route
from edge_sdk.report.clauses import ClauseVerdict
from edge_sdk.report.machine_text import state_text
from edge_sdk.report.power_text import power_caveats, power_facts
from edge_sdk.report.reach import unsettled_text
from edge_sdk.report.record import ABSENT, RunRecord
from edge_sdk.report.soundness import state_findings
from edge_sdk.stats import CONFIDENCE, Bounds, percentile, percentile_bounds

__all__ = [
    "SHOWN_SHARES",
    "RouteSummary",
    "RunSummary",
    "bounded",
    "figure",
    "limit_text",
    "printable",
    "shown_figures",
    "summarise",
    "with_signs",
]

SHOWN_SHARES = (0.5, 0.95, 0.99)
"""The percentiles that tables show."""


@dataclass(frozen=True)
class RouteSummary:
    """The steady frames of one route, or of all.

    Attributes:
        route: its name, or "all".
        frames: after warm-up.
        share: of all steady frames, 0 - 1.
        latency_ms: one `Bounds` a percentile of `SHOWN_SHARES`.
        engine_p50_ms: median time inside the graphs.
        stage_p50_ms: median time of each stage that ran.
    """

    route: str
    frames: int
    share: float
    latency_ms: tuple[Bounds, ...]
    engine_p50_ms: float | None
    stage_p50_ms: Mapping[str, float]


@dataclass(frozen=True)
class RunSummary:
    """What a person reads of a run.

    Attributes:
        routes: each route that any frame took, then all of them.
        reasons: frames by reason, the most frequent first, warm-up included.
        detections: objects by class.
        facts: pairs of (heading, sentence): engine, provider, machine, source, run, cold start, power.
        caveats: what is not measured, or must be known.
    """

    routes: tuple[RouteSummary, ...]
    reasons: Mapping[str, int]
    detections: Mapping[str, int]
    facts: tuple[tuple[str, str], ...]
    caveats: tuple[str, ...]


def summarise(record: RunRecord) -> RunSummary:
    """Condenses a record for `table` and `markdown`. Figures are of steady frames."""
    frames, steady = record.frames, record.steady
    total = int(steady.sum())
    routes = []
    for name in (route.value for route in Route):
        wanted = steady & frames.is_route(name)
        if name in frames.route:
            routes.append(_route(record, name, wanted, total))
    routes.append(_route(record, "all", steady, total))
    return RunSummary(
        routes=tuple(routes),
        reasons=dict(Counter(frames.reason).most_common()),
        detections={printable(name): count for name, count in sorted(record.detections.items())},
        facts=tuple((heading, printable(sentence)) for heading, sentence in _facts(record)),
        caveats=tuple(printable(caveat) for caveat in _caveats(record)),
    )


def figure(value: float | str | None, digits: int = 3) -> str:
    """Writes a number for people: a few significant digits, never a power of ten, "-" for none."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return printable(value)
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    return f"{value:.{max(0, digits - max(whole, 1)) if value else 0}f}" if whole else f"{value:.{digits}g}"


def bounded(bounds: Bounds) -> str:
    """Writes an estimate with the bound that counts: `12.3 <= 13.1`, or `12.3 too few`."""
    if bounds.estimate is None:
        return "-"
    return f"{figure(bounds.estimate)} " + (
        "too few" if bounds.upper is None else f"<= {figure(bounds.upper)}"
    )


def printable(text: str) -> str:
    """Replaces what could steer a terminal: names and reasons come from files and cameras."""
    return "".join(sign if sign.isprintable() else " " if sign.isspace() else "?" for sign in text)


def with_signs(text: str) -> str:
    """Writes ≤ and ≥ where figures are compared; a version in a command (`numpy>=1.26`) stays as typed."""
    return " ".join({"<=": "≤", ">=": "≥"}.get(word, word) for word in text.split(" "))


def limit_text(clause: ClauseVerdict) -> str:
    """Writes what a clause asks for: `<= 60 ms`, `>= 20 fps`, `<= 1 %`."""
    if isinstance(clause.limit, str):
        return clause.limit
    if clause.unit == "share":
        return f"<= {100 * clause.limit:g} %"
    if clause.unit == "frames/s":
        return f">= {clause.limit:g} fps"
    return f"<= {clause.limit:g} {clause.unit}"


def shown_figures(clause: ClauseVerdict) -> list[str]:
    """Writes what was measured and its two bounds, in the unit that `limit_text` uses."""
    scale = 100.0 if clause.unit == "share" else 1.0
    shown = (clause.estimate, clause.lower, clause.upper)
    return [figure(value if value is None or isinstance(value, str) else value * scale) for value in shown]


def _route(record: RunRecord, name: str, wanted: NDArray[np.bool_], total: int) -> RouteSummary:
    frames = record.frames
    latency_ms = frames.latency_ns[wanted] / 1e6
    count = len(latency_ms)
    stages = {}
    for stage in STAGES:
        column = frames.stage_ns.get(stage)
        passed = column[wanted & (column != ABSENT)] if column is not None else np.zeros(0)
        if len(passed):
            stages[stage] = percentile(passed, 0.5) / 1e6
    return RouteSummary(
        route=name,
        frames=count,
        share=count / total if total else 0.0,
        latency_ms=tuple(percentile_bounds(latency_ms, share, CONFIDENCE) for share in SHOWN_SHARES),
        engine_p50_ms=percentile(frames.engine_total_ns[wanted], 0.5) / 1e6 if count else None,
        stage_p50_ms=stages,
    )


def _facts(record: RunRecord) -> list[tuple[str, str]]:
    engine, provider, run, source = record.engine, record.provider, record.run, record.source
    machine, cold = record.machine, record.cold_start
    # The first sentence says what happened; the rest, how to mend it, is in the record.
    tried = "; ".join(f"{what}: {why.split('. ')[0]}" for what, why in provider.tried)
    chip = ", ".join(
        str(part) for part in (machine.get("board"), machine.get("cpu_model"), machine.get("gpu")) if part
    )
    pace = "back to back" if run.pace_hz is None else f"paced at {run.pace_hz:g} Hz"
    lost = f", {run.late_frames} late, {run.missed_turns} turns missed" if run.pace_hz is not None else ""
    passes = f", {source.passes} passes" if source.passes > 1 else ""
    steady_ns = record.frames.start_ns[record.steady]
    rate = ""
    if len(steady_ns) > 1 and steady_ns[-1] > steady_ns[0]:
        rate = f", {figure((len(steady_ns) - 1) * 1e9 / float(steady_ns[-1] - steady_ns[0]))} frames/s"
    return [
        ("Engine", f"{engine.name} {engine.version}, {engine.precision}, {engine.bundle_sha256[:12]}"),
        (
            "Provider",
            f"{provider.loaded} (asked for {provider.asked}{', a FALLBACK' if provider.fallback else ''})"
            + (f"; INT8 sums {provider.int8_sums}" if provider.int8_sums else "")
            + (f"; tried {tried}" if tried else ""),
        ),
        (
            "Machine",
            f"{chip or 'unknown'}, {machine.get('cpu_cores_usable', '?')} cores usable, "
            f"{machine.get('system', '?')} {machine.get('kernel', '?')}, Python {machine.get('python', '?')}",
        ),
        (
            "Source",
            f"{source.uri}{passes}; registration: {source.registration}; thermal: {source.thermal_unit}",
        ),
        (
            "Run",
            f"{len(record.frames)} frames in {figure(record.duration_ns / 1e9)} s, {pace}{rate}, "
            f"{len(record.dropped)} dropped{lost}",
        ),
        (
            "Cold start",
            f"load {figure(cold.load_ms)} ms, first result {figure(cold.first_result_ms)} ms"
            + (f", import {figure(cold.import_ms)} ms" if cold.import_ms is not None else ""),
        ),
        ("Warm-up", f"leading frames kept apart, found by change point: {record.warm_up_frames}"),
        *([("Ended early", _ended_text(record))] if run.ended_early else []),
        *power_facts(record, figure),
        ("State", state_text(record.machine_state)),
    ]


def _ended_text(record: RunRecord) -> str:
    """What ended a run before its time, after how much of what was asked."""
    run = record.run
    of_frames = f" of {run.frames_asked}" if run.frames_asked is not None else ""
    of_s = f" of {run.duration_s_asked:g}" if run.duration_s_asked is not None else ""
    lasted = f"{figure(record.duration_ns / 1e9)}{of_s} s"
    return f"by {run.ended_early}, after {len(record.frames)}{of_frames} frames and {lasted}"


def _caveats(record: RunRecord) -> list[str]:
    caveats = [f"This run was ended early {_ended_text(record)}."] if record.run.ended_early else []
    if why := unsettled_text(record):
        caveats.append(f"The run {why}")
    caveats += [f"Machine: {finding.text}" for finding in state_findings(record)]
    caveats += [*record.conditions, *power_caveats(record)]
    for note, count in record.notes.items():
        caveats.append(f"{note} ({count} of {len(record.frames)} frames)")
    for why, count in Counter(entry.why for entry in record.dropped).most_common(5):
        caveats.append(f"dropped {count}: {why}")
    return caveats
