"""Clocks: CPU clusters, GPU and memory, whether they are held, and what the hardware really does."""

from __future__ import annotations

import re
from collections.abc import Iterator

from edge_sdk.machine_state.commands import Runner
from edge_sdk.machine_state.state import Board, ClockDomain, Clocks
from edge_sdk.machine_state.tree import Tree

__all__ = ["clocks_of", "cpu_domains", "gpu_domain", "has_shortfall", "parse_jetson_clocks"]

_GPU_NODES = ("gpu", "ga10b", "gv11b", "gp10b", "gpu-gpc-0")
"""Names of the GPU's device-tree node, by release and chip. Source: L4T 32 to 38; Thor: gpu-gpc-0."""

_EMC_DEBUG = "sys/kernel/debug/bpmp/debug/clk/emc"
_EMC_CAPS = ("sys/kernel/nvpmodel_clk_cap/emc", "sys/kernel/nvpmodel_emc_cap/emc_iso_cap")
_LASTING_SHARE = 0.9
"""A measured clock under this share of its request is short; measured clocks scatter by a few per cent."""

_SHOWN_EMC = re.compile(
    r"^EMC\s+MinFreq=(\d+)\s+MaxFreq=(\d+)\s+CurrentFreq=(\d+)\s+FreqOverride=(\d)", re.MULTILINE
)


def clocks_of(tree: Tree, run: Runner, board: Board) -> Clocks:
    """Reads every clock. The EMC clock of a Jetson needs root; its cap does not."""
    domains = list(cpu_domains(tree))
    gpu = gpu_domain(tree)
    if gpu is not None:
        domains.append(gpu)
    if board.jetson:
        domains.append(_emc_domain(tree, run))
    online = tree.text("sys/devices/system/cpu/online")
    return Clocks(tuple(domains), _deep_idle(tree, online), online)


def cpu_domains(tree: Tree) -> Iterator[ClockDomain]:
    """Reads each CPU cluster.

    `scaling_cur_freq` is what is asked for; `cpuinfo_cur_freq`, which only root may read, what the
    hardware does. The two are compared only where the request stood still meanwhile.

    Source: Linux, Documentation/admin-guide/pm/cpufreq.rst.
    """
    for folder in tree.folders("sys/devices/system/cpu/cpufreq/policy*"):
        cpus = tree.text(folder / "affected_cpus") or folder.name.removeprefix("policy")
        name = f"cpu{_ranges(cpus)}"
        # Only the Tegra driver measures; others give the last request again, or an average over idle time.
        measures = (tree.text(folder / "scaling_driver") or "").startswith("tegra")
        request = tree.number(folder / "scaling_cur_freq", f"clock of {name}")
        actual = tree.number(folder / "cpuinfo_cur_freq", f"measured clock of {name}") if measures else None
        if tree.number(folder / "scaling_cur_freq") != request:
            actual = None
        yield ClockDomain(
            name,
            "cpu",
            tree.text(folder / "scaling_governor"),
            min_hz=_hz(tree.number(folder / "scaling_min_freq")),
            max_hz=_hz(tree.number(folder / "scaling_max_freq")),
            request_hz=_hz(request),
            actual_hz=_hz(actual),
            lowest_hz=_hz(tree.number(folder / "cpuinfo_min_freq")),
            highest_hz=_hz(tree.number(folder / "cpuinfo_max_freq")),
        )


def gpu_domain(tree: Tree) -> ClockDomain | None:
    """Finds the GPU's devfreq by the name of its device-tree node; None where it has not appeared."""
    for folder in tree.folders("sys/class/devfreq/*"):
        node = tree.text(folder / "device/of_node/name") or folder.name.partition(".")[2] or folder.name
        if node not in _GPU_NODES:
            continue
        known = [
            number
            for number in map(_int, (tree.text(folder / "available_frequencies") or "").split())
            if number is not None
        ]
        current = tree.number(folder / "cur_freq", "GPU clock")
        return ClockDomain(
            "gpu",
            "gpu",
            tree.text(folder / "governor"),
            min_hz=tree.number(folder / "min_freq", "GPU clock limits"),
            max_hz=tree.number(folder / "max_freq", "GPU clock limits"),
            actual_hz=current or None,  # 0 while the GPU's power is off
            lowest_hz=min(known, default=None),
            highest_hz=max(known, default=None),
        )
    return None


def has_shortfall(domain: ClockDomain) -> bool:
    """Says whether the hardware runs clearly slower than it was asked to."""
    asked = domain.request_hz if domain.kind == "cpu" else domain.min_hz
    return bool(asked and domain.actual_hz and domain.actual_hz < _LASTING_SHARE * asked)


def parse_jetson_clocks(shown: str) -> ClockDomain | None:
    """Reads the EMC line of `jetson_clocks --show`."""
    found = _SHOWN_EMC.search(shown)
    if found is None:
        return None
    low, high, current, override = (int(part) for part in found.groups())
    return ClockDomain("emc", "emc", min_hz=low, max_hz=high, actual_hz=current, override=bool(override))


def _emc_domain(tree: Tree, run: Runner) -> ClockDomain:
    """Source: jetson_clocks of L4T 35 and 36 reads and writes these files of debugfs."""
    cap = next((value for path in _EMC_CAPS if (value := tree.number(path))), None)
    rate, why = tree.attempt(f"{_EMC_DEBUG}/rate")
    held = tree.number(f"{_EMC_DEBUG}/mrq_rate_locked")
    if rate is not None and held is not None:
        return ClockDomain(
            "emc",
            "emc",
            min_hz=tree.number(f"{_EMC_DEBUG}/min_rate"),
            max_hz=tree.number(f"{_EMC_DEBUG}/max_rate"),
            actual_hz=_int(rate),
            cap_hz=cap,
            override=held == 1,
        )
    shown = parse_jetson_clocks(run(["jetson_clocks", "--show"]).out)
    if shown is not None:
        return shown
    # debugfs as a whole is closed to others, so what is absent there may well exist.
    if why in ("root only", "absent"):
        tree.needs_root["EMC clock and whether it is held"] = None
    return ClockDomain("emc", "emc", cap_hz=cap)


def _deep_idle(tree: Tree, online: str | None) -> bool | None:
    """Says whether an online CPU may use an idle state deeper than the first.

    CPUs that the power mode switched off keep their old settings, which mean nothing.

    Source: Linux, Documentation/admin-guide/pm/cpuidle.rst; state0 is WFI on Arm, POLL on x86.
    """
    seen = [
        tree.number(folder / "disable")
        for folder in tree.folders("sys/devices/system/cpu/cpu[0-9]*/cpuidle/state[1-9]*")
        if online is None or int(folder.parts[4].removeprefix("cpu")) in _numbers(online)
    ]
    known = [value for value in seen if value is not None]
    if not known:
        return None
    return any(value == 0 for value in known)


def _numbers(ranges: str) -> set[int]:
    """Reads "0-3,6" as the numbers it stands for."""
    numbers: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", ranges):
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def _ranges(cpus: str) -> str:
    """Writes "0 1 2 3" as "0-3"."""
    numbers = sorted({int(part) for part in re.findall(r"\d+", cpus)})
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def _hz(khz: int | None) -> int | None:
    return None if khz is None else khz * 1000


def _int(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d+", text) else None
