"""Which board this is, and which Jetson Linux and JetPack run on it."""

from __future__ import annotations

import re

from edge_sdk.machine_state.commands import Runner
from edge_sdk.machine_state.state import Board
from edge_sdk.machine_state.tree import Tree

__all__ = ["JETPACKS", "board_of", "jetpack_of"]

JETPACKS: dict[str, str] = {
    "35.1.0": "5.0.2",
    "35.2.1": "5.1",
    "35.3.1": "5.1.1",
    "35.4.1": "5.1.2",
    "35.5.0": "5.1.3",
    "35.6.0": "5.1.4",
    "35.6.1": "5.1.5",
    "35.6.2": "5.1.5",
    "35.6.3": "5.1.5",
    "35.6.4": "5.1.6",
    "36.2.0": "6.0 DP",
    "36.3.0": "6.0",
    "36.4.0": "6.1",
    "36.4.2": "6.1 r1",
    "36.4.3": "6.2",
    "36.4.4": "6.2.1",
    "36.4.7": "6.2.1",
    "36.5.0": "6.2.2",
    "38.2.0": "7.0",
    "38.2.1": "7.0",
    "38.2.2": "7.0",
    "38.4.0": "7.1",
    "39.0.0": "7.2 EA",
    "39.2.0": "7.2",
    "39.2.1": "7.2.1",
}
"""JetPack by Jetson Linux release. Always behind: a release that is not here is shown as it is.

Source: NVIDIA's release notes, as listed by jetson_stats (facts only) on 2026-11-29.
"""

_RELEASE = re.compile(r"R(\d+)\s*\(release\),\s*REVISION:\s*(\d+)\.(\d+)")
_PACKAGE = re.compile(r"(\d+\.\d+\.\d+)(?:-|$)")
_MODULE = re.compile(r"\b(?:p\d{4}-\d{4}\+)?(p\d{4}-\d{4})")
_CHIP = re.compile(r"\b(tegra\d+)\b")


def board_of(tree: Tree, run: Runner) -> Board:
    """Reads what board this is.

    Source: `/proc/device-tree/model` and `compatible` (NUL-separated), `/etc/nv_tegra_release`; without
    that file, the version of the package `nvidia-l4t-core`.
    """
    model = _device_tree(tree, "model")
    compatible = (_device_tree(tree, "compatible") or "").replace("\0", " ")
    release = tree.text("etc/nv_tegra_release", "L4T release") or ""
    module, chip = _MODULE.search(compatible), _CHIP.search(compatible)
    jetson = bool(release or chip or "Jetson" in (model or "") or _tegra_kernel(tree))
    l4t = _l4t(release, run) if jetson else None
    return Board(
        model=model or None,
        module=module[1] if module else None,
        chip=chip[1] if chip else None,
        jetson=jetson,
        l4t=l4t,
        jetpack=jetpack_of(l4t),
        container=_in_container(tree),
    )


def jetpack_of(l4t: str | None) -> str | None:
    """Looks a Jetson Linux release up; None where the table does not know it."""
    return JETPACKS.get(l4t or "")


def _device_tree(tree: Tree, name: str) -> str | None:
    for base in ("proc/device-tree", "sys/firmware/devicetree/base"):
        text = tree.text(f"{base}/{name}")
        if text:
            return text
    return None


def _l4t(release: str, run: Runner) -> str | None:
    if match := _RELEASE.search(release):
        return ".".join(match.groups())
    answer = run(["dpkg-query", "--showformat=${Version}", "--show", "nvidia-l4t-core"])
    if answer.status == 0 and (match := _PACKAGE.match(answer.out.strip())):
        return match[1]
    return None


def _tegra_kernel(tree: Tree) -> bool:
    """Knows a Jetson by its kernel: a container hides the device tree and has no release file.

    Source: Linux drivers/soc/tegra/fuse (soc0/family), drivers/cpufreq/tegra194-cpufreq.c.
    """
    driver = tree.text("sys/devices/system/cpu/cpufreq/policy0/scaling_driver") or ""
    return tree.text("sys/devices/soc0/family") == "Tegra" or driver.startswith("tegra")


def _in_container(tree: Tree) -> bool:
    """Source: Docker leaves `/.dockerenv`, Podman `/run/.containerenv`."""
    return any(tree.text(marker) is not None for marker in (".dockerenv", "run/.containerenv"))
