"""The heat under each box, from the raw thermal frame."""

from __future__ import annotations

from math import ceil, floor
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk.detections import BoxTemperatures
from edge_sdk.frames import (
    KELVIN_PER_CENTIKELVIN,
    ThermalFrame,
    ThermalPlane,
    ThermalUnit,
    middle_value,
)

__all__ = ["temperatures"]

_RING_SHARE = 0.5
_RING_MIN_PX = 3
_RING_SAMPLES = 512
_HOTTEST_COUNT = 65535

_SLANT_PX = 0.5
"""Up to so many pixels a box is as good as upright in the thermal frame."""

_MASK_BITS = 4
_FARTHEST = 1 << 26
"""Corners of a slanted box are rounded to 2^-4 of a pixel, and no farther away than OpenCV can draw."""


def temperatures(
    frame: ThermalFrame, plane: ThermalPlane, xyxy: NDArray[np.float32]
) -> tuple[BoxTemperatures | None, ...]:
    """Reads the heat under each box from the raw thermal frame, before any resampling.

    Arguments:
        frame: raw counts.
        plane: how the frame was laid on the network's input.
        xyxy: boxes [n, 4] in input pixels.

    Where the cameras are turned against each other a box is a slanted quadrilateral of the thermal frame;
    pixels beside it do not count, nor do dead pixels.

    Returns: one entry a box; None where the box is outside the thermal frame, or has no pixel with a value.
    """
    if not len(xyxy):
        return ()
    absolute = frame.unit is ThermalUnit.CENTIKELVIN
    factor, unit = (KELVIN_PER_CENTIKELVIN, "K") if absolute else (1.0, "counts")
    return tuple(
        None if place is None else _box_temperatures(frame, place, factor, unit)
        for place in _thermal_places(plane, xyxy, frame.size_wh)
    )


class _Place(NamedTuple):
    """A box in the thermal frame: the whole pixels around it, and its corners where it is slanted."""

    left: int
    top: int
    right: int
    bottom: int
    corners: tuple[tuple[float, float], ...] | None


def _thermal_places(
    plane: ThermalPlane, xyxy: NDArray[np.float32], size_wh: tuple[int, int]
) -> list[_Place | None]:
    """Where each box lies in the thermal frame; None outside it."""
    to_thermal = np.linalg.inv(plane.to_input)
    (a, b, c), (d, e, f), (g, h, _) = (to_thermal / to_thermal[2, 2]).tolist()
    width, height = size_wh
    places: list[_Place | None] = []
    # In plain Python: a dozen boxes are too few to pay for NumPy's calls.
    for x0, y0, x1, y1 in xyxy.tolist():
        gx0, gx1, hy0, hy1 = g * x0 + 1.0, g * x1 + 1.0, h * y0, h * y1
        d00, d10, d11, d01 = gx0 + hy0, gx1 + hy0, gx1 + hy1, gx0 + hy1
        if min(d00, d10, d11, d01) <= 1e-9:  # A corner beyond the homography's horizon has no place.
            places.append(None)
            continue
        ax0, ax1, by0, by1 = a * x0 + c, a * x1 + c, b * y0, b * y1
        u00, u10, u11, u01 = (ax0 + by0) / d00, (ax1 + by0) / d10, (ax1 + by1) / d11, (ax0 + by1) / d01
        dx0, dx1, ey0, ey1 = d * x0 + f, d * x1 + f, e * y0, e * y1
        v00, v10, v11, v01 = (dx0 + ey0) / d00, (dx1 + ey0) / d10, (dx1 + ey1) / d11, (dx0 + ey1) / d01
        left, top = min(u00, u10, u11, u01), min(v00, v10, v11, v01)
        right, bottom = max(u00, u10, u11, u01), max(v00, v10, v11, v01)
        if left < width and top < height and right > 0 and bottom > 0:
            slant = max(abs(u00 - u01), abs(u10 - u11), abs(v00 - v10), abs(v01 - v11))
            slanted = min(slant, abs(right - left - slant)) > _SLANT_PX
            places.append(
                _Place(
                    max(floor(left + 1e-6), 0),
                    max(floor(top + 1e-6), 0),
                    min(ceil(right - 1e-6), width),
                    min(ceil(bottom - 1e-6), height),
                    ((u00, v00), (u10, v10), (u11, v11), (u01, v01)) if slanted else None,
                )
            )
        else:
            places.append(None)
    return places


