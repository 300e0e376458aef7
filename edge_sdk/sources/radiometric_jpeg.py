"""Radiometric JPEGs: one file of a FLIR camera is a pair, one of a DJI camera a thermal frame."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.clock import Clock
from edge_sdk.errors import ConfigError, FrameError
from edge_sdk.frames import Calibration, FramePair, Registration, RgbFrame, ThermalFrame
from edge_sdk.requirements import install_hint
from edge_sdk.sources.base import BaseSource, OnBad
from edge_sdk.sources.integrity import check_complete
from edge_sdk.sources.registration import RegistrationArgument, RegistrationRule
from edge_sdk.sources.uri import SourceUri

__all__ = ["RJPEG_OPTIONS", "RJPEG_SUFFIXES", "RadiometricJpegSource", "is_radiometric_jpeg"]

RJPEG_OPTIONS = ("registration", "dirp")
RJPEG_SUFFIXES = frozenset({".jpg", ".jpeg"})

_FLIR_MARK, _DJI_MARKS = b"FLIR\0", (b"drone-dji", b"DJI_XMP", b"http://www.dji.com/")
_DIRP_VARIABLE = "EDGE_SDK_DIRP"
_HEAD_BYTES = 262144


def is_radiometric_jpeg(path: Path) -> bool:
    """Says whether a JPEG holds a thermal frame of FLIR or DJI, by the marks in its first 256 KiB."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return head[:2] == b"\xff\xd8" and (_FLIR_MARK in head or any(mark in head for mark in _DJI_MARKS))


