"""Measures the kinds of memory at a bundle's real tensor sizes, and chooses one for each tensor."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.buffers import HostMemory, Memory, Use, default_kind
from edge_sdk.buffers.choice import BufferChoice, Module
from edge_sdk.buffers.cuda import CudaDevice, CudaStream
from edge_sdk.buffers.kinds import DEVICE, HOST, KINDS
from edge_sdk.buffers.policy import candidates
from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.devices import machine_facts
from edge_sdk.engine.bundle import Bundle
from edge_sdk.engine.manifest import FEATURES, Manifest
from edge_sdk.errors import ConfigError, DeviceNotFoundError
from edge_sdk.tensors import TensorSpec

__all__ = ["BuffersReport", "KindFigure", "measure_buffers", "refuse_emulator", "run_buffers"]

_WARM_UP_TURNS = 5


@dataclass(frozen=True)
class KindFigure:
    """What one kind of memory costs for one tensor.

    Attributes:
        tensor, use, nbytes: what was moved.
        kind: one of `KINDS`.
        median_us: median time of a turn in microseconds.
        spread_us: middle half of the turns (third quartile less first), in microseconds.
        turns: how many.
    """

    tensor: str
    use: str
    nbytes: int
    kind: str
    median_us: float
    spread_us: float
    turns: int


@dataclass
class BuffersReport:
    """All figures, and what follows from them.

    Attributes:
        figures: one a tensor and kind.
        conditions: what a turn was, on which machine.
        unmeasured: kinds that could not be measured, and why.
        choice: None where there was nothing to choose.
    """

    conditions: str
    figures: list[KindFigure] = field(default_factory=list)
    unmeasured: dict[str, str] = field(default_factory=dict)
    choice: BufferChoice | None = None

    def to_json(self) -> dict[str, Any]:
        """JSON types only."""
        return {
            "schema": "edge-sdk/bench-buffers",
            "schema_version": 1,
            **asdict(self),
            "machine": machine_facts(),
        }


def run_buffers(
    bundle: Bundle,
    *,
    turns: int = 200,
    open_device: Callable[[], CudaDevice] = CudaDevice.open,
    clock: Clock | None = None,
) -> BuffersReport:
    """Measures this machine: all kinds where it has a GPU, else ordinary memory alone.

    Arguments:
        bundle: whose tensors.
        turns: of each tensor and kind.
        open_device: opens the GPU.
        clock: times a turn.

    Raises:
        ConfigError: fewer than 2 turns; or the driver is the emulator, whose times mean nothing.
    """
    if turns < 2:
        raise ConfigError(f"turns: expected 2 or more, found {turns}")
    clock = clock or MonotonicClock()
    try:
        device = open_device()
    except DeviceNotFoundError as error:
        report = BuffersReport(f"no GPU; {_turn('this CPU writes and reads ordinary memory')}")
        report.figures = _measure(bundle.manifest, None, turns, clock)
        report.unmeasured = {kind: str(error) for kind in KINDS if kind != HOST}
        return report
    with device:
        refuse_emulator(device)
        return measure_buffers(bundle, device, turns=turns, clock=clock)


def refuse_emulator(device: CudaDevice) -> None:
    """Raises ConfigError where the driver is the emulator: a time of it must not pass for a GPU's."""
    if device.emulated:
        raise ConfigError(
            f"{device.name}: this CUDA driver is the emulator of edge-sdk's tests. It has no speed, so there "
            "is nothing to measure; run this on the device."
        )


def measure_buffers(bundle: Bundle, device: CudaDevice, *, turns: int, clock: Clock) -> BuffersReport:
    """Measures all kinds on a GPU, and chooses.

    Another kind than the default is chosen only when it is faster by more than both spreads.
    """
    what = _turn(
        "the host writes an image, the GPU copies it once; the GPU writes a result, the host reads it once"
    )
    report = BuffersReport(f"{device.name}; {what}")
    report.figures = _measure(bundle.manifest, device, turns, clock)
    kinds, reasons = {}, {}
    for spec, use in _tensors(bundle.manifest):
        default = default_kind(use, integrated=device.integrated, can_map_host=device.can_map_host)
        if use is not Use.FEATURES:
            figures = {item.kind: item for item in report.figures if item.tensor == spec.name}
            kinds[spec.name], reasons[spec.name] = _choose(figures, default)
    module = Module.of(device, str(machine_facts().get("board", "")))
    report.choice = BufferChoice(bundle.manifest.name, bundle.sha256, module, kinds, reasons)
    return report


