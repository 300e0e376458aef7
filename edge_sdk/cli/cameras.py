"""`edge-sdk cameras`: what is plugged in, and what to type to use it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from edge_sdk.cli.live import warn
from edge_sdk.credentials import holds_password

if TYPE_CHECKING:
    from edge_sdk.sources.cameras import CameraSource
    from edge_sdk.sources.cameras.v4l2 import CameraFacts

__all__ = ["cameras", "chosen_source", "is_live", "print_camera_status"]

_DEFAULT_SOURCE = "clip:substation"


def cameras(as_json: bool = typer.Option(False, "--json", help="For programs.")) -> None:
    """Lists the cameras of this machine, what they can do, and how to use them."""
    from edge_sdk.sources.cameras.v4l2 import find_cameras

    found = find_cameras()
    if as_json:
        typer.echo(json.dumps([asdict(facts) for facts in found], indent=2))
        return
    console = Console()
    if not found:
        console.print("No V4L2 camera found on this machine.")
        console.print("A network camera needs no listing: --rgb rtsp://USER:PASSWORD@HOST/PATH", markup=False)
        return
    for facts in found:
        _print_camera(facts, console)
    console.print(_command(found), markup=False, soft_wrap=True)


def chosen_source(source: str | None, rgb: str | None, thermal: str | None) -> str:
    """Returns the source that `--source`, or `--rgb` and `--thermal`, ask for.

    Raises:
        ConfigError: both ways at once.
    """
    from edge_sdk.errors import ConfigError
    from edge_sdk.sources.cameras import camera_uri

    if any(holds_password(given) for given in (source, rgb, thermal) if given is not None):
        warn(
            "a camera's password on the command line can be read by every user of this machine; write "
            "'rtsp://USER:${NAME}@HOST' for the environment variable NAME, or ${file:PATH}"
        )
    if rgb is None and thermal is None:
        return source or _DEFAULT_SOURCE
    if source is not None:
        raise ConfigError("--source and --rgb/--thermal say the same thing twice; give one of the two ways")
    return camera_uri(rgb, thermal)


def is_live(source: str) -> bool:
    """Says whether a source is cameras, which give bad frames now and then and no end."""
    from edge_sdk.sources.cameras.pair_address import CAMERA_SCHEMES, take_apart

    if source.partition(":")[0].strip().lower() not in CAMERA_SCHEMES:
        return False
    return all(address.live for address in take_apart(source)[0].values())


def print_camera_status(source: CameraSource, console: Console) -> None:
    """Prints what became of both cameras in a run."""
    status = source.status()
    table = Table(title="Cameras", title_justify="left")
    for column in ("camera", "now", "rate", "frames", "used", "dropped", "faults", "reconnects"):
        table.add_column(column)
    frames, rates = status["pairing"]["frames"], status["pairing"]["rate_hz"]
    for name, camera in status["cameras"].items():
        ledger = frames[name]
        table.add_row(
            name,
            camera["health"],
            f"{rates[name]:.1f} Hz" if rates[name] else "-",
            str(ledger["offered"]),
            str(ledger["given"]),
            _counts(ledger["dropped"]),
            _counts(camera["faults"]),
            str(camera["reconnects"]),
        )
    console.print(table)
    skew = status["pairing"]["skew_ms"]
    if skew["p50"] is not None:
        console.print(
            f"{status['pairing']['pairs']} pairs, skew p50 {skew['p50']:.1f} ms, p95 {skew['p95']:.1f} ms, "
            f"largest {skew['p100']:.1f} ms (limit {status['pairing']['limit_ms']:.1f} ms)"
        )
    for sentence in source.refused_settings:
        console.print(f"Setting not kept: {sentence}", markup=False)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "-"


def _print_camera(facts: CameraFacts, console: Console) -> None:
    console.print(f"{facts.device}  {facts.name}", style="bold", markup=False, highlight=False)
    role = facts.role + (f" ({facts.why_role})" if facts.why_role else "")
    rows = [("looks like", role), ("driver", facts.driver), ("USB id", facts.usb_id)]
    for form in facts.formats:
        sizes = " ".join(f"{width}x{height}" for width, height in form.sizes_wh) or "sizes by range"
        rates = f" at {'/'.join(f'{rate:g}' for rate in form.rates_hz)} Hz" if form.rates_hz else ""
        rows.append((form.fourcc.strip() or "format", f"{sizes}{rates}"))
    for control in facts.controls:
        value = "?" if control.value is None else control.value
        rows.append((control.name, f"{value}  ({control.least} to {control.most})"))
    rows.append(("problem", facts.problem))
    rows.append(("use as", f"--{facts.role} '{facts.address}'"))
    for name, text in rows:
        if text:
            console.print(f"  {name:<24} {text}", markup=False, highlight=False, soft_wrap=True)


def _command(found: list[CameraFacts]) -> str:
    """The lines to type for the first camera of each kind."""
    parts = []
    for role in ("rgb", "thermal"):
        first = next((facts for facts in found if facts.role == role and not facts.problem), None)
        if first is not None:
            parts.append(f"--{role} '{first.address}'")
    if not parts:
        return "None of them can be used as it is."
    line = f"edge-sdk run {' '.join(parts)}"
    if len(parts) == 1:
        return f"Try: {line}"
    return (
        f"Try: {line} --serve --registration centred\n"
        "There, pick points and save them: nobody else knows how heat lies on colour. From then on:\n"
        f"     {line} --registration registration.json"
    )
