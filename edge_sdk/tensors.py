"""What a tensor at the edge of a graph looks like."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

__all__ = ["DTYPES", "Normalisation", "TensorSpec"]

DTYPES = ("uint8", "int8", "float16", "float32", "int32", "int64")
"""The dtypes a graph may take or give."""


@dataclass(frozen=True)
class Normalisation:
    """What a float input wants done to an 8-bit image outside the graph: (value * scale - mean) / std.

    Attributes:
        scale: factor on the 8-bit value, for example 1/255.
        mean, std: one entry a channel, or one for all.
    """

    scale: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of a graph.

    Attributes:
        name: its name in the ONNX file.
        dtype: one of `DTYPES`.
        shape: all dimensions, fixed and positive.
        layout: "nhwc", "nchw", "nc" or "n..." as its author wrote it; images must be nhwc or nchw.
        meaning: what it carries: "rgb", "thermal", "rgb+thermal", "features", "scores", "boxes", ...
        normalisation: for a float image input, what happens outside the graph.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: str
    meaning: str
    normalisation: Normalisation | None = None

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return prod(self.shape) * np.dtype(self.dtype).itemsize

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}[{', '.join(map(str, self.shape))}]"
