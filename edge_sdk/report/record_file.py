"""The run record as a JSON file: written readably, and believed only after every check.

Schema `edge-sdk/run-record`, version 2; version 1 had no `machine_state`. Times are integer nanoseconds,
`null` where a frame did not pass a stage. A reader ignores keys it does not know (`verdict` and
`machine_findings` among them, which are made again from the figures) and refuses a newer schema version; an
older version stays readable.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import RecordError
from edge_sdk.json_text import JsonProblem, json_value
from edge_sdk.machine_state.state import RunState
from edge_sdk.measurements import STAGES, Reason, Route
from edge_sdk.report.fields import Fields
from edge_sdk.report.power_part import parse_power_part, power_part_json
from edge_sdk.report.record import (
    ABSENT,
    ColdStart,
    Dropped,
    EndedEarly,
    EngineFacts,
    FrameColumns,
    ProviderFacts,
    RunFacts,
    RunRecord,
    SlaFacts,
    SourceFacts,
)
from edge_sdk.report.soundness import state_findings
from edge_sdk.report.typed import json_types, read_typed
from edge_sdk.saving import save_text
from edge_sdk.stats import USUAL_WARM_UP, WarmUpBudget

__all__ = [
    "SCHEMA",
    "SCHEMA_VERSION",
    "load_record",
    "parse_record",
    "record_json",
    "record_text",
    "write_record",
]

SCHEMA = "edge-sdk/run-record"
SCHEMA_VERSION = 2

MAX_FILE_NBYTES = 2**30
"""A larger file is not read."""


def record_json(record: RunRecord, verdict: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Lays a record out as the JSON document of schema version 2.

    Arguments:
        record: the run.
        verdict: `Verdicts.as_json()`, kept beside the figures for people; a reader makes it again.
    """
    frames = record.frames
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "created": record.created,
        "sdk_version": record.sdk_version,
        "sla": asdict(record.sla) if record.sla else None,
        "engine": asdict(record.engine),
        "provider": {**asdict(record.provider), "tried": [list(pair) for pair in record.provider.tried]},
        "machine": dict(record.machine),
        "machine_state": json_types(record.machine_state),
        "machine_findings": [asdict(finding) for finding in state_findings(record)],
        "source": {**asdict(record.source), "frames_read": len(frames) + len(record.dropped)},
        "run": {
            **asdict(record.run),
            "frames": len(frames),
            "duration_s": record.duration_ns / 1e9,
            "warm_up_frames": record.warm_up_frames,
        },
        "cold_start": asdict(record.cold_start),
        "power": record.power,
        "meter": power_part_json(record.meter) if record.meter else None,
        "conditions": list(record.conditions),
        "unsound": list(record.unsound),
        "detections": dict(record.detections),
        "notes": dict(record.notes),
        "dropped": [asdict(entry) for entry in record.dropped],
        "frames": {
            "key": list(frames.key),
            "route": list(frames.route),
            "reason": list(frames.reason),
            "thermal_consulted": frames.thermal_consulted.tolist(),
            "boxes": frames.boxes.tolist(),
            "start_ns": frames.start_ns.tolist(),
            "latency_ns": frames.latency_ns.tolist(),
            "stage_ns": {name: _nullable(column) for name, column in frames.stage_ns.items()},
            "engine_ns": {name: _nullable(column) for name, column in frames.engine_ns.items()},
        },
    }
    if verdict is not None:
        document["verdict"] = dict(verdict)
    return document


def write_record(record: RunRecord, path: Path | str, verdict: Mapping[str, Any] | None = None) -> None:
    """Writes a record's file: one line a fact, one line a column. Whole or not at all.

    Raises:
        SaveError: the file cannot be written.
    """
    save_text(path, record_text(record, verdict))


def record_text(record: RunRecord, verdict: Mapping[str, Any] | None = None) -> str:
    """Lays a record out as the text of its file."""
    sections = []
    for key, value in record_json(record, verdict).items():
        if key == "machine_state":
            sections.append(f" {json.dumps(key)}: {_laid_out(value, 1)}")
        elif isinstance(value, dict) and value:
            lines = ",\n".join(f"  {json.dumps(name)}: {_compact(entry)}" for name, entry in value.items())
            sections.append(f" {json.dumps(key)}: {{\n{lines}\n }}")
        else:
            sections.append(f" {json.dumps(key)}: {_compact(value)}")
    return "{\n" + ",\n".join(sections) + "\n}\n"


