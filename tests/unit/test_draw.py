"""Tests of annotated pictures: layout, what is written on them, where labels go."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from frames_on_disk import HOMOGRAPHY, SIZE_WH, rgb_image, thermal_image
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edge_sdk.detections import BoxTemperatures, Detections
from edge_sdk.frames import FramePair, Registration, RgbFrame, ThermalFrame, ThermalUnit
from edge_sdk.measurements import FrameResult, Reason, Route, Signals
from edge_sdk.report import draw, lettering
from edge_sdk.report.draw import annotate
from edge_sdk.report.labelling import Box, overlap_px, place_labels
from edge_sdk.report.lettering import elide, put_text, text_width_px

NAMES = ("insulator", "hotspot")
HEAT = BoxTemperatures("K", 293.0, 300.0, 333.15, 39.0)


def pair_of(size_wh: tuple[int, int] = SIZE_WH, unit: ThermalUnit = ThermalUnit.CENTIKELVIN) -> FramePair:
    identity = Registration.identity(size_wh, "test")
    return FramePair(
        "000001", RgbFrame(rgb_image(1, size_wh)), ThermalFrame(thermal_image(1, size_wh), unit), identity
    )


def result_of(
    *boxes: tuple[float, float, float, float],
    route: Route = Route.FUSE,
    size_wh: tuple[int, int] = SIZE_WH,
) -> FrameResult:
    count = len(boxes)
    detections = Detections(
        np.array(boxes, np.float32).reshape(-1, 4),
        np.linspace(0.9, 0.5, count, dtype=np.float32),
        np.arange(count, dtype=np.int64) % 2,
        NAMES,
        (HEAT,) * count,
    )
    consulted = route is not Route.RGB
    return FrameResult(
        "000001",
        route,
        Reason.HOT_REGION,
        Signals(),
        detections,
        consulted,
        {"engine": 9_000_000},
        {"fuse": 8_000_000},
        registration=Registration.identity(size_wh, "test"),
    )


def halves(picture: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The RGB half and the thermal half of an annotated picture."""
    body = picture[draw._HEADER_PX :]
    width = (picture.shape[1] - draw._GAP_PX - draw._SCALE_PX) // 2
    return body[:, :width], body[:, width + draw._GAP_PX : 2 * width + draw._GAP_PX]


@pytest.mark.parametrize(
    ("size_wh", "half_wh"), [((48, 32), (960, 640)), ((640, 800), (640, 800)), ((1920, 1440), (1440, 1080))]
)
def test_each_half_is_large_enough_to_read(size_wh: tuple[int, int], half_wh: tuple[int, int]) -> None:
    picture = annotate(pair_of(size_wh), result_of(size_wh=size_wh))
    assert picture.dtype == np.uint8
    left, right = halves(picture)
    assert (left.shape[1], left.shape[0]) == (right.shape[1], right.shape[0]) == half_wh


def test_frames_are_not_drawn_upon() -> None:
    pair = pair_of((320, 640))
    annotate(pair, result_of((10, 10, 60, 60), size_wh=(320, 640)))
    assert pair.rgb is not None
    assert pair.thermal is not None
    np.testing.assert_array_equal(pair.rgb.image, rgb_image(1, (320, 640)))
    np.testing.assert_array_equal(pair.thermal.image, thermal_image(1, (320, 640)))


def test_a_box_stands_on_both_halves_where_it_belongs() -> None:
    plain, boxed = annotate(pair_of(), result_of()), annotate(pair_of(), result_of((10, 8, 20, 16)))
    for before, after in zip(halves(plain), halves(boxed), strict=True):
        changed = np.argwhere((before != after).any(axis=2))
        assert len(changed)
        edge = after[8 * 20, 10 * 20 + 100]
        np.testing.assert_array_equal(edge, draw._CLASS_COLORS[0])


def test_the_hottest_place_is_the_brightest() -> None:
    _, right = halves(annotate(pair_of(), result_of()))
    scale = right.shape[1] / SIZE_WH[0]
    brightness = right[:-40].sum(axis=2)
    y, x = np.unravel_index(np.argmax(brightness), brightness.shape)
    assert 4 <= y / scale <= 7
    assert 4 <= x / scale <= 7


def test_the_thermal_frame_is_laid_on_the_rgb_frame() -> None:
    first, second, third = ((a, b, c) for a, b, c in HOMOGRAPHY)
    registration = Registration((first, second, third), SIZE_WH, (24, 16))
    cold = np.full((16, 24), 29000, np.uint16)
    cold[8:10, 10:12] = 34000
    pair = replace(pair_of(), thermal=ThermalFrame(cold, ThermalUnit.CENTIKELVIN), registration=None)
    _, right = halves(annotate(pair, replace(result_of(), registration=registration)))
    scale = right.shape[1] / SIZE_WH[0]
    hot = np.argwhere(right[:-40].sum(axis=2) > 600).mean(axis=0) / scale
    np.testing.assert_allclose(hot[::-1], [1.5 * 11 + 2, 1.5 * 9 + 3], atol=0.2)
    np.testing.assert_array_equal(right[2, -2], draw._NOTHING, "where the thermal camera does not look")


def test_an_even_scene_does_not_show_as_noise() -> None:
    noise = np.random.default_rng(0).normal(29500, 5, (32, 48)).astype(np.uint16)
    pair = replace(pair_of(), thermal=ThermalFrame(noise, ThermalUnit.CENTIKELVIN))
    _, right = halves(annotate(pair, result_of()))
    assert right[:500].reshape(-1, 3).std(axis=0).max() < 12


