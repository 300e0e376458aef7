"""Contact sheets: pairs with their boxes drawn, for people to look at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from engines.recipe.pictures import write_picture
from engines.recipe.render.rig import RGB_SIZE_WH
from engines.recipe.render.shoot import Pair

COLORS_RGB = {
    "insulator": (0, 255, 0),
    "hotspot": (255, 60, 60),
    "corrosion": (255, 200, 0),
    "person": (80, 160, 255),
}


def false_color(thermal_centikelvin: NDArray[np.uint16]) -> NDArray[np.uint8]:
    """Returns a thermal frame in the inferno palette, RGB uint8, scaled to the frame's own range."""
    celsius = thermal_centikelvin / 100.0 - 273.15
    low, high = np.percentile(celsius, [2, 99.9])
    low = max(float(low), float(np.median(celsius)) - 12)
    gray = np.clip((celsius - low) / max(float(high) - low, 4.0), 0, 1) * 255
    return cv2.cvtColor(cv2.applyColorMap(gray.astype(np.uint8), cv2.COLORMAP_INFERNO), cv2.COLOR_BGR2RGB)


def draw_panel(pair: Pair) -> NDArray[np.uint8]:
    """Returns RGB, RGB with boxes, and registered thermal with boxes side by side.

    Dashed colour: seen by one camera.
    """
    plain, boxed = pair.rgb, pair.rgb.copy()
    warm = cv2.warpPerspective(false_color(pair.thermal), pair.view.placed.homography, RGB_SIZE_WH)
    for label in pair.labels:
        left, top, right, bottom = (round(value) for value in label.target.box_xyxy)
        color = COLORS_RGB[label.target.label]
        cv2.rectangle(boxed, (left, top), (right, bottom), color, 2 if label.rgb_visible else 1)
        cv2.rectangle(warm, (left, top), (right, bottom), color, 2 if label.thermal_visible else 1)
    condition = pair.condition
    light = f"{condition.kind} {condition.lux:.3g}lx gain{pair.settings.gain:.0f}"
    text = f"{pair.key} {light} air{condition.ambient_c:.0f}C"
    cv2.putText(boxed, text, (4, 14), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (255, 255, 255), 1, cv2.LINE_AA)
    return np.concatenate([plain, boxed, warm], axis=1)


def write_sheet(path: Path, pairs: Sequence[Pair], columns: int = 2, width_px: int = 2000) -> None:
    """Writes the panels of the pairs as one picture."""
    panels = [draw_panel(pair) for pair in pairs]
    panels += [np.zeros_like(panels[0])] * (-len(panels) % columns)
    rows = [
        np.concatenate(panels[start : start + columns], axis=1) for start in range(0, len(panels), columns)
    ]
    sheet = np.concatenate(rows)
    scale = width_px / sheet.shape[1]
    sheet = cv2.resize(sheet, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_picture(path, sheet[..., ::-1])
