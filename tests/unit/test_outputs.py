"""Reports, JUnit XML, videos at their own rate, and which options go together."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import cv2
import pytest
from frames_on_disk import rgb_image, write_image, write_pairs
from records import record_of
from typer.testing import CliRunner

from edge_sdk.cli.frame_outputs import video_rate
from edge_sdk.cli.main import app
from edge_sdk.cli.reports import report_text
from edge_sdk.errors import ConfigError
from edge_sdk.measurements import Route
from edge_sdk.report.frame_writer import FrameWriter
from edge_sdk.report.html import run_html
from edge_sdk.report.junit import junit_xml
from edge_sdk.report.record import EndedEarly, RunFacts
from edge_sdk.report.record_file import parse_record, record_json
from edge_sdk.report.rounding import rounded
from edge_sdk.report.verdict import judge
from edge_sdk.sla import parse_sla
from edge_sdk.sources import open_source

SLA = parse_sla(
    'name: "line <7>"\nengine: substation-rgbt\nlatency: {p50_ms: 25, p90_ms: 15, p99_9_ms: 50}\n'
    "energy: {per_inference_mj: {max: 400, kind: total}}\n"
)


def test_the_html_report_is_one_file_with_the_verdict_first(tmp_path: Path) -> None:
    record = record_of([20.0] * 300, routes=[Route.RGB, Route.FUSE] * 150)
    picture = write_image(tmp_path / "fuse.jpg", rgb_image(1))
    page = run_html(record, judge(record, SLA), [("fuse <b>, because hot", picture)])
    assert page.startswith("<!doctype html>")
    assert page.index('class="verdict FAIL">FAIL') < page.index("<h2>")
    assert "SLA line &lt;7&gt;" in page
    assert "fuse &lt;b&gt;, because hot" in page
    assert page.count("data:image/jpeg;base64,") == 1
    assert not re.search(r"(src|href)=[\"'](?!data:)", page)
    assert "http:" not in page.replace("http-equiv", "")
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert "Latency of 300 frames over the run, up to 20.0 ms" in page


def test_an_html_report_of_a_run_without_frames_or_verdict() -> None:
    page = run_html(record_of([]), title="empty")
    assert "<h1>empty</h1>" in page
    assert "<svg" not in page
    ended = record_of([20.0] * 5, run=RunFacts(ended_early=EndedEarly("error", "<oops>")))
    assert "Ended early</b> by error: &lt;oops&gt;" in run_html(ended)


def test_the_ending_chooses_the_kind_of_report(tmp_path: Path) -> None:
    record = record_of([20.0] * 20)
    picture = write_image(tmp_path / "a.jpg", rgb_image(1))
    assert "![x](<a.jpg>)" in report_text(tmp_path / "r.md", record, None, [("x", picture)])
    assert "<!doctype html>" in report_text(tmp_path / "r.HTML", record, None, [("x", picture)])


def test_junit_fails_a_job_for_whatever_was_not_shown() -> None:
    record = record_of([20.0] * 300)
    suites = ET.fromstring(junit_xml(record, judge(record, SLA)).encode())
    assert (suites.get("tests"), suites.get("failures"), suites.get("errors")) == ("4", "1", "2")
    (suite,) = suites
    assert suite.get("name") == "SLA line <7>"
    found = {
        case.get("name"): [child.get("type") for child in case if child.tag in ("failure", "error")]
        for case in suite.iter("testcase")
    }
    assert found == {
        "latency.p50_ms": [],
        "latency.p90_ms": ["FAIL"],
        "latency.p99_9_ms": ["INCONCLUSIVE"],
        "energy.per_inference_mj": ["INVALID"],
    }
    failure = next(suite.iter("failure"))
    assert failure.get("message") == "FAIL: lower bound 20 ms is over it."


def test_junit_survives_whatever_a_name_holds() -> None:
    sla = parse_sla('name: "\\x07]]> & <x>"\nengine: substation-rgbt\nlatency: {p50_ms: 25}\n')
    record = record_of([20.0] * 300)
    suites = ET.fromstring(junit_xml(record, judge(record, sla)).encode())
    assert suites[0].get("name") == "SLA ?]]> & <x>"


def video_facts(path: Path) -> tuple[float, int]:
    capture = cv2.VideoCapture(str(path))
    try:
        return round(capture.get(cv2.CAP_PROP_FPS), 3), int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
    finally:
        capture.release()


@pytest.mark.parametrize("suffix", [".mp4", ".avi"])
@pytest.mark.parametrize("count", [5, 60])
def test_a_video_has_the_rate_of_the_frames_times(tmp_path: Path, suffix: str, count: int) -> None:
    with FrameWriter(tmp_path / f"out{suffix}", fps=None) as writer:
        for index in range(count):
            late_ns = 200_000_000 if index == 3 else 0  # one gap does not change the rate
            writer.write("k", rgb_image(index), index * 40_000_000 + late_ns)
    assert video_facts(tmp_path / f"out{suffix}") == (25.0, count)
    assert writer.fps == pytest.approx(25.0)


def test_a_video_without_any_times_has_ten_frames_a_second(tmp_path: Path) -> None:
    with FrameWriter(tmp_path / "out.avi", fps=None) as writer:
        for index in range(3):
            writer.write("k", rgb_image(index))
    assert video_facts(tmp_path / "out.avi") == (10.0, 3)


def test_a_clip_of_30_hz_is_played_at_30_hz(toy_fusion: Path, tmp_path: Path) -> None:
    with FrameWriter(tmp_path / "in.avi", fps=30.0) as writer:
        for index in range(6):
            writer.write("k", rgb_image(index))
    result = CliRunner().invoke(
        app,
        ["run", "--source", f"video:{tmp_path / 'in.avi'}", "--engine", str(toy_fusion), "--threads", "1"]
        + ["--meter", "none", "--no-progress", "--out", str(tmp_path / "o.mp4")],
    )
    assert result.exit_code == 0, result.output
    assert video_facts(tmp_path / "o.mp4") == (30.0, 6)


def test_the_rate_of_a_video_is_the_source_s_then_that_of_the_pace(tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "site")
    with open_source(f"pairs:{pairs}?unit=centikelvin") as source:
        assert (video_rate(source, 15.0), video_rate(source, None)) == (15.0, None)
    with open_source("clip:substation") as clip:
        assert video_rate(clip, 15.0) == clip.describe()["fps"] == 10.0


def test_a_paced_run_with_pictures_shows_its_pace(toy_fusion: Path, tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "site", keys=[f"{index:02d}" for index in range(12)])
    result = CliRunner().invoke(
        app,
        ["run", "--source", f"pairs:{pairs}?unit=centikelvin", "--engine", str(toy_fusion), "--threads", "1"]
        + ["--meter", "none", "--no-progress", "--pace-hz", "20"]
        + ["--out", str(tmp_path / "o.avi"), "--json", str(tmp_path / "r.json")],
    )
    assert result.exit_code == 0, result.output
    record = parse_record(json.loads((tmp_path / "r.json").read_text()))
    assert not record.run.pauses_left_out
    starts_s = record.frames.start_ns / 1e9
    # Turns that were missed on a busy machine make it slower, nothing makes it quicker.
    assert 11 / (starts_s[-1] - starts_s[0]) <= 20.2
    assert video_facts(tmp_path / "o.avi") == (20.0, 12)


def test_figures_in_json_have_no_more_digits_than_they_are_worth() -> None:
    assert rounded({"a": [0.123456789, 1234567.89], "b": (1, None, "x", True)}) == {
        "a": [0.123457, 1234567.9],
        "b": [1, None, "x", True],
    }
    record = record_of([20.0] * 300)
    assert all(
        len(re.sub(r"\D", "", str(clause["estimate"]))) <= 7
        for clause in judge(record, SLA).as_json()["clauses"]
        if isinstance(clause["estimate"], float)
    )


def test_a_record_says_what_ended_it_and_reads_back() -> None:
    facts = RunFacts(frames_asked=9, ended_early=EndedEarly("disk full", "no space"), pauses_left_out=False)
    document = json.loads(json.dumps(record_json(record_of([20.0] * 5, run=facts))))
    assert document["run"]["ended_early"] == {"cause": "disk full", "detail": "no space"}
    assert parse_record(document).run == facts
    for key in ("ended_early", "pauses_left_out", "warm_up"):  # as records before had none
        del document["run"][key]
    assert parse_record(document).run == RunFacts(frames_asked=9)


@pytest.mark.parametrize("command", [["run"], ["sla", "check"], ["compare"], ["replay"]])
def test_help_fits_80_columns(command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "80", "TERM": "dumb"})
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= 80
    assert "…" not in result.output
    if command == ["run"]:
        panels = ("Source", "Engine", "Length and routes", "Output", "Power", "Recording", "Live page")
        places = [result.output.index(f"─ {panel}") for panel in panels]
        assert places == sorted(places)
        assert "edge-sdk run --rgb v4l2:///dev/video0 --serve" in result.output


def test_a_shell_can_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output
    assert "--install-completion" in shown
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    found = CliRunner().invoke(
        app,
        [],
        prog_name="edge-sdk",
        env={"_EDGE_SDK_COMPLETE": "complete_bash", "COMP_WORDS": "edge-sdk re", "COMP_CWORD": "1"},
    )
    assert "replay" in found.output


@pytest.mark.parametrize(
    "options",
    [
        ["--json", "/proc/none/x.json"],
        ["--frames-json", "/proc/none/x.jsonl"],
        ["--out", "/proc/none/pictures"],
        ["--video", "/proc/none/x.mp4"],
        ["--report", "/proc/none/x.md"],
        ["--report", "x.pdf"],
        ["--report", "x"],
        ["--record", "/proc/none/x.mcap"],
        ["--mqtt", "localhost", "--mqtt-spool", "/proc/none/spool.db"],
        ["--json", "same.json", "--frames-json", "./same.json"],
    ],
)
def test_what_cannot_be_written_is_refused_before_the_run(options: list[str]) -> None:
    result = CliRunner().invoke(app, ["run", "--engine", "no-such-engine", *options])
    assert isinstance(result.exception, ConfigError)
    words = ("cannot be written", "expected a file", "asked for twice")
    assert any(word in str(result.exception) for word in words)  # and no word of the engine


@pytest.mark.parametrize(
    "command",
    [
        ["sla", "check", "none.yaml", "--json"],
        ["sla", "check", "none.yaml", "--junit"],
        ["sla", "judge", "none.json", "none.yaml", "--json"],
        ["compare", "none.json", "none.json", "--json"],
        ["replay", "none.mcap", "--json"],
        ["replay", "none.mcap", "--comparison"],
        ["bench", "--engine", "none", "--json"],
        ["bench", "serve", "--engine", "none", "--json"],
        ["power", "read", "--root", "/none", "--json"],
        ["power", "replay", "none.csv", "--json"],
        ["machine", "show", "--root", "/none", "--json"],
        ["doctor", "--json"],
        ["engines", "verify", "none", "--json"],
    ],
)
def test_every_command_refuses_it_before_it_begins(command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "/proc/none/x.json"])
    assert isinstance(result.exception, ConfigError), result.output
    assert "/proc/none/x.json: cannot be written" in str(result.exception)
