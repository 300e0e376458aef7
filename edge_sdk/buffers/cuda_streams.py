"""Streams and events of a GPU. `CudaDevice` makes them with pycuda, and hands pycuda's objects in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edge_sdk.buffers.kinds import MANAGED, MAPPED, PINNED
from edge_sdk.buffers.pool import Memory
from edge_sdk.closing import ClosedByWith
from edge_sdk.errors import ConfigError, StateError

if TYPE_CHECKING:
    from edge_sdk.buffers.cuda import CudaDevice

__all__ = ["CudaEvent", "CudaStream"]


class CudaStream(ClosedByWith):
    """Work in order, beside the host. `CudaDevice.new_stream` makes it."""

    def __init__(self, device: CudaDevice, stream: Any) -> None:
        """Internal: use `CudaDevice.new_stream`."""
        self.device = device
        self._stream: Any = stream
        device.adopt(self)

    @property
    def handle(self) -> int:
        """The driver's CUstream, for TensorRT and for cuda-bindings. StateError after `close`."""
        return int(self._open().handle)

    def synchronize(self) -> None:
        """Waits until all work given so far is done. Raises CudaError if some of it failed."""
        with self.device.current():
            self._open().synchronize()

    def upload(self, buffer: Memory) -> None:
        """Copies a pinned buffer's host half to its device half, without waiting.

        Leave the host half alone until the stream has passed here. Nothing to do for "mapped" and "managed".

        Raises:
            ConfigError: "host" or "device" memory, which has one half only.
            StateError: the buffer was freed, or the stream closed.
        """
        if self._has_two_halves(buffer):
            with self.device.current():
                self.device._cuda.memcpy_htod_async(buffer.device_pointer, buffer.host, self._open())

    def download(self, buffer: Memory) -> None:
        """Copies a pinned buffer's device half to its host half, without waiting: synchronise, then read.

        Nothing to do for "mapped" and "managed". Raises as `upload`.
        """
        if self._has_two_halves(buffer):
            with self.device.current():
                self.device._cuda.memcpy_dtoh_async(buffer.host, buffer.device_pointer, self._open())

    def copy_on_device(self, to_pointer: int, from_pointer: int, nbytes: int) -> None:
        """Copies between two addresses that the GPU can reach, without waiting."""
        with self.device.current():
            self.device._cuda.memcpy_dtod_async(to_pointer, from_pointer, nbytes, self._open())

    def record(self, event: CudaEvent) -> None:
        """Lets an event happen when the work given so far is done."""
        with self.device.current():
            event._open().record(self._open())

    def wait(self, event: CudaEvent) -> None:
        """Lets the work given from here on wait for an event of another stream. The host does not wait."""
        with self.device.current():
            self._open().wait_for_event(event._open())

    def close(self) -> None:
        """Gives the stream back; work given so far still runs. A second call does nothing."""
        if self._stream is not None:
            with self.device.current():
                self._stream = None
            self.device.disown(self)

    def __repr__(self) -> str:
        return "stream" if self._stream is not None else "stream (closed)"

    def _has_two_halves(self, buffer: Memory) -> bool:
        self._open()
        _ = buffer.host  # refuses what was given back
        if buffer.kind not in (PINNED, MAPPED, MANAGED):
            raise ConfigError(f"{buffer.kind} memory has no other half to copy to: use {PINNED!r}")
        return buffer.kind == PINNED

    def _open(self) -> Any:
        if self._stream is None:
            raise StateError("the stream is closed: make a new one")
        return self._stream


class CudaEvent(ClosedByWith):
    """A moment in a stream, with its time. `CudaDevice.new_event` makes it."""

    def __init__(self, device: CudaDevice, event: Any) -> None:
        """Internal: use `CudaDevice.new_event`."""
        self.device = device
        self._event: Any = event
        device.adopt(self)

    def query(self) -> bool:
        """Returns whether the moment has passed; True where the event was never recorded. Does not wait."""
        with self.device.current():
            return bool(self._open().query())

    def synchronize(self) -> None:
        """Waits until the moment has passed."""
        with self.device.current():
            self._open().synchronize()

    def elapsed_ms_since(self, earlier: CudaEvent) -> float:
        """Returns the GPU's time in milliseconds from an earlier event to this one, both passed.

        Source: cuEventElapsedTime, resolution about 0.5 microseconds.

        Raises:
            StateError: one of them has not passed yet; synchronise its stream first.
            CudaError: one of them was never recorded.
        """
        if not (earlier.query() and self.query()):
            raise StateError("the events have not passed yet: synchronise the stream, then read the time")
        with self.device.current():
            return float(self._open().time_since(earlier._open()))

    def close(self) -> None:
        """Gives the event back. A second call does nothing."""
        if self._event is not None:
            with self.device.current():
                self._event = None
            self.device.disown(self)

    def __repr__(self) -> str:
        return "event" if self._event is not None else "event (closed)"

    def _open(self) -> Any:
        if self._event is None:
            raise StateError("the event is closed: make a new one")
        return self._event
