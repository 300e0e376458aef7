"""A double of TensorRT's Python module: NVIDIA's names, our ONNX files for plans, and an emulated GPU.

`make_double` returns a module that has, of what it implements, exactly the names that one version of
the bindings has (`tensorrt_api/snapshot.json`); anything else is an AttributeError, as it would be on the
device. A plan holds its ONNX. `execute_async_v3` puts a host function on the emulated stream, which
computes with ONNX Runtime from and to the addresses that were set. It refuses what TensorRT refuses:
addresses that are not set, not aligned or of no allocation, shapes that do not fit, foreign plans.

It proves the calls, their order and the memory. It proves nothing of NVIDIA's kernels, speed or builder.
"""

from __future__ import annotations

import ctypes
import enum
import hashlib
import json
import struct
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from emulator import Emulator

from edge_sdk.engine.onnx_runner import import_onnxruntime, session_options

sys.path.insert(0, str(Path(__file__).parent / "tensorrt_api"))

from names import CLASSES, load_snapshot

__all__ = ["FULL_VERSIONS", "make_double"]

FULL_VERSIONS = {"10.3": "10.3.0", "10.16": "10.16.2", "11.4": "11.4.1"}
"""What `tensorrt.__version__` says on JetPack 6, 7.2 and 7.2.2."""

ALIGNMENT = 256
_MAGIC = b"double of a TensorRT plan\n"
_TYPES = {
    "uint8": "UINT8",
    "int8": "INT8",
    "float32": "FLOAT",
    "float16": "HALF",
    "int32": "INT32",
    "int64": "INT64",
}
_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_DLA_OPERATORS = {"Conv", "Relu", "Add", "Clip", "MaxPool", "QuantizeLinear", "DequantizeLinear"}


def make_double(version: str, emulator: Emulator) -> Any:
    """Makes the module of one version.

    Arguments:
        version: "10.3", "10.16" or "11.4".
        emulator: the driver that its streams and addresses are of.

    Returns: the module. Besides NVIDIA's names it has `double`, for tests: `refuse_enqueues` (how many
        to refuse from now on), `enqueues`, `dla_cores`, `replaces` (bytes -> bytes of a plan's ONNX when
        it is built) and `failures` of host functions.
    """
    names = load_snapshot()[version]
    nv: Any = types.ModuleType("tensorrt")
    nv.__version__ = FULL_VERSIONS[version]
    nv.double = types.SimpleNamespace(
        refuse_enqueues=0, enqueues=0, dla_cores=2, replaces=None, failures=[], emulator=emulator, names=names
    )
    for name in CLASSES:
        members = names.get(name, {})
        values = [member for member, kind in members.items() if kind == name and member != "Severity"]
        if values:
            made = enum.IntEnum(
                name.rpartition(".")[2], {member: index for index, member in enumerate(values)}
            )
            if "." not in name:
                setattr(nv, name, made)
            else:
                nv.ILogger = type("ILogger", (), {"Severity": made, **dict(made.__members__)})
    nv.IProgressMonitor = type("IProgressMonitor", (), {})
    for part in (_Builder, _Network, _Config, _Parser, _ParserError, _Memory, _TimingCache, _Tensor):
        setattr(nv, part.real, type(part.real, (part,), {"nv": nv}))
    for part in (_Runtime, _Engine, _Context, _Inspector):
        setattr(nv, part.real, type(part.real, (part,), {"nv": nv}))
    return nv


class _Strict:
    """Refuses every public attribute that the real class does not have in this version."""

    real = ""
    nv: Any

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            nv = object.__getattribute__(self, "nv")
            if name not in ("nv", "real") and name not in nv.double.names[type(self).real]:
                raise AttributeError(f"'tensorrt.{type(self).real}' object has no attribute '{name}'")
        return object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and name not in self.nv.double.names[type(self).real]:
            raise AttributeError(f"'tensorrt.{type(self).real}' object has no attribute '{name}'")
        object.__setattr__(self, name, value)

    def _say(self, logger: Any, problem: str) -> None:
        logger.log(self.nv.ILogger.Severity.ERROR, f"[double] {problem}")


