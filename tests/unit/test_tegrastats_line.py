"""Lines of tegrastats as JetPack 4 to 7 print them: rails and temperatures out of whatever stands around."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sdk.meter.tegrastats_line import parse_line

JP4 = (
    "RAM 1903/3964MB (lfb 4x4MB) SWAP 0/1982MB (cached 0MB) IRAM 0/252kB(lfb 252kB) "
    "CPU [12%@1479,off,10%@1479,9%@1479] EMC_FREQ 4%@1600 GR3D_FREQ 20%@921 VIC_FREQ 0%@140 APE 25 "
    "MTS fg 0% bg 0% PLL@40C CPU@42.5C PMIC@100C GPU@40C AO@47C thermal@41C POM_5V_IN 2936/3102 "
    "POM_5V_GPU 120/140 POM_5V_CPU 721/804"
)
JP5_AGX_ROOT = (
    "11-02-2023 09:14:07 RAM 4722/30588MB (lfb 5386x4MB) SWAP 0/15294MB (cached 0MB) CPU "
    "[3%@729,0%@729,off,off] "
    "EMC_FREQ 0%@2133 GR3D_FREQ 0%@[305,0] GR3D2_FREQ 0%@0 NVENC off NVDEC off NVJPG off "
    "NVJPG1 off VIC off OFA off "
    "NVDLA0 off NVDLA1 off PVA0_FREQ off APE 174 CV0@-256C CPU@48.187C Tboard@36C SOC2@44.531C Tdiode@38C "
    "SOC0@45.281C CV1@-256C GPU@-256C tj@48.187C SOC1@45.093C CV2@-256C VDD_GPU_SOC 2399mW/2399mW "
    "VDD_CPU_CV 399mW/399mW VIN_SYS_5V0 2813mW/2812mW NC 0mW/0mW VDDQ_VDD2_1V8AO 201mW/201mW NC 0mW/0mW"
)
JP6_NANO = (
    "04-18-2025 20:06:10 RAM 2881/7620MB (lfb 3x2MB) SWAP 1/3810MB (cached 0MB) CPU "
    "[0%@1510,1%@1510,0%@1510,0%@1510] "
    "GR3D_FREQ 0%@[305] cpu@47.6C soc2@46.5C soc0@45.9C gpu@46.9C tj@47.6C soc1@47C VDD_IN 4823mW/4823mW "
    "VDD_CPU_GPU_CV 643mW/643mW VDD_SOC 1447mW/1447mW"
)
JP7_THOR = (
    "09-01-2025 10:00:01 RAM 5012/125771MB (lfb 12x4MB) CPU [1%@972,2%@972] GR3D_FREQ @[0,0,0] "
    "NVENC0 off NVDEC0 off "
    "cpu@38.1C/41.0C gpu@37C/40C tj@38.5C VDD_GPU 2345mW/2300mW/2500mW VDD_CPU_SOC_MSS 5678mW/5600mW/5900mW "
    "VIN_SYS_5V0 4100mW/4100mW/4200mW VIN 24000mW/23900mW/25000mW"
)
DRIVE_ORDER = (
    "SWAP 0/15294MB (cached 0MB) RAM 4722/30588MB (lfb 5386x4MB) VDD_IN 5040mW/5010mW tj@50C GR3D_FREQ 99%"
)


@pytest.mark.parametrize(
    ("line", "rails"),
    [
        pytest.param(JP4, {"POM_5V_IN": 2936, "POM_5V_GPU": 120, "POM_5V_CPU": 721}, id="JetPack 4, no unit"),
        pytest.param(
            JP5_AGX_ROOT,
            {"VDD_GPU_SOC": 2399, "VDD_CPU_CV": 399, "VIN_SYS_5V0": 2813, "VDDQ_VDD2_1V8AO": 201},
            id="JetPack 5, NC",
        ),
        pytest.param(JP6_NANO, {"VDD_IN": 4823, "VDD_CPU_GPU_CV": 643, "VDD_SOC": 1447}, id="JetPack 6"),
        pytest.param(
            JP7_THOR,
            {"VDD_GPU": 2345, "VDD_CPU_SOC_MSS": 5678, "VIN_SYS_5V0": 4100, "VIN": 24000},
            id="JetPack 7, three values",
        ),
        pytest.param(DRIVE_ORDER, {"VDD_IN": 5040}, id="another order"),
        pytest.param("RAM 1/2MB GPU 1234/1200 CPU 800/790 SOC 400/400 CV 0/0 VDDRQ 200/200 SYS5V 1500/1500",
            {"GPU": 1234, "CPU": 800, "SOC": 400, "CV": 0, "VDDRQ": 200, "SYS5V": 1500}, id="AGX Xavier"),
        pytest.param("RAM 1/2MB VDD_IN 4823mW", {"VDD_IN": 4823}, id="no mean"),
        pytest.param("RAM 1/2MB VDD_IN 4823mW/48", {"VDD_IN": 4823}, id="cut off within the mean"),
        pytest.param("RAM 1/2MB GR3D_FREQ 0%", {}, id="JetPack 5 without root"),
    ],
)  # fmt: skip
def test_rails_are_the_power_now(line: str, rails: dict[str, int]) -> None:
    """Rows 8 and 9: units, lists of clocks, three values, other boards. The mean beside is not used."""
    found = parse_line(line)
    assert found.rails_mw == rails
    assert found.is_tegrastats


def test_a_sensor_that_is_off_is_none_not_minus_256() -> None:
    """Row 11."""
    found = parse_line(JP5_AGX_ROOT).temperatures_c
    assert found["GPU"] is found["CV0"] is found["CV1"] is found["CV2"] is None
    assert (found["CPU"], found["tj"], found["Tboard"]) == (48.187, 48.187, 36.0)


@pytest.mark.parametrize(
    ("line", "some"),
    [
        (JP4, {"PLL": 40.0, "CPU": 42.5, "thermal": 41.0}),
        (JP6_NANO, {"cpu": 47.6}),
        (JP7_THOR, {"cpu": 38.1, "gpu": 37.0}),
    ],
)
def test_temperatures_of_all_versions(line: str, some: dict[str, float]) -> None:
    found = parse_line(line).temperatures_c
    assert {name: found[name] for name in some} == some


def test_stamps() -> None:
    assert parse_line(JP6_NANO).stamp == datetime.datetime(2025, 4, 18, 20, 6, 10)
    assert parse_line(JP4).stamp is None
    assert parse_line("99-99-2025 20:06:10 RAM 1/2MB").stamp is None


def test_a_number_at_a_cut_is_not_believed() -> None:
    found = parse_line("RAM 1/2MB VDD_CPU_GPU_CV 643mW/643mW VDD_IN 48")
    assert found.rails_mw == {"VDD_CPU_GPU_CV": 643}
    assert found.truncated == ("VDD_IN",)


@pytest.mark.parametrize(
    "token",
    ["VIC_FREQ 729", "VIC 729", "VIC off", "APE 25", "NVENC off", "NVDEC0 998", "NVDLA0_FREQ @1600",
     "OFA 550",
     "PVA0_FREQ @0", "PVA0_FREQ off", "MTS fg 0% bg 0%", "GR3D_FREQ @[0,0,0]", "EMC_FREQ 2%",
     "IRAM 0/252kB(lfb 252kB)"],
)  # fmt: skip
def test_other_fields_are_neither_rails_nor_cuts(token: str) -> None:
    for line in (f"RAM 1/2MB {token} VDD_IN 4823mW/4800mW", f"RAM 1/2MB VDD_IN 4823mW/4800mW {token}"):
        found = parse_line(line)
        assert found.rails_mw == {"VDD_IN": 4823}
        assert found.truncated == ()


@pytest.mark.parametrize("line", ["", "hello", "ERROR: cannot open", "a@b"])
def test_other_text_is_not_tegrastats(line: str) -> None:
    found = parse_line(line)
    assert (found.is_tegrastats, found.rails_mw) == (False, {})


@given(st.text())
def test_no_text_breaks_it(line: str) -> None:
    parse_line(line)


@given(st.integers(0, len(JP5_AGX_ROOT)))
def test_a_line_cut_anywhere_gives_no_wrong_value(end: int) -> None:
    whole = parse_line(JP5_AGX_ROOT).rails_mw
    assert parse_line(JP5_AGX_ROOT[:end]).rails_mw.items() <= whole.items()
