"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import typer

__all__ = ["IDLE_S", "METER", "OFFSET_S", "ROOT"]

METER = typer.Option(
    "auto",
    help="Power meter: auto, none, ina3221, jtop, tegrastats, nvml, rapl, external:FILE or replay:FILE.",
)
ROOT = typer.Option(Path("/"), help="Read power from this file tree, another machine's copy.")
IDLE_S = typer.Option(5.0, help="Seconds of idle measured before and after, where there is a meter; 0: none.")
OFFSET_S = typer.Option(
    None, help="External meter: its clock minus this machine's; default: aligned by its power."
)
