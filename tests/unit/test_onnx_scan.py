"""The look into ONNX files: facts of sound ones, refusal of all others, and never a crash."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from bundles import single_graph
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from edge_sdk.engine.onnx_scan import scan_onnx
from edge_sdk.errors import EngineIntegrityError

PATH = Path("a.onnx")
SOUND = single_graph("rgb", (64, 48)).SerializeToString()


def test_opset_and_operators_are_read() -> None:
    facts = scan_onnx(SOUND, PATH)
    assert facts.opset == 17
    assert facts.opsets == {"": 17}
    assert {"Cast", "AveragePool", "Concat"} <= facts.operators


def test_other_domains_do_not_hide_the_default_one() -> None:
    model = onnx.load_from_string(SOUND)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    assert scan_onnx(model.SerializeToString(), PATH).opsets == {"": 17, "com.microsoft": 1}


def _external() -> TensorProto:
    tensor = numpy_helper.from_array(np.zeros(2, np.float32), "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "../../etc/passwd"
    return tensor


def _in_initializer(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(_external())


def _without_location(model: onnx.ModelProto) -> None:
    tensor = _external()
    tensor.ClearField("data_location")
    model.graph.initializer.append(tensor)


def _in_constant(model: onnx.ModelProto) -> None:
    model.graph.node.append(helper.make_node("Constant", [], ["c"], value=_external()))


def _in_branch(model: onnx.ModelProto) -> None:
    branch = helper.make_graph([], "branch", [], [], [_external()])
    model.graph.node.append(helper.make_node("If", ["c"], ["d"], then_branch=branch, else_branch=branch))


def _in_sparse(model: onnx.ModelProto) -> None:
    model.graph.sparse_initializer.add().values.CopyFrom(_external())


def _in_function(model: onnx.ModelProto) -> None:
    node = helper.make_node("Constant", [], ["c"], value=_external())
    model.functions.append(helper.make_function("d", "f", [], ["c"], [node], [helper.make_opsetid("", 17)]))


def _in_training(model: onnx.ModelProto) -> None:
    model.training_info.add().initialization.initializer.append(_external())


@pytest.mark.parametrize(
    "hide",
    [
        _in_initializer,
        _without_location,
        _in_constant,
        _in_branch,
        _in_sparse,
        _in_function,
        _in_training,
    ],
)
def test_external_data_is_refused_wherever_it_hides(hide: Callable[[onnx.ModelProto], None]) -> None:
    model = onnx.load_from_string(SOUND)
    hide(model)
    with pytest.raises(EngineIntegrityError, match=r"found external data.*save_as_external_data=False"):
        scan_onnx(model.SerializeToString(), PATH)


def test_a_compiled_context_is_refused() -> None:
    model = onnx.load_from_string(SOUND)
    model.graph.node.append(helper.make_node("EPContext", [], ["c"], domain="com.microsoft"))
    with pytest.raises(EngineIntegrityError, match="EPContext, which loads another file"):
        scan_onnx(model.SerializeToString(), PATH)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(share: float) -> None:
    data = SOUND[: int(len(SOUND) * share)]
    with pytest.raises(EngineIntegrityError, match=rf"a whole ONNX model, found {len(data)} bytes"):
        scan_onnx(data, PATH)


def test_deep_nesting_ends_at_a_limit() -> None:
    model = onnx.ModelProto()
    graph = model.graph
    for _ in range(40):
        graph = graph.node.add().attribute.add().g
    with pytest.raises(EngineIntegrityError, match="nested deeper than 64"):
        scan_onnx(model.SerializeToString(), PATH)


@pytest.mark.parametrize("data", [b"", b"ORTM" * 4, b"PK\x03\x04", b"\x3b" * 30, b"\xff" * 30, b"\x3a\x00"])
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(EngineIntegrityError, match="a whole ONNX model"):
        scan_onnx(data, PATH)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_never_crash(data: bytes) -> None:
    with pytest.raises(EngineIntegrityError):
        scan_onnx(data, PATH)


@given(st.integers(0, len(SOUND) - 1), st.integers(0, 255))
def test_a_changed_byte_never_crashes(at: int, value: int) -> None:
    data = bytearray(SOUND)
    data[at] = value
    with contextlib.suppress(EngineIntegrityError):
        scan_onnx(bytes(data), PATH)
