"""What a count of a thermal frame is worth: one table of units, one conversion, one guard for every door.

A frame in a known unit becomes uint16 centikelvin where it enters. A frame whose temperatures no scene has
stays in counts and says why; pixels that give no value (dead ones, NaN) are found and left out later.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import ConfigError, ShapeError
from edge_sdk.members import number, put, text

__all__ = ["UNIT_WORDS", "Counts", "HeatUnit", "enter", "heat_unit", "without_dead"]

_ZERO_C_K = 273.15
_FULL_SCALE = 65535

PLAUSIBLE_K = (220.0, 420.0)
"""A scene's median lies in here (-53 to 147 C), or the counts are not what they are said to be.
Source: the `-273.14 C` and 8-bit misreadings of PureThermal users."""

_COLDEST_K = 100.0
"""No part of a scene is colder, the clear sky neither: such a pixel is dead, or has no value."""

_LEAST_KELVIN_PER_COUNT, _MOST_KELVIN_PER_COUNT = 1e-4, 100.0
_DEAD_SHARE = 0.005
"""Where more pixels than this share stand at an end of the scale, it is the scale that ends, not they."""


@dataclass(frozen=True)
class HeatUnit:
    """What a raw thermal value is: kelvin = kelvin_per_count * value + kelvin_at_zero.

    Attributes:
        name: as it was given: "centikelvin", "0.04", "linear:0.04:-273.15", ...
        kelvin_per_count: what one count is worth in kelvin, or None for counts of unknown unit.
        kelvin_at_zero: the temperature of the value 0, in kelvin.
    """

    name: str
    kelvin_per_count: float | None = None
    kelvin_at_zero: float = 0.0

    def __post_init__(self) -> None:
        gain = self.kelvin_per_count
        if gain is not None:
            gain = number(gain, f"unit {self.name}: kelvin a count")
            if not _LEAST_KELVIN_PER_COUNT <= gain <= _MOST_KELVIN_PER_COUNT:
                raise ConfigError(
                    f"unit {self.name}: expected {_LEAST_KELVIN_PER_COUNT:g} to {_MOST_KELVIN_PER_COUNT:g} "
                    f"kelvin a count, found {gain:g}"
                )
        shift = number(self.kelvin_at_zero, f"unit {self.name}: kelvin at zero")
        put(self, name=text(self.name, "unit"), kelvin_per_count=gain, kelvin_at_zero=shift)

    @classmethod
    def linear(cls, kelvin_per_count: float, kelvin_at_zero: float = 0.0) -> HeatUnit:
        """Makes the unit of a camera with a law of its own: kelvin = gain * count + kelvin at count 0."""
        return cls(f"linear:{kelvin_per_count:.10g}:{kelvin_at_zero:.10g}", kelvin_per_count, kelvin_at_zero)

    @property
    def absolute(self) -> bool:
        """Whether temperatures follow from the values."""
        return self.kelvin_per_count is not None

    def __str__(self) -> str:
        return self.name


_TABLE = {
    unit.name: unit
    for unit in (
        HeatUnit("counts"),
        HeatUnit("centikelvin", 0.01),
        HeatUnit("decikelvin", 0.1),
        HeatUnit("kelvin", 1.0),
        HeatUnit("kelvin/64", 1.0 / 64.0),
        HeatUnit("celsius", 1.0, _ZERO_C_K),
    )
}

UNIT_WORDS = tuple(_TABLE)
"""The words of every `unit=`; besides, kelvin a count like 0.04, and linear:GAIN:OFFSET in kelvin."""

_LINEAR = "linear:"
_EXPECTED = (
    f"{', '.join(UNIT_WORDS)}, kelvin a count like 0.04, or linear:GAIN:OFFSET "
    "(kelvin = GAIN * count + OFFSET)"
)


def heat_unit(value: HeatUnit | str | float, where: str = "thermal frame") -> HeatUnit:
    """Returns the unit that a word, a number or a `HeatUnit` names.

    Arguments:
        value: one of `UNIT_WORDS`, a number of kelvin a count, or "linear:GAIN:OFFSET".
        where: whose unit it is, for messages.

    Raises:
        ConfigError: it is none of these; the message names the nearest word.
    """
    if isinstance(value, HeatUnit):
        return value
    word = str(getattr(value, "value", value)) if isinstance(value, (str, int, float)) else ""
    if isinstance(value, bool):
        word = ""
    if word in _TABLE:
        return _TABLE[word]
    try:
        if word.startswith(_LINEAR):
            gain, _, shift = word[len(_LINEAR) :].partition(":")
            return replace(HeatUnit.linear(_finite(gain), _finite(shift)), name=word)
        return HeatUnit(word, _finite(word))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    except ValueError:
        close = get_close_matches(word.lower(), UNIT_WORDS, n=1, cutoff=0.5)
        hint = f". Did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"{where}: unit: expected {_EXPECTED}, found {value!r}{hint}") from None


class Counts(NamedTuple):
    """A thermal frame as it is inside the SDK.

    Attributes:
        image: uint16 [height, width].
        absolute: whether it is centikelvin; else counts.
        problem: why a frame in a known unit is no centikelvin, or "".
        dead: bool [height, width], True where a pixel gives no value; None where all do.
    """

    image: NDArray[np.uint16]
    absolute: bool
    problem: str
    dead: NDArray[np.bool_] | None


@np.errstate(
    invalid="ignore", over="ignore"
)  # damaged floating point is found by its value, not by a warning
def enter(values: NDArray[Any], unit: HeatUnit) -> Counts:
    """Takes a thermal frame in: converts it, finds dead pixels, and refuses degrees that no scene has.

    Arguments:
        values: [height, width] of 16 bits or more, or floating point.
        unit: what a value is.

    Copies: only where values are converted; uint16 centikelvin and counts stay the array given.

    Raises:
        ShapeError: another dtype or shape, or floating point and negative numbers without a unit.
    """
    _check(values, unit)
    if unit.kelvin_per_count is None:
        counts = values if values.dtype == np.uint16 else values.astype(np.uint16)
        return Counts(counts, False, "", _isolated(counts, (0, _FULL_SCALE)))
    image = _centikelvin(values, unit)
    cold = _where_cold(image)
    problem, dead = _judge(image, cold, unit, values)
    if problem:
        counts = _relative(values)
        return Counts(counts, False, problem, _isolated(counts, (0, _FULL_SCALE)))
    return Counts(image, True, "", dead)


def without_dead(image: NDArray[np.uint16], dead: NDArray[np.bool_] | None) -> NDArray[np.uint16]:
    """Fills dead pixels with the mean of those around them, for pictures and networks.

    Copies: unless no pixel is dead.
    """
    if dead is None:
        return image
    filled: NDArray[np.uint16] = image.copy()
    missing = dead.copy()
    while missing.any() and not missing.all():
        rows, columns = np.nonzero(missing)
        values, known = _around(filled, rows, columns), _around(~missing, rows, columns)
        count = known.sum(axis=0)
        there = count > 0
        means = np.where(known, values, 0).sum(axis=0)[there] // count[there]
        filled[rows[there], columns[there]] = means
        missing[rows[there], columns[there]] = False
    return filled


def _finite(digits: str) -> float:
    value = float(digits)
    if not isfinite(value):
        raise ValueError(digits)
    return value


def _check(values: NDArray[Any], unit: HeatUnit) -> None:
    if values.dtype == np.uint16 and values.ndim == 2:
        return
    expected = "uint16 [height, width] raw counts"
    found = f"{values.dtype} {list(values.shape)}"
    if values.ndim == 3 and values.shape[2] in (3, 4) and values.dtype == np.uint8:
        raise ShapeError(
            "thermal frame",
            expected,
            found,
            "This looks like a colour picture. Were RGB and thermal swapped? A coloured thermal picture has "
            "lost its radiometry; read the camera's raw 16-bit stream (Y16).",
        )
    kind, wide = values.dtype.kind, values.dtype.itemsize >= 2
    if values.ndim != 2 or kind not in "uif" or not wide:
        raise ShapeError(
            "thermal frame",
            expected,
            found,
            "An 8-bit or coloured thermal picture has lost its radiometry; "
            "read the camera's raw 16-bit stream (Y16) or a 16-bit PNG or TIFF.",
        )
    if unit.absolute:
        return
    if kind == "f":
        raise ShapeError(
            "thermal frame", expected, found, "Say what the numbers are: unit 'kelvin' or 'celsius'."
        )
    if values.size and (values.min() < 0 or values.max() > _FULL_SCALE):
        raise ShapeError(
            "thermal frame",
            f"{expected}, 0 to {_FULL_SCALE}",
            f"{found}, {values.min()} to {values.max()}",
            "Say what a count is, like unit 'linear:0.01:273.15' for hundredths of a degree Celsius.",
        )


def _centikelvin(values: NDArray[Any], unit: HeatUnit) -> NDArray[np.uint16]:
    """Converts to centikelvin, clipped to 0 - 65535; what is no number becomes 0, which is no temperature."""
    assert unit.kelvin_per_count is not None
    if values.dtype == np.uint16:
        if (unit.kelvin_per_count, unit.kelvin_at_zero) == (0.01, 0.0):
            return values
        converted: NDArray[np.uint16] = _table(unit.kelvin_per_count, unit.kelvin_at_zero)[values]
        return converted
    kelvin = np.asarray(values, np.float64) * unit.kelvin_per_count + unit.kelvin_at_zero
    return _rounded(np.nan_to_num(kelvin, nan=0.0, posinf=1e6, neginf=0.0))


@lru_cache(maxsize=8)
def _table(gain: float, shift: float) -> NDArray[np.uint16]:
    return _rounded(np.arange(_FULL_SCALE + 1, dtype=np.float64) * gain + shift)


def _rounded(kelvin: NDArray[np.float64]) -> NDArray[np.uint16]:
    return np.clip(np.floor(kelvin * 100.0 + 0.5), 0, _FULL_SCALE).astype(np.uint16)


def _relative(values: NDArray[Any]) -> NDArray[np.uint16]:
    """The camera's own counts; of floating point and wide integers, as fine as 16 bits hold them."""
    if values.dtype == np.uint16:
        return values
    numbers = np.asarray(values, np.float64)
    finite = numbers[np.isfinite(numbers)]
    least, most = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    numbers = np.nan_to_num(numbers, nan=least, posinf=most, neginf=least) - min(0.0, least)
    scale: float = 100.0
    while scale * float(numbers.max()) > _FULL_SCALE:
        scale /= 10.0
    counts: NDArray[np.uint16] = np.rint(numbers * scale).astype(np.uint16)
    return counts


