"""Verdicts: each outcome of each clause, at its very limits, and the same again from the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import record_of

from edge_sdk.errors import SlaViolationError
from edge_sdk.measurements import Route
from edge_sdk.report.record import EndedEarly, ProviderFacts, RunFacts, RunRecord, SlaFacts, SourceFacts
from edge_sdk.report.record_file import load_record, parse_record, record_json, write_record
from edge_sdk.report.verdict import ClauseVerdict, Outcome, Verdicts, judge
from edge_sdk.sla import Sla, parse_sla

STEADY = [20.0] * 1000


def sla_of(limits: str, **changes: Any) -> Sla:
    return replace(parse_sla(f"name: line\nengine: substation-rgbt\n{limits}\n"), **changes)


def only(record: RunRecord, limits: str) -> ClauseVerdict:
    (clause,) = judge(record, sla_of(limits)).clauses
    return clause


def test_a_bound_within_the_limit_passes() -> None:
    clause = only(record_of(STEADY), "latency: {p99_ms: 25}")
    assert (clause.clause, clause.limit, clause.unit) == ("latency.p99_ms", 25, "ms")
    assert (clause.estimate, clause.lower, clause.upper, clause.samples) == (20, 20, 20, 999)
    assert (clause.verdict, clause.reason) == (Outcome.PASS, "upper bound 20 ms is within it.")


def test_the_exact_limit_passes_and_a_nanosecond_less_fails() -> None:
    record = record_of(STEADY)
    assert only(record, "latency: {p50_ms: 20}").verdict is Outcome.PASS
    assert only(record, "latency: {p50_ms: 19.999999}").verdict is Outcome.FAIL


def test_a_lower_bound_over_the_limit_fails() -> None:
    clause = only(record_of(STEADY), "latency: {p50_ms: 15}")
    assert (clause.verdict, clause.reason) == (Outcome.FAIL, "lower bound 20 ms is over it.")


@pytest.mark.parametrize(("frames", "verdict"), [(459, Outcome.INCONCLUSIVE), (460, Outcome.PASS)])
def test_too_few_frames_are_inconclusive_and_the_reason_says_how_many(frames: int, verdict: Outcome) -> None:
    clause = only(record_of([20.0] * frames), "latency: {p99_ms: 25}")  # the first frame is cold
    assert clause.verdict is verdict
    if verdict is Outcome.INCONCLUSIVE:
        assert clause.upper is None
        assert clause.reason == "too few frames: 458 after warm-up, at least 459 are needed."


def test_too_few_frames_can_still_fail() -> None:
    assert only(record_of([20.0] * 100), "latency: {p99_ms: 15}").verdict is Outcome.FAIL


def _with_slow(slow: int, count: int) -> list[float]:
    """Spreads slow frames over a run."""
    latencies = [20.0] * count
    for index in np.linspace(10, count - 2, slow).astype(int):
        latencies[index] = 90.0
    return latencies


def test_a_limit_between_the_bounds_is_inconclusive() -> None:
    clause = only(record_of(_with_slow(6, 1001)), "latency: {p99_ms: 25}")
    assert clause.verdict is Outcome.INCONCLUSIVE
    assert clause.reason.startswith("6 of 1000 frames are over it, which decides neither way; ")
    assert clause.reason.endswith("would pass.")
    needed = int(clause.reason.split("about ")[1].split()[0])
    assert (
        only(record_of(_with_slow(round(0.006 * needed), needed + 1)), "latency: {p99_ms: 25}").verdict
        is Outcome.PASS
    )


def test_a_share_of_slow_frames_beyond_the_percentile_says_so() -> None:
    clause = only(record_of(_with_slow(11, 1001)), "latency: {p99_ms: 25}")
    assert clause.verdict is Outcome.INCONCLUSIVE
    assert "no longer run would pass" in clause.reason


def test_confidence_comes_from_the_file() -> None:
    record = record_of([20.0] * 100)
    assert only(record, "latency: {p95_ms: 25}\nconfidence: 0.99").verdict is Outcome.PASS
    assert only(record, "latency: {p95_ms: 25}\nconfidence: 0.999").verdict is Outcome.INCONCLUSIVE


def test_routes_and_stages_are_judged_on_their_own_frames() -> None:
    routes = [Route.RGB, Route.FUSE] * 300
    record = record_of([10.0 if route is Route.RGB else 40.0 for route in routes], routes=routes)
    assert only(record, "latency: {routes: {rgb: {p95_ms: 12}}}").verdict is Outcome.PASS
    assert only(record, "latency: {routes: {fuse: {p95_ms: 12}}}").verdict is Outcome.FAIL
    engine = only(record, "latency: {stages: {engine: {p50_ms: 30}}}")
    assert (engine.verdict, engine.upper) == (Outcome.PASS, 30.0)


def test_a_route_that_no_frame_took_is_inconclusive() -> None:
    clause = only(record_of(STEADY), "latency: {routes: {thermal: {p50_ms: 9}}}")
    assert (clause.verdict, clause.samples, clause.estimate) == (Outcome.INCONCLUSIVE, 0, None)
    assert clause.reason == "no frame took the route thermal after warm-up."
    clause = only(record_of(STEADY), "latency: {stages: {pairing: {max_ms: 9}}}")
    assert (clause.verdict, clause.reason) == (
        Outcome.INCONCLUSIVE,
        "no frame passed the stage pairing after warm-up.",
    )


def test_the_cold_start_is_not_judged() -> None:
    verdicts = judge(record_of([900.0] + [6.8] * 25 + [5.0] * 600), sla_of("latency: {max_ms: 6, p99_ms: 6}"))
    assert verdicts.overall is Outcome.PASS
    assert verdicts.warm_up_frames == 26
    assert "The first 26 of 626 frames are cold start and warm-up" in verdicts.notes[2]


def test_a_slow_head_beyond_the_budget_counts_and_passes_nothing_that_it_misses() -> None:
    record = record_of([40.0] * 450 + [20.0] * 550)  # 18 of 40 s
    assert record.warm_up_frames == 1
    verdicts = judge(record, sla_of("latency: {p50_ms: 25, p99_ms: 50, p90_ms: 25}"))
    assert [(clause.verdict, clause.samples) for clause in verdicts.clauses] == [
        (Outcome.INCONCLUSIVE, 999),  # the median of all is 20 ms, that of the head is not
        (Outcome.PASS, 999),  # head and rest keep it
        (Outcome.FAIL, 999),
    ]
    text = "did not settle in time: the first 450 of 1000 frames (18.0 s) are 2 times as slow as the rest"
    assert text in verdicts.clauses[0].reason
    assert text in verdicts.notes[3]


def test_a_slow_start_of_the_frame_rate_is_no_warm_up() -> None:
    slow, quick = [40.0] * 4500, [20.0] * 5500
    record = record_of(slow + quick, period_ms=40.0)
    start_ns = np.cumsum([0, *(round(ms * 1e6) for ms in (slow + quick)[:-1])])
    record = replace(record, frames=replace(record.frames, start_ns=start_ns))
    assert only(record, "throughput: {min_fps: 24}").verdict is Outcome.PASS
    clause = only(record, "throughput: {min_fps: 30}")
    assert (clause.verdict, "did not settle" in clause.reason) == (Outcome.INCONCLUSIVE, True)


@pytest.mark.parametrize(
    ("budget", "warm_up"),
    [
        ("", 60),
        (", warm_up_frames: 59", 1),
        (", warm_up_frames: 60", 60),
        (", warm_up_s: 2.3", 1),
        (", warm_up_s: 2.4", 60),
    ],
)
def test_the_budget_for_warm_up_comes_from_the_file(budget: str, warm_up: int) -> None:
    sla = sla_of(f"latency: {{p50_ms: 25}}\nrun: {{frames: 1000{budget}}}")
    assert judge(record_of([40.0] * 60 + [20.0] * 940), sla).warm_up_frames == warm_up


def test_no_more_than_a_tenth_of_a_run_is_warm_up() -> None:
    assert record_of([40.0] * 30 + [20.0] * 270).warm_up_frames == 30
    assert record_of([40.0] * 30 + [20.0] * 269).warm_up_frames == 1


@pytest.mark.parametrize("run", ["frames: 1000", "duration_s: 3600"])
def test_no_clause_passes_on_a_record_shorter_than_the_sla_states(run: str) -> None:
    limits = "latency: {max_ms: 25}\nframes: {max_dropped_share: 0}\n"
    short = record_of([20.0, 20.0])
    assert judge(short, sla_of(limits)).overall is Outcome.PASS
    verdicts = judge(short, sla_of(f"{limits}run: {{{run}}}"))
    assert [clause.verdict for clause in verdicts.clauses] == [Outcome.INCONCLUSIVE] * 2
    assert "the run is too short: the SLA asks for" in verdicts.clauses[0].reason
    assert judge(short, sla_of(f"{limits}run: {{{run}}}"), window=True).overall is Outcome.PASS
    missed = judge(short, sla_of(f"latency: {{max_ms: 1}}\nrun: {{{run}}}"))
    assert missed.overall is Outcome.FAIL  # a shorter run is enough to miss it


def test_a_length_that_is_just_reached_is_enough() -> None:
    record = record_of([20.0] * 1000)  # 39.98 s
    assert judge(record, sla_of("latency: {p50_ms: 25}\nrun: {duration_s: 40}")).overall is Outcome.PASS
    assert judge(record, sla_of("latency: {p50_ms: 25}\nrun: {frames: 1000}")).overall is Outcome.PASS
    longer = judge(record, sla_of("latency: {p50_ms: 25}\nrun: {duration_s: 41}"))
    assert longer.clauses[0].reason == ("the run is too short: the SLA asks for 41 s, the record lasts 40 s.")


def test_a_run_that_a_signal_ended_passes_only_on_lengths_it_reached() -> None:
    limits = "latency: {p50_ms: 25, p99_ms: 10}"
    stopped = RunFacts(duration_s_asked=60.0, ended_early=EndedEarly("signal", "SIGTERM"))
    verdicts = judge(record_of(STEADY, run=stopped), sla_of(limits))
    assert [clause.verdict for clause in verdicts.clauses] == [Outcome.INCONCLUSIVE, Outcome.FAIL]
    assert verdicts.clauses[0].reason == (
        "the run is too short: ended early by SIGTERM; asked were 60 s, the record lasts 40 s."
    )
    assert "The run was ended early by SIGTERM." in verdicts.notes
    endless = RunFacts(ended_early=EndedEarly("signal", "SIGINT"))
    enough = judge(record_of(STEADY, run=endless), sla_of("latency: {p50_ms: 25}\nrun: {frames: 900}"))
    assert enough.overall is Outcome.PASS


@pytest.mark.parametrize("cause", ["error", "disk full"])
def test_a_run_that_an_error_ended_is_invalid(cause: str) -> None:
    facts = RunFacts(ended_early=EndedEarly(cause, "graph 'rgb' failed"))
    verdicts = judge(record_of(STEADY, run=facts), sla_of("latency: {p50_ms: 25}"))
    assert (verdicts.overall, verdicts.exit_status) == (Outcome.INVALID, 2)
    assert verdicts.unsound == (f"the run ended early, after 1000 frames, by {cause}: graph 'rgb' failed.",)


def test_the_largest_frame_holds_for_this_run_only() -> None:
    record = record_of(_with_slow(3, 500))
    assert only(record, "latency: {max_ms: 90}").verdict is Outcome.PASS
    clause = only(record, "latency: {max_ms: 89}")
    assert (clause.verdict, clause.estimate, clause.upper) == (Outcome.FAIL, 90, None)
    assert clause.reason == "3 of 499 frames after warm-up over it. Holds for this run only."


def test_the_largest_frame_names_what_warm_up_kept_out_of_it() -> None:
    clause = only(record_of([500.0, *STEADY]), "latency: {max_ms: 90}")
    assert clause.verdict is Outcome.PASS
    assert clause.reason == (
        "no frame after warm-up over it. Not judged: cold start and warm-up, 1 of 1001 frames, up to "
        "500 ms. "
        "Holds for this run only."
    )


def test_frame_rate_passes_fails_and_needs_time() -> None:
    record = record_of([20.0] * 300, period_ms=40)
    assert only(record, "throughput: {min_fps: 24.9}").verdict is Outcome.PASS
    clause = only(record, "throughput: {min_fps: 25.1}")
    assert (clause.verdict, clause.unit) == (Outcome.FAIL, "frames/s")
    short = only(record_of([20.0] * 100, period_ms=40), "throughput: {min_fps: 20}")
    assert short.verdict is Outcome.INCONCLUSIVE
    assert short.reason == "too short: 3 blocks of 1 s after warm-up, 10 are needed."


def test_a_paced_run_cannot_show_more_than_its_pace() -> None:
    paced = record_of([20.0] * 300, period_ms=40, run=RunFacts(pace_hz=25))
    clause = only(paced, "throughput: {min_fps: 30}\nrun: {pace_hz: 25}")
    assert clause.verdict is Outcome.INCONCLUSIVE
    assert "a run paced at 25 Hz cannot show more" in clause.reason
    assert only(paced, "throughput: {min_fps: 25}\nrun: {pace_hz: 25}").verdict is Outcome.PASS
    assert only(paced, "throughput: {min_fps: 24}\nrun: {pace_hz: 25}").verdict is Outcome.PASS
    behind = record_of([60.0] * 300, period_ms=60, run=RunFacts(pace_hz=25))
    assert only(behind, "throughput: {min_fps: 25}\nrun: {pace_hz: 25}").verdict is Outcome.FAIL


def test_dropped_share_is_judged_by_its_exact_bound() -> None:
    assert only(record_of([20.0] * 459), "frames: {max_dropped_share: 0.01}").verdict is Outcome.PASS
    clause = only(record_of([20.0] * 458), "frames: {max_dropped_share: 0.01}")
    assert clause.verdict is Outcome.INCONCLUSIVE
    assert clause.reason == "0 of 458 pairs dropped: at least 459 pairs are needed."
    assert (
        only(record_of([20.0] * 500, dropped=30), "frames: {max_dropped_share: 0.01}").verdict is Outcome.FAIL
    )
    clause = only(record_of([20.0] * 600, dropped=2), "frames: {max_dropped_share: 0.01}")
    assert (clause.verdict, clause.samples) == (Outcome.INCONCLUSIVE, 602)
    assert clause.reason == "2 of 602 pairs dropped: more pairs would decide."


def test_no_dropped_frame_at_all_is_a_count() -> None:
    assert only(record_of([20.0] * 5), "frames: {max_dropped_share: 0}").verdict is Outcome.PASS
    clause = only(record_of([20.0] * 5, dropped=1), "frames: {max_dropped_share: 0}")
    assert (clause.verdict, clause.reason) == (Outcome.FAIL, "1 of 6 pairs dropped. Holds for this run only.")


def test_missed_turns_of_the_pace_count_as_lost_frames() -> None:
    record = record_of([60.0] * 500, run=RunFacts(pace_hz=25, late_frames=400, missed_turns=250))
    clause = only(record, "frames: {max_dropped_share: 0.01}\nrun: {pace_hz: 25}")
    assert (clause.verdict, clause.samples) == (Outcome.FAIL, 750)
    assert clause.estimate == pytest.approx(1 / 3)
    assert "250 turns of the pace missed" in clause.reason


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (
            {"provider": ProviderFacts("cuda", "CPUExecutionProvider", (), True)},
            "provider fell back: cuda was asked for",
        ),
        ({"provider": ProviderFacts("null", "null (no inference)")}, "no real engine ran"),
        ({"provider": ProviderFacts("auto", "CUDA driver emulator")}, "no real engine ran"),
        ({"source": SourceFacts("clip:substation", 2000, True)}, "the source ended early, after 1000 frames"),
        ({"unsound": ("throttled",)}, "throttled"),
        ({"period_ms": -1.0}, "the clock went backwards"),
        ({"engine": "other"}, "the record is of engine other, the SLA asks for substation-rgbt"),
        (
            {"source": SourceFacts("pairs:here")},
            "the record is of source pairs:here, the SLA asks for clip:substation",
        ),
        ({"run": RunFacts(pace_hz=25)}, "the run was paced at 25 Hz, the SLA asks for back to back"),
    ],
)
def test_an_unsound_measurement_is_invalid_whatever_it_shows(facts: dict[str, Any], why: str) -> None:
    verdicts = judge(record_of(STEADY, **facts), sla_of("latency: {p50_ms: 1, p99_ms: 25}"))
    assert why in verdicts.unsound[0]
    assert [clause.verdict for clause in verdicts.clauses] == [Outcome.INVALID] * 2
    assert verdicts.clauses[0].estimate == 20
    assert (verdicts.overall, verdicts.exit_status) == (Outcome.INVALID, 2)


def test_forced_routes_are_not_the_routers_choice() -> None:
    document = record_json(record_of(STEADY))
    document["frames"]["reason"][5:7] = ["forced", "forced"]
    verdicts = judge(parse_record(document), sla_of("latency: {p50_ms: 25}"))
    assert verdicts.unsound == (
        "the caller forced the route of 2 frames; an SLA judges the router's own choice.",
    )


def test_negative_times_are_a_clock_that_went_backwards() -> None:
    verdicts = judge(record_of([20.0] * 20 + [-1.0] + [20.0] * 20), sla_of("latency: {p50_ms: 25}"))
    assert verdicts.unsound == ("the clock went backwards during the run.",)


def test_the_device_must_be_the_one_the_sla_insists_on() -> None:
    sla = sla_of("latency: {p50_ms: 25}\ndevice: cuda")
    record = record_of(
        STEADY, provider=ProviderFacts("cpu", "CPUExecutionProvider"), sla=SlaFacts("line", sla.sha256)
    )
    assert judge(record, sla).unsound == ("the run was asked to be on cpu, the SLA asks for cuda.",)


def test_a_record_made_for_this_very_file_is_of_its_source() -> None:
    sla = sla_of("latency: {p50_ms: 25}\nsource: pairs:/elsewhere/frames")
    record = record_of(STEADY, source=SourceFacts("pairs:~/frames"), sla=SlaFacts("line", sla.sha256))
    assert judge(record, sla).overall is Outcome.PASS


def test_the_worst_clause_decides() -> None:
    record = record_of([20.0] * 200)
    cases = [
        ("latency: {p50_ms: 25}", Outcome.PASS, 0),
        ("latency: {p50_ms: 25, p99_ms: 25}", Outcome.INCONCLUSIVE, 2),
        ("latency: {p50_ms: 15, p99_ms: 25}", Outcome.FAIL, 1),
    ]
    for limits, overall, exit_status in cases:
        verdicts = judge(record, sla_of(limits))
        assert (verdicts.overall, verdicts.exit_status) == (overall, exit_status)


def test_a_violation_can_be_raised() -> None:
    record = record_of(STEADY)
    judge(record, sla_of("latency: {p50_ms: 25}")).raise_if_violated()
    with pytest.raises(SlaViolationError, match=r"latency\.p50_ms: lower bound 20 ms is over it"):
        judge(record, sla_of("latency: {p50_ms: 15}")).raise_if_violated()


def test_an_empty_record_is_inconclusive() -> None:
    verdicts = judge(
        record_of([]),
        sla_of("latency: {p50_ms: 25}\nthroughput: {min_fps: 1}\nframes: {max_dropped_share: 0.1}"),
    )
    assert {clause.verdict for clause in verdicts.clauses} == {Outcome.INCONCLUSIVE}


def test_verdicts_say_how_dependent_frames_are() -> None:
    random = np.random.default_rng(3)
    walk = 20 + np.cumsum(random.normal(0, 0.05, 1000)) + random.normal(0, 0.01, 1000)
    verdicts = judge(record_of(list(np.abs(walk) + 5)), sla_of("latency: {p50_ms: 90}"))
    assert (verdicts.dependence.lag1_autocorrelation or 0) > 0.9
    assert verdicts.dependence.blocks >= 20
    assert "not independent (lag-1 autocorrelation 0.9" in verdicts.notes[0] or "1.00" in verdicts.notes[0]
    assert "P95 by second of the run" in verdicts.notes[1]


def test_the_file_gives_exactly_the_same_verdicts(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    routes = [list(Route)[index] for index in random.integers(0, 3, 800)]
    record = record_of(list(random.gamma(9, 2, 800)), routes=routes, dropped=3)
    sla = sla_of(
        "latency: {p50_ms: 18, p99_ms: 40, max_ms: 60, "
        "stages: {engine: {p95_ms: 25}}, routes: {fuse: {p90_ms: 28}}}\n"
        "throughput: {min_fps: 24.5}\nframes: {max_dropped_share: 0.02}"
    )
    first = judge(record, sla)
    write_record(record, tmp_path / "r.json", first.as_json())
    assert judge(load_record(tmp_path / "r.json"), sla) == first


@given(st.lists(st.floats(0.01, 500), max_size=120), st.floats(0.01, 500))
def test_any_run_is_judged_the_same_from_its_file(latencies_ms: list[float], limit_ms: float) -> None:
    sla = sla_of(f"latency: {{p50_ms: {limit_ms:.6f}, p90_ms: {limit_ms:.6f}}}")
    record = record_of(latencies_ms)
    first: Verdicts = judge(record, sla)
    assert judge(parse_record(record_json(record)), sla) == first
    for clause in first.clauses:
        if clause.verdict is Outcome.PASS:
            assert clause.upper is not None
            assert clause.upper <= clause.limit
        if clause.verdict is Outcome.FAIL:
            assert clause.lower is not None
            assert clause.lower > clause.limit


def test_pairs_that_live_cameras_lost_are_lost_frames() -> None:
    """Two of three pairs were superseded: no share of answered pairs hides that."""
    source = SourceFacts("clip:substation", None, pairs_lost={"superseded": 100, "no-partner": 4})
    clause = only(record_of([20.0] * 53, source=source), "frames: {max_dropped_share: 0.1}")
    assert clause.verdict is Outcome.FAIL
    assert "104 of 157 pairs dropped (100 superseded, 4 no-partner by the live cameras)" in clause.reason
    none = SourceFacts("clip:substation", None, pairs_lost={"superseded": 0})
    assert only(record_of([20.0] * 53, source=none), "frames: {max_dropped_share: 0}").verdict is Outcome.PASS
