"""TensorRT on this machine: plans built, compared with their graphs, kept, found again and opened."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edge_sdk.buffers.choice import Module, load_choice
from edge_sdk.buffers.cuda import CudaDevice
from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.devices.canary import canary_frames, compare
from edge_sdk.devices.machine import board_model, usable_cores
from edge_sdk.engine.bundle import Bundle
from edge_sdk.engine.half import half_remainder, import_onnx
from edge_sdk.engine.manifest import SCREEN_GRAPH
from edge_sdk.engine.onnx_runner import OnnxRunner, import_onnxruntime
from edge_sdk.engine.plan_key import PlanFile, PlanKey, Sidecar
from edge_sdk.engine.plan_store import LoadedPlans, PlanStore, read_plans
from edge_sdk.engine.tensorrt_api import TensorRt, import_tensorrt
from edge_sdk.engine.tensorrt_build import BuildOptions, build_plan
from edge_sdk.engine.tensorrt_graphs import MODES
from edge_sdk.engine.tensorrt_runner import SharedEngines, TensorRtRunner
from edge_sdk.engine.verify import sha256_of
from edge_sdk.errors import ConfigError, PlanRejectedError

__all__ = ["DLA_GRAPH", "SLOWER_WARNING", "PlanOptions", "build_plans", "layer_places", "open_tensorrt"]

DLA_GRAPH = "thermal"
"""The only graph that may lie on a DLA: it stands alone, so that it can run beside the GPU."""

SLOWER_WARNING = 1.5
"""A graph that takes this many times its baseline gives a warning."""

_WARM_RUNS = 20
_BASELINE_RUNS = 50
_DLA_LIBRARY = "libnvdla_compiler.so"

_log = logging.getLogger(__name__)

Progress = Callable[[str, str, int, int], None]
"""(graph, phase, steps done, steps in all)"""


@dataclass(frozen=True)
class PlanOptions:
    """How plans are found and run.

    Attributes:
        dla: use the plans whose thermal graph lies on a DLA.
        folder: of plans from elsewhere; None for the user's cache.
        trust_sha256: hash of their record, which a person vouches for; required with `folder`.
        cuda_graphs: "auto", "on" or "off", see `TensorRtRunner`.
        overlap_upload: copy thermal beside the RGB graph.

    Raises:
        ConfigError: plans from elsewhere without a hash, a hash without plans, or no such mode.
    """

    dla: bool = False
    folder: Path | None = None
    trust_sha256: str | None = None
    cuda_graphs: str = "auto"
    overlap_upload: bool = False

    def __post_init__(self) -> None:
        if self.cuda_graphs not in MODES:
            raise ConfigError(f"CUDA graphs {self.cuda_graphs!r}: expected {', '.join(MODES)}")
        if (self.folder is None) != (self.trust_sha256 is None):
            raise ConfigError(
                "plans from elsewhere are code: name their folder with --plans and the hash of their record, "
                "as its maker gave it to you, with --trust-plan. Both or neither."
            )


def open_tensorrt(
    bundle: Bundle,
    *,
    precision: str | None = None,
    options: PlanOptions | None = None,
    store: PlanStore | None = None,
    root: Path = Path("/"),
    clock: Clock | None = None,
) -> TensorRtRunner:
    """Opens a bundle's plans. CUDA is tried before TensorRT, which may crash without it.

    Arguments:
        bundle: as `load_bundle` returns it.
        precision: of the graphs the plans were built from.
        options: see `PlanOptions`.
        store: where plans lie.
        root: of the file system, for the board's model.
        clock: for CUDA graphs.

    Raises:
        DeviceNotFoundError: no GPU or no TensorRT; says what was tried.
        PlanMismatchError, EngineIntegrityError, EngineError: no plans that can be trusted and fit.
    """
    options = options or PlanOptions()
    device = CudaDevice.open()
    try:
        api = import_tensorrt()
        key = machine_key(bundle, api, device, precision, options.dla, root)
        if options.folder is not None:
            loaded = read_plans(options.folder, key, options.trust_sha256)
        else:
            loaded = (store or PlanStore()).find(key)
    except BaseException:
        device.close()
        raise
    kinds = _measured_kinds(bundle, key)
    dla_core = loaded.sidecar.options.get("dla_core")
    runner = _open(bundle, api, device, loaded.plans, dla_core, options, clock, kinds)
    try:
        _warm_and_compare(runner, loaded)
    except BaseException:
        runner.close()
        raise
    return runner


def build_plans(
    bundle: Bundle,
    build: BuildOptions,
    *,
    precision: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
    store: PlanStore | None = None,
    root: Path = Path("/"),
    load_library: Callable[[str], object] = ctypes.CDLL,
) -> tuple[LoadedPlans, bool]:
    """Builds a bundle's plans here, compares them with the ONNX graphs, and keeps them if they agree.

    Arguments:
        bundle: as `load_bundle` returns it.
        build: how.
        precision: of the graphs to build from; None for what the bundle ships.
        force: build although there are plans that fit.
        progress: told of each step of the builder.
        store: where plans go.
        root: of the file system, for the board's model.
        load_library: how to see whether a system library is there.

    Returns: the plans, and whether they were built now (another process may have been faster).

    Raises:
        DeviceNotFoundError: no GPU, no TensorRT, or nothing to compare with. Said before anything is built.
        ConfigError: the thermal graph cannot go on a DLA here, with the reason.
        PlanRejectedError: a plan answers otherwise than its graph, or is not on the DLA. Nothing is kept.
        EngineError: TensorRT cannot build a graph, or the disk is full.
    """
    import_onnxruntime()  # the comparison at the end needs it: said now, not after minutes
    if build.remainder == "fp16":
        import_onnx()
    store = store or PlanStore()
    on_dla = build.dla_core is not None
    with CudaDevice.open() as device:
        api = import_tensorrt()
        if on_dla:
            _refuse_dla(bundle, root, load_library)
        key = machine_key(bundle, api, device, precision, on_dla, root)
    with store.building(key):
        if not force and store.has(key):
            return store.find(key), False
        plans, places, learned = {}, {}, store.timing_cache(key)
        for name in bundle.manifest.graphs:
            data = bundle.read_graph(name, precision)
            if build.remainder == "fp16" and name != SCREEN_GRAPH:  # the screen guards safety and is tiny
                data = half_remainder(data, name)
            with CudaDevice.open() as device, device.current():
                built = build_plan(
                    api,
                    data,
                    name,
                    build,
                    timing_cache=learned,
                    on_dla=on_dla and name == DLA_GRAPH,
                    progress=_for_graph(name, progress),
                )
            plans[name], learned = built.plan, built.timing_cache or learned
            store.keep_timing_cache(key, learned)
        device = CudaDevice.open()
        runner = _open(bundle, api, device, plans, build.dla_core, PlanOptions(cuda_graphs="off"))
        with runner:
            for name in plans:
                places[name] = layer_places(runner.layers(name))
            if on_dla:
                _check_dla(places[DLA_GRAPH], build)
            figures = _canary(bundle, precision, runner)
            baseline = {} if runner.emulated else _medians(runner, _BASELINE_RUNS)
        record = {
            name: PlanFile(f"{name}-{sha256_of(data)[:12]}.plan", len(data), sha256_of(data), *places[name])
            for name, data in plans.items()
        }
        sidecar = Sidecar(key, record, asdict(build), figures, baseline)
        return store.write(key, plans, record, sidecar), True


def machine_key(
    bundle: Bundle, api: TensorRt, device: CudaDevice, precision: str | None, dla: bool, root: Path
) -> PlanKey:
    """Says what plans of a bundle must have been built for, to be loaded here."""
    return PlanKey(
        bundle=bundle.name,
        bundle_sha256=bundle.sha256,
        precision=precision or next(iter(bundle.manifest.graphs.values())).precision,
        tensorrt=api.version,
        gpu=device.name,
        compute_capability=".".join(map(str, device.compute_capability)),
        module=board_model(root) or "none",
        dla=DLA_GRAPH if dla else "none",
    )


def layer_places(layers: tuple[dict[str, Any], ...]) -> tuple[int, int]:
    """Counts an engine's layers by where they run: (on a DLA, on the GPU). Copies are not counted.

    Source: NVIDIA/TensorRT issue 3143, an engine with a DLA part as the inspector shows it: that part is one
    layer "{ForeignNode[...]}", beside copies "... to nvm", "... from nvm" and "... copy finish". The GPU's
    own foreign nodes have the layer type "Myelin" or "kgen". What is not known counts as the GPU.
    """
    names = [str(layer.get("Name", "")) for layer in layers]
    has_dla = any(name.endswith((" to nvm", " from nvm")) for name in names)
    dla = gpu = 0
    for layer, name in zip(layers, names, strict=True):
        kind = str(layer.get("LayerType", "")).lower()
        if name.endswith((" to nvm", " from nvm", " copy finish")):
            continue
        foreign = has_dla and name.startswith("{ForeignNode[") and kind not in ("myelin", "kgen")
        if "dla" in kind or foreign:
            dla += 1
        else:
            gpu += 1
    return dla, gpu


def _open(
    bundle: Bundle,
    api: TensorRt,
    device: CudaDevice,
    plans: Mapping[str, bytes],
    dla_core: int | None,
    options: PlanOptions,
    clock: Clock | None = None,
    kinds: Mapping[str, str] | None = None,
) -> TensorRtRunner:
    shared = SharedEngines(api, device, bundle.manifest, plans, dla_core)
    try:
        return TensorRtRunner(
            shared,
            kinds=kinds,
            cuda_graphs=options.cuda_graphs,
            overlap_upload=options.overlap_upload,
            clock=clock or MonotonicClock(),
        )
    finally:
        shared.release()


def _measured_kinds(bundle: Bundle, key: PlanKey) -> Mapping[str, str] | None:
    """What `edge-sdk bench buffers` found best for this bundle on this module."""
    board = "" if key.module == "none" else key.module
    choice = load_choice(bundle.name, bundle.sha256, Module(key.gpu, key.compute_capability, board))
    return choice.kinds if choice else None


def _canary(bundle: Bundle, precision: str | None, runner: TensorRtRunner) -> Mapping[str, Any]:
    with OnnxRunner(bundle, precision=precision, threads=usable_cores(), literal=True) as reference:
        return compare(bundle.manifest, reference, runner, canary_frames())


def _warm_and_compare(runner: TensorRtRunner, loaded: LoadedPlans) -> None:
    """The first runs are slow everywhere; after them, a graph far above its baseline is worth a warning."""
    if runner.emulated:
        return
    for graph, now_ms in _medians(runner, _WARM_RUNS).items():
        then_ms = loaded.sidecar.baseline_ms.get(graph)
        if then_ms and now_ms > SLOWER_WARNING * then_ms:
            _log.warning(
                "graph %r takes %.2f ms on the GPU, %.1f times the %.2f ms measured when its plan was built: "
                "look at the power mode, the clocks and the temperature (edge-sdk doctor)",
                graph,
                now_ms,
                now_ms / then_ms,
                then_ms,
            )


def _medians(runner: TensorRtRunner, runs: int) -> dict[str, float]:
    """Median GPU time of each graph in milliseconds, after half as many runs that are not counted."""
    medians = {}
    for graph in runner.graphs:
        times = []
        for index in range(runs + runs // 2):
            runner.run(graph)
            found = runner.gpu_times(graph)
            if found is not None and index >= runs // 2:
                times.append(found.engine_ms)
        medians[graph] = float(np.median(times))
    return medians


def _refuse_dla(bundle: Bundle, root: Path, load_library: Callable[[str], object]) -> None:
    model = board_model(root)
    if DLA_GRAPH not in bundle.manifest.graphs:
        raise ConfigError(f"bundle {bundle.name!r} has no graph {DLA_GRAPH!r}, the one that may go on a DLA")
    if "Nano" in model:
        raise ConfigError(f"{model} has no DLA. Build without --dla-core.")
    try:
        load_library(_DLA_LIBRARY)
    except OSError as error:
        raise ConfigError(
            f"{_DLA_LIBRARY} is missing ({error}), and without it nothing can be built for a DLA. "
            "JetPack 7.2 and NVIDIA's containers for JetPack 6 lack it. Build without --dla-core."
        ) from error


def _check_dla(places: tuple[int, int], build: BuildOptions) -> None:
    on_dla, on_gpu = places
    if not on_dla or (on_gpu and not build.dla_gpu_fallback):
        raise PlanRejectedError(
            DLA_GRAPH,
            f"the engine inspector finds {on_dla} layers on the DLA and {on_gpu} on the GPU",
            "Build without --dla-core"
            + ("." if build.dla_gpu_fallback else ", or allow the rest on the GPU with --dla-gpu-fallback."),
        )


def _for_graph(name: str, progress: Progress | None) -> Callable[[str, int, int], None] | None:
    return None if progress is None else lambda phase, done, steps: progress(name, phase, done, steps)
