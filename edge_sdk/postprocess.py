"""From a graph's raw outputs to boxes in input pixels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import ConfigError, OutputError, ShapeError

__all__ = [
    "Candidates",
    "DecodeSpec",
    "decode",
    "decode_grid",
    "refuse_impossible",
    "suppress",
]

DECODE_KINDS = ("grid", "yolo", "boxes")
BOX_ENCODINGS = ("linear", "exp")

_ANY_SCORE = -1.0

_ROUNDING = 1e-3
_LARGEST_SHARE = 2.0
"""Boxes that all lie within so many pixels are no pixels."""

_LIKELIEST_LOGIT = 20.0
"""Larger scores are no logits of a trained detector."""

_MAX_EXPONENT = 10.0
"""e^10 strides are wider than any input; more would overflow."""


@dataclass(frozen=True)
class DecodeSpec:
    """How a graph's outputs are read, as a bundle's manifest states it.

    Attributes:
        kind: "grid": anchor-free, outputs meaning "scores" (logits [1, classes, rows, columns]) and
            "boxes" (distances from the cell centre to left, top, right and bottom, in strides,
            [1, 4, rows, columns]).
            "yolo": one output meaning "predictions", [1, 4 + classes, n] or [1, n, 4 + classes]:
            centre x, centre y, width, height in input pixels, then probabilities.
            "boxes": outputs meaning "boxes" [1, n, 4] (xyxy in input pixels), "scores" [1, n]
            (probabilities) and "labels" [1, n]; labels beyond the named classes are left out.
        stride: grid only: input pixels per cell.
        box_encoding: grid only: "linear" (negative distances become 0) or "exp".
        score_min: detections below this probability are dropped.
        nms_iou: of two boxes of a class that overlap more than this, the weaker is dropped.
        max_detections: at most so many are kept, best first.
        score_calibration: graph name -> class name -> (a, b): probability = sigmoid(a * logit + b).
    """

    kind: str = "grid"
    stride: int = 8
    box_encoding: str = "linear"
    score_min: float = 0.3
    nms_iou: float = 0.5
    max_detections: int = 100
    score_calibration: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks = (
            ("kind", self.kind in DECODE_KINDS, f"one of {', '.join(DECODE_KINDS)}"),
            ("box_encoding", self.box_encoding in BOX_ENCODINGS, f"one of {', '.join(BOX_ENCODINGS)}"),
            ("stride", self.stride >= 1, "1 or more pixels"),
            ("score_min", 0.0 < self.score_min < 1.0, "between 0 and 1"),
            ("nms_iou", 0.0 < self.nms_iou <= 1.0, "above 0, at most 1"),
            ("max_detections", self.max_detections >= 1, "1 or more"),
        )
        for name, sound, expected in checks:
            if not sound:
                raise ConfigError(f"decode.{name}: expected {expected}, found {getattr(self, name)!r}")
        for graph, by_class in self.score_calibration.items():
            for name, (slope, shift) in by_class.items():
                if not (isfinite(slope) and isfinite(shift) and slope > 0):
                    raise ConfigError(
                        f"decode.score_calibration.{graph}.{name}: expected a finite slope above 0 and a "
                        f"finite shift, found {(slope, shift)}"
                    )


class Candidates(NamedTuple):
    """Decoded detections in input pixels, best score first: xyxy [n, 4], scores [n], class_ids [n]."""

    xyxy: NDArray[np.float32]
    scores: NDArray[np.float32]
    class_ids: NDArray[np.int64]


def decode(
    spec: DecodeSpec, graph: str, class_names: tuple[str, ...], outputs: Mapping[str, NDArray[Any]]
) -> Candidates:
    """Reads a graph's outputs.

    Arguments:
        spec: how they are laid out.
        graph: the graph's name, which selects its score calibration.
        class_names: in the order of the graph's outputs.
        outputs: meaning -> array, as `DecodeSpec.kind` lists them.

    Returns: detections after non-maximum suppression, boxes in input pixels.

    Raises:
        ShapeError: an output is missing or has the wrong shape.
        OutputError: the values cannot mean what `spec` says; see `refuse_impossible`.
    """
    if spec.kind == "grid":
        calibration = spec.score_calibration.get(graph, {})
        found = decode_grid(
            _output(outputs, "scores"),
            _output(outputs, "boxes"),
            stride=spec.stride,
            score_min=spec.score_min,
            box_encoding=spec.box_encoding,
            calibration=[calibration.get(name, (1.0, 0.0)) for name in class_names],
        )
    elif spec.kind == "yolo":
        found = _decode_yolo(graph, _output(outputs, "predictions"), len(class_names), spec.score_min)
    else:
        found = _decode_boxes(
            graph,
            _output(outputs, "boxes"),
            _output(outputs, "scores"),
            _output(outputs, "labels"),
            len(class_names),
            spec.score_min,
        )
    refuse_impossible(graph, found)
    return suppress(found, spec.nms_iou, spec.max_detections)


def refuse_impossible(graph: str, found: Candidates) -> None:
    """Refuses detections that no detector can mean, whatever layout they were read by.

    Arguments:
        graph: the graph's name, for the message.
        found: before suppression.

    Raises:
        OutputError: a score is no probability, or a box is infinite, inside out, or in shares of the picture.
    """
    if not len(found.scores):
        return
    highest = float(found.scores.max())
    if not highest <= 1.0 + _ROUNDING:
        raise OutputError(graph, "scores", "probabilities of 0 to 1", f"{highest:.4g}", _score_cause(highest))
    if not np.isfinite(found.xyxy).all():
        raise OutputError(graph, "boxes", "finite pixels", "an infinite one or one that is no number")
    if (found.xyxy[:, 2:] < found.xyxy[:, :2]).any():
        worst = found.xyxy[(found.xyxy[:, 2:] < found.xyxy[:, :2]).any(axis=1)][0]
        raise OutputError(
            graph, "boxes", "left, top, right, bottom in that order", f"{np.round(worst, 2).tolist()}",
            "Centre and size, or y before x, must be turned into corners inside the model.",
        )  # fmt: skip
    if float(np.abs(found.xyxy).max()) <= _LARGEST_SHARE and bool(found.xyxy.any()):
        raise OutputError(
            graph, "boxes", "pixels of the input", f"none beyond {float(found.xyxy.max()):.3g} px",
            "They look like shares of the picture: multiply by its width and height inside the model.",
        )  # fmt: skip


def _score_cause(highest: float) -> str:
    if highest <= 100.0 + _ROUNDING and highest > _LIKELIEST_LOGIT:
        return "They look like per cent: divide by 100 inside the model."
    return 'They look like logits: end the model with a sigmoid, or use decode kind "grid" where it fits.'


def decode_grid(
    scores: NDArray[np.float32],
    boxes: NDArray[np.float32],
    *,
    stride: int,
    score_min: float,
    box_encoding: str = "linear",
    calibration: list[tuple[float, float]] | None = None,
) -> Candidates:
    """Reads an anchor-free grid; see `DecodeSpec.kind` "grid". No suppression, any order.

    Arguments:
        scores: float [1, classes, rows, columns], logits.
        boxes: float [1, 4, rows, columns], distances in strides.
        calibration: (a, b) a class, or None for the plain sigmoid.
    """
    if scores.ndim != 4 or boxes.shape != (1, 4, *scores.shape[2:]):
        raise ShapeError(
            "grid outputs",
            "scores [1, classes, rows, columns] and boxes [1, 4, rows, columns]",
            f"scores {list(scores.shape)}, boxes {list(boxes.shape)}",
        )
    classes, rows, columns = scores.shape[1:]
    logits = scores[0].astype(np.float32, copy=False)
    slopes, shifts, least = _score_terms(tuple(calibration or [(1.0, 0.0)] * classes), score_min)
    # The calibration is monotonic: comparing raw logits saves a pass over the grid.
    places = np.flatnonzero(logits >= least)
    if not places.size:
        return Candidates(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros(0, np.int64))
    class_ids, cells = np.divmod(places, rows * columns)
    row, column = np.divmod(cells, columns)
    sure = logits.reshape(-1).take(places) * slopes.take(class_ids) + shifts.take(class_ids)
    probabilities = 1.0 / (1.0 + np.exp(-sure))
    distances = boxes.reshape(4, -1).take(cells, axis=1).astype(np.float32, copy=False)
    if box_encoding == "exp":
        distances = np.exp(np.minimum(distances, _MAX_EXPONENT))
    else:
        distances = np.maximum(distances, 0.0)
    x, y = column + np.float32(0.5), row + np.float32(0.5)
    corners = np.empty((places.size, 4), np.float32)
    np.subtract(x, distances[0], out=corners[:, 0], casting="same_kind")
    np.subtract(y, distances[1], out=corners[:, 1], casting="same_kind")
    np.add(x, distances[2], out=corners[:, 2], casting="same_kind")
    np.add(y, distances[3], out=corners[:, 3], casting="same_kind")
    corners *= np.float32(stride)
    return Candidates(corners, probabilities, class_ids)


@lru_cache
def _score_terms(
    calibration: tuple[tuple[float, float], ...], score_min: float
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Slopes and shifts of each class, and the least raw logit [classes, 1, 1] that reaches `score_min`."""
    slopes, shifts = np.array(calibration, dtype=np.float32).T
    least = (np.log(score_min / (1.0 - score_min)) - shifts) / slopes
    return slopes, shifts, least.astype(np.float32)[:, None, None]


