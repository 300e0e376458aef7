"""The router: heat is never hidden by a confident RGB detector, and nothing flaps."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_sdk.errors import ConfigError, SensorsUnusableError
from edge_sdk.measurements import Reason, Route, Signals
from edge_sdk.routing import (
    Decision,
    GateConfig,
    Need,
    RgbLook,
    RouterState,
    ThermalLook,
    advance,
    decide,
    frame_confidence,
    hot_delta_counts,
    look_at_rgb,
    look_at_thermal,
    measure_health,
)

GATE = GateConfig(audit_every=0)
CALM = Signals(
    "ok", "ok", luminance=120.0, contrast=40.0, hot_delta_k=1.0, screen_score=0.1, rgb_confidence=0.9
)
HEALTH = st.sampled_from(["ok", "missing", "frozen", "stale", "saturated"])
NUMBERS = st.one_of(st.floats(-10, 300), st.sampled_from([math.nan, math.inf, -math.inf]))
SHARES = st.one_of(st.floats(0, 1), st.just(math.nan))
STATES = st.builds(
    RouterState,
    frames=st.integers(0, 200),
    dark=st.booleans(),
    dim=st.booleans(),
    low_confidence=st.booleans(),
    hot_frames_left=st.integers(0, 3),
)


def route(gate: GateConfig, state: RouterState, measured: Signals, force: Route | None = None) -> Decision:
    """Decides as the pipeline does: a signal is given only once it is needed."""
    known = replace(measured, hot_delta_k=None, screen_score=None, rgb_confidence=None)
    decision = decide(gate, state, known, key="k", force=force)
    while isinstance(decision, Need):
        if decision is Need.HEAT:
            assert known.hot_delta_k is None, "asked for heat twice"
            known = replace(known, hot_delta_k=measured.hot_delta_k, screen_score=measured.screen_score)
        else:
            assert known.rgb_confidence is None, "asked for confidence twice"
            known = replace(known, rgb_confidence=measured.rgb_confidence)
        decision = decide(gate, state, known, key="k", force=force)
    return decision


def drive(gate: GateConfig, frames: list[Signals]) -> list[Decision]:
    """Routes a sequence; each frame has new pictures."""
    state, decisions = RouterState(), []
    for index, measured in enumerate(frames):
        known = replace(measured, rgb_confidence=None)
        decision = decide(gate, state, known)
        if decision is Need.CONFIDENCE:
            known = measured
            decision = decide(gate, state, known)
        assert isinstance(decision, Decision)
        decisions.append(decision)
        state = advance(gate, state, known, RgbLook(0, 0, 0, index), ThermalLook(0, index))
    return decisions


# The rule before every saving


@settings(max_examples=400)
@given(
    STATES,
    HEALTH,
    HEALTH,
    NUMBERS,
    NUMBERS,
    NUMBERS,
    st.one_of(st.none(), SHARES),
    SHARES,
    st.integers(0, 3),
)
def test_rgb_alone_never_answers_over_a_hot_region_or_an_unknown(
    state: RouterState,
    rgb_health: str,
    thermal_health: str,
    luminance: float,
    contrast: float,
    hot_delta_k: float,
    screen_score: float | None,
    rgb_confidence: float,
    audit_every: int,
) -> None:
    gate = GateConfig(audit_every=audit_every)
    signals = Signals(
        rgb_health, thermal_health, luminance, contrast, hot_delta_k, screen_score, rgb_confidence
    )
    if rgb_health != "ok" and thermal_health != "ok":
        with pytest.raises(SensorsUnusableError):
            route(gate, state, signals)
        return
    decision = route(gate, state, signals)
    if rgb_health != "ok":
        assert decision == Decision(Route.THERMAL, Reason.RGB_LOST)
    elif thermal_health != "ok":
        assert decision == Decision(Route.RGB, Reason.THERMAL_LOST)
    elif decision.route is Route.RGB:
        assert decision.reason is Reason.CONFIDENT
        assert hot_delta_k < gate.hot_delta_k
        assert screen_score is None or screen_score < gate.screen_score_min
        assert gate.rgb_confidence_min <= rgb_confidence <= 1.0
        assert luminance >= gate.dim_below
        assert contrast >= gate.contrast_min
        assert state.hot_frames_left == 0


@pytest.mark.parametrize("confidence", [0.0, 0.65, 0.99, 1.0])
@pytest.mark.parametrize(
    ("heat", "hot"),
    [
        ({"hot_delta_k": 7.99}, False),
        ({"hot_delta_k": 8.0}, True),
        ({"hot_delta_k": 500.0}, True),
        ({"hot_delta_k": math.nan}, True),
        ({"screen_score": 0.49}, False),
        ({"screen_score": 0.5}, True),
        ({"screen_score": math.nan}, True),
        ({"screen_score": None}, False),
    ],
)
def test_heat_decides_whatever_rgb_says(heat: dict[str, Any], hot: bool, confidence: float) -> None:
    decision = route(GATE, RouterState(), replace(CALM, rgb_confidence=confidence, **heat))
    if hot:
        assert decision == Decision(Route.FUSE, Reason.HOT_REGION)
    else:
        assert decision.reason in (Reason.CONFIDENT, Reason.LOW_CONFIDENCE)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rgb_confidence": math.nan}, Reason.LOW_CONFIDENCE),
        ({"rgb_confidence": math.inf}, Reason.LOW_CONFIDENCE),
        ({"luminance": math.nan}, Reason.DIM),
        ({"contrast": math.nan}, Reason.DIM),
        ({"luminance": None}, Reason.DIM),
        ({"contrast": None}, Reason.DIM),
    ],
)
def test_a_signal_that_is_no_number_never_speaks_for_rgb_alone(
    changes: dict[str, Any], reason: Reason
) -> None:
    assert route(GATE, RouterState(), replace(CALM, **changes)) == Decision(Route.FUSE, reason)


def test_heat_is_asked_for_before_the_rgb_graph_is_run() -> None:
    known = replace(CALM, hot_delta_k=None, screen_score=None, rgb_confidence=None)
    assert decide(GATE, RouterState(), known) is Need.HEAT
    assert decide(GATE, RouterState(), replace(known, hot_delta_k=1.0)) is Need.CONFIDENCE
    assert decide(GATE, RouterState(), replace(known, hot_delta_k=9.0)) == Decision(
        Route.FUSE, Reason.HOT_REGION
    )


# Confidence


@pytest.mark.parametrize(
    ("confidence", "reason"),
    [
        (0.65, Reason.CONFIDENT),
        (float(np.nextafter(0.65, 0)), Reason.LOW_CONFIDENCE),
        (0.0, Reason.LOW_CONFIDENCE),
        (1.0, Reason.CONFIDENT),
    ],
)
def test_confidence_at_the_threshold_is_enough(confidence: float, reason: Reason) -> None:
    assert route(GATE, RouterState(), replace(CALM, rgb_confidence=confidence)).reason is reason


def test_after_a_doubtful_frame_more_confidence_is_wanted() -> None:
    frames = [replace(CALM, rgb_confidence=c) for c in (0.66, 0.64, 0.66, 0.69, 0.71, 0.66)]
    reasons = [decision.reason for decision in drive(GATE, frames)]
    assert reasons == [
        Reason.CONFIDENT,
        Reason.LOW_CONFIDENCE,
        Reason.LOW_CONFIDENCE,
        Reason.LOW_CONFIDENCE,
        Reason.CONFIDENT,
        Reason.CONFIDENT,
    ]


def test_a_threshold_of_one_can_be_met_again_after_a_doubtful_frame() -> None:
    gate = GATE.override(rgb_confidence_min=1.0)
    frames = [replace(CALM, rgb_confidence=c) for c in (0.9, 1.0)]
    assert [d.route for d in drive(gate, frames)] == [Route.FUSE, Route.RGB]


@pytest.mark.parametrize(("rule", "expected"), [("max", 0.9), ("mean", 0.6), ("min", 0.3)])
def test_confidence_of_a_frame(rule: str, expected: float) -> None:
    assert frame_confidence(np.array([0.9, 0.6, 0.3], np.float32), rule) == pytest.approx(expected)
    assert frame_confidence(np.zeros(0, np.float32), rule) == 0.0


# Light


def flips(routes: list[Any]) -> int:
    return sum(one != other for one, other in pairwise(routes))


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.floats(0.5, 2.5))
def test_a_noisy_dusk_flips_each_route_once_each_way(seed: int, amplitude: float) -> None:
    """Luminance 60 -> 2 -> 60 over 800 frames, with noise: rgb, fuse (dim), thermal (dark), and back."""
    ramp = np.concatenate([np.linspace(60, 2, 400), np.linspace(2, 60, 400)])
    noisy = ramp + np.random.default_rng(seed).uniform(-amplitude, amplitude, ramp.size)
    frames = [replace(CALM, luminance=float(max(level, 0))) for level in noisy]
    routes = [decision.route for decision in drive(GATE, frames)]
    assert flips(routes) == 4
    assert routes[0] is routes[-1] is Route.RGB
    assert routes[400] is Route.THERMAL


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_a_fading_contrast_flips_once_each_way(seed: int) -> None:
    ramp = np.concatenate([np.linspace(14, 4, 300), np.linspace(4, 14, 300)])
    noisy = ramp + np.random.default_rng(seed).uniform(-0.5, 0.5, ramp.size)
    routes = [d.route for d in drive(GATE, [replace(CALM, contrast=float(level)) for level in noisy])]
    assert flips(routes) == 2


def test_without_hysteresis_the_same_dusk_flaps() -> None:
    """Shows that the two tests above can fail."""
    ramp = np.linspace(40, 30, 300) + np.random.default_rng(0).uniform(-2, 2, 300)
    frames = [replace(CALM, luminance=float(level)) for level in ramp]
    assert flips([d.route for d in drive(GATE.override(dim_hysteresis=0.0), frames)]) > 3
    assert flips([d.route for d in drive(GATE, frames)]) == 1


def test_dark_goes_to_thermal_without_asking_for_anything() -> None:
    known = Signals("ok", "ok", luminance=5.0, contrast=2.0)
    assert decide(GATE, RouterState(), known) == Decision(Route.THERMAL, Reason.DARK)
    between = replace(known, luminance=15.0)
    assert decide(GATE, RouterState(dark=True), between) == Decision(Route.THERMAL, Reason.DARK)
    assert decide(GATE, RouterState(dark=False), between) is Need.HEAT


def test_a_dark_frame_without_thermal_is_still_answered() -> None:
    known = Signals("ok", "missing", luminance=5.0, contrast=2.0)
    assert decide(GATE, RouterState(), known) == Decision(Route.RGB, Reason.THERMAL_LOST)


# Memory


def test_hot_hold_lasts_as_long_as_it_says() -> None:
    heat = [9.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    reasons = [d.reason for d in drive(GATE, [replace(CALM, hot_delta_k=h) for h in heat])]
    assert reasons == [Reason.HOT_REGION] + [Reason.HOT_HOLD] * 3 + [Reason.CONFIDENT] * 2
    reasons = [
        d.reason
        for d in drive(GATE.override(hot_hold_frames=0), [replace(CALM, hot_delta_k=h) for h in heat])
    ]
    assert reasons == [Reason.HOT_REGION] + [Reason.CONFIDENT] * 5


def test_a_hot_region_seen_by_the_screening_graph_alone_is_held_too() -> None:
    frames = [replace(CALM, screen_score=0.9), CALM, CALM, CALM, CALM]
    reasons = [d.reason for d in drive(GATE, frames)]
    assert reasons == [Reason.HOT_REGION] + [Reason.HOT_HOLD] * 3 + [Reason.CONFIDENT]


def test_darkness_goes_before_a_hot_hold_and_the_hold_runs_on() -> None:
    dark = replace(CALM, luminance=3.0, hot_delta_k=None)
    frames = [replace(CALM, hot_delta_k=9.0), dark, CALM, CALM, CALM]
    reasons = [d.reason for d in drive(GATE, frames)]
    assert reasons == [Reason.HOT_REGION, Reason.DARK, Reason.HOT_HOLD, Reason.HOT_HOLD, Reason.CONFIDENT]


def test_every_so_many_frames_one_is_audited() -> None:
    reasons = [d.reason for d in drive(GATE.override(audit_every=5), [CALM] * 15)]
    assert [index for index, reason in enumerate(reasons) if reason is Reason.AUDIT] == [4, 9, 14]
    assert Reason.AUDIT not in [d.reason for d in drive(GATE, [CALM] * 200)]


def test_only_what_rgb_alone_would_have_answered_is_audited() -> None:
    gate = GATE.override(audit_every=1)
    assert route(gate, RouterState(), CALM) == Decision(Route.FUSE, Reason.AUDIT)
    for changes, reason in (
        ({"rgb_confidence": 0.2}, Reason.LOW_CONFIDENCE),
        ({"hot_delta_k": 20.0}, Reason.HOT_REGION),
        ({"luminance": 20.0}, Reason.DIM),
    ):
        assert route(gate, RouterState(), replace(CALM, **changes)).reason is reason


SEQUENCE = st.lists(
    st.builds(
        Signals,
        rgb_health=st.just("ok"),
        thermal_health=st.just("ok"),
        luminance=st.floats(0, 80),
        contrast=st.floats(0, 40),
        hot_delta_k=st.floats(0, 16),
        screen_score=SHARES,
        rgb_confidence=SHARES,
    ),
    max_size=30,
)


@given(SEQUENCE, st.integers(0, 4))
def test_the_same_sequence_takes_the_same_routes(frames: list[Signals], audit_every: int) -> None:
    gate = GateConfig(audit_every=audit_every)
    assert drive(gate, frames) == drive(gate, frames)


# Force


@pytest.mark.parametrize("force", list(Route))
def test_force_decides_whatever_the_signals_say(force: Route) -> None:
    for signals in (CALM, replace(CALM, hot_delta_k=99.0), replace(CALM, luminance=0.0)):
        assert route(GATE, RouterState(), signals, force) == Decision(force, Reason.FORCED)


@pytest.mark.parametrize("health", ["frozen", "stale", "saturated"])
def test_a_forced_route_takes_a_bad_frame_but_not_a_missing_one(health: str) -> None:
    bad = Signals(health, health, luminance=100.0, contrast=20.0)
    assert decide(GATE, RouterState(), bad, force=Route.FUSE) == Decision(Route.FUSE, Reason.FORCED)


@pytest.mark.parametrize(
    ("force", "rgb", "thermal", "lacks"),
    [
        (Route.RGB, "missing", "ok", "RGB"),
        (Route.FUSE, "missing", "ok", "RGB"),
        (Route.FUSE, "ok", "missing", "thermal"),
        (Route.THERMAL, "ok", "missing", "thermal"),
        (Route.RGB, "ok", "missing", None),
        (Route.THERMAL, "missing", "ok", None),
    ],
)
def test_a_forced_route_needs_its_frames(force: Route, rgb: str, thermal: str, lacks: str | None) -> None:
    signals = Signals(rgb, thermal, luminance=100.0, contrast=20.0)
    if lacks is None:
        assert decide(GATE, RouterState(), signals, force=force) == Decision(force, Reason.FORCED)
        return
    with pytest.raises(
        ConfigError, match=rf"pair '007'.*'{force.value}' was forced.*{lacks} frame is missing"
    ):
        decide(GATE, RouterState(), signals, key="007", force=force)


# Health


@pytest.mark.parametrize("health", ["missing", "frozen", "stale", "saturated"])
def test_each_lost_camera_leaves_the_other(health: str) -> None:
    assert route(GATE, RouterState(), replace(CALM, rgb_health=health)) == Decision(
        Route.THERMAL, Reason.RGB_LOST
    )
    assert route(GATE, RouterState(), replace(CALM, thermal_health=health)) == Decision(
        Route.RGB, Reason.THERMAL_LOST
    )
    with pytest.raises(SensorsUnusableError, match=rf"'k'.*RGB {health}, thermal frozen"):
        route(GATE, RouterState(), replace(CALM, rgb_health=health, thermal_health="frozen"))


RGB, THERMAL = RgbLook(100, 20, 0.1, 1), ThermalLook(0.1, 1)


@pytest.mark.parametrize(
    ("rgb", "thermal", "skew_ms", "expected"),
    [
        (RGB, THERMAL, None, ("ok", "ok")),
        (RGB, THERMAL, 250.0, ("ok", "ok")),
        (RGB, THERMAL, 250.1, ("stale", "ok")),  # thermal is newer: RGB is old
        (RGB, THERMAL, -250.1, ("ok", "stale")),
        (None, THERMAL, 900.0, ("missing", "ok")),
        (RGB, None, None, ("ok", "missing")),
        (None, None, None, ("missing", "missing")),
        (replace(RGB, saturated_share=0.6), THERMAL, None, ("saturated", "ok")),
        (replace(RGB, saturated_share=0.59), THERMAL, None, ("ok", "ok")),
        (RGB, ThermalLook(0.6, 1), None, ("ok", "saturated")),
    ],
)
def test_health_from_one_glance(
    rgb: RgbLook | None, thermal: ThermalLook | None, skew_ms: float | None, expected: tuple[str, str]
) -> None:
    assert measure_health(GATE, RouterState(), rgb, thermal, skew_ms) == expected


@pytest.mark.parametrize("camera", ["rgb", "thermal"])
def test_a_camera_freezes_after_so_many_equal_frames_and_thaws_with_the_next(camera: str) -> None:
    state, healths = RouterState(), []
    pictures = [7, 7, 7, 7, 7, 7, 8, 7]
    for index, picture in enumerate(pictures):
        rgb = RgbLook(100, 20, 0, picture if camera == "rgb" else 100 + index)
        thermal = ThermalLook(0, picture if camera == "thermal" else 100 + index)
        health = dict(zip(("rgb", "thermal"), measure_health(GATE, state, rgb, thermal, None), strict=True))
        healths.append(health.pop(camera))
        assert list(health.values()) == ["ok"]
        state = advance(GATE, state, Signals(), rgb, thermal)
    assert healths == ["ok"] * 4 + ["frozen"] * 2 + ["ok"] * 2


def test_a_missing_frame_between_does_not_thaw_a_frozen_camera() -> None:
    state = RouterState()
    for rgb in (RGB, RGB, None, RGB, None, RGB):
        state = advance(GATE, state, Signals(), rgb, None)
    assert measure_health(GATE, state, RGB, THERMAL, None) == ("frozen", "ok")


# Looks


def test_a_glance_at_rgb() -> None:
    image = np.zeros((512, 640, 3), np.uint8)
    assert look_at_rgb(image).luminance == 0
    image[:, 320:] = 255
    look = look_at_rgb(image)
    assert look.luminance == pytest.approx(127.5)
    assert look.contrast == pytest.approx(127.5)
    assert look.saturated_share == pytest.approx(0.5)
    green = np.zeros((64, 80, 3), np.uint8)
    green[..., 1] = 200
    assert look_at_rgb(green).luminance == pytest.approx(0.587 * 200, abs=1)
    assert look_at_rgb(green[:, ::-1]) == look_at_rgb(green)


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (24, 32), (120, 160), (288, 384), (1024, 1280)])
def test_glances_tell_frames_apart_at_every_size(shape: tuple[int, int]) -> None:
    random = np.random.default_rng(0)
    one, other = (random.integers(0, 65536, shape, np.uint16) for _ in range(2))
    assert look_at_thermal(one) == look_at_thermal(one.copy())
    assert look_at_thermal(one).fingerprint != look_at_thermal(other).fingerprint
    colour, colour2 = (random.integers(0, 256, (*shape, 3), np.uint8) for _ in range(2))
    assert look_at_rgb(colour).fingerprint != look_at_rgb(colour2).fingerprint


def test_a_glance_at_thermal_sees_full_scale_and_shutters() -> None:
    image = np.random.default_rng(0).integers(20000, 40000, (256, 320)).astype(np.uint16)
    assert look_at_thermal(image).uniform_share < 0.05
    image[:180] = 65535
    assert look_at_thermal(image).uniform_share == pytest.approx(180 / 256, abs=0.02)
    assert look_at_thermal(np.full((256, 320), 30000, np.uint16)).uniform_share == 1.0


def test_a_hot_region_stands_over_its_neighbourhood_by_its_height() -> None:
    image = np.full((256, 320), 29500, np.uint16)
    assert hot_delta_counts(image) == pytest.approx(0, abs=0.1)
    image[100:112, 160:172] += 1000  # 3x3 cells of the screened picture
    assert hot_delta_counts(image) == pytest.approx(1000 * (1 - 9 / 225), rel=0.02)


def test_one_noisy_pixel_is_no_region() -> None:
    image = np.full((256, 320), 29500, np.uint16)
    image[100, 160] += 1000
    assert hot_delta_counts(image) < 1000 / 12


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (64, 80), (288, 384), (1024, 1280)])
def test_every_size_of_frame_can_be_screened(shape: tuple[int, int]) -> None:
    image = np.full(shape, 65535, np.uint16)
    assert hot_delta_counts(image) == pytest.approx(0, abs=1)
    image[shape[0] // 2, shape[1] // 2] = 0
    assert math.isfinite(hot_delta_counts(image))


# Thresholds


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("rgb_confidence_min", 1.01, "0 - 1"),
        ("rgb_confidence_min", -0.1, "0 - 1"),
        ("rgb_confidence_min", math.nan, "finite"),
        ("rgb_confidence_min", "0.65", "finite number"),
        ("rgb_confidence_min", True, "finite number"),
        ("rgb_confidence_min", None, "finite number"),
        ("screen_score_min", math.nan, "finite"),
        ("hot_delta_k", math.nan, "finite"),
        ("hot_delta_k", math.inf, "finite"),
        ("hot_delta_k", -1.0, "0 or more"),
        ("hot_delta_k", "8", "finite number"),
        ("dark_below", 300.0, "0 - 255"),
        ("dark_above", 5.0, "at least 12"),
        ("dim_below", -1, "0 - 255"),
        ("dim_hysteresis", -0.1, "0 or more"),
        ("saturated_share", 0.0, "above 0"),
        ("saturated_share", 1.5, "above 0"),
        ("hot_hold_frames", -1, "0 or more"),
        ("hot_hold_frames", 2.5, "whole number"),
        ("audit_every", True, "whole number"),
        ("audit_every", math.nan, "whole number"),
        ("frozen_after", 1, "2 or more"),
        ("stale_after_ms", math.inf, "finite"),
        ("confidence_rule", "median", "max, mean, min"),
        ("confidence_rule", 3, "text"),
        ("calibrated_how", 3, "text"),
    ],
)
def test_thresholds_out_of_range_or_of_a_wrong_type_are_refused(name: str, value: Any, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        GATE.override(**{name: value})
    message = str(caught.value)
    assert message.startswith(f"gate.{name}: expected")
    assert expected in message
    assert repr(value) in message


def test_an_unknown_threshold_is_refused_with_the_nearest_known() -> None:
    with pytest.raises(
        ConfigError, match=r"no threshold 'rgb_confidence'.*Did you mean 'rgb_confidence_min'"
    ):
        GATE.override(rgb_confidence=0.5)


def test_an_override_changes_what_it_names_and_nothing_else() -> None:
    changed = GATE.override(hot_delta_k=5, audit_every=7)
    assert (changed.hot_delta_k, changed.audit_every) == (5, 7)
    assert changed == replace(GATE, hot_delta_k=5, audit_every=7)
    assert GATE.override() == GATE
    assert GATE.override(hot_delta_k=np.float32(5), audit_every=np.int64(7)) == changed  # type: ignore[arg-type]
