"""DJI's own library for its radiometric JPEGs, which DJI distributes for x86-64 and nobody else may ship."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import FrameError
from edge_sdk.picture_size import check_size

__all__ = ["Dirp"]


class Dirp:
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
            check_size(key, (size[0], size[1]), path)
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