def suppress(found: Candidates, nms_iou: float, max_detections: int) -> Candidates:
    """Drops the weaker of two boxes of one class that overlap by more than `nms_iou`.

    Only the best ten times `max_detections` are looked at: where so many boxes of one object crowd the list
    that another object's best box comes after them, that object is lost.

    Returns: at most `max_detections`, best score first; ties keep their order.
    """
    if len(found.scores) < 2:
        return found
    boxes = found.xyxy - found.xyxy.min()  # OpenCV moves each class's boxes aside, which needs positive ones.
    boxes[:, 2:] -= boxes[:, :2]
    kept = cv2.dnn.NMSBoxesBatched(
        boxes.tolist(),
        found.scores.tolist(),
        found.class_ids.tolist(),
        _ANY_SCORE,
        nms_iou,
        top_k=10 * max_detections,
    )
    keep = np.asarray(kept, np.intp)[:max_detections]
    return Candidates(found.xyxy.take(keep, axis=0), found.scores.take(keep), found.class_ids.take(keep))


def _decode_yolo(graph: str, predictions: NDArray[np.generic], classes: int, score_min: float) -> Candidates:
    wanted = 4 + classes
    if predictions.ndim != 3 or predictions.shape[0] != 1 or wanted not in predictions.shape[1:]:
        fix = ""
        if predictions.ndim == 3 and wanted + 1 in predictions.shape[1:]:
            fix = "One more column is YOLOv5's objectness: multiply it into the scores inside the model."
        raise ShapeError(
            "predictions", f"[1, {wanted}, n] or [1, n, {wanted}]", f"{list(predictions.shape)}", fix
        )
    if predictions.shape[1] == predictions.shape[2]:
        raise ShapeError(
            "predictions",
            f"rows or columns of {wanted}, not both",
            f"{list(predictions.shape)}",
            "Which of the two holds a detection cannot be told: pad the model's output to another count.",
        )
    rows = predictions[0].astype(np.float32)
    if rows.shape[1] != 4 + classes:
        rows = rows.T
    best = rows[:, 4:].max(axis=1)
    rows, best = rows[best >= score_min], best[best >= score_min]
    if (rows[:, 2:4] < 0.0).any():
        raise OutputError(
            graph, "boxes", "a width and a height of 0 or more", f"{float(rows[:, 2:4].min()):.4g} px"
        )
    half = rows[:, 2:4] / 2
    corners = np.concatenate([rows[:, :2] - half, rows[:, :2] + half], axis=1)
    return Candidates(corners, best, rows[:, 4:].argmax(axis=1).astype(np.int64))


