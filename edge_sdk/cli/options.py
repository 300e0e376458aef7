"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import typer

__all__ = [
    "CUDA_GRAPHS",
    "DLA",
    "ENGINE_PANEL",
    "IDLE_S",
    "METER",
    "OFFSET_S",
    "OVERLAP_UPLOAD",
    "PLANS",
    "POWER_PANEL",
    "REGISTRATION",
    "ROOT",
    "SOURCE_PANEL",
    "TRUST_PLAN",
]

ENGINE_PANEL = "Engine"
SOURCE_PANEL = "Source"
POWER_PANEL = "Power"

PLANS = typer.Option(
    None, rich_help_panel=ENGINE_PANEL, help="TensorRT plans from elsewhere; needs --trust-plan."
)
TRUST_PLAN = typer.Option(None, rich_help_panel=ENGINE_PANEL, help="SHA-256 of their record. A plan is code.")
DLA = typer.Option(
    False, "--dla", rich_help_panel=ENGINE_PANEL, help="TensorRT: the plans with the thermal graph on a DLA."
)
CUDA_GRAPHS = typer.Option(
    "auto", rich_help_panel=ENGINE_PANEL, help="TensorRT: auto (where faster), on or off."
)
OVERLAP_UPLOAD = typer.Option(
    False,
    "--overlap-upload",
    rich_help_panel=ENGINE_PANEL,
    help="TensorRT: copy thermal beside the RGB graph.",
)

REGISTRATION = typer.Option(
    None,
    rich_help_panel=SOURCE_PANEL,
    help="How heat lies on colour: a JSON file (the live page saves one), same-view, centred, or bundle "
    "(the engine's own camera rig). Default: what the source states, or equal sizes.",
)

METER = typer.Option(
    "auto",
    rich_help_panel=POWER_PANEL,
    help="Power meter: auto, none, ina3221, jtop, tegrastats, nvml, rapl, external:FILE or replay:FILE.",
)
ROOT = typer.Option(
    Path("/"), rich_help_panel=POWER_PANEL, help="Read power from this file tree, another machine's copy."
)
IDLE_S = typer.Option(
    5.0,
    rich_help_panel=POWER_PANEL,
    help="Seconds of idle measured before and after, where there is a meter; 0: none.",
)
OFFSET_S = typer.Option(
    None,
    rich_help_panel=POWER_PANEL,
    help="External meter: its clock minus this machine's; default: aligned by its power.",
)
