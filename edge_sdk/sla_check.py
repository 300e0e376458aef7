"""An SLA check from start to end: the run that an SLA file asks for, and the verdict on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edge_sdk.devices import PlanOptions
from edge_sdk.ending import Ending
from edge_sdk.errors import SourceError
from edge_sdk.frames import FramePair
from edge_sdk.measurements import FrameResult
from edge_sdk.meter.run_power import RunPower
from edge_sdk.pipeline import load
from edge_sdk.report.record import NO_POWER, RunRecord, SlaFacts
from edge_sdk.report.verdict import Verdicts, judge
from edge_sdk.runs import RunPlan, record_run
from edge_sdk.sla import RunPlan as SlaRunPlan
from edge_sdk.sla import Sla, load_sla, located_engine, located_source
from edge_sdk.sources import open_source
from edge_sdk.sources.registration import RegistrationArgument

__all__ = ["SlaCheck", "check_sla"]

_REPEATABLE = ("clip:", "pairs:")
"""Sources that a longer run may go through again from the start: files cannot run dry or lose a cable."""

_PASSES_BY_TIME = 1_000_000  # the time ends such a run; a stated number lets the record count passes


@dataclass(frozen=True, eq=False)
class SlaCheck:
    """What `check_sla` returns.

    Attributes:
        record: the run that was made.
        verdicts: what it means for the SLA, clause by clause.
    """

    record: RunRecord
    verdicts: Verdicts


def check_sla(
    sla: Sla | str | Path,
    *,
    registration: RegistrationArgument = None,
    device: str | None = None,
    threads: int | None = None,
    allow_fallback: Sequence[str] = (),
    on_result: Callable[[FramePair, FrameResult], None] | None = None,
    power: RunPower | str = NO_POWER,
    plan_options: PlanOptions | None = None,
    ending: Ending | None = None,
) -> SlaCheck:
    """Makes the run an SLA asks for, and judges it.

    Bad pairs are counted as dropped; a source that fails in mid-run is recorded as such, not raised.
    Paths in the SLA are relative to its file.

    Arguments:
        sla: an SLA, or the path of its file; names engine, source, device and plan.
        registration: how heat lies on colour, see `open_source`.
        device: instead of the SLA's; another than one the SLA insists on makes the verdict INVALID.
        threads: CPU threads of a graph.
        allow_fallback: execution providers that may step in; the verdict is then INVALID.
        on_result: called with each pair and its result, outside all timing.
        power: what `edge_sdk.devices.power_of_run` opens, to follow the run with a power meter. Without it
            no power is read, and clauses on energy and power are INVALID.
        plan_options: how TensorRT's plans are found and run.
        ending: with one, a signal or any error ends the run early; it is then judged for what it is.

    Raises:
        SlaFileError: the file is wrong.
        ConfigError, EngineError, DeviceError, SourceError: the run could not be made.
    """
    sla = sla if isinstance(sla, Sla) else load_sla(sla)
    asked, own = device or sla.device, ending or Ending()
    uri, engine = located_source(sla), located_engine(sla)
    with open_source(uri, on_bad="skip") as once:
        passes = _passes(sla.run, once.length) if uri.startswith(_REPEATABLE) else 1
    plan = RunPlan(
        frames=sla.run.frames,
        duration_s=sla.run.duration_s,
        pace_hz=sla.run.pace_hz,
        on_bad="skip",
        seed=sla.run.seed,
        warm_up=sla.run.warm_up,
    )
    with (
        open_source(uri, registration=registration, on_bad="skip", loop=passes) as source,
        load(
            engine,
            device=asked,
            threads=threads,
            allow_fallback=allow_fallback,
            plan_options=plan_options,
        ) as detector,
    ):
        record = record_run(
            detector,
            source,
            plan,
            asked_engine=sla.engine,
            asked_device=asked,
            sla=SlaFacts(sla.name, sla.sha256),
            on_result=on_result,
            power=power,
            ending=own,
        )
    if not len(record.frames):
        why = record.dropped[0].why if record.dropped else "it is empty"
        raise SourceError(f"{uri}: not one pair gave a result: {why}")
    if isinstance(own.error, SourceError):
        record = replace(record, unsound=(*record.unsound, f"the source failed: {own.error}"))
    elif own.error is not None and ending is None:
        raise own.error
    return SlaCheck(record, judge(record, sla))


def _passes(plan: SlaRunPlan, pass_length: int | None) -> int:
    """How often a clip or folder may be gone through; bounded, in case every pair of it is bad."""
    if plan.frames is None or not pass_length:
        return _PASSES_BY_TIME
    return 2 * plan.frames // pass_length + 1