# Building -----------------------------------------------------------------------------------------


class _Builder(_Strict):
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
        return self.nv.IHostMemory(_MAGIC + struct.pack("<I", len(header)) + header + data)


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


class _Network(_Strict):
    real = "INetworkDefinition"

    def __init__(self, typed: bool) -> None:
        self._typed = typed
        self._model: Any = None

    @property
    def num_inputs(self) -> int:
        return len(self._model.graph.input)

    def get_input(self, index: int) -> Any:
        return self.nv.ITensor(self._model.graph.input[index])


class _Tensor(_Strict):
    real = "ITensor"

    def __init__(self, edge: Any) -> None:
        self.name = edge.name
        self.shape = _shape(edge)


class _Config(_Strict):
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


class _TimingCache(_Strict):
    real = "ITimingCache"

    def __init__(self, learned: bytes) -> None:
        self._learned = learned

    def serialize(self) -> Any:
        return self.nv.IHostMemory(self._learned)


class _Memory(_Strict):
    real = "IHostMemory"

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def nbytes(self) -> int:
        return len(self._data)

    def __bytes__(self) -> bytes:
        return self._data


class _ParserError(_Strict):
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


class _Parser(_Strict):
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


# Running ------------------------------------------------------------------------------------------


class _Runtime(_Strict):
    real = "Runtime"

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        emulator: Emulator = self.nv.double.emulator
        if emulator.context_depth() == 0:
            raise AssertionError("a Runtime without a current CUDA context may crash the process")

    def deserialize_cuda_engine(self, serialized_engine: bytes) -> Any:
        data = bytes(serialized_engine)
        if not data.startswith(_MAGIC):
            self._say(self._logger, "magic tag does not match")
            return None
        (length,) = struct.unpack_from("<I", data, len(_MAGIC))
        start = len(_MAGIC) + 4
        head, model = json.loads(data[start : start + length]), data[start + length :]
        if head["version"] != self.nv.__version__:
            self._say(self._logger, "the engine plan file is not compatible with this version of TensorRT")
            return None
        if hashlib.sha256(model).hexdigest() != head["sha256"]:
            self._say(self._logger, "the plan is corrupt")
            return None
        return self.nv.ICudaEngine(model, head["layers"], self._logger)


class _Engine(_Strict):
    real = "ICudaEngine"

    def __init__(self, model: bytes, layers: list[dict[str, str]], logger: Any) -> None:
        self._logger, self._layers = logger, layers
        loaded = onnx.load_model_from_string(model)
        ort = import_onnxruntime()
        options = session_options(1)
        if any(tensor.data_type == onnx.TensorProto.FLOAT16 for tensor in loaded.graph.initializer):
            # ONNX Runtime 1.32 on the CPU fuses Q/DQ around fp16 convolutions into wrong results.
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        self._session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._edges = {
            edge.name: (edge, is_input)
            for edges, is_input in ((loaded.graph.input, True), (loaded.graph.output, False))
            for edge in edges
        }

    @property
    def num_io_tensors(self) -> int:
        return len(self._edges)

    def get_tensor_name(self, index: int) -> str:
        return list(self._edges)[index]

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return _shape(self._edges[name][0])

    def get_tensor_dtype(self, name: str) -> Any:
        return self.nv.DataType[_TYPES[_dtype(self._edges[name][0]).name]]

    def get_tensor_mode(self, name: str) -> Any:
        return self.nv.TensorIOMode["INPUT" if self._edges[name][1] else "OUTPUT"]

    def get_tensor_location(self, name: str) -> Any:
        return self.nv.TensorLocation.DEVICE

    def create_engine_inspector(self) -> Any:
        return self.nv.EngineInspector(self._layers)

    def create_execution_context(self) -> Any:
        return self.nv.IExecutionContext(self)


