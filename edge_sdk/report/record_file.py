"""The run record as a JSON file: written readably, and believed only after every check.

Schema `edge-sdk/run-record`, version 1. Times are integer nanoseconds, `null` where a frame did not pass
a stage. A reader ignores keys it does not know (`verdict` among them, which is made again from the
figures) and refuses a newer schema version; an older version stays readable.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import RecordError
from edge_sdk.measurements import STAGES, Reason, Route
from edge_sdk.report.record import (
    ABSENT,
    ColdStart,
    Dropped,
    EngineFacts,
    FrameColumns,
    ProviderFacts,
    RunFacts,
    RunRecord,
    SlaFacts,
    SourceFacts,
)

__all__ = ["SCHEMA", "SCHEMA_VERSION", "load_record", "parse_record", "record_json", "write_record"]

SCHEMA = "edge-sdk/run-record"
SCHEMA_VERSION = 1

MAX_FILE_NBYTES = 2**30
"""A larger file is not read."""

_T = TypeVar("_T")
_ENTRY_EXPECTED = "a whole number of nanoseconds"


def record_json(record: RunRecord, verdict: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Lays a record out as the JSON document of schema version 1.

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
        "source": {**asdict(record.source), "frames_read": len(frames) + len(record.dropped)},
        "run": {
            **asdict(record.run),
            "frames": len(frames),
            "duration_s": record.duration_ns / 1e9,
            "warm_up_frames": record.warm_up_frames,
        },
        "cold_start": asdict(record.cold_start),
        "power": record.power,
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
    """Writes a record's file: one line a fact, one line a column.

    Raises:
        RecordError: the file cannot be written.
    """
    sections = []
    for key, value in record_json(record, verdict).items():
        if isinstance(value, dict) and value:
            lines = ",\n".join(f"  {json.dumps(name)}: {_compact(entry)}" for name, entry in value.items())
            sections.append(f" {json.dumps(key)}: {{\n{lines}\n }}")
        else:
            sections.append(f" {json.dumps(key)}: {_compact(value)}")
    try:
        Path(path).write_text("{\n" + ",\n".join(sections) + "\n}\n", encoding="utf-8")
    except OSError as error:
        raise RecordError(f"{path}: cannot be written ({error.strerror or error})") from error


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
        document = json.loads(content, parse_constant=_refuse_constant)
    except RecursionError:
        raise RecordError(f"{path}: nested too deeply for a run record") from None
    except ValueError as error:
        raise RecordError(f"{path}: not JSON that can be read ({error})") from error
    return parse_record(document, str(path))


def parse_record(document: Any, origin: str = "record") -> RunRecord:
    """Checks a record that is already in memory; the inverse of `record_json`.

    Arguments:
        document: the decoded JSON.
        origin: names it in messages.

    Raises:
        RecordError: see `load_record`.
    """
    top = _Fields(origin, "", document)
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
        ),
        run=RunFacts(
            frames_asked=run.optional("frames_asked", run.whole),
            duration_s_asked=run.optional("duration_s_asked", run.number),
            pace_hz=run.optional("pace_hz", run.number),
            seed=run.whole("seed"),
            threads=run.optional("threads", run.whole),
            late_frames=run.whole("late_frames"),
            missed_turns=run.whole("missed_turns"),
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
    )
    _check_sums(record, run, source, top)
    return record


def _engine(fields: _Fields) -> EngineFacts:
    return EngineFacts(
        *(fields.text(key) for key in ("asked", "name", "version", "bundle_sha256", "precision"))
    )


def _provider(fields: _Fields) -> ProviderFacts:
    tried = fields.read("tried", "a list of [what, why not]", _is_pairs)
    return ProviderFacts(
        asked=fields.text("asked"),
        loaded=fields.text("loaded"),
        tried=tuple((what, why) for what, why in tried),
        fallback=fields.flag("fallback"),
    )


def _cold_start(fields: _Fields) -> ColdStart:
    keys = ("import_ms", "load_ms", "first_result_ms")
    return ColdStart(*(fields.optional(key, fields.number) for key in keys))


def _sla(fields: _Fields) -> SlaFacts:
    return SlaFacts(fields.text("name"), fields.text("sha256"))


def _frames(fields: _Fields, count: int) -> FrameColumns:
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


def _check_sums(record: RunRecord, run: _Fields, source: _Fields, top: _Fields) -> None:
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


class _Fields:
    """One object of the document, with where it stands."""

    def __init__(self, origin: str, key: str, value: Any) -> None:
        self.origin, self.key = origin, key
        if not isinstance(value, dict):
            raise self.wrong("", "an object", value)
        self.entries: dict[str, Any] = value

    def wrong(self, key: str, expected: str, found: Any) -> RecordError:
        where = ".".join(part for part in (self.key, key) if part)
        shown = "nothing" if found is None else str(found)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        return RecordError(
            f"{self.origin}: {where + ': ' if where else ''}expected {expected}, found {shown}. "
            "The file is broken or was edited; measure again."
        )

    def read(self, key: str, expected: str, sound: Callable[[Any], bool]) -> Any:
        value = self.entries.get(key)
        if not sound(value):
            raise self.wrong(key, expected, value)
        return value

    def text(self, key: str) -> str:
        return str(self.read(key, "text", lambda value: isinstance(value, str)))

    def flag(self, key: str) -> bool:
        return bool(self.read(key, "true or false", lambda value: isinstance(value, bool)))

    def whole(self, key: str) -> int:
        return int(self.read(key, "a whole number from 0", lambda v: type(v) is int and v >= 0))

    def number(self, key: str) -> float:
        return float(self.read(key, "a number from 0", _is_amount))

    def optional(self, key: str, read: Callable[[str], _T]) -> _T | None:
        return None if self.entries.get(key) is None else read(key)

    def section(self, key: str) -> _Fields:
        return _Fields(self.origin, f"{self.key}.{key}" if self.key else key, self.entries.get(key))

    def sections(self, key: str) -> list[_Fields]:
        entries = self.read(key, "a list", lambda value: isinstance(value, list))
        return [_Fields(self.origin, f"{key}[{at}]", entry) for at, entry in enumerate(entries)]

    def texts(self, key: str) -> list[str]:
        return list(self.read(key, "a list of text", _is_texts))

    def counts(self) -> dict[str, int]:
        return {key: self.whole(key) for key in self.entries}

    def column(self, key: str, count: int, expected: str, sound: Callable[[Any], bool]) -> list[Any]:
        values = self.read(key, f"a list of {count}, one a frame", lambda value: isinstance(value, list))
        if len(values) != count:
            raise self.wrong(key, f"{count} entries, one a frame", f"{len(values)} entries")
        for at, value in enumerate(values):
            if not sound(value):
                raise self.wrong(f"{key}[{at}]", expected, value)
        return list(values)

    def times(self, key: str, count: int, absent: bool = False) -> NDArray[np.int64]:
        values = self.column(key, count, _ENTRY_EXPECTED, _is_absent_or_ns if absent else _is_ns)
        return np.array([ABSENT if value is None else value for value in values], dtype=np.int64)


def _is_ns(value: Any) -> bool:
    return type(value) is int and abs(value) < 2**62


def _is_absent_or_ns(value: Any) -> bool:
    return value is None or _is_ns(value)


def _is_amount(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e300


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _is_pairs(value: Any) -> bool:
    return isinstance(value, list) and all(_is_texts(entry) and len(entry) == 2 for entry in value)


def _is_moment(value: Any) -> bool:
    try:
        return isinstance(value, str) and datetime.datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _member_of(names: set[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in names


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _nullable(column: NDArray[np.int64]) -> list[int | None]:
    return [None if value == ABSENT else value for value in column.tolist()]


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
