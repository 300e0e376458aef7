"""Rendered pairs in memory, and the jittered crops of them that training sees.

Every crop goes through the runtime's own `preprocess`: a zoom and a shift are just another
`Letterbox`, and the thermal mapping is the runtime's `Radiometry` with jittered constants.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import FrameError
from edge_sdk.frames import Registration, ThermalFrame, ThermalUnit
from edge_sdk.preprocess import Letterbox, rgb_into, thermal_into
from edge_sdk.radiometry import Radiometry
from engines.recipe.pictures import read_picture
from engines.recipe.train.net import CLASSES, INPUT_WH

__all__ = ["Crop", "Labels", "Pair", "crop_pair", "epoch_batches", "network_input", "read_pairs"]

_PAD_RGB = 114
_LEAST_SEEN_SHARE = 0.35
"""An object of which the crop holds less becomes an ignored region."""


@dataclass(frozen=True, eq=False)
class Labels:
    """The objects of one picture.

    Attributes:
        boxes: float32 [n, 4], xyxy in pixels.
        class_ids: int64 [n].
        in_rgb, in_thermal: bool [n], whether that camera can show the object at all.
    """

    boxes: NDArray[np.float32]
    class_ids: NDArray[np.int64]
    in_rgb: NDArray[np.bool_]
    in_thermal: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Pair:
    """One rendered pair, decoded. Boxes are in pixels of the RGB frame.

    Attributes:
        key: names the pair.
        light: "day", "dusk" or "night".
        rgb: uint8 [height, width, 3].
        thermal: uint16 [height, width], centikelvin (or counts, see `unit`).
        registration: thermal pixels to RGB pixels.
        labels: what is in it.
        hottest_delta_k: largest rise of a hot spot, as it is and as the thermal camera sees it
            (the lesser of the two), or 0 where the thermal camera shows none.
        unit: of `thermal`.
    """

    key: str
    light: str
    rgb: NDArray[np.uint8]
    thermal: NDArray[np.uint16]
    registration: Registration
    labels: Labels
    hottest_delta_k: float
    unit: ThermalUnit = ThermalUnit.CENTIKELVIN


@dataclass(frozen=True, eq=False)
class Crop:
    """What the network sees of a pair: uint8 `rgb` [h, w, 3] and `thermal` [h, w], labels in its pixels."""

    rgb: NDArray[np.uint8]
    thermal: NDArray[np.uint8]
    labels: Labels


def read_pairs(folder: Path, limit: int | None = None) -> list[Pair]:
    """Reads the rendered pairs of a split (`rgb/`, `thermal/`, `labels/`) into memory, by key.

    Raises:
        FrameError: a picture is missing or unreadable.
    """
    files = sorted((folder / "labels").glob("*.json"))[:limit]
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda file: _read_pair(folder, file), files))


def _read_pair(folder: Path, file: Path) -> Pair:
    record = json.loads(file.read_text(encoding="utf-8"))
    key = str(record["key"])
    rgb = read_picture(folder / "rgb" / f"{key}.jpg", cv2.IMREAD_COLOR)
    thermal = read_picture(folder / "thermal" / f"{key}.png", cv2.IMREAD_UNCHANGED)
    if rgb is None or thermal is None or thermal.dtype != np.uint16:
        raise FrameError(key, "its RGB or 16-bit thermal picture cannot be read", file, "Render it again.")
    rgb = np.ascontiguousarray(rgb[:, :, ::-1])
    registration = Registration(
        _corner_matrix(record),
        (rgb.shape[1], rgb.shape[0]),
        (thermal.shape[1], thermal.shape[0]),
        record.get("plane_depth_m"),
    )
    rises = [
        float(min(label["delta_k"], label.get("thermal_contrast_k", label["delta_k"])))
        for label in record["labels"]
        if label["class"] == "hotspot" and label["thermal_visible"]
    ]
    return Pair(
        key,
        record["light"],
        rgb.astype(np.uint8),
        thermal,
        registration,
        _labels(record["labels"]),
        max(rises, default=0.0),
    )


def _corner_matrix(record: Mapping[str, Any]) -> tuple[tuple[float, ...], ...]:
    """The record's homography in the SDK's coordinates, which put the first pixel's corner at 0."""
    matrix = np.asarray(record["homography_thermal_to_rgb"], np.float64)
    if "OpenCV" in record.get("pixel_convention", ""):
        shift = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1.0]])
        matrix = shift @ matrix @ np.linalg.inv(shift)
    return tuple(tuple(float(value) for value in row) for row in matrix)


