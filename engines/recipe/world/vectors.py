"""Small vector geometry for the world builder.

World frame: x right, y away from the usual camera, z up; metres.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def unit(vector: ArrayLike) -> Array:
    """Returns the vector scaled to length 1."""
    values = np.asarray(vector, dtype=np.float64)
    return values / np.linalg.norm(values)


def frame_along(axis: ArrayLike) -> Array:
    """Returns a right-handed rotation matrix whose third column is the axis."""
    third = unit(axis)
    helper = [0.0, 1.0, 0.0] if abs(third[1]) < 0.9 else [1.0, 0.0, 0.0]
    first = unit(np.cross(helper, third))
    return np.stack([first, np.cross(third, first), third], axis=1)


def yaw_rotation(yaw_rad: float) -> Array:
    """Returns the rotation about the vertical by ``yaw_rad``."""
    cosine, sine = np.cos(yaw_rad), np.sin(yaw_rad)
    return np.array([[cosine, -sine, 0.0], [sine, cosine, 0.0], [0.0, 0.0, 1.0]])


def bulged_line(
    start: ArrayLike, end: ArrayLike, bulge: ArrayLike = (0.0, 0.0, 0.0), step_m: float = 0.07
) -> Array:
    """Returns points from start to end along a parabola displaced by ``bulge`` at mid-span, about
    ``step_m`` apart.
    """
    first, last = np.asarray(start, dtype=np.float64), np.asarray(end, dtype=np.float64)
    count = int(np.clip(np.linalg.norm(last - first) / step_m, 6, 90)) + 1
    share = np.linspace(0.0, 1.0, count)[:, None]
    return first * (1 - share) + last * share + 4 * share * (1 - share) * np.asarray(bulge, dtype=np.float64)
