"""Recordings of power: a log of ours, the record of a run, a tegrastats log, a wall meter's CSV."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from edge_sdk.errors import MeterError, RecordError
from edge_sdk.json_text import JsonProblem, json_object
from edge_sdk.meter.boards import Board
from edge_sdk.meter.tegrastats import rails_behind_tegrastats
from edge_sdk.meter.tegrastats_line import TegrastatsLine, parse_line
from edge_sdk.meter.wall import load_csv, text_of
from edge_sdk.power import MeterFacts, PowerTrace
from edge_sdk.report.fields import Fields
from edge_sdk.report.power_part import facts_json, parse_facts, parse_trace, trace_json
from edge_sdk.stats import Energy, window_energy

__all__ = ["Recording", "load_recording", "log_json", "replay_json"]

_MOST_LOG_BYTES = 256 * 1024 * 1024

LOG_SCHEMA = "edge-sdk/power-log"
_DEFAULT_INTERVAL_S = 1.0


@dataclass(frozen=True, eq=False)
class Recording:
    """Power that was recorded earlier.

    Attributes:
        path: where from.
        facts: the meter, with an origin that is not "live".
        trace: its samples.
        dropped: pairs of (line of the file from 1, why it gave no sample).
        notes: what was assumed.
    """

    path: Path
    facts: MeterFacts
    trace: PowerTrace
    dropped: tuple[tuple[int, str], ...] = ()
    notes: tuple[str, ...] = ()

    def energy(self) -> tuple[Energy | None, str]:
        """Returns the energy from the first sample to the last, or None and why there is none."""
        rails = tuple(rail for rail in self.facts.rails if rail.in_total)
        if not rails:
            return None, self.facts.note
        whole = np.isfinite(self.trace.sum_of(self.facts.total_rails))
        times_ns = self.trace.times_ns[whole]
        if len(times_ns) < 2:
            return None, f"{len(times_ns)} whole samples, at least 2 are needed"
        kept = PowerTrace(
            times_ns,
            self.trace.read_ns[whole],
            {label: column[whole] for label, column in self.trace.watts.items()},
            {label: column[whole] for label, column in self.trace.joules.items()},
        )
        try:
            energy = window_energy(kept, rails, int(times_ns[0]), int(times_ns[-1]))
        except MeterError as error:
            return None, str(error)
        return energy, ""


def load_recording(path: Path, *, interval_s: float | None = None) -> Recording:
    """Reads a recording of any kind; its content says which.

    Arguments:
        path: the file.
        interval_s: between lines of a tegrastats log without timestamps; 1 s, its default, is assumed.

    Raises:
        MeterError: the file cannot be read, or holds no samples of power.
    """
    text = text_of(path)
    if text.lstrip().startswith("{"):
        return _from_json(path, text)
    lines = text.splitlines()
    parsed = [parse_line(line) for line in lines]
    if any(line.rails_mw for line in parsed) or any(line.is_tegrastats for line in parsed):
        return _from_tegrastats(path, lines, parsed, interval_s)
    wall = load_csv(path)
    return Recording(path, wall.facts, wall.trace(-float(wall.seconds[0])), wall.dropped, wall.notes)


def log_json(facts: MeterFacts, trace: PowerTrace, created: str) -> dict[str, Any]:
    """Lays a log of power out in JSON types, for `power replay`."""
    return {
        "schema": LOG_SCHEMA,
        "schema_version": 1,
        "created": created,
        "meter": facts_json(facts),
        "samples": trace_json(trace),
    }


def replay_json(recording: Recording) -> dict[str, Any]:
    """Condenses a recording to the figures of `power replay`.

    `mean_w` are means over samples. `energy_j` runs from the first sample to the last and is corrected
    for the sensor's lag; it is null where no total is known or the recording is too short.
    """
    facts, trace = recording.facts, recording.trace
    energy, why = recording.energy()
    total = trace.sum_of(facts.total_rails)
    duration_s = float(trace.times_ns[-1] - trace.times_ns[0]) / 1e9 if len(trace) else 0.0
    notes = [*recording.notes, facts.note, why, energy.low_confidence if energy else ""]
    return {
        "samples": len(trace),
        "dropped": [{"line": line, "why": reason} for line, reason in recording.dropped],
        "rails": {label: {"mean_w": _mean(column)} for label, column in trace.watts.items()},
        "module_mean_w": _mean(total),
        "module_rails": list(facts.total_rails),
        "energy_j": energy.corrected_j if energy else None,
        "energy_uncorrected_j": energy.uncorrected_j if energy else None,
        "energy_sigma_j": energy.sigma_j if energy else None,
        "duration_s": duration_s,
        "meter": facts.meter,
        "board": facts.board,
        "scope": facts.scope,
        "origin": facts.origin,
        "notes": [facts.caveat, *dict.fromkeys(note for note in notes if note)],
    }


def _from_json(path: Path, text: str) -> Recording:
    try:
        document = json_object(text, most_bytes=_MOST_LOG_BYTES)
    except JsonProblem as problem:
        raise MeterError(f"{path}: {problem}") from None
    schema = document.get("schema")
    try:
        if schema == LOG_SCHEMA:
            top = Fields(str(path), "", document)
            facts = parse_facts(top.section("meter"))
            samples = top.section("samples")
        elif schema == "edge-sdk/run-record":
            if not isinstance(document.get("meter"), Mapping):
                raise MeterError(f"{path}: this run was made without a power meter")
            meter = Fields(str(path), "meter", document["meter"])
            facts, samples = parse_facts(meter), meter.section("samples")
        else:
            raise MeterError(f"{path}: expected a power log or a run record, found schema {schema!r}")
        trace = parse_trace(samples, tuple(rail.label for rail in facts.rails))
    except RecordError as error:
        raise MeterError(str(error)) from error
    if not len(trace):
        raise MeterError(f"{path}: no samples in it")
    note = f"recorded by {facts.meter}" + (f" ({facts.caveat})" if facts.caveat else "")
    return Recording(path, replace(facts, origin="replay"), trace, notes=(note,))


def _from_tegrastats(
    path: Path, lines: list[str], parsed: list[TegrastatsLine], interval_s: float | None
) -> Recording:
    kept: list[tuple[int, TegrastatsLine]] = []
    dropped = []
    for number, (line, found) in enumerate(zip(lines, parsed, strict=True), start=1):
        if not line.strip():
            continue
        if found.truncated:
            names = ", ".join(found.truncated)
            dropped.append((number, f"cut off: digits of {names} may be missing"))
        elif not found.is_tegrastats:
            dropped.append((number, "not a line of tegrastats"))
        elif not found.rails_mw:
            dropped.append((number, "no power rail in it"))
        else:
            kept.append((number, found))
    if not kept:
        raise MeterError(
            f"{path}: no line holds a power rail ({len(dropped)} lines dropped). "
            "JetPack 5 prints rails to root only: run tegrastats with sudo"
        )
    times_s, notes, backwards = _times(kept, interval_s)
    dropped += backwards
    gone = {number for number, _ in backwards}
    kept = [entry for entry in kept if entry[0] not in gone]
    labels = list(dict.fromkeys(label for _, found in kept for label in found.rails_mw))
    watts = {
        label: np.array([found.rails_mw.get(label, np.nan) for _, found in kept], np.float64) / 1e3
        for label in labels
    }
    rails, note = rails_behind_tegrastats(
        {label: float(np.nanmean(column) * 1e3) for label, column in watts.items()}, Board("unknown")
    )
    total = any(rail.in_total for rail in rails)
    facts = MeterFacts(
        meter="tegrastats",
        board="unknown",
        scope="module" if total else "rails",
        rails=rails,
        origin="replay",
        note=note or "a log does not name its board: it is told by its rails",
    )
    times_ns = np.round(np.array(times_s) * 1e9).astype(np.int64)
    trace = PowerTrace(times_ns, np.zeros(len(times_ns), np.int64), watts)
    return Recording(path, facts, trace, tuple(sorted(dropped)), tuple(notes))


def _times(
    kept: list[tuple[int, TegrastatsLine]], interval_s: float | None
) -> tuple[list[float], list[str], list[tuple[int, str]]]:
    """Gives each line a time in seconds: its stamp, or its turn where the log has none."""
    if interval_s is not None or any(found.stamp is None for _, found in kept):
        step = interval_s or _DEFAULT_INTERVAL_S
        assumed = "as given" if interval_s else "assumed: the log has no timestamps"
        return [at * step for at in range(len(kept))], [f"{step:g} s between lines, {assumed}"], []
    # Stamps have no zone: they are one running clock, whatever the zone of this machine.
    utc = datetime.timezone.utc
    stamps = [found.stamp.replace(tzinfo=utc).timestamp() for _, found in kept if found.stamp is not None]
    sound: list[float] = []
    backwards = []
    for (number, _), stamp in zip(kept, stamps, strict=True):
        if sound and stamp < sound[-1]:
            backwards.append((number, "its time is before that of the line above"))
        else:
            sound.append(stamp)
    # Stamps are whole seconds: lines of one second are spread over it.
    times: list[float] = []
    for stamp, group in itertools.groupby(sound):
        same = len(list(group))
        times += [stamp - sound[0] + index / same for index in range(same)]
    return times, ["timestamps are whole seconds"], backwards


def _mean(column: Any) -> float | None:
    there = column[np.isfinite(column)]
    return float(there.mean()) if len(there) else None
