"""How much of this machine's CPU a graph may use."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["usable_cores"]


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


def _container_limit(cgroup: Path) -> float:
    quota, _, period = _text(cgroup / "cpu.max").partition(" ")
    if not quota:
        quota, period = _text(cgroup / "cpu/cpu.cfs_quota_us"), _text(cgroup / "cpu/cpu.cfs_period_us")
    if quota.isdigit() and period.isdigit() and int(period) > 0:
        return max(1.0, int(quota) / int(period))
    return 0.0


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace").strip("\0\n ")
    except OSError:
        return ""
