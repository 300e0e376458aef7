"""Which kind of machine an install is for, and which CUDA it has: all that advice depends on."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edge_sdk.devices.finding import Finding
from edge_sdk.devices.machine import is_jetson
from edge_sdk.requirements import hint_for

__all__ = ["Host", "cuda_finding", "find_host"]

_DRIVER = (
    "import ctypes; v = ctypes.c_int(); "
    "status = ctypes.CDLL('libcuda.so.1').cuDriverGetVersion(ctypes.byref(v)); "
    "assert status == 0, f'cuDriverGetVersion: {status}'; print(f'{v.value // 1000}.{v.value % 1000 // 10}')"
)
_VERSION = re.compile(r"\d+\.\d+")


@dataclass(frozen=True)
class Host:
    """What advice depends on.

    Attributes:
        jetson: an NVIDIA Jetson.
        card: an NVIDIA graphics card, by its driver.
        driver: newest CUDA that the driver takes, e.g. "12.6", or "".
        toolkit: CUDA under /usr/local/cuda, or "".
        minor: of Python 3.
    """

    jetson: bool
    card: bool
    driver: str
    toolkit: str
    minor: int = sys.version_info.minor

    @property
    def gpu(self) -> bool:
        """Whether there is an NVIDIA GPU to advise about."""
        return self.jetson or self.card or bool(self.driver)

    @property
    def cuda_major(self) -> int | None:
        """Of the driver, which decides; else of the toolkit; None where neither was found."""
        version = self.driver or self.toolkit
        return int(version.split(".")[0]) if version else None

    def bindings_command(self) -> str:
        """Returns the command for cuda-bindings that fit this CUDA; newer ones ask its driver for more."""
        if self.cuda_major == 12:
            return "pip install 'cuda-bindings>=12.8,<13'"
        if self.cuda_major == 13:
            return "pip install 'cuda-bindings>=13,<14'"
        return hint_for("cuda-bindings")


def find_host(root: Path, child: Callable[[str], tuple[bool, str]]) -> Host:
    """Looks at the machine.

    Arguments:
        root: of the file system.
        child: runs Python in a process of its own.
    """
    well, answer = child(_DRIVER)
    return Host(
        jetson=is_jetson(root),
        card=any((root / "proc/driver/nvidia/gpus").glob("*/information")),
        driver=answer if well and _VERSION.fullmatch(answer) else "",
        toolkit=_toolkit(root),
    )


def cuda_finding(host: Host) -> Finding:
    """Says which CUDA is here, and how to get one where a GPU has none."""
    parts = [
        f"{what} {version}"
        for what, version in (("driver", host.driver), ("toolkit", host.toolkit))
        if version
    ]
    found = ", ".join(parts) or "no driver, no toolkit"
    if host.jetson and not (host.driver and host.toolkit):
        advice = (
            "`sudo apt-get install nvidia-jetpack` brings CUDA, cuDNN and TensorRT: SD-card images and "
            "minimal installs come without. In a container, start it with `--runtime nvidia`."
        )
        return Finding("CUDA", "absent", found, advice)
    if host.card and not host.driver:
        advice = "The driver's libcuda.so.1 does not load. In a container, start it with `--gpus all`."
        return Finding("CUDA", "absent", found, advice)
    if not host.driver:
        return Finding("CUDA", "absent", found, "Only for an NVIDIA GPU; this machine shows none.")
    return Finding("CUDA", "ok", found)


def _toolkit(root: Path) -> str:
    """Source: the toolkit's version.json, `{"cuda": {"version": "12.6.11"}}`; else the folder's name."""
    try:
        said = json.loads((root / "usr/local/cuda/version.json").read_text("utf-8"))["cuda"]["version"]
        return str(said)
    except (OSError, ValueError, KeyError, TypeError):
        named = sorted(root.glob("usr/local/cuda-*.*"))
        return named[-1].name.removeprefix("cuda-") if named else ""
