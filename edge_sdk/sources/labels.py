"""Label files beside the pairs of a rendered data set or clip: ground truth and per-pair registration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edge_sdk.errors import ConfigError
from edge_sdk.frames import Registration
from edge_sdk.json_text import JsonProblem, read_json_object
from edge_sdk.members import number, size_wh, text

__all__ = ["FrameLabels", "GroundTruth", "load_json", "load_labels", "registration_from"]

HOMOGRAPHY_KEY = "homography_thermal_to_rgb"

_HALF_PIXEL = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1.0]])
"""From coordinates that put the first pixel's centre at 0 to those that put it at 0.5."""


@dataclass(frozen=True)
class GroundTruth:
    """One object that is truly there.

    Attributes:
        class_name: its class.
        box_xyxy: left, top, right, bottom in pixels of the RGB frame (corner of the first pixel at 0).
        rgb_visible, thermal_visible: whether the frame of that camera shows it at all.
        delta_k: how much hotter it is than it should be, in kelvin, or None where that is not its fault.
    """

    class_name: str
    box_xyxy: tuple[float, float, float, float]
    rgb_visible: bool
    thermal_visible: bool
    delta_k: float | None = None


@dataclass(frozen=True)
class FrameLabels:
    """What a label file says of its pair.

    Attributes:
        objects: the ground truth.
        light: "day", "dusk", "night" or another word of the data set; "" where it says nothing.
        homography: 3x3 thermal to RGB in the coordinates of `Registration`, or None.
        depth_m: the distance at which the homography holds, in metres, or None.
    """

    objects: tuple[GroundTruth, ...]
    light: str = ""
    homography: tuple[tuple[float, float, float], ...] | None = None
    depth_m: float | None = None


def load_labels(path: Path) -> FrameLabels:
    """Reads one label file.

    Raises:
        ConfigError: it is no JSON object, or an entry lacks its class or box.
    """
    content = load_json(path)
    try:
        depth_m = content.get("depth_m", content.get("plane_depth_m"))
        objects = tuple(_ground_truth(entry) for entry in content.get("labels", content.get("objects", ())))
        return FrameLabels(
            objects,
            text(content.get("light") or "", "light"),
            homography_in(content, path),
            None if depth_m is None else number(depth_m, "depth_m"),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        why = error if isinstance(error, ConfigError) else repr(error)[:200]
        raise ConfigError(f"{path}: not a label file of this SDK: {why}") from None


def homography_in(content: Mapping[str, Any], path: Path) -> tuple[tuple[float, float, float], ...] | None:
    """Returns the 3x3 that a JSON object holds, in the coordinates of `Registration`, or None.

    `pixel_convention` says what the file's numbers mean: "corner" (the default, the outer corner of the
    first pixel is 0) or "centre" (OpenCV's: its centre is 0).
    """
    if content.get(HOMOGRAPHY_KEY) is None:
        return None
    try:
        matrix = np.array([[number(cell, "a cell") for cell in row] for row in content[HOMOGRAPHY_KEY]])
    except (TypeError, ValueError, OverflowError):
        found = str(content[HOMOGRAPHY_KEY])[:80]
        raise ConfigError(f"{path}: {HOMOGRAPHY_KEY}: expected 3x3 finite numbers, found {found}") from None
    if matrix.shape != (3, 3) or not np.isfinite(matrix).all():
        raise ConfigError(
            f"{path}: {HOMOGRAPHY_KEY}: expected 3x3 finite numbers, found shape {list(matrix.shape)}"
        )
    convention = str(content.get("pixel_convention", "corner")).lower()
    if "centre" in convention or "center" in convention:
        matrix = _HALF_PIXEL @ matrix @ np.linalg.inv(_HALF_PIXEL)
    elif "corner" not in convention:
        raise ConfigError(f"{path}: pixel_convention: expected 'corner' or 'centre', found {convention!r}")
    first, second, third = ((float(a), float(b), float(c)) for a, b, c in matrix)
    return first, second, third


def registration_from(
    content: Mapping[str, Any],
    path: Path,
    origin: str,
    rgb_size_wh: tuple[int, int] | None = None,
    thermal_size_wh: tuple[int, int] | None = None,
) -> Registration | None:
    """Makes the registration a JSON object states, or None where it states none.

    Arguments:
        content: the object: `homography_thermal_to_rgb`, `rgb_size_wh`, `thermal_size_wh`, `depth_m`.
        path: its file, for messages.
        origin: for the record.
        rgb_size_wh, thermal_size_wh: used where the object states no sizes.

    Raises:
        ConfigError: a malformed matrix, or sizes that nobody states.
    """
    matrix = homography_in(content, path)
    if matrix is None:
        return None
    rgb_wh = size_in(content, path, "rgb_size_wh") or rgb_size_wh
    thermal_wh = size_in(content, path, "thermal_size_wh") or thermal_size_wh
    if rgb_wh is None or thermal_wh is None:
        raise ConfigError(f"{path}: add rgb_size_wh and thermal_size_wh, [width, height] in pixels")
    try:
        return Registration(matrix, rgb_wh, thermal_wh, content.get("depth_m"), origin)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def load_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object from a file.

    Raises:
        ConfigError: no such file, no JSON, or another JSON type.
    """
    try:
        return read_json_object(path)
    except JsonProblem as problem:
        raise ConfigError(f"{path}: {problem}") from None


def _ground_truth(entry: Mapping[str, Any]) -> GroundTruth:
    left, top, right, bottom = (number(edge, "box_xyxy") for edge in entry["box_xyxy"])
    delta_k = entry.get("delta_k")
    return GroundTruth(
        text(entry["class"], "class"),
        (left, top, right, bottom),
        bool(entry.get("rgb_visible", True)),
        bool(entry.get("thermal_visible", True)),
        None if delta_k is None else number(delta_k, "delta_k"),
    )


def size_in(content: Mapping[str, Any], path: Path, name: str) -> tuple[int, int] | None:
    """Returns the [width, height] in pixels that a JSON object holds under a name, or None."""
    value = content.get(name)
    if value is None:
        return None
    try:
        return size_wh(value, name)
    except ConfigError:
        raise ConfigError(
            f"{path}: {name}: expected [width, height] in pixels, found {str(value)[:80]}"
        ) from None
