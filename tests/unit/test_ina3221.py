"""The INA3221 in sysfs: every board's total, every channel that is no rail, every way a file can fail."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import power_trees as trees
import pytest

from edge_sdk.errors import MeterError
from edge_sdk.meter.base import Unavailable
from edge_sdk.meter.boards import board_of_labels
from edge_sdk.meter.files import Tree
from edge_sdk.meter.ina3221 import Ina3221Meter, ina3221_rail, time_constant

AGX = ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")
AGX_W = 19.992 * 0.4 + 19.992 * 0.12 + 5.008 * 0.64
XAVIER = ("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V")


def opened(root: Path, opener: trees.FailingOpener | None = None) -> Ina3221Meter:
    return Ina3221Meter(Tree(root, opener or trees.FailingOpener()))


def whys(meter: Ina3221Meter) -> dict[str, str]:
    return {item.channel: item.why for item in meter.facts.skipped}


@pytest.mark.parametrize(
    ("build", "total", "watts"),
    [
        pytest.param(lambda root: trees.agx_orin(root, 5), AGX, AGX_W, id="AGX Orin, JetPack 5"),
        pytest.param(lambda root: trees.agx_orin(root, 6), AGX, AGX_W, id="AGX Orin, JetPack 6"),
        pytest.param(lambda root: trees.agx_orin(root, 7), AGX, AGX_W, id="AGX Orin, JetPack 7"),
        pytest.param(trees.orin_nx, ("VDD_IN",), 5.008 * 1.2, id="Orin NX"),
        pytest.param(trees.orin_nano, ("VDD_IN",), 5.008 * 1.2, id="Orin Nano"),
        pytest.param(trees.xavier_nx, ("VDD_IN",), 5.008 * 1.2, id="Xavier NX"),
        pytest.param(trees.agx_xavier, XAVIER, 19.2 * 0.22 + 4.8 * 0.5, id="AGX Xavier"),
        pytest.param(trees.jetpack4, XAVIER, 5 * 0.72, id="AGX Xavier, JetPack 4"),
        pytest.param(trees.thor, ("VIN",), 45.54, id="Thor"),
    ],
)
def test_the_module_total_is_that_of_the_board(
    tmp_path: Path, build: Callable[[Path], Path], total: tuple[str, ...], watts: float
) -> None:
    """Rows 1 to 6, 9 and 13 of the list of real issues: neither too few rails, nor children counted twice."""
    meter = opened(build(tmp_path))
    assert meter.facts.total_rails == total
    assert meter.facts.scope == "module"
    assert meter.read().sum_w(total) == pytest.approx(watts)
    assert "NVIDIA" in meter.facts.board or "Jetson" in meter.facts.board


def test_rails_keep_the_boards_labels_and_vddq_is_never_added(tmp_path: Path) -> None:
    reading = opened(trees.agx_orin(tmp_path)).read()
    assert set(reading.rails) == {*AGX, "VDDQ_VDD2_1V8AO"}
    rail = reading.rails["VIN_SYS_5V0"]
    assert (rail.v, rail.a, rail.w) == (5.008, 0.64, pytest.approx(3.20512))


def test_chips_are_found_by_name_and_label_whatever_their_number(tmp_path: Path) -> None:
    first = opened(trees.agx_orin(tmp_path / "a", numbers=(3, 4)))
    other = opened(trees.agx_orin(tmp_path / "b", numbers=(12, 2)))
    assert first.facts.total_rails == other.facts.total_rails
    assert {rail.sensor for rail in first.facts.rails} == {rail.sensor for rail in other.facts.rails}


def test_a_copied_tree_without_links_is_read_too(tmp_path: Path) -> None:
    trees.identity(tmp_path, "NVIDIA Jetson Orin NX", "nvidia,p3767-0000")
    where = "sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon1"
    for name, value in {
        "name": "ina3221",
        "in1_label": "VDD_IN",
        "in1_input": 5000,
        "curr1_input": 1000,
    }.items():
        trees.put(tmp_path, f"{where}/{name}", value)
    meter = opened(tmp_path)
    assert meter.read().sum_w(meter.facts.total_rails) == 5.0
    assert meter.facts.rails[0].sensor == "ina3221 1-0040/in1"


def test_what_is_no_rail_is_named_and_not_read(tmp_path: Path) -> None:
    found = whys(opened(trees.agx_orin(tmp_path / "5", 5)))
    assert found["1-0041/in1 NC"] == found["1-0041/in3 NC"] == "not connected"
    found = whys(opened(trees.agx_orin(tmp_path / "6", 6)))
    assert found["1-0040/in7"] == "sum of shunt voltages, not a rail"
    assert found["1-0040/curr4"] == "sum of channels, not a rail"
    assert found["1-0041/in1"].startswith("no label")
    assert found["ucsi-source-psy-1-00081"] == "a USB-PD contract, not a rail"
    assert found["hwmon0/ucsi_source_psy_1_00081"] == "a USB-PD contract, not a rail"


@pytest.mark.parametrize("label", ["NC", "NC1", "RAIL_NC", "nc NC"])
def test_nc_is_a_word_of_the_label(tmp_path: Path, label: str) -> None:
    trees.orin_nx(tmp_path)
    trees.hwmon(tmp_path, 2, "1-0041", [(label, 0, 0), ("VDD_SYNC", 5000, 100)])
    meter = opened(tmp_path)
    assert whys(meter)[f"1-0041/in1 {label}"] == "not connected"
    assert "VDD_SYNC" in meter.read().rails


@pytest.mark.parametrize(
    ("number", "name"),
    [(errno.ENODATA, "ENODATA"), (errno.EIO, "EIO"), (errno.EAGAIN, "EAGAIN"), (errno.EACCES, "EACCES")],
)
@pytest.mark.parametrize("file", ["in2_input", "curr2_input"])
def test_a_channel_that_fails_stops_no_other(tmp_path: Path, number: int, name: str, file: str) -> None:
    meter = opened(trees.orin_nx(tmp_path), trees.FailingOpener({f"hwmon1/{file}": number}))
    assert set(meter.read().rails) == {"VDD_IN", "VDD_SOC"}
    assert name in whys(meter)["1-0040/in2 VDD_CPU_GPU_CV"]
    assert meter.facts.total_rails == ("VDD_IN",)


def test_no_total_without_one_of_its_rails(tmp_path: Path) -> None:
    meter = opened(trees.agx_orin(tmp_path), trees.FailingOpener({"hwmon3/curr3_input": errno.EIO}))
    assert meter.facts.total_rails == ()
    assert meter.facts.scope == "rails"
    assert meter.facts.note == "AGX Orin: no total without VIN_SYS_5V0"


def test_a_rail_that_fails_later_is_missing_then_and_comes_back(tmp_path: Path) -> None:
    opener = trees.FailingOpener()
    meter = opened(trees.orin_nx(tmp_path), opener)
    opener.faults = {"curr1_input": errno.EIO}
    reading = meter.read()
    assert "VDD_IN" not in reading.rails
    assert [(item.channel, "EIO" in item.why) for item in reading.skipped] == [("VDD_IN", True)]
    assert reading.sum_w(("VDD_IN",)) is None
    opener.faults = {"_input": errno.EIO}
    with pytest.raises(MeterError, match=r"no rail answers any more \(VDD_IN: EIO"):
        meter.read()
    opener.faults = {}
    assert meter.read().sum_w(("VDD_IN",)) == pytest.approx(6.0096)


def test_text_that_is_no_number_is_a_fault_of_that_channel(tmp_path: Path) -> None:
    meter = opened(trees.orin_nx(tmp_path), trees.FailingOpener(contents={"hwmon1/in3_input": "n/a"}))
    assert whys(meter)["1-0040/in3 VDD_SOC"] == "EINVAL (no number in it but 'n/a')"
    assert "VDD_IN" in meter.read().rails


def test_a_disabled_channel_is_not_read_and_shortens_the_lag(tmp_path: Path) -> None:
    trees.orin_nx(tmp_path)
    trees.put(tmp_path, "sys/class/hwmon/hwmon1/in3_enable", 0)
    meter = opened(tmp_path)
    assert whys(meter)["1-0040/in3 VDD_SOC"] == "disabled (in3_enable is 0)"
    assert meter.facts.rails[0].tau_s == pytest.approx(0.2867, abs=1e-3)


def test_an_unknown_board_has_rails_and_no_total_and_says_so(tmp_path: Path) -> None:
    meter = opened(trees.unknown_board(tmp_path))
    assert set(meter.read().rails) == {"VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"}
    assert (meter.facts.scope, meter.facts.total_rails) == ("rails", ())
    assert meter.facts.note == "board 'Acme Carrier' is not known here: its rails are shown, not added up"
    assert meter.read().sum_w(()) is None


def test_no_voltage_is_held_for_implausible(tmp_path: Path) -> None:
    """Row 14: VDD_IN of an Orin is near 5 V, and a tool that expected 10 to 25 V threw every sample away."""
    for millivolts in (4744, 5008, 12032, 19992):
        root = tmp_path / str(millivolts)
        trees.identity(root, "", "nvidia,p3767-0000")
        trees.hwmon(root, 1, "1-0040", [("VDD_IN", millivolts, 1000)])
        assert opened(root).read().sum_w(("VDD_IN",)) == millivolts / 1e3


def test_a_container_without_sys_is_no_zero_watts(tmp_path: Path) -> None:
    """Rows 4 and 16: an error that says what to mount, where others print 0 W."""
    with pytest.raises(Unavailable, match=r"no /sys here: start the container with -v /sys:/sys:ro"):
        opened(trees.container(tmp_path))


def test_a_machine_without_the_chip_says_what_it_looked_for(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no hwmon or iio device of the driver ina3221 or ina238"):
        opened(trees.desktop(tmp_path))
    with pytest.raises(Unavailable, match=r"1 power monitors, no rail of them answers .*VDD_IN: EACCES"):
        opened(trees.orin_nx(tmp_path / "nx"), trees.FailingOpener({"_input": errno.EACCES}))


def test_a_tree_says_that_it_is_none_of_this_machine(tmp_path: Path) -> None:
    facts = opened(trees.orin_nx(tmp_path)).facts
    assert facts.origin == "tree"
    assert "not the power of this machine" in facts.named


def test_thors_input_monitor_counts_microwatts_and_does_not_lag(tmp_path: Path) -> None:
    meter = opened(trees.thor(tmp_path))
    rail = next(rail for rail in meter.facts.rails if rail.label == "VIN")
    assert (rail.tau_s, rail.in_total) == (0.0, True)
    assert meter.read().rails["VIN"].w == pytest.approx(45.54)
    (tmp_path / "sys/class/hwmon/hwmon5/label").unlink()
    meter = opened(tmp_path)
    assert meter.facts.note == "Thor: no total without VIN"


@pytest.mark.parametrize(
    ("samples", "interval_ms", "channels", "tau_s", "share"),
    [
        (512, 430, 3, 0.43, 0.15),  # L4T before the driver's change
        (512, 1, 3, 0.43, 0.15),  # after it: one cycle, in whole milliseconds
        (512, 0, 1, 0.143, 0.15),
        (1, 7, 3, 0.0066, 0.15),  # the chip as it comes out of reset: 1.1 ms conversions
        (1, None, 3, 0.0066, 0.5),
        (64, 9999, 3, 0.0538, 0.5),  # explained by no conversion time
        (None, 430, 3, 0.43, 0.5),
        (0, 430, 3, 0.43, 0.5),
    ],
)
def test_tau_is_samples_times_conversion_times_channels(
    samples: int | None, interval_ms: int | None, channels: int, tau_s: float, share: float
) -> None:
    found_s, found_share = time_constant(samples, interval_ms, channels)
    assert found_s == pytest.approx(tau_s, rel=0.01)
    assert found_share == share


def test_errors_are_those_of_the_data_sheet() -> None:
    """jetson.md 1.6: a step of 400 mW and an offset of 800 mW on a 20 V rail, 40 and 80 mW on NX."""
    agx = ina3221_rail("VDD_GPU_SOC", "", 20.0, 0.5, 2000, 0.43, 0.15)
    assert (agx.lsb_w, agx.offset_w) == (pytest.approx(0.4, rel=0.01), pytest.approx(0.8))
    nx = ina3221_rail("VDD_IN", "", 5.0, 1.0, 5000, 0.43, 0.15)
    assert (nx.lsb_w, nx.offset_w) == (pytest.approx(0.04, rel=0.03), pytest.approx(0.08))
    assert 0.002 < agx.gain_share < nx.gain_share < 0.003


def test_a_log_is_of_the_board_that_its_rails_tell() -> None:
    assert board_of_labels({*AGX, "VDDQ_VDD2_1V8AO"}).family == "AGX Orin"
    assert board_of_labels(set(XAVIER)).family == "AGX Xavier"
    assert board_of_labels({"POM_5V_IN", "POM_5V_GPU"}).totals == (("POM_5V_IN",),)
    assert board_of_labels({"VDD_IN", "VDD_SOC"}).totals == (("VDD_IN",),)
    assert board_of_labels({"VDD_SOC"}).totals == ()
