"""Ages the surfaces: mottling, dirt streaks and patches of rust."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engines.recipe.world.mesh import Mesh
from engines.recipe.world.noise import ValueNoise

SMOOTH_KINDS = ("tree", "horizon")
RUST_DARK, RUST_LIGHT = np.array([0.13, 0.045, 0.018]), np.array([0.36, 0.15, 0.05])


@dataclass(frozen=True)
class RustPatch:
    """A patch of corrosion on one object; its index + 1 is the mesh's ``patch_id``."""

    object_id: int
    part: str
    radius_m: float


def add_dirt(mesh: Mesh, noise: ValueNoise, rng: np.random.Generator) -> None:
    """Mottles colours and lays vertical dirt streaks, in place; dirt also takes up more sun."""
    aged = ~np.isin(mesh.vertex_object, mesh.objects_of(*SMOOTH_KINDS))
    points = mesh.vertices[aged]
    mottle = noise.fractal(points, 3.0, 2)
    streaks = np.clip(1.6 * noise.fractal(points * np.float32([6, 6, 0.8]), 1.0, 2) - 0.75, 0, 1)
    streaks *= np.float32(rng.uniform(0.1, 0.8))
    mesh.color_rgb[aged] *= ((0.85 + 0.3 * mottle) * (1 - 0.5 * streaks))[:, None]
    absorptivity = mesh.column("absorptivity")
    absorptivity[aged] = np.clip(absorptivity[aged] + 0.2 * streaks, 0, 1)


def add_rust(
    mesh: Mesh, noise: ValueNoise, rng: np.random.Generator, count: int, exposed: NDArray[np.bool_]
) -> list[RustPatch]:
    """Grows up to ``count`` patches on rustable parts around vertices for which ``exposed`` holds, in
    place.

    Rust changes colour, gloss and roughness. It has the emissivity of the paint it replaces and nearly its
    absorptivity, so the thermal camera hardly sees it.
    """
    patches: list[RustPatch] = []
    rustable = [index for index, item in enumerate(mesh.objects) if item.rustable]
    seeds = {owner: np.flatnonzero((mesh.vertex_object == owner) & exposed) for owner in rustable}
    owners = [owner for owner in rustable if len(seeds[owner]) > 20]
    absorptivity, rust = mesh.column("absorptivity"), mesh.column("rust")
    for _ in range(count if owners else 0):
        owner = owners[int(rng.integers(len(owners)))]
        members = np.flatnonzero(mesh.vertex_object == owner)
        center = mesh.vertices[seeds[owner][int(rng.integers(len(seeds[owner])))]]
        radius_m = float(rng.uniform(0.13, 0.5))
        offset = (mesh.vertices[members] - center) * np.array([1, 1, rng.uniform(0.4, 0.9)])
        reach = np.linalg.norm(offset, axis=1) / radius_m
        near = members[reach < 1.6]
        points = mesh.vertices[near]
        cover = 1.35 - reach[reach < 1.6] + 1.1 * (noise.fractal(points, 9.0, 3) - 0.5)
        cover = np.clip((cover - 0.35) * 3, 0, 1)
        if (cover > 0.5).sum() < 8:
            continue
        cover *= rng.uniform(0.75, 1.0)
        patches.append(RustPatch(owner, mesh.objects[owner].kind, radius_m))
        grain = noise.fractal(points, 25.0, 2)[:, None]
        color = (RUST_DARK * (1 - grain) + RUST_LIGHT * grain) * rng.uniform(0.75, 1.25)
        share = cover[:, None]
        mesh.color_rgb[near] = mesh.color_rgb[near] * (1 - share) + color * share
        mesh.roughness[near] = mesh.roughness[near] * (1 - cover) + 0.95 * cover
        mesh.metallic[near] *= 1 - cover
        absorptivity[near] = absorptivity[near] * (1 - 0.4 * cover) + 0.68 * 0.4 * cover
        newer = cover > rust[near]
        mesh.patch_id[near[newer]] = len(patches)
        rust[near] = np.maximum(rust[near], cover)
    return patches
