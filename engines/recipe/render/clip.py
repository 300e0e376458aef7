"""Renders the clip: one camera move through a yard while day falls to night, coherent from frame to frame."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from engines.recipe.render.conditions import Condition
from engines.recipe.render.dataset import write_pair
from engines.recipe.render.labels import CLASSES
from engines.recipe.render.rgb_camera import RgbSettings, wanted_brightness
from engines.recipe.render.rig import RGB_SIZE_WH, THERMAL_SIZE_WH
from engines.recipe.render.shoot import Studio
from engines.recipe.render.thermal import PastLight
from engines.recipe.world.clip_scene import PAN_END, PAN_START, build_clip_world
from engines.recipe.world.faults import heat_joints
from engines.recipe.world.scene import SPLIT_SEEDS, in_view
from engines.recipe.world.yard import Joint

CLIP_SEED = 30020
FAULT_RISE_K = 25.0
FRAMES_PER_SECOND = 10
JPEG_QUALITY, PNG_LEVEL = 85, 9
NETD_K, THERMAL_STEP_CENTIKELVIN = 0.035, 4
SUN_STORY = ((0.0, 38.0), (0.44, 9.0), (0.60, 2.0), (0.68, -4.0), (0.73, -10.5), (1.0, -16.0))
MEMORY_MINUTES = ((4, 0.26), (15, 0.24), (35, 0.2), (65, 0.15), (110, 0.1), (170, 0.05))
EXPOSURE_FOLLOW, METER_TARGET = 0.5, 0.16
LUMA_WEIGHTS = np.array([0.299, 0.587, 0.114])


def story_condition(moment: float, seed: int) -> Condition:
    """Returns light and weather at a moment of the clip, 0 at the start and 1 at the end."""
    times, elevations = zip(*SUN_STORY, strict=True)
    elevation = float(np.interp(moment, times, elevations))
    passed_minutes = (elevations[0] - elevation) / 0.18
    kind = "day" if elevation > 6 else "dusk" if elevation > -6 else "dark"
    return Condition(
        kind=kind,
        sun_elevation_deg=elevation,
        sun_azimuth_deg=200.0 + 0.25 * passed_minutes,
        cloud=0.2,
        turbidity=3.0,
        wind_m_s=1.5,
        wetness=0.0,
        fog_per_m=0.001,
        rain=False,
        lamp_lux=0.0,
        night_lux=0.002,
        ambient_c=24.0 - 9.0 * passed_minutes / 300.0,
        ground_offset_k=2.5 * passed_minutes / 300.0,
        load_share=0.8,
        cloud_seed=seed,
    )


def memory_of(condition: Condition) -> list[PastLight]:
    """Returns the light that still warms the surfaces: a time constant of about an hour, over three hours."""
    return [PastLight(condition.earlier(minutes), share) for minutes, share in MEMORY_MINUTES]


def choose_joint(studio: Studio, frames: int) -> Joint:
    """Returns the joint to fail: out of the picture before the pan, in plain sight of the most frames after
    it.

    Raises: LookupError where the yard of this seed has none; take another seed.
    """
    world = studio.world
    before = world.poses[: int(PAN_START * frames)]
    after = world.poses[int(PAN_END * frames) :: 5]
    best, best_count = None, 0
    for joint in world.joints:
        if any(in_view(pose, [joint.position], 60.0, 1.2)[0] for pose in before):
            continue
        count = 0
        for pose in after:
            if not in_view(pose, [joint.position], 9.0, 0.8)[0]:
                continue
            ray = joint.position - pose.eye
            hits = studio.tracer.cast(pose.eye, (ray / np.linalg.norm(ray))[None])
            count += int(hits.object_id[0] == joint.object_id)
        if count > best_count:
            best, best_count = joint, count
    if best is None or best_count < len(after) * 0.7:
        raise LookupError(f"seed {world.seed} has no joint in plain sight after the pan; take another seed")
    return best


def write_clip(out: Path, seed: int, frames: int = 150, stride: int = 1, threads: int = 1) -> None:
    """Renders the clip into ``out`` with one label file a frame and ``clip.json``."""
    if seed not in SPLIT_SEEDS["clip"]:
        raise ValueError(f"seed {seed} is no clip seed; take one of {SPLIT_SEEDS['clip']}")
    studio = Studio(build_clip_world(seed, frames), threads)
    studio.light(story_condition(0.0, seed))
    joint = choose_joint(studio, frames)
    rng = np.random.default_rng([seed, 5])
    studio.world.faults = heat_joints(studio.world.mesh, [joint], [FAULT_RISE_K], rng)
    camera = replace(studio.thermal_camera, netd_k=NETD_K, step_centikelvin=THERMAL_STEP_CENTIKELVIN)
    settings: RgbSettings | None = None
    for index in range(0, frames, stride):
        moment = index / (frames - 1)
        condition = story_condition(moment, seed)
        studio.light(condition)
        view = studio.view(studio.world.poses[index])
        metered = wanted_brightness(studio.tracer.render_rgb(view.placed, 1, index), METER_TARGET)
        if settings is None:
            settings = RgbSettings(1.0, 1.0, 0.45, noise_share=0.5).with_brightness(metered)
        past = settings.exposure * settings.gain
        settings = settings.with_brightness(past * (metered / past) ** (1 - (1 - EXPOSURE_FOLLOW) ** stride))
        drift = camera.drifted(camera.offset_k + 0.15 * float(np.sin(index * 0.04)))
        frame_rng = np.random.default_rng([seed, 100 + index])
        key = f"{index:03d}"
        pair = studio.shoot(key, view, condition, frame_rng, memory_of(condition), settings, drift)
        write_pair(out, key, pair, JPEG_QUALITY, PNG_LEVEL)
        seen = sorted(
            {label.target.label for label in pair.labels if label.rgb_visible or label.thermal_visible}
        )
        luma = float(np.mean(pair.rgb @ LUMA_WEIGHTS))
        print(
            f"{key} sun {condition.sun_elevation_deg:.1f} {condition.lux:.3g} lx mean {luma:.0f} {seen}",
            flush=True,
        )
    record = {
        "name": "substation",
        "frames": len(range(0, frames, stride)),
        "fps": FRAMES_PER_SECOND,
        "rgb_size_wh": list(RGB_SIZE_WH),
        "thermal_size_wh": list(THERMAL_SIZE_WH),
        "thermal_unit": "centikelvin",
        "registration": "per frame, in its label file",
        "classes": list(CLASSES),
        "seed": seed,
        "licence": "Apache-2.0",
        "rendered_by": "engines.recipe.render clip; synthetic, no photograph and no asset of others in it",
    }
    (out / "clip.json").write_text(json.dumps(record, indent=1) + "\n")
