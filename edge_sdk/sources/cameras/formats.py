"""From the memory of a thermal camera to a uint16 picture, its unit, and what may be claimed of it.

Degrees are claimed only where the camera is known to measure them and the frame lies in its range;
all absolute frames become centikelvin, everything else stays counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import ConfigError, ShapeError
from edge_sdk.frames import Calibration, ThermalUnit
from edge_sdk.heat_units import enter, heat_unit
from edge_sdk.sources.cameras.device import ThermalFacts
from edge_sdk.sources.cameras.lepton import TELEMETRY_ROWS, LeptonTelemetry, parse_telemetry
from edge_sdk.sources.uri import nearest

__all__ = [
    "THERMAL_FORMATS",
    "ThermalFormat",
    "decode_thermal",
    "guard_range",
    "thermal_format",
]

_HIGH_GAIN_C = (-20.0, 150.0)
"""What an InfiRay double-frame camera measures in its high-gain range; beyond it, and in low gain, the
formula raw/64 K is off by tens of kelvin. Source: P2Pro-Viewer issue 22 (280 read as 310, 310 as 442)."""

AUTO = "auto"
"""In place of a unit: what the camera's telemetry or its format says."""


@dataclass(frozen=True)
class ThermalFormat:
    """How one make of thermal camera lays its picture out.

    Attributes:
        name: the word of `?format=`.
        fourcc: what is asked of V4L2, or "" for the camera's default.
        size_wh: the picture's size where the make has only one, telemetry and halves aside.
        unit: what a count is by default, a word of `edge_sdk.heat_units`, or "auto".
        unit_by_camera: whether the make itself says so, not its user.
        double: the array holds a display picture above and the temperatures below.
        telemetry: Lepton telemetry rows: "auto", "header", "footer" or "none".
        range_c: temperatures the make measures, or None where nobody states one.
    """

    name: str
    fourcc: str = "Y16 "
    size_wh: tuple[int, int] | None = None
    unit: str = AUTO
    unit_by_camera: bool = True
    double: bool = False
    telemetry: str = "none"
    range_c: tuple[float, float] | None = None


_DOUBLE = ThermalFormat("infiray", "YUYV", (256, 192), "kelvin/64", double=True, range_c=_HIGH_GAIN_C)

THERMAL_FORMATS = {
    "y16": ThermalFormat("y16", telemetry="auto"),
    "lepton": ThermalFormat("lepton", telemetry="auto"),
    "boson": ThermalFormat("boson"),
    "centikelvin": ThermalFormat("centikelvin", unit="centikelvin", unit_by_camera=False, telemetry="auto"),
    "infiray": _DOUBLE,
    "p2pro": replace(_DOUBLE, name="p2pro"),
    "tc001": replace(_DOUBLE, name="tc001"),
}


def thermal_format(
    name: str,
    *,
    unit: str = "auto",
    telemetry: str = "auto",
    gain: str = "high",
    where: str = "thermal camera",
) -> ThermalFormat:
    """Chooses a format and applies the caller's options.

    Arguments:
        name: one of `THERMAL_FORMATS`.
        unit: what a count is, where the caller knows; "auto" leaves it to the format and telemetry.
        telemetry: where the Lepton's rows stand.
        gain: "high" or "low", of double-frame cameras; nobody has published the formula for "low".
        where: whose option it is, for messages.

    Raises:
        ConfigError: an unknown word.
    """
    for option, value, allowed in (
        ("format", name, tuple(THERMAL_FORMATS)),
        ("telemetry", telemetry, ("auto", "header", "footer", "none")),
        ("gain", gain, ("high", "low")),
    ):
        if value not in allowed:
            raise ConfigError(
                f"{where}: {option}: expected {' or '.join(allowed)}, "
                f"found {value!r}{nearest(value, allowed)}"
            )
    if unit != AUTO:
        heat_unit(unit, where)
    chosen = THERMAL_FORMATS[name]
    if chosen.telemetry == "auto":
        chosen = replace(chosen, telemetry=telemetry)
    if unit != "auto":
        chosen = replace(chosen, unit=unit, unit_by_camera=False)
    if chosen.double and gain == "low":
        chosen = replace(chosen, unit="counts")
    return chosen