def _labels(entries: Sequence[dict[str, Any]]) -> Labels:
    return Labels(
        np.array([entry["box_xyxy"] for entry in entries], np.float32).reshape(-1, 4),
        np.array([CLASSES.index(entry["class"]) for entry in entries], np.int64),
        np.array([entry["rgb_visible"] for entry in entries], bool),
        np.array([entry["thermal_visible"] for entry in entries], bool),
    )


def network_input(pair: Pair, radiometry: Radiometry) -> Crop:
    """Preprocesses a whole pair as the runtime does; labels in pixels of the network's input."""
    letterbox = Letterbox.fit((pair.rgb.shape[1], pair.rgb.shape[0]), INPUT_WH)
    rgb = np.empty((INPUT_WH[1], INPUT_WH[0], 3), np.uint8)
    rgb_into(pair.rgb, letterbox, rgb)
    thermal = _thermal(pair, letterbox, radiometry, pair.thermal)
    shift = np.array([letterbox.left, letterbox.top] * 2, np.float32)
    boxes = pair.labels.boxes * np.float32(letterbox.scale) + shift
    return Crop(rgb, thermal, replace(pair.labels, boxes=boxes))


def _thermal(
    pair: Pair, letterbox: Letterbox, radiometry: Radiometry, raw: NDArray[np.uint16]
) -> NDArray[np.uint8]:
    raw_out = np.empty((letterbox.input_wh[1], letterbox.input_wh[0]), np.uint16)
    out = np.empty_like(raw_out, np.uint8)
    thermal_into(ThermalFrame(raw, pair.unit), pair.registration, letterbox, radiometry, raw_out, out)
    return out


def crop_pair(
    pair: Pair,
    size_wh: tuple[int, int],
    random: np.random.Generator,
    *,
    colours: bool = True,
    heat_gain: float = 2.0,
) -> Crop:
    """Cuts a jittered crop: zoom, shift, flip, light and noise of both cameras, a slip between them.

    Arguments:
        pair: a rendered pair.
        size_wh: of the crop in pixels; `INPUT_WH` for whole frames.
        random: the only source of chance.
        colours: False leaves the RGB picture grey, which saves half the time where only heat is read.
        heat_gain: differences in kelvin are multiplied or divided by up to this.
    """
    frame_wh = (pair.rgb.shape[1], pair.rgb.shape[0])
    whole = size_wh == INPUT_WH
    fitted = Letterbox.fit(frame_wh, INPUT_WH).scale
    scale = fitted * float(np.exp(random.uniform(-0.12, 0.12) if whole else random.uniform(-0.3, 0.3)))
    zoomed_wh = round(frame_wh[0] * scale), round(frame_wh[1] * scale)
    left, top = _window(pair.labels, scale, zoomed_wh, size_wh, random)

    slip = random.integers(-1, 2, 2)
    letterbox = Letterbox(frame_wh, size_wh, scale, int(slip[0]) - left, int(slip[1]) - top)
    gain = float(heat_gain ** random.uniform(-1, 1))
    radiometry = Radiometry(offset=90.0 + random.uniform(-8, 8), scale_k=Radiometry().scale_k / gain)
    thermal = _thermal(pair, letterbox, radiometry, _jitter_thermal(pair.thermal, random))
    rgb = np.full((size_wh[1], size_wh[0], 3), _PAD_RGB, np.uint8)
    if colours:
        zoomed = np.empty((zoomed_wh[1], zoomed_wh[0], 3), np.uint8)
        rgb_into(pair.rgb, Letterbox(frame_wh, zoomed_wh, scale, 0, 0), zoomed)
        rgb = _jitter_rgb(_cut(zoomed, left, top, size_wh), random)

    boxes = pair.labels.boxes * np.float32(scale) - np.array([left, top] * 2, np.float32)
    if random.random() < 0.5:
        rgb, thermal = np.ascontiguousarray(rgb[:, ::-1]), np.ascontiguousarray(thermal[:, ::-1])
        boxes = np.array([size_wh[0], 0, size_wh[0], 0], np.float32) + boxes[:, [2, 1, 0, 3]] * np.array(
            [-1, 1, -1, 1], np.float32
        )
    return Crop(rgb, thermal, _clip(replace(pair.labels, boxes=boxes), size_wh))


