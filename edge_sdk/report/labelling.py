"""Where the labels of boxes go, so that none covers another. Pure geometry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

__all__ = ["Box", "place_labels"]

Box = tuple[int, int, int, int]
"""left, top, right, bottom in pixels."""

_GAP = 2
_STEPS = 5
"""How many label heights a label may move away from its box before it is left out."""


def place_labels(
    boxes: Sequence[Box], sizes_wh: Sequence[tuple[int, int]], area_wh: tuple[int, int]
) -> list[Box | None]:
    """Finds a place for each box's label, the first boxes first.

    A label lies in the area and overlaps no label before it; among such places the one that covers
    least of any box wins, then the one nearest to the usual place above the box's left corner.

    Arguments:
        boxes: the boxes in pixels, most important first.
        sizes_wh: width and height of each box's label.
        area_wh: width and height of the picture.

    Returns: a place a box, or None where there is none.
    """
    placed: list[Box | None] = []
    for box, (width, height) in zip(boxes, sizes_wh, strict=True):
        best: Box | None = None
        best_cost = float("inf")
        for order, (left, top) in enumerate(_candidates(box, width, height)):
            place = _moved_inside((left, top, left + width, top + height), area_wh)
            if place is None or any(other and overlap_px(place, other) for other in placed):
                continue
            cost = sum(overlap_px(place, other) / max(1, _area(other)) for other in boxes) * 20 + order
            if cost < best_cost:
                best, best_cost = place, cost
        placed.append(best)
    return placed


def overlap_px(a: Box, b: Box) -> int:
    """Returns the area that two boxes share, in pixels."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    return width * height if width > 0 and height > 0 else 0


def _candidates(box: Box, width: int, height: int) -> Iterator[tuple[int, int]]:
    left, top, right, bottom = box
    above, below = top - height - _GAP, bottom + _GAP
    yield left, above
    yield right - width, above
    yield left, below
    yield right - width, below
    yield right + _GAP, top
    yield left - width - _GAP, top
    yield left + _GAP, top + _GAP
    for step in range(1, _STEPS + 1):
        shift = step * (height + _GAP)
        for x in (left, right - width, right + _GAP, left - width - _GAP):
            yield x, above - shift
            yield x, below + shift


def _moved_inside(place: Box, area_wh: tuple[int, int]) -> Box | None:
    left, top, right, bottom = place
    width, height = right - left, bottom - top
    if width > area_wh[0] or height > area_wh[1]:
        return None
    left = min(max(left, 0), area_wh[0] - width)
    top = min(max(top, 0), area_wh[1] - height)
    return left, top, left + width, top + height


def _area(box: Box) -> int:
    return max(0, box[2] - box[0]) * max(0, box[3] - box[1])
