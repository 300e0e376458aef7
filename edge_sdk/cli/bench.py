"""`edge-sdk bench`: what this SDK costs and saves on this machine."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from edge_sdk.cli import bench_serve
from edge_sdk.cli.bench_buffers import buffers
from edge_sdk.cli.outputs import put_json, refuse_unwritable, say_where
from edge_sdk.cli.streams import tables

__all__ = ["app"]

app = typer.Typer(invoke_without_command=True)
app.command("buffers")(buffers)
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
    console = tables(json_file)
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
    put_json(json_file, report.to_json())
    table = Table(title="Measured on this machine", show_lines=True)
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_column("conditions")
    for name, figure in report.figures.items():
        table.add_row(name, f"{figure:.3f}", report.conditions[name])
    console.print(table)
    say_where(console, "Figures", json_file)


@app.command("meter")
def meter(
    runs: int = typer.Option(30, min=1, help="Simulated runs of each load and window length."),
    cost_s: float = typer.Option(5.0, min=0.1, help="Seconds of sampling to measure its cost."),
    json_file: Path | None = typer.Option(None, "--json", help="Write the figures and their conditions."),
) -> None:
    """Measures the error of energy windows against a simulated sensor, and what sampling costs here."""
    from edge_sdk.bench.meter import run_meter

    refuse_unwritable(json_file)
    console = tables(json_file)
    with Console(stderr=True).status("simulating") as status:
        report = run_meter(
            runs=runs, cost_s=cost_s, step_done=lambda name: status.update(f"measuring: {name}")
        )
    put_json(json_file, report)
    table = Table(title="Energy of a window: largest error against a simulated INA3221, not a Jetson")
    for heading in ("load", "window s", "uncorrected %", "corrected %", "with chip errors %", "in 2 sigma %"):
        table.add_column(heading, justify="left" if heading == "load" else "right")
    for item in report["windows"]:
        keys = ("uncorrected_error_max", "corrected_error_max", "real_error_max", "within_2_sigma")
        cells = [f"{100 * item[key]:.2f}" for key in keys]
        table.add_row(item["shape"], f"{item['window_s']:g}", *cells)
    console.print(table)
    console.print(
        f"Sampling at {report['sampler_hz']:g} Hz took {100 * report['sampler_cpu_share']:.2f} % of a core "
        f"of this machine ({report['sampler_cpu_ms_a_sample']:.3f} ms a sample), read from a tree of files."
    )


@app.command("graphs")
def bench_graphs(
    engine: str = typer.Option("substation-rgbt", help="A bundle with TensorRT plans for this machine."),
    json_file: Path | None = typer.Option(None, "--json", help="Write the figures here too."),
) -> None:
    """Measures what CUDA graphs save: launches and time of each graph, and whether a replay is used."""
    from dataclasses import asdict

    from edge_sdk.bench.graphs import measure_graphs

    refuse_unwritable(json_file)
    provider, trials = measure_graphs(engine)
    put_json(json_file, {"schema": 1, "provider": provider, "graphs": [asdict(trial) for trial in trials]})
    table = Table(
        "graph", "launches", "ordinary", "replayed", "saved (99 % bounds)", "used", "why", title=provider
    )
    for trial in trials:
        saved = "-"
        if trial.gain_ms is not None:
            lower, middle, upper = trial.gain_ms
            saved = f"{middle:.3f} ms ({lower:.3f} to {upper:.3f})"
        times = ["-" if ms is None else f"{ms:.3f} ms" for ms in (trial.plain_ms, trial.replay_ms)]
        used = "yes" if trial.kept else "no"
        table.add_row(trial.graph, str(trial.launches), *times, saved, used, trial.why)
    console = tables(json_file)
    console.print(table)
    say_where(console, "Figures", json_file)
