"""Comparing two records: what makes them unlike, and what the ratios may claim."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from machine_trees import KINDS
from power_records import powered
from records import record_of
from typer.testing import CliRunner, Result

from edge_sdk.cli.main import app
from edge_sdk.errors import ConfigError, RecordError
from edge_sdk.machine_state.reader import MachineReader
from edge_sdk.machine_state.state import RunState
from edge_sdk.measurements import Route
from edge_sdk.report.comparison import Ratio, compare_records, differences, regressions
from edge_sdk.report.record import ProviderFacts, RunFacts, RunRecord, SourceFacts
from edge_sdk.report.record_file import write_record

ROUTES = [Route.RGB, Route.FUSE] * 400


@pytest.fixture
def state(tmp_path: Path) -> RunState:
    KINDS["orin-nx"](tmp_path / "nx")
    snapshot = MachineReader(tmp_path / "nx").snapshot()
    return RunState(snapshot, snapshot)


@pytest.fixture
def record(state: RunState) -> RunRecord:
    return noisy(20, state)


def noisy(level_ms: float, state: RunState | None, seed: int = 1, **facts: Any) -> RunRecord:
    """Makes a record of 800 frames that scatter around a level."""
    random = np.random.default_rng(seed)
    return record_of(list(random.normal(level_ms, 1, 800)), routes=ROUTES, machine_state=state, **facts)


def named(record: RunRecord, other: RunRecord) -> dict[str, Ratio]:
    return {ratio.figure: ratio for ratio in compare_records(record, other).ratios}


def test_like_runs_have_no_difference(record: RunRecord, state: RunState) -> None:
    assert differences(record, noisy(40, state)) == ()
    assert differences(record_of([5.0]), record_of([6.0])) == ()


def _state(change: Callable[[RunState], RunState]) -> Callable[[RunRecord], RunRecord]:
    def changed(record: RunRecord) -> RunRecord:
        assert record.machine_state is not None
        return replace(record, machine_state=change(record.machine_state))

    return changed


def _mode(state: RunState) -> RunState:
    mode = replace(state.before.power_mode, name="25W", id=3)
    return replace(state, before=replace(state.before, power_mode=mode))


def _clocks(state: RunState) -> RunState:
    cpu, *rest = state.before.clocks.domains
    domains = (replace(cpu, min_hz=cpu.max_hz), *rest)
    return replace(state, before=replace(state.before, clocks=replace(state.before.clocks, domains=domains)))


def _release(state: RunState) -> RunState:
    return replace(state, before=replace(state.before, board=replace(state.before.board, l4t="36.5.0")))


@pytest.mark.parametrize(
    ("change", "what", "a", "b"),
    [
        (lambda r: replace(r, machine={**r.machine, "board": "Other"}), "board", "Test CPU", "Other"),
        (_state(_mode), "power mode", "40W (id 4, nvp", "25W (id 3, nvp"),
        (_state(_clocks), "clocks", "cpu0-3 730-1344 MHz", "cpu0-3 1344-1344 MHz"),
        (
            lambda r: replace(r, engine=replace(r.engine, bundle_sha256="cd" * 32)),
            "bundle",
            "ab" * 32,
            "cd" * 32,
        ),
        (
            lambda r: replace(r, machine={**r.machine, "onnxruntime": "1.30"}),
            "runtime",
            "L4T 36.4.3",
            "onnxruntime 1.30",
        ),
        (_state(_release), "runtime", "L4T 36.4.3", "L4T 36.5.0"),
        (
            lambda r: replace(r, provider=ProviderFacts("cuda", "CUDAExecutionProvider")),
            "runtime",
            "CPUExecutionProvider",
            "CUDAExecutionProvider",
        ),
        (
            lambda r: replace(r, meter=powered().meter),
            "rail scope",
            "no power",
            "module: VDD_IN, by ina3221",
        ),
        (lambda r: replace(r, run=RunFacts(pace_hz=10)), "load", "back to back", "paced at 10 Hz"),
        (lambda r: replace(r, run=RunFacts(threads=2)), "load", "threads unknown", "2 threads"),
        (lambda r: replace(r, source=SourceFacts("pairs:x")), "load", "clip:substation", "pairs:x"),
    ],
)
def test_each_unlike_condition_is_named_with_both_values(
    change: Callable[[RunRecord], RunRecord], what: str, a: str, b: str, record: RunRecord
) -> None:
    (difference,) = differences(record, change(record))
    assert difference.what == what
    assert a in difference.a
    assert b in difference.b


def test_a_state_that_only_one_record_has_is_a_difference(record: RunRecord) -> None:
    found = {entry.what: entry.b for entry in differences(record, replace(record, machine_state=None))}
    assert found["power mode"] == found["clocks"] == "not recorded"


def test_a_slower_run_is_told_from_a_like_one(record: RunRecord, state: RunState) -> None:
    slower = named(record, noisy(30, state, seed=2))
    for figure in ("latency P50", "latency P95", "latency P50, route fuse"):
        ratio = slower[figure]
        assert ratio.lower is not None
        assert ratio.upper is not None
        assert 1.4 < ratio.lower < ratio.upper < 1.6
        assert ratio.meaning == "one run each: no claim"
    assert named(noisy(30, state), record)["latency P50"].meaning == "one run each: no claim"
    like = named(record, noisy(20, state, seed=3))
    assert {like[name].meaning for name in ("latency P50", "latency P95")} == {"no difference shown"}
    assert like["share of route rgb"].ratio == pytest.approx(1, abs=0.01)
    assert like["throughput"].ratio == pytest.approx(1)


def test_bounds_hold_the_true_ratio(state: RunState) -> None:
    misses = 0
    for seed in range(25):
        ratio = named(noisy(20, state, seed), noisy(20.4, state, 1000 + seed))["latency P50"]
        assert ratio.lower is not None
        assert ratio.upper is not None
        misses += not ratio.lower <= 1.02 <= ratio.upper
    assert misses <= 1


def test_too_few_frames_claim_nothing(state: RunState) -> None:
    short = record_of([20.0] * 30, machine_state=state)
    ratios = named(short, short)
    assert ratios["latency P99"].meaning == "too few to say"
    assert ratios["throughput"].upper is None
    empty = compare_records(record_of([]), record_of([]))
    assert {ratio.meaning for ratio in empty.ratios} == {"too few to say"}


def test_unsound_records_and_missing_energy_are_said(record: RunRecord) -> None:
    comparison = compare_records(record, replace(record, unsound=("cable pulled",)))
    assert comparison.unsound == ("B: cable pulled",)
    for name in "AB":
        assert any(
            f"Not compared: energy and power. {name}: no power sensor" in note for note in comparison.notes
        )
    older = replace(record, sdk_version="0.0.9", machine_state=None)
    notes = " ".join(compare_records(older, record).notes)
    assert "edge-sdk 0.0.9 made A, 0.1.0 made B." in notes
    assert "A does not say the machine's state" in notes


def test_energy_is_compared_where_both_have_it() -> None:
    less, more = powered(), powered(watts_of={Route.RGB: 18.0})
    ratios = named(less, more)
    assert ratios["mean power"].ratio == pytest.approx(2.0, rel=0.02)
    assert ratios["energy per inference, total"].ratio == pytest.approx(2.0, rel=0.02)
    above = ratios["energy per inference, above idle"]
    assert above.ratio == pytest.approx(13 / 4, rel=0.03)
    assert above.lower is not None
    assert above.upper is not None
    assert above.lower < 13 / 4 < above.upper
    assert differences(less, more) == ()
    without_idle = compare_records(less, powered(idle=False))
    assert "energy per inference, above idle" not in {ratio.figure for ratio in without_idle.ratios}
    assert any(
        "Not compared: energy per inference, above idle. B: no marginal" in note
        for note in without_idle.notes
    )


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["compare", *map(str, arguments)], env={"COLUMNS": "160"})


@pytest.fixture
def files(tmp_path: Path, record: RunRecord, state: RunState) -> tuple[Path, Path, Path]:
    paths = tmp_path / "a.json", tmp_path / "b.json", tmp_path / "paced.json"
    for path, made in zip(
        paths, (record, noisy(30, state), noisy(20, state, run=RunFacts(pace_hz=10))), strict=True
    ):
        write_record(made, path)
    return paths


def test_the_command_compares_like_runs(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    result = call(files[0], files[1], "--json", tmp_path / "c.json")
    assert result.exit_code == 0, result.output
    assert "UNLIKE" not in result.output
    row = next(line for line in result.output.splitlines() if "latency P50, ms" in line)
    assert "one run each: no claim" in row
    document = json.loads((tmp_path / "c.json").read_text())
    assert (document["schema"], document["comparable"]) == ("edge-sdk/comparison", True)
    assert document["ratios"][0]["meaning"] == "one run each: no claim"
    assert document["fail_above"] is None


@pytest.mark.parametrize(
    ("order", "limit", "status", "said"),
    [
        ((0, 1), "40%", 1, "Worse by more than 40 %: latency P50, latency P95"),
        ((0, 1), "5 %", 1, "Worse by more than 5 %: latency P50, latency P95"),
        ((0, 1), "60%", 0, "Within 60 %: latency P50, latency P95"),
        ((1, 0), "0%", 0, "Within 0 %: latency P50, latency P95"),
        ((0, 0), "0%", 2, "Not shown to be within or over 0 %: latency P50, latency P95"),
    ],
)
def test_fail_above_gives_the_comparison_an_exit_status(
    files: tuple[Path, Path, Path], order: tuple[int, int], limit: str, status: int, said: str
) -> None:
    result = call(files[order[0]], files[order[1]], "--fail-above", limit)
    assert (result.exit_code, said in result.output) == (status, True), result.output


def test_fail_above_is_undecided_where_a_record_is_unsound(
    record: RunRecord, state: RunState, tmp_path: Path
) -> None:
    write_record(record, tmp_path / "a.json")
    write_record(replace(noisy(30, state), unsound=("cable pulled",)), tmp_path / "b.json")
    assert call(tmp_path / "a.json", tmp_path / "b.json", "--fail-above", "5%").exit_code == 2


@pytest.mark.parametrize("limit", ["5", "0.05", "-1%", "five%", "5%x", "nan%"])
def test_fail_above_takes_a_percentage_alone(files: tuple[Path, Path, Path], limit: str) -> None:
    result = call(files[0], files[1], f"--fail-above={limit}")
    assert isinstance(result.exception, ConfigError)
    assert "like 5%" in str(result.exception)


def test_a_lower_frame_rate_is_the_worse_one(record: RunRecord, state: RunState) -> None:
    slower = record_of([20.0] * 2000, period_ms=60.0, machine_state=state)
    found = regressions(compare_records(record_of([20.0] * 2000, machine_state=state), slower), 0.3)
    assert "throughput" in found.over
    assert not any("share of route" in name for name in (*found.over, *found.within, *found.undecided))


def test_the_command_refuses_unlike_runs_and_names_what_differs(
    files: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    result = call(files[0], files[2], "--json", tmp_path / "c.json")
    assert result.exit_code == 2
    assert "Not compared: the runs are unlike. --anyway compares them." in result.output
    assert "A: clip:substation, centikelvin, clip; back to back" in result.output
    assert "B: clip:substation, centikelvin, clip; paced at 10 Hz" in result.output
    assert "latency P50" not in result.output
    document = json.loads((tmp_path / "c.json").read_text())
    assert (document["comparable"], document["ratios"]) == (False, [])
    assert document["differences"][0]["what"] == "load"


def test_anyway_compares_and_marks_it(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    result = call(files[0], files[2], "--anyway", "--json", tmp_path / "c.json")
    assert result.exit_code == 0
    assert result.output.count("UNLIKE RUNS") == 2
    assert "latency P50" in result.output
    document = json.loads((tmp_path / "c.json").read_text())
    assert document["comparable"] is False
    assert document["ratios"]


def test_what_cannot_be_read_is_no_refusal(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    assert isinstance(call(files[0], tmp_path / "none.json").exception, RecordError)
    assert call(files[0]).exit_code == 3
