"""Gives the layers of a graph that are not INT8 half precision, without touching its inputs and outputs.

TensorRT builds strongly typed, so half precision must stand in the graph. On a GPU that computes fp16
faster than fp32, the part that Q/DQ leaves alone would otherwise cost more than all the rest. The only
file that imports `onnx`, late.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edge_sdk.errors import ConfigError, DeviceNotFoundError
from edge_sdk.requirements import hint_for

__all__ = ["half_remainder", "import_onnx"]

_QDQ = ("QuantizeLinear", "DequantizeLinear")
_QDQ_HALF_OPSET = 19
"""Source: ONNX operators, QuantizeLinear and DequantizeLinear: float16 scales from opset 19 on."""
_KEPT_FLOAT: dict[str, tuple[int, ...]] = {"Resize": (1, 2)}
"""Operator -> inputs that ONNX wants in float32 whatever the data: Resize's `roi` and `scales`."""


def half_remainder(data: bytes, name: str) -> bytes:
    """Rewrites a graph so that what computes in float32 computes in float16.

    Arguments:
        data: an ONNX file with its weights inside.
        name: of the graph, for messages.

    Returns: another ONNX file with the same inputs and outputs.

    Raises:
        ConfigError: a weight is too large for half precision, or a scale too small.
        DeviceNotFoundError: the package `onnx` is not installed.
    """
    onnx = import_onnx()
    model = onnx.load_model_from_string(data)
    graph, float32, float16 = model.graph, onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16
    operators = {node.op_type for node in graph.node}
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx") and operators & set(_QDQ):
            opset.version = max(opset.version, _QDQ_HALF_OPSET)
    kept = {
        node.input[index]
        for node in graph.node
        for index in _KEPT_FLOAT.get(node.op_type, ())
        if index < len(node.input)
    }
    scales = {node.input[1] for node in graph.node if node.op_type in _QDQ}
    _lift_small_scales(onnx, graph)
    for tensor in graph.initializer:
        if tensor.data_type == float32 and tensor.name not in kept:
            tensor.CopyFrom(_half(onnx, tensor, name, tensor.name in scales))
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == float32:
                attribute.i = float16
            constant = attribute.name == "value" and attribute.t.data_type == float32
            if node.op_type == "Constant" and constant and node.output[0] not in kept:
                attribute.t.CopyFrom(_half(onnx, attribute.t, name, node.output[0] in scales))
    del graph.value_info[:]
    first = [
        _cast(onnx, graph.node, edge.name, float16, "half")
        for edge in graph.input
        if edge.type.tensor_type.elem_type == float32
    ]
    last = [
        _cast_output(onnx, graph.node, edge.name, float32)
        for edge in graph.output
        if edge.type.tensor_type.elem_type == float32
    ]
    nodes = [*first, *graph.node, *last]
    del graph.node[:]
    graph.node.extend(nodes)
    onnx.checker.check_model(model, full_check=True)
    written: bytes = model.SerializeToString()
    return written


def import_onnx() -> Any:
    """Imports onnx, late.

    Raises:
        DeviceNotFoundError: it is not installed; says what to install.
    """
    try:
        import onnx
    except ImportError as error:
        raise DeviceNotFoundError(
            "onnx",
            [("import onnx", str(error))],
            f"It rewrites graphs to half precision. {hint_for('onnx')}, or build with --remainder fp32.",
        ) from error
    return onnx


def _half(onnx: Any, tensor: Any, graph: str, is_scale: bool) -> Any:
    values = onnx.numpy_helper.to_array(tensor)
    limits = np.finfo(np.float16)
    largest = float(np.abs(values).max(initial=0.0))
    # A subnormal scale would lose the digits that the whole layer is multiplied by.
    smallest = float(np.abs(values).min(initial=1.0)) if is_scale and values.ndim == 0 else 1.0
    if largest > float(limits.max) or smallest < float(limits.tiny):
        raise ConfigError(
            f"graph {graph!r} cannot be half precision: {tensor.name!r} holds {min(smallest, largest):g} to "
            f"{largest:g}; fp16 holds {float(limits.tiny):g} to {float(limits.max):g}. "
            "Build with --remainder fp32."
        )
    return onnx.numpy_helper.from_array(values.astype(np.float16), tensor.name)


def _lift_small_scales(onnx: Any, graph: Any) -> None:
    """Takes the smallest per-channel weight scales to what fp16 holds, and the weights with them.

    A channel that hardly counts has a scale below fp16's normal numbers, where fp16 loses digits or
    gives zero. The scale is rounded up to the next fp16 number and the channel's weights are divided
    by as much, so that each weight keeps its value to half a step of the new scale.
    """
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type != "DequantizeLinear" or not {node.input[0], node.input[1]} <= set(tensors):
            continue
        weight, scale = tensors[node.input[0]], tensors[node.input[1]]
        values, steps = onnx.numpy_helper.to_array(weight), onnx.numpy_helper.to_array(scale)
        small = steps < np.finfo(np.float16).tiny
        if steps.ndim != 1 or not small.any():
            continue
        axis = next((item.i for item in node.attribute if item.name == "axis"), 1)
        lifted = steps.astype(np.float16)
        short = lifted.astype(np.float32) < steps
        lifted[short] = np.nextafter(lifted[short], np.float16(1))
        lifted = np.maximum(lifted, np.finfo(np.float16).smallest_subnormal)
        ratio = np.where(small, steps / lifted.astype(np.float32), 1.0)
        shape = [1] * values.ndim
        shape[axis] = -1
        weights = np.rint(values * ratio.reshape(shape)).astype(values.dtype)
        weight.CopyFrom(onnx.numpy_helper.from_array(weights, weight.name))
        new = np.where(small, lifted.astype(np.float32), steps).astype(np.float32)
        scale.CopyFrom(onnx.numpy_helper.from_array(new, scale.name))


def _cast(onnx: Any, nodes: Any, edge: str, dtype: int, suffix: str) -> Any:
    """A Cast after a graph's input; whoever read the input reads the Cast."""
    renamed = f"{edge}_{suffix}"
    for node in nodes:
        for index, source in enumerate(node.input):
            if source == edge:
                node.input[index] = renamed
    return onnx.helper.make_node("Cast", [edge], [renamed], name=f"{renamed}_cast", to=dtype)


def _cast_output(onnx: Any, nodes: Any, edge: str, dtype: int) -> Any:
    """A Cast before a graph's output; whoever else read that output reads what the Cast reads."""
    renamed = f"{edge}_half_out"
    for node in nodes:
        for names in (node.input, node.output):
            for index, found in enumerate(names):
                if found == edge:
                    names[index] = renamed
    return onnx.helper.make_node("Cast", [renamed], [edge], name=f"{renamed}_cast", to=dtype)
