"""`edge-sdk doctor`: what this machine has, and what to do about what it lacks."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.markup import escape

from edge_sdk.cli.outputs import put_json, refuse_unwritable
from edge_sdk.cli.streams import tables

if TYPE_CHECKING:
    from edge_sdk.devices.finding import Finding

__all__ = ["doctor", "print_findings"]

_STYLES = {"ok": "green", "absent": "yellow", "fault": "bold red"}
_NAME_WIDTH = 22
_INDENT = " " * (8 + _NAME_WIDTH + 1)
_NARROWEST = 30
_GLUE = "\0"
"""Stands for the spaces of a command while lines are broken, so that none is broken within it."""


def doctor(
    json_file: Path | None = typer.Option(None, "--json", help="Write the findings here too."),
    root: Path = typer.Option(Path("/"), help="Read the machine's state from this file tree instead."),
) -> None:
    """Says what this machine has for the SDK, by trying it, and what to do about each thing missing."""
    refuse_unwritable(json_file)
    with _despite_opencv():
        from edge_sdk.devices import machine_facts
        from edge_sdk.devices.findings import examine

        findings = examine(root)
        facts = machine_facts(root)
    put_json(json_file, {"schema": 1, "machine": facts, "findings": [asdict(item) for item in findings]})
    print_findings(tables(json_file), findings, "This machine")


def print_findings(console: Console, findings: Iterable[Finding], title: str) -> None:
    """Prints findings, a few lines each, no word and no command broken: what stands there can be typed."""
    from edge_sdk.report.summary import printable

    console.print(f"[italic]{escape(title)}[/]", highlight=False)
    for item in findings:
        lines = _broken(printable(item.found), console.width)
        state = f"[{_STYLES[item.state]}]{item.state:8}[/]"
        name = escape(f"{item.what:{_NAME_WIDTH}} ")
        if len(item.what) > _NAME_WIDTH:
            name, lines = escape(item.what), ["", *lines]
        _say(console, state + name + escape(lines[0] if lines else ""))
        for line in lines[1:]:
            _say(console, _INDENT + escape(line))
        for number, line in enumerate(_broken(item.advice, console.width - 3)):
            _say(console, f"{_INDENT}{'   ' if number else '-> '}{escape(line)}")


def _say(console: Console, line: str) -> None:
    console.print(line.rstrip(), soft_wrap=True, highlight=False)


def _broken(text: str, width: int) -> list[str]:
    """Breaks at spaces only, and not within `a command`."""
    parts = text.split("`")
    parts[1::2] = [part.replace(" ", _GLUE) for part in parts[1::2]]
    lines = textwrap.wrap(
        "`".join(parts),
        max(width - len(_INDENT), _NARROWEST),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_GLUE, " ") for line in lines]


class _BrokenOpenCv(ModuleType):
    """Stands in for an OpenCV that does not load, so that everything else can be examined.

    Modules may name its constants while they are imported; whatever would be called says what is wrong.
    """

    def __init__(self, problem: str) -> None:
        super().__init__("cv2")
        self.problem = problem

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        if name.isupper():
            return 0
        raise ImportError(self.problem, name="cv2")


@contextmanager
def _despite_opencv() -> Iterator[None]:
    try:
        import cv2  # noqa: F401
    except ImportError as error:
        before = sys.modules.get("cv2")
        sys.modules["cv2"] = _BrokenOpenCv(str(error))
        try:
            yield
        finally:
            del sys.modules["cv2"]
            if before is not None:
                sys.modules["cv2"] = before
    else:
        yield
