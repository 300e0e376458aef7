"""`edge-sdk power`, and the meter of `run` and `sla check`: what is printed and what is written."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import power_trees as trees
import pytest
from frames_on_disk import write_pairs
from power_records import powered
from rich.console import Console
from test_tegrastats_line import JP6_NANO
from typer.testing import CliRunner, Result

from edge_sdk.cli import power as command
from edge_sdk.cli.main import app
from edge_sdk.clock import FakeClock
from edge_sdk.devices import power_of_run
from edge_sdk.errors import ConfigError, MeterError, MeterNotFoundError
from edge_sdk.meter.recording import log_json
from edge_sdk.meter.run_power import RunPower
from edge_sdk.power import MeterFacts, PowerTrace, RailFacts
from edge_sdk.report.markdown import run_markdown
from edge_sdk.report.record_file import load_record
from edge_sdk.report.table import print_run

REPLAYED = "replayed from a recording: not measured in this run"
TREE = "read from a copied file tree: not the power of this machine"


def call(*arguments: str) -> Result:
    return CliRunner().invoke(command.app, list(arguments))


def words(result: Result) -> str:
    return " ".join(result.output.split())


def read(root: Path, folder: Path) -> dict[str, Any]:
    result = call("read", "--root", str(root), "--json", str(folder / "p.json"))
    assert result.exit_code == 0, result.exception
    assert TREE in words(result)
    document: dict[str, Any] = json.loads((folder / "p.json").read_text())
    return document


def test_read_prints_rails_total_and_what_was_not_read(tmp_path: Path) -> None:
    found = read(trees.agx_orin(tmp_path / "tree", 5), tmp_path)
    assert (found["board"], found["meter"], found["scope"]) == (
        "NVIDIA Jetson AGX Orin Developer Kit",
        "ina3221",
        "module",
    )
    assert found["rails"]["VDD_GPU_SOC"] == {"v": 19.992, "a": 0.4, "w": pytest.approx(7.9968)}
    assert "VDDQ_VDD2_1V8AO" in found["rails"]
    assert found["module_w"] == pytest.approx(13.60096, abs=1e-4)
    assert found["module_rails"] == ["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"]
    assert {"channel": "1-0041/in1 NC", "why": "not connected"} in found["skipped"]
    assert TREE in found["notes"]


def test_an_unknown_total_is_null_not_zero(tmp_path: Path) -> None:
    found = read(trees.unknown_board(tmp_path / "tree"), tmp_path)
    assert (found["module_w"], found["module_rails"], found["scope"]) == (None, [], "rails")
    assert "is not known here" in " ".join(found["notes"])
    found = read(trees.desktop(tmp_path / "pc"), tmp_path)
    assert (found["meter"], found["scope"], found["module_w"]) == ("rapl", "cpu package", None)
    assert found["rails"] == {"package-0": {"v": None, "a": None, "w": None}}
    assert "stands still" in str(found["skipped"])


def test_no_sensor_is_an_error_and_the_file_says_so(tmp_path: Path) -> None:
    result = call(
        "read", "--root", str(trees.container(tmp_path / "box")), "--json", str(tmp_path / "p.json")
    )
    assert isinstance(result.exception, MeterNotFoundError)
    found = json.loads((tmp_path / "p.json").read_text())
    assert (found["meter"], found["rails"], found["module_w"]) == (None, {}, None)
    assert found["skipped"][0]["channel"] == "ina3221"
    assert isinstance(call("read", "--root", str(tmp_path / "none")).exception, ConfigError)


def test_a_log_can_be_replayed(tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    result = call(
        "log", "--seconds", "0.3", "--root", str(trees.orin_nx(tmp_path / "nx")), "--json", str(log)
    )
    assert result.exit_code == 0, result.exception
    assert TREE in words(result)
    assert "energy: none (window 'log': the window lasted" in words(result)
    assert "at least 2 s are needed" in words(result)
    result = call("replay", str(log), "--json", str(tmp_path / "r.json"))
    assert result.exit_code == 0, result.exception
    assert REPLAYED in words(result)
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["module_mean_w"] == pytest.approx(6.0096)
    assert found["energy_j"] is None
    assert {"samples", "dropped", "rails", "module_mean_w", "energy_j", "duration_s"} <= set(found)


def test_replay_prints_what_was_dropped(tmp_path: Path) -> None:
    path = tmp_path / "tegra.log"
    path.write_text("\n".join([JP6_NANO, "RAM 1/2MB", JP6_NANO, "noise", JP6_NANO]))
    text = words(call("replay", str(path), "--interval-ms", "1000"))
    for part in ("module, mean: 4.823 W (VDD_IN)", "dropped line 2: no power rail in it",
                 "dropped line 4: not a line of tegrastats", "low confidence", REPLAYED):  # fmt: skip
        assert part in text, part
    assert isinstance(call("replay", str(tmp_path / "none")).exception, MeterError)


# A run with a meter -------------------------------------------------------------------------------------


def recorded(folder: Path, watts: float = 7.0, seconds: int = 3600) -> Path:
    rail = RailFacts("VDD_IN", "ina3221 1-0040/in1", True, 0.43, 0.15, 0.04, 0.08, 0.002)
    times = np.arange(0, seconds + 1, dtype=np.int64) * 1_000_000_000
    trace = PowerTrace(times, np.zeros(len(times), np.int64), {"VDD_IN": np.full(len(times), watts)})
    facts = MeterFacts("ina3221", "NVIDIA Jetson Orin NX", "module", (rail,))
    path = folder / "recorded.json"
    path.write_text(json.dumps(log_json(facts, trace, "2026-01-02T03:04:05+00:00")))
    return path


@pytest.fixture
def bench(tmp_path: Path, toy_fusion: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path / "frames", [str(index) for index in range(8)])
    (tmp_path / "sla.yaml").write_text(
        f"name: toy\nengine: {toy_fusion}\nsource: pairs:frames\nlatency: {{p50_ms: 5000}}\n"
        "energy: {per_inference_mj: {max: 1000000, kind: total}}\nrun: {frames: 100}\n"
    )
    return tmp_path


def test_a_run_with_a_replayed_meter_says_so_everywhere(bench: Path) -> None:
    arguments = ["sla", "check", "sla.yaml", "--threads", "1", "--json", "r.json", "--markdown", "r.md"]
    arguments += ["--meter", f"replay:{recorded(bench)}", "--idle-s", "0"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2, result.exception
    text, report = words(result), (bench / "r.md").read_text()
    assert REPLAYED in text
    assert REPLAYED in report
    assert "INVALID energy.per_inference_mj: no power was measured in this run" in text
    record = load_record(bench / "r.json")
    assert record.meter is not None
    assert record.meter.facts.origin == "replay"
    assert set(record.meter.trace.watts["VDD_IN"].tolist()) == {7.0}
    assert len(record.meter.pause_ns) == len(record.frames) == 100
    document = json.loads((bench / "r.json").read_text())
    assert "replayed" in document["power"]
    again = CliRunner().invoke(app, ["power", "replay", "r.json"])
    assert again.exit_code == 0, again.exception
    assert "module, mean: 7.000 W (VDD_IN)" in again.output


def test_idle_is_measured_before_and_after_with_time_to_settle(tmp_path: Path) -> None:
    clock = FakeClock()
    with power_of_run("auto", root=trees.orin_nx(tmp_path), idle_s=3, clock=clock) as power:
        assert isinstance(power, RunPower)
        power.before()
        start_ns = clock.now_ns()
        for _ in range(5):
            clock.advance_ns(1_000_000_000)
            power.paused(2_000_000)
        end_ns = clock.now_ns()
        power.after()
        part = power.part((start_ns, end_ns))
    assert part.idle_before is not None
    assert part.idle_after is not None
    for (first_ns, last_ns), begun_ns in ((part.idle_before, 0), (part.idle_after, end_ns)):
        assert last_ns - first_ns == 3_000_000_000
        assert first_ns - begun_ns == pytest.approx(5 * 0.43e9, rel=0.01)
    assert part.idle_before[1] == start_ns
    assert part.trace.times_ns[-1] == clock.now_ns()
    assert part.pause_ns.tolist() == [2_000_000] * 5
    assert power.pauses_ns() == 8_000_000


def test_a_run_without_a_sensor_prints_that_there_is_none(bench: Path, toy_fusion: Path) -> None:
    arguments = [
        "run",
        "--source",
        "pairs:frames",
        "--engine",
        str(toy_fusion),
        "--threads",
        "1",
        "--json",
        "r.json",
    ]
    result = CliRunner().invoke(app, [*arguments, "--root", str(trees.container(bench / "box"))])
    assert result.exit_code == 0, result.exception
    assert "no power sensor: ina3221: no /sys here" in words(result)
    assert load_record(bench / "r.json").power.startswith("no power sensor: ina3221")
    by_name = CliRunner().invoke(app, [*arguments, "--meter", "rapl", "--root", str(bench)])
    assert isinstance(by_name.exception, MeterNotFoundError)


def test_table_and_report_show_power_energy_lag_and_meter(capsys: pytest.CaptureFixture[str]) -> None:
    record = powered(idle_after_w=5.05)
    print_run(record, Console(width=100))
    text = " ".join(capsys.readouterr().out.split())
    for part in (
        "Power 9.00 +/- 0.05",
        "module (VDD_IN), over 20.0 s after warm-up",
        "Energy per inference 360 +/- ",
        "mJ above idle of 5.03 +/- ",
        "By route in total rgb 360 +/- ",
        "corrected for the sensor's lag",
        "10.0 samples/s, 0.40 ms a read, sampling took 0.20 % of a core",
    ):
        assert part in text, part
    report = run_markdown(record)
    assert "- **Energy**: per inference 360 +/- " in report
    low = run_markdown(powered(4.0, idle=False, pause_ms=4.0))
    assert "Energy: low confidence, 4.4 s is under 10 s." in low
    assert "none above idle: idle was not measured before and after the run" in low
    assert "of the time went into pictures and files between frames" in low
    assert "no figure: the window lasted" in run_markdown(powered(1.0))


def test_the_energy_lines_print_where_only_ascii_can_be() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    print_run(powered(), Console(file=stream, width=80))
    assert b"Energy     per inference 360 +/- " in raw.getvalue()
