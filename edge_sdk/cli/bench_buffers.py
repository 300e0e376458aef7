"""`edge-sdk bench buffers`: which kind of memory is fastest for each tensor on this module."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from edge_sdk.cli.outputs import put_json, refuse_unwritable, say_where
from edge_sdk.cli.streams import tables

if TYPE_CHECKING:
    from edge_sdk.bench.buffers import BuffersReport

__all__ = ["buffers"]


def buffers(
    engine: str = typer.Option("substation-rgbt", help="The bundle whose tensors are measured."),
    turns: int = typer.Option(200, min=2, help="Turns of each tensor and kind."),
    json_file: Path | None = typer.Option(None, "--json", help="Write the figures and their conditions."),
    keep: bool = typer.Option(True, help="Keep the choice beside the plans, for the next load."),
) -> None:
    """Measures the kinds of memory at an engine's tensor sizes; the choice is used from the next load on."""
    from edge_sdk.bench.buffers import run_buffers
    from edge_sdk.buffers.choice import save_choice
    from edge_sdk.engine import load_bundle

    refuse_unwritable(json_file)
    console = tables(json_file)
    bundle = load_bundle(engine)
    with Console(stderr=True).status("measuring"):
        report = run_buffers(bundle, turns=turns)
    put_json(json_file, report.to_json())
    console.print(_table(report))
    console.print(f"Conditions: {report.conditions}", markup=False)
    for why in dict.fromkeys(report.unmeasured.values()):
        kinds = ", ".join(kind for kind, reason in report.unmeasured.items() if reason == why)
        console.print(f"Not measured: {kinds}: {why}", markup=False)
    if report.choice is None:
        console.print("Nothing to choose: without a GPU there is one kind of memory.", markup=False)
    else:
        for tensor, reason in report.choice.reasons.items():
            console.print(f"{tensor}: {report.choice.kinds[tensor]} ({reason})", markup=False)
        if keep:
            console.print(f"Choice: {save_choice(report.choice)}", markup=False, soft_wrap=True)
    say_where(console, "Figures", json_file)


def _table(report: BuffersReport) -> Table:
    table = Table(title="Memory for tensors, measured on this machine")
    for name in ("tensor", "use", "kind"):
        table.add_column(name)
    for name in ("bytes", "median us", "spread us"):
        table.add_column(name, justify="right")
    chosen = report.choice.kinds if report.choice else {}
    for figure in report.figures:
        mark = " *" if chosen.get(figure.tensor) == figure.kind else ""
        table.add_row(
            escape(figure.tensor),
            figure.use,
            figure.kind + mark,
            str(figure.nbytes),
            f"{figure.median_us:.1f}",
            f"{figure.spread_us:.1f}",
        )
    if chosen:
        table.caption = "* chosen"
    return table
