"""`edge-sdk doctor`: what this machine has, and what to do about what it lacks."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from edge_sdk.cli.run import refuse_unwritable

__all__ = ["doctor"]

_STYLES = {"ok": "green", "absent": "yellow", "fault": "bold red"}


def doctor(
    json_file: Path | None = typer.Option(None, "--json", help="Write the findings here too."),
) -> None:
    """Says what this machine has for the SDK, by trying it, and what to do about each thing missing."""
    from edge_sdk.devices import machine_facts
    from edge_sdk.devices.findings import examine

    refuse_unwritable(json_file)
    findings = examine()
    table = Table("What", "State", "Found", "What to do", title="This machine")
    for item in findings:
        state = f"[{_STYLES[item.state]}]{item.state}[/]"
        table.add_row(escape(item.what), state, escape(item.found), escape(item.advice))
    Console().print(table)
    if json_file is not None:
        report = {"schema": 1, "machine": machine_facts(), "findings": [asdict(item) for item in findings]}
        json_file.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
