"""What doctor says of machines that are not here, and what to do about each thing."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
from machine_trees import KINDS, failing, write_tools
from typer.testing import CliRunner

from edge_sdk.cli.main import app
from edge_sdk.clock import FakeClock
from edge_sdk.devices.finding import Finding
from edge_sdk.devices.state_findings import state_findings
from edge_sdk.errors import ConfigError
from edge_sdk.machine_state.commands import Answer, runner_in
from edge_sdk.machine_state.leftover import STATE_FOLDER, Leftover, PutBack
from edge_sdk.machine_state.reader import MachineReader


def look(reader: MachineReader, leftover: Leftover | None = None) -> dict[str, Finding]:
    return {item.what: item for item in state_findings(reader.snapshot(), leftover)}


def test_a_healthy_jetson_is_told_how_to_hold_its_clocks(tmp_path: Path) -> None:
    KINDS["agx-orin-jp6"](tmp_path / "root")
    run = runner_in(str(write_tools(tmp_path / "tools", tmp_path / "root")))
    found = look(MachineReader(tmp_path / "root", run=run))
    assert {item.state for item in found.values()} == {"ok"}
    assert found["Board"].found == "NVIDIA Jetson AGX Orin Developer Kit (p3701-0000, tegra234)"
    assert found["Jetson Linux"].found == "L4T 36.4.3, JetPack 6.2"
    assert "MODE_15W (id 1), MODE_30W (id 2)" in found["Power mode"].advice
    assert found["Clock lock"].found == "not locked"
    assert "`sudo jetson_clocks`, after any nvpmodel" in found["Clock lock"].advice
    assert found["Throttle counters"].found == "oc1 0, oc2 4, oc3 120 since boot"


def test_an_unknown_jetpack_is_no_fault(tmp_path: Path) -> None:
    KINDS["orin-nx"](tmp_path).release(41, "0.0")
    found = look(MachineReader(tmp_path))["Jetson Linux"]
    assert (found.state, found.found) == ("ok", "L4T 41.0.0, unknown JetPack")


def test_the_conf_of_another_module_is_a_fault(tmp_path: Path) -> None:
    """Issue 21: a p3767-0005-super once fell through to the file of the AGX."""
    KINDS["orin-nano-super"](tmp_path)
    (tmp_path / "etc/nvpmodel.conf").unlink()
    (tmp_path / "etc/nvpmodel/nvpmodel_p3701_0000.conf").write_text("< POWER_MODEL ID=1 NAME=MODE_15W >\n")
    (tmp_path / "etc/nvpmodel.conf").symlink_to("/etc/nvpmodel/nvpmodel_p3701_0000.conf")
    found = look(MachineReader(tmp_path))["Power mode"]
    assert found.state == "fault"
    assert "The modes are of p3701, this module is p3767" in found.advice


def test_a_failing_nvpmodel_is_quoted(tmp_path: Path) -> None:
    KINDS["orin-nx"](tmp_path)
    (tmp_path / "var/lib/nvpmodel/status").unlink()
    reader = MachineReader(tmp_path, run=lambda _: Answer(1, "", "NVPM ERROR: no mode set"))
    found = look(reader)["Power mode"]
    assert (found.state, found.found) == ("absent", "unknown; NVPM ERROR: no mode set")


def test_heat_and_throttling_are_faults(tmp_path: Path) -> None:
    tree = KINDS["orin-nx"](tmp_path).cooling(1, "cpufreq-cpu0", 3)
    tree.write("sys/class/thermal/thermal_zone0/temp", 97_000)
    tree.write("sys/devices/system/cpu/cpufreq/policy0/cpuinfo_cur_freq", 700_000)
    found = look(MachineReader(tmp_path))
    assert (found["Throttling"].state, found["Throttling"].found) == ("fault", "cpufreq-cpu0 at 3")
    assert found["Temperature"].state == found["Clock cpu0-3"].state == "fault"
    assert "Clocks are held back from 95 °C on" in found["Temperature"].advice


def test_what_root_would_add_and_what_is_broken_are_said(tmp_path: Path) -> None:
    KINDS["agx-orin-jp6"](tmp_path)
    opener = failing(
        {
            "emc/rate": errno.EACCES,
            "policy0/cpuinfo_cur_freq": errno.EACCES,
            "thermal_zone0/temp": errno.EIO,
            "thermal_zone1/temp": errno.EAGAIN,
        }
    )
    found = look(MachineReader(tmp_path, opener=opener))
    assert found["Root would add"].found == "measured clock of cpu0-3, EMC clock and whether it is held"
    assert found["Unreadable"].found.startswith("thermal zone cpu-thermal: EIO")
    assert "gpu-thermal offline" in found["Temperature"].found
    assert (found["Clock lock"].state, found["Clock lock"].found) == ("ok", "not locked")


def test_a_container_is_told_what_to_mount(tmp_path: Path) -> None:
    """Issue 16."""
    KINDS["container"](tmp_path / "bare")
    found = look(MachineReader(tmp_path / "bare"))
    for path in ("/etc/nv_tegra_release", "/etc/nvpmodel.conf", "/usr/sbin/nvpmodel", "/sys:/sys:ro"):
        assert path in found["Board"].advice
    KINDS["orin-nx"](tmp_path / "nx").write(".dockerenv", "")
    (tmp_path / "nx/proc/device-tree").unlink()
    (tmp_path / "nx/sys/firmware").rename(tmp_path / "masked")
    found = look(MachineReader(tmp_path / "nx"))
    assert (found["Board"].state, "systempaths=unconfined" in found["Board"].advice) == ("absent", True)


def test_a_desktop_is_told_what_it_has(tmp_path: Path) -> None:
    KINDS["desktop"](tmp_path)
    found = look(MachineReader(tmp_path))
    assert (found["Board"].found, found["Board"].advice) == ("no Jetson", "")
    assert "Power mode" not in found
    assert "cpupower" in found["Clock lock"].advice


def test_a_jetson_without_gpu_clock_or_counters_is_told_what_follows(tmp_path: Path) -> None:
    KINDS["xavier-nx"](tmp_path)
    (tmp_path / "sys/class/devfreq").rename(tmp_path / "hidden")
    found = look(MachineReader(tmp_path, clock=FakeClock()))
    assert "late after boot" in found["Clock gpu"].advice
    assert "will be INVALID" in found["Throttle counters"].advice


@pytest.mark.parametrize(("alive", "state"), [(True, "ok"), (False, "fault")])
def test_a_prepared_machine_is_told(alive: bool, state: str, tmp_path: Path) -> None:
    KINDS["desktop"](tmp_path)
    leftover = Leftover(alive, PutBack(relock=True), clocks_stored=False)
    found = look(MachineReader(tmp_path), leftover)["Prepared state"]
    assert (found.state, "clocks were held" in found.found) == (state, True)


def test_show_writes_the_snapshot_and_says_whose_it_is(tmp_path: Path) -> None:
    KINDS["orin-nano"](tmp_path / "root")
    file = tmp_path / "state.json"
    arguments = ["machine", "show", "--root", str(tmp_path / "root"), "--json", str(file)]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    assert "not from this machine" in result.output
    document = json.loads(file.read_text())
    assert (document["schema"], document["this_machine"]) == ("edge-sdk/machine", False)
    assert document["power_mode"]["name"] == "15W"
    assert document["locked"] is False
    assert document["zones"][0] == {"name": "cpu-thermal", "temp_c": 48.0, "state": "ok", "passive_c": 95.0}


def test_show_of_this_machine_and_of_nothing(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["machine", "show"], env={"COLUMNS": "160"})
    assert (result.exit_code, "State of this machine" in result.output) == (0, True)
    missing = CliRunner().invoke(app, ["machine", "show", "--root", str(tmp_path / "none")])
    assert isinstance(missing.exception, ConfigError)


def test_prepare_without_apply_prints_commands(tmp_path: Path) -> None:
    KINDS["orin-nx"](tmp_path)
    asked = ["machine", "prepare", "--root", str(tmp_path), "--mode", "25w", "--lock-clocks"]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    assert "nvpmodel -m 3    # 40W (id 4, nvpmodel_p3767_0000_super.conf) to 25W" in result.output
    assert "Nothing was changed." in result.output
    assert not (tmp_path / STATE_FOLDER).exists()
    assert isinstance(CliRunner().invoke(app, [*asked, "--apply"]).exception, ConfigError)
