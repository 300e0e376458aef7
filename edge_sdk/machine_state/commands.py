"""Asking the machine's own tools, with a limit on time and nothing for them to ask back."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Answer", "Runner", "no_commands", "runner_for", "runner_in"]

_LIMIT_S = 20
_NOT_FOUND = 127
_TOO_LATE = 124
_SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Answer:
    """What a tool said.

    Attributes:
        status: its exit status; 127 where it is not there, 124 where it took too long.
        out, err: its two outputs.
    """

    status: int
    out: str = ""
    err: str = ""

    @property
    def there(self) -> bool:
        """Whether the tool exists."""
        return self.status != _NOT_FOUND

    @property
    def why(self) -> str:
        """The last line of its complaint, or its exit status."""
        lines = (self.err.strip() or self.out.strip()).splitlines()
        return lines[-1].strip() if lines else f"exit status {self.status}"


Runner = Callable[[Sequence[str]], Answer]
"""A command line -> what came of it; never raises for a tool that is missing or fails."""


def no_commands(command: Sequence[str]) -> Answer:
    """Has no tool at all: for the tree of another machine, whose tools are not ours."""
    return Answer(_NOT_FOUND, err=f"{command[0]}: not asked, the tree is of another machine")


def runner_for(root: Path, tools: Path | None = None) -> Runner:
    """Picks who is asked: this machine's tools for its own tree, nobody for another one's.

    Arguments:
        root: of the tree that is read.
        tools: a folder of tools that belong to the tree, or None.

    Root runs the tools of the system's own folders alone: PATH may name a user's.
    """
    if tools is not None:
        return runner_in(str(tools))
    if root.resolve() == Path("/"):
        path = "" if os.geteuid() == 0 else os.environ.get("PATH", "")
        return runner_in(os.pathsep.join(filter(None, (path, _SYSTEM_PATH))))
    return no_commands


def runner_in(search: str) -> Runner:
    """Makes a runner that looks for tools in these folders alone.

    A tool gets "no" for every question (nvpmodel asks whether to reboot), and a session of its own, so
    that Ctrl-C does not end it half-way.
    """

    def run(command: Sequence[str]) -> Answer:
        program = shutil.which(command[0], path=search)
        if program is None:
            return Answer(_NOT_FOUND, err=f"{command[0]}: not found")
        try:
            done = subprocess.run(
                [program, *command[1:]],
                input="no\n" * 4,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_LIMIT_S,
                check=False,
                start_new_session=True,
                env={**os.environ, "LC_ALL": "C"},
            )
        except subprocess.TimeoutExpired:
            return Answer(_TOO_LATE, err=f"{command[0]}: no answer within {_LIMIT_S} s")
        except OSError as error:
            return Answer(126, err=f"{command[0]}: cannot be run ({error.strerror or error})")
        return Answer(done.returncode, done.stdout, done.stderr)

    return run
