"""The mapping from raw counts to the 8-bit picture, the median and the noise estimate."""

from __future__ import annotations

import math
import tracemalloc

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from edge_sdk.errors import ShapeError
from edge_sdk.frames import ThermalUnit
from edge_sdk.radiometry import Radiometry, median_counts, noise_counts

HALF_OCTAVE = 2**0.5


def mapped(
    radiometry: Radiometry, counts: list[int], median: int, kelvin_per_count: float
) -> NDArray[np.uint8]:
    image = np.array([counts], np.uint16)
    out = np.zeros(image.shape, np.uint8)
    radiometry.map_into(image, median, kelvin_per_count, out)
    return out[0]


def formula(radiometry: Radiometry, count: int, median: int, kelvin_per_count: float) -> float:
    kelvin = (count - median) * kelvin_per_count
    return radiometry.offset + radiometry.gain * math.asinh(kelvin / radiometry.scale_k)


def frame(sigma: float, scene: NDArray[np.float64], seed: int = 0) -> NDArray[np.uint16]:
    noise = np.random.default_rng(seed).normal(0, sigma, scene.shape)
    return np.clip(np.rint(scene + noise), 0, 65535).astype(np.uint16)


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 65535), min_size=1, max_size=30),
    st.integers(0, 65535),
    st.sampled_from([0.01, 0.005, 1.0, 2.0**-4.5]),
    st.floats(0, 255),
    st.floats(-80, 80),
    st.floats(0.1, 20),
)
def test_the_table_is_the_formula(
    counts: list[int], median: int, kelvin_per_count: float, offset: float, gain: float, scale_k: float
) -> None:
    radiometry = Radiometry(offset, gain, scale_k)
    for count, value in zip(counts, mapped(radiometry, counts, median, kelvin_per_count), strict=True):
        exact = min(max(formula(radiometry, count, median, kelvin_per_count), 0.0), 255.0)
        assert abs(float(value) - exact) <= 0.5 + 1e-6


@pytest.mark.parametrize(("median", "count"), [(0, 65535), (65535, 0), (0, 0), (65535, 65535)])
def test_extremes_clip_and_never_wrap(median: int, count: int) -> None:
    (value,) = mapped(Radiometry(), [count], median, 0.01)
    assert value == (90 if median == count else 255 if count > median else 0)


@given(st.integers(0, 65535), st.integers(0, 65535), st.integers(0, 65535))
def test_hotter_is_never_darker(median: int, first: int, second: int) -> None:
    low, high = sorted((first, second))
    one, other = mapped(Radiometry(), [low, high], median, 0.01)
    assert one <= other


def test_the_median_maps_to_the_offset() -> None:
    assert mapped(Radiometry(offset=77.4), [29500], 29500, 0.01)[0] == 77


def test_an_output_of_another_shape_or_dtype_is_refused() -> None:
    image = np.zeros((4, 5), np.uint16)
    with pytest.raises(ShapeError, match=r"uint8 \[4, 5\], found uint8 \[4, 4\]"):
        Radiometry().map_into(image, 0, 0.01, np.zeros((4, 4), np.uint8))
    with pytest.raises(ShapeError, match="found float32"):
        Radiometry().map_into(image, 0, 0.01, np.zeros((4, 5), np.float32))  # type: ignore[arg-type]


def test_mapping_allocates_nothing_of_the_frames_size_with_scratch() -> None:
    image = frame(5, np.full((256, 320), 29500.0))
    out, scratch = np.zeros(image.shape, np.uint8), np.zeros(image.shape, np.intp)
    radiometry = Radiometry()
    radiometry.map_into(image, 29500, 0.01, out, scratch)
    without = np.zeros_like(out)
    radiometry.map_into(image, 29500, 0.01, without)
    np.testing.assert_array_equal(out, without)
    tracemalloc.start()
    try:
        radiometry.map_into(image, 29500, 0.01, out, scratch)
        assert tracemalloc.get_traced_memory()[1] < out.nbytes / 4
    finally:
        tracemalloc.stop()


