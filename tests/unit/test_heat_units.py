"""One table of units, one guard, and dead pixels: the same whatever door a thermal frame comes through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edge_sdk.errors import ConfigError, ShapeError
from edge_sdk.frames import Calibration, FramePair, HeatUnit, ThermalFrame, ThermalUnit
from edge_sdk.heat_units import UNIT_WORDS, enter, heat_unit
from edge_sdk.sources import open_source, source_from_arrays

KELVIN = 273.15 + np.add.outer(np.linspace(5, 40, 32), np.linspace(0, 8, 48))
"""A scene of 5 to 48 degrees Celsius."""

RAW: dict[str, NDArray[Any]] = {
    "centikelvin": np.rint(KELVIN * 100).astype(np.uint16),
    "decikelvin": np.rint(KELVIN * 10).astype(np.uint16),
    "kelvin": np.rint(KELVIN).astype(np.uint16),
    "kelvin/64": np.rint(KELVIN * 64).astype(np.uint16),
    "0.04": np.rint(KELVIN / 0.04).astype(np.uint16),
    "linear:0.05:250": np.rint((KELVIN - 250) / 0.05).astype(np.uint16),
    "celsius": (KELVIN - 273.15).astype(np.float32),
}
STEP_K = {"centikelvin": 0.01, "decikelvin": 0.1, "kelvin": 1.0, "kelvin/64": 1 / 64, "0.04": 0.04}


def from_program(folder: Path, raw: NDArray[Any], unit: str) -> ThermalFrame:
    return ThermalFrame(raw, unit)


def from_arrays(folder: Path, raw: NDArray[Any], unit: str) -> ThermalFrame:
    thermal = next(source_from_arrays(thermal=[raw], unit=unit)).thermal
    assert thermal is not None
    return thermal


def from_pairs(folder: Path, raw: NDArray[Any], unit: str) -> ThermalFrame:
    (folder / "thermal").mkdir()
    assert cv2.imwrite(str(folder / "thermal" / "0.tiff"), raw)
    with open_source(f"pairs:{folder}?rgb=none&unit={unit}") as source:
        thermal = next(source).thermal
    assert thermal is not None
    return thermal


def from_video(folder: Path, raw: NDArray[Any], unit: str) -> ThermalFrame:
    writer = cv2.VideoWriter(
        str(folder / "rgb.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 10, (raw.shape[1], raw.shape[0])
    )
    writer.write(np.zeros((*raw.shape, 3), np.uint8))
    writer.release()
    np.save(folder / "thermal.npy", raw[None])
    with open_source(f"video:{folder}/rgb.avi?thermal=thermal.npy&unit={unit}") as source:
        thermal = next(source).thermal
    assert thermal is not None
    return thermal


def from_file(folder: Path, raw: NDArray[Any], unit: str) -> ThermalFrame:
    np.save(folder / "thermal.npy", raw[None])
    with open_source(f"file://{folder}/thermal.npy?unit={unit}") as source:
        thermal = next(source).thermal
    assert thermal is not None
    return thermal


DOORS = [from_program, from_arrays, from_pairs, from_video, from_file]


@pytest.mark.parametrize("unit", list(RAW))
@pytest.mark.parametrize("door", DOORS)
def test_every_door_takes_every_unit_and_gives_the_same_frame(door: Any, unit: str, tmp_path: Path) -> None:
    frame = door(tmp_path, RAW[unit], unit)
    assert (frame.unit, frame.calibration) == (ThermalUnit.CENTIKELVIN, Calibration.UNSTATED)
    assert frame.image.dtype == np.uint16
    assert frame.notes == ()
    half_step_k = STEP_K.get(unit, 0.05) / 2 + 0.006
    np.testing.assert_allclose(frame.image / 100, KELVIN, atol=half_step_k)
    np.testing.assert_array_equal(frame.image, from_program(tmp_path, RAW[unit], unit).image)


@pytest.mark.parametrize("door", DOORS)
def test_a_decikelvin_frame_read_as_centikelvin_claims_no_degree_at_any_door(
    door: Any, tmp_path: Path
) -> None:
    frame = door(tmp_path, RAW["decikelvin"], "centikelvin")
    assert (frame.unit, frame.calibration) == (ThermalUnit.COUNTS, Calibration.OUT_OF_RANGE)
    np.testing.assert_array_equal(frame.image, RAW["decikelvin"])
    assert FramePair("k", None, frame).notes == (
        "no degrees: median of -243.2 C is no scene's: values are not centikelvin (decikelvin would fit)",
    )


@pytest.mark.parametrize(
    "unit", ["K", "celcius", "centi", "", "nan", "-0.04", "1e9", "linear:", "linear:0:1"]
)
@pytest.mark.parametrize("door", DOORS)
def test_a_unit_that_is_none_is_refused_at_every_door(door: Any, unit: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unit|no value"):
        door(tmp_path, RAW["centikelvin"], unit)


@pytest.mark.parametrize("unit", [None, True, 3j, ["centikelvin"], object()])
def test_a_unit_of_another_type_is_refused(unit: Any) -> None:
    with pytest.raises(ConfigError, match="unit: expected counts, centikelvin"):
        ThermalFrame(RAW["centikelvin"], unit)


def test_units_are_words_numbers_and_laws() -> None:
    assert UNIT_WORDS == ("counts", "centikelvin", "decikelvin", "kelvin", "kelvin/64", "celsius")
    assert heat_unit(0.04).kelvin_per_count == heat_unit("0.04").kelvin_per_count == 0.04
    assert heat_unit(ThermalUnit.CENTIKELVIN) is heat_unit("centikelvin")
    law = HeatUnit.linear(0.04, 250.0)
    assert law == heat_unit("linear:0.04:250")
    assert ThermalFrame(np.full((4, 4), 1000, np.uint16), law).image[0, 0] == 29000
    with pytest.raises(ConfigError, match="kelvin a count, found 0"):
        HeatUnit.linear(0.0)


def test_centikelvin_and_counts_are_shared_not_copied() -> None:
    raw = RAW["centikelvin"]
    assert ThermalFrame(raw, "centikelvin").image is raw
    assert ThermalFrame(raw).image is raw


def test_text_and_enumeration_mean_the_same() -> None:
    for unit in ("centikelvin", ThermalUnit.CENTIKELVIN):
        assert ThermalFrame(RAW["centikelvin"], unit).unit is ThermalUnit.CENTIKELVIN
    assert ThermalFrame(RAW["centikelvin"], "counts", ffc="complete").ffc.value == "complete"
    with pytest.raises(ConfigError, match="ffc: expected one of 'unknown'"):
        ThermalFrame(RAW["centikelvin"], "counts", ffc="closed")


@given(st.integers(0, 65535), st.sampled_from(["centikelvin", "decikelvin", "kelvin", "kelvin/64"]))
def test_conversion_is_exact_or_clipped(count: int, unit: str) -> None:
    per_count = {"centikelvin": 1, "decikelvin": 10, "kelvin": 100, "kelvin/64": 100 / 64}[unit]
    found, absolute, problem, _ = enter(np.full((1, 1), count, np.uint16), heat_unit(unit))
    wanted = min(count * per_count, 65535)
    assert absolute == (22000 <= wanted <= 42000)
    assert bool(problem) != absolute
    assert abs(int(found[0, 0]) - (wanted if absolute else count)) <= 0.5


def test_signed_and_wide_integers_are_read_with_their_law() -> None:
    hundredths_c = np.rint((KELVIN - 283.15) * 100).astype(np.int16)
    frame = ThermalFrame(hundredths_c, "linear:0.01:283.15")
    np.testing.assert_allclose(frame.image / 100, KELVIN, atol=0.011)
    assert ThermalFrame(RAW["centikelvin"].astype(np.int32)).image.dtype == np.uint16
    with pytest.raises(ShapeError, match=r"int16 \[32, 48\], -500 to .*unit 'linear:0.01:273.15'"):
        ThermalFrame(np.rint((KELVIN - 283.15) * 100).astype(np.int16))


def test_floating_point_needs_a_unit() -> None:
    with pytest.raises(ShapeError, match="unit 'kelvin' or 'celsius'"):
        ThermalFrame(KELVIN)
    assert ThermalFrame(KELVIN.astype(np.float16), "kelvin").unit is ThermalUnit.CENTIKELVIN


# Pixels without a value


@pytest.mark.parametrize("dead", [0, 65535, 3000])
def test_a_dead_pixel_is_left_out_and_counted(dead: int) -> None:
    raw = RAW["centikelvin"].copy()
    raw[5, 7] = dead
    frame = ThermalFrame(raw, "centikelvin")
    assert frame.unit is ThermalUnit.CENTIKELVIN
    assert frame.notes == ("1 thermal pixel gives no value",)
    assert frame.dead is not None
    assert np.argwhere(frame.dead).tolist() == [[5, 7]]
    assert frame.image[5, 7] == dead, "the camera's own number stays"
    assert abs(int(frame.filled[5, 7]) - int(RAW["centikelvin"][5, 7])) < 20


def test_nan_pixels_have_no_value() -> None:
    kelvin = KELVIN.astype(np.float32)
    kelvin[2:4, 2:6] = np.nan
    frame = ThermalFrame(kelvin, "kelvin")
    assert frame.notes == ("8 thermal pixels give no value",)
    assert frame.dead is not None
    assert frame.dead.sum() == 8
    assert frame.filled.min() > 27000


def test_what_is_truly_hot_is_no_dead_pixel() -> None:
    """A lens spreads a hot part over its neighbours, so full scale with hot neighbours is heat."""
    raw = RAW["centikelvin"].copy()
    raw[9:14, 9:14] = 50000
    raw[11, 11] = 65535
    frame = ThermalFrame(raw, "centikelvin")
    assert frame.dead is None
    assert (frame.unit, frame.calibration) == (ThermalUnit.COUNTS, Calibration.OUT_OF_RANGE)
    assert frame.notes == ("no degrees: 1 pixels at full scale (382 C or more)",)


def test_counts_have_dead_pixels_too_but_an_even_noise_has_none() -> None:
    raw = np.random.default_rng(0).normal(8000, 30, (64, 80)).astype(np.uint16)
    raw[3, 3], raw[40, 50] = 0, 65535
    frame = ThermalFrame(raw)
    assert frame.notes == ("2 thermal pixels give no value",)
    noise = np.random.default_rng(0).integers(0, 65536, (64, 80), np.uint16)
    assert ThermalFrame(noise).dead is None


def test_a_frame_without_any_value_has_no_degrees() -> None:
    frame = ThermalFrame(np.full((8, 8), np.nan), "kelvin")
    assert frame.unit is ThermalUnit.COUNTS
    assert "no degrees" in frame.notes[0]
