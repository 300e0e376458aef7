"""Recordings of power: what each kind of file gives, what is dropped and why, and that it is a replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_tegrastats_line import JP4, JP5_AGX_ROOT, JP6_NANO, JP7_THOR

from edge_sdk.clock import FakeClock
from edge_sdk.errors import MeterError
from edge_sdk.meter.recording import Recording, load_recording, log_json, replay_json
from edge_sdk.meter.replay import ReplayMeter
from edge_sdk.power import MeterFacts, PowerTrace, RailFacts

S = 1_000_000_000


def written(folder: Path, text: str, name: str = "power.log") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def nano_line(second: int, milliwatts: int) -> str:
    return f"04-18-2025 20:06:{second:02d} RAM 2881/7620MB VDD_IN {milliwatts}mW/4823mW VDD_SOC 1400mW/1447mW"


def figures(path: Path, **options: Any) -> dict[str, Any]:
    return replay_json(load_recording(path, **options))


def test_a_tegrastats_log_gives_means_energy_and_what_was_dropped(tmp_path: Path) -> None:
    lines = [nano_line(second, 5000) for second in range(0, 12)]
    lines[4] = "RAM 2881/7620MB (lfb 3x2MB)"
    lines[7] = "Broken pipe"
    lines.append("04-18-2025 20:06:12 RAM 2881/7620MB VDD_IN 5")
    found = figures(written(tmp_path, "\n".join(lines)))
    assert found["samples"] == 10
    assert found["dropped"] == [
        {"line": 5, "why": "no power rail in it"},
        {"line": 8, "why": "not a line of tegrastats"},
        {"line": 13, "why": "cut off: digits of VDD_IN may be missing"},
    ]
    assert found["rails"] == {"VDD_IN": {"mean_w": 5.0}, "VDD_SOC": {"mean_w": pytest.approx(1.4)}}
    assert (found["module_mean_w"], found["module_rails"]) == (5.0, ["VDD_IN"])
    assert found["duration_s"] == 11.0
    assert found["energy_j"] == pytest.approx(55.0)
    assert found["notes"][0] == "replayed from a recording: not measured in this run"


def test_energy_of_a_log_is_corrected_for_the_sensors_lag(tmp_path: Path) -> None:
    lines = [nano_line(second, 5000 + 100 * second) for second in range(0, 11)]
    found = figures(written(tmp_path, "\n".join(lines)))
    assert found["energy_uncorrected_j"] == pytest.approx(55.0)
    assert found["energy_j"] == pytest.approx(55.0 + 0.43 * 1.0)


def test_stamps_that_skip_or_repeat_are_taken_as_they_are(tmp_path: Path) -> None:
    """Stamps are whole seconds: they skip one now and then, and two lines can share one."""
    seconds = [10, 12, 12, 13, 14]
    found = load_recording(written(tmp_path, "\n".join(nano_line(second, 5000) for second in seconds)))
    assert (found.trace.times_ns / 1e9).tolist() == [0, 2, 2.5, 3, 4]


def test_a_line_from_before_is_dropped(tmp_path: Path) -> None:
    found = load_recording(
        written(tmp_path, "\n".join(nano_line(second, 5000) for second in (10, 11, 5, 12)))
    )
    assert found.dropped == ((3, "its time is before that of the line above"),)
    assert len(found.trace) == 3


def test_a_log_without_stamps_takes_turns(tmp_path: Path) -> None:
    path = written(tmp_path, "\n".join([JP4] * 5))
    found = figures(path)
    assert (found["duration_s"], found["module_mean_w"], found["module_rails"]) == (4.0, 2.936, ["POM_5V_IN"])
    assert "1 s between lines, assumed: the log has no timestamps" in found["notes"]
    assert figures(path, interval_s=0.5)["duration_s"] == 2.0


@pytest.mark.parametrize(
    ("line", "mean_w", "rails"),
    [
        (JP5_AGX_ROOT, 5.611, ["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"]),
        (JP6_NANO, 4.823, ["VDD_IN"]),
        (JP7_THOR, 24.0, ["VIN"]),
    ],
)
def test_totals_follow_the_board_that_the_rails_tell(
    tmp_path: Path, line: str, mean_w: float, rails: list[str]
) -> None:
    found = figures(written(tmp_path, "\n".join([line] * 3)), interval_s=2.0)
    assert found["module_mean_w"] == pytest.approx(mean_w)
    assert found["module_rails"] == rails


def test_rails_of_no_known_board_have_no_total(tmp_path: Path) -> None:
    found = figures(written(tmp_path, "\n".join(["RAM 1/2MB VDD_ELSE 1000mW/1000mW"] * 5)))
    assert found["rails"] == {"VDD_ELSE": {"mean_w": 1.0}}
    assert (found["module_mean_w"], found["energy_j"]) == (None, None)


def test_a_rail_that_some_lines_lack(tmp_path: Path) -> None:
    lines = [nano_line(second, 5000) for second in range(0, 30)]
    lines[3] = "04-18-2025 20:06:03 RAM 1/2MB VDD_SOC 1400mW/1447mW"
    found = figures(written(tmp_path, "\n".join(lines)))
    assert found["samples"] == 30
    assert found["energy_j"] == pytest.approx(29 * 5.0)


def test_too_short_a_log_has_means_and_no_energy(tmp_path: Path) -> None:
    found = figures(written(tmp_path, "\n".join([nano_line(1, 5000), nano_line(2, 6000)])))
    assert (found["module_mean_w"], found["energy_j"]) == (5.5, None)
    assert any("at least 2 s are needed" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "RAM 1/2MB GR3D_FREQ 0%\n",
            "no line holds a power rail .1 lines dropped.. JetPack 5 prints rails to root",
        ),
        ("", "expected a header"),
        ("hello\nworld\n", "expected a header that names time and power: no column of time"),
        ("{", "not JSON that can be read"),
        ('{"schema": "x"}', "expected a power log or a run record, found schema 'x'"),
        ('{"schema": "edge-sdk/run-record", "meter": null}', "made without a power meter"),
        ('{"schema": "edge-sdk/power-log", "meter": 3}', "meter: expected an object, found 3"),
    ],
)
def test_a_file_without_power_is_an_error_of_ours(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(MeterError, match=words):
        load_recording(written(tmp_path, text))


def test_a_missing_file_too(tmp_path: Path) -> None:
    with pytest.raises(MeterError, match="cannot be read"):
        load_recording(tmp_path / "none.log")


RAIL = RailFacts("VDD_IN", "ina3221 1-0040/in1", True, 0.43, 0.15, 0.04, 0.08, 0.002)
FACTS = MeterFacts("ina3221", "board", "module", (RAIL,))


def a_log(**changes: Any) -> dict[str, Any]:
    times = np.arange(0, 31, dtype=np.int64) * S // 10
    trace = PowerTrace(times, np.full(31, 400_000, np.int64), {"VDD_IN": np.full(31, 6.0)})
    return {**log_json(FACTS, trace, "2026-01-02T03:04:05+00:00"), **changes}


def test_our_own_log_comes_back_and_says_that_it_is_replayed(tmp_path: Path) -> None:
    recording = load_recording(written(tmp_path, json.dumps(a_log())))
    assert recording.facts.origin == "replay"
    found = replay_json(recording)
    assert (found["samples"], found["module_mean_w"], found["duration_s"]) == (31, 6.0, 3.0)
    assert found["energy_j"] == pytest.approx(18.0)
    assert "recorded by ina3221" in found["notes"]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("times_ns", [0] * 31, "times_ns: expected ascending times"),
        ("watts", {}, "watts: expected a column for each of VDD_IN"),
        ("watts", {"VDD_IN": ["a"] * 31}, r"watts.VDD_IN\[0\]: expected a number or null"),
        ("joules", {"X": []}, "expected a rail of the meter"),
        ("count", 0, "0 entries"),
    ],
)
def test_an_edited_log_is_refused(tmp_path: Path, key: str, value: Any, words: str) -> None:
    document = a_log()
    document["samples"][key] = value
    with pytest.raises(MeterError, match=words):
        load_recording(written(tmp_path, json.dumps(document)))


def test_a_replay_plays_against_the_clock_and_ends() -> None:
    trace = PowerTrace(np.array([0, 1, 2]) * S, np.zeros(3, np.int64), {"VDD_IN": np.array([1.0, 3.0, 3.0])})
    clock = FakeClock(50 * S)
    meter = ReplayMeter(Recording(Path("a.log"), FACTS, trace), clock)
    assert (meter.facts.meter, meter.facts.origin) == ("replay", "replay")
    assert meter.facts.note == "a.log, recorded by ina3221"
    clock.advance_ns(S // 2)
    assert meter.read().rails["VDD_IN"].w == 2.0
    clock.advance_ns(2 * S)
    with pytest.raises(MeterError, match=r"the recording ends after 2\.0 s"):
        meter.read()
