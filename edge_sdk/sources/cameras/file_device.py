"""Files that stand for a camera: CPTV, NumPy stacks, 16-bit TIFF and PNG, and single colour pictures."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import cv2
import numpy as np

from edge_sdk.errors import CameraError, ConfigError, FrameError, SourceError
from edge_sdk.frames import FfcState
from edge_sdk.heat_units import heat_unit
from edge_sdk.picture_size import check_size
from edge_sdk.requirements import install_hint
from edge_sdk.sources.cameras.device import Grab, Setting, ThermalFacts
from edge_sdk.sources.cameras.formats import AUTO, guard_range
from edge_sdk.sources.cameras.settings import CameraAddress
from edge_sdk.sources.decode import ImageReader
from edge_sdk.sources.orientation import UPRIGHT
from edge_sdk.sources.thermal_stream import ThermalStream, open_thermal_stream

if TYPE_CHECKING:
    from cptv import Frame

__all__ = ["STACK_SUFFIXES", "THERMAL_SUFFIXES", "CptvDevice", "PictureDevice", "StackDevice"]

STACK_SUFFIXES = frozenset({".npy", ".npz", ".tif", ".tiff", ".png"})
THERMAL_SUFFIXES = STACK_SUFFIXES | {".cptv"}
"""Files that can only be a thermal camera's."""

_FFC_FREEZE_MS = 1000
"""A Lepton's picture stands still about 0.9 s for its correction. Source: Lepton datasheet 500-0659-00-09."""


_CPTV_DAMAGE = (
    OSError,
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    ArithmeticError,
    AttributeError,
    struct.error,
    zlib.error,
)
"""What the library raises on files that are cut off or damaged."""


class StackDevice:
    """A stack of raw frames, or a single one, at the rate of `?fps=` (one frame a second without it).

    Integers and floating point are read as `?unit=` says. A single frame is a still, unless `?sequence=1`.

    Raises:
        CameraError: the file cannot be read.
        ConfigError: it needs `?unit=`.
    """

    clock = "media"

    def __init__(self, address: CameraAddress) -> None:
        self._address = address
        self._path = Path(address.path)
        self._index = 0
        self._period_ns = round(1e9 / (address.fps or 1.0))
        self.settings: tuple[Setting, ...] = ()
        self.size_wh: tuple[int, int] | None = None
        self._reader = ImageReader("thermal", orientation=address.orientation)
        self._stream: ThermalStream | None = None
        if self._path.suffix.lower() != ".png":
            try:
                self._stream = open_thermal_stream(self._path, address.orientation)
            except FrameError:
                raise
            except SourceError as error:
                raise CameraError(address.text, str(error)) from None
        dtype = self._stream.dtype if self._stream else None
        if dtype is not None and dtype.kind == "f" and not _is_absolute(address):
            self.close()
            raise ConfigError(f"{address.text}: floating-point frames need ?unit=kelvin or ?unit=celsius")
        alone = self._stream is None or self._stream.count == 1
        self._still = alone if address.sequence is None else not address.sequence

    def grab(self) -> Grab | None:
        """See `CameraDevice.grab`."""
        index, self._index = self._index, self._index + 1
        key = f"{index:06d}"
        if self._stream is not None:
            counts = self._stream.read(key, index)
        else:
            counts = None if index else self._reader.read(key, self._path)
        if counts is None:
            return None
        try:
            image, facts = guard_range(counts, self._address.unit)
        except ConfigError as error:
            raise FrameError(key, str(error), self._path) from None
        turn = self._reader.turn if self._stream is None else self._stream.turn
        return Grab(image, index * self._period_ns, facts, turn, self._still)

    def describe(self) -> dict[str, Any]:
        """See `CameraDevice.describe`."""
        return {
            "address": self._address.text,
            "read_by": "OpenCV or NumPy",
            "stated_fps": self._address.fps,
        }

    def close(self) -> None:
        """See `CameraDevice.close`."""
        if self._stream is not None:
            self._stream.close()


