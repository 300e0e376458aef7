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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from emulated_driver import Unavailable, build_driver, cache_folder

__all__ = ["Machine", "build_wheel", "install_pycuda", "missing_tool"]

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


@dataclass(frozen=True)
class Machine:
    """Where pycuda is to run.

    Attributes:
        name: as `platform.machine()` says it.
        fetching: interpreter whose pip fetches what is the same on all machines.
        environment: for its programs, compilers among them.
        driver: folder of the emulated driver, built for it.
        options: of its `pip wheel`.
    """

    name: str
    fetching: Path
    environment: Mapping[str, str]
    driver: Path
    options: tuple[str, ...] = ()


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


def build_wheel(python: Path, *, machine: Machine | None = None) -> Path:
    """Returns the wheel of pycuda for this interpreter, compiled if it is not in the user's cache.

    Arguments:
        python: the interpreter.
        machine: the one that it runs on; None for this one.

    Raises:
        Unavailable: as `install_pycuda`.
    """
    missing = missing_tool()
    if missing:
        raise Unavailable(f"pycuda cannot be built here: it needs {missing}")
    machine = machine or Machine(platform.machine(), python, dict(os.environ), build_driver().parent)
    ask = "import sys, sysconfig; print(f'cp{sys.version_info[0]}{sys.version_info[1]}')"
    tag = _ask(python, ask, machine.environment)
    folder = cache_folder() / f"{PYCUDA.replace('==', '-')}-{tag}-{machine.name}"
    if not list(folder.glob("*.whl")):
        print(f"building {PYCUDA} for {tag} (kept in the user's cache)", flush=True)
        _build(python, folder, machine)
    return next(iter(folder.glob("*.whl")))


def _build(python: Path, folder: Path, machine: Machine) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        headers, home, wheels = (Path(scratch, name) for name in ("headers", "home", "wheels"))
        pip = [machine.fetching, "-m", "pip"]
        fetch = [*pip, "install", "--quiet", "--no-deps", "--target", headers, *HEADERS]
        _run(fetch, os.environ, "fetching NVIDIA's headers")
        header = next(headers.glob("**/cuda.h"), None)
        if header is None:
            raise Unavailable(f"pycuda cannot be built here: no cuda.h in {' and '.join(HEADERS)}")
        home.mkdir()
        settings = SETTINGS.format(headers=str(header.parent), driver=str(machine.driver))
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
        environment = _environment(home, machine.environment)
        wanted: str | Path = PYCUDA
        if machine.fetching != python:
            download = [*pip, "download", "--quiet", "--no-deps", "--no-binary", "pycuda", "--dest", scratch]
            _run([*download, PYCUDA], os.environ, "fetching pycuda")
            wanted = next(Path(scratch).glob("pycuda-*.tar.gz"))
        _run([*build, *machine.options, "--wheel-dir", wheels, wanted], environment, "building pycuda")
        try:
            wheels.rename(folder)
        except OSError:  # another process was faster
            if not list(folder.glob("*.whl")):
                raise


def _environment(home: Path, given: Mapping[str, str]) -> dict[str, str]:
    """The machine's, with pycuda's settings as home, pip's settings kept, and no nvcc on PATH.

    pycuda takes the folder above an nvcc on PATH for a whole toolkit, which a mere wrapper has not got."""
    environment = {**given, "HOME": str(home)}
    path = given.get("PATH", os.defpath).split(os.pathsep)
    environment["PATH"] = os.pathsep.join(entry for entry in path if not Path(entry, "nvcc").exists())
    for settings in (".config/pip/pip.conf", ".pip/pip.conf"):
        if Path.home().joinpath(settings).is_file():
            environment.setdefault("PIP_CONFIG_FILE", str(Path.home() / settings))
    return environment


def _ask(python: Path, code: str, environment: Mapping[str, str]) -> str:
    done = subprocess.run([python, "-c", code], env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _run(command: list[str | Path], environment: Mapping[str, str], what: str) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{what} failed:\n{(done.stdout + done.stderr)[-3000:]}")
