"""`edge-sdk sla check` and `edge-sdk sla judge`.

Exit status: 0 kept, 1 violated, 2 inconclusive or invalid, 3 the run or the judgement could not be made, or
its results not saved; 128 + n when signal n ended the run, whose record is saved and judged all the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
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
from edge_sdk.cli.outputs import Results, refuse_suffix, refuse_unwritable
from edge_sdk.cli.progress import run_progress
from edge_sdk.cli.reports import REPORT_SUFFIXES, report_text
from edge_sdk.cli.streams import tables
from edge_sdk.ending import Ending
from edge_sdk.errors import EdgeSdkError

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
_JSON = typer.Option(None, "--json", metavar="FILE", help="The run's record; - for standard output.")
_REPORT = typer.Option(None, "--report", metavar="FILE", help="A report for people: .html (one file) or .md.")
_MARKDOWN = typer.Option(None, "--markdown", metavar="FILE", hidden=True, help="Older name of --report.")
_JUNIT = typer.Option(None, "--junit", metavar="FILE", help="JUnit XML for CI: a test a clause; or -.")


@app.command(cls=UndecidedIsNotUsage)
def check(
    sla_file: str = _SLA_FILE,
    json_file: Path | None = _JSON,
    report_file: Path | None = _REPORT,
    markdown_file: Path | None = _MARKDOWN,
    junit_file: Path | None = _JUNIT,
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

    report_file = report_file or markdown_file
    _refuse(json_file, report_file, junit_file)
    sla = load_sla(sla_file)
    plan_options = PlanOptions(dla, plans, trust_plan, cuda_graphs, overlap_upload)
    results, ending = Results(), Ending()
    with (
        ending.listening(),
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
            ending=ending,
        )
        _save(results, checked.record, checked.verdicts, json_file, report_file, junit_file)
        ending.saved()
    _say(results, checked.record, checked.verdicts, json_file, junit_file)
    if ending.error is not None and not isinstance(ending.error, EdgeSdkError):
        raise ending.error  # a bug: its trace is wanted
    if ending.signal:
        raise typer.Exit(ending.exit_status)
    raise typer.Exit(COULD_NOT_RUN if results.problems else checked.verdicts.exit_status)


@app.command("judge", cls=UndecidedIsNotUsage)
def judge_again(
    record_file: str = typer.Argument(
        metavar="RECORD.json", help="A record of `sla check`.", show_default=False
    ),
    sla_file: str = _SLA_FILE,
    json_file: Path | None = _JSON,
    report_file: Path | None = _REPORT,
    markdown_file: Path | None = _MARKDOWN,
    junit_file: Path | None = _JUNIT,
) -> None:
    """Judges a record again, without running anything. Exit status as for `check`."""
    from edge_sdk.report.record_file import load_record
    from edge_sdk.report.verdict import judge
    from edge_sdk.sla import load_sla

    report_file = report_file or markdown_file
    _refuse(json_file, report_file, junit_file)
    sla = load_sla(sla_file)
    record = load_record(record_file)
    verdicts = judge(record, sla)
    results = Results()
    _save(results, record, verdicts, json_file, report_file, junit_file)
    _say(results, record, verdicts, json_file, junit_file)
    raise typer.Exit(COULD_NOT_RUN if results.problems else verdicts.exit_status)


def _refuse(json_file: Path | None, report_file: Path | None, junit_file: Path | None) -> None:
    refuse_suffix("--report", report_file, REPORT_SUFFIXES)
    refuse_unwritable(json_file, report_file, junit_file)


def _save(
    results: Results,
    record: RunRecord,
    verdicts: Verdicts,
    json_file: Path | None,
    report_file: Path | None,
    junit_file: Path | None,
) -> None:
    from edge_sdk.report.junit import junit_xml
    from edge_sdk.report.record_file import record_text

    results.put("record", json_file, lambda: record_text(record, verdicts.as_json()))
    if report_file is not None:
        results.put("report", report_file, lambda: report_text(report_file, record, verdicts))
    results.put("JUnit", junit_file, lambda: junit_xml(record, verdicts))


def _say(
    results: Results,
    record: RunRecord,
    verdicts: Verdicts,
    json_file: Path | None,
    junit_file: Path | None,
) -> None:
    from edge_sdk.report.table import print_run, print_verdicts

    console = tables(json_file, junit_file)
    print_run(record, console)
    print_verdicts(verdicts, console)
    results.say(console)
