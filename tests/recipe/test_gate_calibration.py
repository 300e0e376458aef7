"""Score calibration and the router's thresholds, on frames whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest

from calibration.gate import (
    FrameCounts,
    area_under_curve,
    choose_darkness,
    choose_rule,
    fit_scores,
    threshold_for_recall,
)
from edge_sdk.errors import ConfigError


def test_calibrated_scores_are_probabilities() -> None:
    random = np.random.default_rng(0)
    logits = random.normal(0, 2, 4000).astype(np.float32)
    right = random.random(4000) < 1 / (1 + np.exp(-(1.7 * logits - 0.8)))
    slope, shift = fit_scores(logits, right)
    assert slope == pytest.approx(1.7, abs=0.15)
    assert shift == pytest.approx(-0.8, abs=0.15)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_few_detections_stay_near_the_plain_sigmoid(count: int) -> None:
    slope, shift = fit_scores(np.zeros(count, np.float32), np.zeros(count, bool))
    assert 0.2 <= slope <= 5.0
    assert abs(shift) < 4


def test_separable_answers_do_not_run_away() -> None:
    logits = np.array([-3.0, -2.0, 2.0, 3.0] * 10, np.float32)
    slope, shift = fit_scores(logits, logits > 0)
    assert np.isfinite([slope, shift]).all()
    assert slope <= 5.0


def test_threshold_keeps_the_recall() -> None:
    scores = np.arange(1000, dtype=np.float64)
    threshold = threshold_for_recall(scores, 0.995)
    assert (scores >= threshold).mean() == 0.995
    assert threshold_for_recall(scores[:50], 0.995) == 0.0, "with few frames, none may be missed"
    assert threshold_for_recall(scores, 0.995, margin=2.0) == threshold - 2
    with pytest.raises(ConfigError, match="no frame that must fire"):
        threshold_for_recall(np.zeros(0), 0.995)


def test_area_under_curve() -> None:
    good = np.array([True, True, False, False])
    assert area_under_curve(np.array([0.9, 0.8, 0.2, 0.1]), good) == 1.0
    assert area_under_curve(np.array([0.5, 0.5, 0.5, 0.5]), good) == 0.5
    assert area_under_curve(np.array([0.5]), np.array([True])) == 0.5


def test_the_rule_that_saves_most_at_a_small_loss_is_chosen() -> None:
    """Here a frame is safe when its weakest detection is strong: the minimum tells, the maximum does not."""
    safe = [np.array([0.9, 0.8], np.float32)] * 10
    unsafe = [np.array([0.9, 0.35], np.float32)] * 10
    alone = [FrameCounts(2, 0, 0)] * 10 + [FrameCounts(1, 1, 1)] * 10
    fused = [FrameCounts(2, 0, 0)] * 20
    choice = choose_rule([*safe, *unsafe], alone, fused, 0.65)
    assert choice.curve_areas["max"] == 0.5
    assert choice.rule in ("min", "mean")
    assert choice.curve_areas[choice.rule] == 1.0
    assert choice.kept_shares[choice.rule] == 0.5
    assert choice.losses_f1 == {"max": 0.25, "mean": 0.0, "min": 0.0}


def test_without_a_sound_rule_the_least_loss_is_chosen() -> None:
    scores = [np.array([0.9, 0.7], np.float32)] * 4 + [np.array([0.9, 0.45], np.float32)] * 4
    alone, fused = [FrameCounts(1, 1, 1)] * 8, [FrameCounts(2, 0, 0)] * 8
    choice = choose_rule(scores, alone, fused, 0.65)
    assert choice.rule == "min"
    assert choice.losses_f1["min"] < choice.losses_f1["max"]


def test_where_rgb_is_as_good_the_most_saving_rule_is_chosen() -> None:
    scores = [np.array([0.9, 0.31], np.float32)] * 8
    same = [FrameCounts(2, 0, 0)] * 8
    assert choose_rule(scores, same, same, 0.65).rule == "max"


def test_darkness_ends_where_fusion_begins_to_help() -> None:
    luminance = np.arange(40, dtype=np.float64)
    fused = [FrameCounts(4, 0, 0)] * 40
    alone = [FrameCounts(4, 0, 0)] * 15 + [FrameCounts(1, 0, 3)] * 25
    found = choose_darkness(luminance, alone, fused)
    assert found is not None
    enter, leave = found
    assert 13 < enter < 17
    assert leave > enter
    assert choose_darkness(luminance, [FrameCounts(0, 0, 4)] * 40, fused) is None


def test_an_empty_frame_that_nothing_is_reported_in_is_right() -> None:
    assert FrameCounts(0, 0, 0).quality == 1.0
    assert FrameCounts(1, 1, 0).quality == pytest.approx(2 / 3)
