"""What the page is told: cameras, rates, quantiles, alarms, and pictures with heat."""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from pairs import SIZE_WH, make_pair

from edge_sdk.clock import FakeClock
from edge_sdk.detections import BoxTemperatures, Detection, Detections
from edge_sdk.frames import FramePair, Registration, ThermalFrame
from edge_sdk.live.alarms import AlarmRule, Alarms
from edge_sdk.live.board import Board
from edge_sdk.live.pictures import LiveFrame, still_pictures
from edge_sdk.live.views import PowerView
from edge_sdk.measurements import FrameResult, Reason, Route, Signals
from edge_sdk.pipeline import Detector, load

MS = 1_000_000
PERIOD_NS = 50 * MS


@pytest.fixture(scope="module")
def detector(toy_fusion: Path) -> Iterator[Detector]:
    with load(str(toy_fusion), device="cpu", threads=1) as detector:
        yield detector


def answer(
    key: str = "0",
    *,
    rgb: str = "ok",
    thermal: str = "ok",
    route: Route = Route.RGB,
    reason: Reason = Reason.CONFIDENT,
    heat: BoxTemperatures | None = None,
    class_name: str = "hotspot",
    score: float = 0.9,
) -> FrameResult:
    found = Detections(
        np.array([[1, 2, 11, 12]], np.float32),
        np.array([score], np.float32),
        np.array([0], np.int64),
        (class_name,),
        (heat,),
    )
    return FrameResult(
        key,
        route,
        reason,
        Signals(rgb, thermal),
        found,
        True,
        {"preprocess": 2 * MS, "engine": 8 * MS},
        {"rgb": 8 * MS},
    )


def run(board: Board, clock: FakeClock, count: int, **how: Any) -> None:
    for index in range(count):
        pair = make_pair(index)
        board.arrived(pair)
        clock.advance_ns(10 * MS)
        board.answered(pair, answer(str(index), **how))
        clock.advance_ns(PERIOD_NS - 10 * MS)


def views(board: Board) -> dict[str, str]:
    return {camera["name"]: camera["state"] for camera in board.as_json()["cameras"]}


def test_before_the_first_pair_nothing_is_claimed() -> None:
    state = Board({}, clock=FakeClock()).as_json()
    assert state["route"] is None
    assert state["fps"] is None
    assert state["age_ms"] is None
    assert state["latency"] == []
    assert [camera["state"] for camera in state["cameras"]] == ["no frames", "no frames"]
    assert state["power"] == {"watts": None, "mj_per_inference": None, "rail": "", "note": "no power sensor"}


def test_rates_quantiles_and_shares() -> None:
    clock = FakeClock()
    board = Board({"engine": "toy"}, clock=clock)
    run(board, clock, 100)
    run(board, clock, 20, route=Route.FUSE, reason=Reason.HOT_REGION)
    state = json.loads(json.dumps(board.as_json()))
    assert state["facts"] == {"engine": "toy"}
    assert state["fps"] == pytest.approx(20, rel=0.05)
    assert state["routes"] == {"rgb": 100, "fuse": 20}
    assert [row["stage"] for row in state["latency"]] == ["preprocess", "engine", "latency"]
    assert state["latency"][2] == {"stage": "latency", "p50": 10, "p95": 10, "p99": 10, "frames": 120}
    assert [change["route"] for change in state["changes"]] == ["fuse", "rgb"]
    assert views(board) == {"RGB": "ok", "Thermal": "ok"}


def test_a_killed_camera_shows_at_once_and_silence_within_two_seconds() -> None:
    clock = FakeClock()
    board = Board({}, clock=clock)
    run(board, clock, 40)
    run(board, clock, 1, thermal="missing", reason=Reason.THERMAL_LOST)
    assert views(board) == {"RGB": "ok", "Thermal": "missing"}
    clock.advance_ns(900 * MS)
    assert not board.as_json()["silent"]
    clock.advance_ns(900 * MS)
    state = board.as_json()
    assert state["silent"]
    assert views(board) == {"RGB": "no frames", "Thermal": "no frames"}
    assert state["cameras"][0]["detail"]
    run(board, clock, 1)
    assert views(board) == {"RGB": "ok", "Thermal": "ok"}


def test_pairs_without_an_answer_are_counted_and_their_cameras_shown() -> None:
    clock = FakeClock()
    board = Board({}, clock=clock)
    run(board, clock, 3)
    pair = make_pair(0, no_rgb=True)
    board.arrived(pair)
    board.unanswered(pair, pair.key, "neither camera can be used")
    board.unanswered(None, "x", "broken file")
    state = board.as_json()
    assert state["unanswered"] == 2
    assert views(board) == {"RGB": "missing", "Thermal": "unusable"}


def test_a_meter_is_connected_in_a_line() -> None:
    board = Board({}, clock=FakeClock())
    board.power = lambda: PowerView(7.5, 220.0, "VDD_IN", "emulated")
    assert board.as_json()["power"]["watts"] == 7.5


