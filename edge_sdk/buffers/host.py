"""Host memory in one block: named buffers, lent out and given back, never allocated again."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.buffers.kinds import ALIGNMENT
from edge_sdk.errors import ConfigError, PoolExhaustedError, StateError

__all__ = ["ALIGNMENT", "Buffer", "BufferSpec", "HostPool"]


@dataclass(frozen=True)
class BufferSpec:
    """What one name of a pool stands for.

    Attributes:
        name: unique in its pool.
        shape, dtype: of the array.
        count: how many may be lent out at the same time.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    count: int = 1

    @property
    def nbytes(self) -> int:
        """Size of one buffer in bytes."""
        return prod(self.shape) * np.dtype(self.dtype).itemsize


class Buffer:
    """A piece of a pool's memory, lent until `release` or the end of its `with` block.

    Attributes:
        name: what the pool calls it.
        kind: "host".
    """

    kind = "host"

    def __init__(self, name: str, array: NDArray[Any], pool: HostPool) -> None:
        self.name = name
        self._array = array
        self._pool: HostPool | None = pool

    @property
    def array(self) -> NDArray[Any]:
        """The memory as an array.

        Copies: no. Keep no reference beyond the release: the next borrower writes there.

        Raises:
            StateError: the buffer was given back.
        """
        if self._pool is None:
            raise StateError(f"buffer {self.name!r} was given back: lease it again from its pool")
        return self._array

    @property
    def pointer(self) -> int:
        """Address of the first byte, a multiple of `ALIGNMENT`. Raises as `array` does."""
        return int(self.array.ctypes.data)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return int(self._array.nbytes)

    def release(self) -> None:
        """Gives the memory back. A second call does nothing."""
        if self._pool is not None:
            self._pool._take_back(self.name, self._array)
            self._pool = None

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
        return f"Buffer({self.name!r}, {self._array.dtype}{list(self._array.shape)}, {state})"


class HostPool:
    """Allocates everything it will ever lend in one aligned block, filled with zeros.

        with HostPool([BufferSpec("rgb", (1, 256, 320, 3), "uint8")]) as pool:
            with pool.lease("rgb") as buffer:
                buffer.array[:] = 0

    Not for several threads at once.

    Raises:
        ConfigError: a name is given twice, or a size is not positive.
    """

    def __init__(self, specs: Iterable[BufferSpec]) -> None:
        self._specs: dict[str, BufferSpec] = {}
        for spec in specs:
            if spec.name in self._specs:
                raise ConfigError(f"buffer {spec.name!r} is named twice in one pool; names must differ")
            if spec.count < 1 or spec.nbytes < 1:
                raise ConfigError(
                    f"buffer {spec.name!r}: expected at least one buffer of at least one byte, "
                    f"found count {spec.count}, shape {list(spec.shape)}"
                )
            self._specs[spec.name] = spec
        self._nbytes = sum(_aligned(spec.nbytes) * spec.count for spec in self._specs.values())
        block = np.zeros(self._nbytes + ALIGNMENT, dtype=np.uint8)
        start = -block.ctypes.data % ALIGNMENT
        self._free: dict[str, list[NDArray[Any]]] = {}
        for name, spec in self._specs.items():
            self._free[name] = []
            for _ in range(spec.count):
                view = block[start : start + spec.nbytes].view(spec.dtype).reshape(spec.shape)
                self._free[name].append(view)
                start += _aligned(spec.nbytes)
        self._closed = False

    @property
    def nbytes(self) -> int:
        """Bytes that the pool holds, alignment included."""
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
        return Buffer(name, self._free[name].pop(), self)

    def close(self) -> None:
        """Ends the pool. Warns (`ResourceWarning`) of buffers still lent out. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        if self.lent:
            warnings.warn(
                f"pool closed while lent out: {', '.join(self.lent)}", ResourceWarning, stacklevel=2
            )

    def _take_back(self, name: str, array: NDArray[Any]) -> None:
        self._free[name].append(array)

    def __enter__(self) -> HostPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
