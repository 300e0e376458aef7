"""`edge-sdk sla check` and `edge-sdk sla judge`.

Exit status: 0 kept, 1 violated, 2 inconclusive or invalid, 3 the run or the judgement could not be made
(an error of ours, which `main` shows in one line).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperCommand

from edge_sdk.cli.options import (
    CUDA_GRAPHS,
    DLA,
    IDLE_S,
    METER,
    OFFSET_S,
    OVERLAP_UPLOAD,
    PLANS,
    REGISTRATION,
    ROOT,
    TRUST_PLAN,
)
from edge_sdk.cli.progress import run_progress
from edge_sdk.cli.run import refuse_unwritable
from edge_sdk.errors import ConfigError

if TYPE_CHECKING:
    from edge_sdk.report.record import RunRecord
    from edge_sdk.report.verdict import Verdicts

__all__ = ["UndecidedIsNotUsage", "app"]

COULD_NOT_RUN = 3
"""Exit status when there is nothing to judge."""


class UndecidedIsNotUsage(TyperCommand):
    """A command whose usage errors do not end with 2, which means undecided here."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # Typer brings a Click of its own or not, by its version
            if getattr(error, "exit_code", None) == 2:
                error.exit_code = COULD_NOT_RUN  # type: ignore[attr-defined]
            raise


app = typer.Typer(
    help="Check an SLA on latency, throughput, frame loss, energy and power.", no_args_is_help=True
)

_SLA_FILE = typer.Argument(metavar="SLA.yaml", help="The SLA file.", show_default=False)
_JSON = typer.Option(None, "--json", metavar="FILE", help="Write the run's record.")
_MARKDOWN = typer.Option(None, "--markdown", metavar="FILE", help="Write a Markdown report for people.")


@app.command(cls=UndecidedIsNotUsage)
def check(
    sla_file: str = _SLA_FILE,
    json_file: Path | None = _JSON,
    markdown_file: Path | None = _MARKDOWN,
    registration: str | None = REGISTRATION,
    device: str | None = typer.Option(None, help="auto, cpu, cuda or tensorrt; default: the SLA's."),
    threads: int | None = typer.Option(None, min=1, help="CPU threads of a graph; default: physical cores."),
    allow_fallback: list[str] | None = typer.Option(
        None, metavar="PROVIDER", help="Let this execution provider step in; the verdict is then INVALID."
    ),
    plans: Path | None = PLANS,
    trust_plan: str | None = TRUST_PLAN,
    dla: bool = DLA,
    cuda_graphs: str = CUDA_GRAPHS,
    overlap_upload: bool = OVERLAP_UPLOAD,
    meter: str = METER,
    root: Path = ROOT,
    idle_s: float = IDLE_S,
    offset_s: float | None = OFFSET_S,
    progress: bool = typer.Option(True, help="Show a progress bar."),
) -> None:
    """Runs an engine over a source and judges it. Exit: 0 kept, 1 violated, 2 undecided, 3 not run."""
    # Late, here and below, so that `edge-sdk --help` loads neither NumPy nor an inference runtime.
    from edge_sdk.devices import PlanOptions, power_of_run
    from edge_sdk.sla import load_sla
    from edge_sdk.sla_check import check_sla

    sla = load_sla(sla_file)
    plan_options = PlanOptions(dla, plans, trust_plan, cuda_graphs, overlap_upload)
    refuse_unwritable(json_file, markdown_file)
    with (
        power_of_run(meter, root=root, idle_s=idle_s, offset_s=offset_s) as power,
        run_progress(sla.run.frames, shown=progress) as advance,
    ):
        checked = check_sla(
            sla,
            registration=registration,
            device=device,
            threads=threads,
            allow_fallback=allow_fallback or (),
            on_result=lambda pair, result: advance(result),
            power=power,
            plan_options=plan_options,
        )
    _report(checked.record, checked.verdicts, json_file, markdown_file)
    raise typer.Exit(checked.verdicts.exit_status)


@app.command("judge", cls=UndecidedIsNotUsage)
def judge_again(
    record_file: str = typer.Argument(
        metavar="RECORD.json", help="A record of `sla check`.", show_default=False
    ),
    sla_file: str = _SLA_FILE,
    json_file: Path | None = _JSON,
    markdown_file: Path | None = _MARKDOWN,
) -> None:
    """Judges a record again, without running anything. Exit status as for `check`."""
    from edge_sdk.report.record_file import load_record
    from edge_sdk.report.verdict import judge
    from edge_sdk.sla import load_sla

    sla = load_sla(sla_file)
    record = load_record(record_file)
    refuse_unwritable(json_file, markdown_file)
    verdicts = judge(record, sla)
    _report(record, verdicts, json_file, markdown_file)
    raise typer.Exit(verdicts.exit_status)


def _report(
    record: RunRecord, verdicts: Verdicts, json_file: Path | None, markdown_file: Path | None
) -> None:
    from edge_sdk.report.markdown import run_markdown
    from edge_sdk.report.record_file import write_record
    from edge_sdk.report.table import print_run, print_verdicts

    console = Console()
    print_run(record, console)
    print_verdicts(verdicts, console)
    if json_file:
        write_record(record, json_file, verdicts.as_json())
        console.print(Text(f"record: {json_file}"), soft_wrap=True)
    if markdown_file:
        try:
            markdown_file.write_text(run_markdown(record, verdicts), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{markdown_file}: cannot be written ({error.strerror or error})") from error
        console.print(Text(f"report: {markdown_file}"), soft_wrap=True)
