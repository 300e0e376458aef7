"""Thermal frames without RGB, for the screen: every frame comes with its twin from the healthy world.

    DIR/heat/thermal/KEY.png   320 x 256, uint16 centikelvin
    DIR/heat/labels/KEY.json   the hot spots, and the homography

A twin differs from its frame in the faults alone, so that the screen cannot learn anything else by
heart. Rays cost most and tracing colours even more; neither is repeated for another weather.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from engines.recipe.render import labels as label_pass
from engines.recipe.render import thermal
from engines.recipe.render.conditions import draw_condition
from engines.recipe.render.labels import Label
from engines.recipe.render.rig import RGB_SIZE_WH, PlacedRig
from engines.recipe.render.shoot import Studio
from engines.recipe.render.sky import make_sky
from engines.recipe.render.thermal import recent_hour
from engines.recipe.world.scene import SPLIT_SEEDS, build_world

KINDS = ("noon", "day", "dusk")
"""By night the router asks no screen."""

_PNG_LEVEL = 3


@dataclass(frozen=True)
class HeatFrame:
    """One thermal frame in the camera's own geometry, uint16 centikelvin, and the hot spots it shows."""

    key: str
    seed: int
    light: str
    placed: PlacedRig
    thermal: NDArray[np.uint16]
    labels: list[Label]

    def to_record(self) -> dict[str, object]:
        """Copies all but the pixels into plain values for JSON."""
        return {
            "key": self.key,
            "seed": self.seed,
            "split": "train",
            "light": self.light,
            "homography_thermal_to_rgb": [
                [round(float(v), 7) for v in row] for row in self.placed.homography
            ],
            "pixel_convention": "whole numbers are pixel centres (OpenCV)",
            "plane_depth_m": round(self.placed.plane_depth_m, 3),
            "labels": [label.to_record() for label in self.labels],
        }


def shoot_heat(seed: int, threads: int = 1) -> Iterator[HeatFrame]:
    """Takes the thermal frames of a world: two poses, three weathers, with its faults and without."""
    studio = Studio(build_world(seed), threads)
    dark = np.zeros((RGB_SIZE_WH[1], RGB_SIZE_WH[0], 3), np.uint8)
    lit = False
    for place, pose in enumerate(studio.world.poses[:2]):
        view = None
        for number, kind in enumerate(KINDS):
            rng = np.random.default_rng([seed, 40, place, number])
            condition = draw_condition(rng, kind, studio.base_ambient_c)
            if not lit:
                studio.light(condition)
                lit = True
            view = view or studio.view(pose)
            ideal_c, healthy_c = thermal.apparent_c(
                studio.tracer, view.thermal, recent_hour(condition), make_sky(condition)
            )
            camera = studio.thermal_camera.drifted(float(rng.normal(0, 0.5)))
            targets = [target for target in view.targets if target.label == "hotspot"]
            for name, frame_c, shown in (("hot", ideal_c, targets), ("cool", healthy_c, [])):
                raw = camera.expose(frame_c, rng)
                seen_c = raw.astype(np.float32) / 100 - np.float32(thermal.ZERO_C_K)
                found = label_pass.measure(shown, view.placed, dark, seen_c, ideal_c - healthy_c)
                key = f"{seed:05d}-{place}{kind}-{name}"
                yield HeatFrame(key, seed, condition.light, view.placed, raw, found)


def write_heat(out: Path, seeds: range, shard: int = 0, shards: int = 1, threads: int = 1) -> int:
    """Renders the worlds that are not there yet; returns how many frames were written.

    Raises:
        ValueError: a seed is not one of training's.
    """
    allowed = SPLIT_SEEDS["train"]
    if len(seeds) and (seeds[0] not in allowed or seeds[-1] not in allowed):
        raise ValueError(f"worlds {seeds} lie outside split train, which has seeds {allowed}")
    folder, written = out / "heat", 0
    for kind in ("thermal", "labels"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    for seed in seeds[shard::shards]:
        last = folder / "labels" / f"{seed:05d}.done"
        if last.exists():
            continue
        start, count = time.perf_counter(), 0
        for frame in shoot_heat(seed, threads):
            picture = folder / "thermal" / f"{frame.key}.png"
            if not cv2.imwrite(str(picture), frame.thermal, [cv2.IMWRITE_PNG_COMPRESSION, _PNG_LEVEL]):
                raise OSError(f"could not write {picture}")
            label = folder / "labels" / f"{frame.key}.json"
            label.write_text(json.dumps(frame.to_record(), indent=1), encoding="utf-8")
            count += 1
        last.touch()
        written += count
        print(f"heat {seed:05d}: {time.perf_counter() - start:.1f} s for {count} frames", flush=True)
    return written
