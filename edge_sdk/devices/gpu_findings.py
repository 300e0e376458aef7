"""What doctor finds of TensorRT and of the packages that talk to the NVIDIA driver."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from edge_sdk.devices.finding import Finding
from edge_sdk.devices.host import Host
from edge_sdk.requirements import hint_for

__all__ = ["bindings_finding", "pycuda_finding", "tensorrt_finding"]

_JETPACK_PYTHON = "JetPack 6.1 to 6.2.2: Python 3.10, TensorRT 10.3; JetPack 7.2: Python 3.12, TensorRT 10.16"
_NO_GPU = "Only for a Jetson or an NVIDIA card; this machine shows none."
_OLDEST_TENSORRT = (10, 3)

_BINDINGS = (
    "import cuda.bindings.driver as d; assert d.cuInit(0)[0] == 0, 'cuInit'; print(d.cuDeviceGetCount()[1])"
)
_PYCUDA = "import pycuda.driver as d; d.init(); print(d.Device.count())"


def tensorrt_finding(root: Path, child: Callable[[str], tuple[bool, str]], host: Host) -> Finding:
    """TensorRT's bindings load libraries of the driver and may crash without one: a child imports them."""
    well, answer = child("import tensorrt; print(tensorrt.__version__)")
    if well and _numbers(answer) < _OLDEST_TENSORRT:
        wanted = ".".join(map(str, _OLDEST_TENSORRT))
        advice = f"{wanted} or later is needed: JetPack 6.1 and later have it, 6.0 and 5 do not."
        return Finding("TensorRT", "absent", answer, advice)
    if well:
        return Finding("TensorRT", "ok", answer, "Build plans with `edge-sdk engines build NAME`.")
    elsewhere = sorted(root.glob("usr/lib/python3*/dist-packages/tensorrt"))
    if elsewhere:
        return Finding(
            "TensorRT",
            "absent",
            f"installed for {elsewhere[0].parts[-3]} of the system, not seen by this Python",
            "Make the environment with the system's Python and `--system-site-packages`.",
        )
    if host.jetson:
        advice = (
            f"It comes with JetPack, not from pip ({_JETPACK_PYTHON}): "
            "`sudo apt-get install python3-libnvinfer`, or all of it: `sudo apt-get install nvidia-jetpack`."
        )
    elif not host.gpu:
        advice = _NO_GPU
    elif host.cuda_major == 12:
        advice = "`pip install 'tensorrt-cu12>=10.3'`"
    elif host.cuda_major == 13:
        advice = "`pip install 'tensorrt-cu13>=10.13'`"
    else:
        advice = (
            "`pip install 'tensorrt-cu12>=10.3'` for CUDA 12, `pip install 'tensorrt-cu13>=10.13'` for 13."
        )
    return Finding("TensorRT", "absent", answer, advice)


def pycuda_finding(
    child: Callable[[str], tuple[bool, str]], version_of: Callable[[str], str], host: Host
) -> Finding:
    """Says whether pycuda is here and finds a device."""
    version = version_of("pycuda")
    if not version:
        advice = (
            f"TensorRT needs it: `PATH=/usr/local/cuda/bin:$PATH {hint_for('pycuda')}`"
            if host.gpu
            else _NO_GPU
        )
        return Finding("pycuda", "absent", "not installed", advice)
    return _with_devices("pycuda", version, child(_PYCUDA))


def bindings_finding(
    child: Callable[[str], tuple[bool, str]], version_of: Callable[[str], str], host: Host
) -> Finding:
    """Says whether cuda-bindings is here, fits the CUDA that was found, and finds a device."""
    version = version_of("cuda-bindings")
    if not version:
        advice = f"CUDA graphs need it: `{host.bindings_command()}`" if host.gpu else _NO_GPU
        return Finding("cuda-bindings", "absent", "not installed", advice)
    major = _numbers(version)[0]
    if host.cuda_major is not None and major > host.cuda_major:
        found = f"{version}, made for CUDA {major}; this machine has CUDA {host.driver or host.toolkit}"
        return Finding("cuda-bindings", "fault", found, f"`{host.bindings_command()}`")
    return _with_devices("cuda-bindings", version, child(_BINDINGS))


def _with_devices(name: str, version: str, answered: tuple[bool, str]) -> Finding:
    well, answer = answered
    if well:
        return Finding(name, "ok", f"{version}, {answer} CUDA device(s)")
    return Finding(name, "absent", f"{version}, no CUDA device: {answer}", "Needs an NVIDIA driver and GPU.")


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split(".")[:2]
    return tuple(int(part) for part in parts if part.isdigit()) or (0,)
