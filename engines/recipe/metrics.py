"""Average precision of found boxes, per class, as the evaluation and the training log use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_sdk.detections import box_iou
from edge_sdk.postprocess import Candidates
from engines.recipe.train.data import Labels

__all__ = ["Scored", "average_precision", "match", "mean_of"]


@dataclass(frozen=True, eq=False)
class Scored:
    """Every detection of one class over a set of frames, and how many objects there were.

    Attributes:
        scores: float32 [n].
        right: bool [n], whether it took an object of its own.
        objects: objects that count.
    """

    scores: NDArray[np.float32]
    right: NDArray[np.bool_]
    objects: int


def match(
    found: Sequence[Candidates], wanted: Sequence[Labels], class_id: int, iou_min: float = 0.5
) -> Scored:
    """Matches detections to objects, the surest detection first, one object a detection.

    Arguments:
        found: one entry a frame.
        wanted: one entry a frame; objects that neither camera shows are ignored, and so is
            what is found on them.
        class_id: index of the class.
        iou_min: least overlap of a right detection.
    """
    scores: list[float] = []
    right: list[bool] = []
    objects = 0
    for candidates, labels in zip(found, wanted, strict=True):
        mine = labels.class_ids == class_id
        seen = (labels.in_rgb | labels.in_thermal)[mine]
        objects += int(seen.sum())
        picked = candidates.class_ids == class_id
        boxes, sureness = candidates.xyxy[picked], candidates.scores[picked]
        overlap = box_iou(boxes, labels.boxes[mine])
        free = np.ones(len(seen), bool)
        for place in np.argsort(-sureness, kind="stable"):
            fitting = np.where(free & seen, overlap[place], 0.0)
            best = int(fitting.argmax()) if len(fitting) else -1
            hit = best >= 0 and fitting[best] >= iou_min
            if hit:
                free[best] = False
            elif len(seen) and (overlap[place][~seen] >= iou_min).any():
                continue
            scores.append(float(sureness[place]))
            right.append(bool(hit))
    return Scored(np.array(scores, np.float32), np.array(right, bool), objects)


def average_precision(scored: Scored) -> float | None:
    """Area under the precision envelope over recall, 0 - 1; None where there was no object."""
    if scored.objects == 0:
        return None
    order = np.argsort(-scored.scores, kind="stable")
    hits = np.cumsum(scored.right[order])
    recall = hits / scored.objects
    precision = hits / np.arange(1, len(order) + 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    steps = np.diff(np.concatenate(([0.0], recall)))
    return float((envelope * steps).sum())


def mean_of(by_class: Mapping[str, float | None]) -> float:
    """Mean over the classes that have a figure."""
    known = [value for value in by_class.values() if value is not None]
    return float(np.mean(known)) if known else 0.0
