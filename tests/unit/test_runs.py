"""Recorded runs that an error or a signal ends, and which clock a run keeps."""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pairs import make_pair
from power_records import powered

from edge_sdk.clock import FakeClock
from edge_sdk.ending import Ending, StoppedBySignal
from edge_sdk.errors import SaveError, SourceError
from edge_sdk.frames import FramePair
from edge_sdk.pipeline import Detector, load
from edge_sdk.report.energy import energy_of_run
from edge_sdk.report.record import EndedEarly, RunRecord
from edge_sdk.report.record_file import parse_record, record_json
from edge_sdk.runs import RunPlan, record_run, run_source
from edge_sdk.scheduler import Pace
from edge_sdk.sources import MemorySource


@pytest.fixture
def detector(toy_fusion: Path) -> Iterator[Detector]:
    with load(str(toy_fusion), device="cpu", threads=1) as opened:
        yield opened


def source(count: int) -> MemorySource:
    return MemorySource([make_pair(index) for index in range(count)])


def recorded(detector: Detector, count: int, **how: Any) -> RunRecord:
    return record_run(detector, source(count), RunPlan(), asked_engine="toy-fusion", **how)


def failing_at(key: str, error: BaseException) -> Any:
    def on_result(pair: FramePair, result: object) -> None:
        if pair.key == key:
            raise error

    return on_result


def test_an_error_in_mid_run_is_kept_with_what_came_before(detector: Detector) -> None:
    ending, error = Ending(), ValueError("a bug")
    record = recorded(detector, 5, on_result=failing_at("002", error), ending=ending)
    assert record.frames.key == ("000", "001", "002")
    assert record.run.ended_early == EndedEarly("error", "a bug")
    assert (ending.error, ending.exit_status) == (error, 3)
    assert parse_record(json.loads(json.dumps(record_json(record)))).run == record.run
    with pytest.raises(ValueError, match="a bug"):
        recorded(detector, 5, on_result=failing_at("002", error))


def test_a_full_disk_is_named_as_such(detector: Detector) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    error = SaveError("lines", full)
    error.__cause__ = full
    record = recorded(detector, 3, on_result=failing_at("001", error), ending=Ending())
    assert record.run.ended_early is not None
    assert record.run.ended_early.cause == "disk full"


def test_a_run_without_a_frame_has_nothing_to_keep(detector: Detector) -> None:
    broken = source(1)
    broken.close()
    ending = Ending()
    with pytest.raises(Exception, match="closed"):
        record_run(detector, broken, RunPlan(), asked_engine="toy", ending=ending)

    class Waits(MemorySource):
        def __next__(self) -> FramePair:
            os.kill(os.getpid(), signal.SIGTERM)
            raise AssertionError("the signal did not break the wait")

    with ending.listening(), pytest.raises(StoppedBySignal):
        record_run(
            detector, Waits([make_pair(0)]), RunPlan(), asked_engine="toy", ending=ending,
            on_result=lambda pair, result: None,
        )  # fmt: skip


def test_a_signal_ends_a_run_behind_the_pair_in_hand(detector: Detector) -> None:
    ending = Ending()

    def on_result(pair: FramePair, result: object) -> None:
        if pair.key == "001":
            os.kill(os.getpid(), signal.SIGINT)

    with ending.listening():
        record = recorded(detector, 5, on_result=on_result, ending=ending)
    assert record.frames.key == ("000", "001")
    assert record.run.ended_early == EndedEarly("signal", "SIGINT")
    assert ending.exit_status == 130
    assert not record.source.ended_early


def test_a_signal_behind_the_last_pair_ends_nothing_early(detector: Detector) -> None:
    ending = Ending()
    with ending.listening():
        record = recorded(detector, 2, ending=ending)
        os.kill(os.getpid(), signal.SIGINT)
    assert record.run.ended_early is None


def test_a_source_that_fails_has_ended_early(detector: Detector) -> None:
    class Fails(MemorySource):
        def __next__(self) -> FramePair:
            pair = super().__next__()
            if pair.key == "002":
                raise SourceError("cable pulled")
            return pair

    ending = Ending()
    record = record_run(
        detector, Fails([make_pair(index) for index in range(4)]), RunPlan(), asked_engine="toy",
        on_result=lambda pair, result: None, ending=ending,
    )  # fmt: skip
    assert record.source.ended_early
    assert record.run.ended_early == EndedEarly("error", "cable pulled")


@pytest.mark.parametrize(
    ("paced", "live", "apart_ms"), [(False, False, 0), (True, False, 100), (False, True, 70)]
)
def test_the_clock_of_a_run_stands_still_only_where_nothing_else_keeps_time(
    detector: Detector, paced: bool, live: bool, apart_ms: int
) -> None:
    clock = FakeClock()
    starts: list[int] = []
    frames = source(4)
    frames.live = live  # type: ignore[attr-defined]
    run_source(
        detector,
        frames,
        recorder=SimpleNamespace(add=lambda result, start_ns: starts.append(start_ns)),  # type: ignore[arg-type]
        clock=clock,
        pace=Pace(10.0, clock) if paced else None,
        on_result=lambda pair, result: clock.advance_ns(70_000_000),  # drawing takes 70 ms
    )
    assert np.diff(starts).tolist() == [apart_ms * 1_000_000] * 3


def test_energy_follows_the_clock_of_the_run() -> None:
    record = powered(30.0)
    assert record.meter is not None
    pauses_ns = np.full(len(record.frames), 1_000_000, np.int64)
    paused = _with(record, pauses_ns, left_out=True)
    counted = _with(record, pauses_ns, left_out=False)
    (one, _), (other, _) = energy_of_run(paused), energy_of_run(counted)
    assert one is not None
    assert other is not None
    frames = int(record.steady.sum())
    assert one.energy.duration_s - other.energy.duration_s == pytest.approx(1e-3 * (frames - 1), rel=0.01)


def _with(record: RunRecord, pauses_ns: Any, *, left_out: bool) -> RunRecord:
    assert record.meter is not None
    return replace(
        record,
        meter=replace(record.meter, pause_ns=pauses_ns),
        run=replace(record.run, pauses_left_out=left_out),
    )


class LossyCamera(MemorySource):
    """A live source whose ledger says that pairs were lost before the run and in it."""

    live = True
    lost = 7

    def __next__(self) -> FramePair:
        self.lost += 2
        return super().__next__()

    def describe(self) -> dict[str, Any]:
        ledger = {"dropped": {"superseded": self.lost, "rate": 50}}
        return {**super().describe(), "pairing": {"frames": {"rgb": ledger, "thermal": {"dropped": {}}}}}


def test_the_record_says_how_many_pairs_live_cameras_lost_during_the_run(detector: Detector) -> None:
    cameras = LossyCamera([make_pair(index) for index in range(3)])
    record = record_run(detector, cameras, RunPlan(frames=2), asked_engine="toy-fusion")
    assert dict(record.source.pairs_lost) == {"superseded": 4}
    assert parse_record(json.loads(json.dumps(record_json(record)))).source.pairs_lost == {"superseded": 4}