def _where_cold(image: NDArray[np.uint16]) -> NDArray[np.bool_] | None:
    least = round(_COLDEST_K * 100)
    return image < least if int(image.min()) < least else None


def _judge(
    image: NDArray[np.uint16], cold: NDArray[np.bool_] | None, unit: HeatUnit, values: NDArray[Any]
) -> tuple[str, NDArray[np.bool_] | None]:
    """Says why centikelvin cannot be believed, or ""; and which pixels are dead."""
    few = _thinned(image)
    median = float(np.partition(few, few.size // 2, axis=None)[few.size // 2])
    low, high = (limit * 100 for limit in PLAUSIBLE_K)
    if not low <= median <= high:
        hint = _likelier(float(np.median(_thinned(values))))
        return f"median of {median / 100 - _ZERO_C_K:.1f} C is no scene's: values are not {unit}{hint}", None
    if int(image.max()) < _FULL_SCALE:
        return "", cold
    full = image == _FULL_SCALE
    alone = _isolated(image, (_FULL_SCALE,))
    beyond = np.count_nonzero(full) - (0 if alone is None else np.count_nonzero(alone))
    if beyond:
        return f"{beyond} pixels at full scale (382 C or more)", None
    return "", alone if cold is None or alone is None else cold | alone


def _likelier(middle: float) -> str:
    """Names the units of the table in which a frame's median would be a scene's."""
    low, high = PLAUSIBLE_K
    likely = [
        unit.name
        for unit in _TABLE.values()
        if unit.kelvin_per_count is not None
        and low <= middle * unit.kelvin_per_count + unit.kelvin_at_zero <= high
    ]
    return f" ({' or '.join(likely)} would fit)" if likely else ""


def _isolated(image: NDArray[np.uint16], ends: tuple[int, ...]) -> NDArray[np.bool_] | None:
    """Pixels at an end of the scale, far beyond all others, whose neighbours are all nearer to the middle.

    A lens spreads what is truly hot over its neighbours: an end of the scale alone is a dead pixel.
    """
    least, most = int(image.min()), int(image.max())
    ends = tuple(end for end in ends if end in (least, most))
    if not ends:
        return None
    few = _thinned(image)
    low, middle, high = (float(value) for value in np.percentile(few, (5, 50, 95)))
    dead: NDArray[np.bool_] | None = None
    for end in ends:
        if abs(end - middle) <= high - low:
            continue
        rows, columns = np.nonzero(image == end)
        if len(rows) > max(1, _DEAD_SHARE * image.size):
            continue
        around = _around(image, rows, columns).astype(np.float64)
        alone = (np.abs(around - middle) < np.abs(around - end)).all(axis=0)
        if alone.any():
            dead = np.zeros(image.shape, np.bool_) if dead is None else dead
            dead[rows[alone], columns[alone]] = True
    return dead


def _thinned(image: NDArray[Any]) -> NDArray[Any]:
    step = max(1, min(image.shape[1] // 40, image.shape[0] // 32))
    return image[::step, ::step]


def _around(image: NDArray[Any], rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[Any]:
    """The eight neighbours of pixels, [8, n]; at the border those inside are taken again."""
    height, width = image.shape
    shifts = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx]
    found = []
    for dy, dx in shifts:
        y = np.where((rows + dy < 0) | (rows + dy >= height), rows - dy, rows + dy)
        x = np.where((columns + dx < 0) | (columns + dx >= width), columns - dx, columns + dx)
        found.append(image[np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)])
    return np.stack(found)
