"""What all classes of the double share."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

MAGIC = b"double of a TensorRT plan\n"


class Strict:
    """Refuses every public attribute that the real class does not have in this version."""

    real = ""
    nv: Any

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            nv = object.__getattribute__(self, "nv")
            if name not in ("nv", "real") and name not in nv.double.names[type(self).real]:
                raise AttributeError(f"'tensorrt.{type(self).real}' object has no attribute '{name}'")
        return object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and name not in self.nv.double.names[type(self).real]:
            raise AttributeError(f"'tensorrt.{type(self).real}' object has no attribute '{name}'")
        object.__setattr__(self, name, value)

    def _say(self, logger: Any, problem: str) -> None:
        logger.log(self.nv.ILogger.Severity.ERROR, f"[double] {problem}")


def shape_of(edge: Any) -> tuple[int, ...]:
    sides = edge.type.tensor_type.shape.dim
    return tuple(side.dim_value if side.HasField("dim_value") else -1 for side in sides)


def dtype_of(edge: Any) -> np.dtype:  # type: ignore[type-arg]
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(edge.type.tensor_type.elem_type))
