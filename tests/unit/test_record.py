"""The run record: what is collected, and that a file is believed only when it agrees with itself."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from records import MS, frame_result, record_of

from edge_sdk.errors import RecordError, SaveError
from edge_sdk.measurements import Route
from edge_sdk.report.record import ABSENT, NO_POWER, RunRecord, RunRecorder, SlaFacts
from edge_sdk.report.record_file import load_record, parse_record, record_json, write_record

ROUTES = [Route.RGB, Route.FUSE, Route.THERMAL, Route.RGB]


@pytest.fixture
def record() -> RunRecord:
    return record_of([30, 40, 10, 20], routes=ROUTES, dropped=2, sla=SlaFacts("line", "cd" * 32))


def test_columns_hold_each_frame(record: RunRecord) -> None:
    frames = record.frames
    assert frames.key == ("0000", "0001", "0002", "0003")
    assert frames.route == ("rgb", "fuse", "thermal", "rgb")
    assert frames.latency_ns.tolist() == [30 * MS, 40 * MS, 10 * MS, 20 * MS]
    assert frames.thermal_consulted.tolist() == [False, True, True, False]
    assert frames.engine_ns["fuse"].tolist() == [ABSENT, 15 * MS, ABSENT, ABSENT]
    assert frames.engine_total_ns.tolist() == [22_500_000, 30 * MS, 7_500_000, 15 * MS]
    assert set(frames.stage_ns) == {"source", "preprocess", "engine"}
    assert record.detections == {"insulator": 4}
    assert record.duration_ns == 140 * MS


def test_cold_start_is_the_first_latency_and_power_is_never_zero(record: RunRecord) -> None:
    assert record.cold_start.first_result_ms == 30
    assert record.cold_start.load_ms == 900
    assert record.power == NO_POWER


def test_the_first_frame_is_never_steady() -> None:
    assert record_of([5.0] * 50).warm_up_frames == 1
    assert record_of([330.0, *[25.0] * 99]).warm_up_frames == 1
    assert record_of([6.8] * 25 + [4.95] * 300).warm_up_frames == 25
    assert record_of([]).warm_up_frames == 0
    assert record_of([5.0]).steady.tolist() == [False]


def test_notes_and_drops_are_counted() -> None:
    recorder = RunRecorder()
    recorder.add(frame_result("a", 1, notes=("registration assumed",)), 0)
    recorder.add(frame_result("b", 1, boxes=0, notes=("registration assumed",)), MS)
    assert (recorder.frames, recorder.dropped) == (2, 0)
    recorder.drop("c", "truncated image")
    assert (recorder.frames, recorder.dropped) == (2, 1)


def test_adding_a_frame_is_cheap() -> None:
    recorder, result = RunRecorder(), frame_result("a", 1, Route.FUSE, boxes=4)
    best_ns = min(_time_of(lambda: recorder.add(result, 0)) for _ in range(2000))
    assert best_ns < 20_000


def _time_of(call: Callable[[], None]) -> int:
    start_ns = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - start_ns


def test_a_file_gives_the_same_record_back(record: RunRecord, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_record(record, path, {"overall": "PASS"})
    again = load_record(path)
    assert record_json(again) == record_json(record)
    assert again.frames.stage_ns["engine"].tolist() == record.frames.stage_ns["engine"].tolist()
    document = json.loads(path.read_text())
    assert (document["schema"], document["schema_version"]) == ("edge-sdk/run-record", 2)
    assert document["verdict"] == {"overall": "PASS"}
    assert document["frames"]["engine_ns"]["fuse"] == [None, 15 * MS, None, None]
    assert document["source"]["frames_read"] == 6
    assert document["dropped"][0] == {"key": "bad 0", "why": "truncated image"}
    assert max(map(len, path.read_text().splitlines())) < 200  # one line a fact


def test_an_empty_run_survives_the_file(tmp_path: Path) -> None:
    write_record(record_of([]), tmp_path / "record.json")
    assert len(load_record(tmp_path / "record.json").frames) == 0


def test_a_clock_that_ran_backwards_survives_the_file() -> None:
    record = record_of([5, 5, 5], period_ms=-10)
    assert np.diff(parse_record(record_json(record)).frames.start_ns).max() < 0


Edit = Callable[[dict[str, Any]], None]


def _set(*path: Any) -> Edit:
    """Sets the last of `path` at the place the others lead to."""

    def edit(document: dict[str, Any]) -> None:
        for step in path[:-2]:
            document = document[step]
        document[path[-2]] = path[-1]

    return edit


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (_set("schema", "other"), 'schema: expected "edge-sdk/run-record", found other'),
        (_set("schema_version", "1"), "schema_version: expected a whole number from 1, found 1"),
        (
            _set("schema_version", 3),
            "schema version 3 is newer than the 2 this version reads. Update edge-sdk",
        ),
        (_set("created", "yesterday"), "created: expected a time"),
        (_set("created", "2026-01-02T03:04:05"), "created: expected a time"),
        (_set("engine", None), "engine: expected an object, found nothing"),
        (_set("engine", "name", 3), "engine.name: expected text, found 3"),
        (_set("provider", "fallback", "no"), "provider.fallback: expected true or false"),
        (_set("provider", "tried", [["a"]]), "provider.tried: expected a list of"),
        (_set("run", "frames", 5), "frames.key: expected 5 entries, one a frame, found 4 entries"),
        (_set("run", "duration_s", 1.0), "run.duration_s: expected 0.140000 s, as frames.start_ns says"),
        (_set("run", "pace_hz", -1), "run.pace_hz: expected a number from 0"),
        (_set("run", "seed", True), "run.seed: expected a whole number"),
        (_set("source", "frames_read", 9), "source.frames_read: expected 4 processed + 2 dropped, found 9"),
        (_set("frames", "key", ["a"]), "frames.key: expected 4 entries"),
        (_set("frames", "route", 0, "rbg"), "frames.route[0]: expected fuse or rgb or thermal, found rbg"),
        (_set("frames", "reason", 1, "because"), "frames.reason[1]: expected a known reason"),
        (_set("frames", "boxes", 0, "one"), "frames.boxes[0]: expected a whole number"),
        (_set("frames", "boxes", 0, 7), "detections: expected as many as frames.boxes, 10, found 4"),
        (
            _set("frames", "latency_ns", 2, 5),
            "frames.latency_ns[2]: expected the sum of its stages, 10000000 ns",
        ),
        (
            _set("frames", "latency_ns", 2, 1.5),
            "frames.latency_ns[2]: expected a whole number of nanoseconds",
        ),
        (
            _set("frames", "latency_ns", 2, None),
            "frames.latency_ns[2]: expected a whole number of nanoseconds",
        ),
        (
            _set("frames", "latency_ns", 2, 2**70),
            "frames.latency_ns[2]: expected a whole number of nanoseconds",
        ),
        (_set("frames", "stage_ns", "engine", [1]), "frames.stage_ns.engine: expected 4 entries"),
        (_set("frames", "stage_ns", "lunch", []), "frames.stage_ns.lunch: expected one of source"),
        (_set("frames", "stage_ns", []), "frames.stage_ns: expected an object"),
        (_set("frames", "thermal_consulted", 0, 1), "frames.thermal_consulted[0]: expected true or false"),
        (_set("dropped", 0, {"key": "x"}), "dropped[0].why: expected text, found nothing"),
        (_set("conditions", "none"), "conditions: expected a list of text"),
        (_set("detections", "insulator", -1), "detections.insulator: expected a whole number"),
        (_set("power", 0), "power: expected text, found 0"),
        (_set("cold_start", "load_ms", "fast"), "cold_start.load_ms: expected a number"),
        (_set("sla", {"name": "x"}), "sla.sha256: expected text, found nothing"),
    ],
)
def test_an_edited_record_is_refused_by_key(record: RunRecord, edit: Edit, words: str) -> None:
    document = copy.deepcopy(record_json(record))
    edit(document)
    with pytest.raises(RecordError) as caught:
        parse_record(document, "run.json")
    assert str(caught.value).startswith("run.json: ")
    assert words in str(caught.value)


def test_keys_of_a_later_minor_change_are_passed_over(record: RunRecord) -> None:
    assert parse_record({**record_json(record), "energy": {}}).frames.key == record.frames.key


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a": NaN}', b"3", b"null"])
def test_a_broken_file_is_an_error_of_ours(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(content)
    with pytest.raises(RecordError, match=r"record\.json: "):
        load_record(path)


def test_every_missing_key_is_named(record: RunRecord) -> None:
    whole = record_json(record)
    for key in set(whole) - {"sla", "meter", "machine_state", "machine_findings"}:
        with pytest.raises(RecordError):
            parse_record({name: value for name, value in whole.items() if name != key})


def test_files_that_cannot_be_opened(record: RunRecord, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="cannot be read"):
        load_record(tmp_path / "none.json")
    with pytest.raises(SaveError, match="cannot be written"):
        write_record(record, tmp_path / "none" / "record.json")
