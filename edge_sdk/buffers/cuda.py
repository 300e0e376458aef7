"""One NVIDIA GPU: its memory, streams and events. The only file that imports pycuda, and late.

The GPU is used through its primary context, which libraries of NVIDIA share, pushed for each call on
the calling thread and popped after it; `CudaDevice.current` keeps it for a whole block.
"""

from __future__ import annotations

import ctypes
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from edge_sdk.buffers.cuda_streams import CudaEvent, CudaStream
from edge_sdk.buffers.host import HostMemory
from edge_sdk.buffers.kinds import ALIGNMENT, DEVICE, HOST, KINDS, MANAGED, MAPPED, PINNED
from edge_sdk.closing import ClosedByWith
from edge_sdk.errors import ConfigError, CudaError, DeviceError, DeviceNotFoundError, ShapeError, StateError

__all__ = ["CudaBuffer", "CudaDevice", "CudaEvent", "CudaStream"]

_NON_BLOCKING = 1
"""A stream with this flag never waits for the legacy default stream.

Source: cuda.h, CU_STREAM_NON_BLOCKING."""

_ADVICE = (
    "On a Jetson or a machine with an NVIDIA card: check the driver with `edge-sdk doctor`, and install "
    "pycuda (README, 'Installing'). Elsewhere use device='cpu'."
)


class _Closable(Protocol):
    def close(self) -> None: ...


