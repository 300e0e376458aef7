"""File trees of machines that are not here, for tests: what their kernels show, and tools that obey them.

Every tree is made up from published layouts; nothing in it was measured.
"""

from __future__ import annotations

import errno
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from edge_sdk.machine_state.tree import Opener, read_file

__all__ = ["KINDS", "MachineTree", "failing", "write_tools"]

_MODES = {
    "nvpmodel_p3701_0000.conf": ("MAXN", "MODE_15W", "MODE_30W", "MODE_50W"),
    "nvpmodel_p3767_0000_super.conf": ("MAXN_SUPER", "10W", "15W", "25W", "40W"),
    "nvpmodel_p3767_0003.conf": ("15W", "7W"),
    "nvpmodel_p3767_0003_super.conf": ("15W", "25W", "MAXN_SUPER", "7W"),
    "nvpmodel_p3668.conf": ("MODE_15W_2CORE", "MODE_15W_4CORE", "MODE_15W_6CORE"),
    "nvpmodel_p3834_0008.conf": ("MAXN", "120W"),
}


class MachineTree:
    """A file tree under construction; every method writes and returns the tree."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    def write(self, path: str, text: str | int) -> MachineTree:
        """Writes one file with a line feed after it, as the kernel does."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n", "utf-8")
        return self

    def write_all(self, folder: str, entries: Mapping[str, str | int]) -> MachineTree:
        """Writes several files of one folder."""
        for name, text in entries.items():
            self.write(f"{folder}/{name}", text)
        return self

    def read(self, path: str) -> str:
        """Reads a file back."""
        return (self.root / path).read_text("utf-8").strip()

    def board(self, model: str, *compatible: str) -> MachineTree:
        """Writes the device tree where the kernel has it, and the link to it."""
        base = self.root / "sys/firmware/devicetree/base"
        base.mkdir(parents=True)
        (base / "model").write_bytes(model.encode() + b"\0")
        (base / "compatible").write_bytes(b"".join(name.encode() + b"\0" for name in compatible))
        (self.root / "proc").mkdir(exist_ok=True)
        (self.root / "proc/device-tree").symlink_to("/sys/firmware/devicetree/base")
        return self

    def release(self, major: int, revision: str) -> MachineTree:
        """Writes `/etc/nv_tegra_release`."""
        line = (
            f"# R{major} (release), REVISION: {revision}, GCID: 1, BOARD: generic, EABI: aarch64, DATE: now"
        )
        return self.write("etc/nv_tegra_release", line)

    def modes(self, conf: str, current: int, default: int = 0) -> MachineTree:
        """Writes the modes of a board, the link to them, and which one is stored."""
        lines = [f"< POWER_MODEL ID={number} NAME={name} >" for number, name in enumerate(_MODES[conf])]
        self.write(f"etc/nvpmodel/{conf}", "\n".join([*lines, f"< PM_CONFIG DEFAULT={default} >"]))
        (self.root / "etc/nvpmodel.conf").symlink_to(f"/etc/nvpmodel/{conf}")
        return self.write("var/lib/nvpmodel/status", f"pmode:{current:04d}")

    def cpu(self, policy: int, count: int, low_khz: int, high_khz: int, **more: str | int) -> MachineTree:
        """Writes one cluster of CPUs, scaled as a whole."""
        folder = f"sys/devices/system/cpu/cpufreq/policy{policy}"
        self.write_all(
            folder,
            {
                "affected_cpus": " ".join(str(policy + index) for index in range(count)),
                "scaling_driver": "tegra194",
                "scaling_governor": "schedutil",
                "scaling_min_freq": low_khz,
                "scaling_max_freq": high_khz,
                "scaling_cur_freq": high_khz,
                "cpuinfo_min_freq": low_khz,
                "cpuinfo_max_freq": high_khz,
                **more,
            },
        )
        for index in range(policy, policy + count):
            self.write(f"sys/devices/system/cpu/cpu{index}/cpuidle/state0/disable", 0)
            self.write(f"sys/devices/system/cpu/cpu{index}/cpuidle/state1/disable", 0)
        return self

    def gpu(self, node: str, device: str, low_hz: int, high_hz: int, number: int = 0) -> MachineTree:
        """Writes the GPU's devfreq."""
        folder = f"sys/class/devfreq/{device}"
        self.write(f"{folder}/device/of_node/name", f"{node}\0")
        return self.write_all(
            folder,
            {
                "governor": "nvhost_podgov",
                "min_freq": low_hz,
                "max_freq": high_hz,
                "cur_freq": low_hz,
                "available_frequencies": f"{low_hz} {high_hz}",
            },
        )

    def zone(self, number: int, name: str, temp: str | int, passive: int | None = None) -> MachineTree:
        """Writes one thermal zone; temperatures in thousandths of a degree."""
        folder = f"sys/class/thermal/thermal_zone{number}"
        self.write_all(folder, {"type": name, "temp": temp})
        if passive is not None:
            self.write_all(folder, {"trip_point_1_type": "passive", "trip_point_1_temp": passive})
        return self

    def cooling(self, number: int, name: str, state: int = 0, most: int = 10) -> MachineTree:
        """Writes one cooling device."""
        folder = f"sys/class/thermal/cooling_device{number}"
        return self.write_all(folder, {"type": name, "cur_state": state, "max_state": most})

    def over_current(self, *counts: int, number: int = 3) -> MachineTree:
        """Writes the counters OC1 to OC3."""
        folder = f"sys/class/hwmon/hwmon{number}"
        self.write(f"{folder}/name", "soctherm_oc")
        for index, count in enumerate(counts, 1):
            self.write_all(folder, {f"oc{index}_event_cnt": count, f"oc{index}_throt_en": 1})
        return self

    def fan(self, pwm: int, rpm: int) -> MachineTree:
        """Writes a fan and its speed, which are two devices."""
        self.write_all("sys/class/hwmon/hwmon0", {"name": "pwmfan", "pwm1": pwm})
        return self.write_all("sys/class/hwmon/hwmon1", {"name": "pwm_tach", "rpm": rpm})

    def memory(self, total_kb: int = 64_000_000, available_kb: int = 50_000_000) -> MachineTree:
        """Writes the memory of the machine and of the process."""
        lines = [f"MemTotal: {total_kb} kB", f"MemAvailable: {available_kb} kB"]
        self.write("proc/meminfo", "\n".join([*lines, "SwapTotal: 1000 kB", "SwapFree: 900 kB"]))
        return self.write("proc/self/status", "Name: python\nVmHWM: 400000 kB\nVmRSS: 300000 kB")

    def emc(self, rate_hz: int, held: bool, most_hz: int = 3_199_000_000) -> MachineTree:
        """Writes what root sees of the memory clock."""
        folder = "sys/kernel/debug/bpmp/debug/clk/emc"
        entries = {
            "rate": rate_hz,
            "min_rate": 204_000_000,
            "max_rate": most_hz,
            "mrq_rate_locked": int(held),
        }
        return self.write_all(folder, entries)

    def lock(self) -> MachineTree:
        """Holds every clock, as jetson_clocks does."""
        for folder in (self.root / "sys/devices/system/cpu/cpufreq").glob("policy*"):
            (folder / "scaling_min_freq").write_text((folder / "scaling_max_freq").read_text())
        for folder in (self.root / "sys/class/devfreq").glob("*"):
            (folder / "min_freq").write_text((folder / "max_freq").read_text())
            (folder / "cur_freq").write_text((folder / "max_freq").read_text())
        for file in (self.root / "sys/devices/system/cpu").glob("cpu*/cpuidle/state1/disable"):
            file.write_text("1\n")
        if (self.root / "sys/kernel/debug").exists():
            self.write("sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked", 1)
        return self


