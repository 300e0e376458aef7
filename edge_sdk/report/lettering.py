"""Text on pictures: OpenCV 5's own typeface where it is there, OpenCV 4's stroke font elsewhere."""

from __future__ import annotations

from functools import cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

__all__ = ["Color", "elide", "put_text", "text_width_px"]

Color = tuple[int, int, int]

_HERSHEY_HEIGHT_PX = 22.0
"""Height of a capital of the stroke font at scale 1. Source: OpenCV, getFontScaleFromHeight."""

_SPELLED_OUT = str.maketrans({"°": "deg ", "Δ": "rise", "·": "-", "…": "~"})
"""The stroke font knows ASCII only."""


def text_width_px(text: str, size_px: int, bold: bool = False) -> int:
    """Returns how wide a line of text is, in pixels."""
    face = _face()
    if face is not None:
        x, _, width, _ = cv2.getTextSize((1 << 15, 1 << 10), text, (0, 0), face, size_px, _weight(bold))
        return int(x + width)
    (width, _), _ = cv2.getTextSize(_ascii(text), cv2.FONT_HERSHEY_DUPLEX, _scale(size_px), 1)
    return int(width)


def put_text(
    image: NDArray[np.uint8],
    text: str,
    left: int,
    middle: int,
    size_px: int,
    color: Color,
    bold: bool = False,
) -> None:
    """Writes one line of text.

    Arguments:
        image: uint8 [height, width, 3], written.
        text: the line.
        left, middle: the left end, and the height of the middle of a capital, in pixels.
        size_px: size of the typeface in pixels.
        color: in the image's channel order.
        bold: heavier strokes.
    """
    face = _face()
    if face is not None:
        baseline = middle + round(0.36 * size_px)
        cv2.putText(image, text, (left, baseline), color, face, size_px, _weight(bold))
        return
    font = cv2.FONT_HERSHEY_DUPLEX if bold else cv2.FONT_HERSHEY_SIMPLEX
    baseline = middle + round(_scale(size_px) * _HERSHEY_HEIGHT_PX / 2)
    cv2.putText(image, _ascii(text), (left, baseline), font, _scale(size_px), color, 1, cv2.LINE_AA)


def elide(text: str, size_px: int, room_px: int, bold: bool = False) -> str:
    """Returns the text, or as much of its end as fits behind an ellipsis."""
    if text_width_px(text, size_px, bold) <= room_px:
        return text
    while text and text_width_px("…" + text, size_px, bold) > room_px:
        text = text[1:]
    return "…" + text if text else ""


@cache
def _face() -> Any:
    return cv2.FontFace("sans") if hasattr(cv2, "FontFace") else None


def _weight(bold: bool) -> int:
    return 700 if bold else 450


def _scale(size_px: int) -> float:
    return 0.72 * size_px / _HERSHEY_HEIGHT_PX


def _ascii(text: str) -> str:
    return text.translate(_SPELLED_OUT).encode("ascii", "replace").decode()
