"""What a tensor at the edge of a graph looks like."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

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
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: str
    meaning: str

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return prod(self.shape) * np.dtype(self.dtype).itemsize

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}[{', '.join(map(str, self.shape))}]"
