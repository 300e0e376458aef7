"""Average precision against the recipe's labels; the counting itself is the SDK's `accuracy`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from edge_sdk import accuracy
from edge_sdk.accuracy import Scored, Truth, average_precision
from edge_sdk.postprocess import Candidates
from engines.recipe.train.data import Labels

__all__ = ["Scored", "average_precision", "match", "mean_of"]


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
    truth = [Truth(labels.boxes, labels.class_ids, ~(labels.in_rgb | labels.in_thermal)) for labels in wanted]
    return accuracy.match(found, truth, class_id, iou_min)


def mean_of(by_class: Mapping[str, float | None]) -> float:
    """Mean over the classes that have a figure."""
    known = [value for value in by_class.values() if value is not None]
    return float(np.mean(known)) if known else 0.0
