"""From camera frames to network inputs: where each pixel lands, and where each box comes back to."""

from __future__ import annotations

import tracemalloc

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from edge_sdk.errors import ShapeError
from edge_sdk.frames import Registration, ThermalFrame, ThermalPlane, ThermalUnit
from edge_sdk.preprocess import Letterbox, rgb_into, thermal_into
from edge_sdk.radiometry import Radiometry

SIZES = st.tuples(st.integers(8, 3000), st.integers(8, 3000))
BACKGROUND, HOT = 29500, 33000


def lay(
    image: NDArray[np.uint16],
    registration: Registration,
    rgb_wh: tuple[int, int],
    input_wh: tuple[int, int],
) -> tuple[NDArray[np.uint16], NDArray[np.uint8], ThermalPlane]:
    raw = np.zeros((input_wh[1], input_wh[0]), np.uint16)
    out = np.zeros(raw.shape, np.uint8)
    frame = ThermalFrame(image, ThermalUnit.CENTIKELVIN)
    plane = thermal_into(frame, registration, Letterbox.fit(rgb_wh, input_wh), Radiometry(), raw, out)
    return raw, out, plane


def shifted(x: float, y: float, rgb_wh: tuple[int, int], thermal_wh: tuple[int, int]) -> Registration:
    """Thermal stretched to the RGB frame, then moved by x and y RGB pixels."""
    return Registration(
        ((rgb_wh[0] / thermal_wh[0], 0.0, x), (0.0, rgb_wh[1] / thermal_wh[1], y), (0.0, 0.0, 1.0)),
        rgb_wh,
        thermal_wh,
    )


def centre_of_heat(raw: NDArray[np.uint16]) -> tuple[float, float]:
    """Centre of what is above the background, in corner coordinates."""
    weight = raw.astype(np.float64) - BACKGROUND
    rows, columns = np.mgrid[0 : raw.shape[0], 0 : raw.shape[1]]
    total = weight.sum()
    return float((weight * (columns + 0.5)).sum() / total), float((weight * (rows + 0.5)).sum() / total)


# Letterbox


@given(SIZES, SIZES)
def test_a_letterbox_fills_one_side_and_centres_the_other(
    frame_wh: tuple[int, int], input_wh: tuple[int, int]
) -> None:
    box = Letterbox.fit(frame_wh, input_wh)
    width, height = box.inner_wh
    assert width == input_wh[0] or height == input_wh[1]
    assert 1 <= width <= input_wh[0]
    assert 1 <= height <= input_wh[1]
    assert box.left == (input_wh[0] - width) // 2
    assert box.top == (input_wh[1] - height) // 2


@given(SIZES, SIZES, st.lists(st.tuples(*[st.floats(0, 1, width=32)] * 4), max_size=5))
def test_boxes_come_back_from_where_they_went(
    frame_wh: tuple[int, int], input_wh: tuple[int, int], shares: list[tuple[float, ...]]
) -> None:
    box = Letterbox.fit(frame_wh, input_wh)
    boxes = np.array(shares, np.float64).reshape(-1, 4) * (frame_wh * 2)
    laid = np.empty((len(boxes), 4), np.float32)
    for corner in (0, 2):
        points = np.concatenate([boxes[:, corner : corner + 2], np.ones((len(boxes), 1))], axis=1)
        laid[:, corner : corner + 2] = (points @ box.matrix.T)[:, :2]
    np.testing.assert_allclose(box.boxes_to_frame(laid), boxes, atol=2e-3 + 1e-5 * max(frame_wh), rtol=1e-4)


def test_boxes_in_the_bars_are_clipped_to_the_frame() -> None:
    box = Letterbox.fit((640, 480), (320, 256))
    assert (box.left, box.top, box.inner_wh) == (0, 8, (320, 240))
    found = box.boxes_to_frame(np.array([[-10, 0, 330, 256], [0, 8, 320, 248]], np.float32))
    np.testing.assert_allclose(found, [[0, 0, 640, 480]] * 2)
    assert found.dtype == np.float32


def test_the_frames_own_corners_are_the_pictures_corners_even_where_sides_are_rounded() -> None:
    box = Letterbox.fit((641, 333), (320, 256))
    width, height = box.inner_wh
    far = box.matrix @ [641, 333, 1]
    np.testing.assert_allclose(far[:2], [box.left + width, box.top + height])


def test_a_sliver_of_a_frame_still_has_a_pixel() -> None:
    box = Letterbox.fit((10_000, 8), (320, 256))
    assert box.inner_wh == (320, 1)
    out = np.zeros((256, 320, 3), np.uint8)
    rgb_into(np.full((8, 10_000, 3), 200, np.uint8), box, out)
    assert (out == 200).any()


# RGB


