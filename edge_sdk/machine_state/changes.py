"""What happened to the machine during a run: two snapshots and the watch between, compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from edge_sdk.machine_state.clocks import has_shortfall
from edge_sdk.machine_state.heat import Cooling, cooling_kind
from edge_sdk.machine_state.state import (
    ClockDomain,
    CoolingDevice,
    MachineSnapshot,
    PowerMode,
    RunState,
    same_mode,
)

__all__ = ["NOTE", "THROTTLED", "StateFinding", "changes", "mode_text", "sees_throttling"]

THROTTLED = "throttled"
MODE = "power mode changed"
UNLOCKED = "clock lock lost"
LIMITS = "clock limits moved"
NOTE = "note"

_OC_MEANS = {
    "oc1": "under-voltage",
    "oc2": "average over-current",
    "oc3": "instantaneous over-current",
    "cpu thermal": "CPU too hot",
}
_MHZ = 1_000_000


@dataclass(frozen=True)
class StateFinding:
    """One thing that happened.

    Attributes:
        kind: "throttled", "power mode changed", "clock lock lost", "clock limits moved" or "note".
        text: a sentence with figures.
    """

    kind: str
    text: str

    @property
    def spoils(self) -> bool:
        """Whether times and energies of the run stand for nothing."""
        return self.kind != NOTE


def changes(state: RunState) -> tuple[StateFinding, ...]:
    """Finds everything that happened between two snapshots, the worst first."""
    found = [
        *_cooling(state),
        *_counters(state),
        *_shortfalls(state),
        *_mode(state.before.power_mode, state.after.power_mode),
        *_clocks(state.before, state.after),
        *_heat(state),
    ]
    return tuple(sorted(found, key=lambda finding: not finding.spoils))


def sees_throttling(state: RunState) -> str:
    """Says why throttling could not have been noticed, or "" where it could.

    A Jetson shows heat by its cooling devices and over-current by its counters: both must be readable
    before and after. Other machines show heat by either of their two.
    """
    for snapshot in (state.before, state.after):
        cooling = any(
            device.state is not None and cooling_kind(device) is Cooling.SLOWS for device in snapshot.cooling
        )
        readable = {counter.name for counter in snapshot.counters if counter.count is not None}
        if snapshot.board.jetson:
            missing = [] if cooling else ["cooling devices"]
            missing += [] if {"oc1", "oc2"} <= readable else ["over-current counters"]
            if missing:
                return f"{' and '.join(missing)} cannot be read here"
        elif not cooling and not readable:
            return "this machine shows neither cooling devices nor throttle counters"
    return ""


def _cooling(state: RunState) -> Iterator[StateFinding]:
    peaks: dict[str, CoolingDevice] = {}
    for device in (*state.before.cooling, *state.watch.cooling_peak, *state.after.cooling):
        if (device.state or 0) > (peaks[device.name].state or 0 if device.name in peaks else 0):
            peaks[device.name] = device
    for device in peaks.values():
        level = f"{device.state}" + (f" of {device.max_state}" if device.max_state else "")
        kind = cooling_kind(device)
        if kind is Cooling.SLOWS:
            yield StateFinding(THROTTLED, f"throttled by heat: cooling device {device.name} at {level}.")
        elif kind is Cooling.OTHER:
            text = f"cooling device {device.name} at {level}; what it does is not known here."
            yield StateFinding(NOTE, text)


def _counters(state: RunState) -> Iterator[StateFinding]:
    before = {counter.name: counter.count for counter in state.before.counters}
    elapsed_s = (state.after.at_ns - state.before.at_ns) / 1e9
    for counter in state.after.counters:
        was = before.get(counter.name)
        if counter.count is None or was is None:
            continue
        name = counter.name.upper() if counter.name.startswith("oc") else counter.name
        what = f"{name} ({_OC_MEANS.get(counter.name, 'unknown')})"
        rise = counter.count - was
        if rise < 0:
            yield StateFinding(NOTE, f"counter {what} fell from {was} to {counter.count}: it was reset.")
        elif rise and counter.name == "oc3":
            rate = f", {rise / elapsed_s:.2g} a second" if elapsed_s > 0 else ""
            text = f"{what} rose by {rise}{rate}; noted, not judged."
            yield StateFinding(NOTE, text)
        elif rise:
            yield StateFinding(THROTTLED, f"throttled: {what} rose by {rise} during the run.")


def _shortfalls(state: RunState) -> Iterator[StateFinding]:
    worst: dict[str, ClockDomain] = {}
    ends = filter(has_shortfall, (*state.before.clocks.domains, *state.after.clocks.domains))
    for domain in (*ends, *state.watch.shortfalls):
        known = worst.get(domain.name)
        if known is None or (domain.actual_hz or 0) < (known.actual_hz or 0):
            worst[domain.name] = domain
    for domain in worst.values():
        asked = domain.request_hz if domain.kind == "cpu" else domain.min_hz
        text = f"throttled: {domain.name} ran at {_mhz(domain.actual_hz)}, asked for {_mhz(asked)}."
        yield StateFinding(THROTTLED, text)


def _mode(before: PowerMode, after: PowerMode) -> Iterator[StateFinding]:
    if before.name is not None and after.name is not None:
        renamed = not same_mode(before.name, after.name)
        renumbered = None not in (before.id, after.id) and before.id != after.id
        if renamed or renumbered or before.conf != after.conf:
            yield StateFinding(
                MODE,
                f"the power mode changed during the run, from {mode_text(before)} to {mode_text(after)}.",
            )
    elif before.name != after.name:
        known = before if before.name is not None else after
        when = "after" if before.name is not None else "before"
        yield StateFinding(NOTE, f"power mode {mode_text(known)}, but it could not be read {when} the run.")


def _clocks(before: MachineSnapshot, after: MachineSnapshot) -> Iterator[StateFinding]:
    now = {domain.name: domain for domain in after.clocks.domains}
    for domain in before.clocks.domains:
        later = now.get(domain.name)
        if later is None:
            yield StateFinding(NOTE, f"clock {domain.name} was not there any more after the run.")
        elif domain.pinned and later.pinned is False:
            yield StateFinding(UNLOCKED, f"the clock lock of {domain.name} was lost during the run.")
        elif moved := _moved(domain, later):
            yield StateFinding(LIMITS, f"clock {domain.name} was changed during the run: {moved}.")
    if before.clocks.deep_idle is False and after.clocks.deep_idle:
        yield StateFinding(UNLOCKED, "deep idle states of the CPU were enabled again during the run.")
    was, now_online = before.clocks.cpus_online, after.clocks.cpus_online
    if was is not None and now_online is not None and was != now_online:
        yield StateFinding(LIMITS, f"the CPUs online changed during the run, from {was} to {now_online}.")


def _moved(before: ClockDomain, after: ClockDomain) -> str:
    parts: list[tuple[str, int | str | None, int | str | None, Callable[[int | str | None], str]]] = [
        ("lower limit", before.min_hz, after.min_hz, _mhz),
        ("upper limit", before.max_hz, after.max_hz, _mhz),
        ("cap", before.cap_hz, after.cap_hz, _mhz),
        ("governor", before.governor, after.governor, str),
        ("lock", before.override, after.override, str),
    ]
    return ", ".join(
        f"{what} from {write(was)} to {write(now)}"
        for what, was, now, write in parts
        if None not in (was, now) and was != now
    )


def _heat(state: RunState) -> Iterator[StateFinding]:
    trips = [zone.passive_c for zone in state.before.zones if zone.passive_c is not None]
    temps = [
        *(zone.temp_c for zone in (*state.before.zones, *state.after.zones) if zone.temp_c is not None),
        *(temp_c for temp_c in state.watch.hottest_c if temp_c is not None),
    ]
    if trips and temps and max(temps) >= min(trips):
        text = f"hottest zone {max(temps):.1f} °C; clocks are held back from {min(trips):.1f} °C on."
        yield StateFinding(NOTE, text)


def mode_text(mode: PowerMode) -> str:
    """Writes a mode with its id and file: `30W (id 2, nvpmodel_p3701_0000.conf)`."""
    extra = [f"id {mode.id}" if mode.id is not None else "", mode.conf or ""]
    listed = ", ".join(part for part in extra if part)
    return f"{mode.name or 'unknown'}" + (f" ({listed})" if listed else "")


def _mhz(hz: int | str | None) -> str:
    return "unknown" if hz is None else f"{int(hz) / _MHZ:.0f} MHz"
