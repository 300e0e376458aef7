"""Builds pycuda for the tests, where there is no CUDA toolkit, and installs it into an environment.

pycuda comes as sources. They compile against the headers that NVIDIA's registry packages hold, and link
against the emulated driver. The wheel stays in the user's cache, one for each Python, so that a machine
compiles it once (a minute or two). It is compiled without optimisation: for tests only.

Standard library only.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from emulated_driver import Unavailable, build_driver, cache_folder

__all__ = ["build_wheel", "install_pycuda", "missing_tool"]

PYCUDA = "pycuda==2026.1"
HEADERS = ("nvidia-cuda-runtime>=13,<14", "nvidia-cuda-profiler-api>=13,<14")
"""cuda.h is in the first, cudaProfiler.h in the second."""

SETTINGS = """\
CUDA_ENABLE_CURAND = False
CUDA_INC_DIR = [{headers!r}]
CUDADRV_LIB_DIR = [{driver!r}]
CXXFLAGS = ["-O0", "-g0", "-w"]
"""
"""pycuda reads them from `.aksetup-defaults.py` in the home folder. Without curand, no toolkit is needed."""


def missing_tool() -> str | None:
    """Returns what this machine lacks to compile pycuda, or None."""
    if platform.system() != "Linux":
        return "Linux"
    for compiler in ("gcc", "g++"):
        if shutil.which(compiler) is None:
            return f"a C++ compiler ({compiler}); on Debian and Ubuntu: apt-get install g++"
    return None


def install_pycuda(python: Path) -> None:
    """Installs pycuda into the environment of this interpreter, and compiles it before if need be.

    Raises:
        Unavailable: a compiler is missing, or the build failed; says which.
    """
    wheel = build_wheel(python)
    _run([python, "-m", "pip", "install", "--quiet", wheel], os.environ, "installing pycuda")


def build_wheel(python: Path) -> Path:
    """Returns the wheel of pycuda for this interpreter, compiled if it is not in the user's cache.

    Raises:
        Unavailable: as `install_pycuda`.
    """
    missing = missing_tool()
    if missing:
        raise Unavailable(f"pycuda cannot be built here: it needs {missing}")
    tag = _ask(python, "import sys, sysconfig; print(f'cp{sys.version_info[0]}{sys.version_info[1]}')")
    folder = cache_folder() / f"{PYCUDA.replace('==', '-')}-{tag}-{platform.machine()}"
    if not list(folder.glob("*.whl")):
        print(f"building {PYCUDA} for {tag} (kept in the user's cache)", flush=True)
        _build(python, folder)
    return next(iter(folder.glob("*.whl")))


def _build(python: Path, folder: Path) -> None:
    driver = build_driver().parent
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        headers, home, wheels = (Path(scratch, name) for name in ("headers", "home", "wheels"))
        fetch = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--target", headers, *HEADERS]
        _run(fetch, os.environ, "fetching NVIDIA's headers")
        header = next(headers.glob("**/cuda.h"), None)
        if header is None:
            raise Unavailable(f"pycuda cannot be built here: no cuda.h in {' and '.join(HEADERS)}")
        home.mkdir()
        settings = SETTINGS.format(headers=str(header.parent), driver=str(driver))
        (home / ".aksetup-defaults.py").write_text(settings, "utf-8")
        build = [
            python,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-binary",
            "pycuda",
            "--no-cache-dir",
        ]
        _run([*build, "--wheel-dir", wheels, PYCUDA], _environment(home), "building pycuda")
        try:
            wheels.rename(folder)
        except OSError:  # another process was faster
            if not list(folder.glob("*.whl")):
                raise


def _environment(home: Path) -> dict[str, str]:
    """This process's, with pycuda's settings as home, pip's settings kept, and no nvcc on PATH.

    pycuda takes the folder above an nvcc on PATH for a whole toolkit, which a mere wrapper has not got."""
    environment = {**os.environ, "HOME": str(home)}
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    environment["PATH"] = os.pathsep.join(entry for entry in path if not Path(entry, "nvcc").exists())
    for settings in (".config/pip/pip.conf", ".pip/pip.conf"):
        if Path.home().joinpath(settings).is_file():
            environment.setdefault("PIP_CONFIG_FILE", str(Path.home() / settings))
    return environment


def _ask(python: Path, code: str) -> str:
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def _run(command: list[str | Path], environment: os._Environ[str] | dict[str, str], what: str) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{what} failed:\n{(done.stdout + done.stderr)[-3000:]}")