@pytest.mark.parametrize("frame_wh", [(640, 480), (480, 640), (320, 256), (64, 48), (1920, 1080), (100, 256)])
def test_rgb_lies_between_grey_bars(frame_wh: tuple[int, int]) -> None:
    box = Letterbox.fit(frame_wh, (320, 256))
    out = np.zeros((256, 320, 3), np.uint8)
    rgb_into(np.full((frame_wh[1], frame_wh[0], 3), (10, 20, 30), np.uint8), box, out)
    width, height = box.inner_wh
    inside = np.zeros((256, 320), bool)
    inside[box.top : box.top + height, box.left : box.left + width] = True
    assert (out[inside] == (10, 20, 30)).all()
    assert (out[~inside] == 114).all()


@pytest.mark.parametrize(("frame_wh", "place"), [((640, 512), (320, 100)), ((960, 540), (31, 400))])
def test_a_bright_spot_of_the_frame_lands_where_the_matrix_says(
    frame_wh: tuple[int, int], place: tuple[int, int]
) -> None:
    box = Letterbox.fit(frame_wh, (320, 256))
    image = np.zeros((frame_wh[1], frame_wh[0], 3), np.uint8)
    x, y = place
    image[y - 4 : y + 4, x - 4 : x + 4] = 255
    out = np.zeros((256, 320, 3), np.uint8)
    rgb_into(image, box, out)
    weight = out[..., 0].astype(float)
    weight[out[..., 0] == 114] = 0
    rows, columns = np.mgrid[0:256, 0:320]
    found = [(weight * (grid + 0.5)).sum() / weight.sum() for grid in (columns, rows)]
    np.testing.assert_allclose(found, (box.matrix @ [x, y, 1])[:2], atol=0.1)


def test_wrong_sizes_and_dtypes_are_refused_and_not_lost_in_silence() -> None:
    box = Letterbox.fit((64, 48), (32, 24))
    image, out = np.zeros((48, 64, 3), np.uint8), np.zeros((24, 32, 3), np.uint8)
    with pytest.raises(ShapeError, match=r"RGB frame: expected 64x48.*found 48x64"):
        rgb_into(np.zeros((64, 48, 3), np.uint8), box, out)
    with pytest.raises(ShapeError, match=r"RGB input: expected 32x24.*found 24x32"):
        rgb_into(image, box, np.zeros((32, 24, 3), np.uint8))
    with pytest.raises(ShapeError, match="RGB input: expected uint8, found float32"):
        rgb_into(image, box, out.astype(np.float32))  # type: ignore[arg-type]
    frame = ThermalFrame(np.zeros((48, 64), np.uint16))
    identity = Registration.identity((64, 48), "test")
    raw, mapped = np.zeros((24, 32), np.uint16), np.zeros((24, 32), np.uint8)
    for raw_out, thermal_out, name in (
        (raw[1:], mapped, "raw_out: expected 32x24"),
        (raw.astype(np.float32), mapped, "raw_out: expected uint16"),
        (raw, mapped[1:], "thermal input: expected 32x24"),
        (raw, raw, "thermal input: expected uint8"),
    ):
        with pytest.raises(ShapeError, match=name):
            thermal_into(frame, identity, box, Radiometry(), raw_out, thermal_out)


def test_laying_rgb_allocates_nothing_of_the_inputs_size() -> None:
    for frame_wh in ((640, 480), (640, 512), (1920, 1080)):
        box = Letterbox.fit(frame_wh, (320, 256))
        image = np.zeros((frame_wh[1], frame_wh[0], 3), np.uint8)
        out = np.zeros((256, 320, 3), np.uint8)
        rgb_into(image, box, out)
        tracemalloc.start()
        try:
            rgb_into(image, box, out)
            assert tracemalloc.get_traced_memory()[1] < 256 * 320 / 4
        finally:
            tracemalloc.stop()


# Thermal


def test_identity_changes_nothing() -> None:
    image = np.random.default_rng(0).integers(20000, 60000, (48, 64), np.uint16)
    raw, _, plane = lay(image, Registration.identity((64, 48), "test"), (64, 48), (64, 48))
    np.testing.assert_array_equal(raw, image)
    np.testing.assert_allclose(plane.to_input, np.eye(3))
    assert plane.kelvin_per_count == 0.01


@settings(deadline=None, max_examples=60)
@given(
    st.integers(8, 55),
    st.integers(8, 39),
    st.floats(-6, 6),
    st.floats(-6, 6),
    st.sampled_from([(64, 48), (128, 96), (640, 480), (96, 96), (48, 64)]),
    st.sampled_from([(64, 48), (160, 120), (128, 128)]),
)
def test_a_hot_pixel_lands_where_the_registration_says(
    x: int, y: int, dx: float, dy: float, rgb_wh: tuple[int, int], input_wh: tuple[int, int]
) -> None:
    image = np.full((48, 64), BACKGROUND, np.uint16)
    image[y - 1 : y + 2, x - 1 : x + 2] = HOT  # 3x3, so that it survives halving
    registration = shifted(dx * rgb_wh[0] / 64, dy * rgb_wh[1] / 48, rgb_wh, (64, 48))
    raw, mapped, plane = lay(image, registration, rgb_wh, input_wh)
    exact = plane.to_input @ [x + 0.5, y + 0.5, 1]
    by_hand = Letterbox.fit(rgb_wh, input_wh).matrix @ (
        registration.matrix_for(rgb_wh, (64, 48)) @ [x + 0.5, y + 0.5, 1]
    )
    np.testing.assert_allclose(exact, by_hand, atol=1e-9)
    if not (4 < exact[0] < input_wh[0] - 4 and 4 < exact[1] < input_wh[1] - 4):
        return
    np.testing.assert_allclose(centre_of_heat(raw), exact[:2], atol=0.35)
    assert mapped[int(exact[1]), int(exact[0])] == mapped.max()


