"""Snapshots of machines that are not here: every board, and every fault that real ones were seen to have."""

from __future__ import annotations

import errno
import os
from dataclasses import asdict
from pathlib import Path

import pytest
from machine_trees import KINDS, MachineTree, failing, write_tools

from edge_sdk.clock import FakeClock
from edge_sdk.machine_state.commands import Answer, Runner, no_commands, runner_for, runner_in
from edge_sdk.machine_state.heat import Cooling, cooling_kind, hottest_c
from edge_sdk.machine_state.identity import jetpack_of
from edge_sdk.machine_state.power_mode import parse_conf, parse_query
from edge_sdk.machine_state.reader import MachineReader
from edge_sdk.machine_state.state import ClockDomain, Clocks, CoolingDevice, MachineSnapshot
from edge_sdk.machine_state.tree import Tree, read_file

KIB = 1024


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def look(
    kind: str, root: Path, faults: dict[str, int] | None = None, run: Runner | None = None
) -> MachineSnapshot:
    """Builds a machine and reads it."""
    KINDS[kind](root)
    return MachineReader(root, opener=failing(faults or {}), run=run, clock=FakeClock()).snapshot()


@pytest.mark.parametrize(
    ("kind", "module", "chip", "l4t", "jetpack"),
    [
        ("agx-orin-jp5", "p3701-0000", "tegra234", "35.4.1", "5.1.2"),
        ("agx-orin-jp6", "p3701-0000", "tegra234", "36.4.3", "6.2"),
        ("agx-orin-jp7", "p3701-0000", "tegra234", "39.2.0", "7.2"),
        ("orin-nx", "p3767-0000", "tegra234", "36.4.3", "6.2"),
        ("orin-nano", "p3767-0005", "tegra234", "36.3.0", "6.0"),
        ("orin-nano-super", "p3767-0005", "tegra234", "36.5.0", "6.2.2"),
        ("xavier-nx", "p3668-0000", "tegra194", "35.4.1", "5.1.2"),
        ("thor", "p3834-0008", "tegra264", "38.2.0", "7.0"),
    ],
)
def test_each_board_is_known_by_its_device_tree(
    kind: str, module: str, chip: str, l4t: str, jetpack: str, root: Path
) -> None:
    board = look(kind, root).board
    assert board.jetson
    assert (board.module, board.chip, board.l4t, board.jetpack) == (module, chip, l4t, jetpack)


@pytest.mark.parametrize(
    ("kind", "mode", "conf"),
    [
        ("agx-orin-jp6", (2, "MODE_30W"), "nvpmodel_p3701_0000.conf"),
        ("orin-nx", (4, "40W"), "nvpmodel_p3767_0000_super.conf"),
        ("orin-nano", (0, "15W"), "nvpmodel_p3767_0003.conf"),
        ("orin-nano-super", (1, "25W"), "nvpmodel_p3767_0003_super.conf"),
    ],
)
def test_the_mode_has_name_id_and_file_for_ids_mean_nothing_alone(
    kind: str, mode: tuple[int, str], conf: str, root: Path
) -> None:
    """Issue 21: on one board id 0 is MAXN, on another 15W."""
    found = look(kind, root).power_mode
    assert (found.id, found.name, found.conf, found.source) == (*mode, conf, "status file")
    assert mode in found.modes


def test_nvpmodel_is_believed_before_the_file_that_it_stores(root: Path, tmp_path: Path) -> None:
    tree = KINDS["orin-nano-super"](root)
    run = runner_in(str(write_tools(tmp_path / "tools", root)))
    mode = MachineReader(root, run=run).snapshot().power_mode
    assert (mode.name, mode.id, mode.source) == ("25W", 1, "nvpmodel")
    assert mode.warnings == ("NVPM WARN: fan mode is not set!",)
    tree.write("var/lib/nvpmodel/status", "pmode:0003")
    assert MachineReader(root, run=run).snapshot().power_mode.name == "7W"


