"""One graph on its way over the GPU: its context, its addresses, its events, and its CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_sdk.buffers.cuda import CudaBuffer
from edge_sdk.buffers.cuda_graphs import CudaGraph, capture
from edge_sdk.buffers.cuda_streams import CudaEvent, CudaStream
from edge_sdk.engine.manifest import FEATURES, GraphSpec
from edge_sdk.engine.tensorrt_api import Context, Engine
from edge_sdk.engine.tensorrt_memory import DeviceMemory
from edge_sdk.errors import DeviceError, EngineMismatchError, InferenceError
from edge_sdk.tensors import TensorSpec

__all__ = ["GpuTimes", "Lane"]


@dataclass(frozen=True)
class GpuTimes:
    """What one run of a graph took on the GPU, in milliseconds, as its events say.

    Attributes:
        upload_ms, engine_ms, download_ms: copies of the inputs, the graph itself, copies of the results.
    """

    upload_ms: float
    engine_ms: float
    download_ms: float


class Lane:
    """Runs one graph on a stream. For one thread; the device's context must be current.

    Arguments:
        engine: the plan, loaded.
        graph: as the manifest has it.
        memory: holds its tensors.
        stream: on which it runs.

    Raises:
        EngineMismatchError: the plan's tensors are not the manifest's.
        InferenceError, EngineError, CudaError: a context cannot be made.
    """

    def __init__(self, engine: Engine, graph: GraphSpec, memory: DeviceMemory, stream: CudaStream) -> None:
        _check_tensors(engine, graph)
        self.graph = graph
        self._stream = stream
        self._bound: dict[str, CudaBuffer] = {}
        self._uploads: list[CudaBuffer] = []
        self._downloads: list[CudaBuffer] = []
        self._results: list[NDArray[np.generic]] = []
        self._replay: CudaGraph | None = None
        self._captured: tuple[tuple[str, int, tuple[int, ...]], ...] = ()
        self.replays = False
        self._ran = False
        self._context: Context = engine.new_context()
        self._events: list[CudaEvent] = []
        try:
            for _ in range(4):  # one by one, so that a failure gives back those before it
                self._events.append(stream.device.new_event())
            for spec in graph.inputs:
                self._context.set_shape(spec.name, spec.shape)
                if spec.meaning != FEATURES:
                    self._uploads.append(memory.buffer(graph.name, spec.name))
            for spec in graph.outputs:
                if spec.meaning != FEATURES:
                    self._downloads.append(memory.buffer(graph.name, spec.name))
                    self._results.append(memory.array(graph.name, spec.name))
            for spec in (*graph.inputs, *graph.outputs):
                self.bind(spec.name, memory.buffer(graph.name, spec.name))
            lacking = self._context.unready()
            if lacking:
                raise InferenceError(graph.name, "TensorRT", f"no shape for {', '.join(lacking)}")
        except BaseException:
            self.close()
            raise

    def bind(self, tensor: str, buffer: CudaBuffer) -> None:
        """Lets a tensor be read or written somewhere else, from the next run on.

        Raises:
            InferenceError: TensorRT refuses the address.
        """
        self._context.set_address(tensor, buffer.device_pointer)
        before = self._bound.get(tensor)
        self._bound[tensor] = buffer
        for moved in (self._uploads, self._downloads):
            for index, item in enumerate(moved):
                if item is before:
                    moved[index] = buffer

    def run(self, uploaded: CudaEvent | None = None) -> None:
        """Copies the inputs, runs the graph, copies the results, and waits for them.

        Arguments:
            uploaded: the inputs are on the GPU once this event has passed; None to copy them here.

        Raises:
            InferenceError: TensorRT refuses the graph: results that cannot be NaN are old.
            CudaError: the driver refuses, or an earlier fault shows.
        """
        stream, (begin, ready, done, end) = self._stream, self._events
        try:
            stream.record(begin)
            if uploaded is not None:
                stream.wait(uploaded)
            else:
                self.upload(stream)
            stream.record(ready)
            self._launch()
            stream.record(done)
            for buffer in self._downloads:
                stream.download(buffer)
            stream.record(end)
            stream.synchronize()
        except BaseException:
            self._ran = False
            self._spoil(stream)
            raise
        self._ran = True

    @property
    def results(self) -> Sequence[NDArray[np.generic]]:
        """The outputs that the host can read. Copies: no; the next run overwrites them."""
        return self._results

    def pictures(self, memory: DeviceMemory) -> Sequence[NDArray[np.generic]]:
        """Returns the inputs that the host writes. Copies: no."""
        return [
            memory.array(self.graph.name, spec.name) for spec in self.graph.inputs if spec.meaning != FEATURES
        ]

    def upload(self, stream: CudaStream) -> None:
        """Puts the copies of the inputs on a stream."""
        for buffer in self._uploads:
            stream.upload(buffer)

    def enqueue(self) -> None:
        """Puts the graph itself on the stream, without its copies and without its CUDA graph."""
        self._context.enqueue(self._stream.handle)

    def times(self) -> GpuTimes | None:
        """Returns what the last run took on the GPU; None where none was finished. Waits for nothing."""
        if not self._ran:
            return None
        begin, ready, done, end = self._events
        return GpuTimes(
            ready.elapsed_ms_since(begin), done.elapsed_ms_since(ready), end.elapsed_ms_since(done)
        )

    def capture(self) -> int:
        """Captures the graph, after one ordinary enqueue, and returns how many launches it saves.

        Raises:
            InferenceError: TensorRT refuses to be captured.
            CudaError, DeviceNotFoundError: the driver or cuda-bindings refuses.
        """
        self.drop_capture()
        self.enqueue()
        self._stream.synchronize()
        self._replay = capture(self._stream, self.enqueue)
        self._captured = self._addresses()
        self.replays = True
        return self._replay.nodes

    def drop_capture(self) -> None:
        """Goes back to ordinary launches."""
        self.replays = False
        replay, self._replay = self._replay, None
        if replay is not None:
            replay.close()

    def close(self) -> None:
        """Gives everything back but the memory. A second call does nothing."""
        closing: Sequence[Callable[[], None]] = (
            self.drop_capture,
            self._context.close,
            *(event.close for event in self._events),
        )
        for close in closing:
            with suppress(DeviceError):
                close()
        self._events = []

    def _launch(self) -> None:
        if not self.replays:
            self.enqueue()
            return
        if self._addresses() != self._captured:  # a replay would use the addresses of its capture
            self.capture()
        assert self._replay is not None
        self._replay.launch(self._stream)

    def _addresses(self) -> tuple[tuple[str, int, tuple[int, ...]], ...]:
        specs = {spec.name: spec for spec in (*self.graph.inputs, *self.graph.outputs)}
        return tuple((name, buffer.device_pointer, specs[name].shape) for name, buffer in self._bound.items())

    def _spoil(self, stream: CudaStream) -> None:
        """Takes the old results away, so that nobody can mistake them for new ones."""
        with suppress(DeviceError):
            stream.synchronize()
        for array in self._results:
            if np.issubdtype(array.dtype, np.floating):
                array[...] = np.nan


def _check_tensors(engine: Engine, graph: GraphSpec) -> None:
    found = {tensor.name: tensor for tensor in engine.tensors}
    expected: dict[str, tuple[TensorSpec, bool]] = {
        **{spec.name: (spec, True) for spec in graph.inputs},
        **{spec.name: (spec, False) for spec in graph.outputs},
    }
    for name, (spec, is_input) in expected.items():
        tensor = found.get(name)
        has = (
            f"{tensor.dtype}{list(tensor.shape)} {'input' if tensor.is_input else 'output'}"
            f"{'' if tensor.on_device else ' in host memory'}"
            if tensor
            else "nothing of that name"
        )
        wants = f"{spec.dtype}{list(spec.shape)} {'input' if is_input else 'output'}"
        if has != wants:
            raise EngineMismatchError(
                Path(f"{graph.name}.plan"),
                f"tensor {name!r} of the plan",
                wants,
                has,
                "Build the plan again.",
            )
    extra = sorted(set(found) - set(expected))
    if extra:
        raise EngineMismatchError(
            Path(f"{graph.name}.plan"),
            "tensors of the plan",
            ", ".join(expected),
            f"{', '.join(extra)} besides",
            "Build the plan again.",
        )
