"""Runs a bundle with ONNX Runtime, on memory that is bound once. The only file that imports it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.closing import ClosedByWith
from edge_sdk.engine.bundle import Bundle
from edge_sdk.engine.manifest import FEATURES, GraphSpec
from edge_sdk.engine.memory import TensorMemory
from edge_sdk.engine.onnx_module import load_cuda_libraries, send_log_to_handlers, severity
from edge_sdk.errors import (
    ConfigError,
    DeviceNotFoundError,
    EngineMismatchError,
    InferenceError,
    ProviderFallbackError,
    StateError,
)
from edge_sdk.requirements import hint_for
from edge_sdk.tensors import TensorSpec

if TYPE_CHECKING:
    import onnxruntime

__all__ = [
    "CPU",
    "CUDA",
    "OnnxRunner",
    "graph_edges",
    "import_onnxruntime",
    "provider_loads",
    "session_options",
]

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"

_log = logging.getLogger(__name__)


class OnnxRunner(ClosedByWith):
    """Implements `Runner` with one ONNX Runtime session a graph.

    On the CPU every tensor is bound by address, once: a run allocates nothing the size of a frame and
    copies nothing. On CUDA the inputs are copied to device memory that is bound once, features stay
    there, and the other outputs come back to the bound host memory.

    ONNX Runtime's own log goes to the logger `edge_sdk.onnxruntime`, or to standard error where its version
    has no callback. That logger's level opens it: errors by default, warnings at INFO, everything at DEBUG.

    Arguments:
        bundle: as `load_bundle` returns it; its files are verified again while they are read.
        provider: `CPU` or `CUDA`.
        precision: "int8", "fp16", "fp32", or None for what the bundle ships to be run.
        threads: within one graph; 1 or more.
        allow_fallback: providers that may run the graphs if `provider` does not load.

    Raises:
        DeviceNotFoundError: ONNX Runtime is not installed.
        ConfigError: no such precision; fewer than one thread.
        EngineIntegrityError, EngineMismatchError: a graph is not what the manifest says.
        ProviderFallbackError: another provider loaded, and `allow_fallback` does not name it.
    """

    def __init__(
        self,
        bundle: Bundle,
        *,
        provider: str = CPU,
        precision: str | None = None,
        threads: int = 1,
        allow_fallback: Sequence[str] = (),
    ) -> None:
        if provider not in (CPU, CUDA):
            raise ConfigError(f"provider {provider!r}: this runner knows {CPU} and {CUDA}")
        if threads < 1:
            raise ConfigError(f"threads: expected 1 or more, found {threads}")
        self._sessions: dict[str, onnxruntime.InferenceSession] = {}
        self._bindings: dict[str, onnxruntime.IOBinding] = {}
        self._closed = False
        loaded = set()
        for graph in bundle.manifest.graphs.values():
            data = bundle.read_graph(graph.name, precision)
            path = bundle.folder / graph.file_for(precision).file
            session = _open_session(data, path, provider, threads, allow_fallback)
            _check_edges(session, graph, path)
            loaded.add(session.get_providers()[0])
            self._sessions[graph.name] = session
        if len(loaded) > 1:
            raise ProviderFallbackError(provider, sorted(loaded), "Some graphs loaded and some fell back.")
        self._provider: str = loaded.pop()
        self._on_device: dict[str, onnxruntime.OrtValue] = {}
        self._uploads: dict[str, tuple[str, ...]] = {}
        self._memory = TensorMemory(bundle.manifest, without_features=self._provider == CUDA)
        for graph in bundle.manifest.graphs.values():
            bind = self._bind_device if self._provider == CUDA else self._bind_host
            self._bindings[graph.name] = bind(graph)

    @property
    def graphs(self) -> tuple[str, ...]:
        """Names of the graphs, in the manifest's order."""
        return tuple(self._sessions)

    @property
    def provider(self) -> str:
        """The execution provider that loaded, as ONNX Runtime reports it."""
        return self._provider

    def array(self, graph: str, tensor: str) -> NDArray[Any]:
        """See `Runner.array`."""
        return self._memory.array(graph, tensor)

    def run(self, graph: str) -> None:
        """See `Runner.run`."""
        if self._closed:
            raise StateError(f"the runner is closed: graph {graph!r} cannot run")
        if graph not in self._sessions:
            raise ConfigError(f"no graph {graph!r}; this bundle has {', '.join(self._sessions)}")
        try:
            for tensor in self._uploads.get(graph, ()):
                self._on_device[tensor].update_inplace(self._memory.array(graph, tensor))
            self._sessions[graph].run_with_iobinding(self._bindings[graph])
        except Exception as error:  # ONNX Runtime raises bare RuntimeError and classes of its own.
            raise InferenceError(graph, self._provider, str(error)) from error

    def close(self) -> None:
        """Ends the sessions, then gives the memory back."""
        self._closed = True
        self._bindings.clear()
        self._on_device.clear()
        self._sessions.clear()
        self._memory.close()

    def _bind_host(self, graph: GraphSpec) -> onnxruntime.IOBinding:
        binding = self._sessions[graph.name].io_binding()
        for spec in graph.inputs:
            binding.bind_input(*self._host(graph, spec))
        for spec in graph.outputs:
            binding.bind_output(*self._host(graph, spec))
        return binding

    def _bind_device(self, graph: GraphSpec) -> onnxruntime.IOBinding:
        """Inputs and features in device memory, allocated once; other outputs bound to the host."""
        binding = self._sessions[graph.name].io_binding()
        for spec in graph.inputs:
            binding.bind_ortvalue_input(spec.name, self._device_tensor(spec))
        for spec in graph.outputs:
            if spec.meaning == FEATURES:
                binding.bind_ortvalue_output(spec.name, self._device_tensor(spec))
            else:
                binding.bind_output(*self._host(graph, spec))
        self._uploads[graph.name] = tuple(spec.name for spec in graph.inputs if spec.meaning != FEATURES)
        return binding

    def _device_tensor(self, spec: TensorSpec) -> onnxruntime.OrtValue:
        if spec.name not in self._on_device:
            ort = import_onnxruntime()
            self._on_device[spec.name] = ort.OrtValue.ortvalue_from_shape_and_type(
                list(spec.shape), np.dtype(spec.dtype).type, "cuda", 0
            )
        return self._on_device[spec.name]

    def _host(self, graph: GraphSpec, spec: TensorSpec) -> tuple[str, str, int, Any, list[int], int]:
        pointer = self._memory.pointer(graph.name, spec.name)
        return spec.name, "cpu", 0, np.dtype(spec.dtype).type, list(spec.shape), pointer


