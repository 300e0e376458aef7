"""File trees of other machines as far as their power is concerned, and an opener that fails as hardware does.

Values follow the driver: millivolts, milliamperes, microvolts over the shunt; NUL-ended device tree texts.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edge_sdk.meter.files import read_file

Channel = tuple[str | None, int, int]  # label (None: file missing), millivolts, milliamperes


@dataclass
class FailingOpener:
    """Reads files, but fails where told: by name of file or by end of path."""

    faults: Mapping[str, int] = field(default_factory=dict)
    contents: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, path: Path) -> bytes:
        for end, number in self.faults.items():
            if str(path).endswith(end):
                raise OSError(number, os.strerror(number), str(path))
        for end, text in self.contents.items():
            if str(path).endswith(end):
                return text.encode()
        return read_file(path)


def put(root: Path, path: str, content: str | int) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{content}\n" if not str(content).endswith("\0") else str(content))


def identity(root: Path, model: str, compatible: str) -> None:
    put(root, "proc/device-tree/model", f"{model}\0")
    put(root, "proc/device-tree/compatible", "".join(f"{part}\0" for part in compatible.split()))


def hwmon(
    root: Path,
    number: int,
    address: str,
    channels: list[Channel],
    *,
    bus: str = "sys/devices/platform/bus@0/c240000.i2c/i2c-1",
    shunt_uohm: int = 5000,
    samples: int = 512,
    update_interval: int = 430,
    summed: bool = True,
    name: str = "ina3221",
) -> Path:
    """Writes one chip where the kernel puts it, with the links that lead there."""
    folder = root / bus / address / "hwmon" / f"hwmon{number}"
    where = str(folder.relative_to(root))
    put(root, f"{where}/name", name)
    for n, (label, millivolts, milliamperes) in enumerate(channels, 1):
        if label is not None:
            put(root, f"{where}/in{n}_label", label)
        put(root, f"{where}/in{n}_input", millivolts)
        put(root, f"{where}/in{n}_enable", 1)
        put(root, f"{where}/curr{n}_input", milliamperes)
        put(root, f"{where}/in{n + 3}_input", milliamperes * shunt_uohm // 1000)
        put(root, f"{where}/shunt{n}_resistor", shunt_uohm)
    if summed:
        put(root, f"{where}/in7_label", "sum of shunt voltages")
        put(root, f"{where}/in7_input", 12345)
        put(root, f"{where}/curr4_input", 9999)
    put(root, f"{where}/samples", samples)
    put(root, f"{where}/update_interval", update_interval)
    for link in (f"sys/class/hwmon/hwmon{number}", f"sys/bus/i2c/drivers/{name}/{address}"):
        path = root / link
        path.parent.mkdir(parents=True, exist_ok=True)
        target = folder if "hwmon/" in link else folder.parents[1]
        path.symlink_to(os.path.relpath(target, path.parent))
    return folder


def agx_orin(root: Path, jetpack: int = 6, *, numbers: tuple[int, int] = (3, 4)) -> Path:
    identity(
        root,
        "NVIDIA Jetson AGX Orin Developer Kit",
        "nvidia,p3737-0000+p3701-0005 nvidia,p3701-0005 nvidia,tegra234",
    )
    interval = {5: 430, 6: 1, 7: 1}[jetpack]
    hwmon(
        root, numbers[0], "1-0040",
        [("VDD_GPU_SOC", 19992, 400), ("VDD_CPU_CV", 19992, 120), ("VIN_SYS_5V0", 5008, 640)],
        shunt_uohm=2000, update_interval=interval, summed=jetpack != 5,
    )  # fmt: skip
    second: list[Channel] = [("NC", 0, 0), ("VDDQ_VDD2_1V8AO", 5008, 200), ("NC", 0, 0)]
    if jetpack != 5:
        second = [(None, 0, 0), ("VDDQ_VDD2_1V8AO", 5008, 200), (None, 0, 0)]
    hwmon(root, numbers[1], "1-0041", second, shunt_uohm=2000, update_interval=interval)
    put(root, "sys/class/power_supply/ucsi-source-psy-1-00081/voltage_now", 5000000)
    put(root, "sys/class/power_supply/ucsi-source-psy-1-00081/current_now", 3000000)
    put(root, "sys/class/hwmon/hwmon0/name", "ucsi_source_psy_1_00081")
    put(root, "sys/class/hwmon/hwmon0/in1_input", 5000)
    put(root, "sys/class/hwmon/hwmon0/curr1_input", 3000)
    return root


NX_RAILS: list[Channel] = [("VDD_IN", 5008, 1200), ("VDD_CPU_GPU_CV", 5008, 480), ("VDD_SOC", 5008, 240)]


def orin_nx(root: Path, number: int = 1) -> Path:
    identity(
        root,
        "NVIDIA Jetson Orin NX Engineering Reference Developer Kit",
        "nvidia,p3768-0000+p3767-0000 nvidia,p3767-0000 nvidia,tegra234",
    )
    hwmon(root, number, "1-0040", NX_RAILS, update_interval=1)
    return root


def orin_nano(root: Path, number: int = 1) -> Path:
    identity(
        root,
        "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super",
        "nvidia,p3768-0000+p3767-0005-super nvidia,p3767-0005 nvidia,tegra234",
    )
    hwmon(root, number, "1-0040", NX_RAILS, update_interval=1)
    return root


def xavier_nx(root: Path) -> Path:
    identity(
        root,
        "NVIDIA Jetson Xavier NX Developer Kit",
        "nvidia,p3509-0000+p3668-0000 nvidia,p3668-0000 nvidia,tegra194",
    )
    hwmon(root, 6, "7-0040", NX_RAILS, bus="sys/devices/platform/c240000.i2c/i2c-7")
    return root


def agx_xavier(root: Path) -> Path:
    identity(
        root, "NVIDIA Jetson AGX Xavier Developer Kit", "nvidia,p2972-0000 nvidia,p2888-0001 nvidia,tegra194"
    )
    hwmon(root, 2, "1-0040", [("GPU", 19200, 100), ("CPU", 19200, 50), ("SOC", 19200, 40)])
    hwmon(root, 3, "1-0041", [("CV", 19200, 10), ("VDDRQ", 19200, 20), ("SYS5V", 4800, 500)])
    return root


def jetpack4(root: Path) -> Path:
    """An AGX Xavier with JetPack 4: iio folders of the driver ina3221x, and limits with text in them."""
    identity(root, "Jetson-AGX", "nvidia,p2972-0000 nvidia,p2888-0001 nvidia,tegra194")
    rails = [[("GPU", 100), ("CPU", 50), ("SOC", 40)], [("CV", 10), ("VDDRQ", 20), ("SYS5V", 500)]]
    for device, channels in enumerate(rails):
        where = f"sys/bus/i2c/drivers/ina3221x/1-004{device}/iio:device{device}"
        for n, (label, milliamperes) in enumerate(channels):
            put(root, f"{where}/rail_name_{n}", label)
            put(root, f"{where}/in_voltage{n}_input", 5000)
            put(root, f"{where}/in_current{n}_input", milliamperes)
            put(root, f"{where}/in_power{n}_input", milliamperes * 5)
            put(root, f"{where}/crit_current_limit_{n}", "32760 ma")
    return root


def thor(root: Path) -> Path:
    identity(
        root,
        "NVIDIA Jetson AGX Thor Developer Kit",
        "nvidia,p4071-0000+p3834-0008 nvidia,p3834-0008 nvidia,tegra264",
    )
    hwmon(
        root,
        4,
        "1-0040",
        [("VDD_GPU", 12000, 900), ("VDD_CPU_SOC_MSS", 12000, 800), ("VIN_SYS_5V0", 5000, 1500)],
    )
    folder = root / "sys/devices/platform/bus@0/810c5b0000.i2c/i2c-2/2-0044/hwmon/hwmon5"
    for name, content in {
        "name": "ina238", "label": "VIN", "in0_input": 12, "in1_input": 19800,
        "curr1_input": 2300, "power1_input": 45540000,
    }.items():  # fmt: skip
        put(root, f"{folder.relative_to(root)}/{name}", content)
    link = root / "sys/class/hwmon/hwmon5"
    link.symlink_to(os.path.relpath(folder, link.parent))
    return root


def unknown_board(root: Path) -> Path:
    identity(root, "Acme Carrier", "acme,carrier nvidia,tegra234")
    hwmon(root, 2, "1-0040", NX_RAILS)
    return root


def container(root: Path) -> Path:
    """A container without /sys, that still sees the device tree's model."""
    identity(root, "NVIDIA Jetson AGX Orin Developer Kit", "nvidia,p3701-0005")
    return root


def desktop(root: Path, *, energy_uj: int = 5_000_000, packages: int = 1) -> Path:
    """An x86 machine with RAPL counters."""
    for package in range(packages):
        zone = f"sys/class/powercap/intel-rapl:{package}"
        put(root, f"{zone}/name", f"package-{package}")
        put(root, f"{zone}/energy_uj", energy_uj)
        put(root, f"{zone}/max_energy_range_uj", 262143328850)
        put(root, f"sys/class/powercap/intel-rapl:{package}:0/name", "core")
        put(root, f"sys/class/powercap/intel-rapl:{package}:0/energy_uj", 1_000_000)
    return root


ENODATA, EIO, EAGAIN, EACCES = errno.ENODATA, errno.EIO, errno.EAGAIN, errno.EACCES
