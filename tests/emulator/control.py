"""What tests ask of the emulated driver, and set. See `driver/control.c`."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import numpy as np
from emulated_driver import Unavailable, build_driver
from numpy.typing import NDArray

__all__ = ["OUT_OF_MEMORY", "Emulator", "load_emulator"]

OUT_OF_MEMORY = 2
"""Source: cuda.h, CUDA_ERROR_OUT_OF_MEMORY."""


class Emulator:
    """The emulated driver in this process.

    Attributes:
        path: of its libcuda.so.1.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        self._library.emuCounter.restype = ctypes.c_uint64
        self._library.emuCounter.argtypes = [ctypes.c_char_p]
        self._library.emuCounterNames.restype = ctypes.c_char_p
        self._library.emuCalls.restype = ctypes.c_size_t
        self._library.emuCallName.restype = ctypes.c_char_p
        self._library.emuCallName.argtypes = [ctypes.c_size_t]
        self._library.emuFail.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int]
        self._library.emuMisalign.argtypes = [ctypes.c_size_t]
        self._library.emuHostAddress.restype = ctypes.c_void_p
        self._library.emuHostAddress.argtypes = [ctypes.c_uint64, ctypes.c_size_t]
        self.counter_names = tuple(self._library.emuCounterNames().decode().strip(",").split(","))

    def become(self, personality: str) -> None:
        """Becomes "integrated" (a Jetson Orin), "discrete" (a card) or "none" (no GPU)."""
        if self._library.emuPersonality(personality.encode()):
            raise ValueError(f"no personality {personality!r}")

    def misalign(self, nbytes: int) -> None:
        """Adds bytes to every address given out from now on."""
        self._library.emuMisalign(nbytes)

    def count(self, name: str) -> int:
        """Returns one counter."""
        value = int(self._library.emuCounter(name.encode()))
        if value == 2**64 - 1:
            raise KeyError(name)
        return value

    def counts(self) -> dict[str, int]:
        """Returns all counters that are not 0."""
        found = {name: self.count(name) for name in self.counter_names}
        return {name: value for name, value in found.items() if value}

    def alive(self) -> dict[str, int]:
        """Returns what is allocated, open or waiting now; nothing when all was given back."""
        return {
            name: value for name, value in self.counts().items() if name.startswith(("live_", "waiting_"))
        }

    def reset_counts(self) -> None:
        """Sets the counts of what happened to 0."""
        self._library.emuResetCounters()

    def fail(self, function: str = "*", nth: int = 1, code: int = OUT_OF_MEMORY) -> None:
        """Lets call number `nth` from now of a function (any function: "*") fail with a code."""
        self._library.emuFail(function.encode(), nth, code)

    def stop_failing(self) -> bool:
        """Takes a fault back that has not struck. Returns whether it had struck."""
        struck = not self._library.emuFaultIsWaiting()
        self.fail(nth=0)
        return struck

    def forget_calls(self) -> None:
        """Begins a new list of calls."""
        self._library.emuForgetCalls()

    def calls(self) -> list[str]:
        """Returns the names of the calls since `forget_calls`."""
        names = [self._library.emuCallName(index) for index in range(self._library.emuCalls())]
        return [name.decode() for name in names if name is not None]

    def context_depth(self) -> int:
        """Returns how many contexts lie on the calling thread's stack."""
        return int(self._library.emuContextDepth())

    def memory(self, pointer: int, nbytes: int) -> NDArray[np.uint8]:
        """Returns emulated device memory for a host function that stands in for a kernel. Copies: no.

        Raises:
            ValueError: the bytes do not lie within one allocation; counted as an illegal address.
        """
        address = self._library.emuHostAddress(pointer, nbytes)
        if address is None:
            raise ValueError(f"{nbytes} bytes at {pointer:#x} are not within one allocation")
        return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), np.uint8)


@cache
def load_emulator() -> Emulator:
    """Builds the emulated driver and makes it this process's libcuda.so.1.

    Raises:
        Unavailable: it cannot be built, or a real driver is loaded already.
    """
    path = build_driver()
    loaded = {
        line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libcuda.so" in line
    }
    if loaded - {str(path)}:
        raise Unavailable(f"this process has loaded a real CUDA driver already: {', '.join(sorted(loaded))}")
    return Emulator(path)
