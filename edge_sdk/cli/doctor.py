"""`edge-sdk doctor`: what this machine has, and what to do about what it lacks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.markup import escape
from rich.table import Table

from edge_sdk.cli.outputs import put_json, refuse_unwritable
from edge_sdk.cli.streams import tables

if TYPE_CHECKING:
    from edge_sdk.devices.finding import Finding

__all__ = ["doctor", "finding_table"]

_STYLES = {"ok": "green", "absent": "yellow", "fault": "bold red"}


def doctor(
    json_file: Path | None = typer.Option(None, "--json", help="Write the findings here too."),
    root: Path = typer.Option(Path("/"), help="Read the machine's state from this file tree instead."),
) -> None:
    """Says what this machine has for the SDK, by trying it, and what to do about each thing missing."""
    from edge_sdk.devices import machine_facts
    from edge_sdk.devices.findings import examine

    refuse_unwritable(json_file)
    findings = examine(root)
    report = {"schema": 1, "machine": machine_facts(root), "findings": [asdict(item) for item in findings]}
    put_json(json_file, report)
    tables(json_file).print(finding_table(findings, "This machine"))


def finding_table(findings: Iterable[Finding], title: str) -> Table:
    """Lays findings out for a terminal."""
    from edge_sdk.report.summary import printable

    table = Table(title=title)
    for heading in ("What", "State", "Found", "What to do"):
        table.add_column(heading, overflow="fold")  # an elided path or option cannot be typed
    for item in findings:
        state = f"[{_STYLES[item.state]}]{item.state}[/]"
        table.add_row(escape(item.what), state, escape(printable(item.found)), escape(item.advice))
    return table
