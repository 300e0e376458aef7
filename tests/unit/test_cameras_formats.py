"""Thermal memory of each make: shapes undone, telemetry read, degrees claimed only where they may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edge_sdk.errors import ConfigError, ShapeError
from edge_sdk.frames import Calibration, FfcState, ThermalUnit
from edge_sdk.sources.cameras.formats import decode_thermal, guard_range, thermal_format
from edge_sdk.sources.cameras.lepton import parse_telemetry

Y16 = thermal_format("y16")
LEPTON = thermal_format("lepton")
INFIRAY = thermal_format("p2pro")


def scene(width: int = 160, height: int = 120, base: int = 29500) -> NDArray[np.uint16]:
    return (base + np.arange(width * height, dtype=np.uint32) % 500).astype(np.uint16).reshape(height, width)


def telemetry(
    width: int = 160,
    rows: int = 2,
    *,
    ffc: int = 3,
    agc: bool = False,
    tlinear: bool = True,
    fine: bool = True,
    frame: int = 70000,
    hot: bool = False,
) -> NDArray[np.uint16]:
    words = np.zeros(width * rows, np.uint16)
    status = ffc << 4 | agc << 12 | hot << 20
    words[1], words[2] = 123456 & 0xFFFF, 123456 >> 16
    words[3], words[4] = status & 0xFFFF, status >> 16
    words[20], words[21] = frame & 0xFFFF, frame >> 16
    words[24] = 30100
    words[160 + 48], words[160 + 49] = tlinear, fine
    return words.reshape(rows, width)


def test_telemetry_is_read_low_word_first() -> None:
    found = parse_telemetry(telemetry(ffc=2, agc=True, hot=True))
    assert found is not None
    assert (found.uptime_ms, found.frame_counter, found.ffc) == (123456, 70000, FfcState.IN_PROGRESS)
    assert found.agc
    assert found.overtemp
    assert found.tlinear
    assert found.kelvin_per_count == 0.01
    assert not found.ffc_desired


def test_picture_rows_are_no_telemetry() -> None:
    assert parse_telemetry(np.full((2, 160), 29500, np.uint16)) is None
    assert parse_telemetry(np.zeros((1, 80), np.uint16)) is None


@pytest.mark.parametrize("where", ["footer", "header"])
@pytest.mark.parametrize(("width", "height", "rows"), [(160, 120, 2), (80, 60, 3)])
def test_telemetry_rows_are_split_off(where: str, width: int, height: int, rows: int) -> None:
    picture, extra = scene(width, height), telemetry(width, rows, frame=7)
    raw = np.vstack([picture, extra] if where == "footer" else [extra, picture])
    image, facts = decode_thermal(raw, LEPTON)
    np.testing.assert_array_equal(image, picture)
    assert facts.sequence == 7
    assert facts.ffc is FfcState.COMPLETE
    assert facts.unit is ThermalUnit.CENTIKELVIN
    assert facts.calibration is Calibration.RADIOMETRIC


def test_a_coarse_tlinear_becomes_centikelvin() -> None:
    image, facts = decode_thermal(np.vstack([scene(base=2950), telemetry(fine=False)]), LEPTON)
    assert facts.unit is ThermalUnit.CENTIKELVIN
    np.testing.assert_array_equal(image, scene(base=2950) * np.uint16(10))


@pytest.mark.parametrize(
    ("bits", "note"),
    [({"agc": True}, "AGC is on"), ({"tlinear": False}, "TLinear is off")],
)
def test_the_cameras_own_word_goes_before_the_callers(bits: dict[str, Any], note: str) -> None:
    form = thermal_format("lepton", unit="centikelvin")
    _, facts = decode_thermal(np.vstack([scene(), telemetry(**bits)]), form)
    assert facts.unit is ThermalUnit.COUNTS
    assert facts.calibration is Calibration.NONE
    assert note in facts.notes[0]


def test_unreadable_telemetry_claims_nothing() -> None:
    raw = np.vstack([scene(), np.full((2, 160), 7, np.uint16)])
    image, facts = decode_thermal(raw, LEPTON)
    assert image.shape == (120, 160)
    assert facts.ffc is FfcState.UNKNOWN
    assert facts.unit is ThermalUnit.COUNTS
    assert "cannot be read" in facts.notes[0]


@pytest.mark.parametrize(
    "raw",
    [
        scene().reshape(1, -1),
        scene().reshape(-1),
        scene().reshape(-1, 1),
        scene().view(np.uint8).reshape(120, 160, 2),
        scene().view(np.uint8).reshape(-1),
        scene().view(np.uint8).reshape(1, -1),
    ],
    ids=["one row", "flat", "one column", "bytes in pairs", "flat bytes", "one row of bytes"],
)
def test_what_opencv_made_of_the_rows_is_undone(raw: NDArray[Any]) -> None:
    image, _ = decode_thermal(raw, Y16, (160, 120))
    np.testing.assert_array_equal(image, scene())


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (np.zeros((120, 160, 3), np.uint8), "FOURCC 'Y16 ' first"),
        (np.zeros((63, 80), np.uint16), r"expected uint16 \[120, 160\], found uint16 \[63, 80\]"),
        (np.zeros((120, 160), np.float32), "float32"),
        (np.ones((1, 1), np.uint16), "uint16"),
        (np.zeros(7, np.uint8), "uint8"),
    ],
)
def test_a_misread_frame_is_refused(raw: NDArray[Any], words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        decode_thermal(raw, Y16, (160, 120))


def double_frame(celsius: float, high: float | None = None) -> NDArray[np.uint8]:
    kelvin64 = np.full((192, 256), round((celsius + 273.15) * 64), np.uint16)
    kelvin64[::2] += 1
    if high is not None:
        kelvin64[5, 5] = round((high + 273.15) * 64)
    picture = np.full((192, 256), 0x8010, np.uint16)
    return np.vstack([picture, kelvin64]).view(np.uint8).reshape(384, 256, 2)


def test_the_lower_half_of_a_double_frame_holds_the_temperatures() -> None:
    image, facts = decode_thermal(double_frame(36.6), INFIRAY, (256, 384))
    assert image.shape == (192, 256)
    assert image[1, 0] / 100 - 273.15 == pytest.approx(36.6, abs=0.02)
    assert facts.unit is ThermalUnit.CENTIKELVIN
    assert facts.calibration is Calibration.RADIOMETRIC


@pytest.mark.parametrize(("celsius", "high"), [(20, 151), (20, 310), (-10, -25)])
def test_beyond_its_gain_range_no_degree_is_claimed(celsius: float, high: float) -> None:
    image, facts = decode_thermal(double_frame(celsius, high), INFIRAY)
    assert facts.unit is ThermalUnit.COUNTS
    assert facts.calibration is Calibration.OUT_OF_RANGE
    assert "1 pixels beyond -20 to 150 C" in facts.notes[0]
    assert image[0, 1] == round((celsius + 273.15) * 64) + 1, "the camera's own counts"


def test_low_gain_is_counts() -> None:
    _, facts = decode_thermal(double_frame(30), thermal_format("tc001", gain="low"))
    assert (facts.unit, facts.calibration) == (ThermalUnit.COUNTS, Calibration.NONE)


def test_a_double_frame_of_another_size_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"expected uint16 \[384, 256\]"):
        decode_thermal(np.zeros((192, 256, 2), np.uint8), INFIRAY)


@pytest.mark.parametrize(
    ("mean", "unit", "claimed"),
    [
        (29500, "centikelvin", True),
        (21000, "centikelvin", False),
        (43000, "centikelvin", False),
        (0, "centikelvin", False),
        (2950, "decikelvin", True),
        (295, "kelvin", True),
        (7000, "0.04", True),
        (22, "celsius", True),
        (18880, "kelvin/64", True),
        (500, "linear:0.04:275", True),
        (2950, "centikelvin", False),
        (7000, "counts", False),
        (29500, "auto", False),
    ],
)
def test_degrees_are_claimed_only_where_they_are_plausible(mean: int, unit: str, claimed: bool) -> None:
    image, facts = guard_range(np.full((4, 4), mean, np.uint16), unit)
    assert (facts.unit is ThermalUnit.CENTIKELVIN) == claimed
    assert (facts.calibration is Calibration.UNSTATED) == claimed, "a unit is its user's word"
    assert claimed or int(image[0, 0]) == mean
    _, by_camera = guard_range(np.full((4, 4), mean, np.uint16), unit, by_camera=True)
    assert (by_camera.calibration is Calibration.RADIOMETRIC) == claimed


def test_full_scale_is_out_of_range() -> None:
    counts = scene()
    counts[3, 3:5] = 65535
    image, facts = guard_range(counts, "centikelvin")
    assert facts.calibration is Calibration.OUT_OF_RANGE
    assert facts.notes == ("no degrees: 2 pixels at full scale (382 C or more)",)
    assert image is counts


def test_a_single_pixel_at_full_scale_is_dead_and_takes_no_degrees_away() -> None:
    counts = scene()
    counts[3, 3] = 65535
    _, facts = guard_range(counts, "centikelvin")
    assert (facts.unit, facts.notes) == (ThermalUnit.CENTIKELVIN, ())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "lepto"}, "Did you mean 'lepton'"),
        ({"name": "y16", "unit": "celcius"}, "unit: expected counts, .*Did you mean 'celsius'"),
        ({"name": "y16", "unit": "linear:x:1"}, "unit: expected counts"),
        ({"name": "y16", "unit": "linear:0.04"}, "unit: expected counts"),
        ({"name": "y16", "unit": "-1"}, "unit"),
        ({"name": "y16", "unit": "nan"}, "unit"),
        ({"name": "y16", "telemetry": "top"}, "telemetry"),
        ({"name": "p2pro", "gain": "middle"}, "gain"),
    ],
)
def test_options_are_checked(options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        thermal_format(**options)
