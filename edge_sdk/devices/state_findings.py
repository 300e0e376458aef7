"""What doctor says of the machine's state, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from edge_sdk.devices.finding import Finding
from edge_sdk.machine_state.changes import mode_text
from edge_sdk.machine_state.clocks import has_shortfall
from edge_sdk.machine_state.heat import Cooling, cooling_kind, hottest_c
from edge_sdk.machine_state.leftover import Leftover
from edge_sdk.machine_state.state import MachineSnapshot
from edge_sdk.report.machine_text import board_text, clock_text, locked_text, release_text

__all__ = ["state_findings"]

_MOUNTS = (
    "In a container on a Jetson, give it the host's files: "
    "`-v /etc/nv_tegra_release:/etc/nv_tegra_release:ro "
    "-v /etc/nvpmodel:/etc/nvpmodel:ro -v /etc/nvpmodel.conf:/etc/nvpmodel.conf:ro "
    "-v /var/lib/nvpmodel:/var/lib/nvpmodel:ro -v /usr/sbin/nvpmodel:/usr/sbin/nvpmodel:ro -v /sys:/sys:ro "
    "--security-opt systempaths=unconfined` (for the board's name)."
)


def state_findings(snapshot: MachineSnapshot, leftover: Leftover | None = None) -> Iterator[Finding]:
    """Lists the state of the machine, worst cases with advice.

    Arguments:
        snapshot: of the machine.
        leftover: what a killed `machine prepare` did not put back.
    """
    if leftover is not None:
        restorable = not (leftover.alive or leftover.problem)
        advice = "Put it back: `sudo edge-sdk machine restore`." if restorable else ""
        yield Finding("Prepared state", "ok" if leftover.alive else "fault", leftover.text, advice)
    yield from _board(snapshot)
    if snapshot.board.jetson:
        yield _mode(snapshot)
    yield from _clocks(snapshot)
    yield from _heat(snapshot)
    yield from _memory(snapshot)
    if snapshot.needs_root:
        what = ", ".join(snapshot.needs_root)
        yield Finding(
            "Root would add", "absent", what, "`sudo edge-sdk doctor`, and sudo for runs that judge it."
        )
    if snapshot.unreadable:
        listed = "; ".join(f"{what}: {why}" for what, why in snapshot.unreadable)
        yield Finding("Unreadable", "absent", listed, "Nothing else depends on these; they are left out.")


def _board(snapshot: MachineSnapshot) -> Iterator[Finding]:
    board = snapshot.board
    if not board.jetson:
        advice = _MOUNTS if board.container else "Not needed off a Jetson."
        where = "no Jetson seen from inside this container" if board.container else board_text(board)
        yield Finding(
            "Board", "absent" if board.container else "ok", where, advice if board.container else ""
        )
        return
    hidden = board.container and board.model is None
    yield Finding("Board", "absent" if hidden else "ok", board_text(board), _MOUNTS if hidden else "")
    if board.l4t is None:
        advice = _MOUNTS if board.container else "Needs /etc/nv_tegra_release or the package nvidia-l4t-core."
        yield Finding("Jetson Linux", "absent", "unknown", advice)
    else:
        advice = "" if board.jetpack else "This version's table does not know it; nothing depends on that."
        yield Finding("Jetson Linux", "ok", release_text(board), advice)


def _mode(snapshot: MachineSnapshot) -> Finding:
    mode = snapshot.power_mode
    names = ", ".join(f"{name} (id {number})" for number, name in mode.modes)
    warned = f"; {'; '.join(mode.warnings)}" if mode.warnings else ""
    if mode.name is None:
        advice = _MOUNTS if snapshot.board.container else "`sudo nvpmodel -q` says more."
        return Finding("Power mode", "absent", f"unknown{warned}", f"{advice} {_choice(names)}".strip())
    found = f"{mode_text(mode)}{warned}"
    if wrong := _foreign_conf(snapshot):
        return Finding("Power mode", "fault", found, wrong)
    if mode.source != "nvpmodel":
        found += ", as last stored: nvpmodel itself was not asked or did not answer"
        return Finding("Power mode", "absent", found, _choice(names))
    return Finding("Power mode", "ok", found, _choice(names))


def _choice(names: str) -> str:
    """Which mode to take is the user's: the figure must say the one that will be in the field."""
    if not names:
        return ""
    return (
        "Measure in the mode of the field: `sudo nvpmodel -m ID`, or `edge-sdk machine prepare --mode NAME`. "
        f"Here: {names}."
    )


