"""From a graph's raw outputs to boxes in RGB pixels, and the heat under each box."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk.detections import BoxTemperatures, box_iou
from edge_sdk.errors import ConfigError, ShapeError
from edge_sdk.frames import KELVIN_PER_CENTIKELVIN, ThermalFrame, ThermalPlane, ThermalUnit, middle_value

__all__ = ["Candidates", "DecodeSpec", "decode", "decode_grid", "suppress", "temperatures"]

DECODE_KINDS = ("grid", "yolo", "boxes")
BOX_ENCODINGS = ("linear", "exp")

_RING_SHARE = 0.5
_RING_MIN_PX = 3
_RING_SAMPLES = 1024
_MAX_EXPONENT = 10.0
"""e^10 strides are wider than any input; more would overflow."""
_FAR_PX = 1e6
"""Coordinates beyond this are outside every frame; larger ones do not fit an integer."""


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
    logits = scores[0].astype(np.float32, copy=False)
    if calibration is not None:
        slope, shift = np.array(calibration, dtype=np.float32).T[..., None, None]
        logits = logits * slope + shift
    places = np.flatnonzero(logits >= np.log(score_min / (1.0 - score_min)))
    if not places.size:
        return Candidates(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros(0, np.int64))
    class_ids, cells = np.divmod(places, logits.shape[1] * logits.shape[2])
    rows, columns = np.divmod(cells, logits.shape[2])
    probabilities = 1.0 / (1.0 + np.exp(-logits.ravel()[places]))
    distances = boxes[0][:, rows, columns].T.astype(np.float32)
    if box_encoding == "exp":
        distances = np.exp(np.minimum(distances, _MAX_EXPONENT))
    else:
        distances = np.maximum(distances, 0.0)
    centres = np.stack([columns + 0.5, rows + 0.5], axis=1)
    corners = np.concatenate([centres - distances[:, :2], centres + distances[:, 2:]], axis=1)
    return Candidates(
        (corners * stride).astype(np.float32), probabilities.astype(np.float32), class_ids.astype(np.int64)
    )


def suppress(found: Candidates, nms_iou: float, max_detections: int) -> Candidates:
    """Drops the weaker of two boxes of one class that overlap by more than `nms_iou`.

    Returns: at most `max_detections`, best score first; ties keep their order.
    """
    order = np.argsort(-found.scores, kind="stable")[: 10 * max_detections]
    xyxy, scores, class_ids = found.xyxy[order], found.scores[order], found.class_ids[order]
    if len(order) < 2:
        return Candidates(xyxy, scores, class_ids)
    rivals = (box_iou(xyxy, xyxy) > nms_iou) & (class_ids[:, None] == class_ids[None, :])
    alive = np.ones(len(order), dtype=bool)
    for index in range(len(order)):
        if alive[index]:
            alive[index + 1 :] &= ~rivals[index, index + 1 :]
    keep = np.flatnonzero(alive)[:max_detections]
    return Candidates(xyxy[keep], scores[keep], class_ids[keep])


def temperatures(
    frame: ThermalFrame, plane: ThermalPlane, xyxy: NDArray[np.float32]
) -> tuple[BoxTemperatures | None, ...]:
    """Reads the heat under each box from the raw thermal frame, before any resampling.

    Arguments:
        frame: raw counts.
        plane: how the frame was laid on the network's input.
        xyxy: boxes [n, 4] in input pixels.

    Returns: one entry a box; None where the box is outside the thermal frame.
    """
    if not len(xyxy):
        return ()
    to_thermal = np.linalg.inv(plane.to_input)
    to_thermal /= to_thermal[2, 2]
    corners = xyxy[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2).astype(np.float64)
    depth = corners @ to_thermal[2, :2] + to_thermal[2, 2]
    ahead = depth > 1e-9  # A box with a corner beyond the homography's horizon has no place.
    mapped = corners @ to_thermal[:2, :2].T + to_thermal[:2, 2]
    mapped = np.clip(mapped / np.where(ahead, depth, 1.0)[..., None], -_FAR_PX, _FAR_PX)
    low = np.floor(mapped.min(axis=1) + 1e-6).astype(int)
    high = np.ceil(mapped.max(axis=1) - 1e-6).astype(int)
    return tuple(
        _box_temperatures(frame, *map(int, (*low[index], *high[index]))) if ahead[index].all() else None
        for index in range(len(xyxy))
    )


def _box_temperatures(
    frame: ThermalFrame, left: int, top: int, right: int, bottom: int
) -> BoxTemperatures | None:
    height, width = frame.image.shape
    left, top, right, bottom = max(left, 0), max(top, 0), min(right, width), min(bottom, height)
    if right <= left or bottom <= top:
        return None
    margin_x = max(_RING_MIN_PX, int((right - left) * _RING_SHARE))
    margin_y = max(_RING_MIN_PX, int((bottom - top) * _RING_SHARE))
    outer_left, outer_right = max(left - margin_x, 0), min(right + margin_x, width)
    outer_top, outer_bottom = max(top - margin_y, 0), min(bottom + margin_y, height)
    image = frame.image
    inside = image[top:bottom, left:right]
    outer_area = (outer_right - outer_left) * (outer_bottom - outer_top)
    step = max(1, round((max(0, outer_area - inside.size) / _RING_SAMPLES) ** 0.5))
    ring = np.concatenate(
        [
            image[outer_top:top:step, outer_left:outer_right:step].ravel(),
            image[bottom:outer_bottom:step, outer_left:outer_right:step].ravel(),
            image[top:bottom:step, outer_left:left:step].ravel(),
            image[top:bottom:step, right:outer_right:step].ravel(),
        ]
    )
    # One pass each in OpenCV; NumPy takes five times as long on crops of this size.
    coldest, hottest, _, _ = cv2.minMaxLoc(inside)
    delta = hottest - middle_value(ring) if ring.size else None
    absolute = frame.unit is ThermalUnit.CENTIKELVIN
    factor = KELVIN_PER_CENTIKELVIN if absolute else 1.0
    return BoxTemperatures(
        unit="K" if absolute else "counts",
        min=coldest * factor,
        mean=cv2.mean(inside)[0] * factor,
        max=hottest * factor,
        delta=None if delta is None else delta * factor,
    )


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