@pytest.mark.parametrize(
    ("answer", "name", "number", "warning"),
    [
        (Answer(0, "NV Power Mode: MAXN\n0\n"), "MAXN", 0, ""),
        (
            Answer(0, "NVPM WARN: fan mode is not set!\nNV Power Mode: MODE_30W\n2\n"),
            "MODE_30W",
            2,
            "NVPM WARN",
        ),
        (Answer(0, "NV Fan Mode:quiet\nNV Power Mode: 15W\n0\n"), "15W", 0, ""),
        (Answer(255, "NVPM ERROR: optMask is 1, no request for power mode\n"), None, None, "NVPM ERROR"),
        (Answer(1, "NV Power Mode: MY OWN\n", "NVPM WARN: x\n"), "MY OWN", None, "NVPM WARN: x"),
        (Answer(1, "", "boom\n"), None, None, "nvpmodel -q failed: boom"),
        (Answer(124, "", "nvpmodel: no answer within 20 s"), None, None, "no answer within 20 s"),
        (Answer(127, "", "nvpmodel: not found"), None, None, ""),
    ],
)
def test_whatever_nvpmodel_says_is_read_or_passed_on(
    answer: Answer, name: str | None, number: int | None, warning: str
) -> None:
    """Issues 15 and 21 (the mode was once taken to be "WARN:")."""
    found, found_number, warnings = parse_query(answer)
    assert (found, found_number) == (name, number)
    assert warning in " ".join(warnings)
    assert bool(warnings) == bool(warning)


def test_a_failing_nvpmodel_leaves_the_rest_of_the_snapshot(root: Path) -> None:
    def failing_tool(command: object) -> Answer:
        return Answer(1, "", "NVPM ERROR: failed to read PARAM")

    snapshot = look("agx-orin-jp6", root, run=failing_tool)
    assert snapshot.power_mode.warnings == ("NVPM ERROR: failed to read PARAM",)
    assert (snapshot.power_mode.name, snapshot.power_mode.source) == ("MODE_30W", "status file")
    assert len(snapshot.clocks.domains) == 5


def test_the_names_of_modes_come_from_the_boards_file() -> None:
    text = "# x\n< POWER_MODEL ID=0 NAME=MAXN >\nCPU_ONLINE CORE_1 1\n"
    text += "  < POWER_MODEL ID=3 NAME=50W>\n< PM_CONFIG DEFAULT=3 >"
    assert parse_conf(text) == (((0, "MAXN"), (3, "50W")), 3)
    assert parse_conf("") == ((), None)


def test_an_unknown_release_is_shown_and_the_rest_is_read(root: Path) -> None:
    """Issue 17: the table is always behind."""
    tree = KINDS["orin-nx"](root)
    tree.release(40, "1.2")
    board = MachineReader(root).snapshot().board
    assert (board.l4t, board.jetpack) == ("40.1.2", None)
    assert jetpack_of("36.5.0") == "6.2.2"


def test_without_a_release_file_the_package_says_the_release(root: Path) -> None:
    tree = KINDS["orin-nx"](root)
    (root / "etc/nv_tegra_release").unlink()

    def run(command: object) -> Answer:
        asked = list(command)  # type: ignore[call-overload]
        return Answer(0, "36.5.0-20260115194252") if asked[0] == "dpkg-query" else Answer(127)

    board = MachineReader(tree.root, run=run).snapshot().board
    assert (board.l4t, board.jetpack) == ("36.5.0", "6.2.2")
    assert MachineReader(tree.root).snapshot().board.l4t is None


def test_clocks_are_limits_requests_and_measurements_apart(root: Path) -> None:
    KINDS["agx-orin-jp6"](root).write("sys/devices/system/cpu/cpufreq/policy4/cpuinfo_cur_freq", 1_500_000)
    cpu, slow, _, gpu, emc = MachineReader(root).snapshot().clocks.domains
    assert (cpu.name, cpu.governor, cpu.min_hz, cpu.max_hz) == (
        "cpu0-3",
        "schedutil",
        729_600_000,
        1_728_000_000,
    )
    assert (cpu.request_hz, cpu.actual_hz) == (1_728_000_000, None)
    assert (slow.name, slow.actual_hz) == ("cpu4-7", 1_500_000_000)
    assert (gpu.name, gpu.governor, gpu.max_hz) == ("gpu", "nvhost_podgov", 624_750_000)
    assert (emc.name, emc.actual_hz, emc.override) == ("emc", 2_133_000_000, False)


