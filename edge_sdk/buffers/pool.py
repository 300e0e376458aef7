"""Named buffers of any kind, lent out and given back: one allocation for each kind of memory, at load."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from types import TracebackType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edge_sdk.buffers.kinds import ALIGNMENT, HOST, KINDS
from edge_sdk.closing import ClosedByWith
from edge_sdk.errors import ConfigError, PoolExhaustedError, StateError

__all__ = ["Buffer", "BufferSpec", "Memory", "Pool"]


class Memory(Protocol):
    """One piece of memory of one kind: `HostMemory`, `CudaBuffer`, or a `Buffer` lent by a pool."""

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        ...

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        ...

    @property
    def freed(self) -> bool:
        """Whether it was given back; the rest then raises StateError."""
        ...

    @property
    def host(self) -> NDArray[np.uint8] | None:
        """The host's view, uint8 [nbytes], or None where the host cannot read it. Copies: no."""
        ...

    @property
    def device_pointer(self) -> int:
        """Address for the GPU. ConfigError for memory of the host alone."""
        ...

    def free(self) -> None:
        """Gives it back. A second call does nothing."""
        ...


@dataclass(frozen=True)
class BufferSpec:
    """What one name of a pool stands for.

    Attributes:
        name: unique in its pool.
        shape, dtype: of the array.
        count: how many may be lent out at the same time.
        kind: of memory, one of `KINDS`.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    count: int = 1
    kind: str = HOST

    @property
    def nbytes(self) -> int:
        """Size of one buffer in bytes."""
        return prod(self.shape) * np.dtype(self.dtype).itemsize


class Buffer:
    """A piece of a pool's memory, lent until `release` or the end of its `with` block.

    Attributes:
        name: what the pool calls it.
        kind: one of `KINDS`.
        nbytes: size in bytes.
    """

    def __init__(self, spec: BufferSpec, block: Memory, offset: int, pool: Pool) -> None:
        """Internal: use `Pool.lease`."""
        self.name, self.kind, self.nbytes = spec.name, spec.kind, spec.nbytes
        self._spec, self._block, self._offset = spec, block, offset
        self._pool: Pool | None = pool
        host = self.host
        self._array = None if host is None else host.view(spec.dtype).reshape(spec.shape)

    @property
    def freed(self) -> bool:
        """Whether the buffer was given back."""
        return self._pool is None

    @property
    def array(self) -> NDArray[Any]:
        """The memory as an array, the same one each time.

        Copies: no. Keep no reference beyond the release: the next borrower writes there.

        Raises:
            StateError: the buffer was given back.
            ConfigError: "device" memory, which the host cannot read.
        """
        self._refuse_returned()
        if self._array is None:
            raise ConfigError(f"buffer {self.name!r} is {self.kind} memory: the host cannot read it")
        return self._array

    @property
    def host(self) -> NDArray[np.uint8] | None:
        """The memory as bytes, uint8 [nbytes]; None for "device" memory. Copies: no; as `array`."""
        self._refuse_returned()
        host = self._block.host
        return None if host is None else host[self._offset : self._offset + self.nbytes]

    @property
    def pointer(self) -> int:
        """Address of the first byte for the host, a multiple of `ALIGNMENT`. Raises as `array` does."""
        return int(self.array.ctypes.data)

    @property
    def device_pointer(self) -> int:
        """Address of the first byte for the GPU, a multiple of `ALIGNMENT`.

        Raises:
            StateError: the buffer was given back.
            ConfigError: "host" memory, which has no address on the GPU.
        """
        self._refuse_returned()
        return self._block.device_pointer + self._offset

    def release(self) -> None:
        """Gives the memory back. A second call does nothing."""
        if self._pool is not None:
            self._pool._take_back(self.name, self._offset)
            self._pool = self._array = None

    def free(self) -> None:
        """The same as `release`: the pool keeps the memory."""
        self.release()

    def __enter__(self) -> Buffer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        state = "lent" if self._pool is not None else "given back"
        what = f"{np.dtype(self._spec.dtype)}{list(self._spec.shape)}"
        return f"Buffer({self.name!r}, {what}, {self.kind}, {state})"

    def _refuse_returned(self) -> None:
        if self._pool is None:
            raise StateError(f"buffer {self.name!r} was given back: lease it again from its pool")
        if self._block.freed:
            raise StateError(f"the pool of buffer {self.name!r} is closed, and its memory gone")


class Pool(ClosedByWith):
    """Allocates all that it will ever lend, one block for each kind of memory, filled with zeros.

    Not for several threads at once.

    Arguments:
        specs: the buffers.
        allocate: gives `nbytes` of a kind, zeroed and aligned: `CudaDevice.allocate`, or `HostMemory`.

    Raises:
        ConfigError: a name is given twice, a size is not positive, no such kind.
        CudaError: the driver refuses; what was allocated is freed.
    """

    def __init__(self, specs: Iterable[BufferSpec], allocate: Callable[[int, str], Memory]) -> None:
        self._specs: dict[str, BufferSpec] = {}
        for spec in specs:
            _check(spec, self._specs)
            self._specs[spec.name] = spec
        sizes: dict[str, int] = {}
        self._free: dict[str, list[int]] = {name: [] for name in self._specs}
        for spec in self._specs.values():
            for _ in range(spec.count):
                start = sizes.get(spec.kind, 0)
                self._free[spec.name].append(start)
                sizes[spec.kind] = start + _aligned(spec.nbytes)
        self._nbytes = sum(sizes.values())
        self._blocks: dict[str, Memory] = {}
        self._closed = False
        try:
            for kind, nbytes in sizes.items():
                self._blocks[kind] = allocate(nbytes, kind)
        except BaseException:
            self.close()
            raise

    @property
    def nbytes(self) -> int:
        """Bytes that the pool holds, alignment included; the two halves of pinned memory count once."""
        return self._nbytes

    @property
    def lent(self) -> tuple[str, ...]:
        """Names of the buffers that are out now, one entry a buffer."""
        return tuple(
            name for name, spec in self._specs.items() for _ in range(spec.count - len(self._free[name]))
        )

    def lease(self, name: str) -> Buffer:
        """Lends a buffer. Its content is whatever the last borrower left.

        Raises:
            StateError: the pool is closed.
            ConfigError: no buffer has this name.
            PoolExhaustedError: all buffers of this name are lent out.
        """
        if self._closed:
            raise StateError(f"the pool is closed: buffer {name!r} cannot be lent")
        if name not in self._specs:
            raise ConfigError(f"no buffer is named {name!r}; this pool has {', '.join(self._specs)}")
        if not self._free[name]:
            count = self._specs[name].count
            raise PoolExhaustedError(
                f"buffer {name!r}: all {count} lent out. Give one back first, or make the pool with "
                f"count={count + 1}."
            )
        spec = self._specs[name]
        return Buffer(spec, self._blocks[spec.kind], self._free[name].pop(), self)

    def close(self) -> None:
        """Frees the memory. Warns (`ResourceWarning`) of buffers still lent out. Twice is fine."""
        if self._closed:
            return
        self._closed = True
        lent = self.lent if self._blocks.keys() == {spec.kind for spec in self._specs.values()} else ()
        for block in self._blocks.values():
            block.free()
        if lent:
            warnings.warn(f"pool closed while lent out: {', '.join(lent)}", ResourceWarning, stacklevel=2)

    def _take_back(self, name: str, offset: int) -> None:
        self._free[name].append(offset)


def _check(spec: BufferSpec, known: dict[str, BufferSpec]) -> None:
    if spec.name in known:
        raise ConfigError(f"buffer {spec.name!r} is named twice in one pool; names must differ")
    if spec.count < 1 or spec.nbytes < 1:
        raise ConfigError(
            f"buffer {spec.name!r}: expected at least one buffer of at least one byte, "
            f"found count {spec.count}, shape {list(spec.shape)}"
        )
    if spec.kind not in KINDS:
        raise ConfigError(
            f"buffer {spec.name!r}: memory kind {spec.kind!r}: expected one of {', '.join(KINDS)}"
        )


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
