"""Average precision against cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from edge_sdk.accuracy import Truth, average_precision, match, mean_average_precision
from edge_sdk.detections import Detections

NAMES = ("insulator", "hotspot")
HERE, THERE, AWAY = (0, 0, 10, 10), (20, 0, 30, 10), (50, 50, 60, 60)


def found(*boxes: tuple[tuple[float, ...], float, int]) -> Detections:
    return Detections(
        np.array([box for box, _, _ in boxes], np.float32).reshape(-1, 4),
        np.array([score for _, score, _ in boxes], np.float32),
        np.array([kind for _, _, kind in boxes], np.int64),
        NAMES,
    )


def truth(*boxes: tuple[tuple[float, ...], int], ignored: tuple[int, ...] = ()) -> Truth:
    return Truth(
        np.array([box for box, _ in boxes], np.float32).reshape(-1, 4),
        np.array([kind for _, kind in boxes], np.int64),
        np.array([index in ignored for index in range(len(boxes))], bool),
    )


def ap(detections: Detections, there: Truth) -> float | None:
    return average_precision(match([detections], [there], 0))


def test_everything_found_and_nothing_else_is_one() -> None:
    assert ap(found((HERE, 0.9, 0), (THERE, 0.8, 0)), truth((HERE, 0), (THERE, 0))) == 1.0


def test_a_surer_mistake_halves_the_precision() -> None:
    assert ap(found((AWAY, 0.9, 0), (HERE, 0.8, 0)), truth((HERE, 0))) == 0.5


def test_a_less_sure_mistake_costs_nothing() -> None:
    assert ap(found((HERE, 0.9, 0), (AWAY, 0.1, 0)), truth((HERE, 0))) == 1.0


def test_half_of_the_objects_is_half() -> None:
    assert ap(found((HERE, 0.9, 0)), truth((HERE, 0), (THERE, 0))) == 0.5


def test_a_second_box_on_one_object_is_a_mistake() -> None:
    scored = match([found((HERE, 0.9, 0), (HERE, 0.8, 0))], [truth((HERE, 0))], 0)

    assert scored.right.tolist() == [True, False]


def test_an_ignored_object_neither_counts_nor_blames() -> None:
    there = truth((HERE, 0), (THERE, 0), ignored=(1,))

    assert ap(found((THERE, 0.9, 0), (HERE, 0.8, 0)), there) == 1.0
    assert ap(found((HERE, 0.8, 0)), there) == 1.0


def test_another_class_does_not_count() -> None:
    assert ap(found((HERE, 0.9, 1)), truth((HERE, 0))) == 0.0


def test_frames_are_ranked_together() -> None:
    scored = match([found((AWAY, 0.9, 0)), found((HERE, 0.5, 0))], [truth(), truth((HERE, 0))], 0)

    assert average_precision(scored) == 0.5


def test_overlap_below_the_limit_is_no_match() -> None:
    shifted = (6, 0, 16, 10)  # IoU 0.25

    assert ap(found((shifted, 0.9, 0)), truth((HERE, 0))) == 0.0
    assert average_precision(match([found((shifted, 0.9, 0))], [truth((HERE, 0))], 0, iou_min=0.2)) == 1.0


def test_the_mean_leaves_out_classes_that_do_not_occur() -> None:
    mean, by_class = mean_average_precision([found((HERE, 0.9, 0))], [truth((HERE, 0))], NAMES)

    assert mean == 1.0
    assert by_class == {"insulator": 1.0, "hotspot": None}


def test_nothing_there_is_no_figure() -> None:
    assert mean_average_precision([found()], [truth()], NAMES)[0] is None


def test_unequal_numbers_of_frames_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        match([found()], [], 0)
