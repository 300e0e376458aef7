"""Heat and what is done about it: thermal zones, cooling devices, throttle counters, fans."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

from edge_sdk.machine_state.state import CoolingDevice, Fan, ThermalZone, ThrottleCounter
from edge_sdk.machine_state.tree import OFFLINE, Tree

__all__ = ["Cooling", "cooling_devices", "cooling_kind", "counters", "fans", "hottest_c", "zones"]

_SENSIBLE_C = (-100.0, 200.0)
"""Outside of it a value stands for "no reading": -256 C is Tegra's for a sensor whose power is off."""

_OC_FOLDERS = "sys/devices/platform/soctherm-oc-event/hwmon/hwmon*"
_OC_DRIVER = "soctherm_oc"
_FAN_DRIVERS = ("pwmfan", "pwm_tach", "pwm-fan")


class Cooling(str, Enum):
    """What a cooling device above rest tells.

    Attributes:
        SLOWS: the chip runs slower than it was asked to.
        FAN: a fan turns: nothing.
        OTHER: not known here.
    """

    SLOWS = "slows"
    FAN = "fan"
    OTHER = "other"


_SLOWING = re.compile(r"cpufreq|devfreq|throttle|balanced|^processor$|powerclamp", re.IGNORECASE)
"""Types of cooling devices that hold a clock back.

Source: Linux drivers/thermal (cpufreq, devfreq, intel_powerclamp), ACPI "Processor"; L4T's
"*-throttle-alert" and "*-balanced".
"""

_STILL = re.compile(r"fan|^TCC Offset$|^LCD$|iwlwifi", re.IGNORECASE)
"""Types whose state says nothing of the chip's speed, or is a setting."""


def zones(tree: Tree, trips: bool = True) -> Iterator[ThermalZone]:
    """Reads each thermal zone; a zone that is powered down is offline, and none stops the others.

    Arguments:
        trips: read where the kernel starts to slow the chip down, too.

    Source: Linux, Documentation/driver-api/thermal/sysfs-api.rst; values in thousandths of a degree.
    """
    for folder in tree.folders("sys/class/thermal/thermal_zone*"):
        name = tree.text(folder / "type")
        if name is None:
            continue
        text, why = tree.attempt(folder / "temp", f"thermal zone {name}")
        yield _zone(name, text, why, _passive_c(tree, str(folder)) if trips else None)


def _zone(name: str, text: str | None, why: str, passive_c: float | None) -> ThermalZone:
    if text is None:
        return ThermalZone(name, None, why, passive_c)
    if not re.fullmatch(r"[-+]?\d+", text):
        return ThermalZone(name, None, f"no number: {text[:40]!r}", passive_c)
    temp_c = int(text) / 1000
    if not _SENSIBLE_C[0] < temp_c < _SENSIBLE_C[1]:
        return ThermalZone(name, None, OFFLINE, passive_c)
    return ThermalZone(name, temp_c, "ok", passive_c)


def hottest_c(found: tuple[ThermalZone, ...]) -> float | None:
    """Picks the highest temperature."""
    return max((zone.temp_c for zone in found if zone.temp_c is not None), default=None)


def cooling_devices(tree: Tree) -> Iterator[CoolingDevice]:
    """Reads each cooling device.

    Source: as for `zones`; `cur_state` 0 is at rest, -1 is "not in use".
    """
    for folder in tree.folders("sys/class/thermal/cooling_device*"):
        name = tree.text(folder / "type")
        if name is not None:
            state = tree.number(folder / "cur_state", f"cooling device {name}")
            yield CoolingDevice(name, state, tree.number(folder / "max_state"))


def cooling_kind(device: CoolingDevice) -> Cooling:
    """Says what the device tells when it is above rest."""
    if _STILL.search(device.name):
        return Cooling.FAN
    return Cooling.SLOWS if _SLOWING.search(device.name) else Cooling.OTHER


def counters(tree: Tree) -> tuple[ThrottleCounter, ...]:
    """Reads what counts throttling since boot.

    Source: L4T's driver tegra234-oc-event (`ocN_event_cnt`, `ocN_throt_en`); Linux
    drivers/thermal/intel/therm_throt.c.
    """
    return (*_over_current(tree), *_thermal_throttle(tree))


def fans(tree: Tree) -> Iterator[Fan]:
    """Reads each fan's drive and speed. Source: hwmon drivers pwm-fan, and L4T's pwm_tach."""
    for folder, name in tree.hwmon():
        rpm = tree.number(folder / "rpm")
        rpm = tree.number(folder / "fan1_input") if rpm is None else rpm
        pwm = tree.number(folder / "pwm1")
        if rpm is not None or pwm is not None or name in _FAN_DRIVERS:
            yield Fan(name, pwm, rpm)


def _over_current(tree: Tree) -> Iterator[ThrottleCounter]:
    folders = [folder for folder, _ in tree.hwmon(_OC_DRIVER)] or list(tree.folders(_OC_FOLDERS))
    for folder in folders[:1]:
        for number in (1, 2, 3):
            what = f"over-current counter oc{number}"
            count, why = tree.attempt(folder / f"oc{number}_event_cnt", what)
            slows = tree.number(folder / f"oc{number}_throt_en")
            if count is not None or why != "absent":
                value = int(count) if count is not None and count.isdigit() else None
                yield ThrottleCounter(f"oc{number}", value, None if slows is None else slows != 0)


def _thermal_throttle(tree: Tree) -> Iterator[ThrottleCounter]:
    """Sums the packages' counters: each CPU shows its package's."""
    by_package: dict[str, int] = {}
    for folder in tree.folders("sys/devices/system/cpu/cpu[0-9]*/thermal_throttle"):
        count = tree.number(folder / "package_throttle_count")
        if count is not None:
            package = tree.text(folder.parent / "topology/physical_package_id") or "0"
            by_package[package] = max(count, by_package.get(package, 0))
    if by_package:
        yield ThrottleCounter("cpu thermal", sum(by_package.values()), True)


def _passive_c(tree: Tree, folder: str) -> float | None:
    """The lowest passive trip point: there the kernel starts to hold clocks back."""
    found = []
    for path in tree.folders(f"{folder}/trip_point_*_type"):
        if tree.text(path) == "passive":
            temp = tree.number(path.with_name(path.name.replace("_type", "_temp")))
            if temp is not None and temp > 0:
                found.append(temp / 1000)
    return min(found, default=None)