class CudaDevice(ClosedByWith):
    """One GPU. Make it with `open`, and close it when nothing of it is in use any more.

    Its methods may be called on any thread. Whatever was not freed by `close` is freed there, with a
    warning.

    Attributes:
        name: as the driver gives it.
        compute_capability: (major, minor).
        integrated: whether it shares the memory of the CPU, as on a Jetson.
        can_map_host: whether it can use page-locked memory of the host in place.
        concurrent_managed: whether the host may touch managed memory while the GPU works; never on a Jetson.
        emulated: whether the driver is this project's emulator, whose times mean nothing.
    """

    def __init__(self, cuda: Any, ordinal: int) -> None:
        """Internal: use `open`."""
        self._closed = True  # Until the context is there, `__del__` has nothing to say.
        self._cuda = cuda
        device = cuda.Device(ordinal)
        attribute = cuda.device_attribute
        self._ordinal = ordinal
        self.name: str = device.name()
        self.compute_capability: tuple[int, int] = device.compute_capability()
        self.integrated = bool(device.get_attribute(attribute.INTEGRATED))
        self.can_map_host = bool(device.get_attribute(attribute.CAN_MAP_HOST_MEMORY))
        self.concurrent_managed = bool(device.get_attribute(attribute.CONCURRENT_MANAGED_ACCESS))
        self.emulated = "(emulated)" in self.name
        self._context = device.retain_primary_context()
        self._depth = threading.local()
        self._lock = threading.Lock()
        self._owned: dict[int, _Closable] = {}
        self._closed = False

    @staticmethod
    def open(ordinal: int = 0) -> CudaDevice:
        """Opens a GPU and proves that it works by allocating and writing memory on it.

        Arguments:
            ordinal: which one, from 0.

        Raises:
            ConfigError: a negative ordinal.
            DeviceNotFoundError: no pycuda, no driver or no such GPU; says which.
        """
        if ordinal < 0:
            raise ConfigError(f"GPU {ordinal}: expected a number from 0")
        wanted = f"CUDA GPU {ordinal}"
        try:
            import pycuda.driver as cuda
        except ImportError as error:
            raise DeviceNotFoundError(wanted, [("import pycuda.driver", str(error))], _ADVICE) from error
        tried = "cuInit"
        device = None
        try:
            cuda.init()
            tried = "cuDeviceGetCount"
            count = cuda.Device.count()
            if ordinal >= count:
                raise DeviceNotFoundError(wanted, [(tried, f"{count} GPUs on this machine")], _ADVICE)
            tried = "opening its primary context"
            device = CudaDevice(cuda, ordinal)
            tried = f"allocating {ALIGNMENT} bytes on it"
            device.allocate(ALIGNMENT, DEVICE).free()
        except (cuda.Error, DeviceError) as error:
            if device is not None:
                with suppress(DeviceError):
                    device.close()
            if isinstance(error, DeviceNotFoundError):
                raise
            raise DeviceNotFoundError(wanted, [(tried, str(error))], _ADVICE) from error
        return device

    @contextmanager
    def current(self) -> Iterator[None]:
        """Makes this GPU's primary context current on the calling thread for a `with` block.

        Inside, the calls of this module push nothing of their own.

        Raises:
            StateError: the device is closed.
            CudaError: the driver refuses.
        """
        if self._closed:
            raise StateError(f"GPU {self.name!r} is closed: open it again")
        depth = getattr(self._depth, "value", 0)
        if not depth:
            with self._errors():
                self._context.push()
        self._depth.value = depth + 1
        try:
            with self._errors():
                yield
        finally:
            self._depth.value = depth
            if not depth:
                with self._errors():
                    self._cuda.Context.pop()

    def allocate(self, nbytes: int, kind: str) -> CudaBuffer:
        """Allocates memory, filled with zeros.

        Arguments:
            nbytes: size in bytes, 1 or more.
            kind: one of `KINDS`.

        Raises:
            ConfigError: no such kind, no bytes, or "mapped" on a GPU that cannot map.
            CudaError: the driver refuses, for want of memory as a rule.
            DeviceError: the driver's address is not aligned.
            StateError: the device is closed.
        """
        if kind not in KINDS:
            raise ConfigError(f"memory kind {kind!r}: expected one of {', '.join(KINDS)}")
        if nbytes < 1:
            raise ConfigError(f"{kind} memory: expected 1 byte or more, found {nbytes}")
        if kind == MAPPED and not self.can_map_host:
            raise ConfigError(f"GPU {self.name!r} cannot map host memory: use kind {PINNED!r}")
        with self.current():
            return CudaBuffer(self, kind, nbytes)

    def new_stream(self) -> CudaStream:
        """Makes a stream that does not wait for the default stream."""
        with self.current():
            return CudaStream(self, self._cuda.Stream(_NON_BLOCKING))

    def new_event(self) -> CudaEvent:
        """Makes an event that measures time. Make events at load, not in the loop."""
        with self.current():
            return CudaEvent(self, self._cuda.Event())

    def synchronize(self) -> None:
        """Waits for everything that was given to this GPU by this process."""
        with self.current():
            self._cuda.Context.synchronize()

    def close(self) -> None:
        """Frees what is left, warns of it (`ResourceWarning`), and lets go of the GPU. Twice is fine.

        Raises:
            StateError: called inside `current` of the same thread.
        """
        if self._closed:
            return
        if getattr(self._depth, "value", 0):
            raise StateError(f"GPU {self.name!r}: close it after its `current` block, not inside")
        left = list(self._owned.values())
        names = ", ".join(sorted(str(item) for item in left))
        try:
            _call_all([item.close for item in left])
        finally:
            self._closed = True
            with self._errors():
                self._context.push()
                handle = int(self._context.handle)
                self._context.detach()
            _drop_from_stack(handle)
        if left:
            warnings.warn(f"GPU {self.name!r} closed with {len(left)} in use: {names}", ResourceWarning, 2)

    def __del__(self) -> None:
        if not self._closed:
            warnings.warn(f"GPU {self.name!r} was never closed", ResourceWarning, 2)

    def __repr__(self) -> str:
        return f"CudaDevice({self._ordinal}, {self.name!r}{', closed' if self._closed else ''})"

    def adopt(self, item: _Closable) -> None:
        """Remembers what must be closed before the device. For this package's own classes."""
        with self._lock:
            self._owned[id(item)] = item

    def disown(self, item: _Closable) -> None:
        """Forgets what was closed."""
        with self._lock:
            self._owned.pop(id(item), None)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turns pycuda's errors ("cuMemAlloc failed: out of memory") into this SDK's."""
        try:
            yield
        except self._cuda.Error as error:
            call, _, problem = str(error).partition(" failed: ")
            fix = ""
            if isinstance(error, self._cuda.MemoryError):
                fix = "Close what else uses this GPU, or run a smaller engine."
            raise CudaError(call, problem or "no reason given", fix) from error


class CudaBuffer(ClosedByWith):
    """A piece of memory; `CudaDevice.allocate` makes it. Freed by `free`, or by closing the device.

    Attributes:
        kind: one of `KINDS`. "pinned" owns two halves, one on the host and one on the device, between which
            `CudaStream.upload` and `download` copy. "mapped" and "managed" are one memory for both sides.
        nbytes: size in bytes.
    """

    def __init__(self, device: CudaDevice, kind: str, nbytes: int) -> None:
        """Internal: use `CudaDevice.allocate`, which holds the context."""
        self.device, self.kind, self.nbytes = device, kind, nbytes
        self._host: NDArray[np.uint8] | None = None
        self._pointer: int | None = None
        self._frees: list[Callable[[], None]] = []
        self._freed = False
        try:
            self._allocate(device._cuda)
        except BaseException:
            self._release()
            raise
        device.adopt(self)

    @property
    def freed(self) -> bool:
        """Whether the memory was given back."""
        return self._freed

    @property
    def device_pointer(self) -> int:
        """Address for the GPU, a multiple of `ALIGNMENT`.

        Raises:
            StateError: the buffer was freed.
            ConfigError: "host" memory has no address on the GPU.
        """
        self._refuse_freed()
        if self._pointer is None:
            raise ConfigError(f"{self.kind} memory has no address on the GPU")
        return self._pointer

    @property
    def host(self) -> NDArray[np.uint8] | None:
        """The host's view, uint8 [nbytes]; None for "device" memory, which the host cannot read.

        Copies: no. The view is dead after `free`: touching it then may crash the process.

        Raises:
            StateError: the buffer was freed.
        """
        self._refuse_freed()
        return self._host

    def as_array(self, dtype: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
        """Returns the host's view with a dtype and shape. It starts at the first byte and may be shorter.

        Copies: no; as `host`.

        Raises:
            StateError: the buffer was freed.
            ConfigError: "device" memory.
            ShapeError: it asks for more bytes than the buffer has.
        """
        host = self.host
        if host is None:
            raise ConfigError("device memory cannot be read by the host: copy it into a pinned buffer")
        wanted = np.dtype(dtype).itemsize * int(np.prod(shape, dtype=np.int64))
        if wanted > self.nbytes:
            raise ShapeError(f"{self.kind} buffer", f"at most {self.nbytes} bytes", f"{wanted} bytes")
        return host[:wanted].view(dtype).reshape(shape)

    def free(self) -> None:
        """Gives the memory back; the driver waits for copies under way. A second call does nothing."""
        if self._freed:
            return
        with self.device.current():
            self._release()
        self.device.disown(self)

    def close(self) -> None:
        """The same as `free`."""
        self.free()

    def __repr__(self) -> str:
        return f"{self.kind} buffer of {self.nbytes} bytes{' (freed)' if self._freed else ''}"

    def _allocate(self, cuda: Any) -> None:
        if self.kind == HOST:
            self._host = HostMemory(self.nbytes).host
            return
        if self.kind in (PINNED, MAPPED, MANAGED):
            if self.kind == MANAGED:
                host: Any = cuda.managed_empty(self.nbytes, np.uint8, mem_flags=cuda.mem_attach_flags.GLOBAL)
            else:
                flags = cuda.host_alloc_flags.DEVICEMAP if self.kind == MAPPED else 0
                host = cuda.pagelocked_empty(self.nbytes, np.uint8, mem_flags=flags)
            self._frees.append(host.base.free)
            self._host = host
            if self.kind != PINNED:
                self._pointer = int(host.base.get_device_pointer())
        if self.kind in (PINNED, DEVICE):
            memory = cuda.mem_alloc(self.nbytes)
            self._frees.append(memory.free)
            self._pointer = int(memory)
            cuda.memset_d8(self._pointer, 0, self.nbytes)
            cuda.Context.synchronize()  # A non-blocking stream does not wait for the default stream.
        addresses = [self._pointer or 0, self._host.ctypes.data if self._host is not None else 0]
        if any(address % ALIGNMENT for address in addresses):
            raise DeviceError(
                f"{self.kind} memory: expected addresses that are multiples of {ALIGNMENT} bytes, "
                f"the driver gave {', '.join(hex(address) for address in addresses if address)}"
            )
        if self._host is not None:
            self._host[:] = 0

    def _release(self) -> None:
        self._freed = True
        self._host = None
        frees, self._frees = self._frees, []
        _call_all(frees)

    def _refuse_freed(self) -> None:
        if self._freed:
            raise StateError(f"{self.kind} buffer of {self.nbytes} bytes was freed: allocate it again")


def _call_all(calls: list[Callable[[], None]]) -> None:
    """Calls all, last first, though some fail; then raises the first failure."""
    failures = []
    for call in reversed(calls):
        try:
            call()
        except Exception as error:
            failures.append(error)
    if failures:
        raise failures[0]


def _drop_from_stack(context: int) -> None:
    """Pops a released context that pycuda leaves on the driver's stack of this thread.

    Source: cuda.h, cuDevicePrimaryCtxRelease: unlike cuCtxDestroy it does not pop the context. Where a
    program has a pycuda context of its own under it, pycuda pushes that one again, on top.
    """
    driver = ctypes.CDLL("libcuda.so.1")
    popped = ctypes.c_void_p()
    driver.cuCtxPopCurrent_v2(ctypes.byref(popped))
    if popped.value not in (context, None):
        driver.cuCtxPopCurrent_v2(None)
        driver.cuCtxPushCurrent_v2(popped)
