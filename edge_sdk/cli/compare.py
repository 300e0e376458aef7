"""`edge-sdk compare`: two records of one kind of run, side by side.

Exit status: 0 compared, 1 with --fail-above where B is worse by more than that, 2 refused because the two are
of unlike runs, or nothing decided, 3 a record cannot be read or the command line is wrong.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from edge_sdk.cli.outputs import put_json, refuse_unwritable, say_where
from edge_sdk.cli.streams import tables
from edge_sdk.errors import ConfigError

if TYPE_CHECKING:
    from edge_sdk.report.comparison import Comparison, Regressions

__all__ = ["compare"]

WORSE = 1
"""Exit status when B is worse than --fail-above allows."""
REFUSED = 2
"""Exit status when two records are not compared, as they are of unlike runs, or nothing can be said."""


def compare(
    record_a: str = typer.Argument(metavar="A.json", help="The record to compare with.", show_default=False),
    record_b: str = typer.Argument(metavar="B.json", help="The record to compare.", show_default=False),
    anyway: bool = typer.Option(False, "--anyway", help="Compare unlike runs too, and say so."),
    fail_above: str | None = typer.Option(
        None,
        "--fail-above",
        metavar="PERCENT",
        help="Exit 1 where latency, frame rate, energy or power of B is surely worse by more, like 5%. "
        "It must allow for what two runs of the same software differ by.",
    ),
    json_file: Path | None = typer.Option(
        None, "--json", metavar="FILE", help="Write the comparison; - for standard output."
    ),
) -> None:
    """Compares B with A. Exit: 0 compared, 1 over --fail-above, 2 unlike runs or undecided, 3 not read."""
    from edge_sdk.report.comparison import compare_records, regressions
    from edge_sdk.report.record_file import load_record

    refuse_unwritable(json_file)
    limit = None if fail_above is None else _share(fail_above)
    comparison = compare_records(load_record(record_a), load_record(record_b))
    refused = bool(comparison.differences) and not anyway
    found = None if limit is None or refused else regressions(comparison, limit)
    document = comparison.as_json()
    if refused:
        document["ratios"] = []
    document["fail_above"] = None if found is None else asdict(found)
    put_json(json_file, document)
    console = tables(json_file)
    _print_differences(comparison, refused, console)
    if not refused:
        _print_ratios(comparison, console)
    if found is not None:
        _print_regressions(found, console)
    say_where(console, "comparison", json_file)
    if found is not None and found.over and not comparison.unsound:
        raise typer.Exit(WORSE)
    undecided = found is not None and (not found.within or found.undecided or comparison.unsound)
    raise typer.Exit(REFUSED if refused or undecided else 0)


def _share(text: str) -> float:
    """Reads a percentage, sign included: a bare number could be a share or per cent."""
    number, sign, rest = text.strip().partition("%")
    try:
        share = float(number) / 100
    except ValueError:
        share = -1.0
    if not sign or rest.strip() or not 0 <= share < 100:
        raise ConfigError(f"--fail-above: expected a percentage with its sign, like 5%, found {text!r}")
    return share


def _print_regressions(found: Regressions, console: Console) -> None:
    for words, figures, style in (
        ("Worse by more than", found.over, "bold red"),
        ("Not shown to be within or over", found.undecided, "yellow"),
        ("Too few frames for", found.too_few, "dim"),
        ("Within", found.within, "green"),
    ):
        if figures:
            console.print(
                Text(f"{words} {100 * found.limit:g} %: {', '.join(figures)}", style), soft_wrap=True
            )


def _print_differences(comparison: Comparison, refused: bool, console: Console) -> None:
    from edge_sdk.report.summary import printable

    if not comparison.differences:
        return
    head = (
        "Not compared: the runs are unlike. --anyway compares them."
        if refused
        else "UNLIKE RUNS, compared because of --anyway: the ratios mix everything that differs."
    )
    console.print(Text(head, "bold red"))
    for entry in comparison.differences:
        console.print(Text(f"  {entry.what}", "bold"))
        console.print(Text(printable(f"    A: {entry.a}")))
        console.print(Text(printable(f"    B: {entry.b}")))


def _print_ratios(comparison: Comparison, console: Console) -> None:
    from edge_sdk.report.summary import figure, printable

    title = "B over A" + (" - UNLIKE RUNS" if comparison.differences else "")
    table = Table(title=f"{title}; bounds at {100 * comparison.confidence:g} % confidence, of these runs")
    table.add_column("figure")
    for name in ("A", "B", "B/A", "lower", "upper"):
        table.add_column(name, justify="right")
    table.add_column("meaning")
    for entry in comparison.ratios:
        name = f"{entry.figure}, {entry.unit}" if entry.unit else entry.figure
        figures = (entry.a, entry.b, entry.ratio, entry.lower, entry.upper)
        table.add_row(name, *(figure(value) for value in figures), entry.meaning)
    console.print(table)
    for fault in comparison.unsound:
        console.print(Text(printable(f"UNSOUND {fault}"), "bold magenta"))
    for note in comparison.notes:
        console.print(Text(printable(note), "dim"))
