"""Frames and registrations: what is refused, and where a thermal pixel falls in the RGB frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sdk.errors import ConfigError, ShapeError
from edge_sdk.frames import (
    FramePair,
    Registration,
    RgbFrame,
    ThermalFrame,
    ThermalUnit,
    middle_value,
    thinned,
)

SIZES = st.tuples(st.integers(1, 4000), st.integers(1, 4000))
SHIFT = ((1.0, 0.0, 12.0), (0.0, 1.0, -5.0), (0.0, 0.0, 1.0))


@pytest.mark.parametrize(
    ("image", "found"),
    [
        (np.zeros((4, 5, 3), np.uint16), "uint16 [4, 5, 3]"),
        (np.zeros((4, 5), np.uint8), "uint8 [4, 5]"),
        (np.zeros((4, 5, 4), np.uint8), "uint8 [4, 5, 4]"),
        (np.zeros((4, 5, 3), np.float32), "float32 [4, 5, 3]"),
        (np.zeros((0, 5, 3), np.uint8), "[0, 5, 3]"),
        ([[1, 2, 3]], "list"),
        (None, "NoneType"),
    ],
)
def test_an_rgb_frame_of_the_wrong_kind_is_refused(image: Any, found: str) -> None:
    with pytest.raises(ShapeError) as caught:
        RgbFrame(image)
    assert caught.value.name == "RGB frame"
    assert caught.value.found == found
    assert caught.value.expected in str(caught.value)


@pytest.mark.parametrize(
    ("image", "found"),
    [
        (np.zeros((4, 5), np.uint8), "uint8 [4, 5]"),
        (np.zeros((4, 5, 1), np.uint16), "uint16 [4, 5, 1]"),
        (np.full((4, 5), -1, np.int16), "int16 [4, 5], -1 to -1"),
        (np.zeros((4, 5), np.float32), "float32 [4, 5]"),
        (np.zeros((4, 0), np.uint16), "[4, 0]"),
        ("frame.png", "str"),
    ],
)
def test_a_thermal_frame_of_the_wrong_kind_is_refused(image: Any, found: str) -> None:
    with pytest.raises(ShapeError) as caught:
        ThermalFrame(image)
    assert caught.value.name == "thermal frame"
    assert caught.value.found == found


def test_the_message_on_8_bit_thermal_says_what_to_do() -> None:
    with pytest.raises(ShapeError, match=r"lost its radiometry.*16-bit"):
        ThermalFrame(np.zeros((4, 5), np.uint8))


def test_sizes_are_width_then_height() -> None:
    assert RgbFrame(np.zeros((4, 5, 3), np.uint8)).size_wh == (5, 4)
    assert ThermalFrame(np.zeros((4, 5), np.uint16)).size_wh == (5, 4)
    assert ThermalFrame(np.zeros((4, 5), np.uint16)).unit is ThermalUnit.COUNTS


def test_frames_share_their_memory() -> None:
    image = np.zeros((4, 5, 3), np.uint8)
    assert RgbFrame(image).image is image


@pytest.mark.parametrize(
    "homography",
    [
        ((1, 0, 0), (0, 1, 0)),
        ((1, 0, 0), (0, 1, 0), (0, 0, float("nan"))),
        ((1, 0, 0), (2, 0, 0), (0, 0, 1)),
        ((0, 0, 0), (0, 0, 0), (0, 0, 0)),
        ((1, 0, "x"), (0, 1, 0), (0, 0, 1)),
        ((1, 0), (0, 1, 0), (0, 0, 1)),
        None,
    ],
)
def test_a_homography_that_is_none_is_refused(homography: Any) -> None:
    with pytest.raises(ShapeError, match="invertible 3x3"):
        Registration(homography, (64, 48), (64, 48))


@pytest.mark.parametrize("size_wh", [(0, 48), (64, -1), (64,)])
def test_a_registration_for_no_pixels_is_refused(size_wh: Any) -> None:
    with pytest.raises(ShapeError, match="rgb_size_wh"):
        Registration(SHIFT, size_wh, (64, 48))
    with pytest.raises(ShapeError, match="thermal_size_wh"):
        Registration(SHIFT, (64, 48), size_wh)


@given(SIZES, SIZES, st.integers(1, 9), st.integers(1, 9))
def test_frames_of_other_sizes_keep_their_corners(
    rgb: tuple[int, int], thermal: tuple[int, int], rgb_times: int, thermal_times: int
) -> None:
    rgb_now = rgb[0] * rgb_times, rgb[1] * rgb_times
    thermal_now = thermal[0] * thermal_times, thermal[1] * thermal_times
    scale = ((rgb[0] / thermal[0], 0.0, 0.0), (0.0, rgb[1] / thermal[1], 0.0), (0.0, 0.0, 1.0))
    matrix = Registration(scale, rgb, thermal).matrix_for(rgb_now, thermal_now)
    corner = matrix @ [thermal_now[0], thermal_now[1], 1]
    np.testing.assert_allclose(corner[:2] / corner[2], rgb_now, rtol=1e-9)


def test_a_shift_scales_with_the_rgb_frame() -> None:
    matrix = Registration(SHIFT, (640, 512), (640, 512)).matrix_for((1280, 1024), (320, 256))
    np.testing.assert_allclose(matrix @ [10, 10, 1], [10 * 4 + 24, 10 * 4 - 10, 1])


def test_identity_is_identity() -> None:
    registration = Registration.identity((64, 48), "test")
    np.testing.assert_array_equal(registration.matrix_for((64, 48), (64, 48)), np.eye(3))
    assert registration.origin == "test"


def test_boxes_follow_the_homography_and_stay_in_the_frame() -> None:
    boxes = np.array([[10, 10, 20, 30], [600, 0, 640, 512]], np.float32)
    mapped = Registration(SHIFT, (640, 512), (640, 512)).boxes_to_rgb(boxes, (1280, 1024), (640, 512))
    np.testing.assert_allclose(mapped, [[44, 10, 64, 50], [1224, 0, 1280, 1014]])
    assert mapped.dtype == np.float32
    none = Registration(SHIFT, (640, 512), (640, 512)).boxes_to_rgb(boxes[:0], (640, 512), (640, 512))
    assert none.shape == (0, 4)


def test_a_turned_box_gives_the_box_around_it() -> None:
    quarter = ((0.0, -1.0, 48.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0))
    mapped = Registration(quarter, (48, 64), (64, 48)).boxes_to_rgb(
        np.array([[0, 0, 10, 20]], np.float32), (48, 64), (64, 48)
    )
    np.testing.assert_allclose(mapped, [[28, 0, 48, 10]])


@given(st.integers(1, 1100), st.integers(1, 1100))
def test_thinned_frames_keep_thousands_of_pixels_where_there_are_any(width: int, height: int) -> None:
    image = np.zeros((height, width), np.uint16)
    few = thinned(image)
    assert np.shares_memory(few, image)
    assert min(80, width) <= few.shape[1]
    assert min(64, height) <= few.shape[0]
    assert few.size <= 6 * 80 * 64 * max(1.0, width / height / 1.25, height / width * 1.25)


@given(st.lists(st.integers(0, 65535), min_size=1, max_size=99))
def test_the_middle_value_is_a_median(values: list[int]) -> None:
    array = np.array(values, np.uint16)
    assert middle_value(array) == sorted(values)[len(values) // 2]


def test_a_pair_needs_no_more_than_its_key() -> None:
    pair = FramePair("k", None, None)
    assert (pair.registration, pair.skew_ms, pair.read_ns, pair.notes) == (None, None, 0, ())


# Wrong arguments

COLOUR = np.zeros((4, 5, 3), np.uint8)
RAW = np.full((4, 5), 29500, np.uint16)


@pytest.mark.parametrize(
    ("image", "remedy"),
    [
        (RAW, "Were RGB and thermal swapped"),
        (COLOUR[..., 0], r"numpy\.dstack"),
        (COLOUR[..., :1], r"numpy\.dstack"),
        (np.zeros((4, 5, 4), np.uint8), r"image\[:, :, :3\]"),
        (np.zeros((3, 4, 5), np.uint8), "transpose"),
        (COLOUR / 255.0, r"image \* 255"),
        (COLOUR.astype(np.uint16), "16 bits a colour"),
        (COLOUR[None], r"batch\[0\]"),
        (COLOUR.astype(np.int32), "cvtColor"),
    ],
)
def test_a_picture_that_is_none_gets_the_line_that_makes_one(image: Any, remedy: str) -> None:
    with pytest.raises(ShapeError, match=remedy):
        RgbFrame(image)


def test_a_colour_picture_in_place_of_heat_is_named() -> None:
    with pytest.raises(ShapeError, match="Were RGB and thermal swapped"):
        ThermalFrame(COLOUR)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((ThermalFrame(RAW), RgbFrame(COLOUR)), "swapped"),
        ((ThermalFrame(RAW), None), "swapped"),
        ((COLOUR, None), r"rgb: .*an array, uint8 \[4, 5, 3\]\. Wrap it: rgb=edge_sdk\.RgbFrame\(array\)"),
        ((None, RAW), r"thermal: .*an array, uint16 .*thermal=edge_sdk\.ThermalFrame\(array, unit\)"),
        (("a.png", None), r"FramePair rgb: expected RgbFrame or None, found str"),
        ((None, None, "bundle"), "registration: expected a Registration, found str"),
        ((None, None, None, "3"), "skew_ms: expected a number"),
        ((None, None, None, float("nan")), "skew_ms: expected a finite number"),
        ((None, None, None, None, -1), "read_ns: expected 0 or more"),
        ((None, None, None, None, 1.5), "read_ns: expected a whole number"),
        ((None, None, None, None, 0, "note"), "notes: expected several texts"),
        ((None, None, None, None, 0, (), 3), "rgb_fault: expected text"),
    ],
)
def test_wrong_arguments_of_a_pair_are_named(arguments: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        FramePair("k", *arguments)


def test_a_frame_in_place_of_the_key_is_named() -> None:
    with pytest.raises(ConfigError, match="key: expected text that names the pair, found a frame"):
        FramePair(RgbFrame(COLOUR), ThermalFrame(RAW))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"write str\(3\)"):
        FramePair(3)  # type: ignore[arg-type]


def test_either_frame_may_be_left_out() -> None:
    assert FramePair("k", RgbFrame(COLOUR)).thermal is None
    assert FramePair("k", thermal=ThermalFrame(RAW)).rgb is None


def test_members_become_their_own_types() -> None:
    pair = FramePair("k", None, None, None, np.float32(2), np.int64(3), ["a"])  # type: ignore[arg-type]
    assert (type(pair.skew_ms), type(pair.read_ns), pair.notes) == (float, int, ("a",))
    frame = RgbFrame(COLOUR, np.int64(7), np.uint8(2))  # type: ignore[arg-type]
    assert (type(frame.timestamp_ns), type(frame.sequence)) == (int, int)
    for wrong in (1.5, "7", True):
        with pytest.raises(ConfigError, match="timestamp_ns: expected a whole number"):
            RgbFrame(COLOUR, wrong)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="sequence: expected a whole number"):
            ThermalFrame(RAW, sequence=wrong)  # type: ignore[arg-type]


def test_what_is_known_of_a_thermal_frame_is_known_of_its_pair() -> None:
    dead = np.full((16, 16), 29500, np.uint16)
    dead[3, 3] = 0
    pair = FramePair("k", None, ThermalFrame(dead, "centikelvin"), notes=("mended",))
    assert pair.notes == ("mended", "1 thermal pixel gives no value")
    assert pair.copied().notes == pair.notes
