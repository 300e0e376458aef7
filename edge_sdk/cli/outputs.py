"""What a command leaves behind: checked before the work, saved before anything is printed."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from edge_sdk.cli.streams import STDOUT
from edge_sdk.errors import ConfigError, SaveError
from edge_sdk.saving import check_target, save_text

__all__ = ["Results", "put_json", "put_text", "refuse_suffix", "refuse_unwritable", "say_where"]


def refuse_unwritable(*files: Path | None) -> None:
    """Fails before a run of minutes, not after it; makes missing folders.

    Raises:
        ConfigError: a file cannot be written there, or two of them are the same.
    """
    seen: dict[str, Path] = {}
    for file in files:
        if file is None:
            continue
        place = "-" if file == STDOUT else os.path.realpath(file)
        if place in seen and not Path(place).is_char_device():
            what = "standard output (-)" if file == STDOUT else str(file)
            raise ConfigError(f"{what} is asked for twice: only one output can go there")
        seen[place] = file
        if file != STDOUT:
            check_target(file)


def refuse_suffix(option: str, file: Path | None, allowed: tuple[str, ...]) -> None:
    """Fails before a run where an option names a file of a kind that is not written.

    Raises:
        ConfigError: another suffix than those allowed.
    """
    if file is not None and file.suffix.lower() not in allowed:
        raise ConfigError(f"{option} {file}: expected a file that ends in {' or '.join(allowed)}")


def put_text(target: Path | None, text: str) -> None:
    """Writes text to a file, whole or not at all, or to standard output; to nowhere for None.

    Raises:
        SaveError: the file cannot be written.
    """
    if target == STDOUT:
        sys.stdout.write(text)
        sys.stdout.flush()
    elif target is not None:
        save_text(target, text)


def put_json(target: Path | None, document: Any) -> None:
    """Writes a JSON document as `put_text` does.

    Raises:
        SaveError: the file cannot be written.
    """
    put_text(target, json.dumps(document, indent=2) + "\n")


def say_where(console: Console, what: str, target: Path | None) -> None:
    """Says for people which file something was saved in."""
    if target not in (None, STDOUT):
        console.print(f"{what}: {target}", markup=False, highlight=False, soft_wrap=True)


class Results:
    """Saves the results of a run one by one: one that cannot be written keeps no other from it.

    Attributes:
        lines: what was saved where, for people.
        problems: what could not be saved, and where it was put instead.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.problems: list[str] = []

    def put(self, what: str, target: Path | None, make: Callable[[], str]) -> None:
        """Saves one result; where its place does not take it, in the folder for temporary files.

        Arguments:
            what: its name for people.
            target: the file, standard output, or None for nowhere.
            make: makes its text.
        """
        if target is None:
            return
        try:
            text = make()
        except OSError as error:  # a picture that it holds is gone
            self.problems.append(f"{what}: {error}")
            return
        try:
            put_text(target, text)
        except SaveError as error:
            self.problems.append(f"{what}: {error}{_rescued(target, text)}")
            return
        if target != STDOUT:
            self.lines.append(f"{what}: {target}")

    def ended(self, problem: str) -> None:
        """Takes that an output which is written during the run ended before the run did."""
        self.problems.append(problem)

    def say(self, console: Console) -> None:
        """Says for people what is where, and on standard error what is not."""
        for line in self.lines:
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        for problem in self.problems:
            typer.secho(f"error: {problem}", fg="red", err=True)


def _rescued(target: Path, text: str) -> str:
    """Saves a text that its own place did not take where the system keeps temporary files."""
    descriptor, name = -1, ""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f"edge-sdk-{target.stem[:60]}-", suffix=target.suffix)
        os.close(descriptor)
        save_text(name, text)
    except (OSError, SaveError):
        if name:
            Path(name).unlink(missing_ok=True)
        return ""
    return f". It was saved as {name}"
