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
from edge_sdk.live.alarms import AlarmRule, Alarms, why_not_looked
from edge_sdk.live.board import Board
from edge_sdk.live.degrees import hottest_at
from edge_sdk.live.events import Events
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
    consulted: bool = True,
    hot_delta_k: float | None = None,
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
        Signals(rgb, thermal, hot_delta_k=hot_delta_k),
        found,
        consulted,
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


S = 1_000_000_000
HOT = answer(heat=kelvin(80, 30))
HOTTER = answer("peak", heat=kelvin(95, 40))
COOL = answer(class_name="insulator")
FORCED = answer(class_name="insulator", reason=Reason.FORCED, consulted=False)
LOST = answer(class_name="insulator", thermal="missing", reason=Reason.THERMAL_LOST, consulted=False)
SCREENED = answer(class_name="insulator", consulted=False, hot_delta_k=1.0)


def feed(alarms: Alarms, results: list[FrameResult], start_s: float, step_s: float = 0.5) -> float:
    """Gives results in steps; returns when the next would come. The time of day is 1000 s ahead."""
    for at, result in enumerate(results):
        now_s = start_s + at * step_s
        alarms.add(result, round(now_s * S), 1000 + now_s)
    return start_s + len(results) * step_s


def active(alarms: Alarms, now_s: float) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = alarms.as_json(round(now_s * S))["active"]
    return found


def test_an_alarm_needs_two_pairs_in_a_row_and_ends_with_peak_and_end() -> None:
    events = Events()
    alarms = Alarms(AlarmRule(), events)
    now_s = feed(alarms, [HOT, COOL, HOT, COOL], 0)
    assert alarms.as_json(round(now_s * S)) == {"active": [], "raised": 0}
    assert events.as_json() == []
    now_s = feed(alarms, [HOT, HOT, HOTTER, HOT], 10)
    (now,) = active(alarms, now_s)
    assert (now["class"], now["max"], now["rise"], now["unit"]) == ("hotspot", 80.0, 30.0, "°C")
    assert (now["since"], now["not_seen_since"]) == (1010.5, None)
    feed(alarms, [COOL] * 5, 12)
    assert active(alarms, 14.5)[0]["not_seen_since"] == 1011.5
    feed(alarms, [COOL] * 2, 14.5)
    assert active(alarms, 15.5) == []
    (event,) = events.as_json()
    assert (event["since"], event["until"], event["why"]) == (1010.5, 1011.5, "found by the engine")
    assert event["peak"] == {"unit": "°C", "max": 95.0, "rise": 40.0, "key": "peak", "at": 1011.0}
    assert alarms.raised == 1


@pytest.mark.parametrize("blind", [FORCED, LOST, answer(thermal="frozen", class_name="insulator")])
def test_an_alarm_never_ends_while_nobody_looks(blind: FrameResult) -> None:
    alarms = Alarms(AlarmRule())
    feed(alarms, [HOT, HOT], 0)
    now_s = feed(alarms, [blind] * 200, 1)
    (kept,) = active(alarms, now_s)
    assert kept["not_seen_since"] == 1000.5
    feed(alarms, [COOL] * 7, now_s)
    assert active(alarms, now_s + 4) == []


def test_time_alone_ends_no_alarm_and_a_gap_counts_as_a_second_at_most() -> None:
    alarms = Alarms(AlarmRule(clear_s=3.0))
    feed(alarms, [HOT, HOT], 0)
    assert active(alarms, 500)[0]["not_seen_since"] == 1000.5, "the source hangs"
    feed(alarms, [COOL], 500)
    assert active(alarms, 500), "one frame after eight minutes shows no three seconds without it"
    feed(alarms, [COOL, COOL], 501, 1.0)
    assert active(alarms, 502) == []


def test_a_screened_frame_was_looked_at() -> None:
    alarms = Alarms(AlarmRule())
    feed(alarms, [HOT, HOT, *[SCREENED] * 6], 0)
    assert active(alarms, 4) == []


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (COOL, ""),
        (SCREENED, ""),
        (FORCED, "route rgb is forced, and it does not look at heat"),
        (LOST, "the thermal frame is missing"),
        (answer(thermal="missing (lost)"), "the thermal frame is missing (lost)"),
        (answer(consulted=False, reason=Reason.ONLY_GRAPH), "the engine does not look at heat"),
    ],
)
def test_why_heat_was_not_looked_at(result: FrameResult, why: str) -> None:
    assert why_not_looked(result) == why


def heat(board: Board) -> dict[str, Any]:
    found: dict[str, Any] = board.as_json()["heat"]
    return found


def test_heat_that_nobody_looked_for_is_unknown_and_since_when() -> None:
    clock, day = FakeClock(), [5000.0]
    board = Board({}, clock=clock, unix_s=lambda: day[0] + clock.now_ns() / 1e9)
    began = heat(board)["since"]
    assert heat(board) == {"state": "unknown", "since": began, "why": "no pair has come yet"}
    run(board, clock, 40, class_name="insulator")
    assert heat(board)["state"] == "looked"
    seen_s = heat(board)["since"]
    run(board, clock, 10, reason=Reason.FORCED, consulted=False, class_name="insulator")
    assert heat(board)["state"] == "looked", "half a second is no blindness"
    run(board, clock, 30, reason=Reason.FORCED, consulted=False, class_name="insulator")
    assert heat(board) == {
        "state": "unknown",
        "since": seen_s,
        "why": "route rgb is forced, and it does not look at heat",
    }
    run(board, clock, 1, class_name="insulator")
    assert heat(board)["state"] == "looked"
    seen_s = heat(board)["since"]
    clock.advance_ns(5 * S)
    assert heat(board) == {"state": "unknown", "since": seen_s, "why": "no pairs are coming"}
    pair = make_pair(0)
    for _ in range(40):
        board.arrived(pair)
        board.unanswered(pair, "x", "inference failed")
        clock.advance_ns(PERIOD_NS)
    assert heat(board)["why"] == "the last pair got no answer: inference failed"
    assert heat(board)["since"] == seen_s