def _foreign_conf(snapshot: MachineSnapshot) -> str:
    """Notices the configuration of another module, whose ids mean other modes."""
    family = re.search(r"p\d{4}", snapshot.power_mode.conf or "")
    module = re.search(r"p\d{4}", snapshot.board.module or "")
    if family is None or module is None or family[0] == module[0]:
        return ""
    return (
        f"The modes are of {family[0]}, this module is {module[0]}: link /etc/nvpmodel.conf to the file of "
        "this module under /etc/nvpmodel/ and reboot."
    )


def _clocks(snapshot: MachineSnapshot) -> Iterator[Finding]:
    domains, jetson = snapshot.clocks.domains, snapshot.board.jetson
    for domain in domains:
        if domain.kind != "emc" or domain.min_hz is not None or domain.cap_hz:
            slow = has_shortfall(domain)
            advice = "It runs slower than asked: see heat and over-current below." if slow else ""
            yield Finding(f"Clock {domain.name}", "fault" if slow else "ok", clock_text(domain), advice)
    if jetson and not any(domain.kind == "gpu" for domain in domains):
        advice = "It may appear late after boot: try again. In a container, mount /sys."
        yield Finding("Clock gpu", "absent", "no devfreq of the GPU", advice)
    if not domains:
        yield Finding("Clocks", "absent", "this machine shows none", "Figures may move with clocks unseen.")
        return
    locked = snapshot.locked
    advice = ""
    if locked is not True:
        advice = (
            "For figures that repeat: `sudo jetson_clocks`, after any nvpmodel, which undoes it."
            if jetson
            else "For figures that repeat: `cpupower frequency-set -g performance`, where there is one."
        )
    yield Finding("Clock lock", "ok" if locked is not None else "absent", locked_text(locked), advice)


def _heat(snapshot: MachineSnapshot) -> Iterator[Finding]:
    known = [zone for zone in snapshot.zones if zone.temp_c is not None]
    others = [f"{zone.name} {zone.state}" for zone in snapshot.zones if zone.temp_c is None]
    if snapshot.zones:
        listed = ", ".join([*(f"{zone.name} {zone.temp_c:.1f} °C" for zone in known), *others])
        limits = [zone.passive_c for zone in known if zone.passive_c is not None]
        hottest = hottest_c(snapshot.zones)
        hot = bool(limits and hottest is not None and hottest >= min(limits))
        advice = f"Clocks are held back from {min(limits):.0f} °C on: cool it first." if hot else ""
        yield Finding("Temperature", "fault" if hot else "ok", listed, advice)
    else:
        yield Finding("Temperature", "absent", "no thermal zone", "In a container, mount /sys.")
    slow = [
        f"{device.name} at {device.state}"
        for device in snapshot.cooling
        if (device.state or 0) > 0 and cooling_kind(device) is Cooling.SLOWS
    ]
    if slow:
        yield Finding("Throttling", "fault", ", ".join(slow), "Runs made now are INVALID: cool it first.")
    elif any(cooling_kind(device) is Cooling.SLOWS for device in snapshot.cooling):
        yield Finding("Throttling", "ok", "no cooling device holds a clock back")
    if snapshot.counters:
        counts = ", ".join(
            f"{counter.name} {'unreadable' if counter.count is None else counter.count}"
            for counter in snapshot.counters
        )
        yield Finding("Throttle counters", "ok", f"{counts} since boot", "Only a rise during a run counts.")
    elif snapshot.board.jetson:
        advice = "Over-current cannot be seen: `machine: {throttled: false}` will be INVALID."
        yield Finding("Throttle counters", "absent", "none", advice)
    for fan in snapshot.fans:
        drive = "" if fan.pwm is None else f"drive {fan.pwm} of 255"
        speed = "" if fan.rpm is None else f"{fan.rpm} turns a minute"
        yield Finding(
            f"Fan {fan.name}", "ok", ", ".join(part for part in (drive, speed) if part) or "no value"
        )


def _memory(snapshot: MachineSnapshot) -> Iterator[Finding]:
    memory = snapshot.memory
    if memory.total_kb is None or memory.available_kb is None:
        yield Finding("Memory", "absent", "cannot be read", "Needs /proc/meminfo.")
        return
    total, available = (kb * 1024 / 1e9 for kb in (memory.total_kb, memory.available_kb))
    swapped = f", {memory.swap_used_kb * 1024 / 1e9:.1f} GB swapped out" if memory.swap_used_kb else ""
    yield Finding("Memory", "ok", f"{available:.1f} of {total:.1f} GB available{swapped}")
