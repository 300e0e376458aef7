"""The pictures that go to the page: a JPEG of the RGB frame and a grey JPEG of the heat that lies on it."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk.frames import FramePair, Registration, ThermalFrame
from edge_sdk.live.alarms import AlarmRule, why_not_looked
from edge_sdk.live.degrees import heat_of_box, hottest_at, unit_of, value_of
from edge_sdk.measurements import FrameResult
from edge_sdk.report.thermal_view import display_span, lay_on_rgb, level_of

__all__ = ["LiveFrame", "still_pictures"]

_WIDEST_PX, _THERMAL_WIDEST_PX = 640, 400
_RGB_QUALITY, _THERMAL_QUALITY = 80, 90
_UNSEEN_BELOW = 16
"""Levels under this mean "the thermal camera does not see there"; JPEG blurs it by a few levels."""


@dataclass(frozen=True, eq=False)
class LiveFrame:
    """One answered pair, ready for the page, and able to say the heat at a point of it.

    Attributes:
        number: of the pair.
        message: head length (4 bytes, little-endian), head (JSON), RGB JPEG, thermal JPEG.
    """

    number: int
    message: bytes
    _thermal: ThermalFrame | None
    _to_thermal: NDArray[np.float64] | None

    @classmethod
    def make(
        cls, number: int, pair: FramePair, result: FrameResult, rule: AlarmRule | None = None
    ) -> LiveFrame:
        """Draws nothing into the picture: boxes and colours are the page's.

        Arguments:
            number: of the pair.
            pair: the frames.
            result: their answer; the thermal frame lies where its registration says.
            rule: marks boxes that are a cause for alarm; boxes come with these first, then the hottest.
        """
        registration = result.registration
        frame_wh = _frame_wh(pair, registration)
        rgb = b"" if pair.rgb is None else _jpeg_of(pair.rgb.image, frame_wh)
        thermal, heat, to_thermal = b"", None, None
        if pair.thermal is not None:
            matrix = registration.matrix_for(frame_wh, pair.thermal.size_wh) if registration else None
            thermal, heat, to_thermal = _heat_of(pair.thermal, matrix, frame_wh)
        head = {
            "number": number,
            "key": result.key,
            "route": result.route.value,
            "reason": result.reason.value,
            "thermal_consulted": result.thermal_consulted,
            "latency_ms": round(result.latency_ms, 2),
            "size_wh": frame_wh,
            "boxes": _boxes(result, frame_wh, rule or AlarmRule()),
            "not_looked": why_not_looked(result),
            "heat": heat,
            "stretched": pair.thermal is not None and registration is None,
            "assumed": _assumed(pair, registration),
            "rgb_bytes": len(rgb),
            "thermal_bytes": len(thermal),
        }
        text = json.dumps(head, allow_nan=False).encode()
        return cls(number, struct.pack("<I", len(text)) + text + rgb + thermal, pair.thermal, to_thermal)

    def spots(self, points: list[tuple[float, float]]) -> list[dict[str, Any]]:
        """Returns the heat at points given as shares of the RGB frame's width and height (0 - 1).

        The mean over 3x3 thermal pixels; null where the thermal camera does not see.
        """
        return [{"x": x, "y": y, "value": self._spot(x, y), "unit": self.unit} for x, y in points]

    @property
    def unit(self) -> str:
        """Unit of the values: "°C" or "counts"; "" without a thermal frame."""
        return "" if self._thermal is None else unit_of(self._thermal)

    def _spot(self, x: float, y: float) -> float | None:
        if self._thermal is None or self._to_thermal is None:
            return None
        u, v, w = self._to_thermal @ np.array([x, y, 1.0])
        height, width = self._thermal.image.shape
        if not w or not (0 <= u / w < width and 0 <= v / w < height):
            return None
        column, row = int(u / w), int(v / w)
        patch = self._thermal.filled[max(0, row - 1) : row + 2, max(0, column - 1) : column + 2]
        return value_of(float(patch.mean()), self._thermal)


def still_pictures(pair: FramePair) -> dict[str, Any]:
    """Makes both pictures of a pair as their cameras saw them, unregistered, for picking points.

    Returns: for "rgb" and "thermal" the JPEG and the size (width, height) of the frame, or None.
    """
    rgb = None
    if pair.rgb is not None:
        rgb = {"jpeg": _jpeg_of(pair.rgb.image, pair.rgb.size_wh, 960), "size_wh": pair.rgb.size_wh}
    thermal = None
    if pair.thermal is not None:
        level = level_of(pair.thermal.filled.astype(np.float32), display_span(pair.thermal))
        scale = max(1, round(640 / level.shape[1]))
        level = cv2.resize(level, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)  # type: ignore[assignment]
        thermal = {"jpeg": _encoded(level, _THERMAL_QUALITY), "size_wh": pair.thermal.size_wh}
    return {"rgb": rgb, "thermal": thermal}


def _boxes(result: FrameResult, frame_wh: tuple[int, int], rule: AlarmRule) -> list[dict[str, Any]]:
    """Lays out all boxes, hot spots and the hottest first, then the surest."""
    boxes = []
    for index, found in enumerate(result.detections):
        heat, why = heat_of_box(found.temperatures), rule.why(found)
        box = {
            "class": found.class_name,
            "id": int(result.detections.class_ids[index]),
            "score": round(found.score, 3),
            "xyxy": [round(float(edge) / frame_wh[at % 2], 4) for at, edge in enumerate(found.box_xyxy)],
            "heat": heat if heat["unit"] else None,
            "alarm": why,
            "hot": bool(why) or found.class_name in rule.classes,
        }
        top = heat["max"] if heat["max"] is not None else -np.inf
        boxes.append(((not why, not box["hot"], -top, -found.score, index), box))
    return [box for _, box in sorted(boxes, key=lambda entry: entry[0])]


def _heat_of(
    frame: ThermalFrame, matrix: NDArray[np.float64] | None, frame_wh: tuple[int, int]
) -> tuple[bytes, dict[str, Any], NDArray[np.float64]]:
    picture_wh = _within(frame_wh, _THERMAL_WIDEST_PX)
    span = display_span(frame)
    raw, seen = lay_on_rgb(frame, matrix, frame_wh, picture_wh)
    level = level_of(raw, span, low=_UNSEEN_BELOW + 8)
    level[seen == 0] = 0
    width, height = frame.size_wh
    if matrix is None:
        matrix = np.diag([frame_wh[0] / width, frame_wh[1] / height, 1.0])
    to_share = np.diag([1 / frame_wh[0], 1 / frame_wh[1], 1.0]) @ matrix
    row, column, top = hottest_at(frame)
    x, y, w = to_share @ np.array([column + 0.5, row + 0.5, 1.0])
    heat = {
        "unit": unit_of(frame),
        "low": value_of(span.low, frame),
        "high": value_of(span.high, frame),
        "median": value_of(float(np.median(frame.filled[::4, ::4])), frame),
        "hottest": {
            "x": round(float(x / w), 4),
            "y": round(float(y / w), 4),
            "value": value_of(top, frame),
        },
    }
    return _encoded(level, _THERMAL_QUALITY), heat, np.asarray(np.linalg.inv(to_share), np.float64)


def _assumed(pair: FramePair, registration: Registration | None) -> str:
    """Says how heat is taken to lie on colour where nobody has measured it; "" elsewhere."""
    if pair.rgb is None or pair.thermal is None or registration is None or not registration.assumed:
        return ""
    return registration.origin


def _frame_wh(pair: FramePair, registration: Registration | None) -> tuple[int, int]:
    if pair.rgb is not None:
        return pair.rgb.size_wh
    if registration is not None:
        return registration.rgb_size_wh
    return pair.thermal.size_wh if pair.thermal is not None else (640, 480)


def _within(size_wh: tuple[int, int], widest_px: int) -> tuple[int, int]:
    scale = min(1.0, widest_px / size_wh[0])
    return max(1, round(size_wh[0] * scale)), max(1, round(size_wh[1] * scale))


def _jpeg_of(image: NDArray[np.uint8], size_wh: tuple[int, int], widest_px: int = _WIDEST_PX) -> bytes:
    picture_wh = _within(size_wh, widest_px)
    if picture_wh != (image.shape[1], image.shape[0]):
        image = np.asarray(cv2.resize(image, picture_wh, interpolation=cv2.INTER_AREA), np.uint8)
    return _encoded(np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2BGR), np.uint8), _RGB_QUALITY)


def _encoded(image: NDArray[np.uint8], quality: int) -> bytes:
    return cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()
