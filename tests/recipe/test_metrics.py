"""Average precision, as the evaluation and the training log count it."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the training extra: pip install '.[train]'")

from edge_sdk.postprocess import Candidates
from engines.recipe.metrics import average_precision, match, mean_of
from engines.recipe.train.data import Labels


def _labels(boxes: list[list[float]], seen: list[bool] | None = None) -> Labels:
    count = len(boxes)
    shown = np.array([True] * count if seen is None else seen, bool)
    return Labels(
        np.array(boxes, np.float32).reshape(-1, 4), np.zeros(count, np.int64), shown, np.zeros(count, bool)
    )


def _found(boxes: list[list[float]], scores: list[float]) -> Candidates:
    return Candidates(
        np.array(boxes, np.float32).reshape(-1, 4),
        np.array(scores, np.float32),
        np.zeros(len(boxes), np.int64),
    )


BOX, OTHER = [0, 0, 10, 10], [50, 50, 60, 60]


def test_all_found_is_one_and_nothing_found_is_zero() -> None:
    wanted = [_labels([BOX, OTHER])]
    assert average_precision(match([_found([BOX, OTHER], [0.9, 0.8])], wanted, 0)) == 1.0
    assert average_precision(match([_found([], [])], wanted, 0)) == 0.0


def test_a_second_detection_of_one_object_is_wrong() -> None:
    scored = match([_found([BOX, BOX], [0.9, 0.8])], [_labels([BOX])], 0)
    assert scored.right.tolist() == [True, False]
    assert average_precision(scored) == 1.0


def test_a_surer_false_alarm_costs_precision() -> None:
    scored = match([_found([OTHER, BOX], [0.9, 0.8])], [_labels([BOX])], 0)
    assert average_precision(scored) == pytest.approx(0.5)


def test_what_no_camera_shows_is_neither_missed_nor_a_false_alarm() -> None:
    scored = match([_found([BOX, OTHER], [0.9, 0.8])], [_labels([BOX, OTHER], [False, True])], 0)
    assert scored.objects == 1
    assert scored.right.tolist() == [True]


def test_no_object_has_no_figure_and_no_part_in_the_mean() -> None:
    scored = match([_found([BOX], [0.9])], [_labels([])], 0)
    assert average_precision(scored) is None
    assert mean_of({"a": 0.5, "b": None}) == 0.5
    assert mean_of({"a": None}) == 0.0