def _turn(what: str) -> str:
    return f"a turn: {what}; host clock, after {_WARM_UP_TURNS} turns to warm up"


def _choose(figures: dict[str, KindFigure], default: str) -> tuple[str, str]:
    usual = figures[default]
    best = min(figures.values(), key=lambda item: item.median_us)
    gain_us = usual.median_us - best.median_us
    noise_us = usual.spread_us + best.spread_us
    if best.kind == default:
        return default, f"{default} is the default and the fastest, {usual.median_us:.1f} us"
    if gain_us > noise_us:
        return best.kind, f"{gain_us:.1f} us faster than {default} ({usual.median_us:.1f} us)"
    return (
        default,
        f"{best.kind} is {gain_us:.1f} us faster, within the noise of {noise_us:.1f} us: the default stays",
    )


def _measure(manifest: Manifest, device: CudaDevice | None, turns: int, clock: Clock) -> list[KindFigure]:
    figures = []
    for spec, use in _tensors(manifest):
        kinds = candidates(
            use, has_gpu=device is not None, can_map_host=device is not None and device.can_map_host
        )
        if use is Use.FEATURES and device is not None:
            continue  # device memory, whatever it costs: there is nothing to choose
        for kind in kinds:
            times_ns = _time_kind(spec.nbytes, use, kind, device, turns, clock)
            first, median, third = statistics.quantiles(times_ns, n=4)
            figures.append(
                KindFigure(
                    spec.name, use.value, spec.nbytes, kind, median / 1e3, (third - first) / 1e3, turns
                )
            )
    return figures


def _tensors(manifest: Manifest) -> Iterable[tuple[TensorSpec, Use]]:
    """Every tensor once by name, with its use; of detections that several graphs call alike, the largest."""
    seen: dict[str, tuple[TensorSpec, Use]] = {}
    for graph in manifest.graphs.values():
        for specs, use in ((graph.inputs, Use.IMAGE), (graph.outputs, Use.RESULT)):
            for spec in specs:
                if spec.name not in seen or seen[spec.name][0].nbytes < spec.nbytes:
                    seen[spec.name] = (spec, Use.FEATURES if spec.meaning == FEATURES else use)
    return seen.values()


def _time_kind(
    nbytes: int, use: Use, kind: str, device: CudaDevice | None, turns: int, clock: Clock
) -> list[int]:
    pixels = np.arange(nbytes, dtype=np.uint32).astype(np.uint8)
    out = np.empty(nbytes, np.uint8)
    if device is None:
        memory = HostMemory(nbytes)

        def ordinary() -> None:
            np.copyto(memory.host, pixels)
            np.copyto(out, memory.host)

        return _times_ns(ordinary, turns, clock)
    step = _image_turn if use is Use.IMAGE else _result_turn
    with (
        device.new_stream() as stream,
        device.allocate(nbytes, kind) as buffer,
        device.allocate(nbytes, DEVICE) as scratch,
        device.current(),
    ):
        return _times_ns(lambda: step(stream, buffer, scratch, pixels, out), turns, clock)


def _image_turn(
    stream: CudaStream, buffer: Memory, scratch: Memory, pixels: NDArray[np.uint8], out: NDArray[np.uint8]
) -> None:
    np.copyto(_host(buffer), pixels)
    stream.upload(buffer)
    stream.copy_on_device(scratch.device_pointer, buffer.device_pointer, buffer.nbytes)
    stream.synchronize()


def _result_turn(
    stream: CudaStream, buffer: Memory, scratch: Memory, pixels: NDArray[np.uint8], out: NDArray[np.uint8]
) -> None:
    stream.copy_on_device(buffer.device_pointer, scratch.device_pointer, buffer.nbytes)
    stream.download(buffer)
    stream.synchronize()
    np.copyto(out, _host(buffer))


def _host(buffer: Memory) -> NDArray[np.uint8]:
    assert buffer.host is not None, "candidates() gives no kind here that the host cannot reach"
    return buffer.host


def _times_ns(step: Callable[[], None], turns: int, clock: Clock) -> list[int]:
    for _ in range(_WARM_UP_TURNS):
        step()
    times = []
    for _ in range(turns):
        start_ns = clock.now_ns()
        step()
        times.append(clock.now_ns() - start_ns)
    return times
