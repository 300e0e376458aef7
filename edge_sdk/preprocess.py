"""From camera frames to the 8-bit images a graph reads. Training and calibration use this very code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import ShapeError
from edge_sdk.frames import Registration, ThermalFrame, ThermalPlane
from edge_sdk.radiometry import Radiometry, median_counts

__all__ = ["Letterbox", "rgb_into", "thermal_into", "thermal_plane"]

_PAD_RGB = 114
"""Grey of the bars beside a letterboxed picture."""


_AREA_BELOW = 0.5
"""Under this scale bilinear sampling skips pixels and aliases; above it, it is 5 - 10 times faster."""


@dataclass(frozen=True)
class Letterbox:
    """How a frame lies in a network's input: scaled by one factor, centred, bars beside it.

    Attributes:
        frame_wh, input_wh: width and height in pixels.
        scale: input pixels per frame pixel.
        left, top: size of the bars in input pixels.
    """

    frame_wh: tuple[int, int]
    input_wh: tuple[int, int]
    scale: float
    left: int
    top: int

    @classmethod
    def fit(cls, frame_wh: tuple[int, int], input_wh: tuple[int, int]) -> Letterbox:
        """Fits a frame into a network input."""
        scale = min(input_wh[0] / frame_wh[0], input_wh[1] / frame_wh[1])
        width, height = _inner(frame_wh, scale)
        return cls(frame_wh, input_wh, scale, (input_wh[0] - width) // 2, (input_wh[1] - height) // 2)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """3x3, frame coordinates to input coordinates (corner of the first pixel at 0)."""
        scale_x, scale_y = self._scales
        return np.array([[scale_x, 0, self.left], [0, scale_y, self.top], [0, 0, 1.0]])

    @property
    def inner_wh(self) -> tuple[int, int]:
        """Width and height of the picture between the bars, in input pixels."""
        return _inner(self.frame_wh, self.scale)

    @property
    def _scales(self) -> tuple[float, float]:
        """Those of the resized picture, whose sides are whole pixels: `scale` to within half a pixel."""
        width, height = self.inner_wh
        return width / self.frame_wh[0], height / self.frame_wh[1]

    def boxes_to_frame(self, xyxy: NDArray[np.float32]) -> NDArray[np.float32]:
        """Maps boxes [n, 4] from input pixels to frame pixels, clipped to the frame. Copies: yes."""
        shift, scales, limit = self._box_terms
        boxes = (xyxy - shift) / scales
        clipped: NDArray[np.float32] = np.minimum(np.maximum(boxes, np.float32(0)), limit)
        return clipped

    @cached_property
    def _box_terms(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        return (
            np.array([self.left, self.top] * 2, dtype=np.float32),
            np.array(self._scales * 2, dtype=np.float32),
            np.array(self.frame_wh * 2, dtype=np.float32),
        )


def rgb_into(image: NDArray[np.uint8], letterbox: Letterbox, out: NDArray[np.uint8]) -> None:
    """Lays an RGB frame into a network input.

    Arguments:
        image: uint8 [height, width, 3].
        letterbox: made for this frame size and this input.
        out: uint8 [input height, input width, 3], written.

    Copies: resized into `out`. Nothing where the frame was read straight into `out` (`Source.read_into`).

    Raises:
        ShapeError: `image` or `out` does not have the letterbox's sizes.
    """
    _check_size("RGB frame", image, letterbox.frame_wh)
    _check_size("RGB input", out, letterbox.input_wh, np.uint8)
    width, height = letterbox.inner_wh
    interpolation = cv2.INTER_AREA if letterbox.scale < _AREA_BELOW else cv2.INTER_LINEAR
    if (width, height) == letterbox.input_wh:
        if image.shape == out.shape and np.may_share_memory(image, out):
            return
        cv2.resize(image, (width, height), dst=out, interpolation=interpolation)
        return
    out[:] = _PAD_RGB
    inner = out[letterbox.top : letterbox.top + height, letterbox.left : letterbox.left + width]
    cv2.resize(image, (width, height), dst=inner, interpolation=interpolation)


def thermal_into(
    frame: ThermalFrame,
    registration: Registration,
    letterbox: Letterbox,
    radiometry: Radiometry,
    raw_out: NDArray[np.uint16],
    out: NDArray[np.uint8],
    scratch: NDArray[np.intp] | None = None,
) -> ThermalPlane:
    """Lays a thermal frame onto the RGB frame's place in the network input and maps it to 8 bits.

    Arguments:
        frame: raw counts.
        registration: thermal pixels to RGB pixels; scaled to the sizes at hand.
        letterbox: that of the RGB frame.
        radiometry: the bundle's mapping.
        raw_out: uint16 [input height, input width], written: counts on the input grid.
        out: uint8 of the same shape, written: the network's input.
        scratch: intp of the same shape, overwritten; allocated where None.

    Dead pixels are filled from around them. Where the thermal camera does not look, `raw_out` has the
    frame's median and `out` the mapping's offset.

    Copies: warped into `raw_out`, mapped into `out`.

    Raises:
        ShapeError: an output does not have the letterbox's input size, or the wrong dtype; or the
            registration was made for frames of another aspect ratio.
    """
    _check_size("raw_out", raw_out, letterbox.input_wh, np.uint16)
    _check_size("thermal input", out, letterbox.input_wh, np.uint8)
    plane = thermal_plane(frame, registration, letterbox, radiometry)
    cv2.warpPerspective(
        frame.filled,
        _centred(plane.to_input),
        letterbox.input_wh,
        dst=raw_out,
        flags=cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_CONSTANT,
        borderValue=float(plane.median),
    )
    radiometry.map_into(raw_out, plane.median, plane.kelvin_per_count, out, scratch)
    return plane


def thermal_plane(
    frame: ThermalFrame, registration: Registration, letterbox: Letterbox, radiometry: Radiometry
) -> ThermalPlane:
    """Says where a thermal frame lies on the network's input, without laying it there.

    Arguments:
        frame, registration, letterbox, radiometry: see `thermal_into`.

    Raises:
        ShapeError: the registration was made for frames of another aspect ratio.
    """
    image = frame.filled
    return ThermalPlane(
        median_counts(image),
        radiometry.kelvin_per_count(image, frame.unit),
        letterbox.matrix @ registration.matrix_for(letterbox.frame_wh, frame.size_wh),
    )


def _centred(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """From corner coordinates to OpenCV's, which put the centre of the first pixel at 0."""
    centred: NDArray[np.float64] = matrix.copy()
    centred[:, 2] += 0.5 * (matrix[:, 0] + matrix[:, 1])
    centred[:2] -= 0.5 * centred[2]
    return centred


def _inner(frame_wh: tuple[int, int], scale: float) -> tuple[int, int]:
    return max(1, round(frame_wh[0] * scale)), max(1, round(frame_wh[1] * scale))


def _check_size(
    name: str,
    image: NDArray[np.generic],
    size_wh: tuple[int, int],
    dtype: type[np.generic] | None = None,
) -> None:
    """OpenCV would write an output of another size or dtype into memory of its own, in silence."""
    if dtype is not None and image.dtype != dtype:
        raise ShapeError(name, np.dtype(dtype).name, str(image.dtype))
    if (image.shape[1], image.shape[0]) != size_wh:
        raise ShapeError(
            name,
            f"{size_wh[0]}x{size_wh[1]} (width x height)",
            f"{image.shape[1]}x{image.shape[0]}",
        )