def kelvin(top_c: float, rise: float | None) -> BoxTemperatures:
    return BoxTemperatures("K", 280.0, 290.0, top_c + 273.15, rise)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (("hotspot", 0.9, None), "found by the engine"),
        (("hotspot", 0.4, kelvin(40, 5)), ""),
        (("insulator", 0.9, kelvin(40, 20)), "15 K or more over its surroundings"),
        (("insulator", 0.9, kelvin(40, None)), ""),
        (("person", 0.9, kelvin(36, 20)), ""),
        (("person", 0.9, kelvin(95, 70)), "over 90 °C"),
        (("insulator", 0.9, BoxTemperatures("counts", 1, 2, 30000, 5000.0)), ""),
    ],
)
def test_what_is_an_alarm(found: tuple[str, float, BoxTemperatures | None], why: str) -> None:
    name, score, heat = found
    assert AlarmRule(max_c=90.0, rise_k=15.0).why(Detection(name, score, (0, 0, 1, 1), heat)) == why


def test_an_alarm_needs_two_pairs_in_a_row_and_ends() -> None:
    alarms = Alarms(AlarmRule())
    hot, cool = answer(heat=kelvin(80, 30)), answer(class_name="insulator")
    second = 1_000_000_000
    for at, result in enumerate((hot, cool, hot, cool)):
        alarms.add(result, at, 100.0)
    assert alarms.as_json() == {"active": [], "log": [], "raised": 0}
    alarms.add(hot, 5, 100.0)
    alarms.add(dataclasses.replace(hot, key="now"), 6, 101.0)
    (active,) = alarms.as_json()["active"]
    assert active["class"] == "hotspot"
    assert (active["max"], active["rise"], active["unit"], active["since"]) == (80.0, 30.0, "°C", 101.0)
    alarms.add(cool, 2 * second, 103.0)
    assert alarms.as_json()["active"]
    alarms.add(cool, 4 * second, 105.0)
    assert alarms.as_json()["active"] == []
    assert len(alarms.as_json()["log"]) == alarms.as_json()["raised"] == 1


def unpack(frame: LiveFrame) -> tuple[dict[str, Any], bytes, bytes]:
    (size,) = struct.unpack("<I", frame.message[:4])
    head = json.loads(frame.message[4 : 4 + size])
    rest = frame.message[4 + size :]
    assert len(rest) == head["rgb_bytes"] + head["thermal_bytes"]
    return head, rest[: head["rgb_bytes"]], rest[head["rgb_bytes"] :]


def test_a_picture_message_holds_both_pictures_and_the_hottest_spot(detector: Detector) -> None:
    pair = make_pair(1, hot=True)
    head, rgb, thermal = unpack(LiveFrame.make(7, pair, detector(pair)))
    assert head["number"] == 7
    assert head["route"] == "fuse"
    assert head["size_wh"] == list(SIZE_WH)
    assert cv2.imdecode(np.frombuffer(rgb, np.uint8), cv2.IMREAD_COLOR).shape == (48, 64, 3)
    levels = cv2.imdecode(np.frombuffer(thermal, np.uint8), cv2.IMREAD_GRAYSCALE)
    assert levels.shape == (48, 64)
    assert levels[28, 44] > 240
    assert head["heat"]["unit"] == "°C"
    hottest = head["heat"]["hottest"]
    assert hottest["value"] == pytest.approx(61.9, abs=0.2)
    assert 40 / 64 <= hottest["x"] <= 50 / 64
    for box in head["boxes"]:
        assert all(-0.01 <= share <= 1.01 for share in box["xyxy"])


def test_spots_read_the_raw_frame_where_the_registration_says(detector: Detector) -> None:
    pair = make_pair(1, hot=True)
    shifted = Registration(((1.0, 0.0, 10.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), SIZE_WH, SIZE_WH)
    pair = dataclasses.replace(pair, registration=shifted)
    frame = LiveFrame.make(1, pair, detector(pair))
    hot, cool, outside = frame.spots([(54 / 64, 28 / 48), (44 / 64, 28 / 48), (2 / 64, 0.5)])
    assert hot["value"] == pytest.approx(61.9, abs=0.3)
    assert cool["value"] == pytest.approx(21.9, abs=0.5)
    assert outside["value"] is None, "the thermal camera does not see there"


def test_counts_stay_counts_and_a_missing_camera_stays_missing(detector: Detector) -> None:
    pair = make_pair(1)
    assert pair.thermal is not None
    pair = dataclasses.replace(pair, rgb=None, thermal=ThermalFrame(pair.thermal.image))
    head, rgb, _ = unpack(LiveFrame.make(1, pair, detector(pair)))
    assert rgb == b""
    assert head["heat"]["unit"] == "counts"
    assert head["heat"]["median"] == pytest.approx(29500, abs=10)
    alone = dataclasses.replace(make_pair(2), thermal=None)
    head, _, thermal = unpack(LiveFrame.make(1, alone, detector(alone)))
    assert thermal == b""
    assert head["heat"] is None


def test_still_pictures_are_as_the_cameras_saw_them() -> None:
    stills = still_pictures(make_pair(1))
    assert stills["rgb"]["size_wh"] == stills["thermal"]["size_wh"] == SIZE_WH
    nothing: FramePair = make_pair(1, no_thermal=True)
    assert still_pictures(nothing)["thermal"] is None
