"""Tables and Markdown: everything that must be said is said, and foreign text stays text."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path

import pytest
from records import record_of
from rich.console import Console

from edge_sdk.measurements import Route
from edge_sdk.report.markdown import run_markdown
from edge_sdk.report.record import ProviderFacts, RunFacts, RunRecord, SourceFacts
from edge_sdk.report.summary import bounded, figure, limit_text, summarise, with_signs
from edge_sdk.report.table import print_run, print_verdicts
from edge_sdk.report.verdict import judge
from edge_sdk.sla import parse_sla
from edge_sdk.stats import Bounds

ROUTES = [Route.RGB, Route.RGB, Route.FUSE, Route.THERMAL] * 200
SLA = parse_sla(
    "name: line\nengine: substation-rgbt\n"
    "latency: {p50_ms: 50, p99_99_ms: 600, routes: {thermal: {p50_ms: 3}}}\n"
    "throughput: {min_fps: 20}\nframes: {max_dropped_share: 0.02}\n"
)


@pytest.fixture
def record() -> RunRecord:
    latencies = [{Route.RGB: 121.5, Route.FUSE: 140.25, Route.THERMAL: 9.5}[route] for route in ROUTES]
    return record_of(latencies, routes=ROUTES, dropped=3)


def _printed(record: RunRecord, width: int = 80) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width)
    print_run(record, console)
    print_verdicts(judge(record, SLA), console)
    return out.getvalue()


def test_the_table_says_what_a_reader_must_know(record: RunRecord) -> None:
    text = _printed(record)
    for words in (
        "substation-rgbt 1.0, int8, abababab",
        "CPUExecutionProvider (asked for auto); tried cuda: no GPU here",
        "Test CPU, 2 cores usable",
        "clip:substation",
        "3 dropped",
        "load 900 ms, first result 122 ms",
        "no power sensor read",
        "Not measured on Jetson.",
        "dropped 3: truncated image",
        "Reasons: confident 400, hot-region 200, dark 200",
        "Detections: insulator 800",
        "preprocess",
        "SLA line: FAIL",
        "FAIL latency.routes.thermal.p50_ms: lower bound 9.5 ms is over it.",
        "INCONCLUSIVE latency.p99_99_ms: ",
        "Frames are not independent",
    ):
        assert words in " ".join(text.split()), words


def test_rows_hold_estimate_and_bound_or_too_few(record: RunRecord) -> None:
    rows = {line.split()[0]: line.split() for line in _printed(record).splitlines() if line.split()}
    assert rows["fuse"] == [
        "fuse",
        "200",
        "25",
        "%",
        "140",
        "<=",
        "140",
        "140",
        "<=",
        "140",
        "140",
        "too",
        "few",
        "105",
    ]
    assert rows["all"][:6] == ["all", "799", "100", "%", "122", "<="]


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_a_terminal_and_needs_no_colours(record: RunRecord, width: int) -> None:
    text = _printed(record, width)
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text
    assert "..." not in text
    assert "…" not in text


def test_it_prints_where_only_ascii_can_be(record: RunRecord) -> None:
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding="ascii", write_through=True), width=80)
    print_run(record, console)
    print_verdicts(judge(record, SLA), console)
    assert b"SLA line: FAIL" in raw.getvalue()


def test_foreign_text_is_neither_markup_nor_control_codes() -> None:
    record = record_of([5.0] * 20, source=SourceFacts("clip:[red]x[/red]\x1b[2J|<b>"))
    text = _printed(record)
    assert "clip:[red]x[/red]" in text
    assert "\x1b" not in text
    report = run_markdown(record)
    assert "clip:[red]x[/red]" in report
    assert "\\|&lt;b>" in report
    assert "\x1b" not in report


def test_an_invalid_measurement_says_why_first() -> None:
    record = record_of([5.0] * 20, provider=ProviderFacts("cuda", "CPUExecutionProvider", (), True))
    text = " ".join(_printed(record).split())
    assert "a FALLBACK" in text
    assert "INVALID because provider fell back: cuda was asked for, CPUExecutionProvider ran." in text
    assert "SLA line: INVALID" in text
    assert "The measurement cannot be judged" in run_markdown(record, judge(record, SLA))


def test_markdown_reads_as_a_report(record: RunRecord) -> None:
    text = run_markdown(record, judge(record, SLA), pictures=[("Dusk, fused", "frames/0042.jpg")])
    assert text.startswith(
        "# SLA line\n\nMade 2026-01-02T03:04:05+00:00 by edge-sdk 0.1.0.\n\n## Verdict: FAIL\n"
    )
    for words in (
        "| **FAIL** | `latency.routes.thermal.p50_ms` | ≤ 3 ms | 9.50 | 9.50 | 9.50 | 200 |",
        "| **PASS** | `throughput.min_fps` | ≥ 20 fps | 25.0 |",
        "| `frames.max_dropped_share` | ≤ 2 % | 0.374 |",
        "- **Power**: no power sensor read",
        "- **Cold start**: load 900 ms, first result 122 ms",
        "![Dusk, fused](<frames/0042.jpg>)",
        "## What these figures do not show",
        "- Not measured on Jetson.",
        "- dropped 3: truncated image",
    ):
        assert words in text, words
    assert "<=" not in text


def test_markdown_tables_are_whole(record: RunRecord) -> None:
    lines = run_markdown(record, judge(record, SLA)).splitlines()
    for above, line in pairwise(lines):
        if above.startswith("|") and line.startswith("|"):
            assert above.replace("\\|", "").count("|") == line.replace("\\|", "").count("|")


def test_a_plain_run_has_no_verdict(record: RunRecord) -> None:
    text = run_markdown(record)
    assert text.startswith("# Run of substation-rgbt\n")
    assert "Verdict" not in text
    assert run_markdown(record, title="Bay 3").startswith("# Bay 3\n")


def test_an_empty_run_is_still_rendered() -> None:
    record = record_of([])
    assert "0 frames" in _printed(record)
    assert summarise(record).routes[0].route == "all"
    assert run_markdown(record, judge(record, SLA))


def test_a_paced_run_says_what_could_not_keep_up() -> None:
    record = record_of([5.0] * 20, run=RunFacts(pace_hz=25, late_frames=4, missed_turns=2))
    assert "paced at 25 Hz" in _printed(record)
    assert "4 late, 2 turns missed" in " ".join(_printed(record).split())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0"),
        (0.00437, "0.00437"),
        (0.5, "0.5"),
        (9.5, "9.50"),
        (12.345, "12.3"),
        (123.45, "123"),
        (12345.6, "12346"),
    ],
)
def test_figures_are_short_and_plain(value: float | None, text: str) -> None:
    assert figure(value) == text


def test_bounded_and_limits_in_words() -> None:
    assert bounded(Bounds(12.34, 11.0, 13.06, 90)) == "12.3 <= 13.1"
    assert bounded(Bounds(12.34, 11.0, None, 9)) == "12.3 too few"
    assert bounded(Bounds(None, None, None, 0)) == "-"
    clauses = judge(record_of([5.0] * 20), SLA).clauses
    assert [limit_text(clause) for clause in clauses[2:]] == ["<= 3 ms", ">= 20 fps", "<= 2 %"]


def test_reports_name_no_path_of_this_machine(record: RunRecord) -> None:
    assert str(Path.home()) not in run_markdown(record) or str(Path.home()) == "/"


def test_signs_are_for_figures_and_commands_stay_as_they_are_typed() -> None:
    assert with_signs("P95 <= 60 ms, >= 20 fps") == "P95 ≤ 60 ms, ≥ 20 fps"
    assert with_signs("pip install 'jetson-stats>=4.2'") == "pip install 'jetson-stats>=4.2'"
