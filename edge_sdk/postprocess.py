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

from edge_sdk.errors import ConfigError, ShapeError

__all__ = ["Candidates", "DecodeSpec", "decode", "decode_grid", "suppress"]

DECODE_KINDS = ("grid", "yolo", "boxes")
BOX_ENCODINGS = ("linear", "exp")

_ANY_SCORE = -1.0

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
            (probabilities) and "labels" [1, n].
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
        found = _decode_yolo(_output(outputs, "predictions"), len(class_names), spec.score_min)
    else:
        found = _decode_boxes(
            _output(outputs, "boxes"),
            _output(outputs, "scores"),
            _output(outputs, "labels"),
            len(class_names),
            spec.score_min,
        )
    return suppress(found, spec.nms_iou, spec.max_detections)


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


def _decode_yolo(predictions: NDArray[np.generic], classes: int, score_min: float) -> Candidates:
    if predictions.ndim != 3 or predictions.shape[0] != 1 or 4 + classes not in predictions.shape[1:]:
        raise ShapeError(
            "predictions", f"[1, {4 + classes}, n] or [1, n, {4 + classes}]", f"{list(predictions.shape)}"
        )
    rows = predictions[0].astype(np.float32)
    if rows.shape[1] != 4 + classes:
        rows = rows.T
    best = rows[:, 4:].max(axis=1)
    rows, best = rows[best >= score_min], best[best >= score_min]
    half = rows[:, 2:4] / 2
    corners = np.concatenate([rows[:, :2] - half, rows[:, :2] + half], axis=1)
    return Candidates(corners, best, rows[:, 4:].argmax(axis=1).astype(np.int64))


def _decode_boxes(
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
    class_ids = labels[0].astype(np.int64)
    keep = (scores[0].astype(np.float32) >= score_min) & (class_ids >= 0) & (class_ids < classes)
    return Candidates(boxes[0][keep].astype(np.float32), scores[0][keep].astype(np.float32), class_ids[keep])


def _output(outputs: Mapping[str, NDArray[Any]], meaning: str) -> NDArray[Any]:
    if meaning not in outputs:
        raise ShapeError("graph outputs", f"one that means {meaning!r}", f"{sorted(outputs)}")
    return outputs[meaning]
