"""Half precision for what is not INT8: same inputs, same outputs, nearly the same numbers."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from half_precision import COARSE
from onnx import TensorProto, helper, numpy_helper

from edge_sdk.engine import load_bundle
from edge_sdk.engine.half import half_remainder
from edge_sdk.errors import ConfigError, DeviceNotFoundError

GRAPHS = ("rgb", "fuse", "thermal")
"""The screen keeps fp32."""


def run(data: bytes, seed: int) -> list[Any]:
    """Runs a graph as it stands: ONNX Runtime's own fusions of Q/DQ around fp16 convolutions are wrong."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    noise = np.random.default_rng(seed)
    feeds = {
        edge.name: noise.integers(0, 255, edge.shape).astype(np.uint8)
        if "uint8" in edge.type
        else noise.standard_normal(edge.shape).astype(np.float32)
        for edge in session.get_inputs()
    }
    answers: list[Any] = session.run(None, feeds)
    return answers


def edges(data: bytes) -> list[tuple[str, int]]:
    graph = onnx.load_model_from_string(data).graph
    return [(edge.name, edge.type.tensor_type.elem_type) for edge in (*graph.input, *graph.output)]


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_reference_graphs_keep_edges_and_answers(graph: str) -> None:
    data = load_bundle("substation-rgbt").read_graph(graph)
    half = half_remainder(data, graph)
    assert edges(half) == edges(data)
    model = onnx.load_model_from_string(half)
    kinds = {tensor.data_type for tensor in model.graph.initializer}
    assert TensorProto.FLOAT16 in kinds
    floats = [tensor for tensor in model.graph.initializer if tensor.data_type == TensorProto.FLOAT]
    assert all(np.prod(tensor.dims) <= 8 for tensor in floats)  # Resize's scales and roi alone
    for wanted, got in zip(run(data, 1), run(half, 1), strict=True):
        bound = 0.2 if COARSE else 0.1
        assert float(np.sqrt(np.mean((wanted - got) ** 2))) < bound * float(wanted.std())


def model_of(weight: Any, scale: Any, activation_scale: float = 0.1) -> bytes:
    """A quantised convolution of one pixel: y = DQ(Q(x)) * DQ(weight)."""
    tensors = [
        numpy_helper.from_array(np.float32(activation_scale), "s"),
        numpy_helper.from_array(np.int8(0), "z"),
        numpy_helper.from_array(np.asarray(weight, np.int8).reshape(-1, 1, 1, 1), "w"),
        numpy_helper.from_array(np.asarray(scale, np.float32), "ws"),
        numpy_helper.from_array(np.zeros(len(scale), np.int8), "wz"),
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["dw"], axis=0),
        helper.make_node("Conv", ["d", "dw"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 2, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, len(scale), 2, 2])],
        tensors,
    )
    opsets = [helper.make_opsetid("", 18)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())


def test_a_weight_scale_too_small_for_fp16_takes_its_weights_along() -> None:
    scales = [0.01, 1e-5, 1e-9]
    data = model_of([100, 100, 100], scales)
    half = onnx.load_model_from_string(half_remainder(data, "g"))
    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in half.graph.initializer}
    weights = found["w"].ravel() * found["ws"].astype(np.float64)
    np.testing.assert_allclose(weights, np.multiply(100, scales), rtol=0.01, atol=3e-8)
    assert (found["ws"] > 0).all()
    assert found["w"].ravel()[0] == 100
    assert half.opset_import[0].version == 19


def test_numbers_that_fp16_cannot_hold_are_refused_with_figures() -> None:
    with pytest.raises(ConfigError, match=r"'s' holds 1e-06 to 1e-06.*--remainder fp32"):
        half_remainder(model_of([1], [0.1], activation_scale=1e-6), "g")
    model = onnx.load_model_from_string(model_of([1], [0.1]))
    model.graph.initializer.append(numpy_helper.from_array(np.float32([1e6]), "b"))
    model.graph.node[3].input.append("b")
    with pytest.raises(ConfigError, match=r"graph 'g' cannot be half precision: 'b' holds .*1e\+06"):
        half_remainder(model.SerializeToString(), "g")


def test_a_float_graph_stays_float_outside_and_constants_follow() -> None:
    constant = numpy_helper.from_array(np.float32([2.0]), "c")
    nodes = [
        helper.make_node("Constant", [], ["two"], value=constant),
        helper.make_node("Mul", ["x", "two"], ["m"]),
        helper.make_node("Relu", ["m"], ["y"]),
        helper.make_node("Neg", ["y"], ["z"]),  # reads another output
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, [3])],
        [value("y", TensorProto.FLOAT, [3]), value("z", TensorProto.FLOAT, [3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    data = model.SerializeToString()
    half = half_remainder(data, "g")
    assert edges(half) == edges(data)
    for wanted, got in zip(run(data, 2), run(half, 2), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-3)


def test_without_the_package_onnx_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(
        DeviceNotFoundError, match=r"pip install 'onnx>=1\.17', or build with --remainder fp32"
    ):
        half_remainder(b"", "g")
