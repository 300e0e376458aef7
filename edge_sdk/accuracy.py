"""Average precision: how good found boxes are against what is truly there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edge_sdk.detections import box_iou

__all__ = ["Found", "Scored", "Truth", "average_precision", "match", "mean_average_precision"]


class Found(Protocol):
    """What was found in one frame: `Detections`, or the candidates before them."""

    @property
    def xyxy(self) -> NDArray[np.float32]:
        """Boxes [n, 4]."""
        ...

    @property
    def scores(self) -> NDArray[np.float32]:
        """Scores [n]."""
        ...

    @property
    def class_ids(self) -> NDArray[np.int64]:
        """Classes [n]."""
        ...


@dataclass(frozen=True, eq=False)
class Truth:
    """What is truly in one frame.

    Attributes:
        xyxy: float32 [n, 4], in the pixels of the detections it is compared with.
        class_ids: int64 [n].
        ignored: bool [n]; such an object need not be found, and finding it is no mistake.
    """

    xyxy: NDArray[np.float32]
    class_ids: NDArray[np.int64]
    ignored: NDArray[np.bool_]


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


def match(found: Sequence[Found], truth: Sequence[Truth], class_id: int, iou_min: float = 0.5) -> Scored:
    """Matches detections to objects, the surest detection first, one object a detection.

    As COCO does it: a detection takes the free object that it overlaps most; where no object that counts is
    free, it may take a free ignored one, and is then left out. An ignored object absorbs one detection.

    Source: pycocotools, `COCOeval.evaluateImg`; held to it by a test.

    Arguments:
        found, truth: one entry a frame.
        class_id: index of the class.
        iou_min: least overlap of a right detection.
    """
    scores: list[float] = []
    right: list[bool] = []
    objects = 0
    for detections, there in zip(found, truth, strict=True):
        mine = there.class_ids == class_id
        ignored = there.ignored[mine]
        objects += int((~ignored).sum())
        picked = detections.class_ids == class_id
        overlap = box_iou(detections.xyxy[picked], there.xyxy[mine])
        free = np.ones(len(ignored), bool)
        sureness = detections.scores[picked]
        for place in np.argsort(-sureness, kind="stable"):
            taken = _best_free(overlap[place], free & ~ignored, iou_min)
            hit = taken is not None
            if not hit:
                taken = _best_free(overlap[place], free & ignored, iou_min)
            if taken is not None:
                free[taken] = False
                if not hit:
                    continue
            scores.append(float(sureness[place]))
            right.append(hit)
    return Scored(np.array(scores, np.float32), np.array(right, bool), objects)


def _best_free(overlap: NDArray[np.float32], free: NDArray[np.bool_], iou_min: float) -> int | None:
    fitting = np.where(free, overlap, 0.0)
    best = int(fitting.argmax()) if len(fitting) else -1
    return best if best >= 0 and fitting[best] >= iou_min else None


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


def mean_average_precision(
    found: Sequence[Found], truth: Sequence[Truth], class_names: Sequence[str], iou_min: float = 0.5
) -> tuple[float | None, dict[str, float | None]]:
    """Averages the precision over the classes that occur.

    Returns: the mean (None where no class occurs), and the figure of each class.
    """
    by_class = {
        name: average_precision(match(found, truth, class_id, iou_min))
        for class_id, name in enumerate(class_names)
    }
    known = [figure for figure in by_class.values() if figure is not None]
    return (float(np.mean(known)) if known else None), by_class
