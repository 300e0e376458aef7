"""How well the ONNX Runtime at hand computes a graph in half precision on the CPU."""

from __future__ import annotations

import onnxruntime

VERSION = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
COARSE = VERSION < (1, 24)
"""1.23, the last for Python 3.10, is off by 0.08 of an output's standard deviation, 1.32 by 0.03."""

WHY = (
    f"ONNX Runtime {onnxruntime.__version__} rounds half precision on the CPU more coarsely than the canary "
    "allows a plan to"
)