def test_a_whole_pixel_shift_moves_pixels_whole() -> None:
    image = np.full((48, 64), BACKGROUND, np.uint16)
    image[20, 30] = HOT
    raw, _, _ = lay(image, shifted(5, -3, (64, 48), (64, 48)), (64, 48), (64, 48))
    assert raw[17, 35] == HOT
    assert np.count_nonzero(raw != BACKGROUND) == 1


def test_doubling_puts_the_pixels_edges_on_the_pixels_edges() -> None:
    """With centres mistaken for corners, heat would sit half an input pixel off."""
    image = np.full((24, 32), BACKGROUND, np.uint16)
    image[10, 12] = HOT
    raw, _, _ = lay(image, shifted(0, 0, (64, 48), (32, 24)), (64, 48), (64, 48))
    np.testing.assert_allclose(centre_of_heat(raw), (25, 21), atol=0.02)


def test_where_the_thermal_camera_does_not_look_there_is_no_heat() -> None:
    image = np.full((48, 64), HOT, np.uint16)
    image[:, :40] = BACKGROUND  # the median
    raw, mapped, plane = lay(image, shifted(100, 0, (256, 192), (64, 48)), (256, 192), (256, 192))
    assert plane.median == BACKGROUND
    left = raw[:, : 100 - 3]
    assert (left == BACKGROUND).all()
    assert (mapped[:, : 100 - 3] == 90).all()
    small = Registration(((1.0, 0, 96.0), (0, 1.0, 72.0), (0, 0, 1.0)), (256, 192), (64, 48))
    raw, mapped, _ = lay(np.full((48, 64), HOT, np.uint16), small, (256, 192), (256, 192))
    assert (raw == HOT).all()  # all alike: the median is the frame
    hot_corner = np.full((48, 64), BACKGROUND, np.uint16)
    hot_corner[:8, :8] = HOT
    raw, mapped, _ = lay(hot_corner, small, (256, 192), (256, 192))
    outside = np.ones(raw.shape, bool)
    outside[70:123, 94:163] = False
    assert (raw[outside] == BACKGROUND).all()
    assert raw[75, 99] == HOT


def test_thermal_lies_on_the_same_pixels_as_rgb() -> None:
    """One object, seen by both cameras through a registration, at one place of the input."""
    rgb_wh, thermal_wh, input_wh = (641, 333), (160, 120), (320, 256)
    registration = shifted(-20, 14, rgb_wh, thermal_wh)
    image = np.full((120, 160), BACKGROUND, np.uint16)
    image[60:72, 80:96] = HOT
    x, y, _ = registration.matrix_for(rgb_wh, thermal_wh) @ [88, 66, 1]
    rgb = np.zeros((333, 641, 3), np.uint8)
    cv2.rectangle(rgb, (round(x) - 20, round(y) - 10), (round(x) + 19, round(y) + 9), (255, 255, 255), -1)
    box = Letterbox.fit(rgb_wh, input_wh)
    out = np.zeros((256, 320, 3), np.uint8)
    rgb_into(rgb, box, out)
    raw, _, _ = lay(image, registration, rgb_wh, input_wh)
    bright = np.where(out[..., 0] == 114, 0, out[..., 0]).astype(np.uint16) + np.uint16(BACKGROUND)
    np.testing.assert_allclose(centre_of_heat(raw), centre_of_heat(bright), atol=0.5)


def test_counts_are_mapped_on_the_scale_of_their_noise() -> None:
    noise = np.random.default_rng(0).normal(0, 20, (48, 64))
    image = np.clip(30000 + noise, 0, 65535).astype(np.uint16)
    raw, out = np.zeros((48, 64), np.uint16), np.zeros((48, 64), np.uint8)
    plane = thermal_into(
        ThermalFrame(image, ThermalUnit.COUNTS),
        Registration.identity((64, 48), "test"),
        Letterbox.fit((64, 48), (64, 48)),
        Radiometry(netd_k=0.05),
        raw,
        out,
        np.zeros((48, 64), np.intp),
    )
    assert plane.kelvin_per_count == pytest.approx(0.05 / 20, rel=0.42)
    assert abs(float(out.mean()) - 90) < 1


def test_a_frame_that_lies_in_the_input_already_is_not_copied() -> None:
    out = np.arange(48 * 64 * 3, dtype=np.uint32).astype(np.uint8).reshape(48, 64, 3)
    before = out.copy()
    rgb_into(out, Letterbox.fit((64, 48), (64, 48)), out)
    assert (out == before).all()