def _heat(tree: MachineTree, *zones: str) -> MachineTree:
    for number, name in enumerate(zones):
        tree.zone(number, name, 48_000 + 500 * number, 95_000)
    for number, name in enumerate(("pwm-fan", "cpufreq-cpu0", "devfreq-17000000.gpu")):
        tree.cooling(number, name, state=2 if number == 0 else 0)
    return tree.fan(120, 2100).memory()


_JP6_ZONES = ("cpu-thermal", "gpu-thermal", "soc0-thermal", "tj-thermal")
_JP5_ZONES = ("CPU-therm", "GPU-therm", "SOC0-therm", "tj-therm")
_AGX = ("NVIDIA Jetson AGX Orin Developer Kit", "nvidia,p3737-0000+p3701-0000", "nvidia,tegra234")
_NANO = "NVIDIA Jetson Orin Nano Developer Kit"


def _agx(root: Path, major: int, revision: str) -> MachineTree:
    tree = MachineTree(root).board(*_AGX).release(major, revision).modes("nvpmodel_p3701_0000.conf", 2, 2)
    node, device = ("ga10b", "17000000.ga10b") if major == 35 else ("gpu", "17000000.gpu")
    for policy in (0, 4, 8):
        tree.cpu(policy, 4, 729_600, 1_728_000)
    tree.gpu(node, device, 306_000_000, 624_750_000).emc(2_133_000_000, held=False)
    tree.write("sys/devices/system/cpu/online", "0-11").over_current(0, 4, 120)
    return _heat(tree, *(_JP5_ZONES if major == 35 else _JP6_ZONES))


