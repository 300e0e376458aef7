"""The machine's state in the record: whole in the file, checked when read, shown in every report."""

from __future__ import annotations

import copy
import io
import json
from pathlib import Path
from typing import Any

import pytest
from frames_on_disk import write_pairs
from machine_trees import KINDS
from records import record_of
from rich.console import Console

import edge_sdk
from edge_sdk.clock import FakeClock
from edge_sdk.errors import RecordError
from edge_sdk.machine_state.reader import MachineReader
from edge_sdk.machine_state.state import RunState
from edge_sdk.machine_state.watch import RunWatch
from edge_sdk.report.markdown import run_markdown
from edge_sdk.report.record import RunRecord
from edge_sdk.report.record_file import load_record, parse_record, record_json, write_record
from edge_sdk.report.table import print_run, print_verdicts
from edge_sdk.report.verdict import Outcome, judge
from edge_sdk.runs import RunPlan, record_run
from edge_sdk.sla import parse_sla

SLA = parse_sla(
    "name: line\nengine: substation-rgbt\nlatency: {p50_ms: 25}\n"
    "machine: {power_mode: 40W, throttled: false}\nmemory: {peak_mb: 500}\n"
)


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    """A run on an Orin NX that was throttled by heat and had short over-current dips."""
    tree = KINDS["orin-nx"](tmp_path / "nx")
    reader = MachineReader(tmp_path / "nx", clock=FakeClock(step_ns=1_000_000_000))
    before = reader.snapshot()
    with RunWatch(reader, wait=lambda _: True) as watch:
        pass
    tree.cooling(1, "cpufreq-cpu0", 2).over_current(0, 0, 9)
    after = reader.snapshot()
    return record_of([20.0] * 100, machine_state=RunState(before, after, watch.state().watch))


def test_the_file_gives_the_same_state_back(record: RunRecord, tmp_path: Path) -> None:
    write_record(record, tmp_path / "r.json")
    assert load_record(tmp_path / "r.json").machine_state == record.machine_state
    document = json.loads((tmp_path / "r.json").read_text())
    assert document == record_json(record)
    assert document["machine_state"]["before"]["power_mode"]["name"] == "40W"
    assert document["machine_state"]["after"]["counters"][2] == {"name": "oc3", "count": 9, "slows": True}
    assert [entry["kind"] for entry in document["machine_findings"]] == ["throttled", "note"]
    assert str(tmp_path) not in (tmp_path / "r.json").read_text()


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("before",), None, "machine_state.before: expected an object, found nothing"),
        (("before", "board", "jetson"), "yes", "machine_state.before.board.jetson: expected true or false"),
        (("before", "memory", "rss_kb"), 1.5, "machine_state.before.memory.rss_kb: expected a whole number"),
        (
            ("before", "power_mode", "modes"),
            [[1]],
            "power_mode.modes[0]: expected 2 entries, found 1 entries",
        ),
        (("before", "power_mode", "modes"), 3, "power_mode.modes: expected a list, found 3"),
        (("after", "zones"), ["hot"], "machine_state.after.zones[0]: expected an object, found hot"),
        (("after", "at_ns"), 2**70, "machine_state.after.at_ns: expected a whole number"),
        (("watch", "rss_kb"), [], "machine_state.watch.rss_kb: expected 1 entries, one a sample, found 0"),
        (("watch", "hottest_c"), ["x"], "machine_state.watch.hottest_c[0]: expected a number, found x"),
    ],
)
def test_an_edited_state_is_refused_by_key(
    path: tuple[str, ...], value: Any, words: str, record: RunRecord
) -> None:
    document = copy.deepcopy(record_json(record))
    place = document["machine_state"]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(RecordError) as caught:
        parse_record(document, "run.json")
    assert words in str(caught.value)


def test_findings_in_the_file_are_for_people_and_are_made_again(record: RunRecord) -> None:
    document = copy.deepcopy(record_json(record))
    document["machine_findings"] = []
    assert judge(parse_record(document), SLA) == judge(record, SLA)


def test_a_field_that_a_record_lacks_has_its_default(record: RunRecord) -> None:
    document = copy.deepcopy(record_json(record))
    del document["machine_state"]["before"]["fans"]
    document["machine_state"]["before"]["later"] = 1
    state = parse_record(document).machine_state
    assert state is not None
    assert state.before.fans == ()
    del document["machine_state"]["before"]
    with pytest.raises(RecordError, match=r"machine_state\.before: expected a value, found nothing"):
        parse_record(document)


def _printed(record: RunRecord) -> str:
    out = io.StringIO()
    console = Console(file=out, width=80)
    print_run(record, console)
    print_verdicts(judge(record, SLA), console)
    assert max(map(len, out.getvalue().splitlines())) <= 80
    return " ".join(out.getvalue().split())


def test_tables_and_markdown_say_the_state_and_what_happened(record: RunRecord) -> None:
    verdicts = judge(record, SLA)
    assert [clause.verdict for clause in verdicts.clauses] == [
        Outcome.INVALID,
        Outcome.INVALID,  # the mode is known from the status file alone
        Outcome.FAIL,
        Outcome.PASS,
    ]
    for text in (_printed(record), run_markdown(record, verdicts)):
        for words in (
            "L4T 36.4.3, JetPack 6.2, power mode 40W (id 4, nvpmodel_p3767_0000_super.conf)",
            "clocks not locked",
            "process memory at most 410 MB",
            "Machine: throttled by heat: cooling device cpufreq-cpu0 at 2 of 10.",
            "Machine: OC3 (instantaneous over-current) rose by 9",
            "machine.throttled",
        ):
            assert words in text, words
    assert "INVALID because throttled by heat" in _printed(record)
    assert "INVALID machine.power_mode: the power mode is not known" in _printed(record)


def test_a_record_without_state_says_so() -> None:
    assert "State not read" in _printed(record_of([5.0] * 20))


def test_a_run_reads_the_machine_around_it(toy_fusion: Path, tmp_path: Path) -> None:
    write_pairs(tmp_path / "frames", ["0", "1", "2", "3"])
    tree = KINDS["agx-orin-jp6"](tmp_path / "root").lock()
    reader = MachineReader(tmp_path / "root")

    def undo_lock(*_: object) -> None:
        tree.write("sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq", 729_600)

    with (
        edge_sdk.open_source(f"pairs:{tmp_path / 'frames'}") as source,
        edge_sdk.load(str(toy_fusion), device="cpu", threads=1) as detector,
    ):
        record = record_run(
            detector,
            source,
            RunPlan(),
            asked_engine="toy",
            on_result=undo_lock,
            watch=RunWatch(reader, wait=lambda _: True),
        )
    assert record.machine_state is not None
    assert record.machine_state.before.locked
    assert not record.machine_state.after.locked
    assert len(record.machine_state.watch.at_ms) == 1
    document = record_json(record)
    assert document["machine_findings"][0]["text"] == "the clock lock of cpu0-3 was lost during the run."


def test_the_longest_clause_cuts_no_number_off() -> None:
    sla = parse_sla(
        "name: line\nengine: substation-rgbt\nlatency: {p50_ms: 400}\n"
        "machine: {power_mode: MODE_15W_6CORE}\nmemory: {rss_slope_mb_per_h: 60}\n"
    )
    out = io.StringIO()
    print_verdicts(judge(record_of([20.0] * 12_346, machine_state=None), sla), Console(file=out, width=80))
    assert "12345" in out.getvalue()