def _box_temperatures(frame: ThermalFrame, place: _Place, factor: float, unit: str) -> BoxTemperatures | None:
    image = frame.image
    left, top, right, bottom, corners = place
    if right <= left or bottom <= top:
        return None
    height, width = image.shape
    margin_x = max(_RING_MIN_PX, int((right - left) * _RING_SHARE))
    margin_y = max(_RING_MIN_PX, int((bottom - top) * _RING_SHARE))
    outer_left, outer_right = max(left - margin_x, 0), min(right + margin_x, width)
    outer_top, outer_bottom = max(top - margin_y, 0), min(bottom + margin_y, height)
    if corners is not None or frame.dead is not None:
        outer = slice(outer_top, outer_bottom), slice(outer_left, outer_right)
        dead = None if frame.dead is None else frame.dead[outer]
        if corners is not None or (dead is not None and dead.any()):
            box = left - outer_left, top - outer_top, right - outer_left, bottom - outer_top
            mask = _mask_of(image[outer].shape, box, corners, (outer_left, outer_top))
            return _masked_temperatures(image[outer], mask, dead, factor, unit)
    inside = image[top:bottom, left:right]
    area = (outer_right - outer_left) * (outer_bottom - outer_top) - inside.size
    # One pass each in OpenCV; NumPy takes five times as long on crops of this size.
    coldest, hottest, _, _ = cv2.minMaxLoc(inside)
    delta = None
    if area:
        strips = (top - outer_top, left - outer_left, outer_bottom - bottom, outer_right - right)
        thinnest = min(strip for strip in strips if strip)  # A longer step could miss it.
        step = max(1, min(round((area / _RING_SAMPLES) ** 0.5), thinnest))
        around = image[outer_top:outer_bottom:step, outer_left:outer_right:step].copy()
        # The box itself goes to the end of the order, where the median does not look.
        rows = slice(-((outer_top - top) // step), -((outer_top - bottom) // step))
        columns = slice(-((outer_left - left) // step), -((outer_left - right) // step))
        covered = around[rows, columns]
        covered[:] = _HOTTEST_COUNT
        middle = (around.size - covered.size) // 2
        delta = (hottest - float(np.partition(around, middle, axis=None)[middle])) * factor
    return BoxTemperatures(unit, coldest * factor, cv2.mean(inside)[0] * factor, hottest * factor, delta)


def _mask_of(
    shape_hw: tuple[int, ...],
    box: tuple[int, int, int, int],
    corners: tuple[tuple[float, float], ...] | None,
    origin: tuple[int, int],
) -> NDArray[np.bool_]:
    """True on the pixels of a crop that a box covers; its corners are given in pixels of the frame."""
    mask = np.zeros(shape_hw, np.uint8)
    left, top, right, bottom = box
    if corners is None:
        mask[top:bottom, left:right] = 1
    else:
        # OpenCV counts from the centre of the first pixel, in sixteenths here.
        points = np.rint((np.asarray(corners) - origin - 0.5) * (1 << _MASK_BITS))
        within = np.clip(points, -_FARTHEST, _FARTHEST).astype(np.int32)
        cv2.fillConvexPoly(mask, within, 1, shift=_MASK_BITS)
    return mask.view(np.bool_)


def _masked_temperatures(
    image: NDArray[np.uint16],
    mask: NDArray[np.bool_],
    dead: NDArray[np.bool_] | None,
    factor: float,
    unit: str,
) -> BoxTemperatures | None:
    """As `_box_temperatures`, of the pixels under a mask; those beside it are the surroundings."""
    inside = image[mask if dead is None else mask & ~dead]
    around = image[~mask if dead is None else ~(mask | dead)]
    if not inside.size:
        return None
    hottest = float(inside.max())
    delta = None if not around.size else (hottest - middle_value(around)) * factor
    return BoxTemperatures(
        unit, float(inside.min()) * factor, float(inside.mean()) * factor, hottest * factor, delta
    )
