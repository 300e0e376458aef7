"""Runs that end before their time, as real processes: what was measured is on disk; the status says why."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from frames_on_disk import write_pairs
from live_runs import eventually
from power_trees import orin_nano

from edge_sdk.report.record_file import load_record

CLI = [sys.executable, "-W", "error", "-m", "edge_sdk.cli.main"]
ENVIRONMENT = {**os.environ, "COLUMNS": "200"}


@pytest.fixture
def site(tmp_path: Path, toy_fusion: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of ten pairs and an SLA that they keep, as working directory."""
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path / "site", keys=[f"{index:02d}" for index in range(10)])
    write_sla(tmp_path, toy_fusion, "latency: {p50_ms: 5000}\nrun: {frames: 30}")
    return tmp_path


def write_sla(folder: Path, engine: Path, limits: str) -> None:
    source = "pairs:site?unit=centikelvin"
    (folder / "sla.yaml").write_text(f"name: toy\nengine: {engine}\nsource: {source}\n{limits}\n")


def arguments(engine: Path, *more: str) -> list[str]:
    fixed = ["--source", "pairs:site?unit=centikelvin", "--engine", str(engine), "--device", "cpu"]
    return [*CLI, "run", *fixed, "--threads", "1", "--meter", "none", "--no-progress", *more]


def check(*more: str) -> list[str]:
    return [*CLI, "sla", "check", "sla.yaml", "--device", "cpu", "--threads", "1", "--meter", "none", *more]


def call(command: list[str], **how: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT, **how)


def signalled(command: list[str], number: int, when: Callable[[], bool]) -> tuple[int, str]:
    """Starts a command, signals it once something is so, and returns its status and what it printed."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT
    ) as process:
        try:
            eventually(when, 60)
            process.send_signal(number)
            output, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    return process.returncode, output


def lines_in(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_run_with_all_that_it_measured(
    site: Path, toy_fusion: Path, number: signal.Signals
) -> None:
    outputs = ["--json", "r.json", "--report", "r.html", "--frames-json", "f.jsonl", "--out", "o.avi"]
    command = arguments(toy_fusion, "--loop", "0", "--pace-hz", "50", *outputs)
    status, output = signalled(command, number, lambda: lines_in(site / "f.jsonl") >= 5)
    assert status == 128 + number, output
    record = load_record(site / "r.json")
    assert record.run.ended_early is not None
    assert (record.run.ended_early.cause, record.run.ended_early.detail) == ("signal", number.name)
    frames = [json.loads(line) for line in (site / "f.jsonl").read_text().splitlines()]
    assert [frame["key"] for frame in frames] == list(record.frames.key)
    assert f"Ended early by {number.name}, after {len(frames)} frames" in " ".join(output.split())
    page = (site / "r.html").read_text()
    assert f"<b>Ended early</b> by {number.name}" in page
    assert (site / "o.avi").exists()


def test_a_long_wait_does_not_hold_a_signal_up(site: Path, toy_fusion: Path) -> None:
    command = arguments(toy_fusion, "--pace-hz", "0.005", "--frames-json", "f.jsonl", "--json", "r.json")
    status, output = signalled(command, signal.SIGTERM, lambda: lines_in(site / "f.jsonl") >= 1)
    assert status == 128 + signal.SIGTERM, output
    assert len(load_record(site / "r.json").frames) == 1


TOLD = """
import pathlib
from contextlib import contextmanager

import edge_sdk.cli.main as main
from edge_sdk.cli import sla
from edge_sdk.clock import MonotonicClock

shown, sleep = sla.run_progress, MonotonicClock.sleep_until_ns


def tell(name):
    with pathlib.Path(name).open("a") as file:
        file.write("\\n")


@contextmanager
def progress(total, *, shown):
    yield lambda result: tell("answered")


def sleeping(clock, deadline_ns):
    tell("asleep")
    sleep(clock, deadline_ns)


