"""Tables for a terminal. They stay readable in 80 columns and without colours."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from edge_sdk.measurements import STAGES
from edge_sdk.report.clauses import Outcome
from edge_sdk.report.record import RunRecord
from edge_sdk.report.summary import (
    SHOWN_SHARES,
    RunSummary,
    bounded,
    figure,
    limit_text,
    printable,
    shown_figures,
    summarise,
)
from edge_sdk.report.verdict import Verdicts

__all__ = ["print_run", "print_verdicts"]

_COLOURS = {
    Outcome.PASS: "bold green",
    Outcome.FAIL: "bold red",
    Outcome.INCONCLUSIVE: "bold yellow",
    Outcome.INVALID: "bold magenta",
}


def print_run(record: RunRecord, console: Console) -> None:
    """Prints what a run measured: routes, stages, reasons, objects, and what it did not measure.

    Arguments:
        record: the run.
        console: where to; its width is kept to.
    """
    summary = summarise(record)
    console.print(_facts(summary))
    console.print(_routes(summary))
    console.print(_stages(summary))
    for line in _counts(summary):
        console.print(line)


def print_verdicts(verdicts: Verdicts, console: Console) -> None:
    """Prints each clause of a judged SLA, then why what did not pass did not, then the overall verdict."""
    table = _table(printable(f"SLA {verdicts.sla}"))
    table.add_column("verdict", no_wrap=True)
    table.add_column("clause", overflow="fold", min_width=18)
    for name in ("limit", "measured", "lower", "upper"):
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("n", justify="right", no_wrap=True)
    for clause in verdicts.clauses:
        table.add_row(
            Text(clause.verdict.value, _COLOURS[clause.verdict]),
            Text(clause.clause.removeprefix("latency.")),  # or the table outgrows 80 columns
            limit_text(clause),
            *shown_figures(clause),
            str(clause.samples),
        )
    console.print(table)
    for why in verdicts.unsound:
        console.print(Text(printable(f"INVALID because {why}")))
    for clause in verdicts.clauses:
        if clause.verdict is not Outcome.PASS and clause.reason not in verdicts.unsound:
            console.print(Text(printable(f"{clause.verdict.value} {clause.clause}: {clause.reason}")))
    for note in verdicts.notes:
        console.print(Text(note, "dim"))
    console.print(
        Text(printable(f"SLA {verdicts.sla}: ")).append(verdicts.overall.value, _COLOURS[verdicts.overall]),
        Text(f"(bounds at {100 * verdicts.confidence:g} % confidence)"),
    )


def _facts(summary: RunSummary) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for heading, sentence in summary.facts:
        table.add_row(heading, Text(sentence))
    return table


def _routes(summary: RunSummary) -> Table:
    table = _table("Latency in ms after warm-up: estimate <= upper bound at 99 % confidence")
    table.add_column("route", no_wrap=True)
    headings = ["frames", "share", *(f"P{100 * share:g}" for share in SHOWN_SHARES), "engine"]
    for heading in headings:
        table.add_column(heading, justify="right")
    for route in summary.routes:
        cells = [str(route.frames), f"{100 * route.share:.0f} %"]
        cells += [bounded(bounds) for bounds in route.latency_ms]
        table.add_row(route.route, *cells, figure(route.engine_p50_ms))
    return table


def _stages(summary: RunSummary) -> Table:
    table = _table("Median time of each stage in ms")
    table.add_column("stage", no_wrap=True)
    for route in summary.routes:
        table.add_column(route.route, justify="right")
    for stage in STAGES:
        cells = [route.stage_p50_ms.get(stage) for route in summary.routes]
        if any(cell is not None for cell in cells):
            table.add_row(stage, *(figure(cell) for cell in cells))
    return table


def _counts(summary: RunSummary) -> Iterator[RenderableType]:
    for heading, counts in (("Reasons", summary.reasons), ("Detections", summary.detections)):
        listed = ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"
        yield Text(f"{heading}: {listed}")
    for caveat in summary.caveats:
        yield Text(f"Note: {caveat}", "yellow")


def _table(title: str) -> Table:
    return Table(title=Text(title, "bold"), title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