def test_centikelvin_is_exact_whatever_the_noise() -> None:
    image = frame(300, np.full((64, 80), 29500.0))
    assert Radiometry().kelvin_per_count(image, ThermalUnit.CENTIKELVIN) == 0.01


@pytest.mark.parametrize("sigma", [1.0, 3.0, 10.0, 40.0, 400.0])
@pytest.mark.parametrize("netd_k", [0.03, 0.05])
def test_a_count_is_worth_netd_over_noise_within_half_an_octave(sigma: float, netd_k: float) -> None:
    rows, columns = np.mgrid[0:256, 0:320]
    for scene in (np.full((256, 320), 29500.0), 28000.0 + 3 * columns + 2 * rows):
        found = Radiometry(netd_k=netd_k).kelvin_per_count(frame(sigma, scene), ThermalUnit.COUNTS)
        assert netd_k / sigma / HALF_OCTAVE <= found <= netd_k / sigma * HALF_OCTAVE
        assert math.log2(found) * 2 == pytest.approx(round(math.log2(found) * 2))


@pytest.mark.parametrize("sigma", [1.0, 2.0, 5.0, 20.0, 100.0])
def test_noise_of_flat_frames_and_ramps_is_found(sigma: float) -> None:
    rows, columns = np.mgrid[0:256, 0:320]
    for scene in (np.full((256, 320), 29500.0), 28000.0 + 3 * columns + 2 * rows):
        assert noise_counts(frame(sigma, scene)) == pytest.approx(sigma, rel=0.1)


def test_edges_and_hot_spots_hardly_raise_the_noise() -> None:
    random = np.random.default_rng(1)
    scene = np.full((256, 320), 29000.0)
    for _ in range(40):
        left, top = random.integers(0, 300), random.integers(0, 236)
        scene[top : top + random.integers(5, 60), left : left + random.integers(3, 60)] += random.normal(
            0, 300
        )
    scene = cv2.GaussianBlur(scene, (0, 0), 0.8)
    scene[100:110, 100:110] += 5000
    assert 5.0 * 0.95 <= noise_counts(frame(5.0, scene)) <= 5.0 * 1.3


def test_noise_is_never_less_than_that_of_rounding() -> None:
    assert noise_counts(np.full((64, 80), 7, np.uint16)) == pytest.approx(12**-0.5)
    assert noise_counts(np.zeros((5, 3), np.uint16)) == pytest.approx(12**-0.5)
    assert noise_counts(np.zeros((1, 4), np.uint16)) == pytest.approx(12**-0.5)
    assert math.isfinite(Radiometry().kelvin_per_count(np.zeros((64, 80), np.uint16), ThermalUnit.COUNTS))


def test_full_scale_noise_does_not_overflow() -> None:
    checker = np.where(np.indices((64, 80)).sum(axis=0) % 2, 65535, 0).astype(np.uint16)
    assert 1000 < noise_counts(checker) < 65535 * 2


@given(st.integers(0, 65535), st.integers(1, 70), st.integers(1, 70))
def test_the_median_of_a_flat_frame_is_its_value(value: int, width: int, height: int) -> None:
    assert median_counts(np.full((height, width), value, np.uint16)) == value


def test_the_median_of_part_of_the_pixels_is_near_that_of_all() -> None:
    rows, columns = np.mgrid[0:512, 0:640]
    image = frame(5, 29000 + 300 * np.sin(columns / 50) + rows)
    assert abs(median_counts(image) - float(np.median(image))) <= 5


def test_one_hot_pixel_moves_neither_median_nor_the_rest_of_the_picture() -> None:
    cold = frame(5, np.full((64, 80), 29500.0))
    hot = cold.copy()
    hot[30, 40] = 65535
    assert abs(median_counts(hot) - median_counts(cold)) <= 1
    one, other = np.zeros(cold.shape, np.uint8), np.zeros(cold.shape, np.uint8)
    Radiometry().map_into(cold, 29500, 0.01, one)
    Radiometry().map_into(hot, 29500, 0.01, other)
    assert np.count_nonzero(one != other) == 1
