"""Files that stand for a thermal camera: CPTV, NumPy stacks, 16-bit TIFF and PNG."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import CameraError, ConfigError, FrameError
from edge_sdk.frames import FfcState
from edge_sdk.heat_units import heat_unit
from edge_sdk.requirements import install_hint
from edge_sdk.sources.cameras.device import Grab, Setting, ThermalFacts
from edge_sdk.sources.cameras.formats import AUTO, guard_range
from edge_sdk.sources.cameras.settings import CameraAddress
from edge_sdk.sources.integrity import check_complete
from edge_sdk.sources.thermal_stream import NumpyThermalStream, ThermalStream, TiffThermalStream

if TYPE_CHECKING:
    from cptv import Frame

__all__ = ["STACK_SUFFIXES", "THERMAL_SUFFIXES", "CptvDevice", "StackDevice"]

STACK_SUFFIXES = frozenset({".npy", ".npz", ".tif", ".tiff", ".png"})
THERMAL_SUFFIXES = STACK_SUFFIXES | {".cptv"}
"""Files that can only be a thermal camera's."""

_FFC_FREEZE_MS = 1000
"""A Lepton's picture stands still about 0.9 s for its correction. Source: Lepton datasheet 500-0659-00-09."""


class StackDevice:
    """A stack of raw frames, or a single one, at the rate of `?fps=` (one frame a second without it).

    Integers and floating point are read as `?unit=` says.

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
        self._stream: ThermalStream | None = None
        self._floats: NDArray[Any] | None = None
        if self._path.suffix.lower() == ".npy" and _dtype_of(self._path).kind == "f":
            self._floats = self._load_floats()
        elif self._path.suffix.lower() in (".npy", ".npz"):
            self._stream = NumpyThermalStream(self._path)
        elif self._path.suffix.lower() in (".tif", ".tiff"):
            self._stream = TiffThermalStream(self._path)

    def grab(self) -> Grab | None:
        """See `CameraDevice.grab`."""
        index, self._index = self._index, self._index + 1
        key = f"{index:06d}"
        unit = self._address.unit
        if self._floats is not None:
            if index >= len(self._floats):
                return None
            image, facts = guard_range(self._floats[index], unit)
            return Grab(image, index * self._period_ns, facts)
        counts = self._stream.read(key, index) if self._stream else self._read_png(key) if not index else None
        if counts is None:
            return None
        image, facts = guard_range(counts, unit)
        return Grab(image, index * self._period_ns, facts)

    def describe(self) -> dict[str, Any]:
        """See `CameraDevice.describe`."""
        return {
            "address": self._address.text,
            "read_by": "NumPy" if self._floats is not None else "OpenCV or NumPy",
            "stated_fps": self._address.fps,
        }

    def close(self) -> None:
        """See `CameraDevice.close`."""
        if self._stream is not None:
            self._stream.close()

    def _load_floats(self) -> NDArray[Any]:
        unit = self._address.unit
        if unit == AUTO or not heat_unit(unit, self._address.text).absolute:
            raise ConfigError(
                f"{self._address.text}: floating-point frames need ?unit=kelvin or ?unit=celsius"
            )
        floats: NDArray[Any] = np.load(self._path, mmap_mode="r", allow_pickle=False)
        if floats.ndim == 2:
            return floats[None]
        if floats.ndim != 3:
            raise CameraError(
                self._address.text, f"expected [frames, height, width], found {list(floats.shape)}"
            )
        return floats

    def _read_png(self, key: str) -> NDArray[np.uint16]:
        data = self._path.read_bytes()
        try:
            check_complete(data)
        except ValueError as problem:
            raise FrameError(key, str(problem), self._path) from None
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
        if image is None or image.dtype != np.uint16 or image.ndim != 2:
            found = "nothing" if image is None else f"{image.dtype} {list(image.shape)}"
            raise FrameError(
                key,
                f"expected a 16-bit picture of one channel, found {found}",
                self._path,
                "An 8-bit or coloured thermal picture has lost its radiometry; export the raw frames.",
            )
        return cast("NDArray[np.uint16]", image)


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
        except (OSError, ValueError, EOFError, KeyError) as error:
            self._file.close()
            raise CameraError(address.text, f"is no CPTV file: {error}") from None
        self.size_wh: tuple[int, int] | None = (reader.x_resolution, reader.y_resolution)
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
        except (OSError, EOFError, ValueError, IndexError) as error:
            raise CameraError(self._address.text, f"frame {index} cannot be read: {error}") from None
        if frame is None:
            return None
        image, facts = guard_range(np.ascontiguousarray(frame.pix, np.uint16), self._unit)
        uptime_ms = _milliseconds(frame.time_on)
        device_ns = round(index * 1e9 / self._fps) if uptime_ms is None else round(uptime_ms * 1e6)
        ffc = _ffc_state(uptime_ms, _milliseconds(frame.last_ffc_time))
        return Grab(image, device_ns, ThermalFacts(facts.unit, facts.calibration, ffc, None, facts.notes))

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


def _ffc_state(uptime_ms: float | None, last_ffc_ms: float | None) -> FfcState:
    if uptime_ms is None or last_ffc_ms is None:
        return FfcState.UNKNOWN
    return FfcState.IN_PROGRESS if 0 <= uptime_ms - last_ffc_ms < _FFC_FREEZE_MS else FfcState.COMPLETE


def _milliseconds(span: Any) -> float | None:
    return None if span is None else float(span.total_seconds() * 1000)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "unknown")


def _dtype_of(path: Path) -> np.dtype[Any]:
    try:
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise CameraError(str(path), f"cannot be read as a NumPy file: {error}") from None
    return cast("np.dtype[Any]", loaded.dtype)