def test_a_measured_clock_counts_only_where_the_request_stood_still(root: Path) -> None:
    KINDS["orin-nx"](root).write("sys/devices/system/cpu/cpufreq/policy0/cpuinfo_cur_freq", 729_600)
    requests = iter([b"1344000", b"729600"])

    def read(path: Path) -> bytes:
        return next(requests) if str(path).endswith("policy0/scaling_cur_freq") else read_file(path)

    assert MachineReader(root, opener=read).snapshot().clocks.domains[0].actual_hz is None


@pytest.mark.parametrize(
    ("kind", "device"),
    [("agx-orin-jp5", "17000000.ga10b"), ("orin-nx", "17000000.gpu"), ("thor", "gpu-gpc-0")],
)
def test_the_gpu_is_found_by_its_node_among_other_devices(kind: str, device: str, root: Path) -> None:
    tree = KINDS[kind](root)
    tree.gpu("nvdec", "15480000.nvdec", 1, 2).gpu("vic", "15340000.vic", 1, 2)
    gpu = [item for item in MachineReader(root).snapshot().clocks.domains if item.kind == "gpu"]
    assert [item.max_hz for item in gpu] == [int(tree.read(f"sys/class/devfreq/{device}/max_freq"))]


def test_a_gpu_that_appears_late_is_waited_for_once(root: Path) -> None:
    """Issue 18."""
    tree = KINDS["orin-nx"](root)
    devfreq = root / "sys/class/devfreq"
    hidden = devfreq.rename(root / "hidden")

    class Boot(FakeClock):
        def sleep_until_ns(self, deadline_ns: int) -> None:
            super().sleep_until_ns(deadline_ns)
            if deadline_ns >= 1_000_000_000 and hidden.exists():
                hidden.rename(devfreq)

    clock = Boot()
    reader = MachineReader(tree.root, clock=clock)
    assert "gpu" in [item.kind for item in reader.snapshot().clocks.domains]
    assert 1_000_000_000 <= clock.now_ns() < 2_000_000_000


def test_a_gpu_that_never_appears_costs_two_seconds_once_and_is_unknown(root: Path) -> None:
    tree = KINDS["orin-nx"](root).lock()
    (root / "sys/class/devfreq").rename(root / "hidden")
    clock = FakeClock()
    reader = MachineReader(tree.root, clock=clock)
    assert reader.snapshot().locked is None
    assert clock.now_ns() == 2_000_000_000
    reader.snapshot()
    assert clock.now_ns() == 2_000_000_000


def test_clocks_are_locked_only_when_all_of_them_are(root: Path) -> None:
    tree = KINDS["agx-orin-jp6"](root)
    reader = MachineReader(root)
    assert reader.snapshot().locked is False
    tree.lock()
    assert reader.snapshot().locked is True
    for path, value in (
        ("sys/devices/system/cpu/cpufreq/policy8/scaling_min_freq", "729600"),
        ("sys/class/devfreq/17000000.gpu/min_freq", "306000000"),
        ("sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked", "0"),
        ("sys/devices/system/cpu/cpu3/cpuidle/state1/disable", "0"),
    ):
        held = tree.read(path)
        assert MachineReader(tree.write(path, value).root).snapshot().locked is False, path
        tree.write(path, held)
    assert reader.snapshot().locked is True


def test_a_cpu_that_the_mode_switched_off_does_not_count_as_free(root: Path) -> None:
    tree = KINDS["agx-orin-jp6"](root).lock()
    tree.write("sys/devices/system/cpu/cpu11/cpuidle/state1/disable", 0)
    assert MachineReader(root).snapshot().locked is False
    tree.write("sys/devices/system/cpu/online", "0-3,4,5-10")
    assert MachineReader(root).snapshot().locked is True


def test_without_root_the_memory_clock_is_unknown_and_so_is_the_lock(root: Path) -> None:
    KINDS["agx-orin-jp6"](root).lock()
    reader = MachineReader(
        root, opener=failing({"emc/rate": errno.EACCES, "emc/mrq_rate_locked": errno.EACCES})
    )
    snapshot = reader.snapshot()
    assert snapshot.locked is None
    assert snapshot.needs_root == ("EMC clock and whether it is held",)
    assert snapshot.clocks.domains[-1].override is None