class PictureDevice:
    """A single colour picture, a still unless `?sequence=1`.

    Arguments:
        address: the file.
    """

    clock = "media"

    def __init__(self, address: CameraAddress) -> None:
        self._address = address
        self.settings: tuple[Setting, ...] = ()
        self.size_wh: tuple[int, int] | None = None
        self._reader = ImageReader("rgb", orientation=address.orientation)
        self._read = False

    def grab(self) -> Grab | None:
        """See `CameraDevice.grab`."""
        if self._read:
            return None
        self._read = True
        image = self._reader.read("000000", Path(self._address.path))
        return Grab(image, 0, ThermalFacts(), self._reader.turn, not self._address.sequence)

    def describe(self) -> dict[str, Any]:
        """See `CameraDevice.describe`."""
        return {"address": self._address.text, "read_by": f"OpenCV {cv2.__version__}"}

    def close(self) -> None:
        """See `CameraDevice.close`."""


class CptvDevice:
    """A clip of the Cacophony Project's recorders: raw Lepton frames with their FFC times.

    The file does not state whether counts are absolute; `?unit=centikelvin` says that they are.

    Raises:
        CameraError: the library `cptv` is missing, or the file is none.
    """

    clock = "media"

    def __init__(self, address: CameraAddress) -> None:
        try:
            from cptv import CPTVReader
        except ImportError:
            raise CameraError(
                address.text, "needs the library cptv", f"Install it: {install_hint('camera', 'cptv')}"
            ) from None
        self._address = address
        self.settings: tuple[Setting, ...] = ()
        self._file: BinaryIO | None = Path(address.path).open("rb")  # noqa: SIM115  (closed by `close`)
        try:
            reader = CPTVReader(self._file)
        except _CPTV_DAMAGE as error:
            self._file.close()
            raise CameraError(address.text, f"is no CPTV file: {error or type(error).__name__}") from None
        self.size_wh: tuple[int, int] | None = (reader.x_resolution, reader.y_resolution)
        try:
            check_size(Path(address.path).name, self.size_wh, Path(address.path))
            if min(self.size_wh) < 1:
                raise CameraError(
                    address.text, f"its header states {self.size_wh[0]}x{self.size_wh[1]} pixels"
                )
        except SourceError:
            self._file.close()
            raise
        self._turn = address.orientation.turn(UPRIGHT)
        self._model = _text(reader.model)
        self._fps = reader.fps or 9
        self._frames: Iterator[Frame] = iter(reader)
        self._index = 0
        self._unit = address.unit

    def grab(self) -> Grab | None:
        """See `CameraDevice.grab`."""
        index = self._index
        self._index += 1
        try:
            frame = next(self._frames, None)
            while frame is not None and frame.background_frame:
                frame = next(self._frames, None)
        except _CPTV_DAMAGE as error:
            raise CameraError(
                self._address.text, f"frame {index} cannot be read: {error or type(error).__name__}"
            ) from None
        if frame is None:
            return None
        counts = self._turn.apply(np.ascontiguousarray(frame.pix, np.uint16))
        image, facts = guard_range(counts, self._unit)
        uptime_ms = _milliseconds(frame.time_on)
        device_ns = round(index * 1e9 / self._fps) if uptime_ms is None else round(uptime_ms * 1e6)
        ffc = _ffc_state(uptime_ms, _milliseconds(frame.last_ffc_time))
        seen = ThermalFacts(facts.unit, facts.calibration, ffc, None, facts.notes)
        return Grab(image, device_ns, seen, self._turn)

    def describe(self) -> dict[str, Any]:
        """See `CameraDevice.describe`."""
        return {
            "address": self._address.text,
            "read_by": "cptv",
            "model": self._model,
            "stated_fps": self._fps,
        }

    def close(self) -> None:
        """See `CameraDevice.close`."""
        if self._file is not None:
            self._frames = iter(())
            self._file.close()
            self._file = None


def _is_absolute(address: CameraAddress) -> bool:
    return address.unit != AUTO and heat_unit(address.unit, address.text).absolute


def _ffc_state(uptime_ms: float | None, last_ffc_ms: float | None) -> FfcState:
    if uptime_ms is None or last_ffc_ms is None:
        return FfcState.UNKNOWN
    return FfcState.IN_PROGRESS if 0 <= uptime_ms - last_ffc_ms < _FFC_FREEZE_MS else FfcState.COMPLETE


def _milliseconds(span: Any) -> float | None:
    return None if span is None else float(span.total_seconds() * 1000)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "unknown")
