"""Clauses on the machine and on memory: all four outcomes of each, and the same again from the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from machine_trees import KINDS, MachineTree, write_tools
from records import record_of

from edge_sdk.clock import FakeClock
from edge_sdk.errors import SlaViolationError
from edge_sdk.machine_state.commands import runner_in
from edge_sdk.machine_state.reader import MachineReader
from edge_sdk.machine_state.state import Memory, PowerMode, RunState, WatchColumns
from edge_sdk.report.clauses import ClauseVerdict, Outcome
from edge_sdk.report.record import ProviderFacts, RunRecord
from edge_sdk.report.record_file import parse_record, record_json
from edge_sdk.report.verdict import judge
from edge_sdk.sla import Sla, parse_sla

GPU = ProviderFacts("cuda", "CUDAExecutionProvider")
CPU_PROVIDER = ProviderFacts("cpu", "CPUExecutionProvider")


def sla_of(limits: str) -> Sla:
    return parse_sla(f"name: line\nengine: substation-rgbt\n{limits}\n")


class Machine:
    """A machine with tools of its own, from which run states are taken."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.tree: MachineTree = KINDS[kind](folder / "root")
        self.run = runner_in(str(write_tools(folder / "tools", self.tree.root)))
        self.reader = MachineReader(self.tree.root, run=self.run, clock=FakeClock(step_ns=1_000_000))

    def state(self) -> RunState:
        """Takes two snapshots in a row."""
        return RunState(self.reader.snapshot(), self.reader.snapshot())


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine("agx-orin-jp6", tmp_path)


def only(state: RunState | None, limits: str, **facts: Any) -> ClauseVerdict:
    """Judges one clause, from the record and from its file."""
    record = record_of([20.0] * 100, machine_state=state, **facts)
    (clause,) = judge(record, sla_of(limits)).clauses
    (again,) = judge(parse_record(record_json(record)), sla_of(limits)).clauses
    assert again == clause
    return clause


@pytest.mark.parametrize(
    "limits",
    [
        "machine: {power_mode: 30W}",
        "machine: {clocks_locked: true}",
        "machine: {throttled: false}",
        "memory: {peak_mb: 1000}",
        "memory: {rss_slope_mb_per_h: 1000}",
    ],
)
def test_what_was_not_recorded_is_invalid(limits: str) -> None:
    clause = only(None, limits)
    assert clause.verdict is Outcome.INVALID
    assert clause.reason == "the record does not say: the machine's state was not read in this run."


@pytest.mark.parametrize("name", ["MODE_30W", "30W", "mode_30w"])
def test_a_mode_passes_by_name(name: str, machine: Machine) -> None:
    clause = only(machine.state(), f"machine: {{power_mode: {name}}}")
    assert (clause.verdict, clause.estimate, clause.unit) == (Outcome.PASS, "MODE_30W", "")
    assert "id 2, nvpmodel_p3701_0000.conf" in clause.reason


def test_another_mode_fails(machine: Machine) -> None:
    clause = only(machine.state(), "machine: {power_mode: 50W}")
    assert (clause.verdict, clause.limit) == (Outcome.FAIL, "50W")
    assert clause.reason == "the machine was in MODE_30W (id 2, nvpmodel_p3701_0000.conf)."


def test_a_mode_that_nvpmodel_did_not_say_is_invalid(machine: Machine) -> None:
    state = machine.state()
    stored = replace(state.after.power_mode, source="status file", warnings=("NVPM ERROR: x",))
    clause = only(
        RunState(state.before, replace(state.after, power_mode=stored)), "machine: {power_mode: 30W}"
    )
    assert (clause.verdict, clause.reason) == (Outcome.INVALID, "the power mode is not known: NVPM ERROR: x.")
    unknown = replace(state.after, power_mode=PowerMode())
    clause = only(RunState(state.before, unknown), "machine: {power_mode: 30W}")
    assert (clause.verdict, clause.estimate) == (Outcome.INVALID, "MODE_30W then unknown")


def test_clocks_pass_fail_and_are_unknown(machine: Machine) -> None:
    free = machine.state()
    assert only(free, "machine: {clocks_locked: false}").verdict is Outcome.PASS
    clause = only(free, "machine: {clocks_locked: true}")
    assert (clause.verdict, clause.limit, clause.estimate) == (Outcome.FAIL, "yes", "no")
    assert clause.reason == "not held: cpu0-3, cpu4-7, cpu8-11, gpu, emc, deep idle states are on."
    machine.tree.lock()
    held = machine.state()
    assert only(held, "machine: {clocks_locked: true}").verdict is Outcome.PASS
    assert only(held, "machine: {clocks_locked: false}").verdict is Outcome.FAIL
    clocks = held.after.clocks
    blind = replace(clocks, domains=(*clocks.domains[:-1], replace(clocks.domains[-1], override=None)))
    after = replace(held.after, clocks=blind, needs_root=("EMC clock",))
    clause = only(RunState(held.before, after), "machine: {clocks_locked: true}")
    assert (clause.verdict, clause.estimate) == (Outcome.INVALID, "yes then unknown")
    assert clause.reason == "not known: emc cannot be read (root may: run with sudo)."