def _decode_boxes(
    graph: str,
    boxes: NDArray[np.generic],
    scores: NDArray[np.generic],
    labels: NDArray[np.generic],
    classes: int,
    score_min: float,
) -> Candidates:
    count = scores.shape[-1]
    if boxes.shape != (1, count, 4) or scores.shape != (1, count) or labels.shape != (1, count):
        raise ShapeError(
            "outputs",
            "boxes [1, n, 4], scores [1, n], labels [1, n]",
            f"{list(boxes.shape)}, {list(scores.shape)}, {list(labels.shape)}",
        )
    keep = scores[0].astype(np.float32) >= score_min
    named = labels[0][keep]
    if not (named == np.rint(named)).all() or (named.size and named.min() < 0):
        odd = named[(named != np.rint(named)) | (named < 0)]
        raise OutputError(graph, "labels", "whole numbers of 0 or more", f"{float(odd[0]):.6g}")
    class_ids = labels[0].astype(np.int64)
    keep &= class_ids < classes
    return Candidates(boxes[0][keep].astype(np.float32), scores[0][keep].astype(np.float32), class_ids[keep])


def _output(outputs: Mapping[str, NDArray[Any]], meaning: str) -> NDArray[Any]:
    if meaning not in outputs:
        raise ShapeError("graph outputs", f"one that means {meaning!r}", f"{sorted(outputs)}")
    return outputs[meaning]
