"""Stacks of frames in .npy and .npz files, read frame by frame after their header was checked."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import FrameError, SourceError
from edge_sdk.picture_size import check_bytes, check_size

__all__ = ["NumpyFile"]

_DAMAGE = (
    ValueError,
    OSError,
    EOFError,
    SyntaxError,
    TypeError,
    KeyError,
    IndexError,
    OverflowError,
    RecursionError,
    MemoryError,
    NotImplementedError,
    RuntimeError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What NumPy and zipfile raise on files that are damaged, encrypted or packed in a way they do not know."""


class NumpyFile:
    """One array [height, width] or [frames, height, width], of 16 bits or more a number, or floating point.

    Arguments:
        path: a .npy, which is mapped; or a .npz with one array, or one named "thermal", which is unpacked
            frame by frame as it is read.

    Attributes:
        count: number of frames.
        shape_hw: of one frame.
        dtype: of its numbers, in the machine's byte order.

    Raises:
        SourceError: it cannot be read, or holds something else.
        FrameTooLargeError: its header states larger frames than are read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._archive: zipfile.ZipFile | None = None
        self._member, self._stream, self._next = "", cast("IO[bytes] | None", None), 0
        self._stack: NDArray[Any] | None = None
        try:
            shape, stored = self._open()
        except SourceError:
            self.close()
            raise
        except _DAMAGE as error:
            self.close()
            words = " ".join(str(error).split())[:200] or type(error).__name__
            raise SourceError(f"{path}: cannot be read as a NumPy file: {words}") from None
        known = stored.kind in "uif" and stored.itemsize in (2, 4, 8)
        if not known or len(shape) not in (2, 3) or min(shape) < 1:
            self.close()
            raise SourceError(
                f"{path}: expected numbers of 16 bits or more, [height, width] or [frames, height, width]; "
                f"found {stored} {list(shape)}"
            )
        self._stored = stored
        self.dtype = stored.newbyteorder("=")
        self.count = shape[0] if len(shape) == 3 else 1
        self.shape_hw: tuple[int, int] = (shape[-2], shape[-1])
        try:
            check_size(path.name, (shape[-1], shape[-2]), path)
        except SourceError:
            self.close()
            raise

    def read_into(self, key: str, index: int, out: NDArray[Any]) -> None:
        """Copies frame `index` into an array of its shape and dtype.

        Raises:
            FrameError: the file ends before it, or is damaged.
        """
        try:
            if self._stack is not None:
                np.copyto(out, self._stack if self._stack.ndim == 2 else self._stack[index])
                return
            np.copyto(out, self._unpack(index))
        except _DAMAGE as error:
            words = " ".join(str(error).split())[:200] or type(error).__name__
            raise FrameError(
                key, f"frame {index} of {self.count} cannot be read: {words}", self.path
            ) from None

    def close(self) -> None:
        """Closes the file. Closing twice is fine."""
        self._stack = None
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        if self._archive is not None:
            self._archive.close()
            self._archive = None

    def _open(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        with self.path.open("rb") as file:
            start = file.read(6)
        if start != b"\x93NUMPY" and not start.startswith(b"PK"):
            raise ValueError(f"it begins with {start.hex(' ') or 'nothing'}")
        if not start.startswith(b"PK"):
            self._stack = np.load(self.path, mmap_mode="r", allow_pickle=False)
            return self._stack.shape, self._stack.dtype
        self._archive = zipfile.ZipFile(self.path)
        names = [name for name in self._archive.namelist() if name.endswith(".npy")]
        shown = [name.removesuffix(".npy") for name in names]
        if "thermal" not in shown and len(names) != 1:
            raise SourceError(
                f"{self.path}: expected one array, or one named 'thermal'; "
                f"found {', '.join(shown)[:200] or 'none'}"
            )
        self._member = "thermal.npy" if "thermal" in shown else names[0]
        shape, column_first, dtype = self._rewind()
        if column_first and len(shape) == 3:
            nbytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
            check_bytes(self.path.name, nbytes, self.path)
            with self._archive.open(self._member) as stream:
                self._stack = np.lib.format.read_array(stream, allow_pickle=False)
        elif column_first:
            self._order = "F"
        return shape, dtype

    def _rewind(self) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
        assert self._archive is not None
        if self._stream is not None:
            self._stream.close()
        self._stream, self._next = self._archive.open(self._member), 0
        version = np.lib.format.read_magic(self._stream)  # type: ignore[no-untyped-call]
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if read is None:
            raise ValueError(f"format version {version[0]}.{version[1]}, known are 1.0 and 2.0")
        shape, column_first, dtype = read(self._stream)  # type: ignore[no-untyped-call]
        if dtype.hasobject:
            raise ValueError("it holds Python objects, which are never read")
        return shape, column_first, dtype

    _order = "C"

    def _unpack(self, index: int) -> NDArray[Any]:
        if index < self._next:
            self._rewind()
        assert self._stream is not None
        nbytes = self.shape_hw[0] * self.shape_hw[1] * self._stored.itemsize
        while self._next <= index:
            data = self._stream.read(nbytes)
            if len(data) < nbytes:
                raise EOFError(f"{len(data)} of {nbytes} bytes are there")
            self._next += 1
        shape = self.shape_hw if self._order == "C" else self.shape_hw[::-1]
        image = np.frombuffer(data, self._stored).reshape(shape)
        return image if self._order == "C" else image.T
