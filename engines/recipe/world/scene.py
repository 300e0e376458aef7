"""Puts a whole world together from a seed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engines.recipe.world import apparatus, background
from engines.recipe.world.faults import HotJoint, draw_rise_k, heat_joints
from engines.recipe.world.mesh import Mesh
from engines.recipe.world.people import person
from engines.recipe.world.vectors import Array, unit, yaw_rotation
from engines.recipe.world.weathering import RustPatch, add_dirt, add_rust
from engines.recipe.world.yard import Focus, Joint, Placement, Yard, new_yard

SPLIT_SEEDS: dict[str, range] = {
    "train": range(0, 10000),
    "val": range(10000, 11000),
    "test": range(20000, 21000),
    "clip": range(30000, 31000),
}
HALF_VIEW_TAN = 0.445


@dataclass(frozen=True)
class CameraPose:
    """Where the RGB camera stands and what it looks at, metres; ``roll_rad`` is about its axis."""

    eye: Array
    target: Array
    roll_rad: float

    def axes(self) -> Array:
        """Returns the camera-to-world rotation.

        Columns are image right, image down, and the viewing direction.
        """
        ahead = unit(self.target - self.eye)
        right = unit(np.cross(ahead, [0.0, 0.0, 1.0]))
        down = np.cross(ahead, right)
        cosine, sine = np.cos(self.roll_rad), np.sin(self.roll_rad)
        return np.stack([cosine * right + sine * down, -sine * right + cosine * down, ahead], axis=1)


@dataclass
class World:
    """A built world: its mesh, the camera poses chosen for it, and what is wrong in it."""

    seed: int
    mesh: Mesh
    poses: list[CameraPose]
    focuses: list[Focus]
    patches: list[RustPatch]
    faults: list[HotJoint]
    joints: list[Joint] = field(default_factory=list)


def split_of(seed: int) -> str:
    """Returns the split a seed belongs to.

    Splits share no seed. Raises: ValueError for a seed outside all of them.
    """
    for split, seeds in SPLIT_SEEDS.items():
        if seed in seeds:
            return split
    raise ValueError(f"seed {seed} lies in no split; splits: {SPLIT_SEEDS}")


def _equip(yard: Yard) -> float:
    """Adds the equipment; returns how far back it reaches, metres."""
    main = yard.pick("transformer", "transformer", "bay", "bay", "gantry")
    build = {"transformer": apparatus.transformer, "bay": apparatus.switch_bay, "gantry": apparatus.gantry}
    build[main](yard, Placement(0.0, 0.0, yard.uniform(-0.5, 0.5)))
    reach = 4.5
    if main == "transformer" and yard.chance(0.3):
        apparatus.switch_bay(
            yard, Placement(yard.uniform(-1.5, 1.5), yard.uniform(5.0, 6.5), yard.uniform(-0.2, 0.2))
        )
        reach = 10.0
    elif main != "transformer" and yard.chance(0.25):
        apparatus.transformer(
            yard, Placement(yard.uniform(-3, 3), yard.uniform(6, 8), yard.uniform(-0.4, 0.4))
        )
        reach = 10.0
    if main != "gantry" and yard.chance(0.3):
        back = reach + yard.uniform(1.5, 3.0)
        apparatus.gantry(yard, Placement(yard.uniform(-2, 2), back, yard.uniform(-0.2, 0.2)))
        reach = back + 1.0
    for _ in range(int(yard.rng.integers(0, 3))):
        x = yard.pick(-1, 1) * yard.uniform(2.8, 5.0)
        apparatus.current_transformer(yard, Placement(x, yard.uniform(-0.8, 3.5), yard.uniform(-0.3, 0.3)))
    return reach


def draw_pose(rng: np.random.Generator, focuses: list[Focus], obstacles: NDArray[np.float32]) -> CameraPose:
    """Draws a pose that looks at a focus from 3 to 8.5 m and stands clear of everything."""
    for _ in range(30):
        main = rng.random() < 0.7
        focus = focuses[0] if main else focuses[int(rng.integers(len(focuses)))]
        facing = unit(focus.facing * [1.0, 1.0, 0.0])
        eye = focus.point + yaw_rotation(float(rng.uniform(-0.75, 0.75))) @ facing * rng.uniform(3.0, 8.5)
        eye[2] = rng.uniform(1.2, 2.4) if rng.random() < 0.7 else focus.point[2] + rng.uniform(0.2, 2.5)
        target = focus.point + rng.normal(0, 0.3, 3) * [1.0, 0.5, 0.8]
        if np.linalg.norm(obstacles - eye, axis=1).min() > 0.9:
            break
    return CameraPose(eye, target, float(rng.normal(0, 0.02)))


def in_view(
    pose: CameraPose, points: ArrayLike, max_depth_m: float, share: float = 0.85
) -> NDArray[np.bool_]:
    """Says which points lie within ``share`` of the RGB frame and nearer than ``max_depth_m`` (occlusion
    not looked at).
    """
    local = (np.asarray(points, dtype=np.float64) - pose.eye) @ pose.axes()
    depth = np.maximum(local[:, 2], 1e-6)
    wide = np.abs(local[:, 0] / depth) < HALF_VIEW_TAN * share
    high = np.abs(local[:, 1] / depth) < HALF_VIEW_TAN * 0.8 * share
    result: NDArray[np.bool_] = wide & high & (local[:, 2] > 0.5) & (local[:, 2] < max_depth_m)
    return result


def _place_people(yard: Yard, pose: CameraPose, obstacles: NDArray[np.float32]) -> None:
    count = int(yard.rng.choice([0, 1, 2], p=[0.52, 0.38, 0.10]))
    low = obstacles[(obstacles[:, 2] < 1.8) & (np.abs(obstacles[:, :2]).max(1) < 25)][::3, :2]
    axes = pose.axes()
    ahead, right = unit(axes[:, 2] * [1, 1, 0]), unit(axes[:, 0] * [1, 1, 0])
    for _ in range(count):
        for _attempt in range(12):
            depth = yard.uniform(2.8, 10.0)
            spot = pose.eye + ahead * depth + right * depth * yard.uniform(-0.4, 0.4)
            if len(low) == 0 or np.linalg.norm(low - spot[:2], axis=1).min() > 0.4:
                person(yard, float(spot[0]), float(spot[1]), yard.uniform(0, 2 * np.pi))
                break


def build_world(seed: int, fault_count: int | None = None) -> World:
    """Builds the world of a seed.

    The same seed gives the same arrays. ``fault_count`` None draws it (45 % have none).
    """
    rng = np.random.default_rng([seed, 1])
    yard = new_yard(rng)
    reach = _equip(yard)
    obstacles, _ = yard.mesh.triangles()
    poses = [draw_pose(rng, yard.focuses, obstacles)]
    poses.append(draw_pose(rng, yard.focuses, obstacles))
    background.surroundings(yard, reach)
    obstacles, _ = yard.mesh.triangles()
    _place_people(yard, poses[0], obstacles)
    mesh = yard.mesh.build()
    add_dirt(mesh, yard.noise, rng)
    toward = poses[0].eye - mesh.vertices
    exposed = in_view(poses[0], mesh.vertices, 14.0) & ((toward * mesh.normals).sum(1) > 0)
    patches = add_rust(mesh, yard.noise, rng, int(rng.choice([0, 1, 2, 3, 4, 5, 6])), exposed)
    count = int(rng.choice([0, 1, 2, 3], p=[0.45, 0.30, 0.17, 0.08])) if fault_count is None else fault_count
    seen = in_view(poses[0], [joint.position for joint in yard.joints], 10.0)
    near = [joint for joint, visible in zip(yard.joints, seen, strict=True) if visible]
    order = rng.permutation(len(near))[:count]
    joints = [near[int(index)] for index in order]
    faults = heat_joints(mesh, joints, [draw_rise_k(rng) for _ in joints], rng)
    return World(seed, mesh, poses, yard.focuses, patches, faults, yard.joints)
