"""Quantises an fp32 ONNX graph to INT8 in the one form that TensorRT 10.3, TensorRT 11 and ONNX Runtime take.

Explicit Q/DQ, symmetric int8 activations with zero point 0, int8 weights stored as such with one
scale a channel, biases left in fp32 (an int32 bias through DequantizeLinear is refused by NVIDIA's
parser). Source: the parsers' own messages and code.

Only inputs of convolutions are quantised, and outputs that a residual sum reads. Four things follow
from how ONNX Runtime's x86 kernels are chosen, and cost nothing elsewhere:

- An activation that cuts at -c and +c becomes the quantiser itself (scale c / 127), so that a
  convolution feeds the next one without leaving integers.
- A tensor with several readers is not quantised behind its convolution but in front of each reader,
  and the scales of the readers differ in the last bit: ONNX Runtime merges equal pairs, and then
  computes both readers in floating point.
- What leads to the outputs (the last convolution and all after it) stays in fp32.
- Every Q and DQ has a zero point of its own: ONNX Runtime's exact kernels for CPUs without VNNI fail on a
  shared one (`edge_sdk.engine.onnx_constants`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from edge_sdk.engine.onnx_constants import own_constants
from edge_sdk.errors import ConfigError

__all__ = ["Report", "check_form", "measure_ranges", "quantise"]

Feed = Mapping[str, NDArray[np.generic]]

_LEVELS = 127
_SAMPLES_PER_FRAME = 4096
_CANDIDATES = 40
_LEAST_RANGE = 1e-6


@dataclass(frozen=True)
class Report:
    """What a quantisation did.

    Attributes:
        quantised, kept: names of convolutions in INT8 and in fp32.
        ranges: tensor -> largest magnitude that its INT8 form holds.
        nbytes_fp32, nbytes_int8: sizes of the two files in bytes.
    """

    quantised: tuple[str, ...]
    kept: tuple[str, ...]
    ranges: Mapping[str, float]
    nbytes_fp32: int
    nbytes_int8: int


@dataclass(eq=False)
class _Graph:
    """An ONNX graph with its edges looked up."""

    model: onnx.ModelProto
    producer: dict[str, onnx.NodeProto] = field(default_factory=dict)
    readers: dict[str, list[onnx.NodeProto]] = field(default_factory=dict)
    constants: dict[str, NDArray[np.generic]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        graph = self.model.graph
        self.constants = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
        self.producer = {name: node for node in graph.node for name in node.output}
        self.readers = {}
        for node in graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)

    @property
    def outputs(self) -> set[str]:
        return {item.name for item in self.model.graph.output}


def quantise(fp32: Path, int8: Path, feeds: Iterable[Feed], keep: Sequence[str] = ()) -> Report:
    """Quantises one graph.

    Arguments:
        fp32: the graph, batch normalisation folded.
        int8: where the quantised graph goes.
        feeds: inputs of representative frames, from the runtime's own preprocess.
        keep: names of further convolutions to leave in fp32.

    Raises:
        ConfigError: no feeds, or nothing to quantise.
    """
    model = onnx.load(fp32)
    tail = _tail(_Graph(model))
    chosen = [
        node.name
        for node in model.graph.node
        if node.op_type == "Conv" and node.name not in tail and node.name not in keep
    ]
    if not chosen:
        raise ConfigError(f"{fp32}: no convolution to quantise")
    cuts = _cuts_into_quantisers(_Graph(model), set(chosen))
    wanted = _quantised_tensors(_Graph(model), set(chosen), cuts)
    ranges = {name: cut for name, cut in cuts.items() if name in wanted}
    ranges |= measure_ranges(fp32, feeds, [name for name in wanted if name not in ranges])
    _remove_cuts(model, cuts)
    _insert_pairs(model, set(chosen), ranges)
    check_form(model)
    int8.parent.mkdir(parents=True, exist_ok=True)
    int8.write_bytes(own_constants(model.SerializeToString()))
    kept = tuple(node.name for node in model.graph.node if node.op_type == "Conv" and node.name not in chosen)
    return Report(tuple(chosen), kept, ranges, fp32.stat().st_size, int8.stat().st_size)


def measure_ranges(fp32: Path, feeds: Iterable[Feed], tensors: Sequence[str]) -> dict[str, float]:
    """Finds for each tensor the symmetric range whose INT8 form has the least squared error.

    Arguments:
        fp32: the graph.
        feeds: inputs of representative frames.
        tensors: names inside the graph (inputs of the graph among them).

    Raises:
        ConfigError: no feeds.
    """
    model = onnx.load(fp32)
    given = {item.name for item in model.graph.input}
    own = {item.name for item in model.graph.output}
    inside = [name for name in tensors if name not in given]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in inside if name not in own)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    samples: dict[str, list[NDArray[np.float32]]] = {name: [] for name in tensors}
    largest = dict.fromkeys(tensors, 0.0)
    frames = 0
    for feed in feeds:
        frames += 1
        values = dict(zip(inside, session.run(inside, dict(feed)), strict=True)) if inside else {}
        for name in tensors:
            magnitudes = np.abs(
                np.asarray(values[name] if name in values else feed[name], np.float32)
            ).ravel()
            largest[name] = max(largest[name], float(magnitudes.max()))
            samples[name].append(magnitudes[random.integers(0, magnitudes.size, _SAMPLES_PER_FRAME)])
    if not frames:
        raise ConfigError("INT8 calibration needs at least one frame, found none")
    return {name: _best_range(np.concatenate(samples[name]), largest[name]) for name in tensors}


def _best_range(magnitudes: NDArray[np.float32], largest: float) -> float:
    best, least = max(largest, _LEAST_RANGE), np.inf
    for candidate in np.linspace(1.0, 0.25, _CANDIDATES) * max(largest, _LEAST_RANGE):
        scale = candidate / _LEVELS
        rounded = np.minimum(np.rint(magnitudes / scale), _LEVELS) * scale
        error = float(np.square(magnitudes - rounded).mean())
        if error < least:
            best, least = float(candidate), error
    return best


def check_form(model: onnx.ModelProto) -> None:
    """Checks that a graph has the one INT8 form that every target takes.

    Raises:
        ConfigError: an int32 bias through DequantizeLinear, a zero point other than 0, or
            activations that are not int8.
    """
    onnx.checker.check_model(model, full_check=True)
    graph = _Graph(model)
    for node in model.graph.node:
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
            continue
        zero = graph.constants[node.input[2]]
        if zero.dtype != np.int8 or np.any(zero != 0):
            raise ConfigError(
                f"{node.output[0]}: zero point must be int8 0, found {zero.dtype} {zero.ravel()[:1]}"
            )
        stored = graph.constants.get(node.input[0])
        if node.op_type == "DequantizeLinear" and stored is not None and stored.dtype != np.int8:
            raise ConfigError(f"{node.output[0]}: DequantizeLinear of {stored.dtype}, expected int8")


def _tail(graph: _Graph) -> set[str]:
    """Convolutions after which no other convolution comes."""
    before: dict[str, bool] = {}
    for node in reversed(graph.model.graph.node):
        later = [reader for name in node.output for reader in graph.readers.get(name, [])]
        before[node.name] = any(reader.op_type == "Conv" or before[reader.name] for reader in later)
    return {node.name for node in graph.model.graph.node if node.op_type == "Conv" and not before[node.name]}


def _cuts_into_quantisers(graph: _Graph, chosen: set[str]) -> dict[str, float]:
    """Symmetric cuts whose only reader is a quantised convolution: tensor before the cut -> where it cuts."""
    cuts = {}
    for node in graph.model.graph.node:
        if node.op_type != "Clip" or node.output[0] in graph.outputs:
            continue
        low, high = (float(graph.constants[name]) for name in node.input[1:3])
        readers = graph.readers.get(node.output[0], [])
        alone = len(readers) == 1 and len(graph.readers[node.input[0]]) == 1
        if alone and readers[0].name in chosen and low == -high:
            cuts[node.input[0]] = high
    return cuts


def _quantised_tensors(graph: _Graph, chosen: set[str], cuts: Mapping[str, float]) -> list[str]:
    """Tensors that get a Q/DQ pair: what quantised convolutions read, and what they give to a sum."""
    wanted: dict[str, None] = {}
    for node in graph.model.graph.node:
        if node.name not in chosen:
            continue
        source = graph.producer.get(node.input[0])
        before_cut = source is not None and source.op_type == "Clip" and source.input[0] in cuts
        wanted[source.input[0] if before_cut and source is not None else node.input[0]] = None
        if _feeds_one_sum(graph, node):
            wanted[node.output[0]] = None
    return list(wanted)


def _feeds_one_sum(graph: _Graph, node: onnx.NodeProto) -> bool:
    readers = graph.readers.get(node.output[0], [])
    return len(readers) == 1 and readers[0].op_type == "Add"


def _remove_cuts(model: onnx.ModelProto, cuts: Mapping[str, float]) -> None:
    removed = {
        node.output[0]: node for node in model.graph.node if node.op_type == "Clip" and node.input[0] in cuts
    }
    for node in model.graph.node:
        for place, name in enumerate(node.input):
            if name in removed:
                node.input[place] = removed[name].input[0]
    for node in removed.values():
        model.graph.node.remove(node)
    _drop_unused(model)


def _insert_pairs(model: onnx.ModelProto, chosen: set[str], ranges: Mapping[str, float]) -> None:
    graph = _Graph(model)
    nodes: list[onnx.NodeProto] = []
    pairs_of: dict[str, int] = {}
    _add_constant(model, "int8_zero", np.zeros((), np.int8))

    def add_pair(tensor: str) -> str:
        count = pairs_of.get(tensor, 0)
        pairs_of[tensor] = count + 1
        scale = np.float32(ranges[tensor] / _LEVELS)
        for _ in range(count):
            scale = np.nextafter(scale, np.float32(np.inf), dtype=np.float32)
        name = tensor + (f".{count}" if count else "")
        _add_constant(model, f"{name}_s", np.asarray(scale, np.float32))
        arguments = [f"{name}_s", "int8_zero"]
        nodes.append(helper.make_node("QuantizeLinear", [tensor, *arguments], [f"{name}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", *arguments], [f"{name}_d"]))
        return f"{name}_d"

    for node in list(model.graph.node):
        if node.name in chosen:
            node.input[0] = add_pair(node.input[0])
            node.input[1] = _quantise_weight(model, node.input[1], graph.constants[node.input[1]], nodes)
        elif node.op_type == "Add":
            for place, name in enumerate(node.input):
                source = graph.producer.get(name)
                if source is not None and source.name in chosen and _feeds_one_sum(graph, source):
                    node.input[place] = add_pair(name)
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    _drop_unused(model)


def _quantise_weight(
    model: onnx.ModelProto, name: str, weight: NDArray[np.generic], nodes: list[onnx.NodeProto]
) -> str:
    """Stores a weight [out, ...] as int8 with a scale an output channel."""
    values = weight.astype(np.float32)
    largest = np.abs(values).reshape(len(values), -1).max(axis=1)
    scale = np.maximum(largest, _LEAST_RANGE).astype(np.float32) / np.float32(_LEVELS)
    shaped = scale.reshape(-1, *([1] * (values.ndim - 1)))
    stored = np.clip(np.rint(values / shaped), -_LEVELS, _LEVELS).astype(np.int8)
    zeros = f"int8_zeros_{len(scale)}"
    _add_constant(model, f"{name}_q", stored)
    _add_constant(model, f"{name}_s", scale)
    _add_constant(model, zeros, np.zeros(len(scale), np.int8))
    inputs = [f"{name}_q", f"{name}_s", zeros]
    nodes.append(helper.make_node("DequantizeLinear", inputs, [f"{name}_d"], axis=0))
    return f"{name}_d"


def _add_constant(model: onnx.ModelProto, name: str, value: NDArray[np.generic]) -> None:
    if all(item.name != name for item in model.graph.initializer):
        model.graph.initializer.append(numpy_helper.from_array(value, name))


def _drop_unused(model: onnx.ModelProto) -> None:
    used = {name for node in model.graph.node for name in node.input}
    kept = [item for item in model.graph.initializer if item.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    del model.graph.value_info[:]