def load_record(path: Path | str) -> RunRecord:
    """Reads a record and checks that it is whole and agrees with itself.

    Raises:
        RecordError: it is not; the message names the key, what was expected and what was found.
    """
    path = Path(path)
    try:
        if path.stat().st_size > MAX_FILE_NBYTES:
            raise RecordError(f"{path}: larger than {MAX_FILE_NBYTES // 2**20} MiB, not read")
        content = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror or error})") from error
    try:
        document = json_value(content, most_bytes=MAX_FILE_NBYTES)
    except JsonProblem as problem:
        raise RecordError(f"{path}: {problem}") from None
    return parse_record(document, str(path))


def parse_record(document: Any, origin: str = "record") -> RunRecord:
    """Checks a record that is already in memory; the inverse of `record_json`.

    Arguments:
        document: the decoded JSON.
        origin: names it in messages.

    Raises:
        RecordError: see `load_record`.
    """
    top = Fields(origin, "", document)
    schema, version = top.entries.get("schema"), top.entries.get("schema_version")
    if schema != SCHEMA:
        raise top.wrong("schema", f'"{SCHEMA}"', schema)
    if type(version) is not int or version < 1:
        raise top.wrong("schema_version", "a whole number from 1", version)
    if version > SCHEMA_VERSION:
        raise RecordError(
            f"{origin}: schema version {version} is newer than the {SCHEMA_VERSION} this version reads. "
            "Update edge-sdk to judge this record."
        )
    run, source = top.section("run"), top.section("source")
    count = run.whole("frames")
    frames = _frames(top.section("frames"), count)
    record = RunRecord(
        created=top.read("created", "a time, ISO 8601 with its zone", _is_moment),
        sdk_version=top.text("sdk_version"),
        engine=_engine(top.section("engine")),
        provider=_provider(top.section("provider")),
        source=SourceFacts(
            uri=source.text("uri"),
            frames_expected=source.optional("frames_expected", source.whole),
            ended_early=source.flag("ended_early"),
            passes=source.whole("passes"),
            registration=source.text("registration"),
            thermal_unit=source.text("thermal_unit"),
            cameras=source.optional("cameras", lambda key: source.section(key).entries),
            pairs_lost=source.optional("pairs_lost", lambda key: _counts(source.section(key))) or {},
        ),
        run=RunFacts(
            frames_asked=run.optional("frames_asked", run.whole),
            duration_s_asked=run.optional("duration_s_asked", run.number),
            pace_hz=run.optional("pace_hz", run.number),
            seed=run.whole("seed"),
            threads=run.optional("threads", run.whole),
            late_frames=run.whole("late_frames"),
            missed_turns=run.whole("missed_turns"),
            pauses_left_out=run.flag("pauses_left_out") if "pauses_left_out" in run.entries else True,
            ended_early=run.optional("ended_early", lambda key: _ended_early(run.section(key))),
            warm_up=run.optional("warm_up", lambda key: _warm_up(run.section(key))) or USUAL_WARM_UP,
        ),
        cold_start=_cold_start(top.section("cold_start")),
        machine=top.section("machine").entries,
        frames=frames,
        dropped=tuple(Dropped(entry.text("key"), entry.text("why")) for entry in top.sections("dropped")),
        detections=top.section("detections").counts(),
        notes=top.section("notes").counts(),
        conditions=tuple(top.texts("conditions")),
        unsound=tuple(top.texts("unsound")),
        power=top.text("power"),
        sla=top.optional("sla", lambda key: _sla(top.section(key))),
        machine_state=top.optional("machine_state", lambda key: _machine_state(top.section(key))),
        meter=top.optional("meter", lambda key: parse_power_part(top.section(key), len(frames))),
    )
    _check_sums(record, run, source, top)
    return record


def _counts(fields: Fields) -> dict[str, int]:
    return {key: fields.whole(key) for key in fields.entries}


def _engine(fields: Fields) -> EngineFacts:
    return EngineFacts(
        *(fields.text(key) for key in ("asked", "name", "version", "bundle_sha256", "precision"))
    )


def _provider(fields: Fields) -> ProviderFacts:
    tried = fields.read("tried", "a list of [what, why not]", _is_pairs)
    return ProviderFacts(
        asked=fields.text("asked"),
        loaded=fields.text("loaded"),
        tried=tuple((what, why) for what, why in tried),
        fallback=fields.flag("fallback"),
        int8_sums=fields.optional("int8_sums", fields.text) or "",
    )


