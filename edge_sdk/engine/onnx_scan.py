"""A look into an ONNX file before any library parses it: its opset, and whether it is self-contained.

ONNX files are protobuf messages. This reader walks their structure and skips all content; it
needs no ONNX package, follows no reference, does not recurse and stops at limits. It refuses what
would make an engine read memory or files beyond the verified bytes: external tensor data (which
ONNX Runtime would look for in the working directory, or at an address that the file names) and
nodes that load a compiled context.

Source: onnx.proto, field numbers of ModelProto, GraphProto, NodeProto, AttributeProto, TensorProto,
SparseTensorProto, FunctionProto, TrainingInfoProto and OperatorSetIdProto.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edge_sdk.engine.onnx_wire import BYTES, MalformedError, read_part
from edge_sdk.errors import EngineIntegrityError

__all__ = ["OnnxFacts", "scan_onnx"]

_MAX_DEPTH = 64
_MAX_FIELDS = 2_000_000

_CHILDREN: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph", 8: "opset", 20: "training", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse tensor"},
    "node": {5: "attribute"},
    "attribute": {
        5: "tensor",
        6: "graph",
        10: "tensor",
        11: "graph",
        22: "sparse tensor",
        23: "sparse tensor",
    },
    "sparse tensor": {1: "tensor", 2: "tensor"},
    "function": {7: "node", 11: "attribute"},
    "training": {1: "graph", 2: "graph"},
}
_NODE_OP_TYPE = 4
_TENSOR_EXTERNAL_DATA, _TENSOR_DATA_LOCATION = 13, 14
_OPSET_DOMAIN, _OPSET_VERSION = 1, 2
_LOADING_OPERATOR = "EPContext"


@dataclass(frozen=True)
class OnnxFacts:
    """What the scan found.

    Attributes:
        opsets: domain -> version; the default domain is "".
        operators: names of all operators in it, those of inner graphs included.
    """

    opsets: Mapping[str, int]
    operators: frozenset[str]

    @property
    def opset(self) -> int:
        """Version of the default ONNX domain."""
        return self.opsets[""]


def scan_onnx(data: bytes, path: Path) -> OnnxFacts:
    """Walks an ONNX file's structure.

    Arguments:
        data: the whole file.
        path: where it came from, for messages.

    Copies: no.

    Raises:
        EngineIntegrityError: the bytes are no whole ONNX model, refer to data outside them, or are
            nested or fragmented beyond any real model.
    """
    try:
        return _scan(memoryview(data), path)
    except (MalformedError, UnicodeDecodeError) as error:
        raise EngineIntegrityError(
            path, "content", "a whole ONNX model", f"{len(data)} bytes that are not one ({error})", _FIX_WHOLE
        ) from error


_FIX_WHOLE = "Export the model again; a truncated download is the usual cause."
_FIX_EXTERNAL = "Save the model with its weights inside (onnx.save_model(..., save_as_external_data=False))."


def _scan(data: memoryview, path: Path) -> OnnxFacts:
    opsets: dict[str, int] = {}
    operators: set[bytes] = set()
    graphs = fields = 0
    pending = [("model", 0, len(data), 0)]
    while pending:
        kind, at, end, depth = pending.pop()
        if depth > _MAX_DEPTH:
            raise MalformedError(f"nested deeper than {_MAX_DEPTH}")
        graphs += kind == "graph"
        children = _CHILDREN.get(kind, {})
        domain, version = "", 0
        while at < end:
            fields += 1
            if fields > _MAX_FIELDS:
                raise MalformedError(f"more than {_MAX_FIELDS} parts")
            number, wire, start, stop, value = read_part(data, at, end)
            at = stop
            if kind == "tensor":
                external = number == _TENSOR_EXTERNAL_DATA or (number == _TENSOR_DATA_LOCATION and value != 0)
                if external:
                    raise EngineIntegrityError(
                        path, "weights", "inside the ONNX file", "external data", _FIX_EXTERNAL
                    )
            elif kind == "opset" and number == _OPSET_VERSION:
                version = value
            elif kind == "opset" and number == _OPSET_DOMAIN:
                domain = bytes(data[start:stop]).decode("utf-8")
            elif kind == "node" and number == _NODE_OP_TYPE:
                operators.add(bytes(data[start:stop]))
            if number in children:
                if wire != BYTES:
                    raise MalformedError(f"{children[number]} of wire type {wire}")
                pending.append((children[number], start, stop, depth + 1))
        if kind == "opset":
            opsets["" if domain == "ai.onnx" else domain] = version
    if graphs == 0 or "" not in opsets:
        raise MalformedError("no graph" if graphs == 0 else "no opset of the default domain")
    names = frozenset(name.decode("utf-8") for name in operators)
    if _LOADING_OPERATOR in names:
        raise EngineIntegrityError(
            path,
            "nodes",
            "operators that compute",
            f"{_LOADING_OPERATOR}, which loads another file",
            "Use the ONNX model that it was compiled from.",
        )
    return OnnxFacts(opsets, names)
