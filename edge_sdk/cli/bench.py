"""`edge-sdk bench`: what this SDK costs and saves on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from edge_sdk.cli import bench_serve
from edge_sdk.cli.run import refuse_unwritable

__all__ = ["app"]

app = typer.Typer(invoke_without_command=True)
app.command("serve")(bench_serve.serve)


@app.callback()
def bench(
    context: typer.Context,
    engine: str = typer.Option("substation-rgbt", help="A fusion bundle with an fp32 twin."),
    source: str = typer.Option("clip:substation", help="A labelled source."),
    threads: int | None = typer.Option(None, min=1, help="CPU threads of a graph."),
    repeats: int = typer.Option(3, min=1, help="Turns of each side of a comparison."),
    json_file: Path | None = typer.Option(None, "--json", help="Write the figures and their conditions."),
) -> None:
    """Measures overhead, start-up, and what routing and INT8 save, side by side in one run."""
    if context.invoked_subcommand is not None:
        return
    from edge_sdk.bench.clip import load_clip
    from edge_sdk.bench.core import run_core

    refuse_unwritable(json_file)
    console = Console()
    progress = Console(stderr=True)
    with progress.status("reading the clip") as status:
        clip = load_clip(source)
        report = run_core(
            engine,
            clip,
            threads=threads,
            repeats=repeats,
            step=lambda name: status.update(f"measuring: {name}"),
        )
    table = Table(title="Measured on this machine", show_lines=True)
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_column("conditions")
    for name, figure in report.figures.items():
        table.add_row(name, f"{figure:.3f}", report.conditions[name])
    console.print(table)
    if json_file is not None:
        json_file.write_text(json.dumps(report.to_json(), indent=2) + "\n", encoding="utf-8")
        console.print(f"Figures: {json_file}", markup=False, soft_wrap=True)
