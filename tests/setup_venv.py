"""Makes a virtual environment and installs into it, on a machine that has nothing but Python.

    python3 tests/setup_venv.py VENV [--debian PROGRAM=PACKAGE ...] [--pycuda] [--tensorrt-rtx] [pip ...]

`--debian` names programs (or files) that the tests use where they are: what is missing is installed from
Debian (packages joined by "+") where the user is root, and else said to be missing; the tests that need it
then skip themselves.

With --pycuda, pycuda is compiled for the tests of the CUDA layer, which run on an emulated driver. Where it
cannot be, a line says why, and those tests skip; in CI that is an error. Standard library only, Python
3.10 and later. Mends the two things a bare Debian or Ubuntu lacks:
the `venv` module's pip (package python3-venv), and the window libraries that the wheel of
opencv-python links against (there opencv-python-headless serves; it is the same module).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from emulated_driver import Unavailable
from pycuda_wheel import install_pycuda

OLDEST = (3, 10)

TENSORRT_RTX = "tensorrt-rtx-cu13>=1.7,<2"
"""NVIDIA's own parser and builder, about 100 MB, for x86-64. It needs no GPU to build a plan."""


APT_PATIENCE = ("-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=1")
APT_LIMIT_S = 240
"""A machine without a way to Debian's servers must not wait for them."""


def main(venv: Path, install: list[str]) -> None:
    """Makes the environment if need be, installs, and checks that OpenCV can be imported."""
    while install[:1] == ["--debian"]:
        _want_program(*install[1].split("="))
        install = install[2:]
    with_pycuda, with_rtx = "--pycuda" in install, "--tensorrt-rtx" in install
    install = [argument for argument in install if argument not in ("--pycuda", "--tensorrt-rtx")]
    if sys.version_info < OLDEST:
        sys.exit(f"Python {'.'.join(map(str, OLDEST))} or later is needed; this is {sys.version.split()[0]}")
    python = venv / "bin" / "python"
    if not python.exists() or not _has_pip(python):
        _make(venv)
    _run([python, "-m", "pip", "install", "--quiet", "--upgrade", "pip"])
    if install:
        _run([python, "-m", "pip", "install", "--quiet", *install])
    if install and not _imports(python, "cv2"):
        print("opencv-python cannot load its window libraries here: using opencv-python-headless")
        ask = "import importlib.metadata as m; print(m.version('opencv-python'))"
        version = subprocess.run(
            [python, "-c", ask], check=True, capture_output=True, text=True
        ).stdout.strip()
        _run([python, "-m", "pip", "uninstall", "--quiet", "--yes", "opencv-python"])
        _run([python, "-m", "pip", "install", "--quiet", f"opencv-python-headless=={version}"])
        if not _imports(python, "cv2"):
            sys.exit(f"OpenCV cannot be imported; run: {python} -c 'import cv2'")
    if with_rtx and not _quiet([python, "-m", "pip", "install", "--quiet", TENSORRT_RTX]):
        print(f"{TENSORRT_RTX} cannot be installed here: the tests that build with it will skip")
    if with_pycuda:
        try:
            install_pycuda(python)
        except Unavailable as reason:
            if os.environ.get("CI"):
                sys.exit(f"in CI the tests of the CUDA layer must run: {reason}")
            print(f"the tests of the CUDA layer will skip: {reason}")


def _want_program(program: str, package: str) -> None:
    """Installs a Debian package for the tests' sake; its absence is no failure."""
    if shutil.which(program) or Path("/usr/sbin", program).exists():  # or the path of any file
        return
    packages = package.split("+")
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        print(
            f"{program} is not here: its tests will be skipped. To run them: sudo apt-get install "
            f"{' '.join(packages)}"
        )
        return
    print(f"installing {' '.join(packages)}")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *packages]):
        try:
            done = subprocess.run(
                [apt, *APT_PATIENCE, *step],
                check=False,
                env=quiet,
                stdout=subprocess.DEVNULL,
                timeout=APT_LIMIT_S,
            ).returncode
        except subprocess.TimeoutExpired:
            done = -1
        if done != 0:
            print(f"{' '.join(packages)} cannot be installed: the tests that need {program} will be skipped")
            return


def _make(venv: Path) -> None:
    print(f"making {venv} with Python {sys.version.split()[0]}")
    shutil.rmtree(venv, ignore_errors=True)
    if subprocess.run([sys.executable, "-m", "venv", str(venv)], check=False).returncode == 0:
        return
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        sys.exit(f"Python's venv module lacks pip. Run: sudo apt-get install {package}; then try again.")
    print(f"installing {package}")
    _run([apt, "update", "-qq"])
    _run([apt, "install", "-y", "-qq", package])
    shutil.rmtree(venv, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(venv)])


def _has_pip(python: Path) -> bool:
    return _quiet([python, "-m", "pip", "--version"])


def _imports(python: Path, module: str) -> bool:
    return _quiet([python, "-c", f"import {module}"])


def _quiet(command: list[str | Path]) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def _run(command: list[str | Path]) -> None:
    status = subprocess.run(command, check=False).returncode
    if status:
        sys.exit(status)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
