"""Constants that quantised nodes share are copied, and nothing else of the file changes."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edge_sdk.engine import load_bundle
from edge_sdk.engine.int8_sums import EXACT_OPTION
from edge_sdk.engine.onnx_constants import own_constants
from edge_sdk.engine.onnx_runner import CPU, session_options

CHANNELS, SIDE = 8, 4
LARGEST = np.int8(127)


def tensor(name: str, value: NDArray[np.generic] | np.generic | float) -> TensorProto:
    if isinstance(value, float):
        value = np.float32(value)
    return numpy_helper.from_array(np.asarray(value), name)


def shared_model(*, constants: bool = False, weights: bool = False, zeros: bool = True) -> onnx.ModelProto:
    """Two INT8 convolutions, one after the other, of ones over ones; 8 in every place comes out.

    `zeros`: all nodes read one zero point; `weights`: both convolutions read one weight; `constants`: they
    are nodes `Constant` and not initialisers.
    """
    weight = np.full((CHANNELS, CHANNELS, 1, 1), LARGEST)
    stored = {
        "s": tensor("s", 1 / 127),
        "y_s": tensor("y_s", CHANNELS / 127),
        "eighth": tensor("eighth", 1 / 8),
    }
    nodes = []

    def zero(name: str) -> str:
        stored.setdefault("z" if zeros else name, tensor("z" if zeros else name, np.int8(0)))
        return "z" if zeros else name

    here = "x"
    for layer in range(2):
        name = "w" if weights else f"w{layer}"
        stored.setdefault(name, tensor(name, weight))
        n = str(layer)
        nodes += [
            helper.make_node("QuantizeLinear", [here, "s", zero("za" + n)], ["q" + n]),
            helper.make_node("DequantizeLinear", ["q" + n, "s", zero("zb" + n)], ["d" + n]),
            helper.make_node("DequantizeLinear", [name, "s", zero("zc" + n)], ["wd" + n]),
            helper.make_node("Conv", ["d" + n, "wd" + n], ["c" + n]),
            helper.make_node("QuantizeLinear", ["c" + n, "y_s", zero("zd" + n)], ["yq" + n]),
            helper.make_node("DequantizeLinear", ["yq" + n, "y_s", zero("ze" + n)], ["y" + n]),
            helper.make_node("Mul", ["y" + n, "eighth"], ["m" + n]),
        ]
        here = "m" + n
    nodes[-1].output[0] = "out"
    first = []
    if constants:
        first = [helper.make_node("Constant", [], [name], name, value=made) for name, made in stored.items()]
    shape = [1, CHANNELS, SIDE, SIDE]
    graph = helper.make_graph(
        [*first, *nodes],
        "shared",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, shape)],
        [] if constants else list(stored.values()),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    return model


def session(data: bytes, *, exact: bool) -> onnxruntime.InferenceSession:
    options = session_options(1)
    options.log_severity_level = 4
    if exact:
        options.add_session_config_entry(*EXACT_OPTION)
    return onnxruntime.InferenceSession(data, options, providers=[CPU])


FORMS = [
    {},
    {"constants": True},
    {"weights": True},
    {"weights": True, "zeros": False},
    {"weights": True, "constants": True},
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_the_exact_kernels_take_what_was_shared(form: dict[str, bool]) -> None:
    shared = shared_model(**form).SerializeToString()
    own = own_constants(shared)
    onnx.checker.check_model(onnx.load_from_string(own), full_check=True)
    ones = {"x": np.ones((1, CHANNELS, SIDE, SIDE), np.float32)}
    (out,) = session(own, exact=True).run(None, ones)
    np.testing.assert_allclose(out, 1.0, rtol=1e-6)
    random = {"x": np.random.default_rng(0).uniform(-1, 1, (1, CHANNELS, SIDE, SIDE)).astype(np.float32)}
    for feed in (ones, random):
        before, after = (session(data, exact=False).run(None, feed)[0] for data in (shared, own))
        assert before.tobytes() == after.tobytes()
    assert own_constants(own) is own


def test_where_nothing_is_shared_the_bytes_are_the_same() -> None:
    data = shared_model(zeros=False).SerializeToString()
    assert own_constants(data) is data


def test_operators_in_integers_get_their_own_too() -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "az"], ["q"]),
        helper.make_node("QLinearConv", ["q", "s", "az", "w", "s", "z", "s", "az"], ["c"]),
        helper.make_node("QLinearConv", ["c", "s", "az", "w", "s", "z", "s", "az"], ["e"]),
        helper.make_node("DequantizeLinear", ["e", "s", "az"], ["y"]),
    ]
    shape = [1, CHANNELS, SIDE, SIDE]
    weight = np.full((CHANNELS, CHANNELS, 1, 1), LARGEST)
    stored = [tensor("s", 1 / 127), tensor("az", np.uint8(0)), tensor("z", np.int8(0)), tensor("w", weight)]
    edges = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    graph = helper.make_graph(nodes, "integers", edges[:1], edges[1:], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    own = own_constants(model.SerializeToString())
    found = onnx.load_from_string(own).graph
    for slot in (3, 5):
        assert len({node.input[slot] for node in found.node if node.op_type == "QLinearConv"}) == 2
    session(own, exact=True)


def test_copies_take_names_that_nothing_has_and_other_readers_keep_the_original() -> None:
    model = shared_model()
    model.graph.initializer.append(tensor("z.1", np.int8(5)))
    model.graph.node.append(helper.make_node("Identity", ["z"], ["unused"]))
    model.graph.output.append(helper.make_tensor_value_info("unused", TensorProto.INT8, []))
    found = onnx.load_from_string(own_constants(model.SerializeToString())).graph
    values = {item.name: numpy_helper.to_array(item) for item in found.initializer}
    assert values["z.1"] == 5
    assert [node.input[0] for node in found.node if node.op_type == "Identity"] == ["z"]
    zeros = [node.input[2] for node in found.node if node.op_type.endswith("eLinear")]
    assert "z.1" not in zeros
    assert len(set(zeros)) == len(zeros)
    assert all(values[name] == 0 and values[name].dtype == np.int8 for name in zeros)


def test_constants_may_stand_before_the_nodes_in_the_file() -> None:
    """Protobuf lets parts come in any order; the copies go behind the last constant."""
    model = shared_model()
    nodes, stored = onnx.GraphProto(), onnx.GraphProto()
    nodes.CopyFrom(model.graph)
    del nodes.initializer[:]
    stored.initializer.extend(model.graph.initializer)
    head = onnx.ModelProto()
    head.CopyFrom(model)
    head.ClearField("graph")
    graph = stored.SerializeToString() + nodes.SerializeToString()
    length = bytes([len(graph) & 0x7F | 0x80, len(graph) >> 7])
    assert len(graph) < 1 << 14
    own = own_constants(head.SerializeToString() + b"\x3a" + length + graph)
    onnx.checker.check_model(onnx.load_from_string(own), full_check=True)
    assert len(onnx.load_from_string(own).graph.initializer) == len(model.graph.initializer) + 9


def test_the_shipped_graphs_share_nothing() -> None:
    bundle = load_bundle("substation-rgbt")
    for name in bundle.manifest.graphs:
        data = bundle.read_graph(name)
        assert own_constants(data) is data


def test_the_shipped_graphs_compute_as_if_they_shared() -> None:
    """Their constants were shared once: merged again, they give the same to the last bit."""
    data = load_bundle("substation-rgbt").read_graph("thermal")
    model = onnx.load_from_string(data)
    values = {item.name: item for item in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type.endswith("eLinear"):
            node.input[2] = node.input[2].partition(".")[0]
    used = {name for node in model.graph.node for name in node.input}
    del model.graph.initializer[:]
    model.graph.initializer.extend(value for name, value in values.items() if name in used)
    merged = model.SerializeToString()
    assert len(merged) < len(data)
    picture = np.random.default_rng(0).integers(60, 200, (1, 256, 320, 1)).astype(np.uint8)
    for exact in (False, True):
        if exact:
            merged = own_constants(merged)
        one, other = (session(file, exact=exact).run(None, {"thermal": picture}) for file in (data, merged))
        assert [array.tobytes() for array in one] == [array.tobytes() for array in other]
