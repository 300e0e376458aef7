"""`edge-sdk engines build`: TensorRT plans of a bundle, built and proven on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from edge_sdk.cli.outputs import put_text, refuse_unwritable
from edge_sdk.cli.streams import tables

if TYPE_CHECKING:
    from edge_sdk.devices.plans import Progress as BuildProgress
    from edge_sdk.engine.plan_store import LoadedPlans

__all__ = ["build_engine"]


def build_engine(
    name: str = typer.Argument(help="Name of a bundle, or its folder."),
    precision: str | None = typer.Option(None, help="int8, fp16 or fp32; default: what the bundle ships."),
    remainder: str = typer.Option("fp16", help="What layers that are not INT8 compute in: fp16 or fp32."),
    workspace_mib: int = typer.Option(512, min=1, help="Memory a layer may use while it is timed and run."),
    optimisation_level: int = typer.Option(3, min=0, max=5, help="0: fast to build, 5: fast to run."),
    dla_core: int | None = typer.Option(None, min=0, help="Put the thermal graph on this DLA core."),
    dla_gpu_fallback: bool = typer.Option(False, help="Layers that the DLA cannot run may go to the GPU."),
    force: bool = typer.Option(False, help="Build although there are plans that fit."),
    json_file: Path | None = typer.Option(None, "--json", help="Write the record of the plans here too."),
) -> None:
    """Builds TensorRT plans on this machine, compares them with the ONNX graphs, keeps them if they agree."""
    from edge_sdk.devices.plans import build_plans
    from edge_sdk.engine.bundle import load_bundle
    from edge_sdk.engine.tensorrt_build import BuildOptions

    refuse_unwritable(json_file)
    options = BuildOptions(workspace_mib, optimisation_level, remainder, dla_core, dla_gpu_fallback)
    bundle = load_bundle(name)
    with _bar() as progress:
        loaded, built = build_plans(bundle, options, precision=precision, force=force, progress=progress)
    put_text(json_file, loaded.sidecar.to_json().decode())
    console = tables(json_file)
    if not built:
        console.print("These plans were there already; --force builds them again.")
    _print(loaded, console)


@contextmanager
def _bar() -> Iterator[BuildProgress]:
    """One bar, for the phase that the builder is in; its phases lie within each other and change fast."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def show(graph: str, phase: str, done: int, steps: int) -> None:
            bar.update(task, description=escape(f"{graph}: {phase}"), completed=done, total=steps or None)

        yield show


def _print(loaded: LoadedPlans, console: Console) -> None:
    sidecar = loaded.sidecar
    key = asdict(sidecar.key)
    console.print(
        f"Built for TensorRT {key['tensorrt']} on {key['gpu']} (compute capability "
        f"{key['compute_capability']}), module {key['module']}, DLA {key['dla']}.",
        markup=False,
    )
    figures = sidecar.canary
    table = Table(
        "Graph",
        "Plan",
        "Layers on GPU / DLA",
        "Differs from ONNX",
        "Detections agreed",
        "GPU time",
        title=f"Plans of {escape(sidecar.key.bundle)}",
    )
    for graph, plan in sidecar.plans.items():
        found = figures["graphs"][graph]
        rms = max(found["output_rms"].values())
        counts = f"{found['agreed']} of {found['detections']}" if "agreed" in found else "-"
        took = f"{sidecar.baseline_ms[graph]:.3f} ms" if graph in sidecar.baseline_ms else "not measured"
        table.add_row(
            escape(graph),
            f"{plan.nbytes / 2**20:.1f} MiB",
            f"{plan.gpu_layers} / {plan.dla_layers}",
            f"{rms:.4f}",
            counts,
            took,
        )
    console.print(table)
    console.print(
        f"Compared on {figures['frames']} known frames. 'Differs': root mean square over the output's "
        f"standard deviation, at most {figures['output_rms_max']}. Detections agree within IoU "
        f"{figures['iou_min']} and score {figures['score_max']}; {figures['agree_min']:.0%} of them must.",
        markup=False,
    )
    if not sidecar.baseline_ms:
        console.print("The CUDA driver is emulated: no time was measured.")
    console.print(f"Plans: {loaded.folder}", markup=False, soft_wrap=True)
    console.print(f"SHA-256 of their record: {loaded.sha256}", soft_wrap=True)
