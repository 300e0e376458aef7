"""Whether a measurement can be judged at all: what it was made with, and what went wrong on the way."""

from __future__ import annotations

import os

import numpy as np

from edge_sdk.machine_state.changes import StateFinding, changes
from edge_sdk.measurements import Reason
from edge_sdk.report.record import ABSENT, RunRecord
from edge_sdk.sla import Sla, located_source

__all__ = ["faults_of", "mismatches", "state_faults", "state_findings"]

_UNREAL = ("null", "emulat", "replay", "fake")


def faults_of(record: RunRecord) -> list[str]:
    """Lists what makes a measurement unsound whatever is asked of it."""
    faults = list(record.unsound)
    provider, source, frames = record.provider, record.source, record.frames
    if provider.fallback:
        faults.append(f"provider fell back: {provider.asked} was asked for, {provider.loaded} ran.")
    if any(word in provider.loaded.lower() for word in _UNREAL):
        faults.append(f"no real engine ran: the provider is {provider.loaded}.")
    if source.ended_early:
        faults.append(f"the source ended early, after {len(frames)} frames.")
    ended = record.run.ended_early
    if ended is not None and ended.cause != "signal" and not source.ended_early:
        faults.append(f"the run ended early, after {len(frames)} frames, by {ended}.")
    times = [frames.latency_ns, *frames.stage_ns.values(), *frames.engine_ns.values()]
    negative = any(((column < 0) & (column != ABSENT)).any() for column in times)
    if negative or (np.diff(frames.start_ns) < 0).any():
        faults.append("the clock went backwards during the run.")
    return faults


def state_findings(record: RunRecord) -> tuple[StateFinding, ...]:
    """Lists what happened to the machine during the run; empty where its state was not read."""
    return () if record.machine_state is None else changes(record.machine_state)


def state_faults(record: RunRecord) -> list[str]:
    """Lists what happened to the machine that makes times and energies unsound."""
    return [finding.text for finding in state_findings(record) if finding.spoils]


def mismatches(record: RunRecord, sla: Sla) -> list[str]:
    """Lists what the record was made with that the SLA does not ask for."""
    found = []
    if sla.device not in ("auto", record.provider.asked):
        found.append(f"the run was asked to be on {record.provider.asked}, the SLA asks for {sla.device}.")
    if record.sla is not None and record.sla.sha256 == sla.sha256:
        return found
    engine, pace_hz = record.engine, record.run.pace_hz
    if sla.engine not in (engine.asked, engine.name):
        found.append(f"the record is of engine {engine.name}, the SLA asks for {sla.engine}.")
    home = os.path.expanduser("~") + "/"  # noqa: PTH111 - Path.expanduser fails without a home
    sources = (sla.source, located_source(sla))
    if record.source.uri not in (*sources, *(source.replace(home, "~/") for source in sources)):
        found.append(f"the record is of source {record.source.uri}, the SLA asks for {sla.source}.")
    if forced := record.frames.reason.count(Reason.FORCED.value):
        found.append(
            f"the caller forced the route of {forced} frames; an SLA judges the router's own choice."
        )
    if sla.run.pace_hz != pace_hz:
        found.append(f"the run was {_pace(pace_hz)}, the SLA asks for {_pace(sla.run.pace_hz)}.")
    return found


def _pace(pace_hz: float | None) -> str:
    return "back to back" if pace_hz is None else f"paced at {pace_hz:g} Hz"