def import_onnxruntime() -> Any:
    """Imports ONNX Runtime, late.

    Raises:
        DeviceNotFoundError: it is not installed, or does not import; says what to install.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise DeviceNotFoundError(
            "onnxruntime",
            [("import onnxruntime", str(error))],
            f"Install one of the two, never both: {hint_for('onnxruntime')}, or for an NVIDIA GPU "
            f"{hint_for('onnxruntime-gpu')}",
        ) from error
    if not hasattr(onnxruntime, "InferenceSession"):
        raise DeviceNotFoundError(
            "onnxruntime",
            [("import onnxruntime", "the module is there but empty")],
            "One of onnxruntime and onnxruntime-gpu was removed beside the other: reinstall the one kept.",
        )
    _set_up(onnxruntime)
    return onnxruntime


@lru_cache(maxsize=1)
def _set_up(module: Any) -> None:
    """Sets, once a process, what holds for all sessions."""
    send_log_to_handlers(module)
    if CUDA in module.get_available_providers():
        load_cuda_libraries(module)


def graph_edges(data: bytes, path: Path) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Reads a graph's inputs and outputs, as ONNX Runtime on the CPU sees them.

    Arguments:
        data: an ONNX file that `scan_onnx` accepted.
        path: where it came from, for messages.

    Returns: inputs and outputs, without layout or meaning.

    Raises:
        DeviceNotFoundError: ONNX Runtime is not installed.
        EngineMismatchError: ONNX Runtime refuses the graph, or a shape or dtype is not fixed or supported.
    """
    session = _open_session(data, path, CPU, 1, ())
    return (
        tuple(_edge(edge, path) for edge in session.get_inputs()),
        tuple(_edge(edge, path) for edge in session.get_outputs()),
    )


