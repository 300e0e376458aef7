"""`edge-sdk`: arguments in, exit status out.

Errors of ours are one line on standard error and exit status 3; bugs keep their trace and end with 3 too.
A signal ends a command with 128 and its number. A reader that goes away (`| head`) changes no status.
"""

from __future__ import annotations

import logging
import signal
import sys
import traceback

import typer
from rich.console import Console

from edge_sdk.cli import bench, cameras, compare, doctor, engines, machine, power, replay, run, sla
from edge_sdk.cli.live import RunCommand
from edge_sdk.cli.streams import safe_streams
from edge_sdk.cli.words import in_cli_words
from edge_sdk.ending import Ending, StoppedBySignal
from edge_sdk.errors import ConfigError, EdgeSdkError, OpenCvMissingError
from edge_sdk.version import VERSION

__all__ = ["app", "main"]

EXIT_ERROR = 3

_LOG_LEVELS = ("error", "warning", "info", "debug")

app = typer.Typer(
    name="edge-sdk",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="RGB+thermal inference with routing that cannot hide heat, and SLA verdicts with bounds.",
)
app.command("run", cls=RunCommand, epilog=run.EXAMPLES)(run.run)
app.command("replay")(replay.replay)
app.command("doctor")(doctor.doctor)
app.command("cameras")(cameras.cameras)
app.command("compare", cls=sla.UndecidedIsNotUsage)(compare.compare)
app.add_typer(machine.app, name="machine", help="Show the machine's state, or prepare it for a run.")
app.add_typer(sla.app, name="sla", help="Check an SLA on latency and energy, or judge a record again.")
app.add_typer(engines.app, name="engines", help="List, show, verify and build engine bundles.")
app.add_typer(power.app, name="power", help="Read, log or replay the power of this machine.")
app.add_typer(bench.app, name="bench", help="Measure this SDK on this machine.")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"edge-sdk {VERSION}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
    ),
    log: str | None = typer.Option(
        None, metavar="LEVEL", help="Say what is done on standard error: info, or debug for all of it."
    ),
) -> None:
    """Holds the options of `edge-sdk` itself."""
    if log is not None:
        if log.lower() not in _LOG_LEVELS:
            raise ConfigError(f"--log {log}: expected {', '.join(_LOG_LEVELS)}")
        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        logging.getLogger("edge_sdk").setLevel(log.upper())


def main() -> None:
    """Runs the command line and exits."""
    out, _ = safe_streams()
    ending = Ending()
    try:
        with ending.listening():
            status = _status()
    except StoppedBySignal as stopped:
        _complain("stopped")
        status = 128 + stopped.number
    sys.stdout.flush()
    if out.problem:
        _complain(f"error: standard output could not be written ({out.problem})")
        status = status or EXIT_ERROR
    sys.stderr.flush()
    sys.exit(status)


def _status() -> int:
    """Runs the command; returns what the process ends with. A bug keeps its trace, and is no verdict."""
    try:
        app()
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else EXIT_ERROR if done.code else 0
    except EdgeSdkError as error:
        _complain(f"error: {in_cli_words(str(error))}")
    except ImportError as error:
        shown = OpenCvMissingError.behind(error)
        if shown is None:
            traceback.print_exc()
            return EXIT_ERROR
        _complain(f"error: {shown}")
    except KeyboardInterrupt:
        _complain("stopped")
        return 128 + signal.SIGINT
    except Exception:
        traceback.print_exc()
    return EXIT_ERROR


def _complain(text: str) -> None:
    Console(stderr=True, soft_wrap=True).print(text, style="red", markup=False, highlight=False)


if __name__ == "__main__":
    main()
