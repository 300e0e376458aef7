"""The yard and the camera path of the clip.

A transformer on the left, a switch bay on the right, and a pan between.
"""

from __future__ import annotations

import numpy as np

from engines.recipe.world import apparatus, background
from engines.recipe.world.people import person
from engines.recipe.world.scene import CameraPose, World, in_view
from engines.recipe.world.vectors import Array, yaw_rotation
from engines.recipe.world.weathering import add_dirt, add_rust
from engines.recipe.world.yard import Placement, new_yard

PAN_START, PAN_END = 0.42, 0.58
LEFT_X_M, RIGHT_X_M = -3.4, 4.6
RUST_PATCHES = 7


def _ease(share: Array) -> Array:
    inside = np.clip(share, 0.0, 1.0)
    result: Array = inside * inside * (3 - 2 * inside)
    return result


def camera_path(left: Array, right: Array, frames: int) -> list[CameraPose]:
    """Returns a pose a frame: a slow arc before the left point, a pan, a slow approach to the right point.

    A hand holds the camera, so it sways a little.
    """
    moment = np.linspace(0, 1, frames)
    pan = _ease((moment - PAN_START) / (PAN_END - PAN_START))
    poses = []
    for index, (time, share) in enumerate(zip(moment, pan, strict=True)):
        arc = yaw_rotation(-0.35 + 0.5 * time / PAN_START) if time < PAN_START else yaw_rotation(0.15)
        near_left = left + arc @ np.array([0.0, -1.0, 0.0]) * (6.4 - 0.9 * min(time / PAN_START, 1.0))
        late = max(0.0, time - PAN_END) / (1 - PAN_END)
        near_right = right + yaw_rotation(-0.1 + 0.3 * late) @ np.array([0.0, -1.0, 0.0]) * (6.0 - 1.0 * late)
        eye = near_left * (1 - share) + near_right * share
        eye[2] = 1.75 + 0.03 * np.sin(index * 0.55)
        target = left * (1 - share) + right * share
        target = target + [0.05 * np.sin(index * 0.19), 0.0, 0.04 * np.sin(index * 0.31)]
        poses.append(CameraPose(eye, target, float(0.006 * np.sin(index * 0.23))))
    return poses


def build_clip_world(seed: int, frames: int) -> World:
    """Builds the yard of the clip without any fault; ``poses`` holds one pose a frame."""
    rng = np.random.default_rng([seed, 1])
    yard = new_yard(rng)
    apparatus.transformer(yard, Placement(LEFT_X_M, 0.0, 0.12))
    apparatus.switch_bay(yard, Placement(RIGHT_X_M, 0.8, -0.08))
    left, right = yard.focuses[0].point, yard.focuses[1].point
    poses = camera_path(left + [0.3, 0.0, -0.35], right + [0.0, 0.0, -0.2], frames)
    background.surroundings(yard, 5.0)
    person(yard, LEFT_X_M + 2.2, -0.9, 2.2)
    person(yard, RIGHT_X_M + 0.65, -0.9, -0.9)
    mesh = yard.mesh.build()
    add_dirt(mesh, yard.noise, rng)
    early = poses[int(0.2 * frames)]
    toward = early.eye - mesh.vertices
    exposed = in_view(early, mesh.vertices, 9.0, 0.7) & ((toward * mesh.normals).sum(1) > 0)
    patches = add_rust(mesh, yard.noise, rng, RUST_PATCHES, exposed)
    return World(seed, mesh, poses, yard.focuses, patches, [], yard.joints)