def test_throttling_passes_only_where_it_could_be_seen(machine: Machine, tmp_path: Path) -> None:
    state = machine.state()
    clause = only(state, "machine: {throttled: false}")
    assert (clause.verdict, clause.limit, clause.estimate) == (Outcome.PASS, "no", "no")
    assert "root only" in clause.reason
    blind = only(RunState(state.before, replace(state.after, counters=())), "machine: {throttled: false}")
    assert (blind.verdict, blind.reason) == (
        Outcome.INVALID,
        "cannot be told: over-current counters cannot be read here.",
    )
    container = Machine("desktop", tmp_path / "d").state()
    assert only(container, "machine: {throttled: false}").verdict is Outcome.PASS


def test_a_throttled_run_fails_its_own_clause_and_makes_times_invalid(machine: Machine) -> None:
    before = machine.reader.snapshot()
    machine.tree.over_current(0, 6, 120)
    state = RunState(before, machine.reader.snapshot())
    record = record_of([20.0] * 600, machine_state=state)
    sla = sla_of(
        "latency: {p50_ms: 25}\nthroughput: {min_fps: 1}\nmachine: {throttled: false, power_mode: 30W}\n"
        "memory: {peak_mb: 1000}"
    )
    verdicts = judge(record, sla)
    assert [(clause.clause, clause.verdict) for clause in verdicts.clauses] == [
        ("latency.p50_ms", Outcome.INVALID),
        ("throughput.min_fps", Outcome.INVALID),
        ("machine.power_mode", Outcome.PASS),
        ("machine.throttled", Outcome.FAIL),
        ("memory.peak_mb", Outcome.PASS),
    ]
    why = "throttled: OC2 (average over-current) rose by 2 during the run."
    assert verdicts.clauses[0].reason == why
    assert verdicts.clauses[0].estimate == 20
    assert verdicts.unsound == (why,)
    # What was soundly missed decides, whatever could not be measured beside it.
    assert (verdicts.overall, verdicts.exit_status) == (Outcome.FAIL, 1)
    with pytest.raises(SlaViolationError, match=r"machine\.throttled"):
        verdicts.raise_if_violated()


def test_an_unreal_run_spoils_every_clause(machine: Machine) -> None:
    record = record_of(
        [20.0] * 9, machine_state=machine.state(), provider=ProviderFacts("null", "null (no inference)")
    )
    verdicts = judge(record, sla_of("machine: {throttled: false}\nmemory: {peak_mb: 1000}"))
    assert {clause.verdict for clause in verdicts.clauses} == {Outcome.INVALID}


def test_oc3_alone_leaves_a_run_sound(machine: Machine) -> None:
    before = machine.reader.snapshot()
    machine.tree.over_current(0, 4, 500)
    record = record_of([20.0] * 600, machine_state=RunState(before, machine.reader.snapshot()))
    assert judge(record, sla_of("latency: {p50_ms: 25}\nmachine: {throttled: false}")).overall is Outcome.PASS


@pytest.mark.parametrize(("limit", "verdict"), [(409.6, Outcome.PASS), (409.5, Outcome.FAIL)])
def test_peak_memory_on_the_cpu_is_exact(limit: float, verdict: Outcome, machine: Machine) -> None:
    clause = only(machine.state(), f"memory: {{peak_mb: {limit}}}")  # 400000 kB are 409.6 MB
    assert (clause.verdict, clause.estimate) == (verdict, 409.6)


@pytest.mark.parametrize(
    ("limit", "verdict"),
    [(400, Outcome.FAIL), (2000, Outcome.INCONCLUSIVE), (2050, Outcome.PASS)],
)
def test_on_a_jetson_the_gpus_memory_lies_between_process_and_board(
    limit: float, verdict: Outcome, machine: Machine
) -> None:
    state = replace(machine.state(), watch=WatchColumns(1.0, (0,), (1,), (2_000_000,), (None,)))
    clause = only(state, f"memory: {{peak_mb: {limit}}}", provider=GPU)
    assert (clause.verdict, clause.lower, clause.upper) == (verdict, 409.6, 2048.0)