def _small(root: Path, model: str, module: str, conf: str, mode: int, revision: str = "4.3") -> MachineTree:
    tree = MachineTree(root).board(
        model, f"nvidia,p3768-0000+{module}", f"nvidia,{module}", "nvidia,tegra234"
    )
    tree.release(36, revision).modes(conf, mode, mode).cpu(0, 4, 729_600, 1_344_000).cpu(
        4, 2, 729_600, 1_344_000
    )
    tree.gpu("gpu", "17000000.gpu", 306_000_000, 918_000_000).emc(2_133_000_000, held=False)
    tree.write("sys/devices/system/cpu/online", "0-5").over_current(0, 0, 0)
    tree.write("sys/kernel/nvpmodel_clk_cap/emc", 2_133_000_000)
    return _heat(tree, *_JP6_ZONES)


def _xavier_nx(root: Path) -> MachineTree:
    tree = MachineTree(root).board(
        "NVIDIA Jetson Xavier NX Developer Kit", "nvidia,p3509-0000+p3668-0000", "nvidia,tegra194"
    )
    tree.release(35, "4.1").modes("nvpmodel_p3668.conf", 2).cpu(0, 2, 115_200, 1_420_800).cpu(
        2, 4, 115_200, 1_420_800
    )
    tree.gpu("gv11b", "17000000.gv11b", 114_750_000, 1_109_250_000).emc(1_600_000_000, held=False)
    return _heat(tree, "CPU-therm", "GPU-therm", "AUX-therm")


def _thor(root: Path) -> MachineTree:
    tree = MachineTree(root).board(
        "NVIDIA Jetson AGX Thor Developer Kit", "nvidia,p4071-0000+p3834-0008", "nvidia,tegra264"
    )
    tree.release(38, "2.0").modes("nvpmodel_p3834_0008.conf", 1).cpu(0, 14, 972_000, 2_601_000)
    tree.gpu("gpu-gpc-0", "gpu-gpc-0", 315_000_000, 1_575_000_000).emc(4_266_000_000, held=False)
    return _heat(tree, *_JP6_ZONES)


def _desktop(root: Path) -> MachineTree:
    tree = MachineTree(root)
    for policy in range(4):
        tree.cpu(policy, 1, 800_000, 4_700_000, scaling_driver="intel_pstate", scaling_governor="powersave")
        tree.write(f"sys/devices/system/cpu/cpu{policy}/thermal_throttle/package_throttle_count", 7)
        tree.write(f"sys/devices/system/cpu/cpu{policy}/topology/physical_package_id", 0)
    tree.zone(0, "x86_pkg_temp", 51_000, 90_000).zone(1, "iwlwifi_1", "")
    for number in range(4):
        tree.cooling(number, "Processor", 0, 3)
    return tree.cooling(4, "TCC Offset", 5, 15).cooling(5, "intel_powerclamp", -1, 50).memory()


KINDS: dict[str, Callable[[Path], MachineTree]] = {
    "agx-orin-jp5": lambda root: _agx(root, 35, "4.1"),
    "agx-orin-jp6": lambda root: _agx(root, 36, "4.3"),
    "agx-orin-jp7": lambda root: _agx(root, 39, "2.0"),
    "orin-nx": lambda root: _small(
        root, "NVIDIA Jetson Orin NX Engineering Reference Developer Kit", "p3767-0000",
        "nvpmodel_p3767_0000_super.conf", 4,
    ),
    "orin-nano": lambda root: _small(root, _NANO, "p3767-0005", "nvpmodel_p3767_0003.conf", 0, "3.0"),
    "orin-nano-super": lambda root: _small(
        root, f"{_NANO} Super", "p3767-0005", "nvpmodel_p3767_0003_super.conf", 1, "5.0"
    ),
    "xavier-nx": _xavier_nx,
    "thor": _thor,
    "desktop": _desktop,
    "container": lambda root: MachineTree(root).write(".dockerenv", "").memory(),
}  # fmt: skip
"""Machine -> what writes its tree."""


