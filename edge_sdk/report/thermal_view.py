"""The thermal frame as a picture for people: its display range, and how it lies on the RGB frame."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk.frames import ThermalFrame, ThermalUnit

__all__ = ["Span", "display_span", "lay_on_rgb", "level_of"]

_LOW_PERCENTILE, _HIGH_PERCENTILE = 1.0, 99.95
"""The display's range; a hot spot of a few pixels must not be cut off at the top."""

_LEAST_SPAN = {ThermalUnit.CENTIKELVIN: 300, ThermalUnit.COUNTS: 32}
"""The least range of the display in counts, so that an even scene does not show as noise."""

_HALF_PIXEL = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1.0]])


@dataclass(frozen=True)
class Span:
    """The range of counts that the colours cover."""

    low: float
    high: float


def display_span(frame: ThermalFrame) -> Span:
    """Returns the range of a frame that a display shows: its 1st to its 99.95th percentile."""
    low, high = (float(v) for v in np.percentile(frame.filled, (_LOW_PERCENTILE, _HIGH_PERCENTILE)))
    lacking = max(0.0, _LEAST_SPAN.get(frame.unit, 32) - (high - low)) / 2
    return Span(low - lacking, high + lacking)


def lay_on_rgb(
    frame: ThermalFrame,
    matrix: NDArray[np.float64] | None,
    frame_wh: tuple[int, int],
    size_wh: tuple[int, int],
) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Lays a thermal frame on the RGB frame.

    Arguments:
        frame: the frame.
        matrix: 3x3 from thermal to RGB coordinates; None stretches the one over the other.
        frame_wh: size of the RGB frame in pixels.
        size_wh: size of the picture wanted, of the same shape as the RGB frame.

    Returns: counts float32 [height, width]; and uint8 [height, width], 1 where the camera sees.
    """
    if matrix is None:
        width, height = frame.size_wh
        matrix = np.diag([frame_wh[0] / width, frame_wh[1] / height, 1.0])
    to_picture = np.diag([size_wh[0] / frame_wh[0], size_wh[1] / frame_wh[1], 1.0])
    centred = np.linalg.inv(_HALF_PIXEL) @ to_picture @ matrix @ _HALF_PIXEL
    raw = cv2.warpPerspective(
        frame.filled.astype(np.float32), centred, size_wh, borderMode=cv2.BORDER_REPLICATE
    )
    seen = cv2.warpPerspective(
        np.ones(frame.image.shape, np.uint8), centred, size_wh, flags=cv2.INTER_NEAREST
    )
    return np.asarray(raw, np.float32), np.asarray(seen, np.uint8)


def level_of(raw: NDArray[np.float32], span: Span, low: int = 0) -> NDArray[np.uint8]:
    """Returns counts as levels from `low` to 255 over the span, uint8 of the same shape."""
    level = (raw - span.low) * ((255 - low) / (span.high - span.low)) + low
    return np.asarray(np.clip(level, low, 255), np.uint8)
