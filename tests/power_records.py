"""Run records with a power meter in them, made without engine, sensor or time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from records import MS, record_of

from edge_sdk.measurements import Route
from edge_sdk.power import MeterFacts, PowerPart, PowerTrace, RailFacts
from edge_sdk.report.record import RunRecord

S = 1_000_000_000
RAIL = RailFacts("VDD_IN", "ina3221 1-0040/in1", True, 0.43, 0.15, 0.04, 0.08, 0.002)
FACTS = MeterFacts("ina3221", "NVIDIA Jetson Orin NX", "module", (RAIL,))
IDLE_W, BUSY_W = 5.0, 9.0
PERIOD_MS, LATENCY_MS = 40.0, 40.0


def powered(
    seconds: float = 20.0,
    *,
    idle_after_w: float = IDLE_W,
    idle: bool = True,
    facts: MeterFacts = FACTS,
    routes: list[Route] | None = None,
    watts_of: dict[Route, float] | None = None,
    hz: float = 10.0,
    pause_ms: float = 0.0,
    **changes: Any,
) -> RunRecord:
    """Makes a record of back-to-back frames of 40 ms at a steady power, between two idle times of 5 s.

    The run begins at 10 s of the clock; the samples lag as the first rail of `facts` says. `watts_of` gives
    power by route instead of `BUSY_W`.
    """
    frames = round(seconds * 1e3 / PERIOD_MS)
    routes = routes or [Route.RGB] * frames
    record = record_of([LATENCY_MS] * frames, routes=routes, period_ms=PERIOD_MS)
    start_ns = 10 * S
    columns = replace(record.frames, start_ns=record.frames.start_ns + start_ns)
    pauses = np.full(frames, round(pause_ms * MS), np.int64)
    end_ns = int(columns.start_ns[-1]) + round(LATENCY_MS * MS) + int(pauses[:-1].sum())
    times = np.arange(0, round((end_ns + 10 * S) * hz / 1e9), dtype=np.int64) * round(1e9 / hz)
    inside = (times >= start_ns) & (times < end_ns)
    watts = np.where(times < start_ns, IDLE_W, idle_after_w)
    busy = np.full(len(times), BUSY_W)
    if watts_of:
        at = np.clip((times - start_ns) // round(PERIOD_MS * MS), 0, frames - 1)
        busy = np.array([watts_of[routes[index]] for index in at])
    watts = np.where(inside, busy, watts)
    if tau_s := facts.rails[0].tau_s:
        decay = float(np.exp(-1 / hz / tau_s))
        seen = [watts[0]]
        for value in watts[:-1]:
            seen.append(value + (seen[-1] - value) * decay)
        watts = np.array(seen)
    watts = watts + np.where(np.arange(len(watts)) % 2, 5e-4, -5e-4)  # a living sensor never stands still
    label = facts.rails[0].label
    part = PowerPart(
        facts=facts,
        trace=PowerTrace(times, np.full(len(times), 400_000, np.int64), {label: watts}),
        hz=hz,
        pause_ns=pauses,
        idle_before=(4 * S, 9 * S) if idle else None,
        idle_after=(end_ns + 3 * S, end_ns + 8 * S) if idle else None,
        cpu_share=0.002,
    )
    return replace(record, frames=columns, meter=replace(part, **changes), power=facts.named)
