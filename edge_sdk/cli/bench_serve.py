"""`edge-sdk bench serve`: what viewers of the live page cost the run."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console

from edge_sdk.cli.outputs import put_json, refuse_unwritable
from edge_sdk.cli.streams import tables

__all__ = ["serve"]


def serve(
    engine: str = typer.Option("substation-rgbt", help="Name of an installed bundle, or a bundle's folder."),
    source: str = typer.Option("clip:substation", help="A source that fits into memory."),
    viewers: int = typer.Option(5, min=1, help="Browsers that look at the page."),
    pace_hz: float = typer.Option(30.0, help="Of the camera; the run is measured back to back too."),
    seconds: float = typer.Option(2.0, min=0.1, help="Length of each turn."),
    repeats: int = typer.Option(8, min=1, help="Turns with and without viewers."),
    threads: int | None = typer.Option(None, min=1, help="CPU threads of a graph."),
    json_file: Path | None = typer.Option(None, "--json", help="Write the figures and their conditions."),
) -> None:
    """Measures the frame rate with viewers and without, turn by turn in one process."""
    from edge_sdk.bench.serve import run_serve

    refuse_unwritable(json_file)
    console = tables(json_file)
    with Console(stderr=True).status("measuring") as status:
        report = run_serve(
            engine,
            source,
            viewers=viewers,
            pace_hz=pace_hz,
            seconds=seconds,
            repeats=repeats,
            threads=threads,
            step=lambda name: status.update(f"measuring: {name}"),
        )
    put_json(json_file, report.to_json())
    for name, figure in report.figures.items():
        console.print(f"{name}: {figure:.3f}  ({report.conditions[name]})", markup=False, soft_wrap=True)
