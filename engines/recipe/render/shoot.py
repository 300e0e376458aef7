"""Takes pairs in a world: the stage where geometry, light, both cameras and the labels meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engines.recipe.render import labels as label_pass
from engines.recipe.render import thermal
from engines.recipe.render.conditions import Condition, draw_condition, draw_kinds
from engines.recipe.render.grain import GrainFilter
from engines.recipe.render.labels import Label, Target
from engines.recipe.render.rgb_camera import RgbSettings, add_haze, develop, draw_settings
from engines.recipe.render.rig import PlacedRig, draw_rig
from engines.recipe.render.sky import make_sky
from engines.recipe.render.thermal import (
    PastLight,
    ThermalCamera,
    ThermalView,
    draw_thermal_camera,
    recent_hour,
)
from engines.recipe.render.tracer import Tracer, ground_texture
from engines.recipe.world.scene import CameraPose, World, build_world, split_of

RGB_SAMPLES, DARK_SAMPLES = 6, 2
SECOND_POSE_SHARE = 0.3


@dataclass(frozen=True)
class View:
    """All that depends on the pose alone, kept for the other lights of a world."""

    placed: PlacedRig
    depth_m: NDArray[np.float32]
    targets: list[Target]
    grain: GrainFilter
    thermal: ThermalView


@dataclass(frozen=True)
class Pair:
    """One finished pair with its labels. ``thermal`` is centikelvin in the thermal camera's own geometry."""

    key: str
    seed: int
    condition: Condition
    view: View
    rgb: NDArray[np.uint8]
    thermal: NDArray[np.uint16]
    labels: list[Label]
    settings: RgbSettings

    def to_record(self) -> dict[str, object]:
        """Copies all but the pixels into plain values for JSON."""
        condition, placed = self.condition, self.view.placed
        return {
            "key": self.key,
            "seed": self.seed,
            "split": split_of(self.seed),
            "light": condition.light,
            "lamp": condition.lamp_lux > 0,
            "lux": round(condition.lux, 4),
            "homography_thermal_to_rgb": [[round(float(v), 7) for v in row] for row in placed.homography],
            "pixel_convention": "whole numbers are pixel centres (OpenCV)",
            "plane_depth_m": round(placed.plane_depth_m, 3),
            "ambient_c": round(condition.ambient_c, 2),
            "labels": [label.to_record() for label in self.labels],
            "conditions": condition.to_record(),
            "rgb_camera": {
                "exposure": round(self.settings.exposure, 6),
                "gain": round(self.settings.gain, 2),
            },
        }


class Studio:
    """A world with its tracer and its device, ready to take pairs."""

    def __init__(self, world: World, threads: int = 1) -> None:
        rng = np.random.default_rng([world.seed, 3])
        self.world = world
        lamp_at = np.array([rng.uniform(-5, 5), rng.uniform(-6, -1), rng.uniform(5, 7)])
        self.tracer = Tracer(world.mesh, ground_texture(rng), lamp_at, threads)
        self.rig, self.thermal_camera = draw_rig(rng), draw_thermal_camera(rng)
        self.base_ambient_c = float(rng.uniform(-2, 32))

    def view(self, pose: CameraPose) -> View:
        """Casts all rays of a pose. Needs a light set before, whichever."""
        placed = self.rig.place(pose)
        hits, depth_m = label_pass.look(self.tracer, placed)
        targets = label_pass.find_targets(self.world, placed, hits)
        return View(
            placed, depth_m, targets, GrainFilter(self.world.mesh, hits), thermal.look(self.tracer, placed)
        )

    def light(self, condition: Condition) -> None:
        """Sets sky, sun and lamp."""
        self.sky = make_sky(condition)
        self.tracer.set_light(condition, self.sky)

    def shoot(
        self,
        key: str,
        view: View,
        condition: Condition,
        rng: np.random.Generator,
        memory: Sequence[PastLight] | None = None,
        settings: RgbSettings | None = None,
        camera: ThermalCamera | None = None,
        samples: int = RGB_SAMPLES,
    ) -> Pair:
        """Takes one pair under the light set last."""
        samples = min(samples, DARK_SAMPLES) if condition.lux < 0.3 else samples
        linear = self.tracer.render_rgb(view.placed, samples, int(rng.integers(1 << 30)))
        linear = add_haze(view.grain.apply(linear), view.depth_m, condition)
        settings = settings or draw_settings(rng, linear)
        rgb = develop(linear, settings, condition, rng)
        ideal_c, healthy_c = thermal.apparent_c(
            self.tracer, view.thermal, memory or recent_hour(condition), self.sky
        )
        raw = (camera or self.thermal_camera).expose(ideal_c, rng)
        seen_c = raw.astype(np.float32) / 100 - np.float32(thermal.ZERO_C_K)
        found = label_pass.measure(view.targets, view.placed, rgb, seen_c, ideal_c - healthy_c)
        return Pair(key, self.world.seed, condition, view, rgb, raw, found, settings)


def world_keys(seed: int) -> list[tuple[str, str]]:
    """Returns the keys of a world's pairs with their kinds of light, without building anything."""
    lights = {"noon": "day", "day": "day", "dusk": "dusk", "lit": "night", "dark": "night"}
    return [(f"{seed:05d}-{index}{lights[kind]}", kind) for index, kind in enumerate(draw_kinds(seed))]


def shoot_world(seed: int, threads: int = 1, samples: int = RGB_SAMPLES) -> list[Pair]:
    """Builds a world and takes its three pairs."""
    studio = Studio(build_world(seed), threads)
    second_pose = np.random.default_rng([seed, 4]).random() < SECOND_POSE_SHARE
    view: View | None = None
    pairs = []
    for index, (key, kind) in enumerate(world_keys(seed)):
        rng = np.random.default_rng([seed, 10 + index])
        condition = draw_condition(rng, kind, studio.base_ambient_c)
        studio.light(condition)
        if view is None or (index == 2 and second_pose):
            view = studio.view(studio.world.poses[1 if index == 2 else 0])
        camera = studio.thermal_camera.drifted(float(rng.normal(0, 0.5)))
        pairs.append(studio.shoot(key, view, condition, rng, camera=camera, samples=samples))
    return pairs
