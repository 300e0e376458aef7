"""A registration from points that a person picked in both pictures, and how well it fits them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import ConfigError
from edge_sdk.frames import Registration

__all__ = ["RegistrationFit", "fit_registration"]

_LEAST_POINTS, _MOST_POINTS = 4, 64
_LEAST_SPREAD = 0.02
"""Least spread of the points across their main line, as a share of the picture's diagonal."""


@dataclass(frozen=True, eq=False)
class RegistrationFit:
    """A registration, and how far each picked point is from where it says.

    Attributes:
        registration: least squares over all points.
        residual_px: a point, in pixels of the RGB frame.
        rms_px: their root mean square; 0 by construction with four points.
        left_out_px: a point, how far it is from where the others alone say; empty with four points. This,
            not `rms_px`, tells how well the registration holds elsewhere in the picture.
    """

    registration: Registration
    residual_px: tuple[float, ...]
    rms_px: float
    left_out_px: tuple[float, ...]

    @property
    def note(self) -> str:
        """What the figures can and cannot say."""
        if not self.left_out_px:
            return "Four points always fit exactly: add a fifth to see an error. Exact for one depth only."
        return (
            f"Each point is within {max(self.left_out_px):.1f} px of where the others put it. "
            "Exact for one depth only."
        )


def fit_registration(
    thermal_xy: Sequence[tuple[float, float]],
    rgb_xy: Sequence[tuple[float, float]],
    thermal_size_wh: tuple[int, int],
    rgb_size_wh: tuple[int, int],
) -> RegistrationFit:
    """Estimates the homography that lays thermal points on their RGB partners.

    Arguments:
        thermal_xy, rgb_xy: partners in the same order, in pixels of their own picture; the outer corner
            of the first pixel is (0, 0).
        thermal_size_wh, rgb_size_wh: sizes of the pictures.

    Raises:
        ConfigError: too few points, points outside, all near one line, or a map that folds the picture.
    """
    count = len(thermal_xy)
    if count != len(rgb_xy):
        raise ConfigError(f"as many points in each picture are needed, found {count} and {len(rgb_xy)}")
    if not _LEAST_POINTS <= count <= _MOST_POINTS:
        raise ConfigError(f"{_LEAST_POINTS} - {_MOST_POINTS} pairs of points are needed, found {count}")
    thermal = _checked("thermal", thermal_xy, thermal_size_wh)
    rgb = _checked("RGB", rgb_xy, rgb_size_wh)
    matrix = _estimate(thermal, rgb)
    if matrix is None or not _keeps_orientation(matrix, thermal_size_wh):
        raise ConfigError(
            "these points turn the picture inside out: two of them are probably swapped. Remove the last pair"
        )
    residual = _distance_px(matrix, thermal, rgb)
    left_out = []
    if count > _LEAST_POINTS:
        for index in range(count):
            others = np.arange(count) != index
            partial = _estimate(thermal[others], rgb[others])
            distance = np.inf if partial is None else _distance_px(partial, thermal[~others], rgb[~others])[0]
            left_out.append(float(min(distance, sum(rgb_size_wh))))
    first, second, third = ((float(a), float(b), float(c)) for a, b, c in matrix)
    rms = float(np.sqrt(np.mean(residual**2)))
    return RegistrationFit(
        Registration(
            (first, second, third),
            rgb_size_wh,
            thermal_size_wh,
            None,
            f"picked: {count} points, {rms:.2f} px",
        ),
        tuple(float(distance) for distance in residual),
        rms,
        tuple(left_out),
    )


def _checked(
    name: str, points: Sequence[tuple[float, float]], size_wh: tuple[int, int]
) -> NDArray[np.float64]:
    array = np.asarray(points, np.float64)
    if array.shape != (len(points), 2) or not np.isfinite(array).all():
        raise ConfigError(f"{name} points: expected pairs of finite numbers")
    if (array < 0).any() or (array > np.asarray(size_wh)).any():
        raise ConfigError(f"{name} points: one lies outside the picture of {size_wh[0]}x{size_wh[1]} pixels")
    spread = np.linalg.svd(array - array.mean(axis=0), compute_uv=False)[1] / np.sqrt(len(array))
    if spread < _LEAST_SPREAD * float(np.hypot(*size_wh)):
        raise ConfigError(
            f"{name} points: all near one line; spread them over the picture, towards its corners"
        )
    return array


def _estimate(thermal: NDArray[np.float64], rgb: NDArray[np.float64]) -> NDArray[np.float64] | None:
    matrix = cv2.findHomography(thermal, rgb, 0)[0]
    if matrix is None or not np.isfinite(matrix).all() or abs(np.linalg.det(matrix)) < 1e-9:
        return None
    return np.asarray(matrix, np.float64)


def _keeps_orientation(matrix: NDArray[np.float64], size_wh: tuple[int, int]) -> bool:
    """Whether every corner of the picture stays in front and the corners keep their order."""
    width, height = size_wh
    corners = np.array([[0, 0, 1], [width, 0, 1], [width, height, 1], [0, height, 1]], np.float64)
    mapped = corners @ matrix.T
    if not ((mapped[:, 2] > 0).all() or (mapped[:, 2] < 0).all()):
        return False
    flat = mapped[:, :2] / mapped[:, 2:]
    sides = np.roll(flat, -1, axis=0) - flat
    turns = sides[:, 0] * np.roll(sides[:, 1], -1) - sides[:, 1] * np.roll(sides[:, 0], -1)
    return bool((turns > 0).all())


def _distance_px(
    matrix: NDArray[np.float64], thermal: NDArray[np.float64], rgb: NDArray[np.float64]
) -> NDArray[np.float64]:
    mapped = np.column_stack([thermal, np.ones(len(thermal))]) @ matrix.T
    distance: NDArray[np.float64] = np.hypot(*(mapped[:, :2] / mapped[:, 2:] - rgb).T)
    return distance
