"""NVIDIA's own parser and builder, with no GPU: TensorRT-RTX builds every graph of the reference engine.

It proves that the ONNX parses, is strongly typed, and has Q/DQ that NVIDIA accepts, by the very code that
builds plans on the device. It proves nothing of speed, of DLA, or of this engine on an Orin: TensorRT-RTX
is for other GPUs, and its plans cannot be run here.
"""

from __future__ import annotations

import importlib.util
import types
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from edge_sdk.engine import load_bundle
from edge_sdk.engine.half import half_remainder
from edge_sdk.engine.tensorrt_api import TensorRt
from edge_sdk.engine.tensorrt_build import BuildOptions, build_plan
from edge_sdk.errors import EngineError

BUNDLE = load_bundle("substation-rgbt")
CASES = [
    (graph, precision, remainder)
    for graph, spec in BUNDLE.manifest.graphs.items()
    for precision in spec.precisions
    for remainder in ("fp32", "fp16")
]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def api() -> TensorRt:
    """TensorRT-RTX with the version of the API that it nearly has: its own numbers count from 1."""
    if importlib.util.find_spec("tensorrt_rtx") is None:
        pytest.skip("needs NVIDIA's TensorRT-RTX: pip install tensorrt-rtx-cu13 (x86-64 Linux)")
    import tensorrt_rtx

    module: Any = types.ModuleType("tensorrt_rtx_as_tensorrt")
    module.__dict__.update(vars(tensorrt_rtx))
    module.__version__ = "11.4"
    return TensorRt(module)


@pytest.mark.parametrize(("graph", "precision", "remainder"), CASES)
def test_nvidia_builds_every_graph(api: TensorRt, graph: str, precision: str, remainder: str) -> None:
    data = BUNDLE.read_graph(graph, precision)
    phases: list[str] = []
    built = build_plan(
        api,
        half_remainder(data, graph) if remainder == "fp16" else data,
        graph,
        BuildOptions(workspace_mib=64, optimisation_level=0),
        progress=lambda phase, done, steps: phases.append(phase),
    )
    assert len(built.plan) > 100_000
    assert "Building engine" in phases


def test_nvidia_refuses_what_our_recipe_avoids(api: TensorRt) -> None:
    """An int32 bias through DequantizeLinear, which ONNX Runtime's quantiser writes unless told not to."""
    model = onnx.load_model_from_string(BUNDLE.read_graph("thermal"))
    node = next(node for node in model.graph.node if node.op_type == "Conv" and len(node.input) > 2)
    bias = next(tensor for tensor in model.graph.initializer if tensor.name == node.input[2])
    model.graph.initializer.extend(
        [
            numpy_helper.from_array(np.zeros(bias.dims, np.int32), "b32"),
            numpy_helper.from_array(np.ones(bias.dims, np.float32), "b32s"),
        ]
    )
    model.graph.node.insert(
        list(model.graph.node).index(node),
        helper.make_node("DequantizeLinear", ["b32", "b32s"], ["b32f"], name="bias", axis=0),
    )
    node.input[2] = "b32f"
    words = r"cannot read graph 'thermal': node \d+ \(DequantizeLinear bias\): (.|\n)*Int32"
    with pytest.raises(EngineError, match=words):
        build_plan(api, model.SerializeToString(), "thermal", BuildOptions())


def test_an_exception_in_the_progress_bar_stops_the_build(api: TensorRt) -> None:
    def stop(phase: str, done: int, steps: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_plan(api, BUNDLE.read_graph("screen"), "screen", BuildOptions(), progress=stop)
    assert build_plan(api, BUNDLE.read_graph("screen"), "screen", BuildOptions(optimisation_level=0)).plan
