"""The lamps of the page: power, machine, lost pairs and missed turns of a run that goes on; forced routes."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_cameras import MS, S, make_rig
from machine_trees import KINDS, MachineTree
from pairs import make_pair
from test_live_board import answer
from test_sampler import sampler_of

from edge_sdk.clock import FakeClock
from edge_sdk.live.lamps import SlaLamps
from edge_sdk.live.run_window import RunWindow, Turns
from edge_sdk.machine_state.reader import MachineReader
from edge_sdk.measurements import FrameResult, Reason, Route
from edge_sdk.meter.run_power import RunPower, WallFile
from edge_sdk.pipeline import Detector, load
from edge_sdk.scheduler import Pace
from edge_sdk.sla import parse_sla
from edge_sdk.sources import MemorySource

FORCED = dataclasses.replace(answer(), route=Route.FUSE, reason=Reason.FORCED)


@pytest.fixture(scope="module")
def detector(toy_fusion: Path) -> Iterator[Detector]:
    with load(str(toy_fusion), device="cpu", threads=1) as detector:
        yield detector


class Lit:
    """Lamps over pairs that a test hands out on a fake clock."""

    def __init__(
        self, detector: Detector, root: Path, limits: str, *, clock: FakeClock | None = None, **how: Any
    ) -> None:
        self.clock = clock or FakeClock(S)
        self.tree: MachineTree = KINDS["desktop"](root / "desktop")
        self.source = how.pop("source", None) or MemorySource([make_pair(0)])
        pace_hz = how.get("pace_hz")
        pace = f"run: {{frames: 3000, pace_hz: {pace_hz}}}" if pace_hz else ""
        sla = parse_sla(f"name: yard\nengine: toy\nsource: {self.source.uri!r}\n{limits}\n{pace}")
        self.lamps = SlaLamps(
            sla,
            detector,
            self.source,
            asked_engine="toy",
            machine=MachineReader(self.tree.root, clock=self.clock),
            clock=self.clock,
            unix_s=lambda: 5000.0 + self.clock.now_ns() / 1e9,
            **how,
        )
        self.lamps.close()  # its thread; the test judges by itself
        self.result: FrameResult = answer()

    def run(self, count: int, result: FrameResult | None = None, period_ns: int = 50 * MS) -> None:
        for index in range(count):
            pair = make_pair(index)
            self.lamps.arrived(pair)
            self.clock.advance_ns(10 * MS)
            self.lamps.answered(pair, result or self.result)
            self.clock.advance_ns(period_ns - 10 * MS)

    def judged(self) -> dict[str, Any]:
        self.lamps.judge_now()
        return self.lamps.as_json()

    def clauses(self) -> dict[str, dict[str, Any]]:
        return {clause["clause"]: clause for clause in self.judged()["clauses"]}


def test_before_the_first_pair_no_clause_is_decided(detector: Detector, tmp_path: Path) -> None:
    limits = "latency: {p50_ms: 60}\nthroughput: {min_fps: 1}\nframes: {max_dropped_share: 0.01}"
    lit = Lit(detector, tmp_path, limits)
    assert lit.lamps.as_json()["overall"] == "INCONCLUSIVE"
    state = lit.judged()
    assert (state["overall"], state["frames"]) == ("INCONCLUSIVE", 0)
    assert [clause["verdict"] for clause in state["clauses"]] == ["INCONCLUSIVE"] * 3


def powered(clock_watts: float, **how: Any) -> tuple[RunPower, Any, FakeClock]:
    def watts(t: float) -> float:  # a sensor that never moves is taken for a frozen one
        return clock_watts + 0.02 * (round(10 * t) % 7 - 3)

    sampler, clock = sampler_of(watts, hz=10.0, keep_s=None)
    return RunPower(sampler, clock=clock, **how), sampler, clock


POWER = """
power: {mean_w: 13.8}
energy:
  per_inference_mj: {max: 1400, kind: total}
  routes: {rgb: {per_inference_mj: {max: 500, kind: marginal}}}
