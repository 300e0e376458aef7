"""CUDA graphs: work captured from a stream once and launched many times. The only file with cuda-bindings."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from edge_sdk.buffers.cuda import CudaDevice, CudaStream
from edge_sdk.closing import ClosedByWith
from edge_sdk.errors import CudaError, DeviceNotFoundError, StateError
from edge_sdk.requirements import hint_for

__all__ = ["CudaGraph", "capture"]

_log = logging.getLogger(__name__)


class CudaGraph(ClosedByWith):
    """Captured work with the addresses it was captured with; `capture` makes it.

    It reads and writes the same memory at each launch: keep the buffers, and capture again when one moves.

    Attributes:
        nodes: kernels, copies and host functions that one launch runs.
    """

    def __init__(self, device: CudaDevice, executable: Any, nodes: int) -> None:
        """Internal: use `capture`."""
        self.device, self.nodes = device, nodes
        self._executable: Any = executable
        device.adopt(self)

    def launch(self, stream: CudaStream) -> None:
        """Gives the captured work to a stream, without waiting.

        Raises:
            StateError: the graph, or the stream, is closed.
            CudaError: the driver refuses.
        """
        if self._executable is None:
            raise StateError("the CUDA graph is closed: capture it again")
        driver = _bindings()
        with self.device.current():
            _check("cuGraphLaunch", driver.cuGraphLaunch(self._executable, driver.CUstream(stream.handle)))

    def close(self) -> None:
        """Gives the graph back. Synchronise the streams it runs on first. A second call does nothing.

        A driver that refuses, after an earlier error, is logged: the device's `close` frees everything.
        """
        if self._executable is None:
            return
        executable, self._executable = self._executable, None
        self.device.disown(self)
        with self.device.current():
            try:
                _check("cuGraphExecDestroy", _bindings().cuGraphExecDestroy(executable))
            except CudaError as error:
                _log.warning("%s", error)

    def __repr__(self) -> str:
        return "CUDA graph" if self._executable is not None else "CUDA graph (closed)"


def capture(stream: CudaStream, enqueue: Callable[[], None]) -> CudaGraph:
    """Captures what `enqueue` gives to a stream; nothing of it runs. Enqueue once for real before.

    Only the calling thread is held to the rules of capture (THREAD_LOCAL): no allocation, no waiting.

    Arguments:
        stream: nothing may be under way that `enqueue` waits for.
        enqueue: gives work to the stream; raises where a library refuses, else the graph replays old data.

    Raises:
        DeviceNotFoundError: cuda-bindings is not installed.
        CudaError: the driver refuses the capture. The stream is usable all the same.
        Whatever `enqueue` raises, with the capture ended and thrown away.
    """
    driver = _bindings()
    handle = driver.CUstream(stream.handle)
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    with stream.device.current():
        _check("cuStreamBeginCapture", driver.cuStreamBeginCapture(handle, mode))
        try:
            enqueue()
        except BaseException:
            status, graph = driver.cuStreamEndCapture(handle)
            if not int(status) and int(graph):
                driver.cuGraphDestroy(graph)
            raise
        graph = _check("cuStreamEndCapture", driver.cuStreamEndCapture(handle))
        try:
            counted = driver.cuGraphGetNodes(graph, 0)
            _check("cuGraphGetNodes", counted)
            executable = _check("cuGraphInstantiate", driver.cuGraphInstantiate(graph, 0))
        finally:
            driver.cuGraphDestroy(graph)
    return CudaGraph(stream.device, executable, int(counted[2]))


def _bindings() -> Any:
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise DeviceNotFoundError(
            "CUDA graphs",
            [("import cuda.bindings.driver", str(error))],
            f"{hint_for('cuda-bindings')}, or run without graphs.",
        ) from error
    return driver


def _check(call: str, answer: tuple[Any, ...]) -> Any:
    """Returns what a call of cuda-bindings gives besides its status. CudaError if the status is an error."""
    status = answer[0]
    if int(status):
        driver = _bindings()
        words = driver.cuGetErrorString(status)[1]
        text = words.decode() if isinstance(words, bytes) else "unknown error"
        raise CudaError(call, f"{text} ({getattr(status, 'name', int(status))})")
    return answer[1] if len(answer) > 1 else None