def failing(faults: Mapping[str, int]) -> Opener:
    """Makes an opener that fails on every path that ends so, with this `errno`."""

    def read(path: Path) -> bytes:
        for ending, number in faults.items():
            if str(path).endswith(ending):
                raise OSError(number, errno.errorcode[number])
        return read_file(path)

    return read


def write_tools(folder: Path, root: Path, *, reboot_modes: tuple[int, ...] = (), query: str = "") -> Path:
    """Writes a nvpmodel and a jetson_clocks that work on a tree; returns their folder.

    Arguments:
        folder: where to.
        root: of the tree.
        reboot_modes: ids that ask for a reboot and leave the old mode as it was.
        query: what `nvpmodel -q` says instead of the mode, as Python text for `print`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    head = f"#!{sys.executable} -IS\nimport pathlib, re, shutil, sys\nroot = pathlib.Path({str(root)!r})\n"
    (folder / "nvpmodel").write_text(head + _NVPMODEL.format(reboot=reboot_modes, query=query), "utf-8")
    (folder / "jetson_clocks").write_text(head + _JETSON_CLOCKS, "utf-8")
    for name in ("nvpmodel", "jetson_clocks"):
        file = folder / name
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return folder


_NVPMODEL = """
log = root / "calls"
with log.open("a") as out:
    out.write("nvpmodel " + " ".join(sys.argv[1:]) + "\\n")
status = root / "var/lib/nvpmodel/status"
(conf,) = (root / "etc/nvpmodel").glob("*.conf")
modes = dict(re.findall(r"POWER_MODEL ID=(\\d+) NAME=(\\S+)", conf.read_text()))
current = str(int(status.read_text().strip().removeprefix("pmode:")))
if sys.argv[1] == "-q":
    print("NVPM WARN: fan mode is not set!")
    if {query!r}:
        print({query!r})
        sys.exit(1)
    print("NV Power Mode: " + modes[current])
    print(current)
elif sys.argv[1] == "-m":
    wanted = sys.argv[2]
    if int(wanted) in {reboot!r}:
        print("DO YOU WANT TO REBOOT NOW? enter YES/yes to confirm:")
        if "yes" in sys.stdin.readline().lower():
            (root / "rebooted").touch()
        sys.exit(0)
    status.write_text("pmode:%04d\\n" % int(wanted))
    # As on the device: a new mode undoes what jetson_clocks did.
    for folder in (root / "sys/devices/system/cpu/cpufreq").glob("policy*"):
        (folder / "scaling_min_freq").write_text((folder / "cpuinfo_min_freq").read_text())
    for folder in (root / "sys/class/devfreq").glob("*"):
        low = (folder / "available_frequencies").read_text().split()[0]
        (folder / "min_freq").write_text(low + "\\n")
    for file in (root / "sys/devices/system/cpu").glob("cpu*/cpuidle/state1/disable"):
        file.write_text("0\\n")
    (root / "sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked").write_text("0\\n")
"""

_JETSON_CLOCKS = """
log = root / "calls"
with log.open("a") as out:
    out.write("jetson_clocks " + " ".join(re.sub(r".*/", "", word) for word in sys.argv[1:]) + "\\n")
files = [
    *(root / "sys/devices/system/cpu/cpufreq").glob("policy*/scaling_m??_freq"),
    *(root / "sys/class/devfreq").glob("*/m??_freq"),
    *(root / "sys/devices/system/cpu").glob("cpu*/cpuidle/state1/disable"),
    root / "sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked",
]
if sys.argv[1:2] == ["--store"]:
    pathlib.Path(sys.argv[2]).write_text("".join(f"{file}:{file.read_text()}" for file in files))
elif sys.argv[1:2] == ["--restore"]:
    for line in pathlib.Path(sys.argv[2]).read_text().splitlines():
        path, _, value = line.partition(":")
        pathlib.Path(path).write_text(value + "\\n")
elif sys.argv[1:2] == ["--show"]:
    held = files[-1].read_text().strip()
    print("EMC MinFreq=204000000 MaxFreq=3199000000 CurrentFreq=2133000000 FreqOverride=" + held)
else:
    for folder in (root / "sys/devices/system/cpu/cpufreq").glob("policy*"):
        (folder / "scaling_min_freq").write_text((folder / "scaling_max_freq").read_text())
    for folder in (root / "sys/class/devfreq").glob("*"):
        (folder / "min_freq").write_text((folder / "max_freq").read_text())
        (folder / "cur_freq").write_text((folder / "max_freq").read_text())
    for file in files:
        if file.name in ("disable", "mrq_rate_locked"):
            file.write_text("1\\n")
"""
