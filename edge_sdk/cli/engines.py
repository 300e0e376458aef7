"""`edge-sdk engines`: list, show, verify, build and make engine bundles."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from edge_sdk.cli.engines_build import build_engine
from edge_sdk.cli.outputs import put_json, refuse_unwritable
from edge_sdk.cli.streams import tables
from edge_sdk.errors import ConfigError, EdgeSdkError

if TYPE_CHECKING:
    from edge_sdk.engine.bundle import Bundle

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True)
app.command("build")(build_engine)


@app.command("list")
def list_engines() -> None:
    """Lists the bundles that can be given by name."""
    from edge_sdk.engine.bundle import ENGINES_VARIABLE, list_bundles, load_bundle

    table = Table("Name", "Version", "Kind", "Precision", "Classes", "State", title="Engine bundles")
    bundles = list_bundles()
    if not bundles:
        Console().print(f"no bundles: install one, or name their folder in {ENGINES_VARIABLE}")
        return
    for name, folder in bundles.items():
        try:
            manifest = load_bundle(folder).manifest
        except EdgeSdkError as error:
            table.add_row(escape(name), "", "", "", "", f"[red]{escape(str(error))}[/]")
            continue
        precisions = sorted({graph.precision for graph in manifest.graphs.values()})
        cells = (
            name,
            manifest.version,
            manifest.kind,
            ", ".join(precisions),
            ", ".join(manifest.class_names),
        )
        table.add_row(*map(escape, cells), "[green]verified[/]")
    Console().print(table)


@app.command("show")
def show_engine(
    name: str = typer.Argument(help="Name of a bundle, or its folder."),
    json_file: Path | None = typer.Option(None, "--json", help="Write everything here too."),
) -> None:
    """Shows what a bundle says of itself, once its files are verified."""
    from edge_sdk.engine.bundle import load_bundle

    refuse_unwritable(json_file)
    bundle = load_bundle(name)
    put_json(json_file, _as_json(bundle))
    manifest = bundle.manifest
    console = tables(json_file)
    console.print(f"[bold]{escape(manifest.name)}[/] {escape(manifest.version)}, {manifest.kind}")
    console.print(manifest.description, markup=False)
    console.print(f"licence {escape(manifest.licence)}, bundle SHA-256 {bundle.sha256}", soft_wrap=True)
    console.print(_classes_table(bundle), _graphs_table(bundle), _settings_table(bundle))
    for measured in manifest.accuracy:
        console.print(_figures_table(measured.metric, measured.data, measured.figures))
        if measured.notes:
            console.print(measured.notes, markup=False)
    for key, value in manifest.provenance.items():
        console.print(f"[bold]{key}[/]: {escape(str(value))}")


@app.command("verify")
def verify_engine(
    name: str = typer.Argument(help="Name of a bundle, or its folder."),
    json_file: Path | None = typer.Option(None, "--json", help="Write what was verified here too."),
) -> None:
    """Verifies every file of a bundle, runs every graph once in every precision and checks its outputs."""
    from edge_sdk.devices import open_runner
    from edge_sdk.engine.bundle import load_bundle
    from edge_sdk.engine.output_checks import run_and_check

    refuse_unwritable(json_file)
    bundle = load_bundle(name)
    graphs = bundle.manifest.graphs
    table = Table("Graph", "Precision", "File", "Bytes", "Opset", "Runs on", title=f"Verified: {bundle.name}")
    rows: list[dict[str, Any]] = []
    for precision in bundle.manifest.precisions:
        runner, choice = open_runner(bundle, "cpu", precision=precision)
        with runner:
            for graph in runner.graphs:
                run_and_check(runner, bundle.manifest, graph)
                item = graphs[graph].file_for(precision)
                stored = precision if precision in graphs[graph].precisions else graphs[graph].precision
                rows.append(
                    {"graph": graph, "precision": stored, **asdict(item), "provider": choice.provider}
                )
                cells = (
                    graph,
                    stored,
                    item.file,
                    str(item.nbytes),
                    str(graphs[graph].opset),
                    choice.provider,
                )
                table.add_row(*map(escape, cells))
    put_json(json_file, {"schema": 1, "bundle": bundle.name, "sha256": bundle.sha256, "graphs": rows})
    console = tables(json_file)
    console.print(table)
    console.print(f"SHA-256 of the bundle: {bundle.sha256}", soft_wrap=True)


@app.command("new")
def new_engine(
    onnx: Path = typer.Option(..., help="Your model, with fixed shapes and batch 1."),
    name: str = typer.Option(..., help="Name of the bundle."),
    classes: str = typer.Option(..., help="In the order of the model's outputs: insulator,person"),
    out: Path = typer.Option(..., help="The bundle's folder; is created."),
    kind: str = typer.Option("rgb", help="What the model reads: rgb, thermal or rgb+thermal."),
    decode: str = typer.Option("yolo", help="How its outputs are laid out: yolo, grid or boxes."),
    output: list[str] | None = typer.Option(None, help="NAME=MEANING, where names and shapes do not tell."),
    scale: float = typer.Option(1 / 255, help="Float models: (pixel * scale - mean) / std."),
    mean: str = typer.Option("0", help="One number, or one a channel: 0.485,0.456,0.406"),
    std: str = typer.Option("1", help="One number, or one a channel."),
    licence: str = typer.Option("unknown", help="Of your model."),
    description: str = typer.Option("", help="For people."),
) -> None:
    """Makes a bundle of your own ONNX detector: hashes and shapes are read from the file."""
    from edge_sdk.engine.author import new_single_bundle

    folder = new_single_bundle(
        onnx,
        out,
        name=name,
        classes=[item.strip() for item in classes.split(",") if item.strip()],
        reads=kind,
        decode=decode,
        description=description,
        licence=licence,
        scale=scale,
        mean=_numbers("--mean", mean),
        std=_numbers("--std", std),
        output_meanings=_meanings(output or []),
    )
    console = Console()
    console.print(f"[green]wrote[/] {escape(str(folder / 'bundle.toml'))}", soft_wrap=True)
    console.print(f"next: edge-sdk engines verify {escape(str(folder))}", soft_wrap=True)


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(item) for item in text.split(",")]
    except ValueError:
        raise ConfigError(f"{option}: expected numbers with commas between, found {text!r}") from None


def _meanings(pairs: list[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, meaning = pair.rpartition("=")
        if not equals:
            raise ConfigError(f"--output: expected NAME=MEANING, found {pair!r}")
        found[name] = meaning
    return found


def _classes_table(bundle: Bundle) -> Table:
    table = Table("Class", "Seen by", title="Classes")
    for item in bundle.manifest.classes:
        table.add_row(escape(item.name), ", ".join(item.visible_in))
    return table


def _graphs_table(bundle: Bundle) -> Table:
    table = Table("Graph", "Precision", "Bytes", "Opset", "Inputs", "Outputs", title="Graphs")
    for name, graph in bundle.manifest.graphs.items():
        edges = ["\n".join(map(str, specs)) for specs in (graph.inputs, graph.outputs)]
        cells = (name, ", ".join(graph.precisions), str(graph.source.nbytes), str(graph.opset), *edges)
        table.add_row(*map(escape, cells))
    return table


def _settings_table(bundle: Bundle) -> Table:
    table = Table("Setting", "Value", title="Decode and gate")
    manifest = bundle.manifest
    for room, spec in (("decode", manifest.decode), ("gate", manifest.gate)):
        for key, value in asdict(spec).items():
            table.add_row(f"{room}.{key}", escape(str(value)))
    return table


def _figures_table(metric: str, data: str, figures: Any, prefix: str = "") -> Table:
    table = Table("Figure", "Value", title=f"{escape(metric)} on {escape(data)}")
    for key, value in _flat(figures, prefix):
        table.add_row(escape(key), f"{value:g}")
    return table


def _flat(figures: Any, prefix: str) -> list[tuple[str, float]]:
    rows: list[tuple[str, float]] = []
    for key, value in figures.items():
        rows += _flat(value, f"{prefix}{key} / ") if isinstance(value, dict) else [(f"{prefix}{key}", value)]
    return rows


def _as_json(bundle: Bundle) -> dict[str, Any]:
    manifest = bundle.manifest
    radiometry = manifest.radiometry
    facts = {
        key: getattr(manifest, key)
        for key in ("name", "version", "description", "licence", "kind", "rgb_size_wh", "thermal_size_wh")
    }
    return {
        "schema": 1,
        "sha256": bundle.sha256,
        **facts,
        "classes": [asdict(item) for item in manifest.classes],
        "graphs": {name: asdict(graph) for name, graph in manifest.graphs.items()},
        "radiometry": {key: getattr(radiometry, key) for key in ("offset", "gain", "scale_k", "netd_k")},
        "registration": asdict(manifest.registration) if manifest.registration else None,
        "decode": asdict(manifest.decode),
        "gate": asdict(manifest.gate),
        "accuracy": [asdict(item) for item in manifest.accuracy],
        "provenance": dict(manifest.provenance),
    }
