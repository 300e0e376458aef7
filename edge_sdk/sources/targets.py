"""Memory of the caller that a source writes its next frames into."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import ShapeError
from edge_sdk.frames import FramePair, RgbFrame, ThermalFrame

__all__ = ["NO_TARGETS", "FrameTargets"]

_Frame = TypeVar("_Frame", RgbFrame, ThermalFrame)


@dataclass(frozen=True, eq=False)
class FrameTargets:
    """Where the next pair's pictures shall lie, where they are of that size.

    Attributes:
        rgb: uint8 [height, width, 3], or None.
        thermal: uint16 [height, width], or None.

    Raises:
        ShapeError: an array of another dtype or number of dimensions, or one with gaps, or read-only.
    """

    rgb: NDArray[np.uint8] | None = None
    thermal: NDArray[np.uint16] | None = None

    def __post_init__(self) -> None:
        for name, array, dtype, layout in (
            ("rgb target", self.rgb, np.uint8, "[height, width, 3]"),
            ("thermal target", self.thermal, np.uint16, "[height, width]"),
        ):
            if array is None:
                continue
            fits = array.ndim == 3 and array.shape[2] == 3 if dtype == np.uint8 else array.ndim == 2
            if array.dtype != dtype or not fits:
                raise ShapeError(
                    name, f"{np.dtype(dtype).name} {layout}", f"{array.dtype} {list(array.shape)}"
                )
            if not array.flags.c_contiguous or not array.flags.writeable:
                raise ShapeError(
                    name, "contiguous memory that can be written", "a view with gaps, or read-only"
                )

    def take(self, shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any] | None:
        """Returns the target of exactly this shape and dtype, or None. A source decodes straight into it."""
        target = self.rgb if dtype is np.uint8 else self.thermal
        return target if target is not None and target.shape == shape else None

    def settle(self, pair: FramePair) -> FramePair:
        """Returns the pair with its frames in their targets; copies those that were decoded elsewhere."""
        rgb, thermal = _moved(pair.rgb, self.rgb), _moved(pair.thermal, self.thermal)
        if rgb is None and thermal is None:
            return pair
        return replace(pair, rgb=rgb or pair.rgb, thermal=thermal or pair.thermal)


def _moved(frame: _Frame | None, target: NDArray[Any] | None) -> _Frame | None:
    """The frame with its picture copied into the target; None where it is there already, or does not fit."""
    if frame is None or target is None or frame.image is target or frame.image.shape != target.shape:
        return None
    np.copyto(target, frame.image)
    return replace(frame, image=target)


NO_TARGETS = FrameTargets()