def test_root_asks_jetson_clocks_where_debugfs_is_not_there(root: Path, tmp_path: Path) -> None:
    KINDS["orin-nx"](root).lock()
    run = runner_in(str(write_tools(tmp_path / "tools", root)))
    faults = {"emc/rate": errno.ENOENT}
    snapshot = MachineReader(root, run=run, opener=failing(faults)).snapshot()
    assert (snapshot.clocks.domains[-1].override, snapshot.locked) == (True, True)


def test_a_machine_without_clocks_is_neither_locked_nor_free() -> None:
    assert Clocks().locked(jetson=False) is None
    pinned = ClockDomain("cpu0", "cpu", min_hz=5, max_hz=5)
    assert Clocks((pinned,)).locked(jetson=False) is True
    assert Clocks((pinned,), deep_idle=False).locked(jetson=True) is None


def test_a_gated_zone_is_offline_and_the_others_are_read(root: Path) -> None:
    """Issue 10: EAGAIN of one zone once stopped a whole collector."""
    snapshot = look("orin-nano", root, {"thermal_zone1/temp": errno.EAGAIN, "thermal_zone2/temp": errno.EIO})
    zones = {zone.name: zone for zone in snapshot.zones}
    assert (zones["gpu-thermal"].temp_c, zones["gpu-thermal"].state) == (None, "offline")
    assert zones["soc0-thermal"].temp_c is None
    assert zones["soc0-thermal"].state.startswith("EIO")
    assert (zones["tj-thermal"].temp_c, zones["tj-thermal"].passive_c) == (49.5, 95)
    assert snapshot.unreadable == (("thermal zone soc0-thermal", zones["soc0-thermal"].state),)
    assert hottest_c(snapshot.zones) == 49.5


@pytest.mark.parametrize("value", ["-256000", "2147483647", "-274000"])
def test_a_temperature_that_no_chip_has_is_no_temperature(value: str, root: Path) -> None:
    """Issue 11: -256 C stood in charts."""
    KINDS["agx-orin-jp5"](root).write("sys/class/thermal/thermal_zone1/temp", value)
    zone = MachineReader(root).snapshot().zones[1]
    assert (zone.name, zone.temp_c, zone.state) == ("GPU-therm", None, "offline")


def test_an_empty_or_odd_value_is_no_number(root: Path) -> None:
    zone = look("desktop", root).zones[1]
    assert (zone.name, zone.temp_c, zone.state) == ("iwlwifi_1", None, "no number: ''")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cpufreq-cpu0", Cooling.SLOWS),
        ("thermal-cpufreq-0", Cooling.SLOWS),
        ("devfreq-17000000.gpu", Cooling.SLOWS),
        ("cpu-throttle-alert", Cooling.SLOWS),
        ("gpu-balanced", Cooling.SLOWS),
        ("Processor", Cooling.SLOWS),
        ("intel_powerclamp", Cooling.SLOWS),
        ("pwm-fan", Cooling.FAN),
        ("Fan", Cooling.FAN),
        ("TCC Offset", Cooling.FAN),
        ("hot-surface-alert", Cooling.OTHER),
    ],
)
def test_a_fan_that_turns_is_no_throttling(name: str, kind: Cooling) -> None:
    assert cooling_kind(CoolingDevice(name, 1, 3)) is kind


def test_over_current_counters_are_found_by_name_wherever_they_are(root: Path) -> None:
    """Issue 19; and 6: hwmon numbers change with every boot."""
    tree = KINDS["agx-orin-jp6"](root)
    found = {counter.name: counter.count for counter in MachineReader(root).snapshot().counters}
    assert found == {"oc1": 0, "oc2": 4, "oc3": 120}
    (root / "sys/class/hwmon/hwmon3").rename(root / "sys/class/hwmon/hwmon11")
    assert len(MachineReader(root).snapshot().counters) == 3
    target = root / "sys/devices/platform/soctherm-oc-event/hwmon/hwmon2"
    target.parent.mkdir(parents=True)
    (root / "sys/class/hwmon/hwmon11").rename(target)
    assert [counter.slows for counter in MachineReader(tree.root).snapshot().counters] == [True] * 3


def test_a_counter_that_gives_an_error_is_there_without_a_value(root: Path) -> None:
    counters = look("agx-orin-jp6", root, {"oc2_event_cnt": errno.EIO}).counters
    assert [counter.count for counter in counters] == [0, None, 120]


