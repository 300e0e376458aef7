"""The picture of a result: colour and thermal side by side, boxes on both, how it was found above."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk.detections import BoxTemperatures, Detections
from edge_sdk.frames import FramePair, Registration, ThermalFrame, ThermalUnit
from edge_sdk.measurements import FrameResult, Route
from edge_sdk.report.frame_writer import FrameWriter
from edge_sdk.report.labelling import Box, place_labels
from edge_sdk.report.lettering import Color, elide, put_text, text_width_px
from edge_sdk.report.thermal_view import Span, display_span, lay_on_rgb, level_of

__all__ = ["FrameWriter", "annotate"]

_LEAST_HEIGHT_PX, _MOST_HEIGHT_PX = 640, 1080
_HEADER_PX, _GAP_PX, _SCALE_PX = 52, 6, 96
_TEXT_PX = 17

_INK, _PAPER, _NOTHING = (235, 235, 235), (24, 26, 30), (46, 48, 52)
_FAINT = (160, 164, 170)

_CLASS_COLORS: tuple[Color, ...] = (
    (240, 228, 66),
    (86, 205, 255),
    (240, 120, 60),
    (0, 190, 140),
    (225, 140, 190),
    (255, 255, 255),
    (120, 150, 255),
    (230, 159, 0),
)
"""Told apart with any colour vision. Source: Okabe and Ito, Color Universal Design (2008), brightened
for dark ground. The second class of the reference engine, hot spots, has the colour that the thermal
colour map has not."""

_ROUTE_COLORS: dict[Route, Color] = {
    Route.RGB: (86, 180, 233),
    Route.FUSE: (0, 190, 140),
    Route.THERMAL: (230, 159, 0),
}

_ZERO_C_IN_CENTIKELVIN = 27315
_ZERO_C_IN_KELVIN = 273.15


def annotate(pair: FramePair, result: FrameResult) -> NDArray[np.uint8]:
    """Draws one result for people to look at.

    Left the RGB frame with boxes, classes and scores; right the thermal frame laid on it, coloured
    between its 1st and 99.95th percentile (for display only), with the heat under each box; degrees
    Celsius where the frame is radiometric, counts where it is not. Above: key, route, reason, times.

    Arguments:
        pair: the frames.
        result: the answer for this pair; the thermal frame lies where its registration says. Without one
            it is stretched over the RGB frame, and the picture says so.

    Returns: uint8 [height, width, 3], red first; each half at least 640 pixels high.

    Copies: draws a new picture.
    """
    registration = result.registration
    frame_wh = _frame_size(pair, registration)
    scale = min(max(_LEAST_HEIGHT_PX / frame_wh[1], 1.0), max(_MOST_HEIGHT_PX / frame_wh[1], 0.01))
    half_wh = max(1, round(frame_wh[0] * scale)), max(1, round(frame_wh[1] * scale))
    to_half = np.diag([half_wh[0] / frame_wh[0], half_wh[1] / frame_wh[1], 1.0])
    picture = np.full((_HEADER_PX + half_wh[1], 2 * half_wh[0] + _GAP_PX + _SCALE_PX, 3), _PAPER, np.uint8)
    halves = picture[_HEADER_PX:]
    left, right = halves[:, : half_wh[0]], halves[:, half_wh[0] + _GAP_PX : 2 * half_wh[0] + _GAP_PX]
    boxes = _scaled_boxes(result.detections, to_half, half_wh)

    used = "" if result.route is not Route.THERMAL else " - not used"
    _draw_rgb(pair, left, half_wh)
    names = [f"{found.class_name} {found.score:.2f}" for found in result.detections]
    hidden = _draw_boxes(left, boxes, names, result.detections.class_ids)
    _caption(left, "RGB" + used)

    if pair.thermal is not None:
        matrix = registration.matrix_for(frame_wh, pair.thermal.size_wh) if registration else None
        span = _draw_thermal(pair.thermal, right, matrix, frame_wh)
        _draw_scale(halves[:, 2 * half_wh[0] + _GAP_PX :], span, pair.thermal.unit)
        heat = [_heat_text(found.temperatures) for found in result.detections]
        hidden = max(hidden, _draw_boxes(right, boxes, heat, result.detections.class_ids))
        note = "" if registration else " - stretched, no registration given"
        _caption(right, "Thermal" + _thermal_use(result) + note)
    else:
        _say_nothing(right, "no thermal frame")
    _draw_header(picture[:_HEADER_PX], result, hidden)
    return picture


def _thermal_use(result: FrameResult) -> str:
    if result.thermal_consulted:
        return ""
    looked_at = result.signals.hot_delta_k is not None
    return " - screened for heat, not fused" if looked_at else " - not used by the network"


def _frame_size(pair: FramePair, registration: Registration | None) -> tuple[int, int]:
    """The size of the frame that boxes are given in, (width, height) in pixels."""
    if pair.rgb is not None:
        return pair.rgb.size_wh
    if registration is not None:
        return registration.rgb_size_wh
    return pair.thermal.size_wh if pair.thermal is not None else (640, 480)


def _draw_rgb(pair: FramePair, out: NDArray[np.uint8], half_wh: tuple[int, int]) -> None:
    if pair.rgb is None:
        _say_nothing(out, "no RGB frame")
        return
    shrinking = half_wh[0] < pair.rgb.size_wh[0]
    out[:] = cv2.resize(
        pair.rgb.image, half_wh, interpolation=cv2.INTER_AREA if shrinking else cv2.INTER_CUBIC
    )


def _draw_thermal(
    frame: ThermalFrame,
    out: NDArray[np.uint8],
    matrix: NDArray[np.float64] | None,
    frame_wh: tuple[int, int],
) -> Span:
    span = display_span(frame)
    raw, seen = lay_on_rgb(frame, matrix, frame_wh, (out.shape[1], out.shape[0]))
    colored = _colored(level_of(raw, span))
    colored[seen == 0] = _NOTHING
    out[:] = colored
    return span


def _colored(level: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.asarray(
        cv2.cvtColor(cv2.applyColorMap(level, cv2.COLORMAP_INFERNO), cv2.COLOR_BGR2RGB), np.uint8
    )


def _draw_scale(out: NDArray[np.uint8], span: Span, unit: ThermalUnit) -> None:
    """Draws the colours and what they stand for, in the strip at the right."""
    top, bottom, left, right = 44, out.shape[0] - 24, 12, 28
    ramp = np.linspace(255, 0, bottom - top).astype(np.uint8)[:, None]
    out[top:bottom, left:right] = _colored(np.repeat(ramp, right - left, axis=1))
    absolute = unit is ThermalUnit.CENTIKELVIN
    put_text(out, "°C" if absolute else "counts", left, 20, _TEXT_PX, _INK, bold=True)
    for share in np.linspace(0, 1, 6):
        counts = span.high - share * (span.high - span.low)
        value = (counts - _ZERO_C_IN_CENTIKELVIN) / 100 if absolute else counts
        y = round(top + float(share) * (bottom - 1 - top))
        cv2.line(out, (right, y), (right + 5, y), _INK, 1)
        put_text(out, f"{value:.1f}" if absolute else f"{value:.0f}", right + 9, y, _TEXT_PX - 2, _INK)


def _scaled_boxes(
    detections: Detections, to_half: NDArray[np.float64], half_wh: tuple[int, int]
) -> list[Box]:
    scale = np.array([to_half[0, 0], to_half[1, 1]] * 2)
    limit = np.array([half_wh[0] - 1, half_wh[1] - 1] * 2)
    scaled = np.clip(np.nan_to_num(detections.xyxy.astype(np.float64) * scale), 0, limit).round().astype(int)
    return [(int(a), int(b), int(c), int(d)) for a, b, c, d in scaled]


def _draw_boxes(
    out: NDArray[np.uint8], boxes: list[Box], texts: list[str], class_ids: NDArray[np.int64]
) -> int:
    """Draws boxes and as many labels as fit; returns the number of labels left out."""
    colors = [_CLASS_COLORS[int(class_id) % len(_CLASS_COLORS)] for class_id in class_ids]
    for width, black in ((4, True), (2, False)):
        for box, color in zip(boxes, colors, strict=True):
            cv2.rectangle(out, box[:2], box[2:], (0, 0, 0) if black else color, width, cv2.LINE_AA)
    wanted = [index for index, text in enumerate(texts) if text]
    sizes = [(text_width_px(texts[index], _TEXT_PX, True) + 10, _TEXT_PX + 7) for index in wanted]
    places = place_labels([boxes[index] for index in wanted], sizes, (out.shape[1], out.shape[0]))
    for index, place in zip(wanted, places, strict=True):
        if place is not None:
            _leader(out, boxes[index], place, colors[index])
    for index, place in zip(wanted, places, strict=True):
        if place is None:
            continue
        cv2.rectangle(out, (place[0], place[1]), (place[2] - 1, place[3] - 1), colors[index], cv2.FILLED)
        put_text(out, texts[index], place[0] + 5, (place[1] + place[3]) // 2, _TEXT_PX, (0, 0, 0), bold=True)
    return sum(place is None for place in places)


def _leader(out: NDArray[np.uint8], box: Box, place: Box, color: Color) -> None:
    """Ties a label that had to move away to its box."""
    x = min(max((place[0] + place[2]) // 2, box[0]), box[2])
    y_label, y_box = (place[3], box[1]) if place[3] <= box[1] else (place[1], box[3])
    if abs(y_label - y_box) > 6 and (place[3] <= box[1] or place[1] >= box[3]):
        cv2.line(out, ((place[0] + place[2]) // 2, y_label), (x, y_box), (0, 0, 0), 3, cv2.LINE_AA)
        cv2.line(out, ((place[0] + place[2]) // 2, y_label), (x, y_box), color, 1, cv2.LINE_AA)


def _heat_text(heat: BoxTemperatures | None) -> str:
    if heat is None:
        return ""
    if heat.unit == "K":
        rise = "" if heat.delta is None else f"  Δ {heat.delta:+.1f} K"
        return f"{heat.max - _ZERO_C_IN_KELVIN:.1f} °C{rise}"
    rise = "" if heat.delta is None else f"  Δ {heat.delta:+.0f}"
    return f"{heat.max:.0f}{rise}"


def _say_nothing(out: NDArray[np.uint8], text: str) -> None:
    out[:] = _NOTHING
    size = _TEXT_PX + 5
    left = max(0, (out.shape[1] - text_width_px(text, size)) // 2)
    put_text(out, text, left, out.shape[0] // 2, size, _FAINT)


def _caption(out: NDArray[np.uint8], text: str) -> None:
    width, height = text_width_px(text, _TEXT_PX - 2) + 16, 26
    corner = out[-height:, :width]
    corner[:] = (corner * 0.3).astype(np.uint8)
    put_text(corner, text, 8, height // 2, _TEXT_PX - 2, _INK)


def _draw_header(out: NDArray[np.uint8], result: FrameResult, hidden: int) -> None:
    middle, size = out.shape[0] // 2, _TEXT_PX + 3
    route = result.route.value.upper()
    badge_px = text_width_px(route, size, True) + 24
    cv2.rectangle(out, (10, 10), (10 + badge_px, out.shape[0] - 11), _ROUTE_COLORS[result.route], cv2.FILLED)
    put_text(out, route, 22, middle, size, (0, 0, 0), bold=True)
    left = 10 + badge_px + 14
    reason = result.reason.value.replace("-", " ")
    put_text(out, reason, left, middle, size, _INK)
    left += text_width_px(reason, size) + 24
    count = len(result.detections)
    facts = f"{count} found" + (f", {hidden} labels left out" if hidden else "")
    times = f"{facts}  ·  {result.latency_ms:.1f} ms, engine {result.engine_ms:.1f} ms"
    right = out.shape[1] - text_width_px(times, size) - 14
    put_text(out, times, max(right, left), middle, size, _INK)
    put_text(out, elide(result.key, size, right - left - 24), left, middle, size, _FAINT)