def test_without_samples_the_gpus_memory_is_unknown_unless_the_process_is_over(machine: Machine) -> None:
    state = machine.state()
    assert only(state, "memory: {peak_mb: 4000}", provider=GPU).verdict is Outcome.INVALID
    assert only(state, "memory: {peak_mb: 100}", provider=GPU).verdict is Outcome.FAIL
    nothing = replace(state.after, memory=Memory())
    clause = only(RunState(state.before, nothing), "memory: {peak_mb: 4000}")
    assert (clause.verdict, clause.reason) == (
        Outcome.INVALID,
        "the process's peak memory cannot be read here.",
    )


def _watched(machine: Machine, rss_kb: list[int | None], period_s: float) -> RunState:
    count = len(rss_kb)
    at_ms = tuple(round(index * period_s * 1000) for index in range(count))
    watch = WatchColumns(period_s, at_ms, tuple(rss_kb), (None,) * count, (None,) * count)
    return replace(machine.state(), watch=watch)


@pytest.mark.parametrize(
    ("growth_kb", "period_s", "limit", "verdict"),
    [
        (0, 60, 50, Outcome.PASS),  # an hour without a step of 8 MB
        (0, 60, 40, Outcome.INCONCLUSIVE),
        (0, 1, 2, Outcome.INCONCLUSIVE),
        (0, 1, 100, Outcome.INCONCLUSIVE),  # a minute shows no rate of steps
        (500, 60, 20, Outcome.FAIL),  # 30.7 MB/h
        (500, 60, 90, Outcome.PASS),
        (500, 60, 31, Outcome.INCONCLUSIVE),
    ],
)
def test_growth_passes_only_when_its_bound_is_inside(
    growth_kb: int, period_s: float, limit: float, verdict: Outcome, machine: Machine
) -> None:
    state = _watched(machine, [300_000 + growth_kb * index for index in range(60)], period_s)
    clause = only(state, f"memory: {{rss_slope_mb_per_h: {limit}}}")
    assert clause.verdict is verdict
    assert clause.lower is not None
    assert clause.upper is not None
    assert clause.lower < float(clause.estimate or 0) + 1e-9
    if verdict is Outcome.INCONCLUSIVE:
        assert "do not decide it: growth comes in steps, of 8 MB or those seen. Run longer." in clause.reason


def test_growth_needs_samples_and_is_not_taken_from_the_start(machine: Machine) -> None:
    clause = only(_watched(machine, [300_000] * 10, 1), "memory: {rss_slope_mb_per_h: 1000}")
    assert (clause.verdict, clause.reason) == (
        Outcome.INCONCLUSIVE,
        "too short: 10 samples after warm-up, 24 are needed.",
    )
    clause = only(_watched(machine, [None] * 40, 1), "memory: {rss_slope_mb_per_h: 1000}")
    assert (clause.verdict, clause.reason) == (
        Outcome.INVALID,
        "no sample of the process's memory was taken.",
    )
    filling = [100_000] * 20 + [300_000] * 200
    clause = only(_watched(machine, filling, 1), "memory: {rss_slope_mb_per_h: 1000}")
    assert (clause.verdict, clause.samples, clause.estimate) == (Outcome.PASS, 200, pytest.approx(0))


def test_growth_in_the_first_half_of_an_hour_is_no_warm_up(machine: Machine) -> None:
    grown = [300_000 + min(minute, 30) * 26_000 for minute in range(60)]
    clause = only(_watched(machine, list(grown), 60), "memory: {rss_slope_mb_per_h: 500}")
    assert clause.samples >= 58
    assert clause.verdict is not Outcome.PASS
    assert clause.estimate is not None
    assert float(clause.estimate) > 500


def test_a_record_without_state_says_that_throttling_would_not_show(machine: Machine) -> None:
    sla = sla_of("latency: {p50_ms: 25}")
    assert "throttling would not show" in judge(record_of([20.0] * 100), sla).notes[-1]
    state = machine.state()
    blind = RunState(state.before, replace(state.after, counters=()))
    notes = judge(record_of([20.0] * 100, machine_state=blind), sla).notes
    assert notes[-1] == "Throttling would not show: over-current counters cannot be read here."
    assert "Throttling" not in " ".join(judge(record_of([20.0] * 100, machine_state=state), sla).notes)


def test_a_record_of_the_first_schema_is_still_read_and_judged() -> None:
    document = record_json(record_of([20.0] * 600))
    document["schema_version"] = 1
    for key in ("machine_state", "machine_findings"):
        del document[key]
    record: RunRecord = parse_record(document)
    assert record.machine_state is None
    assert judge(record, sla_of("latency: {p50_ms: 25}")).overall is Outcome.PASS
