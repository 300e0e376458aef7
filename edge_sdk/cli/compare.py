"""`edge-sdk compare`: two records of one kind of run, side by side.

Exit status: 0 compared, 2 refused because the two are of unlike runs, 3 a record cannot be read or the
command line is wrong.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from edge_sdk.cli.outputs import put_json, refuse_unwritable
from edge_sdk.errors import ConfigError

if TYPE_CHECKING:
    from edge_sdk.report.comparison import Comparison

__all__ = ["compare"]

REFUSED = 2
"""Exit status when two records are not compared, for they are of unlike runs."""


def compare(
    record_a: str = typer.Argument(metavar="A.json", help="The record to compare with.", show_default=False),
    record_b: str = typer.Argument(metavar="B.json", help="The record to compare.", show_default=False),
    anyway: bool = typer.Option(False, "--anyway", help="Compare unlike runs too, and say so."),
    json_file: Path | None = typer.Option(None, "--json", metavar="FILE", help="Write the comparison."),
) -> None:
    """Compares B with A. Exit: 0 compared, 2 refused as the runs are unlike, 3 could not be read."""
    from edge_sdk.report.comparison import compare_records
    from edge_sdk.report.record_file import load_record

    refuse_unwritable(json_file)
    comparison = compare_records(load_record(record_a), load_record(record_b))
    console = Console()
    refused = bool(comparison.differences) and not anyway
    _print_differences(comparison, refused, console)
    if not refused:
        _print_ratios(comparison, console)
    if json_file is not None:
        document = comparison.as_json()
        if refused:
            document["ratios"] = []
        try:
            put_json(json_file, document)
        except OSError as error:
            raise ConfigError(f"{json_file}: cannot be written ({error.strerror or error})") from error
        console.print(Text(f"comparison: {json_file}"), soft_wrap=True)
    raise typer.Exit(REFUSED if refused else 0)


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
    table = Table(title=f"{title}; bounds at {100 * comparison.confidence:g} % confidence")
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
