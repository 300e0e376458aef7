"""An aarch64 machine out of Debian's packages and wheels, on which qemu runs programs one by one.

No binfmt_misc, no chroot and no root: `qemu-aarch64-static -L ROOT` looks for libraries under ROOT, and
`python3` is a script that calls it, so that child processes work too. Compilers are the cross compilers.
All of it is kept in the user's cache.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from emulated_driver import Unavailable, cache_folder
from wheels import Target, install_wheels, name_of, put, run

__all__ = ["Unavailable", "World", "make_world"]

QEMU = "qemu-aarch64-static"
CPU = "cortex-a76"
"""The nearest to an Orin's Cortex-A78AE in qemu 7.2: ARMv8.2 with the dot product, without SVE and i8mm."""
CPUINFO = """\
processor\t: {index}
BogoMIPS\t: 62.50
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x4
CPU part\t: 0xd0b
CPU revision\t: 1

"""
"""qemu 7.2 shows the host's, at which ONNX Runtime crashes."""

DEBIAN_PACKAGES = ("python3", "libpython3-dev", "libstdc++6")
COMPILERS = ("gcc", "g++")


@dataclass(frozen=True)
class World:
    """The emulated machine.

    Attributes:
        python: its interpreter, a script for this machine.
        environment: for whatever is started there.
        site: where its packages are.
        target: what they are chosen for.
        installed: distributions with wheels for aarch64, asked for by an extra.
        without_wheel: what an extra asks for and has none, with what was done instead.
    """

    python: Path
    environment: dict[str, str]
    site: Path
    target: Target
    installed: tuple[str, ...]
    without_wheel: dict[str, str]


def make_world() -> World:
    """Makes the machine, or finds it in the cache.

    Raises:
        Unavailable: what it needs is not here; says what.
    """
    _check_host()
    folder = cache_folder() / "aarch64"
    root = _root(folder)
    interpreter = max(root.glob("usr/bin/python3.[0-9]*"), key=lambda path: int(path.name.split(".")[1]))
    target = Target(interpreter.name.removeprefix("python"), _glibc_minor(root))
    tools = _tools(folder, root, interpreter)
    site, installed, without = install_wheels(folder, target)
    tests = Path(__file__).parents[1]
    environment = {
        **{name: value for name, value in os.environ.items() if name != "CI"},
        "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "CPATH": str(
            root / "usr" / "include" / interpreter.name
        ),  # Debian's Python names it without the root
        "PYTHONHOME": str(root / "usr"),
        "PYTHONPATH": os.pathsep.join(map(str, (tests.parent, tests, site))),
        "PYTHONNOUSERSITE": "1",
        "EDGE_SDK_ENGINES": str(tests.parent / "engines"),
    }
    return World(tools / "python3", environment, site, target, installed, without)


def _check_host() -> None:
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise Unavailable(
            f"it emulates aarch64 on x86-64 Linux; this is {platform.system()} {platform.machine()}"
        )
    release = Path("/etc/os-release")
    if not release.exists() or "ID=debian" not in release.read_text("utf-8").splitlines():
        raise Unavailable(
            "its root is made from Debian's arm64 packages, which this system's apt does not have"
        )
    tools = (QEMU, "apt-get", "dpkg-deb", *(f"aarch64-linux-gnu-{name}" for name in COMPILERS))
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        install = "apt-get install qemu-user-static g++-aarch64-linux-gnu"
        raise Unavailable(f"{', '.join(missing)} is not here: {install}")


def _root(folder: Path) -> Path:
    """Debian's arm64 packages, unpacked and not configured: nothing of them runs but Python."""
    root = folder / f"root-{name_of(DEBIAN_PACKAGES, Path('/etc/debian_version').read_text('utf-8'))}"
    if root.is_dir():
        return root
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        state, made = Path(scratch, "apt"), Path(scratch, "root")
        for name in ("lists/partial", "archives/partial"):
            (state / name).mkdir(parents=True)
        (state / "status").touch()
        made.mkdir()
        options = {
            "APT::Architecture": "arm64",
            "APT::Architectures": "arm64",
            "APT::Install-Recommends": "0",
            "APT::Sandbox::User": "",
            "Acquire::Languages": "none",
            "Acquire::Retries": "2",
            "Acquire::http::Timeout": "30",
            "Debug::NoLocking": "1",
            "Dir::State::lists": state / "lists",
            "Dir::State::status": state / "status",
            "Dir::Cache": state,
            "Dir::Cache::archives": state / "archives",
        }
        apt = [
            "apt-get",
            "-qq",
            *(word for name, value in options.items() for word in ("-o", f"{name}={value}")),
        ]
        run([*apt, "update"], "reading Debian's arm64 package lists")
        run([*apt, "install", "-y", "--download-only", *DEBIAN_PACKAGES], "fetching Debian's arm64 packages")
        for package in sorted((state / "archives").glob("*.deb")):
            run(["dpkg-deb", "-x", package, made], f"unpacking {package.name}")
        (made / "proc").mkdir()
        (made / "proc" / "cpuinfo").write_text("".join(CPUINFO.format(index=i) for i in range(2)), "utf-8")
        put(made, root)
    return root


def _tools(folder: Path, root: Path, interpreter: Path) -> Path:
    """Scripts in place of the machine's programs: Python under qemu, and compilers that work on this one."""
    tools = folder / f"bin-{name_of((str(root), CPU))}"
    if tools.is_dir():
        return tools
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch, "bin")
        made.mkdir()
        scripts = {"python3": f'exec {QEMU} -cpu {CPU} -L "{root}" -0 "{tools}/python3" "{interpreter}" "$@"'}
        for name in COMPILERS:
            cross = shutil.which(f"aarch64-linux-gnu-{name}")
            # Python's own configuration asks for the second name.
            for given in (name, f"aarch64-linux-gnu-{name}"):
                scripts[given] = f'exec "{cross}" --sysroot="{root}" "$@"'
        for name, script in scripts.items():
            (made / name).write_text(f"#!/bin/sh\n{script}\n", "utf-8")
            (made / name).chmod(0o755)
        put(made, tools)
    return tools


def _glibc_minor(root: Path) -> int:
    library = root / "lib" / "aarch64-linux-gnu" / "libc.so.6"
    found = re.findall(rb"GNU C Library .* version 2\.(\d+)", library.read_bytes())
    return int(found[0])