class _Inspector(_Strict):
    real = "EngineInspector"

    def __init__(self, layers: list[dict[str, str]]) -> None:
        self._layers = layers

    def get_engine_information(self, format: Any) -> str:
        assert format is self.nv.LayerInformationFormat.JSON
        return json.dumps({"Layers": self._layers, "Bindings": []})


class _Context(_Strict):
    real = "IExecutionContext"

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._addresses: dict[str, int] = {}
        self._shapes: set[str] = set()
        self._functions: dict[tuple[tuple[str, int], ...], Any] = {}
        self._thread = 0

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        edge, is_input = self._engine._edges.get(name, (None, False))
        if not is_input or tuple(shape) != _shape(edge):
            return self._refuse(f"set_input_shape: {name} {shape}")
        self._shapes.add(name)
        return True

    def infer_shapes(self) -> list[str]:
        inputs = [name for name, (_, is_input) in self._engine._edges.items() if is_input]
        return [name for name in inputs if name not in self._shapes]

    def set_tensor_address(self, name: str, memory: int) -> bool:
        if name not in self._engine._edges:
            return self._refuse(f"set_tensor_address: no tensor {name}")
        if memory == 0 or memory % ALIGNMENT:
            return self._refuse(f"set_tensor_address: {memory:#x} of {name} is not aligned to 256 bytes")
        try:
            self._memory(name, memory)
        except ValueError as error:
            return self._refuse(f"set_tensor_address: {name}: {error}")
        self._addresses[name] = memory
        return True

    def execute_async_v3(self, stream_handle: int) -> bool:
        double = self.nv.double
        unset = [name for name in self._engine._edges if name not in self._addresses]
        if unset or self.infer_shapes():
            return self._refuse(
                f"enqueueV3: no address or shape of {', '.join(unset or self.infer_shapes())}"
            )
        if double.refuse_enqueues:
            double.refuse_enqueues -= 1
            return self._refuse("enqueueV3: refused, as the test asked")
        place = tuple(sorted(self._addresses.items()))
        if place not in self._functions:
            self._functions[place] = _HOST_FUNCTION(lambda _: self._compute(dict(place)))
        launch = ctypes.CDLL(str(double.emulator.path)).cuLaunchHostFunc
        launch.argtypes = [ctypes.c_void_p, _HOST_FUNCTION, ctypes.c_void_p]
        status = launch(stream_handle, self._functions[place], None)
        if status:
            return self._refuse(f"cuLaunchHostFunc gave {status}")
        double.enqueues += 1
        return True

    def _compute(self, addresses: dict[str, int]) -> None:
        """Stands in for the kernels; runs when the stream comes to it."""
        try:
            edges = self._engine._edges
            feeds = {
                name: self._memory(name, addresses[name]) for name, (_, is_input) in edges.items() if is_input
            }
            wanted = [name for name, (_, is_input) in edges.items() if not is_input]
            for name, array in zip(wanted, self._engine._session.run(wanted, feeds), strict=True):
                np.copyto(self._memory(name, addresses[name]), array)
        except Exception as error:
            self.nv.double.failures.append(error)

    def _memory(self, name: str, address: int) -> np.ndarray:  # type: ignore[type-arg]
        edge = self._engine._edges[name][0]
        dtype, shape = _dtype(edge), _shape(edge)
        nbytes = int(np.prod(shape)) * dtype.itemsize
        return self.nv.double.emulator.memory(address, nbytes).view(dtype).reshape(shape)

    def _refuse(self, problem: str) -> bool:
        self._say(self._engine._logger, problem)
        return False


def _shape(edge: Any) -> tuple[int, ...]:
    sides = edge.type.tensor_type.shape.dim
    return tuple(side.dim_value if side.HasField("dim_value") else -1 for side in sides)


def _dtype(edge: Any) -> np.dtype:  # type: ignore[type-arg]
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(edge.type.tensor_type.elem_type))
