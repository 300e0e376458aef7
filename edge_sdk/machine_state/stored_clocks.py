"""What `jetson_clocks --store` wrote, line by line: only clocks that are known may be put back by root."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["sort_lines"]

_NODE = r"[\w@.,+-]+"
_KNOWN = tuple(
    re.compile(f"/sys/{pattern}")
    for pattern in (
        r"devices/system/cpu/cpu\d+/online",
        r"devices/system/cpu/(?:cpu\d+/cpufreq|cpufreq/policy\d+)/scaling_(?:min_freq|max_freq|governor)",
        r"devices/system/cpu/cpu\d+/cpuidle/state\d+/disable",
        rf"(?:devices|class|bus)(?:/{_NODE})*/devfreq/{_NODE}/(?:device/)?(?:min_freq|max_freq|governor)",
        rf"(?:devices|class|bus)(?:/{_NODE})+/(?:railgate_enable|enable_3d_scaling|aelpg_enable|power/control)",
        rf"kernel/debug/(?:bpmp/debug/)?clk/{_NODE}/(?:rate|state|mrq_rate_locked|min_rate|max_rate|clk_rate"
        r"|clk_state)",
        r"kernel/nvpmodel_(?:clk|emc)_cap/\w+",
        rf"(?:devices|class)(?:/{_NODE})*/(?:hwmon\d+/pwm\d+(?:_enable)?|pwm-fan/(?:target_pwm|temp_control))",
    )
)
_VALUE = re.compile(r"[\w.-]{1,64}")


def sort_lines(text: str, root: Path = Path("/")) -> tuple[list[str], list[str]]:
    """Sorts the lines `PATH:VALUE` of a file of clocks; empty ones go.

    Arguments:
        text: the file.
        root: of the tree that its paths lie in.

    Returns: (lines that set a known clock, all others).
    """
    known: list[str] = []
    unknown: list[str] = []
    for line in text.splitlines():
        if line.strip():
            (known if _is_known(line.strip(), root) else unknown).append(line.strip())
    return known, unknown


def _is_known(line: str, root: Path) -> bool:
    path, colon, value = line.rpartition(":")
    if root != Path("/"):
        if not path.startswith(f"{root}/"):
            return False
        path = path[len(str(root)) :]
    steps = path.split("/")
    if not colon or ".." in steps or "." in steps or not _VALUE.fullmatch(value):
        return False
    return any(pattern.fullmatch(path) for pattern in _KNOWN)
