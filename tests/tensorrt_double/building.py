"""The double's builder: plans that hold their ONNX."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from tensorrt_double.base import MAGIC, Strict, shape_of

_DLA_OPERATORS = {"Conv", "Relu", "Add", "Clip", "MaxPool", "QuantizeLinear", "DequantizeLinear"}


class Builder(Strict):
    real = "Builder"

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    @property
    def num_DLA_cores(self) -> int:  # noqa: N802
        return int(self.nv.double.dla_cores)

    def create_network(self, flags: int = 0) -> Any:
        typed = flags == 1 << int(self.nv.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
        return self.nv.INetworkDefinition(typed)

    def create_builder_config(self) -> Any:
        return self.nv.IBuilderConfig()

    def build_serialized_network(self, network: Any, config: Any) -> Any:
        if not network._typed:
            self._say(self._logger, "the network is not strongly typed")
            return None
        if not config._workspace:
            self._say(self._logger, "no workspace")
            return None
        steps = ("graph optimisation", "tactics", "serialisation")
        monitor = config._monitor
        if monitor is not None:
            monitor.phase_start("Building engine", None, len(steps))
            for index, _ in enumerate(steps):
                if not monitor.step_complete("Building engine", index):
                    return None
            monitor.phase_finish("Building engine")
        data = network._model.SerializeToString()
        operators = [node.op_type for node in network._model.graph.node]
        on_dla = config._device is not None and config._device.name == "DLA"
        fallback = self.nv.BuilderFlag.GPU_FALLBACK in config._flags
        unfit = sorted(set(operators) - _DLA_OPERATORS)
        if on_dla and unfit and not fallback:
            self._say(self._logger, f"layers {', '.join(unfit)} are not supported on DLA")
            return None
        if config._cache is not None:
            config._cache._learned = f"{self.nv.__version__} learned {len(operators)}".encode()
        if self.nv.double.replaces is not None:
            data = self.nv.double.replaces(data)
        head = {
            "version": self.nv.__version__,
            "sha256": hashlib.sha256(data).hexdigest(),
            "layers": _layers(operators, on_dla),
        }
        header = json.dumps(head).encode()
        return self.nv.IHostMemory(MAGIC + struct.pack("<I", len(header)) + header + data)


def _layers(operators: Sequence[str], on_dla: bool) -> list[dict[str, str]]:
    """As the engine inspector tells them: what runs on the DLA is one node between two copies."""
    gpu = [{"Name": f"{name}_{index}", "LayerType": name} for index, name in enumerate(operators)]
    if not on_dla:
        return gpu
    rest = [layer for layer in gpu if layer["LayerType"] not in _DLA_OPERATORS]
    if len(rest) == len(gpu):
        return gpu
    dla = [{"Name": name} for name in ("thermal to nvm", "{ForeignNode[Conv_0...Conv_9]}", "scores from nvm")]
    return [*dla, *rest]


class Network(Strict):
    real = "INetworkDefinition"

    def __init__(self, typed: bool) -> None:
        self._typed = typed
        self._model: Any = None

    @property
    def num_inputs(self) -> int:
        return len(self._model.graph.input)

    def get_input(self, index: int) -> Any:
        return self.nv.ITensor(self._model.graph.input[index])


class Tensor(Strict):
    real = "ITensor"

    def __init__(self, edge: Any) -> None:
        self.name = edge.name
        self.shape = shape_of(edge)


class Config(Strict):
    real = "IBuilderConfig"

    def __init__(self) -> None:
        self._workspace, self._flags, self._cache = 0, set(), None
        self._monitor: Any = None
        self._device: Any = None

    def set_memory_pool_limit(self, pool: Any, pool_size: int) -> None:
        assert pool is self.nv.MemoryPoolType.WORKSPACE
        self._workspace = pool_size

    def create_timing_cache(self, serialized_timing_cache: bytes) -> Any:
        return self.nv.ITimingCache(bytes(serialized_timing_cache))

    def set_timing_cache(self, cache: Any, ignore_mismatch: bool) -> bool:
        if cache._learned and not cache._learned.startswith(self.nv.__version__.encode()):
            return ignore_mismatch
        self._cache = cache
        return True

    def set_flag(self, flag: Any) -> None:
        self._flags.add(self.nv.BuilderFlag(flag))

    @property
    def progress_monitor(self) -> Any:
        return self._monitor

    @progress_monitor.setter
    def progress_monitor(self, monitor: Any) -> None:
        assert isinstance(monitor, self.nv.IProgressMonitor)
        self._monitor = monitor

    @property
    def default_device_type(self) -> Any:
        return self._device

    @default_device_type.setter
    def default_device_type(self, device: Any) -> None:
        self._device = self.nv.DeviceType(device)


class TimingCache(Strict):
    real = "ITimingCache"

    def __init__(self, learned: bytes) -> None:
        self._learned = learned

    def serialize(self) -> Any:
        return self.nv.IHostMemory(self._learned)


class Memory(Strict):
    real = "IHostMemory"

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def nbytes(self) -> int:
        return len(self._data)

    def __bytes__(self) -> bytes:
        return self._data


class ParserError(Strict):
    real = "ParserError"

    def __init__(self, node: int, operator: str, name: str, problem: str) -> None:
        self._facts = node, operator, name, problem

    def node(self) -> int:
        return self._facts[0]

    def node_operator(self) -> str:
        return self._facts[1]

    def node_name(self) -> str:
        return self._facts[2]

    def desc(self) -> str:
        return self._facts[3]


class Parser(Strict):
    """Refuses the forms of quantisation that NVIDIA's parsers refuse."""

    real = "OnnxParser"

    def __init__(self, network: Any, logger: Any) -> None:
        self._network, self._logger = network, logger
        self._errors: list[Any] = []

    def parse(self, model: bytes) -> bool:
        loaded = onnx.load_model_from_string(model)
        tensors = {tensor.name: tensor for tensor in loaded.graph.initializer}
        for index, node in enumerate(loaded.graph.node):
            problem = ""
            if node.op_type.startswith("QLinear"):
                problem = "QOperator form"
            elif node.op_type == "DequantizeLinear" and node.input[0] in tensors:
                kind = tensors[node.input[0]].data_type
                if kind == onnx.TensorProto.INT32:
                    problem = "input has type Int32 but must have type FP8, FP4, Int4, Int8, or UInt8"
            elif node.op_type == "QuantizeLinear" and len(node.input) > 2 and node.input[2] in tensors:
                zero = onnx.numpy_helper.to_array(tensors[node.input[2]])
                if zero.dtype == np.uint8 or zero.any():
                    problem = "asymmetric quantisation"
            if problem:
                self._errors.append(self.nv.ParserError(index, node.op_type, node.name, problem))
        self._network._model = loaded
        return not self._errors

    @property
    def num_errors(self) -> int:
        return len(self._errors)

    def get_error(self, index: int) -> Any:
        return self._errors[index]
