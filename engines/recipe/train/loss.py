"""Which cells should see which object, and how far the head is from that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from engines.recipe.train.data import Labels
from engines.recipe.train.net import CLASSES, STRIDE_PX

__all__ = ["ROUTES", "Targets", "assign", "detection_loss", "stack_targets"]

ROUTES = ("rgb", "thermal", "fuse")

_RADIUS_CELLS = 1.5
"""Cells this near to an object's centre, and inside it, answer for it."""

_LEAST_QUALITY = 0.3
"""An answering cell's score is taught at least this, however poor its box still is."""

_CELLS_OF_AN_OBJECT = 9
_LARGEST_WEIGHT = 4.0
_BOX_WEIGHT = 1.5


@dataclass(frozen=True, eq=False)
class Targets:
    """What one grid should give.

    Attributes:
        positive: bool [classes, cells].
        counted: float32 [classes, cells], 0 in ignored regions, up to `_LARGEST_WEIGHT` on the few
            cells of a small object: it counts like one that many cells answer for.
        boxes: float32 [4, cells], distances to the edges in strides, valid where `has_box`.
        has_box: bool [cells].
    """

    positive: NDArray[np.bool_]
    counted: NDArray[np.float32]
    boxes: NDArray[np.float32]
    has_box: NDArray[np.bool_]


def assign(labels: Labels, route: str, grid_hw: tuple[int, int]) -> Targets:
    """Gives each object to the cells around its centre; the smaller object wins a shared cell.

    Arguments:
        labels: boxes in pixels of the network's input.
        route: decides which objects count: those its cameras can show. Objects that neither
            camera shows are ignored regions on every route.
        grid_hw: cells of the grid.
    """
    y, x = np.meshgrid(
        (np.arange(grid_hw[0]) + 0.5) * STRIDE_PX, (np.arange(grid_hw[1]) + 0.5) * STRIDE_PX, indexing="ij"
    )
    x, y = x.ravel().astype(np.float32), y.ravel().astype(np.float32)
    cells = len(x)
    positive = np.zeros((len(CLASSES), cells), bool)
    counted = np.ones((len(CLASSES), cells), np.float32)
    boxes = np.zeros((4, cells), np.float32)
    has_box = np.zeros(cells, bool)
    seen = {"rgb": labels.in_rgb, "thermal": labels.in_thermal, "fuse": labels.in_rgb | labels.in_thermal}[
        route
    ]
    unseen = ~(labels.in_rgb | labels.in_thermal)
    for left, top, right, bottom in labels.boxes[unseen]:
        counted[:, (x > left) & (x < right) & (y > top) & (y < bottom)] = 0

    area = np.prod(labels.boxes[:, 2:] - labels.boxes[:, :2], axis=1)
    for index in np.argsort(-area):
        if not seen[index]:
            continue
        left, top, right, bottom = labels.boxes[index]
        centre_x, centre_y = (left + right) / 2, (top + bottom) / 2
        inside = (x > left) & (x < right) & (y > top) & (y < bottom)
        near = np.maximum(np.abs(x - centre_x), np.abs(y - centre_y)) < _RADIUS_CELLS * STRIDE_PX
        mine = inside & near
        mine[np.argmin((x - centre_x) ** 2 + (y - centre_y) ** 2)] = True
        positive[labels.class_ids[index], mine] = True
        counted[labels.class_ids[index], mine] = min(_CELLS_OF_AN_OBJECT / int(mine.sum()), _LARGEST_WEIGHT)
        edges = np.stack((x - left, y - top, right - x, bottom - y)) / STRIDE_PX
        boxes[:, mine] = edges[:, mine]
        has_box |= mine
    return Targets(positive, counted, boxes, has_box)


def stack_targets(targets: Sequence[Targets]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Stacks the targets of a batch into tensors: positive, counted, boxes, has_box."""
    return (
        torch.from_numpy(np.stack([target.positive for target in targets])),
        torch.from_numpy(np.stack([target.counted for target in targets])),
        torch.from_numpy(np.stack([target.boxes for target in targets])),
        torch.from_numpy(np.stack([target.has_box for target in targets])),
    )


def detection_loss(
    scores: Tensor, boxes: Tensor, targets: tuple[Tensor, Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Quality focal loss of the scores and GIoU loss of the boxes, each per answering cell.

    Arguments:
        scores: logits [b, classes, h, w].
        boxes: edge distances in strides [b, 4, h, w].
        targets: as from `stack_targets`.
    """
    positive, counted, wanted, has_box = targets
    logits = scores.flatten(2)
    found = boxes.flatten(2).permute(0, 2, 1)[has_box]
    wanted = wanted.permute(0, 2, 1)[has_box]
    iou, giou = _iou_giou(found, wanted)
    quality = torch.zeros_like(has_box, dtype=logits.dtype)
    quality[has_box] = iou.detach().clamp(min=_LEAST_QUALITY)
    goal = torch.where(positive, quality.unsqueeze(1), torch.zeros(()))
    probability = logits.sigmoid()
    weight = (goal - probability).abs().square() * counted
    cross_entropy = functional.binary_cross_entropy_with_logits(logits, goal, reduction="none")
    worth = (counted * positive).amax(dim=1)[has_box]
    score_loss = (cross_entropy * weight).sum() / (counted * positive).sum().clamp(min=1)
    box_loss = ((1 - giou) * worth).sum() / worth.sum().clamp(min=1)
    return score_loss, _BOX_WEIGHT * box_loss


def _iou_giou(found: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """IoU and generalised IoU of boxes [n, 4] that share their reference points."""
    width = torch.minimum(found[:, 0], wanted[:, 0]) + torch.minimum(found[:, 2], wanted[:, 2])
    height = torch.minimum(found[:, 1], wanted[:, 1]) + torch.minimum(found[:, 3], wanted[:, 3])
    overlap = width.clamp(min=0) * height.clamp(min=0)
    area_found = (found[:, 0] + found[:, 2]).clamp(min=0.05) * (found[:, 1] + found[:, 3]).clamp(min=0.05)
    area_wanted = (wanted[:, 0] + wanted[:, 2]) * (wanted[:, 1] + wanted[:, 3])
    union = area_found + area_wanted - overlap
    iou = overlap / union.clamp(min=1e-6)
    hull_width = torch.maximum(found[:, 0], wanted[:, 0]) + torch.maximum(found[:, 2], wanted[:, 2])
    hull_height = torch.maximum(found[:, 1], wanted[:, 1]) + torch.maximum(found[:, 3], wanted[:, 3])
    hull = (hull_width * hull_height).clamp(min=1e-6)
    return iou, iou - (hull - union) / hull