@pytest.mark.parametrize("route", list(Route))
@pytest.mark.parametrize("lost", ["", "rgb", "thermal"])
@pytest.mark.parametrize("registered", [True, False])
def test_every_route_and_a_lost_camera(route: Route, lost: str, registered: bool) -> None:
    pair = pair_of()
    pair = replace(
        pair, rgb=None if lost == "rgb" else pair.rgb, thermal=None if lost == "thermal" else pair.thermal
    )
    result = result_of((1, 1, 20, 20), route=route)
    picture = annotate(pair, result if registered else replace(result, registration=None))
    assert picture.shape == annotate(pair_of(), result_of()).shape


def test_counts_are_never_shown_as_degrees(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(draw, "put_text", lambda image, text, *_, **__: said.append(text))
    heat = replace(HEAT, unit="counts", min=29000.0, mean=29500.0, max=33315.0, delta=4000.0)
    result = result_of((1, 1, 20, 20))
    in_counts = replace(result, detections=replace(result.detections, temperatures=(heat,)))
    annotate(pair_of(unit=ThermalUnit.COUNTS), in_counts)
    assert "33315  Δ +4000" in said
    assert "counts" in said
    assert not any("°C" in text or " K" in text for text in said)
    said.clear()
    annotate(pair_of(), result)
    assert "60.0 °C  Δ +39.0 K" in said
    assert "insulator 0.90" in said
    assert "°C" in said
    assert {"FUSE", "hot region", "000001"} <= set(said)
    assert any("9.0 ms, engine 8.0 ms" in text for text in said)


def test_what_the_network_did_not_use_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(draw, "put_text", lambda image, text, *_, **__: said.append(text))
    annotate(pair_of(), result_of(route=Route.RGB))
    seen = result_of(route=Route.RGB)
    annotate(pair_of(), replace(seen, signals=replace(seen.signals, hot_delta_k=2.5)))
    annotate(pair_of(), result_of(route=Route.THERMAL))
    annotate(pair_of(), replace(result_of(), registration=None))
    annotate(replace(pair_of(), thermal=None), result_of(route=Route.RGB))
    assert {
        "Thermal - not used by the network",
        "Thermal - screened for heat, not fused",
        "RGB - not used",
        "Thermal - stretched, no registration given",
        "no thermal frame",
    } <= set(said)


def test_labels_that_find_no_place_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    real = put_text

    def listen(image: NDArray[np.uint8], text: str, *rest: int, **more: bool) -> None:
        said.append(text)
        real(image, text, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(draw, "put_text", listen)
    annotate(pair_of(), result_of(*[(20, 10, 22, 12)] * 80))
    (facts,) = (text for text in said if text.startswith("80 found"))
    assert " labels left out" in facts


def test_boxes_that_are_no_numbers_do_no_harm() -> None:
    annotate(pair_of(), result_of((float("nan"), -1e9, float("inf"), 1e9)))


SIDE = st.integers(0, 299)
BOXES = st.lists(
    st.tuples(SIDE, SIDE, SIDE, SIDE).map(
        lambda b: (min(b[0], b[2]), min(b[1], b[3]), max(b[0], b[2]), max(b[1], b[3]))
    ),
    max_size=12,
)


@given(boxes=BOXES, width=st.integers(1, 120), height=st.integers(1, 40))
def test_labels_lie_inside_and_never_on_each_other(boxes: list[Box], width: int, height: int) -> None:
    places = place_labels(boxes, [(width, height)] * len(boxes), (300, 300))
    assert len(places) == len(boxes)
    there = [place for place in places if place]
    for place in there:
        assert 0 <= place[0] < place[2] <= 300
        assert 0 <= place[1] < place[3] <= 300
        assert (place[2] - place[0], place[3] - place[1]) == (width, height)
    for index, place in enumerate(there):
        assert not any(overlap_px(place, other) for other in there[:index])


def test_the_usual_place_is_above_the_left_corner() -> None:
    assert place_labels([(50, 50, 90, 90)], [(30, 10)], (300, 300)) == [(50, 38, 80, 48)]


def test_a_label_wider_than_the_picture_is_left_out() -> None:
    assert place_labels([(5, 5, 9, 9)], [(400, 10)], (300, 300)) == [None]


def test_long_keys_lose_their_beginning() -> None:
    text = "site/line/tower/000123"
    assert elide(text, 20, 10_000) == text
    short = elide(text, 20, 120)
    assert short.startswith("…")
    assert short.endswith("000123")
    assert text_width_px(short, 20) <= 120
    assert elide(text, 20, 1) == ""


def test_text_is_drawn_without_the_newer_typeface(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lettering, "_face", lambda: None)
    image = np.zeros((40, 300, 3), np.uint8)
    put_text(image, "58 °C Δ", 5, 20, 17, (255, 255, 255))
    ink = np.argwhere(image.any(axis=2))
    assert len(ink) > 50
    assert ink[:, 1].max() <= 5 + text_width_px("58 °C Δ", 17) + 2
    assert abs((ink[:, 0].min() + ink[:, 0].max()) / 2 - 20) < 4
    annotate(pair_of(), result_of((1, 1, 20, 20)))
