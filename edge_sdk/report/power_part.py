"""The power of a run as JSON: what was sampled, by what, and when the run was idle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.power import ORIGINS, SCOPES, MeterFacts, PowerPart, PowerTrace, RailFacts, Skipped, Span
from edge_sdk.report.fields import Fields

__all__ = ["facts_json", "parse_facts", "parse_power_part", "parse_trace", "power_part_json", "trace_json"]


def power_part_json(part: PowerPart) -> dict[str, Any]:
    """Lays the power of a run out in JSON types."""
    return {
        **facts_json(part.facts),
        "hz_asked": part.hz,
        "hz_achieved": part.trace.rate_hz(),
        "cpu_share": part.cpu_share,
        "failed": part.failed,
        "idle_before_ns": list(part.idle_before) if part.idle_before else None,
        "idle_after_ns": list(part.idle_after) if part.idle_after else None,
        "pause_ns": part.pause_ns.tolist(),
        "samples": trace_json(part.trace),
    }


def parse_power_part(fields: Fields, frames: int) -> PowerPart:
    """Checks the power of a run; the inverse of `power_part_json`.

    Raises:
        RecordError: something in it is wrong.
    """
    facts = parse_facts(fields)
    pause_ns = fields.times("pause_ns", frames)
    return PowerPart(
        facts=facts,
        trace=parse_trace(fields.section("samples"), tuple(rail.label for rail in facts.rails)),
        hz=fields.number("hz_asked"),
        pause_ns=pause_ns,
        idle_before=_span(fields, "idle_before_ns"),
        idle_after=_span(fields, "idle_after_ns"),
        cpu_share=fields.optional("cpu_share", fields.number),
        failed=fields.text("failed"),
    )


def facts_json(facts: MeterFacts) -> dict[str, Any]:
    """Lays a meter's facts out in JSON types."""
    return {
        "meter": facts.meter,
        "board": facts.board,
        "scope": facts.scope,
        "origin": facts.origin,
        "note": facts.note,
        "rails": [asdict(rail) for rail in facts.rails],
        "skipped": [asdict(item) for item in facts.skipped],
        "tried": [list(pair) for pair in facts.tried],
    }


def parse_facts(fields: Fields) -> MeterFacts:
    """Checks a meter's facts.

    Raises:
        RecordError: something in it is wrong.
    """
    rails = [
        RailFacts(
            label=entry.text("label"),
            sensor=entry.text("sensor"),
            in_total=entry.flag("in_total"),
            **{key: entry.number(key) for key in ("tau_s", "tau_share", "lsb_w", "offset_w", "gain_share")},
        )
        for entry in fields.sections("rails")
    ]
    if len({rail.label for rail in rails}) != len(rails):
        raise fields.wrong("rails", "one entry a label", "a label twice")
    tried = fields.read("tried", "a list of [meter, why not]", _is_pairs)
    return MeterFacts(
        meter=fields.text("meter"),
        board=fields.text("board"),
        scope=fields.read("scope", f"one of {', '.join(SCOPES)}", lambda value: value in SCOPES),
        rails=tuple(rails),
        origin=fields.read("origin", f"one of {', '.join(ORIGINS)}", lambda value: value in tuple(ORIGINS)),
        note=fields.text("note"),
        skipped=tuple(
            Skipped(entry.text("channel"), entry.text("why")) for entry in fields.sections("skipped")
        ),
        tried=tuple((name, why) for name, why in tried),
    )


def trace_json(trace: PowerTrace) -> dict[str, Any]:
    """Lays samples out in JSON types, null where a rail gave nothing."""
    return {
        "count": len(trace),
        "times_ns": trace.times_ns.tolist(),
        "read_ns": trace.read_ns.tolist(),
        "watts": _columns_json(trace.watts),
        "joules": _columns_json(trace.joules),
    }


def parse_trace(fields: Fields, labels: tuple[str, ...]) -> PowerTrace:
    """Checks samples; every rail of the meter must have its column.

    Raises:
        RecordError: something in it is wrong.
    """
    count = fields.whole("count")
    watts, joules = fields.section("watts"), fields.section("joules")
    if set(watts.entries) != set(labels):
        raise fields.wrong("watts", f"a column for each of {', '.join(labels)}", ", ".join(watts.entries))
    for label in joules.entries:
        if label not in labels:
            raise joules.wrong(label, "a rail of the meter", label)
    times_ns = fields.times("times_ns", count)
    if (np.diff(times_ns) <= 0).any():
        raise fields.wrong("times_ns", "ascending times", "a time that is not after the one before")
    return PowerTrace(
        times_ns=times_ns,
        read_ns=fields.times("read_ns", count),
        watts={label: _column(watts, label, count) for label in labels},
        joules={label: _column(joules, label, count) for label in joules.entries},
    )


def _columns_json(columns: Mapping[str, NDArray[np.float64]]) -> dict[str, list[float | None]]:
    return {
        label: [None if math.isnan(value) else value for value in column.tolist()]
        for label, column in columns.items()
    }


def _column(fields: Fields, label: str, count: int) -> NDArray[np.float64]:
    values = fields.column(label, count, "a number or null", _is_number_or_none)
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def _span(fields: Fields, key: str) -> Span | None:
    value = fields.entries.get(key)
    if value is None:
        return None
    start_ns, end_ns = fields.read(key, "[start, end] in nanoseconds", _is_span)
    if end_ns <= start_ns:
        raise fields.wrong(key, "an end after the start", f"{start_ns} to {end_ns}")
    return start_ns, end_ns


def _is_span(value: Any) -> bool:
    return isinstance(value, list) and [type(part) for part in value] == [int, int]


def _is_number_or_none(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and abs(value) < 1e12)


def _is_pairs(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(entry, list) and [type(part) for part in entry] == [str, str] for entry in value
    )