def test_fans_and_memory(root: Path) -> None:
    snapshot = look("orin-nx", root)
    assert [(fan.name, fan.pwm, fan.rpm) for fan in snapshot.fans] == [
        ("pwmfan", 120, None),
        ("pwm_tach", None, 2100),
    ]
    assert asdict(snapshot.memory) == {
        "total_kb": 64_000_000,
        "available_kb": 50_000_000,
        "swap_used_kb": 100,
        "rss_kb": 300_000,
        "peak_rss_kb": 400_000,
    }


def test_a_desktop_gives_what_it_has(root: Path) -> None:
    snapshot = look("desktop", root)
    assert not snapshot.board.jetson
    assert [domain.name for domain in snapshot.clocks.domains] == ["cpu0", "cpu1", "cpu2", "cpu3"]
    assert [(counter.name, counter.count) for counter in snapshot.counters] == [("cpu thermal", 7)]
    assert snapshot.locked is False
    assert snapshot.needs_root == ()


def test_a_bare_container_gives_nothing_and_no_error(root: Path) -> None:
    """Issue 16."""
    snapshot = look("container", root)
    assert snapshot.board.container
    assert (snapshot.clocks.domains, snapshot.zones, snapshot.counters, snapshot.locked) == ((), (), (), None)
    assert MachineReader(root / "nothing at all").snapshot().board.model is None


def test_a_container_on_a_jetson_is_still_a_jetson(root: Path) -> None:
    """Docker hides the device tree; taken for a desktop, fewer clocks would have to be held."""
    KINDS["orin-nx"](root)
    for path in ("proc/device-tree", "etc/nv_tegra_release"):
        (root / path).unlink()
    (root / "sys/firmware").rename(root / "masked")
    snapshot = MachineReader(root).snapshot()
    assert (snapshot.board.jetson, snapshot.board.model) == (True, None)


def test_nothing_that_names_an_owner_is_in_a_snapshot(root: Path) -> None:
    for name in ("etc/hostname", "proc/sys/kernel/hostname", "sys/firmware/devicetree/base/serial-number"):
        MachineTree(root).write(name, "SECRET-NAME")
    text = str(MachineReader(root).snapshot())
    assert "SECRET-NAME" not in text
    here = str(MachineReader().snapshot())
    assert os.uname().nodename not in here or len(os.uname().nodename) < 4
    assert str(root) not in text


def test_a_pipe_or_a_loop_in_the_tree_hangs_nothing(root: Path) -> None:
    KINDS["orin-nx"](root)
    pipe = root / "sys/class/thermal/thermal_zone0/temp"
    pipe.unlink()
    os.mkfifo(pipe)
    loop = root / "proc/meminfo"
    loop.unlink()
    loop.symlink_to("meminfo")
    snapshot = MachineReader(root).snapshot()
    assert snapshot.zones[0].temp_c is None
    assert snapshot.memory.total_kb is None


def test_links_stay_within_the_tree(root: Path) -> None:
    tree = MachineTree(root).write("real/file", "inside")
    (root / "absolute").symlink_to("/real/file")
    (root / "up").symlink_to("../../../../real/file")
    assert [Tree(tree.root).text(name) for name in ("absolute", "up", "real/../real/file")] == ["inside"] * 3


def test_another_machines_tree_is_not_mixed_with_this_machines_tools(root: Path, tmp_path: Path) -> None:
    assert runner_for(root) is no_commands
    assert runner_for(root)(["sh", "-c", "true"]).there is False
    assert runner_for(Path("/"))(["sh", "-c", "true"]).status == 0
    tool = tmp_path / "mine"
    tool.write_text("#!/bin/sh\necho $1; echo oops >&2; exit 3\n")
    tool.chmod(0o755)
    answer = runner_for(root, tmp_path)(["mine", "x"])
    assert (answer.status, answer.out, answer.why, answer.there) == (3, "x\n", "oops", True)


def test_a_tool_that_cannot_be_run_is_an_answer_too(tmp_path: Path) -> None:
    tool = tmp_path / "broken"
    tool.write_bytes(b"\x7fELFnot for this machine")
    tool.chmod(0o755)
    assert runner_in(str(tmp_path))(["broken"]).status == 126
    assert runner_in(str(tmp_path))(["absent"]).why == "absent: not found"
    assert Answer(5).why == "exit status 5"
