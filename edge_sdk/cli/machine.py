"""`edge-sdk machine show`, `prepare` and `restore`.

Exit status of `prepare --apply`: that of the command it ran (128 + n when a signal n ended it), 3 when the
machine could not be prepared or put back.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from pwd import getpwuid, struct_passwd
from types import FrameType, TracebackType

import typer
from rich.console import Console

from edge_sdk.cli.doctor import print_findings
from edge_sdk.cli.outputs import put_json, refuse_unwritable
from edge_sdk.cli.streams import tables
from edge_sdk.errors import ConfigError

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True)

_ROOT = typer.Option(Path("/"), help="Read the file tree of another machine; its tools are not asked then.")
_TOOLS = typer.Option(None, help="Folder with this machine's nvpmodel and jetson_clocks, if not on PATH.")
_STATE = typer.Option(
    None, help="Where to note what must be put back; a folder of root's; default: /var/lib/edge-sdk-machine."
)


@app.command()
def show(
    root: Path = _ROOT,
    tools: Path | None = _TOOLS,
    json_file: Path | None = typer.Option(None, "--json", help="Write the snapshot here too."),
) -> None:
    """Shows board, release, power mode, clocks, heat, throttling and memory. Changes nothing."""
    from edge_sdk.devices.state_findings import state_findings
    from edge_sdk.machine_state.commands import runner_for
    from edge_sdk.machine_state.leftover import find_leftover
    from edge_sdk.machine_state.reader import MachineReader

    refuse_unwritable(json_file)
    if not root.is_dir():
        raise ConfigError(f"{root}: expected a folder that holds proc, sys and etc of a machine")
    snapshot = MachineReader(root, run=runner_for(root, tools)).snapshot()
    findings = tuple(state_findings(snapshot, find_leftover(root)))
    own = root.resolve() == Path("/")
    title = "State of this machine" if own else f"State read from the tree {root}, not from this machine"
    put_json(
        json_file,
        {
            "schema": "edge-sdk/machine",
            "schema_version": 1,
            "this_machine": own,
            "locked": snapshot.locked,
            **asdict(snapshot),
        },
    )
    print_findings(tables(json_file), findings, title)


@app.command(context_settings={"allow_interspersed_args": False})
def prepare(
    command: list[str] | None = typer.Argument(
        None, metavar="[-- COMMAND ...]", help="What to run in that state.", show_default=False
    ),
    mode: str | None = typer.Option(None, help="Power mode, by name."),
    lock_clocks: bool = typer.Option(False, "--lock-clocks", help="Hold all clocks, as jetson_clocks does."),
    apply: bool = typer.Option(False, "--apply", help="Do it, run COMMAND, and put everything back."),
    as_root: bool = typer.Option(
        False, "--as-root", help="Under sudo: run COMMAND as root too, not as the user who called."
    ),
    root: Path = _ROOT,
    tools: Path | None = _TOOLS,
    state_dir: Path | None = _STATE,
) -> None:
    """Says how to put the machine into a state; with --apply does so for the time of one command."""
    from edge_sdk.machine_state.commands import runner_for
    from edge_sdk.machine_state.prepare import Preparation
    from edge_sdk.machine_state.reader import MachineReader

    console = Console(stderr=True)

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    run = runner_for(root, tools)
    reader = MachineReader(root, run=run)
    preparation = Preparation(reader, run, mode=mode, lock_clocks=lock_clocks, folder=state_dir, say=say)
    if not apply:
        for step in preparation.plan():
            typer.echo(step)
        say("Nothing was changed. Add --apply and a command to run in that state: --apply -- COMMAND ...")
        return
    if not command:
        raise ConfigError("--apply: expected a command to run in that state: --apply -- COMMAND ...")
    caller = None if as_root else _caller()
    with _Signals() as signals:
        status = 0
        with preparation:
            if not signals.caught:
                status = signals.run(command, caller)
        if signals.caught:
            status = 128 + signals.caught
    raise typer.Exit(status)


@app.command()
def restore(root: Path = _ROOT, tools: Path | None = _TOOLS, state_dir: Path | None = _STATE) -> None:
    """Puts back what a killed `prepare --apply` left. Does nothing where nothing is left."""
    from edge_sdk.machine_state.commands import runner_for
    from edge_sdk.machine_state.leftover import find_leftover
    from edge_sdk.machine_state.prepare import restore_leftover
    from edge_sdk.machine_state.reader import MachineReader

    if find_leftover(root, state_dir) is None:
        typer.echo("Nothing is left to put back.")
        return
    run = runner_for(root, tools)
    with _Signals():
        restore_leftover(MachineReader(root, run=run), run, folder=state_dir, say=typer.echo)


class _Signals:
    """Holds off what would end this process before the machine is put back; the command gets it instead."""

    _HELD_OFF = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.caught = 0
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> _Signals:
        self._before = {number: signal.signal(number, self._take) for number in self._HELD_OFF}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def run(self, command: list[str], caller: struct_passwd | None = None) -> int:
        """Runs the command to its end, as `caller` where one is given; returns a shell's status."""
        try:
            if caller is None:
                self._child = subprocess.Popen(command)
            else:
                name, user, group = caller.pw_name, caller.pw_uid, caller.pw_gid
                self._child = subprocess.Popen(
                    command,
                    user=user,
                    group=group,
                    extra_groups=os.getgrouplist(name, group),
                    env={**os.environ, "HOME": caller.pw_dir, "USER": name, "LOGNAME": name},
                )
        except OSError as error:
            raise ConfigError(f"{command[0]}: cannot be run ({error.strerror or error})") from error
        if self.caught:  # while it started
            self._child.send_signal(self.caught)
        status = self._child.wait()
        return status if status >= 0 else 128 - status

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.caught = number
        if self._child is not None and not (number == signal.SIGINT and _terminal_tells_all()):
            self._child.send_signal(number)


def _caller() -> struct_passwd | None:
    """Finds who called sudo: his are the plans, the caches and the files that the command makes.

    Raises:
        ConfigError: sudo names a user whom this machine does not know.
    """
    asked = os.environ.get("SUDO_UID", "")
    if os.geteuid() != 0 or not asked.isdecimal() or int(asked) == 0:
        return None
    try:
        return getpwuid(int(asked))
    except KeyError:
        raise ConfigError(
            f"SUDO_UID: this machine has no user {asked} to run the command as; --as-root runs it as root"
        ) from None


def _terminal_tells_all() -> bool:
    """Whether Ctrl-C of the terminal reaches the command by itself, so that passing it on would double it."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False
