"""TensorRT 10.3 to 11: the only file that imports it, and everything in it that depends on its version.

Tensors are known by name, enumerations by name, and what only some versions have is asked for with
`hasattr`. Every boolean that TensorRT returns is checked here, so that no caller can forget it.
"""

from __future__ import annotations

import functools
import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edge_sdk.errors import DeviceNotFoundError, EngineError, InferenceError

if TYPE_CHECKING:
    import tensorrt as trt

__all__ = ["OLDEST", "Context", "Engine", "IoTensor", "TensorRt", "import_tensorrt"]

OLDEST = (10, 3)
"""The oldest version this is written for: JetPack 6.1 to 6.2."""

_LEVELS = {
    "INTERNAL_ERROR": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARNING": logging.WARNING,
    "INFO": logging.INFO,
    "VERBOSE": logging.DEBUG,
}

_DTYPES = {
    "FLOAT": "float32",
    "HALF": "float16",
    "INT8": "int8",
    "UINT8": "uint8",
    "INT32": "int32",
    "INT64": "int64",
    "BOOL": "bool",
}

_log = logging.getLogger("edge_sdk.tensorrt")


@dataclass(frozen=True)
class IoTensor:
    """An input or output of an engine.

    Attributes:
        name, shape: as the plan has them; a dynamic side is -1.
        dtype: NumPy's name for it, or TensorRT's own where NumPy has none.
        is_input: whether it is read.
        on_device: whether TensorRT reads or writes it in device memory.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_input: bool
    on_device: bool


def import_tensorrt() -> TensorRt:
    """Imports TensorRT, late.

    It must have been made sure before that CUDA works: without a driver, the first use of a
    `Runtime` may end the process.

    Raises:
        DeviceNotFoundError: it is not installed for this Python, does not import, or is too old.
    """
    try:
        import tensorrt
    except Exception as error:  # a missing library of the driver is an ImportError or an OSError
        python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
        raise DeviceNotFoundError(
            "tensorrt",
            [("import tensorrt", str(error))],
            f"On a Jetson it comes with JetPack for the system's Python only; this is {python} in "
            f"{sys.prefix}. Make the environment with the system's Python and --system-site-packages. "
            "On x86 take the one of your CUDA: pip install 'tensorrt-cu12>=10.3' or 'tensorrt-cu13>=10.13'.",
        ) from error
    return TensorRt(tensorrt)


class TensorRt:
    """TensorRT's module, with its log going to the logger `edge_sdk.tensorrt`.

    Arguments:
        module: `tensorrt`, or a module with the same names.

    Raises:
        DeviceNotFoundError: the module is empty, or older than `OLDEST`.
    """

    def __init__(self, module: Any) -> None:
        self.module: Any = module
        self.version: str = str(getattr(module, "__version__", ""))
        parts = self.version.split(".")
        number = tuple(int(part) for part in parts[:2] if part.isdigit())
        if len(number) < 2 or not hasattr(module, "Runtime"):
            raise DeviceNotFoundError(
                "tensorrt", [("import tensorrt", "the module is there but empty")], "Install it again."
            )
        if number < OLDEST:
            wanted = ".".join(map(str, OLDEST))
            raise DeviceNotFoundError(
                "tensorrt",
                [("version", f"found {self.version}, needs {wanted} or later")],
                "JetPack 6.1 and later bring it.",
            )
        self.log = logger_of(module)

    def load(self, plan: bytes, name: str, dla_core: int | None = None) -> Engine:
        """Makes an engine of a plan. CUDA must work, and a context be current.

        A plan is code: who calls this has made sure where it comes from.

        Arguments:
            plan: as it was built.
            name: of the graph, for messages.
            dla_core: on which its DLA layers run, if it has any.

        Raises:
            EngineError: TensorRT refuses the plan; says why in its own words.
        """
        self.log.recent.clear()
        runtime: trt.Runtime = self.module.Runtime(self.log)
        if dla_core is not None:
            runtime.DLA_core = dla_core
        engine: trt.ICudaEngine | None = runtime.deserialize_cuda_engine(plan)
        if engine is None:
            raise EngineError(f"TensorRT {self.version} refuses the plan of graph {name!r}: {self.log.why()}")
        return Engine(self, runtime, engine, name)


class Engine:
    """One plan, loaded: its tensors and layers, and contexts to run it in. Made by `TensorRt.load`."""

    def __init__(self, api: TensorRt, runtime: trt.Runtime, engine: trt.ICudaEngine, name: str) -> None:
        self.name = name
        self._api = api
        # TensorRT wants the runtime to outlive its engines.
        self._runtime: trt.Runtime | None = runtime
        self._engine: trt.ICudaEngine | None = engine
        self.tensors = tuple(
            _io_tensor(engine, engine.get_tensor_name(index)) for index in range(engine.num_io_tensors)
        )

    @property
    def is_dynamic(self) -> bool:
        """Whether a side of some tensor is left open."""
        return any(side < 0 for tensor in self.tensors for side in tensor.shape)

    def layers(self) -> tuple[dict[str, Any], ...]:
        """Returns what the engine inspector says of each layer; at least its "Name"."""
        nv, engine = self._api.module, self._engine
        assert engine is not None
        inspector: trt.EngineInspector = engine.create_engine_inspector()
        found = json.loads(inspector.get_engine_information(nv.LayerInformationFormat.JSON) or "{}")
        layers = found.get("Layers", [])
        return tuple(layer if isinstance(layer, dict) else {"Name": str(layer)} for layer in layers)

    def new_context(self) -> Context:
        """Makes an execution context with working memory of its own, for one thread.

        Raises:
            EngineError: there is not enough memory, in TensorRT's words.
        """
        engine = self._engine
        assert engine is not None
        self._api.log.recent.clear()
        context: trt.IExecutionContext | None = engine.create_execution_context()
        if context is None:
            why = self._api.log.why()
            raise EngineError(
                f"no execution context for graph {self.name!r}: {why}. Usually device memory is short: "
                "close other programs; on a Jetson look at NvMapMemUsed in /proc/meminfo."
            )
        return Context(self._api, context, self.name)

    def close(self) -> None:
        """Gives the engine back, after all of its contexts. A second call does nothing."""
        self._engine = None
        self._runtime = None


class Context:
    """Runs one engine, with the addresses it was given. Made by `Engine.new_context`."""

    def __init__(self, api: TensorRt, context: trt.IExecutionContext, name: str) -> None:
        self._api, self._name = api, name
        self._context: trt.IExecutionContext | None = context

    def set_shape(self, tensor: str, shape: Sequence[int]) -> None:
        """Sets the shape of an input.

        Raises:
            InferenceError: TensorRT refuses it.
        """
        assert self._context is not None
        self._check(
            self._context.set_input_shape(tensor, tuple(shape)), f"shape {list(shape)} of {tensor!r} refused"
        )

    def set_address(self, tensor: str, pointer: int) -> None:
        """Sets where an input is read or an output written.

        Raises:
            InferenceError: TensorRT refuses it.
        """
        assert self._context is not None
        self._check(
            self._context.set_tensor_address(tensor, pointer), f"address {pointer:#x} of {tensor!r} refused"
        )

    def unready(self) -> tuple[str, ...]:
        """Returns the inputs that still lack a shape."""
        assert self._context is not None
        return tuple(self._context.infer_shapes())

    def enqueue(self, stream: int) -> None:
        """Puts one inference on a stream and returns at once.

        Raises:
            InferenceError: TensorRT refuses; the outputs are what they were before.
        """
        assert self._context is not None
        self._api.log.recent.clear()
        self._check(self._context.execute_async_v3(stream), "enqueue refused, the outputs are old")

    def close(self) -> None:
        """Gives the context back. A second call does nothing."""
        self._context = None

    def _check(self, accepted: bool, problem: str) -> None:
        if not accepted:
            why = self._api.log.why()
            raise InferenceError(self._name, f"TensorRT {self._api.version}", f"{problem}: {why}")


def _io_tensor(engine: trt.ICudaEngine, name: str) -> IoTensor:
    dtype, mode, place = (
        engine.get_tensor_dtype(name),
        engine.get_tensor_mode(name),
        engine.get_tensor_location(name),
    )
    return IoTensor(
        name,
        _DTYPES.get(dtype.name, dtype.name),
        tuple(engine.get_tensor_shape(name)),
        mode.name == "INPUT",
        place.name == "DEVICE",
    )


@functools.cache
def logger_of(module: Any) -> Any:
    """Makes the one logger of a TensorRT module.

    TensorRT keeps the first logger that it is given for as long as the process lives, so it must
    never go away; that is why this result is kept.
    """

    class Log(module.ILogger):  # type: ignore[misc,name-defined]
        """Hands TensorRT's log on, and remembers its latest errors for messages."""

        def __init__(self) -> None:
            module.ILogger.__init__(self)
            self.recent: list[str] = []

        def log(self, severity: trt.ILogger.Severity, msg: str) -> None:
            level = _LEVELS.get(severity.name, logging.WARNING)
            _log.log(level, "%s", msg)
            if level >= logging.ERROR:
                self.recent = [*self.recent[-7:], msg.strip()]

        def why(self) -> str:
            """Returns TensorRT's latest errors as one line."""
            return "; ".join(self.recent) or "TensorRT gave no reason"

    return Log()