def decode_thermal(
    raw: NDArray[Any], form: ThermalFormat, size_wh: tuple[int, int] | None = None
) -> tuple[NDArray[np.uint16], ThermalFacts]:
    """Reads one picture out of a thermal camera's memory.

    Arguments:
        raw: as OpenCV or a file gives it: uint16 [height, width], bytes [height, width, 2], or flat.
        form: the camera's layout.
        size_wh: the size the camera was set to, telemetry rows and halves included; needed for flat arrays.

    Returns: uint16 [height, width] and what is known of it.

    Copies: only where counts are converted; otherwise a view of `raw`.

    Raises:
        ShapeError: the array is not what this format gives, with both shapes.
    """
    counts = _as_rows(raw, form, size_wh)
    telemetry = None
    notes: tuple[str, ...] = ()
    if form.double:
        counts = counts[counts.shape[0] // 2 :]
    elif form.telemetry != "none":
        counts, telemetry, notes = _split_telemetry(counts, form.telemetry)
    counts = np.ascontiguousarray(counts)
    if telemetry is None:
        image, facts = guard_range(counts, form.unit, form.range_c, by_camera=form.unit_by_camera)
        return image, replace(facts, notes=notes + facts.notes)
    unit, notes = _unit_of(form, telemetry, notes)
    image, facts = guard_range(counts, unit, form.range_c, by_camera=True)
    return image, replace(
        facts, ffc=telemetry.ffc, sequence=telemetry.frame_counter, notes=notes + facts.notes
    )


def guard_range(
    counts: NDArray[Any],
    unit: str,
    range_c: tuple[float, float] | None = None,
    *,
    by_camera: bool = False,
) -> tuple[NDArray[np.uint16], ThermalFacts]:
    """Converts counts to centikelvin where they are absolute and plausible; else says why they are not.

    Arguments:
        counts: uint16 [height, width], or what else `edge_sdk.heat_units.enter` takes.
        unit: what a count is said to be; "auto" where nobody says.
        range_c: what the camera measures, in degrees Celsius.
        by_camera: whether the camera says so, not its user.

    Raises:
        ShapeError: see `enter`.
    """
    said = heat_unit("counts" if unit == AUTO else unit)
    image, absolute, problem, dead = enter(counts, said)
    if not said.absolute:
        return image, ThermalFacts()
    if absolute and range_c is not None:
        beyond = (image < _centikelvin(range_c[0])) | (image > _centikelvin(range_c[1]))
        count = int(np.count_nonzero(beyond if dead is None else beyond & ~dead))
        if count:
            problem = f"{count} pixels beyond {range_c[0]:g} to {range_c[1]:g} C, which the camera measures"
            image = enter(counts, heat_unit("counts")).image
    if problem:
        return image, ThermalFacts(calibration=Calibration.OUT_OF_RANGE, notes=(f"no degrees: {problem}",))
    calibration = Calibration.RADIOMETRIC if by_camera else Calibration.UNSTATED
    return image, ThermalFacts(ThermalUnit.CENTIKELVIN, calibration)


def _as_rows(raw: NDArray[Any], form: ThermalFormat, size_wh: tuple[int, int] | None) -> NDArray[np.uint16]:
    """Undoes what OpenCV may have made of 16-bit rows: bytes in pairs, or one long line."""
    expected = f"uint16 [{size_wh[1]}, {size_wh[0]}]" if size_wh else "uint16 [height, width]"
    found = f"{raw.dtype} {list(raw.shape)}"
    fix = (
        "The camera was read as 8-bit colour: set FOURCC 'Y16 ' first and CONVERT_RGB to 0 after it."
        if raw.ndim == 3 and raw.shape[2] == 3
        else "Is another program using the camera, or is ?width=&height= wrong?"
    )
    wrong = ShapeError(f"{form.name} thermal picture", expected, found, fix)
    if raw.dtype == np.uint8 and (raw.ndim != 3 or raw.shape[2] == 2) and raw.size % 2 == 0:
        rows = raw.shape[0] if raw.ndim == 3 and raw.shape[0] > 1 else 0
        words = np.ascontiguousarray(raw).reshape(-1).view("<u2")
        raw = words.reshape(rows, -1) if rows else words
    if raw.dtype != np.uint16:
        raise wrong
    if raw.ndim != 2 or 1 in raw.shape:
        if size_wh is None or raw.size < size_wh[0] or raw.size % size_wh[0]:
            raise wrong
        raw = raw.reshape(-1, size_wh[0])
    if form.double and (form.size_wh is not None) and raw.shape != (2 * form.size_wh[1], form.size_wh[0]):
        width, height = form.size_wh
        raise ShapeError(
            f"{form.name} double frame",
            f"uint16 [{2 * height}, {width}]",
            f"{raw.dtype} {list(raw.shape)}",
            fix,
        )
    if size_wh is not None and not form.double:
        width, height = size_wh
        spare = TELEMETRY_ROWS.get((width, height), 0) if form.telemetry != "none" else 0
        if raw.shape[1] != width or raw.shape[0] not in (height, height + spare):
            raise wrong
    return raw


def _split_telemetry(
    rows: NDArray[np.uint16], where: str
) -> tuple[NDArray[np.uint16], LeptonTelemetry | None, tuple[str, ...]]:
    height, width = rows.shape
    count = next(
        (spare for (w, h), spare in TELEMETRY_ROWS.items() if (width, height) == (w, h + spare)), None
    )
    if count is None:
        return rows, None, ()
    footer = rows[:-count], parse_telemetry(rows[-count:])
    header = rows[count:], parse_telemetry(rows[:count])
    for name, (picture, telemetry) in (("footer", footer), ("header", header)):
        if telemetry is not None and where in ("auto", name):
            return picture, telemetry, ()
    picture = header[0] if where == "header" else footer[0]
    return picture, None, ("telemetry rows cannot be read: FFC state and unit are not known",)


def _unit_of(
    form: ThermalFormat, telemetry: LeptonTelemetry, notes: tuple[str, ...]
) -> tuple[str, tuple[str, ...]]:
    """What the camera says of itself goes before what the caller says."""
    if telemetry.overtemp:
        notes += ("the thermal camera is too hot and about to shut down",)
    if telemetry.agc:
        return "counts", notes + ("AGC is on: counts are stretched for display and no temperature",)
    if telemetry.tlinear:
        return ("centikelvin" if telemetry.kelvin_per_count == 0.01 else "decikelvin"), notes
    if form.unit not in (AUTO, "counts"):
        return "counts", notes + (f"the camera's TLinear is off: counts are not {form.unit}",)
    return "counts", notes


def _centikelvin(celsius: float) -> int:
    return round((celsius + 273.15) * 100)
