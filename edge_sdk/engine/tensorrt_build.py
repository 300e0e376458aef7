"""Builds a plan from an ONNX graph: strongly typed, with no calibrator.

What is INT8 and what is not stands in the graph's Q/DQ nodes and types; the builder is left no choice
of precision. That is the one form which TensorRT 10.3 and 11 share.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edge_sdk.engine.tensorrt_api import TensorRt
from edge_sdk.errors import ConfigError, EngineError

if TYPE_CHECKING:
    import tensorrt as trt

__all__ = ["OPTIMISATION_LEVELS", "BuildOptions", "Built", "build_plan"]

OPTIMISATION_LEVELS = range(6)
"""Source: TensorRT, IBuilderConfig.builder_optimization_level: 0 to 5, 3 by default."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BuildOptions:
    """How plans are built.

    Attributes:
        workspace_mib: memory that a layer may use while it is timed and run, in MiB; 1 or more.
        optimisation_level: 0 (fast to build) to 5 (fast to run).
        remainder: "fp16" or "fp32": what the layers that are not INT8 compute in. A screening graph keeps
            the types that it has.
        dla_core: DLA core for the thermal graph, or None for the GPU.
        dla_gpu_fallback: whether layers that the DLA cannot run may run on the GPU.

    Raises:
        ConfigError: a value is out of range.
    """

    workspace_mib: int = 512
    optimisation_level: int = 3
    remainder: str = "fp16"
    dla_core: int | None = None
    dla_gpu_fallback: bool = False

    def __post_init__(self) -> None:
        if self.workspace_mib < 1:
            raise ConfigError(f"workspace: expected 1 MiB or more, found {self.workspace_mib}")
        if self.optimisation_level not in OPTIMISATION_LEVELS:
            raise ConfigError(f"optimisation level: expected 0 to 5, found {self.optimisation_level}")
        if self.remainder not in ("fp16", "fp32"):
            raise ConfigError(f"remainder: expected fp16 or fp32, found {self.remainder!r}")
        if self.dla_core is not None and self.dla_core < 0:
            raise ConfigError(f"DLA core: expected 0 or more, found {self.dla_core}")


@dataclass(frozen=True)
class Built:
    """What a build gave.

    Attributes:
        plan: the serialized plan.
        timing_cache: what the builder learned of this machine's kernels, for the next build.
    """

    plan: bytes
    timing_cache: bytes


def build_plan(
    api: TensorRt,
    onnx: bytes,
    name: str,
    options: BuildOptions,
    *,
    timing_cache: bytes = b"",
    on_dla: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Built:
    """Builds one graph.

    Arguments:
        api: TensorRT.
        onnx: the graph's file, verified by whoever read it.
        name: of the graph, for messages.
        options: see `BuildOptions`.
        timing_cache: of an earlier build on this machine, or empty.
        on_dla: build it for `options.dla_core`.
        progress: called with (phase, steps done, steps in all) as the builder goes on.

    Raises:
        EngineError: TensorRT refuses the graph, or cannot build it; says why in its own words.
        ConfigError: the graph cannot go on a DLA, with the reason.
        KeyboardInterrupt: the build was stopped; nothing is left behind.
    """
    nv = api.module
    api.log.recent.clear()
    builder: trt.Builder = nv.Builder(api.log)
    strongly_typed = 1 << int(nv.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    network: trt.INetworkDefinition = builder.create_network(strongly_typed)
    parser: trt.OnnxParser = nv.OnnxParser(network, api.log)
    if not parser.parse(onnx):
        problems = "; ".join(_parser_error(parser, index) for index in range(parser.num_errors))
        raise EngineError(f"TensorRT {api.version} cannot read graph {name!r}: {problems or api.log.why()}")
    config: trt.IBuilderConfig = builder.create_builder_config()
    config.set_memory_pool_limit(nv.MemoryPoolType.WORKSPACE, options.workspace_mib << 20)
    config.builder_optimization_level = options.optimisation_level
    # The inspector says on which unit each layer lies only where this is on.
    config.profiling_verbosity = nv.ProfilingVerbosity.DETAILED
    if on_dla:
        _place_on_dla(nv, builder, network, config, name, options)
    monitor = _monitor(nv, progress)
    config.progress_monitor = monitor
    cache = _use_timing_cache(config, timing_cache)
    plan: trt.IHostMemory | None = builder.build_serialized_network(network, config)
    if monitor.stopped_by is not None:
        raise monitor.stopped_by
    if plan is None:
        raise EngineError(f"TensorRT {api.version} cannot build graph {name!r}: {api.log.why()}")
    learned: trt.IHostMemory | None = cache.serialize() if cache is not None else None
    return Built(bytes(plan), bytes(learned) if learned is not None else b"")


def _parser_error(parser: trt.OnnxParser, index: int) -> str:
    error: trt.ParserError = parser.get_error(index)
    return f"node {error.node()} ({error.node_operator()} {error.node_name()}): {error.desc()}"


def _use_timing_cache(config: trt.IBuilderConfig, data: bytes) -> trt.ITimingCache | None:
    """A cache of another version or GPU is refused by TensorRT; an empty one takes its place.

    TensorRT-RTX has none.
    """
    if not hasattr(config, "create_timing_cache"):
        return None
    for content in dict.fromkeys((data, b"")):
        cache: trt.ITimingCache | None = config.create_timing_cache(content)
        if cache is not None and config.set_timing_cache(cache, False):
            return cache
        _log.info("the timing cache of %d bytes is not for this machine: starting a new one", len(content))
    return None


def _place_on_dla(
    nv: Any,
    builder: trt.Builder,
    network: trt.INetworkDefinition,
    config: trt.IBuilderConfig,
    name: str,
    options: BuildOptions,
) -> None:
    cores, wanted = builder.num_DLA_cores, options.dla_core
    assert wanted is not None
    if wanted >= cores:
        raise ConfigError(f"DLA core {wanted}: this module has {cores} DLA cores. Build without --dla-core.")
    for index in range(network.num_inputs):
        tensor: trt.ITensor = network.get_input(index)
        if any(side < 0 for side in tensor.shape):
            raise ConfigError(
                f"graph {name!r} cannot go on a DLA: input {tensor.name!r} has the dynamic shape "
                f"{list(tensor.shape)}, and a DLA wants fixed ones. Export it with a fixed shape."
            )
    config.default_device_type = nv.DeviceType.DLA
    config.DLA_core = wanted
    if options.dla_gpu_fallback:
        config.set_flag(nv.BuilderFlag.GPU_FALLBACK)


def _monitor(nv: Any, progress: Callable[[str, int, int], None] | None) -> Any:
    """TensorRT calls it inside a build, where no exception must get out: it stops the build instead."""

    class Monitor(nv.IProgressMonitor):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            nv.IProgressMonitor.__init__(self)
            self.stopped_by: BaseException | None = None
            self._steps: dict[str, int] = {}

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            self._steps[phase_name] = num_steps
            self._tell(phase_name, 0)

        def step_complete(self, phase_name: str, step: int) -> bool:
            self._tell(phase_name, step + 1)
            return self.stopped_by is None

        def phase_finish(self, phase_name: str) -> None:
            self._tell(phase_name, self._steps.get(phase_name, 0))

        def _tell(self, phase: str, done: int) -> None:
            try:
                if progress is not None and self.stopped_by is None:
                    progress(phase, done, self._steps.get(phase, 0))
            except BaseException as error:  # Ctrl-C arrives here too
                self.stopped_by = error

    return Monitor()
