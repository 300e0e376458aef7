"""Runs a bundle's plans with TensorRT, on memory that is bound once."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from numpy.typing import NDArray

from edge_sdk.buffers.cuda import CudaDevice
from edge_sdk.buffers.cuda_streams import CudaEvent, CudaStream
from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.closing import ClosedByWith
from edge_sdk.engine.manifest import Manifest
from edge_sdk.engine.tensorrt_api import Engine, TensorRt
from edge_sdk.engine.tensorrt_graphs import MODES, GraphTrial, try_graphs
from edge_sdk.engine.tensorrt_lane import GpuTimes, Lane
from edge_sdk.engine.tensorrt_memory import DeviceMemory
from edge_sdk.errors import ConfigError, CudaError, DeviceError, EngineError, InferenceError, StateError

__all__ = ["SharedEngines", "TensorRtRunner"]


class SharedEngines:
    """A bundle's plans, loaded on one GPU once for the runners of all threads.

    Whoever makes it holds it, and so does each runner; the last to let go closes engines and GPU.

    Arguments:
        api: TensorRT.
        device: an open GPU, which this object owns from here on, also if it raises.
        manifest: of the bundle.
        plans: graph -> plan, verified. A plan is code.
        dla_core: of the plans that lie on a DLA, or None.

    Raises:
        EngineError: a plan is missing, or TensorRT refuses it.
    """

    def __init__(
        self,
        api: TensorRt,
        device: CudaDevice,
        manifest: Manifest,
        plans: Mapping[str, bytes],
        dla_core: int | None = None,
    ) -> None:
        self.device, self.manifest, self.version = device, manifest, api.version
        self.engines: dict[str, Engine] = {}
        self._holders = 1
        self._lock = threading.Lock()
        try:
            missing = [name for name in manifest.graphs if name not in plans]
            if missing:
                raise EngineError(
                    f"no plan of graph {', '.join(missing)} of {manifest.name!r}. "
                    f"Run: edge-sdk engines build {manifest.name} --force"
                )
            with device.current():
                for name in manifest.graphs:
                    self.engines[name] = api.load(plans[name], name, dla_core)
        except BaseException:
            self.release()
            raise

    def hold(self) -> None:
        """Keeps the engines open for one holder more."""
        with self._lock:
            if not self._holders:
                raise StateError("the engines are closed: load the bundle again")
            self._holders += 1

    def release(self) -> None:
        """Lets go; the last one closes engines and GPU."""
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
        with suppress(DeviceError), self.device.current():
            for engine in self.engines.values():
                engine.close()
        self.engines.clear()
        self.device.close()


class TensorRtRunner(ClosedByWith):
    """Implements `Runner` with one execution context a graph, on one stream that waits for no other.

    Features stay on the GPU: `array` refuses them. Images and results are used in place on a GPU that
    shares the CPU's memory, and copied on the stream on one that does not. A runner is for one
    thread; `another` makes one for the next thread, with contexts, buffers and streams of its own.

    Arguments:
        shared: the loaded plans; held until `close`.
        kinds: tensor -> kind of memory, where measured on this module.
        cuda_graphs: "auto" (where measured faster), "on" (where correct) or "off".
        overlap_upload: let `upload_ahead` copy on a stream of its own, beside a running graph.
        clock: what CUDA graphs are measured with.

    Raises:
        ConfigError: no such mode of CUDA graphs.
        EngineError, CudaError: contexts or memory cannot be had. Nothing is left behind.
    """

    def __init__(
        self,
        shared: SharedEngines,
        *,
        kinds: Mapping[str, str] | None = None,
        cuda_graphs: str = "off",
        overlap_upload: bool = False,
        clock: Clock | None = None,
    ) -> None:
        if cuda_graphs not in MODES:
            raise ConfigError(f"CUDA graphs {cuda_graphs!r}: expected {', '.join(MODES)}")
        self._settings: dict[str, Any] = {
            "kinds": kinds,
            "cuda_graphs": cuda_graphs,
            "overlap_upload": overlap_upload,
            "clock": clock,
        }
        self._shared, self._device = shared, shared.device
        self._manifest = shared.manifest
        self._busy = threading.Lock()
        self._lanes: dict[str, Lane] = {}
        self._memory: DeviceMemory | None = None
        self._streams: list[CudaStream] = []
        self._ahead_event: CudaEvent | None = None
        self._ahead: tuple[str, int] | None = None
        self._runs = 0
        self._closed = False
        shared.hold()
        try:
            with self._device.current():
                self._memory = DeviceMemory(self._manifest, self._device, kinds)
                self._streams.append(self._device.new_stream())
                if overlap_upload:
                    self._streams.append(self._device.new_stream())
                    self._ahead_event = self._device.new_event()
                for name, graph in self._manifest.graphs.items():
                    lane = Lane(shared.engines[name], graph, self._memory, self._streams[0])
                    self._lanes[name] = lane
                self.graph_trials: tuple[GraphTrial, ...] = try_graphs(
                    self._lanes,
                    self._memory,
                    cuda_graphs,
                    clock or MonotonicClock(),
                    emulated=self._device.emulated,
                )
        except BaseException:
            self.close()
            raise

    @property
    def graphs(self) -> tuple[str, ...]:
        """Names of the graphs, in the manifest's order."""
        return tuple(self._manifest.graphs)

    @property
    def provider(self) -> str:
        """TensorRT, its version and the GPU, which says so if it is emulated."""
        return f"TensorRT {self._shared.version} on {self._device.name}"

    @property
    def emulated(self) -> bool:
        """Whether the driver is emulated, so that times mean nothing."""
        return self._device.emulated

    @property
    def memory_nbytes(self) -> Mapping[str, int]:
        """Bytes of inputs, outputs and features, by kind of memory."""
        return self._open_memory().nbytes

    def another(self) -> TensorRtRunner:
        """Makes a runner of the same plans for another thread, with the same settings."""
        return TensorRtRunner(self._shared, **self._settings)

    def array(self, graph: str, tensor: str) -> NDArray[Any]:
        """See `Runner.array`. After `close` the array is dead: touching it may end the process."""
        return self._open_memory(f"{graph}/{tensor} has no memory any more").array(graph, tensor)

    def upload_ahead(self, graph: str) -> None:
        """Starts to copy a graph's images beside the next `run`, on a stream of its own.

        For the graph after next: call it, run another graph, then run this one. Its images must not be
        written to in between. Where another graph comes in between, they are copied again. Does nothing
        unless the runner was made with `overlap_upload`.

        Raises:
            StateError, ConfigError: as `run`.
            InferenceError: the driver refuses.
        """
        lane = self._lane(graph)
        if self._ahead_event is None:
            return
        with self._alone(graph), self._device.current():
            lane.upload(self._streams[1])
            self._streams[1].record(self._ahead_event)
            self._ahead = (graph, self._runs)

    def run(self, graph: str) -> None:
        """See `Runner.run`. After a failure, floating-point results are NaN.

        Raises:
            StateError: besides: another thread is running this runner.
        """
        lane = self._lane(graph)
        with self._alone(graph), self._device.current():
            uploaded = self._ahead == (graph, self._runs - 1)
            self._runs += 1
            lane.run(self._ahead_event if uploaded else None)

    def layers(self, graph: str) -> tuple[dict[str, Any], ...]:
        """Returns what the engine inspector says of each layer of a graph; at least its "Name"."""
        self._lane(graph)
        with self._device.current():
            return self._shared.engines[graph].layers()

    def gpu_times(self, graph: str) -> GpuTimes | None:
        """Returns what the last run of a graph took on the GPU, from its events; the stream is not stopped.

        None before the first run, after a failure, and where the driver is emulated.
        """
        lane = self._lane(graph)
        if self._device.emulated:
            return None
        with self._device.current():
            return lane.times()

    def close(self) -> None:
        """Gives contexts, memory and streams back, and lets go of the plans. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        with suppress(DeviceError), self._device.current():
            for stream in self._streams:
                with suppress(DeviceError):
                    stream.synchronize()
            for lane in self._lanes.values():
                lane.close()
            if self._ahead_event is not None:
                self._ahead_event.close()
            if self._memory is not None:
                self._memory.close()
            for stream in self._streams:
                with suppress(DeviceError):
                    stream.close()
        self._lanes.clear()
        self._shared.release()

    def _lane(self, graph: str) -> Lane:
        if self._closed:
            raise StateError(f"the runner is closed: graph {graph!r} cannot run")
        if graph not in self._lanes:
            raise ConfigError(f"no graph {graph!r}; this bundle has {', '.join(self._lanes)}")
        return self._lanes[graph]

    def _open_memory(self, what: str = "it has no memory any more") -> DeviceMemory:
        if self._closed or self._memory is None:
            raise StateError(f"the runner is closed: {what}")
        return self._memory

    @contextmanager
    def _alone(self, graph: str) -> Iterator[None]:
        """Refuses a second thread, and turns the driver's errors into what a runner raises."""
        if not self._busy.acquire(blocking=False):
            raise StateError(
                f"graph {graph!r}: another thread is using this runner. "
                "Give each thread its own: runner.another()"
            )
        try:
            yield
        except CudaError as error:
            raise InferenceError(graph, self.provider, str(error)) from error
        finally:
            self._busy.release()
