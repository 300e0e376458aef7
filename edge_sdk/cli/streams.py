"""Standard output and error as a process that must not be ended by their readers uses them."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

from rich.console import Console

__all__ = ["STDOUT", "SafeStream", "safe_streams", "tables"]

STDOUT = Path("-")
"""Stands for standard output where a file is asked for."""


class SafeStream(io.FileIO):
    """A standard stream that takes everything, also when nobody reads it any more.

    Whoever pipes into `head` has what was wanted, and the exit status stays what the command found. A disk
    that is full is remembered in `problem`, as then something is missing that somebody wanted.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.problem = ""

    def write(self, content: object) -> int:
        """Writes, or throws away."""
        view = memoryview(content)  # type: ignore[arg-type]
        try:
            return super().write(view)
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                self.problem = error.strerror or str(error)
            with Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), self.fileno())
            return view.nbytes


def safe_streams() -> list[SafeStream]:
    """Puts `SafeStream`s under `sys.stdout` and `sys.stderr`; returns them, standard output first."""
    found = []
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started us
            stream = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", closefd=False)
        raw = SafeStream(stream.fileno())
        safe = io.TextIOWrapper(
            io.BufferedWriter(raw),
            encoding=stream.encoding,
            errors="backslashreplace",
            line_buffering=stream.line_buffering or stream.write_through or name == "stderr",
        )
        stream.flush()
        setattr(sys, name, safe)
        found.append(raw)
    return found


def tables(*targets: Path | None) -> Console:
    """Returns the console for people: standard error where one of the files is standard output."""
    return Console(stderr=STDOUT in targets)