class RadiometricJpegSource(BaseSource):
    """The radiometric JPEGs of a folder, or a single one, in order of their names.

    FLIR: the embedded raw frame becomes centikelvin by the file's own constants (library flyr), the
    embedded visible frame the colour frame; the camera's own picture-in-picture figures give the
    registration, which holds at the distance that the camera was set to. DJI: the thermal frame alone,
    by DJI's own library `libdirp.so`, which DJI distributes for x86-64.

    Options of the URI:
        registration: a JSON file, `same-view`, `centred` or `bundle`, in place of the camera's own.
        dirp: path of `libdirp.so`; by default the environment variable EDGE_SDK_DIRP.

    Arguments:
        uri: the URI, taken apart.
        registration: instead of the URI's; an object too.
        on_bad, loop, clock: see `BaseSource`.

    Raises:
        ConfigError: no file, or the library that reads it is not installed.
    """

    def __init__(
        self,
        uri: SourceUri,
        *,
        registration: RegistrationArgument = None,
        on_bad: OnBad = "raise",
        loop: int = 1,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(uri.text, on_bad=on_bad, loop=loop, clock=clock)
        root = Path(uri.path)
        entries = sorted(root.iterdir()) if root.is_dir() else [root]
        self.files = [
            path
            for path in entries
            if path.suffix.lower() in RJPEG_SUFFIXES and path.is_file() and is_radiometric_jpeg(path)
        ]
        if not self.files:
            raise ConfigError(f"{uri.text}: no radiometric JPEG of FLIR or DJI there")
        self._rule = RegistrationRule.of(uri, registration, root if root.is_dir() else root.parent)
        self._dirp_path = uri.options.get("dirp") or os.environ.get(_DIRP_VARIABLE)
        self._dirp: _Dirp | None = None
        self._units: set[str] = set()
        if any(_maker(path) == "flir" for path in self.files):
            _require_flyr(uri.text)

    @property
    def _pass_length(self) -> int:
        return len(self.files)

    def _read(self, index: int) -> FramePair | None:
        if index >= len(self.files):
            return None
        path = self.files[index]
        key = path.stem
        data = path.read_bytes()
        try:
            check_complete(data)
        except ValueError as problem:
            raise FrameError(key, str(problem), path) from None
        pair = self._read_flir(key, path) if _maker(path) == "flir" else self._read_dji(key, path, data)
        assert pair.thermal is not None
        self._units.add(pair.thermal.unit.value)
        return pair

    def _read_flir(self, key: str, path: Path) -> FramePair:
        import flyr

        try:
            thermogram = flyr.unpack(str(path))
            kelvin = thermogram.kelvin
            optical = thermogram.optical
            pip = thermogram.pip_info
        except Exception as error:  # flyr raises whatever its parsing meets
            raise FrameError(key, f"flyr cannot read it: {type(error).__name__}: {error}", path) from None
        thermal = ThermalFrame(kelvin, "kelvin", calibration=Calibration.RADIOMETRIC)
        rgb = None if optical is None else RgbFrame(np.ascontiguousarray(optical[:, :, :3], np.uint8))
        stated = None if rgb is None or pip is None else _pip_registration(pip, rgb.size_wh, thermal.size_wh)
        notes = ("the file holds no visible frame",) if rgb is None else ()
        return self._rule.pair(key, rgb, thermal, stated=stated, notes=notes)

    def _read_dji(self, key: str, path: Path, data: bytes) -> FramePair:
        if self._dirp is None:
            if not self._dirp_path:
                raise FrameError(
                    key,
                    "a DJI R-JPEG, which only DJI's own library decodes",
                    path,
                    "Get the DJI Thermal SDK from DJI and pass ?dirp=/path/of/libdirp.so "
                    f"(or set {_DIRP_VARIABLE}).",
                )
            self._dirp = _Dirp(key, path, self._dirp_path)
        measured = self._dirp.measure(key, path, data)
        return FramePair(key, None, ThermalFrame(measured, "celsius", calibration=Calibration.RADIOMETRIC))

    def _describe(self) -> dict[str, Any]:
        return {
            "kind": "radiometric-jpeg",
            "thermal_unit": "; ".join(sorted(self._units)) or "centikelvin",
            "registration": self._rule.origin,
            "licences": [],
        }


class _Dirp:
    """The five functions of DJI's thermal library that a temperature picture needs.

    Source: DJI Thermal SDK, dirp_api.h (dirp_measure_ex gives degrees Celsius as float).
    """

    def __init__(self, key: str, path: Path, library: str) -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise FrameError(
                key, f"DJI's library cannot be loaded: {error}", path, "It exists for x86-64 alone."
            ) from None

    def measure(self, key: str, path: Path, data: bytes) -> NDArray[np.float32]:
        """Returns the picture in degrees Celsius, [height, width]."""
        handle = ctypes.c_void_p()
        call = self._library
        self._check(
            key,
            path,
            "dirp_create_from_rjpeg",
            call.dirp_create_from_rjpeg(data, ctypes.c_int32(len(data)), ctypes.byref(handle)),
        )
        try:
            size = (ctypes.c_int32 * 2)()
            self._check(key, path, "dirp_get_rjpeg_resolution", call.dirp_get_rjpeg_resolution(handle, size))
            image = np.empty((size[1], size[0]), np.float32)
            pointer = image.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
            status = call.dirp_measure_ex(handle, pointer, ctypes.c_int32(image.nbytes))
            self._check(key, path, "dirp_measure_ex", status)
            return image
        finally:
            call.dirp_destroy(handle)

    @staticmethod
    def _check(key: str, path: Path, name: str, status: int) -> None:
        if status != 0:
            raise FrameError(key, f"DJI's {name} failed with status {status}", path)


def _pip_registration(pip: Any, rgb_wh: tuple[int, int], thermal_wh: tuple[int, int]) -> Registration:
    """The thermal view lies in the middle of the visible one, `real_to_ir` times smaller, and shifted.

    Source: FLIR's maker notes as ExifTool documents them: Real2IR, OffsetX and OffsetY in visible pixels.
    """
    scale = rgb_wh[0] / (pip.real_to_ir * thermal_wh[0])
    left = rgb_wh[0] / 2 + pip.offset_x - scale * thermal_wh[0] / 2
    top = rgb_wh[1] / 2 + pip.offset_y - scale * thermal_wh[1] / 2
    matrix = ((scale, 0.0, left), (0.0, scale, top), (0.0, 0.0, 1.0))
    return Registration(matrix, rgb_wh, thermal_wh, None, "the camera's picture-in-picture figures")


def _maker(path: Path) -> str:
    with path.open("rb") as file:
        return "flir" if _FLIR_MARK in file.read(_HEAD_BYTES) else "dji"


def _require_flyr(text: str) -> None:
    try:
        import flyr  # noqa: F401
    except ImportError:
        raise ConfigError(
            f"{text}: FLIR files need the library flyr (EUPL 1.2, so it is no part of this SDK). "
            f"Install it: {install_hint('flir')}"
        ) from None