def _window(
    labels: Labels,
    scale: float,
    zoomed_wh: tuple[int, int],
    size_wh: tuple[int, int],
    random: np.random.Generator,
) -> tuple[int, int]:
    """Chooses the crop's left and top: mostly around an object, rare classes first."""
    seen = np.flatnonzero(labels.in_rgb | labels.in_thermal)
    centre = np.array([random.uniform(0, zoomed_wh[0]), random.uniform(0, zoomed_wh[1])])
    if len(seen) and random.random() < 0.8:
        counts = np.bincount(labels.class_ids[seen], minlength=len(CLASSES))
        weights = 1.0 / counts[labels.class_ids[seen]]
        box = labels.boxes[random.choice(seen, p=weights / weights.sum())] * scale
        centre = (box[:2] + box[2:]) / 2 + random.uniform(-0.4, 0.4, 2) * size_wh
    corner = []
    for middle, zoomed, size in zip(centre, zoomed_wh, size_wh, strict=True):
        slack = 8
        low, high = min(-slack, zoomed - size - slack), max(zoomed - size + slack, slack)
        if size == INPUT_WH[0] or size == INPUT_WH[1]:
            corner.append(int(random.integers(low, high + 1)))
        else:
            corner.append(int(np.clip(middle - size / 2, low, high)))
    return corner[0], corner[1]


def _cut(image: NDArray[np.uint8], left: int, top: int, size_wh: tuple[int, int]) -> NDArray[np.uint8]:
    out = np.full((size_wh[1], size_wh[0], 3), _PAD_RGB, np.uint8)
    x0, y0 = max(left, 0), max(top, 0)
    x1, y1 = min(left + size_wh[0], image.shape[1]), min(top + size_wh[1], image.shape[0])
    out[y0 - top : y1 - top, x0 - left : x1 - left] = image[y0:y1, x0:x1]
    return out


def _clip(labels: Labels, size_wh: tuple[int, int]) -> Labels:
    limit = np.array(size_wh * 2, np.float32)
    clipped = np.clip(labels.boxes, 0, limit)
    area = np.prod(clipped[:, 2:] - clipped[:, :2], axis=1)
    share = area / np.maximum(np.prod(labels.boxes[:, 2:] - labels.boxes[:, :2], axis=1), 1e-6)
    inside, whole = area > 1, share >= _LEAST_SEEN_SHARE
    return Labels(
        clipped[inside],
        labels.class_ids[inside],
        (labels.in_rgb & whole)[inside],
        (labels.in_thermal & whole)[inside],
    )


def _jitter_rgb(rgb: NDArray[np.uint8], random: np.random.Generator) -> NDArray[np.uint8]:
    """Another exposure, white balance, contrast, focus and noise."""
    level = np.linspace(0, 1, 256)
    table = np.empty((1, 256, 3), np.uint8)
    gain = random.uniform(0.3, 0.7) if random.random() < 0.15 else np.exp(random.uniform(-0.35, 0.35))
    gamma = np.exp(random.uniform(-0.3, 0.3))
    for channel in range(3):
        tint = np.exp(random.uniform(-0.12, 0.12))
        table[0, :, channel] = np.clip(np.rint(255 * gain * tint * level**gamma), 0, 255)
    rgb = cv2.LUT(rgb, table).astype(np.uint8)
    if random.random() < 0.2:
        rgb = cv2.GaussianBlur(rgb, (0, 0), random.uniform(0.3, 1.2)).astype(np.uint8)
    if random.random() < 0.4:
        noise = random.standard_normal(rgb.shape, np.float32) * np.float32(random.uniform(1, 8))
        rgb = np.clip(rgb + noise, 0, 255).astype(np.uint8)
    return rgb


def _jitter_thermal(raw: NDArray[np.uint16], random: np.random.Generator) -> NDArray[np.uint16]:
    """Another focus and noise: up to 0.2 K, on the raw frame."""
    if random.random() < 0.25:
        raw = cv2.GaussianBlur(raw, (0, 0), random.uniform(0.3, 1.2)).astype(np.uint16)
    if random.random() < 0.4:
        noise = random.standard_normal(raw.shape, np.float32) * np.float32(random.uniform(2, 20))
        raw = np.clip(raw + noise, 0, 65535).astype(np.uint16)
    return raw


def epoch_batches(
    pairs: Sequence[Pair],
    batch: int,
    size_wh: tuple[int, int],
    seed: Sequence[int],
    *,
    colours: bool = True,
    heat_gain: float = 2.0,
) -> Iterator[list[Crop]]:
    """Yields one pass over the pairs in random order, a batch ahead of its reader.

    Arguments:
        seed: with it alone the whole epoch is reproducible.
        colours, heat_gain: as in `crop_pair`.
    """
    random = np.random.default_rng(list(seed))
    order = random.permutation(len(pairs))
    groups = [order[start : start + batch] for start in range(0, len(order) - batch + 1, batch)]

    def make(place: int) -> list[Crop]:
        own = np.random.default_rng([*seed, place])
        return [
            crop_pair(pairs[index], size_wh, own, colours=colours, heat_gain=heat_gain)
            for index in groups[place]
        ]

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(make, 0) if groups else None
        for place in range(len(groups)):
            assert waiting is not None
            crops = waiting.result()
            if place + 1 < len(groups):
                waiting = pool.submit(make, place + 1)
            yield crops
