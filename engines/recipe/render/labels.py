"""Boxes and visibility of everything to be detected, measured on the finished frames."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from engines.recipe.render.rig import RGB_SIZE_WH, PlacedRig, pixel_rays
from engines.recipe.render.tracer import Hits, Tracer
from engines.recipe.world.faults import HOT_SHARE
from engines.recipe.world.mesh import SURFACE_COLUMNS
from engines.recipe.world.scene import World

CLASSES = ("insulator", "hotspot", "corrosion", "person")
MIN_PIXELS = {"insulator": 30, "hotspot": 4, "corrosion": 36, "person": 60}
MIN_SIDE_PX = {"insulator": 4.0, "hotspot": 0.0, "corrosion": 5.0, "person": 6.0}
MIN_LONG_SIDE_PX = {"insulator": 12.0, "hotspot": 0.0, "corrosion": 8.0, "person": 16.0}
HOTSPOT_SIDE_PX = 12.0
MIN_SHOWN_SHARE = 0.3
MIN_FILLED_SHARE = {"insulator": 0.12, "person": 0.25}
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Target:
    """A thing to be detected, as seen from one pose: class, box in RGB pixels, and its visible pixels."""

    label: str
    box_xyxy: tuple[float, float, float, float]
    mask: Mask
    delta_k: float | None = None


@dataclass(frozen=True)
class Label:
    """A target under one light. Visibility is a measurement on the two frames, not a wish."""

    target: Target
    rgb_visible: bool
    thermal_visible: bool
    rgb_contrast: float
    thermal_contrast_k: float

    def to_record(self) -> dict[str, object]:
        """Copies the label into plain values for JSON."""
        delta = self.target.delta_k
        return {
            "class": self.target.label,
            "box_xyxy": [round(value, 1) for value in self.target.box_xyxy],
            "rgb_visible": self.rgb_visible,
            "thermal_visible": self.thermal_visible,
            "delta_k": None if delta is None else round(delta, 1),
            "rgb_contrast": round(self.rgb_contrast, 2),
            "thermal_contrast_k": round(self.thermal_contrast_k, 2),
        }


def look(tracer: Tracer, placed: PlacedRig) -> tuple[Hits, NDArray[np.float32]]:
    """Casts one ray a pixel of the RGB frame; returns the hits and the distances as an image."""
    directions, _ = pixel_rays(placed.rig.rgb_matrix, placed.rgb_rotation, RGB_SIZE_WH, 1)
    hits = tracer.cast(placed.rgb_eye, directions)
    width, height = RGB_SIZE_WH
    return hits, hits.distance_m.reshape(height, width)


def _box_of(mask: Mask) -> tuple[float, float, float, float]:
    rows, columns = np.nonzero(mask)
    left, right = np.percentile(columns, [0.3, 99.7])
    top, bottom = np.percentile(rows, [0.3, 99.7])
    return float(left), float(top), float(right) + 1.0, float(bottom) + 1.0


def _padded(box: tuple[float, float, float, float], side_px: float) -> tuple[float, float, float, float]:
    left, top, right, bottom = box
    width, height = RGB_SIZE_WH
    grow_x, grow_y = max(0.0, side_px - (right - left)) / 2, max(0.0, side_px - (bottom - top)) / 2
    left, right, top, bottom = left - grow_x, right + grow_x, top - grow_y, bottom + grow_y
    shift_x = max(0.0, -left) - max(0.0, right - width)
    shift_y = max(0.0, -top) - max(0.0, bottom - height)
    return left + shift_x, top + shift_y, right + shift_x, bottom + shift_y


def _shown_share(
    world: World, placed: PlacedRig, owner: int, box: tuple[float, float, float, float]
) -> float:
    """Returns the area of the visible box over the area of the box the whole object would have."""
    points = world.mesh.vertices[world.mesh.vertex_object == owner]
    local = (points - placed.rgb_eye) @ placed.rgb_rotation
    local = local[local[:, 2] > 0.1]
    if len(local) == 0:
        return 0.0
    matrix = placed.rig.rgb_matrix
    x = local[:, 0] / local[:, 2] * matrix[0, 0] + matrix[0, 2]
    y = local[:, 1] / local[:, 2] * matrix[1, 1] + matrix[1, 2]
    whole = max(1.0, float((x.max() - x.min()) * (y.max() - y.min())))
    return (box[2] - box[0]) * (box[3] - box[1]) / whole


def find_targets(world: World, placed: PlacedRig, hits: Hits) -> list[Target]:
    """Finds what can be detected from a pose. Drops what is too small or mostly hidden."""
    width, height = RGB_SIZE_WH
    mesh, shape_hw = world.mesh, (height, width)
    owner = hits.object_id.reshape(shape_hw)
    corners = mesh.faces[hits.face]
    rusty = hits.on_mesh & (hits.surface[:, SURFACE_COLUMNS.index("rust")] > 0.5)
    patch = np.where(rusty, mesh.patch_id[corners].max(1), 0).reshape(shape_hw)
    excess = hits.surface[:, SURFACE_COLUMNS.index("fault_rise_k")].reshape(shape_hw)
    fault = np.where(hits.on_mesh, mesh.fault_id[corners].max(1), 0).reshape(shape_hw)
    targets: list[Target] = []

    def consider(label: str, mask: Mask, delta_k: float | None = None, whole: int | None = None) -> None:
        if int(mask.sum()) < MIN_PIXELS[label]:
            return
        box = _box_of(mask)
        sides = sorted((box[2] - box[0], box[3] - box[1]))
        if sides[0] < MIN_SIDE_PX[label] or sides[1] < MIN_LONG_SIDE_PX[label]:
            return
        if whole is not None:
            filled = mask.sum() / max(1.0, sides[0] * sides[1])
            if _shown_share(world, placed, whole, box) < MIN_SHOWN_SHARE or filled < MIN_FILLED_SHARE[label]:
                return
        if label == "hotspot":
            box = _padded(box, HOTSPOT_SIDE_PX)
        targets.append(Target(label, box, mask, delta_k))

    for index in np.unique(owner[owner >= 0]).tolist():
        label = mesh.objects[index].label
        if label is not None:
            consider(label, owner == index, whole=index)
    for number, _ in enumerate(world.patches, start=1):
        consider("corrosion", patch == number)
    for number, joint in enumerate(world.faults, start=1):
        consider("hotspot", (fault == number) & (excess > HOT_SHARE * joint.rise_k), joint.rise_k)
    return targets


def _ring(mask: Mask, width_px: int) -> Mask:
    solid = mask.astype(np.uint8)
    outer = cv2.dilate(solid, np.ones((width_px, width_px), np.uint8))
    inner = cv2.dilate(solid, np.ones((5, 5), np.uint8))
    return (outer > 0) & (inner == 0)


def measure(
    targets: list[Target],
    placed: PlacedRig,
    picture: NDArray[np.uint8],
    seen_c: NDArray[np.float32],
    fault_c: NDArray[np.float32],
) -> list[Label]:
    """Measures the visibility of each target. ``fault_c`` is the ideal thermal frame minus that of the
    healthy world.

    A hot spot is judged by its excess on its own part, never against a ring that takes in the sky, and
    cannot show in RGB. Corrosion has no thermal signature of its own. Other things must stand out from what
    surrounds them.
    """
    smooth = cv2.blur(cv2.cvtColor(picture, cv2.COLOR_RGB2LAB).astype(np.float32), (5, 5))
    warm, fault = placed.register(seen_c), placed.register(fault_c)
    labels = []
    for target in targets:
        mask, ring = target.mask, _ring(target.mask, 21)
        if not ring.any():
            ring = ~mask
        inside, outside = smooth[mask], smooth[ring]
        contrast = float(np.linalg.norm(inside.mean(0) - outside.mean(0)))
        texture, bright = float(inside[:, 0].std()), float(max(inside[:, 0].mean(), outside[:, 0].mean()))
        rgb_visible = (contrast > 6 or texture > 9) and bright > 22
        kelvin = abs(float(warm[mask].mean()) - float(np.median(warm[ring])))
        thermal_visible = kelvin > 0.35 + 0.15 * float(warm[ring].std())
        if target.label == "hotspot":
            near = cv2.dilate(mask.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
            kelvin = float(np.percentile(fault[near], 95))
            rgb_visible, thermal_visible = False, kelvin > 1.0
        elif target.label == "corrosion":
            thermal_visible = False
        labels.append(Label(target, bool(rgb_visible), bool(thermal_visible), contrast, kelvin))
    return labels