def _cold_start(fields: Fields) -> ColdStart:
    keys = ("import_ms", "load_ms", "first_result_ms")
    return ColdStart(*(fields.optional(key, fields.number) for key in keys))


def _ended_early(fields: Fields) -> EndedEarly:
    return EndedEarly(fields.text("cause"), fields.text("detail"))


def _warm_up(fields: Fields) -> WarmUpBudget:
    return WarmUpBudget(fields.number("seconds"), fields.whole("frames"), fields.number("share"))


def _sla(fields: Fields) -> SlaFacts:
    return SlaFacts(fields.text("name"), fields.text("sha256"))


def _machine_state(fields: Fields) -> RunState:
    state = read_typed(fields, RunState)
    watch, count = state.watch, len(state.watch.at_ms)
    for key in ("rss_kb", "used_kb", "hottest_c"):
        if len(getattr(watch, key)) != count:
            found = f"{len(getattr(watch, key))} entries"
            raise fields.wrong(f"watch.{key}", f"{count} entries, one a sample", found)
    return state


def _frames(fields: Fields, count: int) -> FrameColumns:
    routes, reasons = {route.value for route in Route}, {reason.value for reason in Reason}
    stages = fields.section("stage_ns")
    for stage in stages.entries:
        if stage not in STAGES:
            raise stages.wrong(stage, f"one of {', '.join(STAGES)}", stage)
    graphs = fields.section("engine_ns")
    return FrameColumns(
        key=tuple(fields.column("key", count, "text", lambda v: isinstance(v, str))),
        route=tuple(fields.column("route", count, " or ".join(sorted(routes)), _member_of(routes))),
        reason=tuple(fields.column("reason", count, "a known reason", _member_of(reasons))),
        thermal_consulted=np.array(
            fields.column("thermal_consulted", count, "true or false", lambda v: isinstance(v, bool)),
            dtype=bool,
        ),
        boxes=fields.times("boxes", count),
        start_ns=fields.times("start_ns", count),
        latency_ns=fields.times("latency_ns", count),
        stage_ns={stage: stages.times(stage, count, absent=True) for stage in stages.entries},
        engine_ns={graph: graphs.times(graph, count, absent=True) for graph in graphs.entries},
    )


def _check_sums(record: RunRecord, run: Fields, source: Fields, top: Fields) -> None:
    frames = record.frames
    total = np.zeros(len(frames), np.int64)
    for stage, column in frames.stage_ns.items():
        if stage not in ("source", "pairing"):  # reading a pair is not part of its latency
            total += np.where(column == ABSENT, 0, column)
    if not np.array_equal(total, frames.latency_ns):
        at = int(np.flatnonzero(total != frames.latency_ns)[0])
        raise top.wrong(
            f"frames.latency_ns[{at}]",
            f"the sum of its stages, {total[at]} ns",
            f"{frames.latency_ns[at]} ns",
        )
    frames_read = source.whole("frames_read")
    if frames_read != len(frames) + len(record.dropped):
        expected = f"{len(frames)} processed + {len(record.dropped)} dropped"
        raise source.wrong("frames_read", expected, frames_read)
    if sum(record.detections.values()) != int(frames.boxes.sum()):
        raise top.wrong(
            "detections", f"as many as frames.boxes, {frames.boxes.sum()}", sum(record.detections.values())
        )
    if not math.isclose(run.number("duration_s"), record.duration_ns / 1e9, abs_tol=1e-6):
        expected = f"{record.duration_ns / 1e9:.6f} s, as frames.start_ns says"
        raise run.wrong("duration_s", expected, run.number("duration_s"))


def _is_pairs(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(entry, list) and [type(part) for part in entry] == [str, str] for entry in value
    )


def _is_moment(value: Any) -> bool:
    try:
        return isinstance(value, str) and datetime.datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _member_of(names: set[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in names


def _nullable(column: NDArray[np.int64]) -> list[int | None]:
    return [None if value == ABSENT else value for value in column.tolist()]


def _laid_out(value: Any, depth: int) -> str:
    """Writes objects within objects one key a line; a list stays on its line."""
    if not isinstance(value, dict) or not any(isinstance(entry, (dict, list)) for entry in value.values()):
        return _compact(value)
    indent = " " * (depth + 1)
    lines = (f"{indent}{json.dumps(name)}: {_laid_out(entry, depth + 1)}" for name, entry in value.items())
    return "{\n" + ",\n".join(lines) + "\n" + " " * depth + "}"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
