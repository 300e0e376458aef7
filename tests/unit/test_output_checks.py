"""Models laid out otherwise than their bundle says are refused with the likely cause, never decoded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bundles import model_giving, yolo
from hypothesis import given
from hypothesis import strategies as st

from edge_sdk.engine.author import new_single_bundle
from edge_sdk.errors import OutputError, ShapeError
from edge_sdk.postprocess import Candidates, DecodeSpec, decode, refuse_impossible

TWO = ("a", "b")


def refused(folder: Path, words: str, decode_kind: str = "yolo", **outputs: np.ndarray) -> None:
    model = model_giving(folder, **outputs)
    with pytest.raises(OutputError, match=words):
        new_single_bundle(model, folder / "made" / "b", name="n", classes=TWO, decode=decode_kind)
    assert not (folder / "made" / "b").exists()


def test_a_plausible_head_becomes_a_bundle(tmp_path: Path) -> None:
    folder = new_single_bundle(model_giving(tmp_path, p=yolo()), tmp_path / "b", name="n", classes=TWO)
    assert (folder / "bundle.toml").exists()


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (np.linspace(-6, 4.7, 126).reshape(63, 2), r"found -6 to 4\.7.*They look like logits"),
        (np.linspace(0, 90, 126).reshape(63, 2), r"found 0 to 90.*They look like per cent"),
    ],
)
def test_scores_that_are_no_probabilities(tmp_path: Path, scores: np.ndarray, words: str) -> None:
    refused(tmp_path, words, p=yolo(scores=scores))


def test_boxes_in_shares_of_the_picture(tmp_path: Path) -> None:
    refused(tmp_path, "at most 0.98 in 63 rows.*shares of the picture", p=yolo(boxes=np.full((63, 4), 0.98)))
    boxes = np.tile(np.array([0.1, 0.2, 0.5, 0.9], np.float32), (1, 20, 1))
    scores = np.linspace(0.2, 0, 20, dtype=np.float32)[None]
    labels = np.zeros((1, 20), np.int64)
    refused(tmp_path, "shares of the picture", "boxes", boxes=boxes, scores=scores, labels=labels)


def test_an_end_to_end_model_is_no_yolo_head(tmp_path: Path) -> None:
    """[1, 300, 6] of corners, score and class fits [1, n, 4 + 2 classes]: wrong boxes in silence."""
    random = np.random.default_rng(2)
    rows = np.empty((1, 300, 6), np.float32)
    rows[0, :, :2] = random.uniform(0, 30, (300, 2))
    rows[0, :, 2:4] = rows[0, :, :2] + random.uniform(1, 18, (300, 2))
    rows[0, :, 4] = np.sort(random.uniform(0, 0.3, 300))[::-1]
    rows[0, :, 5] = random.integers(0, 2, 300)
    refused(tmp_path, "300 rows of corners, score and class, best first. An end-to-end model", p=rows)


def test_objectness_and_square_outputs_name_their_cause() -> None:
    with pytest.raises(ShapeError, match="YOLOv5's objectness"):
        decode(DecodeSpec(kind="yolo"), "x", TWO, {"predictions": np.zeros((1, 25, 7), np.float32)})
    with pytest.raises(ShapeError, match="rows or columns of 6, not both"):
        decode(DecodeSpec(kind="yolo"), "x", TWO, {"predictions": np.zeros((1, 6, 6), np.float32)})


def test_probabilities_where_logits_are_expected(tmp_path: Path) -> None:
    scores = np.random.default_rng(3).uniform(0.01, 0.9, (1, 2, 6, 8)).astype(np.float32)
    refused(
        tmp_path, "leave the sigmoid out", "grid", scores=scores, boxes=np.full((1, 4, 6, 8), 2.0, np.float32)
    )


def found(*boxes: tuple[float, float, float, float], score: float = 0.9) -> Candidates:
    count = len(boxes)
    return Candidates(
        np.array(boxes, np.float32), np.full(count, score, np.float32), np.zeros(count, np.int64)
    )


@pytest.mark.parametrize(
    ("candidates", "what", "words"),
    [
        (found((1, 1, 9, 9), score=4.7), "scores", "They look like logits"),
        (found((1, 1, 9, 9), score=90), "scores", "They look like per cent"),
        (found((1, 1, np.inf, 9)), "boxes", "finite pixels"),
        (found((9, 1, 1, 9)), "boxes", r"in that order, found \[9.0, 1.0, 1.0, 9.0\]"),
        (found((0.1, 0.1, 0.5, 0.9), (0, 0, 1, 1)), "boxes", "shares of the picture"),
        (found((1, 1, 9, 9), score=float("nan")), "scores", "probabilities"),
    ],
)  # fmt: skip
def test_impossible_detections_are_refused_frame_by_frame(
    candidates: Candidates, what: str, words: str
) -> None:
    with pytest.raises(OutputError, match=words) as caught:
        refuse_impossible("detector", candidates)
    assert (caught.value.graph, caught.value.what) == ("detector", what)


def test_an_infinite_width_erases_nobody() -> None:
    rows = yolo(rows=5)
    rows[0, :, 4] = 0.9
    rows[0, 2, 2] = np.inf
    with pytest.raises(OutputError, match="finite pixels"):
        decode(DecodeSpec(kind="yolo"), "x", TWO, {"predictions": rows})
    rows[0, 2, 2] = -4
    with pytest.raises(OutputError, match="a width and a height of 0 or more, found -4 px"):
        decode(DecodeSpec(kind="yolo"), "x", TWO, {"predictions": rows})


@pytest.mark.parametrize("label", [0.5, -1.0])
def test_labels_are_whole_numbers(label: float) -> None:
    outputs = {
        "boxes": np.array([[[1, 1, 9, 9], [2, 2, 8, 8]]], np.float32),
        "scores": np.array([[0.9, 0.1]], np.float32),
        "labels": np.array([[label, -1]], np.float32),
    }
    with pytest.raises(OutputError, match=f"whole numbers of 0 or more, found {label:g}"):
        decode(DecodeSpec(kind="boxes"), "x", TWO, outputs)


@given(
    x=st.floats(0, 300), y=st.floats(0, 200), w=st.floats(3, 300), h=st.floats(3, 200), score=st.floats(0, 1)
)
def test_possible_detections_pass(x: float, y: float, w: float, h: float, score: float) -> None:
    refuse_impossible("x", found((x, y, x + w, y + h), score=score))
