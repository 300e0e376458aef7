"""The INT8 form: what TensorRT and ONNX Runtime both take, and what it costs in accuracy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from calibration.int8 import check_form, measure_ranges, quantise
from edge_sdk.engine.onnx_constants import own_constants
from edge_sdk.engine.onnx_runner import CPU, open_session
from edge_sdk.errors import ConfigError

pytest.importorskip("onnxruntime", reason="needs ONNX Runtime: pip install '.[cpu]'")

CHANNELS = 16


def _constant(name: str, value: NDArray[np.generic]) -> onnx.TensorProto:
    return numpy_helper.from_array(value, name)


@pytest.fixture
def fp32(tmp_path: Path) -> Path:
    """Image -> conv -> cut -> conv -> sum with the cut's conv -> conv (the tail)."""
    random = np.random.default_rng(0)
    weights = {
        "w1": random.normal(0, 0.4, (CHANNELS, 3, 3, 3)),
        "w2": random.normal(0, 0.2, (CHANNELS, CHANNELS, 3, 3)),
        "w3": random.normal(0, 0.2, (CHANNELS, CHANNELS, 1, 1)),
        "w4": random.normal(0, 0.2, (4, CHANNELS, 1, 1)),
    }
    constants = [_constant(name, value.astype(np.float32)) for name, value in weights.items()]
    constants += [_constant(f"b{n}", np.full(len(weights[f"w{n}"]), 0.1, np.float32)) for n in range(1, 5)]
    constants += [_constant("low", np.float32(-3.0)), _constant("high", np.float32(3.0))]
    pads = {"pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["image", "w1", "b1"], ["c1"], "conv1", **pads),
        helper.make_node("Clip", ["c1", "low", "high"], ["k1"], "cut1"),
        helper.make_node("Conv", ["k1", "w2", "b2"], ["c2"], "conv2", **pads),
        helper.make_node("Conv", ["c2", "w3", "b3"], ["c3"], "conv3"),
        helper.make_node("Add", ["c2", "c3"], ["sum"], "sum"),
        helper.make_node("Conv", ["sum", "w4", "b4"], ["out"], "tail"),
    ]
    shape = [1, 3, 32, 32]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, 4, 32, 32])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    path = tmp_path / "fp32.onnx"
    onnx.save(model, path)
    return path


def _feeds(count: int = 4) -> list[dict[str, NDArray[np.float32]]]:
    random = np.random.default_rng(1)
    return [{"image": random.uniform(-1, 1, (1, 3, 32, 32)).astype(np.float32)} for _ in range(count)]


def _run(file: Path) -> NDArray[np.float32]:
    session = open_session(file.read_bytes(), file, CPU, 1).session  # as the runtime does: exact on any CPU
    out: NDArray[np.float32] = session.run(None, _feeds(1)[0])[0]
    return out


def test_int8_stays_near_fp32(fp32: Path, tmp_path: Path) -> None:
    quantise(fp32, tmp_path / "int8.onnx", _feeds())
    exact, found = _run(fp32), _run(tmp_path / "int8.onnx")
    assert np.abs(exact - found).mean() < 0.03 * np.abs(exact).mean()


def test_the_tail_stays_in_fp32_and_so_does_what_the_caller_names(fp32: Path, tmp_path: Path) -> None:
    assert quantise(fp32, tmp_path / "a.onnx", _feeds()).kept == ("tail",)
    assert quantise(fp32, tmp_path / "b.onnx", _feeds(), keep=("conv3",)).kept == ("conv3", "tail")


def test_a_cut_before_a_convolution_becomes_its_quantiser(fp32: Path, tmp_path: Path) -> None:
    report = quantise(fp32, tmp_path / "int8.onnx", _feeds())
    model = onnx.load(tmp_path / "int8.onnx")
    assert not [node for node in model.graph.node if node.op_type == "Clip"]
    assert report.ranges["c1"] == 3.0


def test_the_form_is_symmetric_int8_with_fp32_biases(fp32: Path, tmp_path: Path) -> None:
    quantise(fp32, tmp_path / "int8.onnx", _feeds())
    model = onnx.load(tmp_path / "int8.onnx")
    check_form(model)
    constants = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Conv":
            assert constants[node.input[2]].dtype == np.float32
    stored = [value for value in constants.values() if value.ndim == 4]
    assert sorted({str(value.dtype) for value in stored}) == ["float32", "int8"]


def test_no_two_nodes_share_a_zero_point(fp32: Path, tmp_path: Path) -> None:
    quantise(fp32, tmp_path / "int8.onnx", _feeds())
    data = (tmp_path / "int8.onnx").read_bytes()
    assert own_constants(data) is data
    nodes = [node for node in onnx.load_from_string(data).graph.node if node.op_type.endswith("eLinear")]
    zeros = [node.input[2] for node in nodes]
    assert len(zeros) > 6
    assert len(set(zeros)) == len(zeros)


def test_an_int32_bias_through_dequantize_is_refused(fp32: Path, tmp_path: Path) -> None:
    quantise(fp32, tmp_path / "int8.onnx", _feeds())
    model = onnx.load(tmp_path / "int8.onnx")
    bias = np.ones(CHANNELS, np.int32)
    model.graph.initializer.extend(
        [_constant("b1_q", bias), _constant("b1_s", np.float32(0.1)), _constant("b1_z", np.int32(0))]
    )
    node = helper.make_node("DequantizeLinear", ["b1_q", "b1_s", "b1_z"], ["b1_d"], "b1_dq")
    model.graph.node.insert(0, node)
    with pytest.raises(ConfigError, match="b1_d: zero point must be int8 0, found int32"):
        check_form(model)


def test_ranges_are_those_of_the_frames(fp32: Path) -> None:
    ranges = measure_ranges(fp32, _feeds(), ["image"])
    assert 0.9 < ranges["image"] <= 1.0
    with pytest.raises(ConfigError, match="at least one frame"):
        measure_ranges(fp32, [], ["image"])
