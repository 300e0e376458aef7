"""Frames as a camera or a file gives them, and pairs of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import ShapeError

_Pixel = TypeVar("_Pixel", bound=np.generic)

__all__ = [
    "KELVIN_PER_CENTIKELVIN",
    "Calibration",
    "FfcState",
    "FramePair",
    "Registration",
    "RgbFrame",
    "ThermalFrame",
    "ThermalPlane",
    "ThermalUnit",
    "middle_value",
    "thinned",
]

KELVIN_PER_CENTIKELVIN = 0.01


class ThermalUnit(str, Enum):
    """What one count of a raw thermal frame means.

    CENTIKELVIN: 0.01 K, absolute (a radiometric camera in its linear mode).
    COUNTS: relative heat only; no degree may be claimed from it.
    """

    CENTIKELVIN = "centikelvin"
    COUNTS = "counts"


class Calibration(str, Enum):
    """Whether degrees may be read from a thermal frame.

    UNSTATED: a file or array whose unit is the caller's word.
    RADIOMETRIC: the camera says so, and the frame lies in its range.
    OUT_OF_RANGE: a radiometric camera, but this frame is beyond what it measures; its unit is counts.
    NONE: the camera gives no absolute temperature.
    """

    UNSTATED = "unstated"
    RADIOMETRIC = "radiometric"
    OUT_OF_RANGE = "out-of-range"
    NONE = "none"


class FfcState(str, Enum):
    """Where a thermal camera stands with its flat-field correction (the shutter that closes now and then)."""

    UNKNOWN = "unknown"
    NEVER = "never"
    IMMINENT = "imminent"
    IN_PROGRESS = "in-progress"
    COMPLETE = "complete"


@dataclass(frozen=True, eq=False)
class RgbFrame:
    """A colour picture.

    Attributes:
        image: uint8 [height, width, 3], red first. Shared, not copied: do not write to it.
        timestamp_ns: capture time on a monotonic clock, or None where the source has none.
        sequence: the camera's own number of the frame, or None where it gives none.
    """

    image: NDArray[np.uint8]
    timestamp_ns: int | None = None
    sequence: int | None = None

    def __post_init__(self) -> None:
        _require_array("RGB frame", "uint8 [height, width, 3]", self.image)
        if self.image.dtype != np.uint8 or self.image.ndim != 3 or self.image.shape[2] != 3:
            raise ShapeError(
                "RGB frame",
                "uint8 [height, width, 3]",
                f"{self.image.dtype} {list(self.image.shape)}",
                "Convert to 8-bit RGB first (cv2.cvtColor(image, cv2.COLOR_BGR2RGB)).",
            )
        _refuse_empty("RGB frame", self.image)

    @property
    def size_wh(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.image.shape[1], self.image.shape[0]


@dataclass(frozen=True, eq=False)
class ThermalFrame:
    """A raw thermal picture.

    Attributes:
        image: uint16 [height, width], raw counts. Shared, not copied: do not write to it.
        unit: what one count means.
        timestamp_ns: capture time on a monotonic clock, or None where the source has none.
        calibration: whether degrees may be read from it.
        ffc: state of the camera's flat-field correction when the frame was taken.
        sequence: the camera's own number of the frame, or None where it gives none.
    """

    image: NDArray[np.uint16]
    unit: ThermalUnit = ThermalUnit.COUNTS
    timestamp_ns: int | None = None
    calibration: Calibration = Calibration.UNSTATED
    ffc: FfcState = FfcState.UNKNOWN
    sequence: int | None = None

    def __post_init__(self) -> None:
        _require_array("thermal frame", "uint16 [height, width] raw counts", self.image)
        if self.image.dtype != np.uint16 or self.image.ndim != 2:
            raise ShapeError(
                "thermal frame",
                "uint16 [height, width] raw counts",
                f"{self.image.dtype} {list(self.image.shape)}",
                "An 8-bit or coloured thermal picture has lost its radiometry; "
                "read the camera's raw 16-bit stream (Y16) or a 16-bit PNG or TIFF.",
            )
        _refuse_empty("thermal frame", self.image)

    @property
    def size_wh(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.image.shape[1], self.image.shape[0]


@dataclass(frozen=True)
class Registration:
    """Where a thermal pixel falls in the RGB frame. Exact for one depth only.

    Coordinates are those of boxes: the outer corner of the first pixel is (0, 0), its centre (0.5, 0.5).

    Attributes:
        homography: 3x3, maps thermal pixel coordinates to RGB pixel coordinates.
        rgb_size_wh, thermal_size_wh: the frame sizes in pixels it was made for.
        depth_m: the distance at which it holds, in metres, or None where unknown.
        origin: where it comes from, for the record ("bundle", "clip", "assumed: same size", ...).
    """

    homography: tuple[tuple[float, float, float], ...]
    rgb_size_wh: tuple[int, int]
    thermal_size_wh: tuple[int, int]
    depth_m: float | None = None
    origin: str = "given"

    def __post_init__(self) -> None:
        try:
            matrix = np.asarray(self.homography, dtype=np.float64)
        except (TypeError, ValueError):
            raise ShapeError(
                "registration homography", "an invertible 3x3 matrix of finite numbers", repr(self.homography)
            ) from None
        if matrix.shape != (3, 3) or not np.isfinite(matrix).all() or abs(np.linalg.det(matrix)) < 1e-12:
            raise ShapeError(
                "registration homography",
                "an invertible 3x3 matrix of finite numbers",
                f"shape {list(matrix.shape)}: {matrix.tolist()}",
            )
        for name, size_wh in (("rgb_size_wh", self.rgb_size_wh), ("thermal_size_wh", self.thermal_size_wh)):
            if len(size_wh) != 2 or min(size_wh) < 1:
                raise ShapeError(f"registration {name}", "width and height of 1 or more pixels", f"{size_wh}")

    @classmethod
    def identity(cls, size_wh: tuple[int, int], origin: str) -> Registration:
        """Makes the registration of two frames that already share their pixels."""
        return cls(((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), size_wh, size_wh, None, origin)

    def matrix_for(
        self, rgb_size_wh: tuple[int, int], thermal_size_wh: tuple[int, int]
    ) -> NDArray[np.float64]:
        """Returns the homography for frames of other sizes of the same cameras (pure scaling).

        Arguments are (width, height) in pixels. Coordinates as in `Registration`.
        """
        matrix = np.array(self.homography, dtype=np.float64)
        if rgb_size_wh != self.rgb_size_wh:
            matrix = _resize_matrix(self.rgb_size_wh, rgb_size_wh) @ matrix
        if thermal_size_wh != self.thermal_size_wh:
            matrix = matrix @ _resize_matrix(thermal_size_wh, self.thermal_size_wh)
        return matrix

    def boxes_to_rgb(
        self,
        xyxy: NDArray[np.float32],
        rgb_size_wh: tuple[int, int],
        thermal_size_wh: tuple[int, int],
    ) -> NDArray[np.float32]:
        """Maps boxes [n, 4] of thermal pixels to the boxes around them in RGB pixels, clipped to the frame.

        Copies: yes.
        """
        matrix = self.matrix_for(rgb_size_wh, thermal_size_wh)
        corners = xyxy[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2).astype(np.float64)
        mapped = corners @ matrix[:2, :2].T + matrix[:2, 2]
        mapped /= (corners @ matrix[2, :2] + matrix[2, 2])[..., None]
        around = np.concatenate([mapped.min(axis=1), mapped.max(axis=1)], axis=1)
        clipped: NDArray[np.float32] = np.clip(around, 0, np.array(rgb_size_wh * 2)).astype(np.float32)
        return clipped


@dataclass(frozen=True, eq=False)
class ThermalPlane:
    """What is known of a thermal frame after it was laid on the network's input.

    Attributes:
        median: the frame's median in counts.
        kelvin_per_count: what a count is worth (see `Radiometry.kelvin_per_count`).
        to_input: 3x3, thermal coordinates to input coordinates.
    """

    median: int
    kelvin_per_count: float
    to_input: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FramePair:
    """An RGB and a thermal frame of the same moment; either may be missing.

    Attributes:
        key: names the pair within its source.
        rgb, thermal: the frames, or None when that camera gave none.
        registration: how the two lie on each other, or None for the engine bundle's default.
        skew_ms: thermal minus RGB capture time in milliseconds, or None where unknown.
        read_ns: time spent reading and decoding the pair, in nanoseconds.
        notes: what the source assumed or mended, for the record.
        rgb_fault, thermal_fault: why that camera's frame is missing ("lost", "ffc", "covered", ...), or
            None where it is there or nothing is known.
        still: True for a picture by itself (a file of a folder, an array), which says nothing of the next
            pair: the router then remembers nothing from one to the other. False for a part of a stream. None:
            see `is_still`.
    """

    key: str
    rgb: RgbFrame | None
    thermal: ThermalFrame | None
    registration: Registration | None = None
    skew_ms: float | None = None
    read_ns: int = 0
    notes: tuple[str, ...] = field(default=())
    rgb_fault: str | None = None
    thermal_fault: str | None = None
    still: bool | None = None

    @property
    def is_still(self) -> bool:
        """Whether the pair stands by itself: as `still` says, else whether its frames have no times and numbers."""
        if self.still is not None:
            return self.still
        frames = [frame for frame in (self.rgb, self.thermal) if frame is not None]
        return all(frame.timestamp_ns is None and frame.sequence is None for frame in frames)

    def copied(self) -> FramePair:
        """Returns the pair with arrays of its own, which no source writes to again. Copies: yes."""
        return replace(
            self,
            rgb=self.rgb and replace(self.rgb, image=self.rgb.image.copy()),
            thermal=self.thermal and replace(self.thermal, image=self.thermal.image.copy()),
            read_ns=0,
        )


def thinned(image: NDArray[_Pixel], about_wh: tuple[int, int] = (80, 64)) -> NDArray[_Pixel]:
    """Returns evenly spaced pixels of a frame, for statistics of the whole.

    Arguments:
        image: [height, width, ...].
        about_wh: at least so many columns and rows, where the frame has them.

    Copies: no; a strided view of `image`.
    """
    step = max(1, min(image.shape[1] // about_wh[0], image.shape[0] // about_wh[1]))
    return image[::step, ::step]


def middle_value(values: NDArray[Any]) -> float:
    """Returns the median of a non-empty array; of an even number of values the upper of the two middle ones.

    Ten times as fast as `numpy.median` on a few thousand values. Copies: yes.
    """
    middle = values.size // 2
    return float(np.partition(values, middle, axis=None)[middle])


def _require_array(name: str, expected: str, image: object) -> None:
    if not isinstance(image, np.ndarray):
        raise ShapeError(name, expected, type(image).__name__, "Give a NumPy array.")


def _refuse_empty(name: str, image: NDArray[np.generic]) -> None:
    if image.size == 0:
        raise ShapeError(name, "at least one pixel", f"{list(image.shape)}")


def _resize_matrix(from_wh: tuple[int, int], to_wh: tuple[int, int]) -> NDArray[np.float64]:
    return np.diag([to_wh[0] / from_wh[0], to_wh[1] / from_wh[1], 1.0])