"""


def test_power_clauses_are_judged_by_the_runs_meter(detector: Detector, tmp_path: Path) -> None:
    power, sampler, clock = powered(13.6)
    lit = Lit(detector, tmp_path, POWER, clock=clock, power=power)
    for _ in range(400):
        lit.run(1, period_ns=100 * MS)
        sampler.sample()
    lit.run(1, period_ns=100 * MS)  # a pair that the meter has not seen yet is no fault
    clauses = lit.clauses()
    assert clauses["power.mean_w"]["estimate"] == pytest.approx(13.6, rel=0.01)
    assert clauses["power.mean_w"]["verdict"] == "PASS"
    assert clauses["energy.per_inference_mj"]["estimate"] == pytest.approx(1360, rel=0.02)
    marginal = clauses["energy.routes.rgb.per_inference_mj"]
    assert marginal["verdict"] == "INCONCLUSIVE", "idle is measured again when the run is over"
    assert "when it is over" in marginal["reason"]


def test_a_missed_power_limit_is_a_fail_beside_what_cannot_be_judged(
    detector: Detector, tmp_path: Path
) -> None:
    power, sampler, clock = powered(20.0, idle_s=0)
    limits = POWER + "machine: {power_mode: 30W}"
    lit = Lit(detector, tmp_path, limits, clock=clock, power=power)
    for _ in range(400):
        lit.run(1, period_ns=100 * MS)
        sampler.sample()
    clauses = lit.clauses()
    assert clauses["power.mean_w"]["verdict"] == "FAIL"
    assert clauses["machine.power_mode"]["verdict"] == "INVALID"
    assert clauses["energy.routes.rgb.per_inference_mj"]["verdict"] == "INVALID", (
        "idle is not measured at all"
    )
    assert lit.judged()["overall"] == "FAIL", "an INVALID clause hides no FAIL"


def test_pictures_drawn_between_frames_spoil_energy_as_in_the_record(
    detector: Detector, tmp_path: Path
) -> None:
    power, sampler, clock = powered(13.6)
    lit = Lit(detector, tmp_path, "power: {mean_w: 15}", clock=clock, power=power)
    for _ in range(200):
        lit.run(1, period_ns=100 * MS)
        power.paused(30 * MS)
        sampler.sample()
    clause = lit.clauses()["power.mean_w"]
    assert clause["verdict"] == "INVALID"
    assert "went into pictures and files between frames" in clause["reason"]


def test_without_a_meter_the_runs_own_words_say_why(detector: Detector, tmp_path: Path) -> None:
    lit = Lit(detector, tmp_path, POWER, power="no power sensor: ina3221 (none found)")
    lit.run(100)
    clause = lit.clauses()["power.mean_w"]
    assert (clause["verdict"], clause["reason"]) == ("INVALID", "no power sensor: ina3221 (none found)")


def test_an_external_meter_is_read_later(detector: Detector, tmp_path: Path) -> None:
    lit = Lit(detector, tmp_path, POWER, power=RunPower(WallFile(tmp_path / "wall.csv")))
    lit.run(100)
    assert {clause["verdict"] for clause in lit.clauses().values()} == {"INCONCLUSIVE"}


def test_a_sensor_that_falls_silent_makes_its_clause_invalid(detector: Detector, tmp_path: Path) -> None:
    power, sampler, clock = powered(13.6)
    lit = Lit(detector, tmp_path, "power: {mean_w: 15}", clock=clock, power=power)
    for _ in range(200):
        lit.run(1, period_ns=100 * MS)
        sampler.sample()
    assert lit.clauses()["power.mean_w"]["verdict"] == "PASS"
    lit.run(100, period_ns=100 * MS)
    assert lit.clauses()["power.mean_w"]["verdict"] == "INVALID"


def test_throttling_spoils_the_window_and_not_the_rest_of_the_run(detector: Detector, tmp_path: Path) -> None:
    limits = "latency: {p50_ms: 60}\nmachine: {throttled: false}\nmemory: {peak_mb: 100000}"
    lit = Lit(detector, tmp_path, limits)

    def live(seconds: int) -> dict[str, str]:
        for _ in range(seconds // 4):
            lit.run(80)
            clauses = lit.clauses()
        return {name: clause["verdict"] for name, clause in clauses.items()}

    good = {"latency.p50_ms": "PASS", "machine.throttled": "PASS", "memory.peak_mb": "PASS"}
    assert live(20) == good
    lit.tree.cooling(0, "Processor", 2, 3)
    live(8)
    lit.tree.cooling(0, "Processor", 0, 3)
    bad = live(8)
    assert (bad["latency.p50_ms"], bad["machine.throttled"]) == ("INVALID", "FAIL")
    assert lit.judged()["overall"] == "FAIL"
    assert live(160) == good, "3000 pairs later the throttling has left the window"


def test_a_forced_route_is_not_judged_and_lamps_recover_at_once(detector: Detector, tmp_path: Path) -> None:
    limits = "latency: {p50_ms: 60}\nthroughput: {min_fps: 15}"
    lit = Lit(detector, tmp_path, limits)
    lit.run(400)
    assert lit.judged()["overall"] == "PASS"
    forced_s = 5000.0 + lit.clock.now_ns() / 1e9
    lit.run(60, FORCED)
    state = lit.judged()
    assert (state["overall"], state["forced"], state["clauses"]) == ("INCONCLUSIVE", "fuse", [])
    assert state["forced_since"] == pytest.approx(forced_s, abs=0.1)
    anew_s = 5000.0 + lit.clock.now_ns() / 1e9
    lit.run(400)
    state = lit.judged()
    assert (state["overall"], state["frames"], state["forced"]) == ("PASS", 400, None)
    assert state["anew_since"] == pytest.approx(anew_s, abs=0.1)
    assert state["unsound"] == []


def test_pairs_that_live_cameras_lost_count_as_dropped(detector: Detector, tmp_path: Path) -> None:
    rig = make_rig(rgb_hz=30.0, thermal_hz=30.0, engine_ms=95.0)
    lit = Lit(detector, tmp_path, "frames: {max_dropped_share: 0.05}", clock=rig.clock, source=rig.source)
    lit.judged()

    def take(pair: Any, now_ns: int) -> None:
        lit.lamps.arrived(pair)
        lit.lamps.answered(pair, answer())

    rig.run(20.0, take)
    state = lit.judged()
    (clause,) = state["clauses"]
    assert clause["verdict"] == "FAIL"
    assert clause["estimate"] == pytest.approx(0.65, abs=0.03), "two of three pairs were superseded"
    assert state["lost"] == {"superseded": pytest.approx(390, abs=20)}
    rig.source.close()


def test_surplus_frames_of_a_faster_camera_are_no_loss(detector: Detector, tmp_path: Path) -> None:
    rig = make_rig(rgb_hz=30.0, thermal_hz=9.0)
    lit = Lit(detector, tmp_path, "frames: {max_dropped_share: 0.05}", clock=rig.clock, source=rig.source)
    lit.judged()

    def take(pair: Any, now_ns: int) -> None:
        lit.lamps.arrived(pair)
        lit.lamps.answered(pair, answer())

    rig.run(20.0, take)
    state = lit.judged()
    assert (state["overall"], state["lost"]) == ("PASS", {})
    rig.source.close()


def test_turns_are_missed_as_the_pace_says() -> None:
    random.seed(4)
    clock = FakeClock(S)
    pace, turns = Pace(10.0, clock), Turns(10.0)
    missed = 0
    for _ in range(2000):
        pace.wait()
        clock.advance_ns(random.randrange(2 * MS))  # the thread is put aside for a moment
        missed += turns.missed_before(clock.now_ns())
        clock.advance_ns(random.choice((20, 60, 120, 250, 730)) * MS)
    assert pace.missed_turns > 1000
    assert missed == pytest.approx(pace.missed_turns, abs=20)
    assert Turns(None).missed_before(5) == 0


def test_missed_turns_of_the_pace_count_as_dropped(detector: Detector, tmp_path: Path) -> None:
    lit = Lit(detector, tmp_path, "frames: {max_dropped_share: 0.05}", pace_hz=20.0)
    lit.run(100)
    assert lit.judged()["overall"] == "PASS"
    lit.run(100, period_ns=150 * MS)
    (clause,) = lit.judged()["clauses"]
    assert clause["verdict"] == "FAIL"
    assert clause["estimate"] == pytest.approx(0.5, abs=0.02)
    assert "turns of the pace missed" in clause["reason"]


def test_a_window_forgets_turns_missed_while_a_route_was_forced() -> None:
    window = RunWindow(10, 10.0)
    for at, result in ((0, answer()), (100, FORCED), (900, FORCED), (1000, answer()), (1100, answer())):
        window.arrived(at * MS)
        window.answered(result, at / 1e3)
    assert [seen.missed_turns for seen in window.pairs] == [0, 0]
    assert window.forcing is not None
    assert (window.forcing.route, window.forcing.since) == (None, 1.0)
