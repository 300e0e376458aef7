"""The double's runtime: plans computed by ONNX Runtime, in memory and on streams of the emulated driver."""

from __future__ import annotations

import ctypes
import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from emulator import Emulator

from edge_sdk.engine.onnx_runner import CPU, import_onnxruntime, open_session, session_options
from tensorrt_double.base import MAGIC, Strict, dtype_of, shape_of

ALIGNMENT = 256
TYPES = {
    "uint8": "UINT8",
    "int8": "INT8",
    "float32": "FLOAT",
    "float16": "HALF",
    "int32": "INT32",
    "int64": "INT64",
}
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Runtime(Strict):
    real = "Runtime"

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        emulator: Emulator = self.nv.double.emulator
        if emulator.context_depth() == 0:
            raise AssertionError("a Runtime without a current CUDA context may crash the process")

    def deserialize_cuda_engine(self, serialized_engine: bytes) -> Any:
        data = bytes(serialized_engine)
        if not data.startswith(MAGIC):
            self._say(self._logger, "magic tag does not match")
            return None
        (length,) = struct.unpack_from("<I", data, len(MAGIC))
        start = len(MAGIC) + 4
        head, model = json.loads(data[start : start + length]), data[start + length :]
        if head["version"] != self.nv.__version__:
            self._say(self._logger, "the engine plan file is not compatible with this version of TensorRT")
            return None
        if hashlib.sha256(model).hexdigest() != head["sha256"]:
            self._say(self._logger, "the plan is corrupt")
            return None
        return self.nv.ICudaEngine(model, head["layers"], self._logger)


class Engine(Strict):
    real = "ICudaEngine"

    def __init__(self, model: bytes, layers: list[dict[str, str]], logger: Any) -> None:
        self._logger, self._layers = logger, layers
        loaded = onnx.load_model_from_string(model)
        if any(tensor.data_type == onnx.TensorProto.FLOAT16 for tensor in loaded.graph.initializer):
            # ONNX Runtime 1.32 on the CPU fuses Q/DQ around fp16 convolutions into wrong results.
            ort = import_onnxruntime()
            options = session_options(1)
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
            self._session = ort.InferenceSession(model, options, providers=[CPU])
        else:
            self._session = open_session(model, Path("plan"), CPU, 1).session
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
        return shape_of(self._edges[name][0])

    def get_tensor_dtype(self, name: str) -> Any:
        return self.nv.DataType[TYPES[dtype_of(self._edges[name][0]).name]]

    def get_tensor_mode(self, name: str) -> Any:
        return self.nv.TensorIOMode["INPUT" if self._edges[name][1] else "OUTPUT"]

    def get_tensor_location(self, name: str) -> Any:
        return self.nv.TensorLocation.DEVICE

    def create_engine_inspector(self) -> Any:
        return self.nv.EngineInspector(self._layers)

    def create_execution_context(self) -> Any:
        return self.nv.IExecutionContext(self)


class Inspector(Strict):
    real = "EngineInspector"

    def __init__(self, layers: list[dict[str, str]]) -> None:
        self._layers = layers

    def get_engine_information(self, format: Any) -> str:
        assert format is self.nv.LayerInformationFormat.JSON
        return json.dumps({"Layers": self._layers, "Bindings": []})


class Context(Strict):
    real = "IExecutionContext"

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._addresses: dict[str, int] = {}
        self._shapes: set[str] = set()
        self._functions: dict[tuple[tuple[str, int], ...], Any] = {}
        self._thread = 0

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        edge, is_input = self._engine._edges.get(name, (None, False))
        if not is_input or tuple(shape) != shape_of(edge):
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
            self._functions[place] = HOST_FUNCTION(lambda _: self._compute(dict(place)))
        launch = ctypes.CDLL(str(double.emulator.path)).cuLaunchHostFunc
        launch.argtypes = [ctypes.c_void_p, HOST_FUNCTION, ctypes.c_void_p]
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
        dtype, shape = dtype_of(edge), shape_of(edge)
        nbytes = int(np.prod(shape)) * dtype.itemsize
        return self.nv.double.emulator.memory(address, nbytes).view(dtype).reshape(shape)

    def _refuse(self, problem: str) -> bool:
        self._say(self._engine._logger, problem)
        return False
