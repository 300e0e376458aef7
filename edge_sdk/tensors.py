"""What a tensor at the edge of a graph looks like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from edge_sdk.errors import ConfigError
from edge_sdk.members import put, text, whole

__all__ = ["DTYPES", "TensorSpec"]

DTYPES = ("uint8", "int8", "float16", "float32", "int32", "int64")
"""The dtypes a graph may take or give."""


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of a graph.

    Attributes:
        name: its name in the ONNX file.
        dtype: one of `DTYPES`.
        shape: all dimensions, fixed and positive.
        layout: "nhwc", "nchw", "nc" or "n..." as its author wrote it; images must be nhwc or nchw.
        meaning: what it carries: "rgb", "thermal", "rgb+thermal", "features", "scores", "boxes", ...

    Raises:
        ConfigError: a member is of another type, or the dtype none of `DTYPES`.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: str
    meaning: str

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ConfigError(
                f"tensor {self.name}: dtype: expected one of {', '.join(DTYPES)}, found {self.dtype!r}"
            )
        if isinstance(self.shape, str) or not isinstance(self.shape, Sequence):
            raise ConfigError(f"tensor {self.name}: shape: expected dimensions, found {self.shape!r}")
        shape = tuple(whole(side, f"tensor {self.name}: shape", least=1) for side in self.shape)
        words = {
            part: text(getattr(self, part), f"tensor {part}")
            for part in ("name", "dtype", "layout", "meaning")
        }
        put(self, shape=shape, **words)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return prod(self.shape) * np.dtype(self.dtype).itemsize

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}[{', '.join(map(str, self.shape))}]"
