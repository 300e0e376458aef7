"""Ordinary memory of the CPU, aligned as every other kind is."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from edge_sdk.buffers.kinds import ALIGNMENT, HOST
from edge_sdk.buffers.pool import BufferSpec, Pool
from edge_sdk.errors import ConfigError, StateError

__all__ = ["HostMemory", "HostPool"]


class HostMemory:
    """A block of zeros that starts at a multiple of `ALIGNMENT`.

    Arguments:
        nbytes: size in bytes, 1 or more.
        kind: "host"; there is no other without a GPU.

    Raises:
        ConfigError: another kind, or no bytes.
    """

    def __init__(self, nbytes: int, kind: str = HOST) -> None:
        if kind != HOST:
            raise ConfigError(f"{kind} memory needs a GPU: open a CudaDevice and allocate from it")
        if nbytes < 1:
            raise ConfigError(f"{HOST} memory: expected 1 byte or more, found {nbytes}")
        block = np.zeros(nbytes + ALIGNMENT, np.uint8)
        start = -block.ctypes.data % ALIGNMENT
        self.kind, self.nbytes = HOST, nbytes
        self._view: NDArray[np.uint8] | None = block[start : start + nbytes]

    @property
    def freed(self) -> bool:
        """Whether the memory was given back."""
        return self._view is None

    @property
    def host(self) -> NDArray[np.uint8]:
        """The memory, uint8 [nbytes]. Copies: no.

        Raises:
            StateError: it was freed.
        """
        if self._view is None:
            raise StateError(f"{HOST} buffer of {self.nbytes} bytes was freed: allocate it again")
        return self._view

    @property
    def device_pointer(self) -> int:
        """Always an error: the GPU cannot reach this memory.

        Raises:
            StateError: it was freed.
            ConfigError: it was not.
        """
        _ = self.host
        raise ConfigError(f"{HOST} memory has no address on the GPU")

    def free(self) -> None:
        """Lets the memory go; views that are still held keep it alive. A second call does nothing."""
        self._view = None


class HostPool(Pool):
    """A pool of ordinary memory.

        with HostPool([BufferSpec("rgb", (1, 256, 320, 3), "uint8")]) as pool:
            with pool.lease("rgb") as buffer:
                buffer.array[:] = 0

    Raises:
        ConfigError: as `Pool`, and for every kind but "host".
    """

    def __init__(self, specs: Iterable[BufferSpec]) -> None:
        super().__init__(specs, HostMemory)
