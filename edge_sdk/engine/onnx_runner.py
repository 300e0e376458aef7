"""Runs a bundle with ONNX Runtime, on memory that is bound once. The only file that imports it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.closing import ClosedByWith
from edge_sdk.engine.bundle import Bundle
from edge_sdk.engine.int8_sums import BY_OPTION, EXACT, EXACT_OPTION, QUANTISED, SATURATING, probe_sums
from edge_sdk.engine.manifest import FEATURES, GraphSpec
from edge_sdk.engine.memory import TensorMemory
from edge_sdk.engine.onnx_constants import own_constants
from edge_sdk.engine.onnx_edges import check_edges, read_edge
from edge_sdk.engine.onnx_module import load_cuda_libraries, send_log_to_handlers, severity
from edge_sdk.engine.onnx_scan import scan_onnx
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
    "OpenSession",
    "cpu_sums",
    "graph_edges",
    "import_onnxruntime",
    "open_session",
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
        literal: run every node as the file has it, in floating point between Q/DQ and nothing fused: slow,
            and the same on every CPU. On the CPU only.

    Raises:
        DeviceNotFoundError: ONNX Runtime is not installed.
        ConfigError: no such precision; fewer than one thread; `literal` elsewhere than on the CPU.
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
        literal: bool = False,
    ) -> None:
        if provider not in (CPU, CUDA):
            raise ConfigError(f"provider {provider!r}: this runner knows {CPU} and {CUDA}")
        if literal and provider != CPU:
            raise ConfigError(f"literal: expected {CPU}, found {provider}")
        if threads < 1:
            raise ConfigError(f"threads: expected 1 or more, found {threads}")
        self._sessions: dict[str, onnxruntime.InferenceSession] = {}
        self._bindings: dict[str, onnxruntime.IOBinding] = {}
        self._closed = False
        loaded, sums = set(), set()
        for graph in bundle.manifest.graphs.values():
            data = bundle.read_graph(graph.name, precision)
            path = bundle.folder / graph.file_for(precision).file
            opened = open_session(data, path, provider, threads, allow_fallback, literal=literal)
            check_edges(opened.session, graph, path)
            loaded.add(opened.session.get_providers()[0])
            sums.add(opened.int8_sums)
            self._sessions[graph.name] = opened.session
        if len(loaded) > 1:
            raise ProviderFallbackError(provider, sorted(loaded), "Some graphs loaded and some fell back.")
        self._provider: str = loaded.pop()
        self._int8_sums = next(word for word in (SATURATING, BY_OPTION, EXACT, "") if word in sums)
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

    @property
    def int8_sums(self) -> str:
        """How INT8 products are added on the CPU: a word of `int8_sums`, the worst of all graphs.

        "" where no graph is INT8, and on a GPU.
        """
        return self._int8_sums

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


@cache
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
    session = open_session(data, path, CPU, 1).session
    return (
        tuple(read_edge(edge, path) for edge in session.get_inputs()),
        tuple(read_edge(edge, path) for edge in session.get_outputs()),
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
        session = open_session(_PROBE, Path("probe.onnx"), provider, 1).session
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


@dataclass(frozen=True)
class OpenSession:
    """A session, and how it adds.

    Attributes:
        session: ONNX Runtime's.
        int8_sums: as `OnnxRunner.int8_sums`.
    """

    session: onnxruntime.InferenceSession
    int8_sums: str


def open_session(
    data: bytes,
    path: Path,
    provider: str,
    threads: int,
    allow_fallback: Sequence[str] = (),
    *,
    literal: bool = False,
) -> OpenSession:
    """Opens one graph as `OnnxRunner` does: with exact INT8 sums wherever ONNX Runtime has them.

    Arguments:
        data: an ONNX file that `scan_onnx` accepted.
        path: where it came from, for messages.
        provider, threads, allow_fallback, literal: as for `OnnxRunner`.

    Raises:
        As `OnnxRunner`.
    """
    ort = import_onnxruntime()
    available = ort.get_available_providers()
    if provider not in available and CPU not in allow_fallback:
        build = f"This build of ONNX Runtime has {', '.join(available)} only."
        raise ProviderFallbackError(provider, [], f"{build} {_FIX_PROVIDER}")
    if provider == CPU:
        return _open_on_cpu(data, path, threads, literal)
    if provider in available:
        try:
            options = session_options(threads)
            session = ort.InferenceSession(data, options, providers=[provider, CPU], enable_fallback=0)
        except Exception as error:  # ONNX Runtime raises bare RuntimeError and classes of its own.
            if CPU not in allow_fallback:
                raise ProviderFallbackError(provider, [], f"{error} {_FIX_PROVIDER}") from error
        else:
            loaded: list[str] = session.get_providers()
            if loaded[0] == provider:
                return OpenSession(session, "")
            if loaded[0] not in allow_fallback:
                raise ProviderFallbackError(provider, loaded, _FIX_PROVIDER)
    _log.warning("%s: asked for %s, %s runs it, as allowed", path.name, provider, CPU)
    return _open_on_cpu(data, path, threads, literal)


def _open_on_cpu(data: bytes, path: Path, threads: int, literal: bool) -> OpenSession:
    ort = import_onnxruntime()
    options = session_options(threads)
    sums = ""
    if scan_onnx(data, path).operators & QUANTISED:
        sums = EXACT if literal else cpu_sums()
    if literal:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if sums == BY_OPTION:
        exact = session_options(threads)
        exact.add_session_config_entry(*EXACT_OPTION)
        exact.log_severity_level = 4  # a failure here is no error yet
        try:
            session = ort.InferenceSession(own_constants(data), exact, providers=[CPU], enable_fallback=0)
            return OpenSession(session, BY_OPTION)
        except Exception as error:  # ONNX Runtime raises bare RuntimeError and classes of its own.
            _log.debug("%s does not open with %s: %s", path.name, EXACT_OPTION[0], error)
            sums = SATURATING
    try:
        session = ort.InferenceSession(data, options, providers=[CPU], enable_fallback=0)
    except Exception as error:  # ONNX Runtime raises bare RuntimeError and classes of its own.
        raise EngineMismatchError(
            path,
            "graph",
            f"one that ONNX Runtime {ort.__version__} can run",
            str(error),
            "Export it for an opset that this version knows, or install a newer ONNX Runtime.",
        ) from error
    if sums == SATURATING:
        _log.warning(
            "%s: INT8 sums saturate on this CPU; edge_sdk.load(precision='fp32') is exact", path.name
        )
    return OpenSession(session, sums)


@cache
def cpu_sums() -> str:
    """Says how ONNX Runtime adds INT8 products on this CPU, found once a process by running a small graph.

    Returns: `EXACT`, `BY_OPTION` or `SATURATING` of `int8_sums`.

    Raises:
        DeviceNotFoundError: ONNX Runtime is not installed.
    """
    ort = import_onnxruntime()

    def run(model: bytes, with_option: bool) -> float:
        options = session_options(1)
        if with_option:
            options.add_session_config_entry(*EXACT_OPTION)
        session = ort.InferenceSession(model, options, providers=[CPU])
        return float(session.run(None, {"x": np.ones((1, 8, 4, 4), np.float32)})[0].flat[0])

    return probe_sums(run)


_FIX_PROVIDER = (
    "Run `edge-sdk doctor` to see what is missing, or allow it by name: "
    "allow_fallback=('CPUExecutionProvider',)."
)
