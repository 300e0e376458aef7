"""Gives every quantised node constants of its own, and changes nothing else of an ONNX file.

ONNX Runtime's exact INT8 kernels for x86 CPUs (see `int8_sums`) replace weights and zero points one node
at a time and fail on the second node that reads the same one: "Attempt to replace the existing tensor".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from edge_sdk.engine.onnx_wire import part, read_part

__all__ = ["own_constants"]

_GRAPH = 7
_NODE, _INITIALIZER = 1, 5
_NODE_INPUT, _NODE_OUTPUT, _NODE_NAME, _NODE_OP_TYPE = 1, 2, 3, 4
_TENSOR_NAME = 8

_OWN: Mapping[str, tuple[int, ...]] = {
    "QuantizeLinear": (2,),
    "DequantizeLinear": (0, 2),
    "QLinearConv": (2, 3, 5, 7),
    "QLinearMatMul": (2, 3, 5, 7),
}
"""Operator -> inputs that are weights or zero points. Source: onnx.ai, "ONNX Operators"."""


@dataclass
class _Node:
    """Where a node stands in the file and what it says."""

    at: int
    start: int
    stop: int
    op_type: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


def own_constants(data: bytes) -> bytes:
    """Copies the weights and zero points that several quantised nodes share, so that each has its own.

    Arguments:
        data: an ONNX file that `scan_onnx` accepted. Initialisers and nodes `Constant` of its main graph
            are copied; what stands in inner graphs is left alone.

    Returns: an ONNX file that computes the same to the last bit; the very same bytes where nothing is shared.
    """
    view = memoryview(data)
    graphs = [(at, start, stop) for at, number, start, stop in _parts(view, 0, len(data)) if number == _GRAPH]
    if len(graphs) != 1:
        return data
    ((at, start, stop),) = graphs
    graph = _own_in_graph(view, start, stop)
    return data if graph is None else b"".join((data[:at], part(_GRAPH, graph), data[stop:]))


def _own_in_graph(data: memoryview, start: int, stop: int) -> bytes | None:
    nodes: list[_Node] = []
    tensors: dict[str, memoryview] = {}
    last_tensor = stop
    for at, number, begin, end in _parts(data, start, stop):
        if number == _NODE:
            nodes.append(_read_node(data, at, begin, end))
        elif number == _INITIALIZER:
            tensors[_text(data, begin, end, _TENSOR_NAME)] = data[begin:end]
            last_tensor = end
    makers = {node.outputs[0]: data[node.start : node.stop] for node in nodes if node.op_type == "Constant"}
    taken = {name for node in nodes for name in (*node.inputs, *node.outputs)} | set(tensors)
    used: set[str] = set()
    edits: list[tuple[int, int, bytes]] = []  # from, to, and what stands there now
    new_tensors: list[bytes] = []
    for node in nodes:
        inputs, before = list(node.inputs), b""
        for slot in _OWN.get(node.op_type, ()):
            name = inputs[slot] if slot < len(inputs) else ""
            if name not in tensors and name not in makers:
                continue
            if name not in used:
                used.add(name)
                continue
            inputs[slot] = own = _fresh(name, taken)
            if name in tensors:
                new_tensors.append(part(_INITIALIZER, _renamed(tensors[name], {_TENSOR_NAME: [own]})))
            else:
                copy = _renamed(makers[name], {_NODE_OUTPUT: [own], _NODE_NAME: [own]})
                before += part(_NODE, copy)
        if inputs != node.inputs:
            whole = _renamed(data[node.start : node.stop], {_NODE_INPUT: inputs})
            edits.append((node.at, node.stop, before + part(_NODE, whole)))
    if not edits:
        return None
    edits.append((last_tensor, last_tensor, b"".join(new_tensors)))
    pieces, at = [], start
    for begin, end, written in sorted(edits):
        pieces += [bytes(data[at:begin]), written]
        at = end
    return b"".join((*pieces, bytes(data[at:stop])))


def _parts(data: memoryview, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields where each part of a message begins, its number, and where its content begins and ends."""
    while at < end:
        number, _, start, stop, _ = read_part(data, at, end)
        yield at, number, start, stop
        at = stop


def _read_node(data: memoryview, at: int, start: int, stop: int) -> _Node:
    node = _Node(at, start, stop)
    for _, number, begin, end in _parts(data, start, stop):
        if number == _NODE_INPUT:
            node.inputs.append(str(data[begin:end], "utf-8"))
        elif number == _NODE_OUTPUT:
            node.outputs.append(str(data[begin:end], "utf-8"))
        elif number == _NODE_OP_TYPE:
            node.op_type = str(data[begin:end], "utf-8")
    return node


def _text(data: memoryview, start: int, stop: int, wanted: int) -> str:
    found = [data[begin:end] for _, number, begin, end in _parts(data, start, stop) if number == wanted]
    return str(found[-1], "utf-8") if found else ""


def _renamed(message: memoryview, texts: Mapping[int, list[str]]) -> bytes:
    """Writes a message anew with other texts in some parts, in the order in which these come."""
    left = {number: list(values) for number, values in texts.items()}
    pieces = []
    for at, number, _, stop in _parts(message, 0, len(message)):
        pieces.append(part(number, left[number].pop(0)) if left.get(number) else bytes(message[at:stop]))
    return b"".join(pieces)


def _fresh(name: str, taken: set[str]) -> str:
    count = 1
    while f"{name}.{count}" in taken:
        count += 1
    taken.add(f"{name}.{count}")
    return f"{name}.{count}"
