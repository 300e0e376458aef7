"""Detections: shapes, iteration, and the ways to supervision and COCO and back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_sdk.detections import BoxTemperatures, Detection, Detections, box_iou
from edge_sdk.errors import ConfigError, ShapeError

CLASSES = ("insulator", "hotspot", "corrosion")
HEAT = BoxTemperatures("K", 290.0, 295.5, 312.25, 15.0)


@st.composite
def detections(draw: st.DrawFn) -> Detections:
    count = draw(st.integers(0, 6))
    edges = st.floats(0, 4000, width=32)
    boxes = []
    for _ in range(count):
        left, top = draw(edges), draw(edges)
        boxes.append((left, top, left + draw(edges), top + draw(edges)))
    heat: tuple[BoxTemperatures | None, ...] = ()
    if count and draw(st.booleans()):
        heat = tuple(draw(st.sampled_from([HEAT, None])) for _ in range(count))
    return Detections(
        np.array(boxes, np.float32).reshape(-1, 4),
        np.array([draw(st.floats(0, 1, width=32)) for _ in range(count)], np.float32),
        np.array([draw(st.integers(0, 2)) for _ in range(count)], np.int64),
        CLASSES,
        heat,
    )


def two() -> Detections:
    return Detections(
        np.array([[1, 2, 11, 22], [5, 5, 8, 9]], np.float32),
        np.array([0.9, 0.4], np.float32),
        np.array([1, 0], np.int64),
        CLASSES,
        (HEAT, None),
    )


def test_items_carry_names_and_temperatures() -> None:
    first, second = two()
    assert first == Detection("hotspot", first.score, (1, 2, 11, 22), HEAT)
    assert first.score == pytest.approx(0.9)
    assert second.class_name == "insulator"
    assert second.temperatures is None
    assert repr(two()) == "hotspot 0.90, insulator 0.40"
    assert repr(Detections.empty(CLASSES)) == "nothing"
    assert len(Detections.empty(CLASSES)) == 0
    assert list(Detections.empty(CLASSES)) == []


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"xyxy": np.zeros((2, 3), np.float32)}, "xyxy"),
        ({"scores": np.zeros(3, np.float32)}, "scores"),
        ({"class_ids": np.zeros((2, 1), np.int64)}, "class_ids"),
        ({"class_ids": np.array([0, 3])}, "class_ids"),
        ({"class_ids": np.array([-1, 0])}, "class_ids"),
        ({"temperatures": (HEAT,)}, "temperatures"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes: dict[str, Any], name: str) -> None:
    found = two()
    values = {
        key: getattr(found, key) for key in ("xyxy", "scores", "class_ids", "class_names", "temperatures")
    }
    with pytest.raises(ShapeError, match=rf"Detections\.{name}"):
        Detections(**(values | changes))


@settings(deadline=None)
@given(detections())
def test_supervision_round_trip_keeps_everything(found: Detections) -> None:
    pytest.importorskip("supervision", reason="needs the package supervision")
    there = found.to_supervision()
    assert len(there) == len(found)
    assert list(there.data["class_name"]) == [CLASSES[index] for index in found.class_ids]
    back = Detections.from_supervision(there, CLASSES)
    np.testing.assert_array_equal(back.xyxy, found.xyxy)
    np.testing.assert_array_equal(back.scores, found.scores)
    np.testing.assert_array_equal(back.class_ids, found.class_ids)
    assert back.temperatures == found.temperatures
    assert not np.shares_memory(back.xyxy, found.xyxy)


def test_supervision_of_nothing() -> None:
    sv = pytest.importorskip("supervision", reason="needs the package supervision")
    assert len(Detections.from_supervision(sv.Detections.empty(), CLASSES)) == 0
    assert len(Detections.empty(CLASSES).to_supervision()) == 0


def test_supervision_without_class_or_confidence() -> None:
    sv = pytest.importorskip("supervision", reason="needs the package supervision")
    boxes = np.array([[0, 0, 1, 1]], np.float32)
    with pytest.raises(ConfigError, match="class_id"):
        Detections.from_supervision(sv.Detections(xyxy=boxes), CLASSES)
    assert Detections.from_supervision(sv.Detections(xyxy=boxes, class_id=np.array([2])), CLASSES).scores == [
        1.0
    ]
    with pytest.raises(ShapeError):
        Detections.from_supervision(sv.Detections(xyxy=boxes, class_id=np.array([7])), CLASSES)


@given(detections())
def test_coco_round_trip_keeps_all_but_temperatures(found: Detections) -> None:
    entries = found.to_coco(image_id=7)
    assert all(entry["image_id"] == 7 for entry in entries)
    back = Detections.from_coco(entries, CLASSES)
    np.testing.assert_allclose(back.xyxy, found.xyxy, rtol=1e-6, atol=1e-3)
    np.testing.assert_array_equal(back.scores, found.scores)
    np.testing.assert_array_equal(back.class_ids, found.class_ids)
    assert back.temperatures == ()


def test_coco_figures_are_corner_and_size() -> None:
    (first, second) = two().to_coco(3)
    assert first == {
        "image_id": 3,
        "category_id": 2,
        "bbox": [1.0, 2.0, 10.0, 20.0],
        "score": pytest.approx(0.9),
    }
    assert second["category_id"] == 1


def test_coco_with_categories_of_ones_own() -> None:
    ids = {"insulator": 11, "hotspot": 12, "corrosion": 13}
    entries = two().to_coco(3, ids)
    assert [entry["category_id"] for entry in entries] == [12, 11]
    assert list(Detections.from_coco(entries, CLASSES, ids).class_ids) == [1, 0]
    with pytest.raises(ConfigError, match=r"'hotspot'.*\['insulator'\]"):
        two().to_coco(3, {"insulator": 11})
    with pytest.raises(ConfigError, match=r"category_id 12: known ids are \[1, 2, 3\]"):
        Detections.from_coco(entries, CLASSES)
    with pytest.raises(ConfigError, match=r"known ids are \[\]"):
        Detections.from_coco(entries, CLASSES, {})


def test_a_coco_entry_that_lacks_something_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="without bbox"):
        Detections.from_coco([{"category_id": 1}], CLASSES)
    assert Detections.from_coco([{"category_id": 1, "bbox": [0, 0, 1, 1]}], CLASSES).scores == [1.0]
    assert len(Detections.from_coco([], CLASSES)) == 0


def slow_iou(first: np.ndarray, second: np.ndarray) -> float:
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    overlap = max(width, 0.0) * max(height, 0.0)
    area = sum(max(b[2] - b[0], 0.0) * max(b[3] - b[1], 0.0) for b in (first, second)) - overlap
    return overlap / area if area > 0 else 0.0


BOXES = st.lists(st.tuples(*[st.integers(0, 30).map(float)] * 4), max_size=5).map(
    lambda rows: np.array(rows, np.float32).reshape(-1, 4)
)


@given(BOXES, BOXES)
def test_overlap_against_a_slow_reference(first: np.ndarray, second: np.ndarray) -> None:
    fast = box_iou(first, second)
    assert fast.shape == (len(first), len(second))
    for i, one in enumerate(first):
        for j, other in enumerate(second):
            assert fast[i, j] == pytest.approx(slow_iou(one, other), abs=1e-6)


def test_results_for_coco_are_pythons_own_numbers() -> None:
    ids = {name: np.int64(index + 5) for index, name in enumerate(CLASSES)}
    entries = two().to_coco(np.int32(7), ids)  # type: ignore[arg-type]
    assert json.loads(json.dumps(entries)) == entries
    assert [type(entries[0][name]) for name in ("image_id", "category_id", "score")] == [int, int, float]
    with pytest.raises(ConfigError, match="image_id: expected a whole number, found 'a'"):
        two().to_coco("a")  # type: ignore[arg-type]


def test_arrays_of_other_types_are_converted_and_those_of_the_right_one_shared() -> None:
    boxes = np.array([[1, 2, 3, 4]], np.float32)
    assert Detections(boxes, np.ones(1, np.float32), np.zeros(1, np.int64), CLASSES).xyxy is boxes
    made = Detections([[1, 2, 3, 4]], [0.5], np.array([1], np.uint8), list(CLASSES), [None])  # type: ignore[arg-type]
    assert (made.xyxy.dtype, made.scores.dtype, made.class_ids.dtype) == (np.float32, np.float32, np.int64)
    assert (made.class_names, made.temperatures) == (CLASSES, (None,))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("class_ids", np.array([1.7, 0.0]), "class_ids: expected an array of whole numbers, found float64"),
        ("scores", ["high", "low"], "scores: expected an array of numbers"),
        ("xyxy", None, "xyxy: expected an array of numbers"),
        ("class_names", "insulator", "class_names: expected several texts"),
        ("temperatures", (273.0, None), "expected BoxTemperatures or None, found 273.0"),
    ],
)
def test_members_of_another_kind_are_refused(name: str, value: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        replace(two(), **{name: value})


def test_heat_is_in_kelvin_or_counts_and_its_numbers_are_pythons() -> None:
    heat = BoxTemperatures("K", np.float32(1), 2, np.uint16(3), None)  # type: ignore[arg-type]
    assert [type(value) for value in (heat.min, heat.mean, heat.max)] == [float] * 3
    with pytest.raises(ConfigError, match="expected 'K' or 'counts', found 'C'"):
        BoxTemperatures("C", 1, 2, 3, None)
    with pytest.raises(ConfigError, match="box_xyxy"):
        Detection("a", 0.5, (1, 2, 3))  # type: ignore[arg-type]
