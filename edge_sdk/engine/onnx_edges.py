"""Inputs and outputs of an open graph, as ONNX Runtime tells them, against what a manifest says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edge_sdk.engine.manifest import GraphSpec
from edge_sdk.errors import EngineMismatchError
from edge_sdk.tensors import TensorSpec

__all__ = ["check_edges", "read_edge"]

_ONNX_TYPES: Mapping[str, str] = {
    "tensor(uint8)": "uint8",
    "tensor(int8)": "int8",
    "tensor(float16)": "float16",
    "tensor(float)": "float32",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
}


def check_edges(session: Any, graph: GraphSpec, path: Path) -> None:
    """Compares a graph's edges with its manifest.

    Arguments:
        session: an `onnxruntime.InferenceSession`.
        graph: what the manifest says.
        path: of the file, for messages.

    Raises:
        EngineMismatchError: another name, dtype or shape.
    """
    for kind, edges, specs in (
        ("inputs", session.get_inputs(), graph.inputs),
        ("outputs", session.get_outputs(), graph.outputs),
    ):
        found = sorted(f"{edge.name} {_ONNX_TYPES.get(edge.type, edge.type)}{_shape(edge)}" for edge in edges)
        expected = sorted(f"{spec.name} {spec.dtype}{_shape(spec)}" for spec in specs)
        if found != expected:
            raise EngineMismatchError(
                path,
                f"{kind} of graph {graph.name!r}",
                "; ".join(expected),
                "; ".join(found),
                f"Correct graphs.{graph.name}.{kind} in the manifest, or export the graph with fixed shapes.",
            )


def read_edge(edge: Any, path: Path) -> TensorSpec:
    """Reads one edge (an `onnxruntime.NodeArg`), without layout or meaning.

    Raises:
        EngineMismatchError: its shape or dtype is not fixed or supported.
    """
    if edge.type not in _ONNX_TYPES:
        raise EngineMismatchError(
            path, f"type of {edge.name!r}", f"one of {', '.join(_ONNX_TYPES)}", edge.type
        )
    if not all(isinstance(side, int) and side > 0 for side in edge.shape):
        raise EngineMismatchError(
            path,
            f"shape of {edge.name!r}",
            "fixed and positive",
            _shape(edge),
            "Export the model with a fixed batch of 1 and a fixed image size (no dynamic axes).",
        )
    return TensorSpec(edge.name, _ONNX_TYPES[edge.type], tuple(edge.shape), "", "")


def _shape(edge: Any) -> str:
    return f"[{', '.join(map(str, edge.shape))}]"
