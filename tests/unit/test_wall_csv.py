"""What a wall meter's file means: names that are exact or bear a unit, times of every kind, and refusals."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_sdk.errors import MeterError
from edge_sdk.meter.csv_values import ClockKind, number
from edge_sdk.meter.recording import load_recording, replay_json
from edge_sdk.meter.wall import WallRecording, align, load_csv

START = 1_767_322_800  # 2026-01-02 03:00:00 UTC


def read(folder: Path, text: str, encoding: str = "utf-8") -> WallRecording:
    path = folder / "wall.csv"
    path.write_bytes(text.encode(encoding))
    return load_csv(path)


def refused(folder: Path, text: str, words: str) -> None:
    with pytest.raises(MeterError, match=words):
        read(folder, text)


@pytest.mark.parametrize(
    ("header", "value", "watts"),
    [
        ("power_w", "17.5", 17.5),
        ("Power (W)", "17.5", 17.5),
        ("Active Power/W", "17.5", 17.5),
        ("Watts", "17.5", 17.5),
        ("W", "17.5", 17.5),
        ("power", "17.5", 17.5),
        ("apower", "17.5", 17.5),
        ("power_kw", "0.0175", 17.5),
        ("Power [mW]", "17500", 17.5),
        ("power_uw", "17500000", 17.5),
        ("Leistung (W)", "17.5", 17.5),
    ],
)
def test_a_power_column_is_exact_or_bears_its_unit(
    tmp_path: Path, header: str, value: str, watts: float
) -> None:
    found = read(tmp_path, f"time_s,{header}\n0,{value}\n1,{value}\n")
    assert found.total_w.tolist() == pytest.approx([watts, watts])
    assert header.strip() in found.facts.note


@pytest.mark.parametrize(
    "header",
    [
        "power_factor", "power_on_hours", "power_limit_w", "VA", "apparent_power_va", "Power (VA)",
        "reactive_var", "max_power_w", "voltage", "powerful", "p95",
    ],
)  # fmt: skip
def test_what_only_sounds_like_power_is_not_taken(tmp_path: Path, header: str) -> None:
    refused(tmp_path, f"time,{header}\n0,5\n1,5\n", f"no column of power whose unit is known.*{header[:3]}")
    found = read(tmp_path, f"time,{header},power_w\n0,773,5.3\n1,773,5.3\n")
    assert found.total_w.tolist() == [5.3, 5.3]


def test_of_two_candidates_none_is_taken(tmp_path: Path) -> None:
    refused(
        tmp_path,
        "time,plug1_w,plug2_w\n0,5,7\n1,5,7\n",
        r"2 columns of power \('plug1_w', 'plug2_w'\): which is meant cannot be told",
    )


def test_a_file_without_time_names_its_header(tmp_path: Path) -> None:
    refused(tmp_path, "power_w,voltage\n1,2\n", "no column of time .*Found power_w, voltage")


@pytest.mark.parametrize(
    ("name", "scale"), [("timestamp", 1), ("timestamp", 10**3), ("timestamp", 10**6), ("timestamp", 10**9)]
)
def test_stamps_of_any_fineness_are_told_by_their_size(tmp_path: Path, name: str, scale: int) -> None:
    rows = "".join(f"{(START + second) * scale},5\n" for second in range(3))
    found = read(tmp_path, f"{name},power_w\n{rows}")
    assert found.seconds.tolist() == pytest.approx([START, START + 1, START + 2])
    assert found.kind is ClockKind.DATED


@pytest.mark.parametrize(
    ("name", "steps", "seconds"),
    [
        ("time_ms", (0, 500, 1000), (0, 0.5, 1)),
        ("time (ms)", (0, 500, 1000), (0, 0.5, 1)),
        ("Time [us]", (0, 500_000, 10**6), (0, 0.5, 1)),
        ("t_ns", (0, 500_000_000, 10**9), (0, 0.5, 1)),
        ("elapsed_min", (0, 1, 2), (0, 60, 120)),
        ("seconds", (0, 1, 2), (0, 1, 2)),
    ],
)
def test_a_unit_of_time_in_the_header_counts(
    tmp_path: Path, name: str, steps: tuple[float, ...], seconds: tuple[float, ...]
) -> None:
    found = read(tmp_path, f"{name},power_w\n" + "".join(f"{step},5\n" for step in steps))
    assert found.seconds.tolist() == pytest.approx(seconds)
    assert found.kind is ClockKind.ELAPSED


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        ("2026-01-02T03:00:00Z", "2026-01-02T03:00:01Z", ClockKind.DATED),
        ("2026-01-02 04:00:00.5+01:00", "2026-01-02 04:00:01.5+01:00", ClockKind.DATED),
        ("2026-01-02 03:00:00,123", "2026-01-02 03:00:01,123", ClockKind.NAIVE),
        ("2.1.2026 3:00:00", "2.1.2026 3:00:01", ClockKind.NAIVE),
        ("2026/01/02 03:00:00", "2026/01/02 03:00:01", ClockKind.NAIVE),
        ("1/31/2026 3:00:00 PM", "1/31/2026 3:00:01 PM", ClockKind.NAIVE),
        ("31/1/2026 15:00:00", "31/1/2026 15:00:01", ClockKind.NAIVE),
        ("23:59:59", "00:00:00", ClockKind.ELAPSED),
    ],
)
def test_dates_as_people_write_them(tmp_path: Path, first: str, second: str, kind: ClockKind) -> None:
    found = read(tmp_path, f"timestamp;power_w\n{first};5,5\n{second};6,5\n")
    assert np.diff(found.seconds).tolist() == pytest.approx([1.0])
    assert found.total_w.tolist() == [5.5, 6.5]
    assert found.kind is kind


def test_day_and_month_are_not_guessed(tmp_path: Path) -> None:
    rows = "1/2/2026 3:00:00,5\n1/2/2026 3:00:01,5\n"
    refused(
        tmp_path,
        f"time,power_w\n{rows}",
        "0 samples can be read.*line 2: .*day and month cannot be told apart",
    )


def test_date_and_time_of_day_may_stand_apart(tmp_path: Path) -> None:
    found = read(tmp_path, "Date;Time;Power (W)\n02.01.2026;03:00:00;5,0\n02.01.2026;03:00:02;7,0\n")
    assert found.seconds.tolist() == [START, START + 2]
    assert "'Date' + 'Time'" in found.facts.note


@pytest.fixture(params=["UTC", "Europe/Berlin", "America/New_York"])
def zone(request: pytest.FixtureRequest) -> Iterator[str]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    time.tzset()
    yield request.param
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


def test_times_without_a_zone_are_one_running_clock_whoever_reads_them(tmp_path: Path, zone: str) -> None:
    """Over the night in which summer time ends: three hours by the clock, all of it kept, in every zone."""
    rows = [f"2026-10-25T{minute // 60:02}:{minute % 60:02}:00,5\n" for minute in range(60, 240)]
    found = read(tmp_path, "time,power_w\n" + "".join(rows))
    assert (len(found.seconds), found.dropped) == (180, ())
    assert set(np.diff(found.seconds).tolist()) == {60.0}


def test_a_clock_set_back_an_hour_runs_on_and_says_so(tmp_path: Path) -> None:
    minutes = [*range(120, 180), *range(120, 240)]
    rows = [f"2026-10-25T{minute // 60:02}:{minute % 60:02}:00,5\n" for minute in minutes]
    found = read(tmp_path, "time,power_w\n" + "".join(rows))
    assert (len(found.seconds), found.dropped) == (180, ())
    assert set(np.diff(found.seconds).tolist()) == {60.0}
    assert any("went back an hour at 2026-10-25 02:00:00" in note for note in found.notes)


def test_utf_16_and_settings_above_the_header(tmp_path: Path) -> None:
    text = "Device;PM-3\nSerial;0815\n\nTime (s);Power (W)\n0;5,25\n1;5,75\n"
    assert read(tmp_path, text, "utf-16").total_w.tolist() == [5.25, 5.75]
    assert read(tmp_path, text, "utf-8-sig").total_w.tolist() == [5.25, 5.75]
    (tmp_path / "wall.csv").write_bytes(b"time,power_w\n\0\0\0")
    with pytest.raises(MeterError, match="found binary data"):
        load_csv(tmp_path / "wall.csv")


def test_values_that_no_machine_draws_are_dropped_with_their_line(tmp_path: Path) -> None:
    found = read(tmp_path, "time,power_w\n0,5\n1,-20\n2,1e9\n3,5\n")
    assert found.dropped == ((3, "-20 W: expected 0 to 20000 W"), (4, "1e+09 W: expected 0 to 20000 W"))


def test_a_thousands_comma_is_not_guessed() -> None:
    assert number("1.234,5", comma_splits=False) == 1234.5
    assert number("1,234.5", comma_splits=True) == 1234.5
    assert number("5,25", comma_splits=True) == 5.25
    assert number("1,234", comma_splits=False) == 1.234
    with pytest.raises(ValueError, match=r"1,234 may be 1\.234 or 1234"):
        number("1,234", comma_splits=True)


def test_the_files_last_digit_is_its_resolution(tmp_path: Path) -> None:
    rail = read(tmp_path, "time,power_mw\n0,5300\n1,5400.5\n").facts.rails[0]
    assert rail.lsb_w == pytest.approx(1e-4)
    assert read(tmp_path, "time,power_w\n0,5\n1,6\n").facts.rails[0].lsb_w == 1.0


def test_a_counter_of_energy_is_differentiated(tmp_path: Path) -> None:
    """20 W for an hour, counted in whole Wh and read every 10 s."""
    rows = "".join(f"{second},{20 * second // 3600}\n" for second in range(0, 3601, 10))
    path = tmp_path / "wall.csv"
    path.write_text("time_s,energy_wh\n" + rows)
    recording = load_recording(path)
    energy, why = recording.energy()
    assert energy is not None, why
    assert abs(energy.corrected_j - 20 * 3600) < 2 * energy.sigma_j
    assert energy.sigma_j < 3600
    assert recording.trace.watts["wall"][100:-100].mean() == pytest.approx(20.0, rel=0.03)


JTOP = "time,uptime,CPU1,RAM,Temp CPU,Power VDD_CPU_GPU_CV,Power VDD_SOC,Power TOT,jetson_clocks,nvp model\n"


def test_a_log_of_jetson_stats_is_in_milliwatts_and_its_rails_are_added_by_board(tmp_path: Path) -> None:
    rows = "".join(
        f"2026-01-02 03:00:{second:02}.123456,1 day,4,0.3,50,773,1500,5300,OFF,15W\n" for second in range(30)
    )
    found = read(tmp_path, JTOP + rows)
    assert found.facts.total_rails == ("VDD_IN",)
    assert set(found.total_w.tolist()) == {5.3}
    assert found.facts.scope == "module"
    agx = JTOP.replace(
        "Power VDD_CPU_GPU_CV,Power VDD_SOC",
        "Power VDD_GPU_SOC,Power VDD_CPU_CV,Power VIN_SYS_5V0,Power VDDQ_VDD2_1V8AO",
    )
    rows = "".join(
        f"2026-01-02 03:00:{second:02}.1,1 day,4,0.3,50,4000,1000,3000,800,8800,OFF,15W\n"
        for second in range(9)
    )
    assert set(read(tmp_path, agx + rows).total_w.tolist()) == {8.0}


def test_a_hole_or_a_second_log_behind_the_first_is_not_integrated_across(tmp_path: Path) -> None:
    path = tmp_path / "wall.csv"
    for hole_s in (17, 8 * 3600):
        rows = [(second, 5 + second % 2) for second in range(30)]
        rows += [(30 + hole_s + second, 5 + second % 2) for second in range(30)]
        path.write_text("time,power_w\n" + "".join(f"{second},{watts}\n" for second, watts in rows))
        figures = replay_json(load_recording(path))
        assert figures["energy_j"] is None
        assert any(f"no sample for {hole_s + 1:.2f} s" in note for note in figures["notes"])
        assert any("power from 'power_w' in W, times 'time'" in note for note in figures["notes"])


def test_a_clock_that_jumps_makes_no_energy(tmp_path: Path) -> None:
    """A logger that began in 2000 and was set: 26 years are no window of energy."""
    rows = [f"2000-01-01T00:00:{second:02}Z,5\n" for second in range(30)]
    rows += [f"2026-01-02T03:00:{second:02}Z,6\n" for second in range(30)]
    path = tmp_path / "wall.csv"
    path.write_text("time,power_w\n" + "".join(rows))
    energy, why = load_recording(path).energy()
    assert energy is None
    assert "no sample for" in why


def bumps(folder: Path, heights: dict[float, float]) -> WallRecording:
    rows = []
    for t in np.arange(0, 300, 0.5).tolist():
        watts = 9.0 + sum(height for start, height in heights.items() if start <= t < start + 20)
        rows.append(f"{t},{watts:.2f}\n")
    return read(folder, "time_s,power_w\n" + "".join(rows))


def test_of_three_equal_bumps_none_is_taken_for_the_run(tmp_path: Path) -> None:
    recording = bumps(tmp_path, {50: 15.9, 130: 16.0, 210: 15.9})
    with pytest.raises(MeterError, match=r"its power fits the run at a shift of .* Give the offset"):
        align(recording, [(10.0, 30.0)], (2.0, 38.0))
    shift_s, match = align(recording, [(10.0, 30.0)], (2.0, 38.0), near_s=(-40.0,))
    assert shift_s == pytest.approx(-40.0, abs=0.5)
    assert match > 0.95
    alone, _ = align(bumps(tmp_path, {130: 16.0}), [(10.0, 30.0)], (2.0, 38.0))
    assert alone == pytest.approx(-120.0, abs=0.5)


@given(
    header=st.text(max_size=40),
    rows=st.lists(st.text(max_size=40), max_size=6),
    known=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_no_file_makes_anything_but_an_answer_or_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, header: str, rows: list[str], known: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.csv"
    head = "time,power_w" if known else header
    path.write_text("\n".join([head, *rows]), encoding="utf-8", errors="surrogatepass")
    try:
        found = load_csv(path)
    except MeterError:
        return
    assert len(found.seconds) >= 2
    assert (np.diff(found.seconds) > 0).all()
