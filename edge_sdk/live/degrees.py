"""Heat in the words of the page: degrees Celsius where a frame gives them, else counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.detections import BoxTemperatures
from edge_sdk.frames import ThermalFrame, ThermalUnit

__all__ = ["COUNTS", "DEGREES", "heat_of_box", "hottest_at", "unit_of", "value_of"]

DEGREES, COUNTS = "°C", "counts"
_ZERO_C_IN_CENTIKELVIN, _ZERO_C_K = 27315, 273.15
_FULL_SCALE = 65535
"""A pixel at full scale is dead or beyond what the format holds: no temperature."""


def unit_of(frame: ThermalFrame) -> str:
    """Returns the unit that `value_of` gives: "°C" or "counts"."""
    return DEGREES if frame.unit is ThermalUnit.CENTIKELVIN else COUNTS


def value_of(raw: float, frame: ThermalFrame) -> float:
    """Returns a raw value of a frame in `unit_of` it, rounded as people read it."""
    if frame.unit is ThermalUnit.CENTIKELVIN:
        return round((raw - _ZERO_C_IN_CENTIKELVIN) / 100, 1)
    return round(raw, 0)


def hottest_at(frame: ThermalFrame) -> tuple[int, int, int]:
    """Finds the hottest pixel of a frame; pixels at full scale are left out unless all are.

    Returns: its row, its column and its raw value.
    """
    image: NDArray[np.uint16] = frame.filled
    at = int(np.argmax(image))
    if image.flat[at] == _FULL_SCALE:
        sound = np.where(image == _FULL_SCALE, 0, image)
        at = int(np.argmax(sound)) if sound.any() else at
    row, column = divmod(at, image.shape[1])
    return row, column, int(image[row, column])


def heat_of_box(heat: BoxTemperatures | None) -> dict[str, Any]:
    """Returns the heat under a box in JSON types: "unit", "max", "mean" and "rise"; all None without any."""
    if heat is None:
        return {"unit": None, "max": None, "mean": None, "rise": None}
    zero = _ZERO_C_K if heat.unit == "K" else 0.0
    return {
        "unit": DEGREES if heat.unit == "K" else COUNTS,
        "max": round(heat.max - zero, 1),
        "mean": round(heat.mean - zero, 1),
        "rise": None if heat.delta is None else round(heat.delta, 1),
    }