def session_options(threads: int) -> Any:
    """Returns the session options of this runner, for whoever wants to compare on equal terms.

    Arguments:
        threads: within one graph.

    Threads do not spin between operators. Each graph has threads of its own, and spinning ones take the
    cores from whatever else runs: the next graph, a camera, a decoder. On two busy cores two graphs in turn
    took 3 to 6 times as long with spinning threads.
    """
    options = import_onnxruntime().SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = severity()
    # Without it, bytes that begin like ONNX Runtime's own format would be read as that.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def provider_loads(provider: str) -> str:
    """Tries a provider by running a graph of one node on it.

    Returns: "" where it works, else why it does not.

    Raises:
        DeviceNotFoundError: ONNX Runtime is not installed.
    """
    try:
        session = _open_session(_PROBE, Path("probe.onnx"), provider, 1, ())
        session.run(None, {"x": np.ones(1, np.float32)})
    except ProviderFallbackError as error:
        available = import_onnxruntime().get_available_providers()
        return str(error) if provider in available else f"this build has {', '.join(available)}"
    except Exception as error:  # ONNX Runtime raises bare RuntimeError and classes of its own.
        return str(error)
    return ""


_PROBE = bytes.fromhex(
    "08083a330a0c0a0178120179220452656c751201705a0f0a0178120a0a08080112040a020801"
    "620f0a0179120a0a08080112040a02080142040a001011"
)
"""An ONNX model: y = Relu(x), float32 [1], opset 17."""

_ONNX_TYPES: Mapping[str, str] = {
    "tensor(uint8)": "uint8",
    "tensor(int8)": "int8",
    "tensor(float16)": "float16",
    "tensor(float)": "float32",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
}


def _open_session(
    data: bytes, path: Path, provider: str, threads: int, allow_fallback: Sequence[str]
) -> onnxruntime.InferenceSession:
    ort = import_onnxruntime()
    available = ort.get_available_providers()
    if provider not in available and CPU not in allow_fallback:
        build = f"This build of ONNX Runtime has {', '.join(available)} only."
        raise ProviderFallbackError(provider, [], f"{build} {_FIX_PROVIDER}")
    asked = [name for name in dict.fromkeys((provider, CPU)) if name in available]
    options = session_options(threads)
    try:
        session = ort.InferenceSession(data, options, providers=asked, enable_fallback=0)
    except Exception as error:  # ONNX Runtime raises bare RuntimeError and classes of its own.
        if provider != CPU and CPU in allow_fallback:
            return _open_session(data, path, CPU, threads, ())
        if provider != CPU:
            raise ProviderFallbackError(provider, [], f"{error} {_FIX_PROVIDER}") from error
        raise EngineMismatchError(
            path,
            "graph",
            f"one that ONNX Runtime {ort.__version__} can run",
            str(error),
            "Export it for an opset that this version knows, or install a newer ONNX Runtime.",
        ) from error
    loaded: list[str] = session.get_providers()
    if loaded[0] != provider:
        if loaded[0] not in allow_fallback:
            raise ProviderFallbackError(provider, loaded, _FIX_PROVIDER)
        _log.warning("%s: asked for %s, %s runs it, as allowed", path.name, provider, loaded[0])
    return session


_FIX_PROVIDER = (
    "Run `edge-sdk doctor` to see what is missing, or allow it by name: "
    "allow_fallback=('CPUExecutionProvider',)."
)


def _check_edges(session: onnxruntime.InferenceSession, graph: GraphSpec, path: Path) -> None:
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


def _edge(edge: Any, path: Path) -> TensorSpec:
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