sla.run_progress, MonotonicClock.sleep_until_ns = progress, sleeping
main.main()
"""
"""The command line, which tells this test by files how far it is."""


def test_a_signalled_check_is_saved_and_passes_nothing(site: Path, toy_fusion: Path) -> None:
    limits = "latency: {p50_ms: 5000, p90_ms: 0.0001}\nrun: {duration_s: 600, pace_hz: 50}"
    write_sla(site, toy_fusion, limits)
    command = check("--json", "r.json", "--junit", "j.xml", "--report", "r.md")
    command = [sys.executable, "-c", TOLD, *command[len(CLI) :]]
    status, output = signalled(command, signal.SIGINT, lambda: lines_in(site / "answered") >= 40)
    assert status == 128 + signal.SIGINT, output
    document = json.loads((site / "r.json").read_text())
    assert document["run"]["ended_early"] == {"cause": "signal", "detail": "SIGINT"}
    clauses = {clause["clause"]: clause for clause in document["verdict"]["clauses"]}
    assert clauses["latency.p50_ms"]["verdict"] == "INCONCLUSIVE"
    assert "the SLA asks for 600 s, the record lasts" in clauses["latency.p50_ms"]["reason"]
    assert clauses["latency.p90_ms"]["verdict"] == "FAIL"
    suite = ET.parse(site / "j.xml").getroot()
    assert (suite.get("failures"), suite.get("errors")) == ("1", "1")
    assert "- **Ended early**: by SIGINT" in (site / "r.md").read_text()
    assert call([*CLI, "sla", "judge", "r.json", "sla.yaml"]).returncode == 1


@pytest.mark.parametrize(("limit_ms", "status"), [("5000", 0), ("0.0001", 1)])
def test_a_reader_that_goes_away_changes_no_verdict(
    site: Path, toy_fusion: Path, limit_ms: str, status: int
) -> None:
    write_sla(site, toy_fusion, f"latency: {{p50_ms: {limit_ms}}}\nrun: {{frames: 30}}")
    with subprocess.Popen(
        check("--json", "r.json", "--report", "r.md"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=ENVIRONMENT, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.close()  # as `| head -0` does, before anything is printed
        _, error = process.communicate(timeout=120)
    assert (process.returncode, error) == (status, "")
    assert json.loads((site / "r.json").read_text())["verdict"]["exit_status"] == status
    assert "## Verdict" in (site / "r.md").read_text()


def test_head_takes_one_line_and_the_run_goes_on(site: Path, toy_fusion: Path) -> None:
    frames = arguments(toy_fusion, "--frames-json", "-", "--json", "r.json")
    shell = f'set -o pipefail; {subprocess.list2cmdline(frames)} 2>e.txt | head -1; echo "${{PIPESTATUS[0]}}"'
    done = call(["bash", "-c", shell])
    first, status = done.stdout.splitlines()
    assert (json.loads(first)["key"], status) == ("00", "0"), (site / "e.txt").read_text()
    assert len(load_record(site / "r.json").frames) == 10


def test_one_bad_last_file_leaves_the_record_of_the_others(site: Path, toy_fusion: Path) -> None:
    (site / "site" / "rgb" / "09.png").write_bytes(b"no picture")
    done = call(arguments(toy_fusion, "--json", "r.json", "--report", "r.md", "--frames-json", "f.jsonl"))
    assert done.returncode == 3
    assert "error: frame '09'" in done.stderr
    record = load_record(site / "r.json")
    assert len(record.frames) == lines_in(site / "f.jsonl") == 9
    assert record.run.ended_early is not None
    assert record.run.ended_early.cause == "error"
    assert "frame '09'" in record.run.ended_early.detail
    assert "This run was ended early by error" in (site / "r.md").read_text()
    write_sla(site, toy_fusion, "latency: {p50_ms: 5000}")
    judged = call([*CLI, "sla", "judge", "r.json", "sla.yaml"])
    assert judged.returncode == 2, judged.stdout
    skipped = call(arguments(toy_fusion, "--on-bad", "skip", "--json", "s.json"))
    assert skipped.returncode == 0, skipped.stderr
    assert len(load_record(site / "s.json").dropped) == 1


def test_a_full_disk_ends_one_output_and_no_other(site: Path, toy_fusion: Path) -> None:
    outputs = ["--frames-json", "/dev/full", "--json", "r.json", "--out", "pictures"]
    done = call(arguments(toy_fusion, *outputs))
    assert done.returncode == 3
    assert "/dev/full: cannot be written after 0 lines (No space left on device)" in done.stderr
    record = load_record(site / "r.json")
    assert len(record.frames) == len(list((site / "pictures").iterdir())) == 10
    assert any("/dev/full" in condition for condition in record.conditions)


def test_a_limit_of_size_leaves_whole_lines_and_the_record(site: Path, toy_fusion: Path) -> None:
    limit = 60_000
    done = call(
        arguments(toy_fusion, "--loop", "20", "--frames-json", "f.jsonl", "--json", "r.json"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode == 3, done.stdout
    assert "f.jsonl: cannot be written after" in done.stderr
    text = (site / "f.jsonl").read_text()
    assert 0 < len(text) <= limit
    assert text.endswith("\n")
    assert all(json.loads(line)["key"] for line in text.splitlines())
    assert len(load_record(site / "r.json").frames) == 200


def test_a_record_without_room_leaves_the_old_one_and_is_rescued(site: Path, toy_fusion: Path) -> None:
    (site / "r.json").write_text("an old and good record")
    (site / "tmp").mkdir()
    done = call(
        arguments(toy_fusion, "--loop", "200", "--json", "r.json", "--report", "r.md"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
    )
    assert done.returncode == 3
    assert "Record: r.json: cannot be written (File too large)" in done.stderr
    assert (site / "r.json").read_text() == "an old and good record"
    assert "# Run of toy-fusion" in (site / "r.md").read_text()
    assert not list(site.glob(".edge-sdk-*"))


def test_a_disk_that_is_full_when_a_run_is_over_moves_the_record_aside(site: Path, toy_fusion: Path) -> None:
    (site / "tmp").mkdir()
    done = subprocess.run(
        arguments(toy_fusion, "--json", "/dev/full"), capture_output=True, text=True, check=False,
        env={**ENVIRONMENT, "TMPDIR": str(site / "tmp")},
    )  # fmt: skip
    assert done.returncode == 3
    (rescued,) = (site / "tmp").glob("edge-sdk-full-*")
    assert f"It was saved as {rescued}" in done.stderr
    assert len(load_record(rescued).frames) == 10


def test_standard_output_on_a_full_disk_is_no_pass(site: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            check("--json", "r.json"), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, "standard output could not be written" in done.stderr) == (3, True)
    assert json.loads((site / "r.json").read_text())["verdict"]["overall"] == "PASS"


def test_records_and_lines_go_to_standard_output_alone(site: Path, toy_fusion: Path) -> None:
    done = call(check("--json", "-"))
    assert (done.returncode, json.loads(done.stdout)["verdict"]["overall"]) == (0, "PASS")
    assert "SLA toy: PASS" in done.stderr
    both = call(arguments(toy_fusion, "--json", "-", "--frames-json", "-"))
    assert both.returncode == 3
    assert "standard output (-) is asked for twice" in both.stderr
    for command in (["doctor"], ["machine", "show"], ["engines", "show", str(toy_fusion)]):
        found = call([*CLI, *command, "--json", "-"])
        assert isinstance(json.loads(found.stdout), dict), command
        assert found.stderr


def test_a_power_log_that_is_stopped_is_kept(site: Path, tmp_path: Path) -> None:
    root = orin_nano(tmp_path / "tree")
    log = ["power", "log", "--seconds", "600", "--root", str(root), "--json", "p.json"]
    command = [sys.executable, "-c", TOLD, *log]
    status, output = signalled(command, signal.SIGTERM, lambda: lines_in(site / "asleep") >= 1)
    assert status == 128 + signal.SIGTERM, output
    assert "Ended early by SIGTERM" in output
    assert json.loads((site / "p.json").read_text())["schema"] == "edge-sdk/power-log"
