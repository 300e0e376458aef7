"""Each meter with what stands for its hardware, and the choice between them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import power_trees as trees
import pytest
from test_tegrastats_line import JP5_AGX_ROOT, JP6_NANO

from edge_sdk.clock import FakeClock, MonotonicClock
from edge_sdk.devices.meters import METERS, open_meter, power_of_run
from edge_sdk.errors import ConfigError, MeterError, MeterNotFoundError
from edge_sdk.meter.base import Meter, Unavailable
from edge_sdk.meter.csv_values import ClockKind
from edge_sdk.meter.files import Tree
from edge_sdk.meter.ina3221 import Ina3221Meter
from edge_sdk.meter.jtop import HELPER, JtopMeter
from edge_sdk.meter.nvml import NvmlMeter
from edge_sdk.meter.rapl import RaplMeter
from edge_sdk.meter.recording import load_recording
from edge_sdk.meter.replay import ReplayMeter
from edge_sdk.meter.run_power import RunPower, WallFile
from edge_sdk.meter.tegrastats import TegrastatsMeter
from edge_sdk.meter.wall import align, load_csv

S = 1_000_000_000


# RAPL ---------------------------------------------------------------------------------------------------


def test_rapl_counts_packages_only(tmp_path: Path) -> None:
    clock = FakeClock(S)
    root = trees.desktop(tmp_path, packages=2)
    meter = RaplMeter(Tree(root), clock)
    assert meter.facts.total_rails == ("package-0", "package-1")
    assert (meter.facts.scope, meter.facts.origin) == ("cpu package", "tree")
    for package, energy_uj in enumerate((25_000_000, 15_000_000)):
        trees.put(root, f"sys/class/powercap/intel-rapl:{package}/energy_uj", energy_uj)
    clock.advance_ns(2 * S)
    reading = meter.read()
    assert reading.rails["package-0"].j == 20.0
    assert reading.sum_w(meter.facts.total_rails) == 15.0


def test_rapl_counters_that_start_over_lose_nothing(tmp_path: Path) -> None:
    clock = FakeClock(S)
    root = trees.desktop(tmp_path, energy_uj=262143328850 - 999_999)
    meter = RaplMeter(Tree(root), clock)
    for step, energy_uj in enumerate((1_000_000, 3_000_000), 1):
        clock.advance_ns(S)
        trees.put(root, "sys/class/powercap/intel-rapl:0/energy_uj", energy_uj)
        assert meter.read().rails["package-0"].j == 2.0 * step


@pytest.mark.parametrize(("gap_s", "count"), [(1, 5_000_000), (400, 250_000_000_000)])
def test_a_rapl_counter_that_was_reset_or_left_too_long_falls(tmp_path: Path, gap_s: int, count: int) -> None:
    """After a second a fall is no turn of a counter of 262 kJ; after 400 s it may have turned twice."""
    clock = FakeClock(S)
    root = trees.desktop(tmp_path, energy_uj=100_000_000)
    meter = RaplMeter(Tree(root), clock)
    file = "sys/class/powercap/intel-rapl:0/energy_uj"
    clock.advance_ns(S)
    trees.put(root, file, 130_000_000)
    assert meter.read().rails["package-0"].j == 30.0
    clock.advance_ns(gap_s * S)
    trees.put(root, file, count)
    reading = meter.read()
    assert reading.rails["package-0"].j is not None
    assert reading.rails["package-0"].j < 30.0
    assert reading.rails["package-0"].w is None
    assert reading.skipped[0].why == "its counter was reset, or not read for too long"
    clock.advance_ns(S)
    trees.put(root, file, count + 20_000_000)
    assert meter.read().rails["package-0"].w == pytest.approx(20.0)


def test_a_counter_that_stands_still_is_no_zero_watts(tmp_path: Path) -> None:
    clock = FakeClock(S)
    meter = RaplMeter(Tree(trees.desktop(tmp_path)), clock)
    clock.advance_ns(S)
    reading = meter.read()
    assert reading.rails == {}
    assert reading.skipped[0].why == "its counter stands still: no energy is counted"


def test_rapl_that_may_not_be_read_says_how_to_allow_it(tmp_path: Path) -> None:
    opener = trees.FailingOpener({"energy_uj": trees.EACCES})
    with pytest.raises(
        Unavailable, match=r"readable by root only; allow it with: sudo chmod a\+r /sys/class/powercap"
    ):
        RaplMeter(Tree(trees.desktop(tmp_path), opener))
    with pytest.raises(Unavailable, match="no powercap zones"):
        RaplMeter(Tree(tmp_path / "none"))


def test_rapl_that_fails_later_is_an_error(tmp_path: Path) -> None:
    opener = trees.FailingOpener()
    meter = RaplMeter(Tree(trees.desktop(tmp_path), opener))
    opener.faults = {"energy_uj": trees.EIO}
    with pytest.raises(MeterError, match=r"no counter answers any more \(package-0: EIO"):
        meter.read()


# NVML ---------------------------------------------------------------------------------------------------


class FakeNvml:
    """Stands for pynvml: values by query, or an error where there is none."""

    class NVMLError(Exception):
        pass

    def __init__(self, gpus: list[dict[str, float]], init: str = "") -> None:
        self.gpus, self.init, self.shut = gpus, init, 0

    def nvmlInit(self) -> None:  # noqa: N802 - names of the library
        if self.init:
            raise self.NVMLError(self.init)

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.shut += 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, float]:  # noqa: N802
        return self.gpus[index]

    def nvmlDeviceGetName(self, handle: dict[str, float]) -> bytes:  # noqa: N802
        return b"NVIDIA Test"

    def __getattr__(self, query: str) -> Any:
        def ask(handle: dict[str, float]) -> float:
            if query not in handle:
                raise self.NVMLError("Not Supported")
            return handle[query]

        return ask


def gpu(power_mw: float | None, energy_mj: float | None) -> dict[str, float]:
    values = {"nvmlDeviceGetPowerUsage": power_mw, "nvmlDeviceGetTotalEnergyConsumption": energy_mj}
    return {name: value for name, value in values.items() if value is not None}


def test_nvml_takes_the_energy_counter_where_there_is_one() -> None:
    library = FakeNvml([gpu(55_000, 1_000_000), gpu(30_000, None), gpu(None, None)])
    meter = NvmlMeter(FakeClock(), library)
    assert meter.facts.total_rails == ("GPU0", "GPU1")
    assert [rail.sensor for rail in meter.facts.rails] == ["nvml energy counter", "nvml power"]
    assert (meter.facts.rails[0].tau_s, meter.facts.scope) == (0.0, "gpu")
    reading = meter.read()
    assert (reading.rails["GPU0"].w, reading.rails["GPU0"].j) == (55.0, 1000.0)
    assert (reading.rails["GPU1"].w, reading.rails["GPU1"].j) == (30.0, None)
    assert [item.channel for item in meter.facts.skipped] == ["GPU2"]
    meter.close()
    meter.close()
    assert library.shut == 1


def test_orin_starts_nvml_and_answers_not_supported_which_is_no_meter() -> None:
    """Row 12: an init that works proves nothing; zero energy in silence is what came of it elsewhere."""
    library = FakeNvml([gpu(None, None)])
    with pytest.raises(Unavailable, match="GPU0 gives no power: Not Supported"):
        NvmlMeter(FakeClock(), library)
    assert library.shut == 1


def test_nvml_without_a_driver_or_a_card_is_no_meter() -> None:
    with pytest.raises(Unavailable, match="NVML does not start: Driver Not Loaded"):
        NvmlMeter(FakeClock(), FakeNvml([], "Driver Not Loaded"))
    with pytest.raises(Unavailable, match="no GPU"):
        NvmlMeter(FakeClock(), FakeNvml([]))


def test_a_gpu_that_falls_off_the_bus_is_an_error() -> None:
    library = FakeNvml([gpu(55_000, 1_000_000)])
    meter = NvmlMeter(FakeClock(), library)
    library.gpus[0].clear()
    with pytest.raises(MeterError, match=r"no GPU answers any more \(GPU0: Not Supported\)"):
        meter.read()


# Programs that print lines ------------------------------------------------------------------------------


def program(folder: Path, name: str, body: str) -> str:
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport sys, time\n{body}\n")
    path.chmod(0o755)
    return str(path)


def printing(*lines: str) -> str:
    shown = "\n".join(f"print({line!r}, flush=True)" for line in lines)
    return f"{shown}\nsys.stdin.read()\ntime.sleep(600)"


def test_tegrastats_gives_its_latest_line(tmp_path: Path) -> None:
    fake = program(tmp_path, "tegrastats", printing(JP5_AGX_ROOT))
    meter = TegrastatsMeter(
        MonotonicClock(), program=fake, first_line_s=60, tree=Tree(trees.agx_orin(tmp_path / "t"))
    )
    try:
        assert meter.facts.total_rails == ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")
        assert meter.read().sum_w(meter.facts.total_rails) == pytest.approx(5.611)
        assert meter.read().at_ns == meter.read().at_ns  # the moment its line came, not now
    finally:
        meter.close()
        meter.close()


def test_tegrastats_that_is_not_there_or_says_nothing_useful(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="is not in PATH"):
        TegrastatsMeter(program=str(tmp_path / "none"))
    fake = program(tmp_path, "tegrastats", printing("RAM 1/2MB GR3D_FREQ 0%"))
    with pytest.raises(Unavailable, match="its lines hold no rails: JetPack 5 shows them to root only"):
        TegrastatsMeter(program=fake, first_line_s=60)
    fake = program(tmp_path, "broken", "print('no such device', file=sys.stderr); sys.exit(3)")
    with pytest.raises(Unavailable, match="ended with status 3: no such device"):
        TegrastatsMeter(program=fake, first_line_s=60)
    fake = program(tmp_path, "silent", "time.sleep(600)")
    with pytest.raises(Unavailable, match=r"no line within 0\.1 s"):
        TegrastatsMeter(program=fake, first_line_s=0.1)


JTOP = {
    "VDD_IN": [5008, 1200, 6009],
    "VDD_SOC": [5008, 240, 1201],
    "NC": [0, 0, 0],
    "ucsi-x": [5000, 3000, 15000],
}


def test_jetson_stats_is_asked_in_a_process_of_its_own(tmp_path: Path) -> None:
    """A stand-in for the package jtop on the helper's path; this process must never import either."""
    rails = {name: dict(zip(("volt", "curr", "power"), values, strict=True)) for name, values in JTOP.items()}
    (tmp_path / "jtop.py").write_text(
        "import time\nclass jtop:\n    def __init__(self, interval): self.left = 1\n"
        "    def __enter__(self): return self\n    def __exit__(self, *error): pass\n"
        "    def ok(self):\n        self.left -= 1\n"
        "        if self.left < 0: time.sleep(600)\n        return True\n"
        f"    power = {{'rail': {rails!r}}}\n"
    )
    command = (sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{HELPER}")
    meter = JtopMeter(installed=lambda name: "4.3", command=command, tree=Tree(tmp_path), first_line_s=60)
    try:
        assert "jtop" not in sys.modules
        assert set(meter.read().rails) == {"VDD_IN", "VDD_SOC"}
        assert meter.facts.total_rails == ("VDD_IN",)
        assert meter.read().sum_w(("VDD_IN",)) == 6.009
    finally:
        meter.close()


def test_jetson_stats_that_is_missing_or_broken_is_no_meter(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"pip install 'jetson-stats>=4\.2' \(in a checkout"):
        JtopMeter(installed=lambda name: "")
    for body, words in (
        (
            "sys.exit('The jtop.service is not active')",
            "The jtop.service is not active. Is its service running",
        ),
        ("print('[1]', flush=True)", "expected an object of rails"),
        ("print('{}', flush=True)", "shows no rails"),
    ):
        command = (sys.executable, "-c", f"import sys\n{body}")
        with pytest.raises(Unavailable, match=words):
            JtopMeter(installed=lambda name: "4.3", command=command, first_line_s=60)


# A wall meter's file ------------------------------------------------------------------------------------


def write_csv(path: Path, rows: list[tuple[Any, Any]], header: str = "timestamp,power_w") -> Path:
    path.write_text("\n".join([header, *(f"{a},{b}" for a, b in rows)]) + "\n")
    return path


@pytest.mark.parametrize(
    ("header", "rows", "seconds", "watts", "absolute"),
    [
        ("time_s,power_w", [(0.5, 10), (1.5, 12)], [0.5, 1.5], [10, 12], False),
        ("Timestamp,Watts", [(1767322800, 10), (1767322801, 12)], [1767322800, 1767322801], [10, 12], True),
        (
            "timestamp,power_mw", [(1767322800500, 10500), (1767322801500, 9000)],
            [1767322800.5, 1767322801.5], [10.5, 9], True,
        ),
        (
            "time,W", [("2026-01-02T03:00:00+00:00", 10), ("2026-01-02T03:00:01Z", 12)],
            [1767322800, 1767322801], [10, 12], True,
        ),
    ],
)  # fmt: skip
def test_columns_and_times_of_many_kinds(
    tmp_path: Path,
    header: str,
    rows: list[tuple[Any, Any]],
    seconds: list[float],
    watts: list[float],
    absolute: bool,
) -> None:
    found = load_csv(write_csv(tmp_path / "wall.csv", rows, header))
    assert found.seconds.tolist() == pytest.approx(seconds)
    assert found.watts["wall"].tolist() == watts
    assert (found.kind is ClockKind.DATED) is absolute


def test_rows_that_cannot_be_used_are_dropped_with_their_line(tmp_path: Path) -> None:
    rows = [(0, 10), (1, "-"), (2, 11), (1.5, 11), (3, "nan"), (4, 12)]
    found = load_csv(write_csv(tmp_path / "wall.csv", rows))
    assert found.dropped == (
        (3, "'-' is no number"),
        (5, "not after the sample before it"),
        (6, "not a finite number"),
    )
    assert found.watts["wall"].tolist() == [10, 11, 12]


@pytest.mark.parametrize(
    ("text", "words"),
    [("a,b\n1,2\n", "Found a, b"), ("", "found nothing"), ("time,watts\n1,2\n", "1 samples can be read")],
)
def test_a_file_that_is_no_recording_is_an_error(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "wall.csv"
    path.write_text(text)
    with pytest.raises(MeterError, match=words):
        load_csv(path)
    with pytest.raises(MeterError, match="cannot be read"):
        load_csv(tmp_path / "none.csv")


def wall_rows(first_s: float, busy: tuple[float, float], last_s: float) -> list[tuple[float, float]]:
    return [
        (round(t, 2), 25.0 if busy[0] <= t < busy[1] else 9.0)
        for t in np.arange(first_s, last_s, 0.2).tolist()
    ]


def test_an_offset_is_found_from_the_run_itself(tmp_path: Path) -> None:
    recording = load_csv(write_csv(tmp_path / "wall.csv", wall_rows(100, (117.3, 137.3), 160)))
    shift_s, match = align(recording, [(10.0, 30.0)], (2.0, 36.0))
    assert shift_s == pytest.approx(-107.3, abs=0.2)
    assert match > 0.95


def test_power_that_does_not_follow_the_run_cannot_be_aligned(tmp_path: Path) -> None:
    flat = load_csv(write_csv(tmp_path / "wall.csv", [(t, 9 + t % 2) for t in range(100)]))
    with pytest.raises(MeterError, match="cannot be aligned: its power does not rise and fall with the run"):
        align(flat, [(10.0, 30.0)], (2.0, 36.0))
    with pytest.raises(
        MeterError, match=r"\(10\.0 s\) does not cover the run with its idle times \(34\.0 s\)"
    ):
        align(
            load_csv(write_csv(tmp_path / "short.csv", [(t, t) for t in range(11)])),
            [(10.0, 30.0)],
            (2.0, 36.0),
        )


@pytest.mark.parametrize("offset_s", [None, 5.0])
def test_a_wall_meter_follows_a_run_by_its_file(tmp_path: Path, offset_s: float | None) -> None:
    """The meter's dates are 5 s ahead of ours; the run begins at 20 s of our clock, 1700000020 by date."""
    clock = FakeClock()
    path = tmp_path / "wall.csv"
    power = RunPower(
        WallFile(path, offset_s, lambda: 1_700_000_000 + clock.now_ns() / 1e9), idle_s=6, clock=clock
    )
    clock.sleep_until_ns(12 * S)
    power.before()
    start_ns = clock.now_ns()
    clock.advance_ns(20 * S)
    end_ns = clock.now_ns()
    power.after()
    busy = tuple(1_700_000_005 + edge / 1e9 for edge in (start_ns, end_ns))
    rows = wall_rows(1_700_000_005, (busy[0], busy[1]), 1_700_000_060)
    write_csv(path, rows)
    part = power.part((start_ns, end_ns))
    assert (part.facts.origin, part.facts.scope) == ("external", "board")
    assert "aligned" in part.facts.note
    inside = (part.trace.times_ns >= start_ns + S) & (part.trace.times_ns < end_ns - S)
    assert set(part.trace.watts["wall"][inside].tolist()) == {25.0}
    assert part.idle_before is not None


# The choice ---------------------------------------------------------------------------------------------


def test_auto_takes_the_first_that_answers_and_lists_the_others(tmp_path: Path) -> None:
    assert open_meter(root=trees.orin_nx(tmp_path / "nx")).facts.meter == "ina3221"
    facts = open_meter(root=trees.desktop(tmp_path / "pc")).facts
    assert facts.meter == "rapl"
    assert [name for name, _ in facts.tried] == ["ina3221", "jtop", "tegrastats", "nvml"]
    assert "no hwmon or iio device" in facts.tried[0][1]


def test_no_sensor_is_an_error_that_lists_what_was_tried(tmp_path: Path) -> None:
    with pytest.raises(MeterNotFoundError, match=r"no power sensor .ina3221: no /sys here") as caught:
        open_meter(root=trees.container(tmp_path))
    assert [name for name, _ in caught.value.tried] == ["ina3221", "jtop", "tegrastats", "nvml", "rapl"]
    assert "--meter external:FILE" in str(caught.value)


def test_a_meter_by_name_is_not_replaced_by_another(tmp_path: Path) -> None:
    with pytest.raises(MeterNotFoundError) as caught:
        open_meter("rapl", root=trees.orin_nx(tmp_path))
    assert [name for name, _ in caught.value.tried] == ["rapl"]
    with pytest.raises(ConfigError, match=r"found 'ina322'\. Did you mean 'ina3221'\?"):
        open_meter("ina322")


def test_a_run_without_a_sensor_says_so_and_goes_on(tmp_path: Path) -> None:
    with power_of_run("auto", root=trees.container(tmp_path)) as power:
        assert isinstance(power, str)
        assert power.startswith("no power sensor: ina3221: no /sys here")
    with power_of_run("none") as power:
        assert power == "no power sensor read"
    with pytest.raises(MeterNotFoundError), power_of_run("ina3221", root=tmp_path):
        pass
    with (
        pytest.raises(ConfigError, match="idle_s: expected 0 or at least 2 s, found 1"),
        power_of_run("auto", root=trees.orin_nx(tmp_path / "nx"), idle_s=1),
    ):
        pass


def test_every_meter_that_can_be_asked_for_is_listed() -> None:
    assert METERS == (
        "auto", "none", "ina3221", "jtop", "tegrastats", "nvml", "rapl", "external:FILE", "replay:FILE",
    )  # fmt: skip


def _ina3221(folder: Path) -> Meter:
    return Ina3221Meter(Tree(trees.agx_orin(folder)))


def _rapl(folder: Path) -> Meter:
    return RaplMeter(Tree(trees.desktop(folder)))


def _nvml(folder: Path) -> Meter:
    return NvmlMeter(library=FakeNvml([gpu(55_000, None)]))


def _tegrastats(folder: Path) -> Meter:
    return TegrastatsMeter(program=program(folder, "tegrastats", printing(JP6_NANO)), first_line_s=60)


def _jtop(folder: Path) -> Meter:
    body = f"import time\nprint({json.dumps(JTOP)!r}, flush=True)\ntime.sleep(600)"
    return JtopMeter(installed=lambda name: "4", command=(sys.executable, "-c", body), first_line_s=60)


def _replay(folder: Path) -> Meter:
    path = folder / "a.log"
    path.write_text("\n".join([JP6_NANO] * 600))
    return ReplayMeter(load_recording(path, interval_s=1.0))


@pytest.mark.parametrize("open_one", [_ina3221, _rapl, _nvml, _tegrastats, _jtop, _replay])
def test_every_meter_keeps_the_contract(open_one: Any, tmp_path: Path) -> None:
    meter: Meter = open_one(tmp_path)
    try:
        facts, reading = meter.facts, meter.read()
        labels = {rail.label for rail in facts.rails}
        assert facts.rails
        assert labels.issuperset(reading.rails)
        assert labels.issuperset(facts.total_rails)
        assert facts.board
        assert reading.before_ns <= reading.at_ns <= reading.after_ns
        assert all(rail.sensor for rail in facts.rails)
        assert all(rail.gain_share > 0 for rail in facts.rails)
        for values in reading.rails.values():
            assert values.w is None or values.w >= 0
        assert all(label != "NC" and not label.startswith("ucsi") for label in labels)
    finally:
        meter.close()
        meter.close()
