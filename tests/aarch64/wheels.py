"""Wheels for aarch64: chosen and unpacked by this machine's pip, for a Python that it cannot run."""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from emulated_driver import Unavailable
from packaging.requirements import Requirement

__all__ = ["LOOKED_FOR", "Target", "install_wheel", "install_wheels", "look_for", "name_of", "put", "run"]

INSTALLED = ("cpu", "jetson", "jtop", "nvml", "camera", "flir", "serve", "record", "mqtt")
LOOKED_FOR = ("gpu", "train")
"""Extras too large to fetch each time: whether their wheels exist is asked, nothing more."""
FOR_TESTS = ("pytest", "hypothesis", "pip", "setuptools", "wheel")
COMPILED = ("pycuda",)
"""Has no wheel for any machine; `pycuda_wheel.py` compiles it, here with the cross compiler."""
INSTEAD = {"opencv-python": "opencv-python-headless"}
"""The same module without window libraries, as setup_venv.py takes it on a bare Debian."""
OLDEST_GLIBC = 17
_LACKING = re.compile(r"No matching distribution found for ([A-Za-z0-9._-]+)")


@dataclass(frozen=True)
class Target:
    """What a wheel must be for.

    Attributes:
        python: "3.11".
        glibc: its minor version, 36 for 2.36.
    """

    python: str
    glibc: int


def install_wheels(folder: Path, target: Target) -> tuple[Path, tuple[str, ...], dict[str, str]]:
    """Every extra's wheels for aarch64; what has none is asked of its sources, if they are pure Python."""
    wanted = {item.name: item for extra in ("", *INSTALLED) for item in _requirements(extra, target)}
    stated = [str(Requirement(_plain(INSTEAD.get(name, name), item))) for name, item in wanted.items()]
    site = folder / f"site-{name_of(sorted(stated), FOR_TESTS, target)}"
    notes = site / "without-wheel.txt"
    if not site.is_dir():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch, "site")
            without = _fill(made, Path(scratch), stated, target)
            lines = [f"{name}: {what}\n" for name, what in without.items()]
            (made / notes.name).write_text("".join(lines), "utf-8")
            put(made, site)
    without = dict(line.split(": ", 1) for line in notes.read_text("utf-8").splitlines())
    return site, tuple(name for name in wanted if name not in without), without


def _fill(made: Path, scratch: Path, stated: list[str], target: Target) -> dict[str, str]:
    tags = _wheel_options(target)
    without: dict[str, str] = {}
    wheels = scratch / "wheels"
    wheels.mkdir()
    left = [*stated, *FOR_TESTS]
    while True:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", str(made)]
        done = subprocess.run(
            [*pip, "--find-links", str(wheels), *tags, *left], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return without
        lacking = _LACKING.search(done.stderr)
        if lacking is None or lacking[1] in without:
            raise Unavailable(f"installing wheels for aarch64 failed:\n{done.stderr[-2000:]}")
        name = lacking[1]
        asked = next((item for item in left if Requirement(item).name == name), name)
        if name in COMPILED:
            without[name] = "compiled here, with the cross compiler"
        else:
            run(
                [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, asked],
                f"making a wheel of {asked}",
            )
            pure = any(wheels.glob(f"{name.replace('-', '_')}-*-none-any.whl"))
            without[name] = "pure Python, made from its sources" if pure else "NOT INSTALLED"
        if without[name] != "pure Python, made from its sources":
            left = [item for item in left if Requirement(item).name != name]


def install_wheel(wheel: Path, site: Path, target: Target) -> None:
    """Unpacks one wheel beside the others, with what it asks for.

    Raises:
        Unavailable: pip refuses it.
    """
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--upgrade", "--target", site]
    run([*pip, *_wheel_options(target), wheel], f"installing {wheel.name}")


def look_for(extras: Sequence[str], target: Target) -> dict[str, bool]:
    """Asks, without fetching, which distributions that only these extras name have wheels."""
    known = {item.name for extra in ("", *INSTALLED) for item in _requirements(extra, target)}
    left = {item.name: item for extra in extras for item in _requirements(extra, target)}
    left = {name: item for name, item in left.items() if name not in known}
    found = dict.fromkeys(left, True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps", "--ignore-installed"]
    with tempfile.TemporaryDirectory() as nowhere:
        while left:
            asked = [_plain(name, item) for name, item in left.items()]
            command = [*pip, "--target", nowhere, *_wheel_options(target), *asked]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                break
            lacking = _LACKING.search(done.stderr)
            if lacking is None or lacking[1] not in left:
                raise Unavailable(f"asking for wheels for aarch64 failed:\n{done.stderr[-2000:]}")
            found[lacking[1]] = False
            del left[lacking[1]]
    return found


def _requirements(extra: str, target: Target) -> list[Requirement]:
    """What the SDK asks for: "" for the core."""
    (name,) = set(importlib.metadata.packages_distributions()["edge_sdk"])
    place = {"python_version": target.python, "platform_machine": "aarch64"}
    chosen = []
    for text in importlib.metadata.requires(name) or []:
        item = Requirement(text)
        of_core = item.marker is None or item.marker.evaluate({**place, "extra": ""})
        if of_core if not extra else not of_core and item.marker.evaluate({**place, "extra": extra}):
            chosen.append(item)
    return chosen


def _plain(name: str, item: Requirement) -> str:
    return f"{name}{item.specifier}"


def _wheel_options(target: Target) -> list[str]:
    platforms = [f"manylinux_2_{minor}_aarch64" for minor in range(target.glibc, OLDEST_GLIBC - 1, -1)]
    short = target.python.replace(".", "")
    options = ["--only-binary=:all:", "--python-version", target.python, "--implementation", "cp"]
    for abi in (f"cp{short}", "abi3", "none"):
        options += ["--abi", abi]
    for tag in (*platforms, "manylinux2014_aarch64", "linux_aarch64", "any"):
        options += ["--platform", tag]
    return options


def put(made: Path, place: Path) -> None:
    try:
        made.rename(place)
    except OSError:  # another process was faster
        if not place.is_dir():
            raise


def name_of(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def run(command: Sequence[str | Path], what: str) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{what} failed: {(done.stderr or done.stdout).strip()[-1000:]}")
