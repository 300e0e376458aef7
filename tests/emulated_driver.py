"""Builds the emulated CUDA driver with a C compiler, once for each state of its sources.

Standard library only: a bare Python sets the test environments up."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

__all__ = ["Unavailable", "build_driver", "cache_folder"]

SOURCES = Path(__file__).parent / "emulator" / "driver"
FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-O1", "-g", "-fPIC", "-shared")
LINK = ("-fvisibility=hidden", "-Wl,-soname,libcuda.so.1", "-lpthread", "-ldl")


class Unavailable(Exception):
    """What the emulated driver needs is missing here; the message names it."""


def cache_folder() -> Path:
    """Where this project's tests keep what takes long to build: in the user's cache."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "edge-sdk-tests"


def build_driver() -> Path:
    """Builds `libcuda.so.1`, unless it is there for these very sources; returns its path.

    Beside it lies `libcuda.so`, for linkers.

    Raises:
        Unavailable: not Linux, or no C compiler.
    """
    if platform.system() != "Linux":
        raise Unavailable("the emulated CUDA driver needs Linux")
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise Unavailable("the emulated CUDA driver needs a C compiler: install gcc")
    sources = sorted(SOURCES.glob("*.c"))
    state = hashlib.sha256("".join([platform.machine(), *FLAGS, *LINK]).encode())
    for path in [*sources, SOURCES / "emulator.h"]:
        state.update(path.read_bytes())
    folder = cache_folder() / f"driver-{state.hexdigest()[:16]}"
    library = folder / "libcuda.so.1"
    if library.is_file():
        return library
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        built = Path(scratch, "driver")
        built.mkdir()
        command = [compiler, *FLAGS, "-o", str(built / library.name), *map(str, sources), *LINK]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the emulated CUDA driver does not compile:\n{done.stderr}")
        (built / "libcuda.so").symlink_to(library.name)
        try:
            built.rename(folder)
        except OSError:  # another process was faster
            if not library.is_file():
                raise
    return library
