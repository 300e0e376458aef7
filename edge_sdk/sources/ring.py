"""Image buffers that are written again once nobody holds them."""

from __future__ import annotations

import sys
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

__all__ = ["FrameRing"]

Scalar = TypeVar("Scalar", bound=np.generic)


class FrameRing:
    """A few image buffers that a source fills in turn, so that steady state allocates none.

    A buffer is handed out again only when no frame, view or other Python object refers to it any
    more, so a caller may keep frames as long as it likes: `list(source)` gets distinct images.
    Who keeps only the address of an image (an asynchronous copy to a GPU) must keep the frame too.

    Arguments:
        slots: buffers kept; when all are held, `take` returns a fresh array that is not kept.
    """

    def __init__(self, slots: int = 4) -> None:
        self._limit = slots
        self._slots: list[NDArray[np.generic]] = [np.empty(0, np.uint8)]
        self._idle_count = self._holders(0)
        self._slots.clear()

    def take(self, shape: tuple[int, ...], dtype: type[Scalar]) -> NDArray[Scalar]:
        """Returns an array of this shape and dtype with undefined contents, for the caller to fill.

        Copies: nothing; allocates only while the ring fills, after a change of size, or when all are held.
        """
        for index in range(len(self._slots)):
            if self._holders(index) == self._idle_count:
                slot = self._slots[index]
                if slot.shape == shape and slot.dtype == dtype:
                    return cast("NDArray[Scalar]", slot)
                fresh = np.empty(shape, dtype)
                self._slots[index] = fresh
                return fresh
        fresh = np.empty(shape, dtype)
        if len(self._slots) < self._limit:
            self._slots.append(fresh)
        return fresh

    def _holders(self, index: int) -> int:
        return sys.getrefcount(self._slots[index])
