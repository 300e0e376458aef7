"""Memory of the machine and of this process."""

from __future__ import annotations

import re

from edge_sdk.machine_state.state import Memory
from edge_sdk.machine_state.tree import Tree

__all__ = ["memory_of"]


def memory_of(tree: Tree) -> Memory:
    """Reads memory.

    Source: Linux, Documentation/filesystems/proc.rst: `/proc/meminfo`, `/proc/self/status` (VmRSS, VmHWM).
    """
    machine = _figures(tree.text("proc/meminfo", "meminfo"))
    process = _figures(tree.text("proc/self/status"))
    swap = [machine.get(key) for key in ("SwapTotal", "SwapFree")]
    return Memory(
        total_kb=machine.get("MemTotal"),
        available_kb=machine.get("MemAvailable"),
        swap_used_kb=None if swap[0] is None or swap[1] is None else swap[0] - swap[1],
        rss_kb=process.get("VmRSS"),
        peak_rss_kb=process.get("VmHWM"),
    )


def _figures(text: str | None) -> dict[str, int]:
    return {key: int(kb) for key, kb in re.findall(r"^(\w+):\s+(\d+) kB", text or "", re.MULTILINE)}
