"""Energy and power clauses: decided only outside the uncertainty, INVALID without a sound measurement."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from power_records import BUSY_W, FACTS, IDLE_W, PERIOD_MS, RAIL, powered
from records import record_of

from edge_sdk.errors import SlaFileError
from edge_sdk.measurements import Route
from edge_sdk.power import RailFacts
from edge_sdk.report.energy import energy_of_run
from edge_sdk.report.record import RunRecord
from edge_sdk.report.record_file import load_record, parse_record, record_json, write_record
from edge_sdk.report.verdict import ClauseVerdict, Outcome, judge
from edge_sdk.sla import PowerLimit, parse_sla

TOTAL_MJ = BUSY_W * PERIOD_MS
MARGINAL_MJ = (BUSY_W - IDLE_W) * PERIOD_MS


def only(record: RunRecord, limits: str) -> ClauseVerdict:
    (clause,) = judge(record, parse_sla(f"name: line\nengine: substation-rgbt\n{limits}\n")).clauses
    return clause


def test_total_and_marginal_energy_per_inference() -> None:
    report, why = energy_of_run(powered())
    assert report is not None, why
    assert report.inferences == 499  # the first frame is cold
    assert report.total_mj.value == pytest.approx(TOTAL_MJ, rel=0.01)
    assert report.marginal_mj is not None
    assert report.marginal_mj.value == pytest.approx(MARGINAL_MJ, rel=0.02)
    assert report.idle_w is not None
    assert report.idle_w.value == pytest.approx(IDLE_W)
    assert report.total_mj.sigma / report.total_mj.value < 0.01


@pytest.mark.parametrize(
    ("limit", "verdict"),
    [
        (1.05 * TOTAL_MJ, Outcome.PASS),
        (1.002 * TOTAL_MJ, Outcome.INCONCLUSIVE),
        (0.998 * TOTAL_MJ, Outcome.INCONCLUSIVE),
        (0.95 * TOTAL_MJ, Outcome.FAIL),
    ],
)
def test_a_limit_within_the_uncertainty_decides_nothing(limit: float, verdict: Outcome) -> None:
    clause = only(powered(), f"energy: {{per_inference_mj: {{max: {limit}, kind: total}}}}")
    assert (clause.clause, clause.unit) == ("energy.per_inference_mj", "mJ")
    assert clause.verdict is verdict
    assert clause.lower is not None
    assert clause.upper is not None
    assert clause.lower < TOTAL_MJ < clause.upper
    if verdict is Outcome.INCONCLUSIVE:
        assert clause.reason == "the limit lies within the uncertainty of the sensor."


def test_the_bound_grows_with_confidence() -> None:
    limits = f"energy: {{per_inference_mj: {{max: {1.011 * TOTAL_MJ}, kind: total}}}}"
    assert only(powered(), limits + "\nconfidence: 0.6").verdict is Outcome.PASS
    assert only(powered(), limits + "\nconfidence: 0.9999999").verdict is Outcome.INCONCLUSIVE


def test_the_kind_is_what_is_judged() -> None:
    between = (TOTAL_MJ + MARGINAL_MJ) / 2
    total = only(powered(), f"energy: {{per_inference_mj: {{max: {between}, kind: total}}}}")
    marginal = only(powered(), f"energy: {{per_inference_mj: {{max: {between}, kind: marginal}}}}")
    assert (total.verdict, marginal.verdict) == (Outcome.FAIL, Outcome.PASS)


def test_no_sensor_is_invalid_never_pass() -> None:
    record = replace(record_of([20.0] * 500), power="no power sensor: ina3221: no /sys here")
    for limits in ("energy: {per_inference_mj: {max: 1000000, kind: total}}", "power: {mean_w: 1000}"):
        clause = only(record, limits)
        assert clause.verdict is Outcome.INVALID
        assert clause.reason == "no power sensor: ina3221: no /sys here"
        assert (clause.estimate, clause.lower, clause.upper) == (None, None, None)
    verdicts = judge(record, parse_sla("engine: substation-rgbt\npower: {mean_w: 9}\nlatency: {p50_ms: 50}"))
    assert (verdicts.overall, verdicts.exit_status) == (Outcome.INVALID, 2)
    assert [clause.verdict for clause in verdicts.clauses] == [Outcome.PASS, Outcome.INVALID]


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (powered(1.5), "the window lasted 1.48 s, at least 2 s are needed"),
        (powered(2.4), "too short: 59 inferences after warm-up, 64 are needed"),
        (powered(10.0, hz=1.0), "too short: 10 samples of power after warm-up, 20 are needed"),
        (powered(facts=replace(FACTS, origin="tree")), "in this run: read from a copied file tree"),
        (powered(facts=replace(FACTS, origin="replay")), "no power was measured in this run: replayed"),
        (powered(failed="VDD_IN: EIO"), "the power sensor failed in mid-run: VDD_IN: EIO"),
        (powered(pause_ms=4.0), "9 % of the time went into pictures and files between frames"),
        (powered(facts=replace(FACTS, rails=(replace(RAIL, in_total=False),))), "no rails to add up"),
    ],
    ids=["window", "inferences", "samples", "tree", "replay", "failed", "pictures", "no total"],
)  # fmt: skip
def test_an_unsound_measurement_is_invalid(record: RunRecord, words: str) -> None:
    clause = only(record, "energy: {per_inference_mj: {max: 1000000, kind: total}}")
    assert clause.verdict is Outcome.INVALID
    assert words in clause.reason


def test_a_marginal_clause_needs_idle_that_agrees() -> None:
    limits = "energy: {per_inference_mj: {max: 1000000, kind: marginal}}"
    assert only(powered(idle_after_w=5.1), limits).verdict is Outcome.PASS
    moved = only(powered(idle_after_w=5.3), limits)
    assert (moved.verdict, moved.estimate) == (Outcome.INVALID, None)
    assert moved.reason.startswith(
        "no marginal energy: idle was 5.000 W before and 5.300 W after, 6.0 % apart"
    )
    assert "idle was not measured" in only(powered(idle=False), limits).reason


def test_a_clause_names_the_scope_it_is_about() -> None:
    limits = "energy: {per_inference_mj: {max: 1000000, kind: total}, scope: board}"
    assert only(powered(), limits.replace("board", "module")).verdict is Outcome.PASS
    clause = only(powered(), limits)
    assert clause.verdict is Outcome.INVALID
    assert clause.reason == "the SLA asks for the power of board, the meter covers module"


def test_mean_power() -> None:
    assert only(powered(), "power: {mean_w: 9.5}").verdict is Outcome.PASS
    assert only(powered(), "power: {mean_w: 9.01}").verdict is Outcome.INCONCLUSIVE
    clause = only(powered(), "power: {mean_w: 8.5}")
    assert (clause.verdict, clause.unit) == (Outcome.FAIL, "W")
    assert clause.estimate == pytest.approx(9.0, rel=0.01)


def test_p95_power_needs_samples_that_are_apart() -> None:
    short = only(powered(20.0), "power: {p95_w: 12}")
    assert short.verdict is Outcome.INCONCLUSIVE
    assert short.reason == "too few samples: 20 a second apart after warm-up, at least 90 are needed."
    long = only(powered(95.0), "power: {p95_w: 12}")
    assert (long.verdict, long.samples) == (Outcome.PASS, 95)
    assert long.upper is not None
    assert 9.0 < long.upper < 9.3
    assert only(powered(95.0), "power: {p95_w: 8.5}").verdict is Outcome.FAIL


BARE = replace(FACTS, rails=(RailFacts("VDD_IN", "test", True),))
MIXED = [
    route
    for block in range(40)
    for rgb in [47 if block % 3 == 0 else 10]
    for route in [Route.RGB] * rgb + [Route.FUSE] * (50 - rgb)
]


def test_energy_by_route_is_fitted_or_not_identifiable() -> None:
    record = powered(80.0, facts=BARE, routes=MIXED, watts_of={Route.RGB: 6.0, Route.FUSE: 10.0}, hz=50.0)
    assert (
        only(record, "energy: {routes: {fuse: {per_inference_mj: {max: 440, kind: total}}}}").verdict
        is Outcome.PASS
    )
    clause = only(record, "energy: {routes: {rgb: {per_inference_mj: {max: 200, kind: total}}}}")
    assert (clause.verdict, clause.clause) == (Outcome.FAIL, "energy.routes.rgb.per_inference_mj")
    assert clause.estimate == pytest.approx(240.0, rel=0.03)
    assert clause.samples == record.frames.route[record.warm_up_frames :].count("rgb")
    report, _ = energy_of_run(record)
    assert report is not None
    assert report.by_route_marginal.groups["fuse"].value == pytest.approx(200.0, rel=0.05)
    alternating = powered(40.0, routes=[Route.RGB, Route.FUSE] * 500)
    clause = only(alternating, "energy: {routes: {rgb: {per_inference_mj: {max: 440, kind: total}}}}")
    assert clause.verdict is Outcome.INCONCLUSIVE
    assert clause.reason == "not identifiable: the mixture of frames hardly changes over the run"


def test_a_verdict_on_power_is_the_same_from_the_file(tmp_path: Path) -> None:
    sla = parse_sla(
        "engine: substation-rgbt\nenergy: {per_inference_mj: {max: 400, kind: marginal}}\npower: {p95_w: 9}"
    )
    record = powered()
    write_record(record, tmp_path / "r.json")
    again = load_record(tmp_path / "r.json")
    assert record_json(again) == record_json(record)
    assert judge(again, sla).as_json() == judge(record, sla).as_json()


def test_a_record_from_before_meters_is_still_read() -> None:
    document = record_json(record_of([20.0] * 50))
    del document["meter"]
    record = parse_record(document)
    assert (record.meter, record.power) == (None, "no power sensor read")


def test_energy_clauses_are_read_from_the_file() -> None:
    sla = parse_sla(
        "engine: mine\nenergy: {per_inference_mj: {max: 400, kind: total}, scope: module, "
        "routes: {fuse: {per_inference_mj: {max: 600, kind: marginal}}}}\npower: {mean_w: 15, p95_w: 18}"
    )
    assert sla.power == (
        PowerLimit("energy.per_inference_mj", "per_inference_mj", 400, "total", None, "module"),
        PowerLimit(
            "energy.routes.fuse.per_inference_mj", "per_inference_mj", 600, "marginal", Route.FUSE, "module"
        ),
        PowerLimit("power.mean_w", "mean_w", 15),
        PowerLimit("power.p95_w", "p95_w", 18),
    )


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ("energy: {per_inference_mj: {max: 4}}", "energy.per_inference_mj.kind", "missing. Give kind: total"),
        (
            "energy: {per_inference_mj: {kind: total}}",
            "energy.per_inference_mj.max",
            "missing. Give max: 400",
        ),
        ("energy: {per_inference_mj: 400}", "energy.per_inference_mj", "expected a section"),
        (
            "energy: {per_inference_mj: {max: 4, kind: net}}",
            "energy.per_inference_mj.kind",
            "one of total, marginal",
        ),
        ("energy: {per_inference_mj: {max: -4, kind: total}}", "energy.per_inference_mj.max", "more than 0"),
        ("energy: {per_inference: {max: 4}}", "energy.per_inference", "Did you mean per_inference_mj?"),
        ("energy: {routes: {rbg: {}}}", "energy.routes.rbg", "Did you mean rgb?"),
        ("energy: {routes: {rgb: {}}}", "energy.routes.rgb", "no limit in it"),
        ("energy: {scope: rails}", "energy.scope", "one of module, gpu, board, cpu package"),
        ("power: {mean: 4}", "power.mean", "Did you mean mean_w?"),
        ("power: {mean_w: 0}", "power.mean_w", "more than 0"),
        ("power: {scope: module}", "", "no limit to judge"),
    ],
)
def test_a_wrong_clause_is_refused_by_key(text: str, key: str, words: str) -> None:
    with pytest.raises(SlaFileError) as caught:
        parse_sla(f"engine: mine\n{text}\n")
    assert caught.value.key == key
    assert words in str(caught.value)


def test_the_sensors_error_is_in_the_energy_of_a_route_too() -> None:
    """A fit without residuals still cannot be better than the sensor."""
    report, _ = energy_of_run(powered(80.0))
    assert report is not None
    route = report.by_route.groups["rgb"]
    assert route.sigma / route.value >= report.total_mj.sigma / report.total_mj.value
    assert report.marginal_doubt == "idle was measured for 5.0 s, under 10 s"


def test_a_clock_that_ran_backwards_ends_in_a_verdict() -> None:
    record = powered()
    frames = replace(record.frames, start_ns=record.frames.start_ns[::-1].copy())
    clause = only(replace(record, frames=frames), "energy: {per_inference_mj: {max: 1000000, kind: total}}")
    assert clause.verdict is Outcome.INVALID
