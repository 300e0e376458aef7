"""`edge-sdk`: arguments in, exit status out.

Errors of ours are one line on standard error and exit status 3; bugs keep their trace.
"""

from __future__ import annotations

import os
import sys

import typer
from rich.console import Console

from edge_sdk.cli import bench, cameras, compare, doctor, engines, machine, power, replay, run, sla
from edge_sdk.cli.live import RunCommand
from edge_sdk.errors import EdgeSdkError, OpenCvMissingError
from edge_sdk.version import VERSION

__all__ = ["app", "main"]

EXIT_ERROR = 3

app = typer.Typer(
    name="edge-sdk",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="RGB+thermal inference with routing that cannot hide heat, and SLA verdicts with bounds.",
)
app.command("run", cls=RunCommand)(run.run)
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
) -> None:
    """Holds the options of `edge-sdk` itself."""


def main() -> None:
    """Runs the command line and exits."""
    try:
        app()
    except EdgeSdkError as error:
        Console(stderr=True, soft_wrap=True).print(
            f"error: {error}", style="red", markup=False, highlight=False
        )
        sys.exit(EXIT_ERROR)
    except ImportError as error:
        shown = OpenCvMissingError.behind(error)
        if shown is None:
            raise
        Console(stderr=True, soft_wrap=True).print(
            f"error: {shown}", style="red", markup=False, highlight=False
        )
        sys.exit(EXIT_ERROR)
    except KeyboardInterrupt:
        Console(stderr=True).print("stopped", style="red")
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output went away (`edge-sdk ... | head`): no trace for that.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


if __name__ == "__main__":
    main()
