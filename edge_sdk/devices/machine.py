"""What this machine is, for records: no host name, user name, address or path."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from pathlib import Path

from edge_sdk.requirements import DISTRIBUTION

__all__ = ["board_model", "installed_version", "is_jetson", "machine_facts", "usable_cores"]

_RECORDED_PACKAGES = (
    DISTRIBUTION,
    "numpy",
    "onnxruntime",
    "onnxruntime-gpu",
    "opencv-python",
    "opencv-python-headless",
    "tensorrt",
    "pycuda",
)


def machine_facts(root: Path = Path("/")) -> dict[str, str | int]:
    """Collects what a record must say of the machine it was made on.

    Arguments:
        root: of the file system, so that another machine's tree can be described.

    Returns: `system, kernel, architecture, cpu_model, cpu_cores_usable, python`, where known `board` and
        `gpu`, and the version of each package that matters here.
    """
    facts: dict[str, str | int] = {
        "system": platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpu_model": _cpu_model(root),
        "cpu_cores_usable": usable_cores(root),
        "python": platform.python_version(),
    }
    board, gpu = board_model(root), ", ".join(_gpu_models(root))
    facts.update({key: value for key, value in (("board", board), ("gpu", gpu)) if value})
    for package in _RECORDED_PACKAGES:
        version = installed_version(package)
        if version:
            facts[package] = version
    return facts


def installed_version(distribution: str) -> str:
    """Returns the version of an installed distribution, or ""."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def board_model(root: Path = Path("/")) -> str:
    """Returns the board's model as its device tree has it, or "".

    Source: Linux, /proc/device-tree/model: "NVIDIA Jetson Orin Nano Developer Kit" and the like.
    """
    return _text(root / "proc/device-tree/model")


def is_jetson(root: Path = Path("/")) -> bool:
    """Says whether this is an NVIDIA Jetson.

    Source: L4T writes `/etc/nv_tegra_release`; containers without it still see the device tree.
    """
    return (root / "etc/nv_tegra_release").exists() or "Jetson" in board_model(root)


def usable_cores(root: Path = Path("/")) -> int:
    """Counts the physical cores this process may use: affinity, hyper-threads and container limit honoured.

    Source: sysfs cpu/cpu*/topology/thread_siblings_list; cgroup v2 cpu.max (quota and period in
    microseconds), cgroup v1 cpu.cfs_quota_us and cpu.cfs_period_us.
    """
    if hasattr(os, "sched_getaffinity"):
        logical = sorted(os.sched_getaffinity(0))
    else:
        logical = list(range(os.cpu_count() or 1))
    siblings = [
        _text(root / f"sys/devices/system/cpu/cpu{index}/topology/thread_siblings_list") or str(index)
        for index in logical
    ]
    cores = len(set(siblings))
    limit = _container_limit(root / "sys/fs/cgroup")
    return max(1, min(cores, int(limit)) if limit else cores)


def _cpu_model(root: Path) -> str:
    """The CPU's name as the kernel gives it; its architecture where it gives none, as on most Arm boards."""
    match = re.search(r"^(?:model name|Model)\s*:\s*(\S.*)$", _text(root / "proc/cpuinfo"), re.MULTILINE)
    return match[1].strip() if match else platform.processor() or platform.machine()


def _gpu_models(root: Path) -> list[str]:
    """Discrete NVIDIA GPUs as their driver names them; loads no vendor library."""
    models = []
    for path in sorted((root / "proc/driver/nvidia/gpus").glob("*/information")):
        match = re.search(r"^Model:\s*(\S.*)$", _text(path), re.MULTILINE)
        if match:
            models.append(match[1].strip())
    return models


def _container_limit(cgroup: Path) -> float:
    """Cores that the container may use, 0.0 for no limit."""
    quota, _, period = _text(cgroup / "cpu.max").partition(" ")
    if not quota:
        quota, period = _text(cgroup / "cpu/cpu.cfs_quota_us"), _text(cgroup / "cpu/cpu.cfs_period_us")
    if quota.isdigit() and period.isdigit() and int(period) > 0:
        return max(1.0, int(quota) / int(period))
    return 0.0


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", errors="replace").strip("\0\n ")
    except OSError:
        return ""