def test_events_tell_lost_cameras_and_blind_times_with_their_ends() -> None:
    clock = FakeClock()
    board = Board({}, clock=clock, unix_s=lambda: 5000.0 + clock.now_ns() / 1e9)
    board.tick()
    for count, thermal in ((20, "ok"), (60, "missing"), (2, "ok"), (2, "missing"), (60, "ok")):
        for _ in range(count):
            run(board, clock, 1, thermal=thermal, consulted=thermal == "ok", class_name="insulator")
            board.tick()
    by_kind = {event["kind"]: event for event in board.as_json()["events"]}
    assert len(board.as_json()["events"]) == 2, "what comes back within two seconds is one event"
    assert by_kind["camera"]["name"] == "Thermal"
    assert by_kind["camera"]["why"] == "missing: its frame did not come"
    assert by_kind["camera"]["until"] - by_kind["camera"]["since"] == pytest.approx(3.2, abs=0.2)
    assert by_kind["unseen"]["until"] - by_kind["unseen"]["since"] == pytest.approx(3.1, abs=0.2)
    clock.advance_ns(9 * S)
    board.tick()
    open_now = [event for event in board.as_json()["events"] if event["until"] is None]
    assert {(event["kind"], event["name"]) for event in open_now} == {
        ("camera", "RGB"),
        ("camera", "Thermal"),
        ("unseen", "heat"),
    }


def test_charts_get_a_point_a_second_and_gaps_where_nothing_was_measured() -> None:
    clock = FakeClock()
    board = Board({}, clock=clock, unix_s=lambda: 5000.0 + clock.now_ns() / 1e9)
    board.power = lambda: PowerView(7.25, 300.0, "VDD_IN", "")
    for at in range(60):
        run(board, clock, 1, thermal="missing" if at >= 40 else "ok")
        board.tick()
    for _ in range(4):
        clock.advance_ns(S // 2)
        board.tick()
    points = board.history()["points"]
    assert [round(point["t"] - points[0]["t"]) for point in points] == [0, 1, 2, 3, 4]
    assert [point["watts"] for point in points] == [7.25] * 5
    assert [point["p50"] for point in points] == [10, 10, 10, None, None]
    assert [point["hottest"] is None for point in points] == [False, False, True, True, True]
    assert points[0]["unit"] == "°C"
    assert points[0]["hottest"] == pytest.approx(21.9, abs=1)
    assert board.as_json()["point"] == points[-1]


def test_dead_pixels_are_no_temperature() -> None:
    image = np.full((4, 6), 29500, np.uint16)
    image[1, 2], image[3, 3] = 65535, 31000
    assert hottest_at(ThermalFrame(image)) == (3, 3, 31000)
    assert hottest_at(ThermalFrame(np.full((2, 2), 65535, np.uint16)))[2] == 65535


def test_all_boxes_come_hot_spots_and_the_hottest_first() -> None:
    names = ("insulator", "hotspot", "person")
    ids = [0] * 12 + [1, 1, 2]
    scores = [0.95 - 0.01 * at for at in range(12)] + [0.3, 0.55, 0.99]
    heats: list[BoxTemperatures | None] = [kelvin(20 + at, 1.0) for at in range(12)]
    heats += [kelvin(90, 50.0), kelvin(60, 30.0), None]
    found = Detections(
        np.tile(np.array([[1, 2, 11, 12]], np.float32), (15, 1)),
        np.array(scores, np.float32),
        np.array(ids, np.int64),
        names,
        tuple(heats),
    )
    result = dataclasses.replace(answer(), detections=found)
    head, _, _ = unpack(LiveFrame.make(1, make_pair(1), result, AlarmRule()))
    boxes = head["boxes"]
    assert len(boxes) == 15
    assert [(box["class"], box["alarm"], box["hot"]) for box in boxes[:3]] == [
        ("hotspot", "found by the engine", True),
        ("hotspot", "", True),
        ("insulator", "", False),
    ]
    assert [box["heat"]["max"] for box in boxes[2:14]] == [float(31 - at) for at in range(12)]
    assert (boxes[14]["class"], boxes[14]["heat"]) == ("person", None)


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


def test_a_registration_that_is_only_assumed_is_said_beside_the_boxes(detector: Detector) -> None:
    pair = make_pair(1)
    head, _, _ = unpack(LiveFrame.make(1, pair, detector(pair)))
    result = detector(pair)
    assert result.registration is not None
    assert head["assumed"] == (result.registration.origin if result.registration.assumed else "")
    guessed = dataclasses.replace(
        result, registration=Registration.identity(SIZE_WH, "assumed: equal frame sizes")
    )
    assert unpack(LiveFrame.make(1, pair, guessed))[0]["assumed"] == "assumed: equal frame sizes"
    measured = dataclasses.replace(result, registration=Registration.identity(SIZE_WH, "registration.json"))
    assert unpack(LiveFrame.make(1, pair, measured))[0]["assumed"] == ""
