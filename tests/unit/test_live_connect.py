"""What cameras and a meter tell the page: their own words and figures, never a zero for what is not known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fake_cameras import MS, S, Trouble, make_rig
from pairs import make_pair
from test_live_board import answer
from test_sampler import sampler_of

from edge_sdk.clock import FakeClock
from edge_sdk.live.board import Board
from edge_sdk.live.connect import POWER_WINDOW_S, camera_views, power_view
from edge_sdk.live.views import PowerView
from edge_sdk.meter.run_power import RunPower, WallFile
from edge_sdk.sources import MemorySource


def test_a_camera_at_fault_is_shown_in_its_own_words() -> None:
    rig = make_rig(thermal=[Trouble("covered", 2, 30)])
    board = Board({}, clock=rig.clock)
    shown = camera_views(rig.source, board)

    def take(pair: object, now_ns: int) -> None:
        board.arrived(pair)  # type: ignore[arg-type]
        board.answered(pair, answer())  # type: ignore[arg-type]

    rig.run(1.5, take)
    assert [view.state for view in shown()] == ["ok", "ok"]
    rig.run(4.0, take)
    rgb, thermal = shown()
    assert rgb.state == "ok"
    assert thermal.state == "covered"
    assert " s" in thermal.detail


def test_other_sources_are_seen_through_the_pipeline() -> None:
    board = Board({}, clock=FakeClock())
    with MemorySource([make_pair(0)]) as source:
        assert camera_views(source, board) == board.seen_cameras


def powered(watts: Callable[[float], float | None]) -> tuple[Board, RunPower, FakeClock]:
    sampler, clock = sampler_of(watts, hz=10.0, keep_s=None)
    board, power = Board({}, clock=clock), RunPower(sampler, idle_s=0, clock=clock)
    for index in range(300):
        clock.advance_ns(100 * MS)
        sampler.sample()
        pair = make_pair(index)
        board.arrived(pair)
        board.answered(pair, answer(str(index)))
    return board, power, clock


def test_power_and_energy_are_means_of_the_last_seconds() -> None:
    board, power, clock = powered(lambda t: 6.0 if t < 20 else 9.0)
    view = power_view(power, board, clock)()
    assert view.watts == pytest.approx(9.0)
    assert view.mj_per_inference == pytest.approx(900.0, rel=0.02), "9 W at 10 pairs a second"
    assert view.rail == "fake, module: VDD_IN"
    assert f"mean of {POWER_WINDOW_S:g} s" in view.note
    assert "\u00b1" in view.note


def test_a_window_that_is_not_full_yet_or_a_silent_sensor_shows_no_figure() -> None:
    sampler, clock = sampler_of(lambda t: 6.0, hz=10.0, keep_s=None)
    board, power = Board({}, clock=clock), RunPower(sampler, idle_s=0, clock=clock)
    clock.advance_ns(S)
    sampler.sample()
    early = power_view(power, board, clock)()
    assert (early.watts, early.mj_per_inference) == (None, None)
    assert early.note
    board, power, clock = powered(lambda t: 6.0)
    assert power.meter is not None
    power.meter.failed = "no answer 20 times in a row"
    failed = power_view(power, board, clock)()
    assert failed.watts is None
    assert "no answer 20 times" in failed.note


def test_without_a_sensor_the_reason_is_shown() -> None:
    board = Board({}, clock=FakeClock())
    assert power_view("no power sensor: ina3221 (none)", board)() == PowerView(
        note="no power sensor: ina3221 (none)"
    )
    later = power_view(RunPower(WallFile(Path("wall.csv")), idle_s=0), board)()
    assert later.watts is None
    assert "when the run is over" in later.note
