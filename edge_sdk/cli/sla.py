"""`edge-sdk sla check` and `edge-sdk sla judge`.

Exit status: 0 kept, 1 violated, 2 inconclusive or invalid, 3 the run or the judgement could not be made
(an error of ours, which `main` shows in one line).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperCommand

from edge_sdk.cli.progress import run_progress
from edge_sdk.cli.run import refuse_unwritable
from edge_sdk.errors import ConfigError, SourceError

if TYPE_CHECKING:
    from edge_sdk.frames import FramePair
    from edge_sdk.measurements import FrameResult
    from edge_sdk.report.record import RunRecord
    from edge_sdk.report.verdict import Verdicts
    from edge_sdk.sla import RunPlan, Sla
    from edge_sdk.sources import Source

__all__ = ["app", "measure"]

_REPEATABLE = ("clip:", "pairs:")
"""Sources that a longer run may go through again from the start: files cannot run dry or lose a cable."""

_PASSES_BY_TIME = 1_000_000  # the time ends such a run; a stated number lets the record count passes

COULD_NOT_RUN = 3
"""Exit status when there is nothing to judge."""


class _Command(TyperCommand):
    """A command whose usage errors do not end with 2, which means undecided here."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # Typer brings a Click of its own or not, by its version
            if getattr(error, "exit_code", None) == 2:
                error.exit_code = COULD_NOT_RUN  # type: ignore[attr-defined]
            raise


app = typer.Typer(help="Check a latency, throughput and frame-loss SLA.", no_args_is_help=True)

_SLA_FILE = typer.Argument(metavar="SLA.yaml", help="The SLA file.", show_default=False)
_JSON = typer.Option(None, "--json", metavar="FILE", help="Write the run's record.")
_MARKDOWN = typer.Option(None, "--markdown", metavar="FILE", help="Write a Markdown report for people.")


@app.command(cls=_Command)
def check(
    sla_file: str = _SLA_FILE,
    json_file: Path | None = _JSON,
    markdown_file: Path | None = _MARKDOWN,
    device: str | None = typer.Option(None, help="auto, cpu, cuda or tensorrt; default: the SLA's."),
    threads: int | None = typer.Option(None, min=1, help="CPU threads of a graph; default: physical cores."),
    allow_fallback: list[str] | None = typer.Option(
        None, metavar="PROVIDER", help="Let this execution provider step in; the verdict is then INVALID."
    ),
    progress: bool = typer.Option(True, help="Show a progress bar."),
) -> None:
    """Runs an engine over a source and judges it. Exit: 0 kept, 1 violated, 2 undecided, 3 not run."""
    # Late, here and below, so that `edge-sdk --help` loads neither NumPy nor an inference runtime.
    from edge_sdk.report.verdict import judge
    from edge_sdk.sla import load_sla

    sla = load_sla(sla_file)
    refuse_unwritable(json_file, markdown_file)
    with run_progress(sla.run.frames, shown=progress) as advance:
        record = measure(
            sla,
            device=device,
            threads=threads,
            allow_fallback=allow_fallback or (),
            on_result=lambda pair, result: advance(result),
        )
    verdicts = judge(record, sla)
    _report(record, verdicts, json_file, markdown_file)
    raise typer.Exit(verdicts.exit_status)


@app.command("judge", cls=_Command)
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


def measure(
    sla: Sla,
    *,
    device: str | None = None,
    threads: int | None = None,
    allow_fallback: Sequence[str] = (),
    on_result: Callable[[FramePair, FrameResult], None] | None = None,
) -> RunRecord:
    """Makes the run an SLA asks for.

    Bad pairs are counted as dropped; a source that fails in mid-run is recorded as such, not raised.

    Arguments:
        sla: names engine, source, device and plan.
        device: instead of the SLA's; another than one the SLA insists on makes the verdict INVALID.
        threads: CPU threads of a graph.
        allow_fallback: execution providers that may step in; the verdict is then INVALID.
        on_result: called with each pair and its result, outside all timing.

    Raises:
        ConfigError, EngineError, DeviceError, SourceError: the run could not be made.
    """
    from edge_sdk import runs
    from edge_sdk.pipeline import load
    from edge_sdk.report.record import SlaFacts
    from edge_sdk.sources import open_source

    asked = device or sla.device
    with open_source(sla.source, on_bad="skip") as once:
        passes = _passes(sla.run, once.length) if sla.source.startswith(_REPEATABLE) else 1
    plan = runs.RunPlan(
        frames=sla.run.frames,
        duration_s=sla.run.duration_s,
        pace_hz=sla.run.pace_hz,
        on_bad="skip",
        seed=sla.run.seed,
    )
    with (
        open_source(sla.source, on_bad="skip", loop=passes) as source,
        load(sla.engine, device=asked, threads=threads, allow_fallback=allow_fallback) as detector,
    ):
        failing = _UntilItFails(source)
        record = runs.record_run(
            detector,
            failing,
            plan,
            asked_engine=sla.engine,
            asked_device=asked,
            sla=SlaFacts(sla.name, sla.sha256),
            on_result=on_result,
        )
    if not len(record.frames):
        why = failing.failure or (record.dropped[0].why if record.dropped else "it is empty")
        raise SourceError(f"{sla.source}: not one pair gave a result: {why}")
    if failing.failure:
        record = replace(record, unsound=(*record.unsound, f"the source failed: {failing.failure}"))
    return record


class _UntilItFails:
    """A source that ends where another one fails, so that what was measured until then is kept."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.failure = ""

    @property
    def uri(self) -> str:
        return self._source.uri

    @property
    def length(self) -> int | None:
        return self._source.length

    @property
    def skipped(self) -> Any:
        return self._source.skipped

    @property
    def skipped_count(self) -> int:
        return self._source.skipped_count

    def __iter__(self) -> Iterator[FramePair]:
        return self

    def __next__(self) -> FramePair:
        try:
            return next(self._source)
        except SourceError as error:
            self.failure = str(error)
            raise StopIteration from None

    def describe(self) -> dict[str, Any]:
        return self._source.describe()

    def close(self) -> None:
        self._source.close()


def _passes(plan: RunPlan, pass_length: int | None) -> int:
    """How often a clip or folder may be gone through; bounded, in case every pair of it is bad."""
    if plan.frames is None or not pass_length:
        return _PASSES_BY_TIME
    return 2 * plan.frames // pass_length + 1


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
