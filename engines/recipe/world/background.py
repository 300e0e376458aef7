"""What stands behind and around the equipment.

Walls, trees, tanks, fence, horizon, and warm or sun-heated decoys.
"""

from __future__ import annotations

import numpy as np

from engines.recipe.world.fittings import lattice
from engines.recipe.world.yard import Yard


def fire_wall(yard: Yard, y_m: float) -> None:
    """Adds a wide concrete or brick wall with pilasters close behind the equipment."""
    owner = yard.mesh.new_object("wall")
    material = yard.pick("concrete", "concrete", "brick", "porcelain_white")
    width, height, x = yard.uniform(14, 24), yard.uniform(4.5, 9.0), yard.uniform(-3, 3)
    rise_k, tint = yard.uniform(0, 3), yard.uniform(0.6, 1.15)
    yard.mesh.box((x, y_m, height / 2), (width, 0.3, height), material, owner, None, 0.22, rise_k, tint)
    pilasters = int(width / yard.uniform(2.2, 4.0))
    for index in range(pilasters + 1):
        spot = (x - width / 2 + width * index / pilasters, y_m - 0.2, height / 2)
        yard.mesh.box(spot, (0.35, 0.2, height), material, owner, None, 0.25, rise_k, tint * 0.9)
    yard.mesh.box((x, y_m, height + 0.05), (width + 0.2, 0.5, 0.1), "concrete", owner, None, 0.4, rise_k, 0.9)


def building(yard: Yard, x_m: float, y_m: float) -> None:
    """Adds a control building with windows and a warm ventilation outlet."""
    owner, panes = yard.mesh.new_object("building"), yard.mesh.new_object("windows")
    width, depth, height = yard.uniform(6, 14), 5.0, yard.uniform(3, 6.5)
    material, rise_k = yard.pick("brick", "concrete", "porcelain_white", "paint_grey"), yard.uniform(0, 4)
    tint = yard.uniform(0.6, 1.1)
    yard.mesh.box((x_m, y_m, height / 2), (width, depth, height), material, owner, None, 0.25, rise_k, tint)
    yard.mesh.box((x_m, y_m, height + 0.1), (width + 0.5, depth + 0.5, 0.2), "dark", owner, None, 0.5, rise_k)
    windows, front = int(width / 2.2), y_m - depth / 2
    for index in range(windows):
        x = x_m - width / 2 + width * (index + 0.5) / windows
        yard.mesh.box(
            (x, front - 0.02, height * 0.55), (0.9, 0.06, 1.1), "dark", panes, rise_k=yard.uniform(1, 6)
        )
        yard.mesh.box((x, front - 0.05, height * 0.55 - 0.6), (1.1, 0.1, 0.07), "concrete", panes)
    if yard.chance(0.5):
        vent = yard.mesh.new_object("vent")
        spot = (x_m + yard.uniform(-0.4, 0.4) * width, front - 0.06, height * 0.8)
        yard.mesh.box(spot, (0.5, 0.12, 0.4), "galvanised", vent, rise_k=yard.uniform(4, 25))


def storage_tank(yard: Yard, x_m: float, y_m: float) -> None:
    """Adds an oil storage tank, sometimes warm: a large decoy."""
    owner = yard.mesh.new_object("storage_tank", rustable=True)
    radius, height = yard.uniform(1.5, 3.0), yard.uniform(4.0, 8.0)
    material, rise_k = yard.pick("paint_grey", "paint_green", "porcelain_white"), yard.uniform(0, 14)
    foot, top = np.array([x_m, y_m, 0.0]), np.array([x_m, y_m, height])
    yard.mesh.cylinder(foot, top, radius, material, owner, 64, 0.15, rise_k, yard.uniform(0.7, 1.1))
    for level in np.arange(1.2, height, 1.6):
        ring = np.array([0.0, 0.0, level])
        yard.mesh.cylinder(
            foot + ring, foot + ring + [0, 0, 0.06], radius + 0.03, material, owner, 64, rise_k=rise_k
        )


def tree(yard: Yard, x_m: float, y_m: float, height_m: float, leaves: int) -> None:
    """Adds a tree: trunk, branches and clumps of leaf blades that catch the light on their outer side."""
    rng, owner = yard.rng, yard.mesh.new_object("tree")
    foot, spread = np.array([x_m, y_m, 0.0]), height_m * yard.uniform(0.26, 0.42)
    yard.mesh.cylinder(foot, foot + [0, 0, height_m * 0.55], height_m * 0.018 + 0.04, "wood", owner, 9)
    clumps = int(rng.integers(9, 16))
    heading, level = rng.uniform(0, 2 * np.pi, clumps), rng.uniform(0.32, 0.92, clumps)
    width = (
        spread * np.sqrt(np.clip(1 - ((level - 0.55) / 0.46) ** 2, 0.05, 1)) * rng.uniform(0.3, 1.0, clumps)
    )
    centers = foot + np.stack([np.cos(heading) * width, np.sin(heading) * width, level * height_m], 1)
    for center in centers[:6]:
        root = foot + [0, 0, height_m * float(rng.uniform(0.25, 0.5))]
        yard.mesh.cylinder(root, center, 0.04, "wood", owner, 6)
    chosen = rng.integers(clumps, size=leaves)
    direction = rng.normal(size=(leaves, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    clump_m = height_m * rng.uniform(0.11, 0.19, clumps)
    shell = rng.uniform(0.3, 1.0, leaves) ** 0.4
    points = centers[chosen] + direction * (clump_m[chosen] * shell)[:, None]
    outward = direction + 0.6 * rng.normal(size=direction.shape) + [0, 0, 0.3]
    outward /= np.linalg.norm(outward, axis=1, keepdims=True)
    inner_shade = 0.25 + 0.75 * shell * np.clip(0.7 + 0.5 * direction[:, 2], 0.35, 1.2)
    tint = yard.uniform(0.6, 1.5) * inner_shade * rng.uniform(0.7, 1.35, leaves)
    size = rng.uniform(0.55, 1.2, leaves) * height_m * 0.055
    yard.mesh.blades(points, outward, size, "leaf", owner, rng, tint, rise_k=yard.uniform(-1.0, 0.5))


def hedge(yard: Yard, y_m: float) -> None:
    """Adds a dense row of trees close behind the equipment."""
    for x in np.arange(-13, 13.1, yard.uniform(2.0, 3.2)):
        tree(
            yard,
            float(x) + yard.uniform(-0.6, 0.6),
            y_m + yard.uniform(-0.8, 1.5),
            yard.uniform(4.5, 8.5),
            700,
        )


def horizon(yard: Yard) -> None:
    """Closes the view all round with two jagged belts of far woodland."""
    owner = yard.mesh.new_object("horizon")
    for radius, low, high in ((95.0, 3.0, 9.0), (125.0, 5.0, 15.0)):
        steps, rows = 540, 5
        angle = np.linspace(0, 2 * np.pi, steps + 1)
        ring = np.stack([np.cos(angle), np.sin(angle), np.zeros(steps + 1)], 1)
        crown = yard.noise.fractal(ring * radius, 0.06, 2) * 0.55 + 0.45 * yard.noise.fractal(
            ring * radius, 0.6, 2
        )
        crown = (
            low + (high - low) * np.clip((crown - 0.25) * 2, 0, 1) + yard.rng.uniform(-0.35, 0.35, steps + 1)
        )
        level = np.linspace(0, 1, rows)[:, None, None]
        bulge = 1 + 0.02 * (yard.noise.fractal(ring * radius, 0.5, 2) - 0.5)[None, :, None]
        points = ring[None] * radius * bulge * (1 + 0.02 * level) + level * crown[None, :, None] * [0, 0, 1.0]
        points = points.reshape(-1, 3)
        normals = -np.tile(ring, (rows, 1)) + [0, 0, 0.5] + 0.5 * yard.rng.normal(size=(len(points), 3))
        normals /= np.linalg.norm(normals, axis=1, keepdims=True)
        shade = (0.35 + 0.9 * yard.noise.fractal(points, 0.8, 3)) * yard.rng.uniform(0.75, 1.25, len(points))
        start = (np.arange(rows - 1)[:, None] * (steps + 1) + np.arange(steps)).ravel()
        above = start + steps + 1
        faces = np.concatenate(
            [np.stack([start, above + 1, start + 1], 1), np.stack([start, above, above + 1], 1)]
        )
        yard.mesh.add(points, normals, faces, "leaf", owner, tint=shade[:, None])


def fence(yard: Yard, y_m: float) -> None:
    """Adds a wire fence with warning signs."""
    owner, signs = yard.mesh.new_object("fence"), yard.mesh.new_object("sign")
    for post in range(28):
        x = -21 + 1.5 * post
        yard.mesh.cylinder((x, y_m, 0), (x, y_m, 2.2), 0.03, "galvanised", owner, 6)
        if yard.chance(0.15):
            color = yard.pick("sign_yellow", "red", "porcelain_white")
            yard.mesh.box((x + 0.7, y_m - 0.03, 1.4), (0.4, 0.02, 0.3), color, signs)
    for level in (0.2, 0.7, 1.2, 1.7, 2.15):
        yard.mesh.cylinder((-21, y_m, level), (21, y_m, level), 0.014, "galvanised", owner, 5)


def decoys(yard: Yard) -> None:
    """Adds small things that look like faults to one camera.

    Dark boxes for the sun to heat, heaters, brown plates.
    """
    for _ in range(int(yard.rng.integers(1, 5))):
        x, y, z = yard.uniform(-3.2, 3.2), yard.uniform(-1.2, 2.5), yard.uniform(0.9, 1.7)
        owner = yard.mesh.new_object("decoy")
        kind = yard.pick("sun_box", "heater", "brown_plate", "sign")
        size = np.array([yard.uniform(0.12, 0.3), 0.12, yard.uniform(0.15, 0.35)])
        yard.mesh.cylinder((x, y + 0.08, 0), (x, y + 0.08, z), 0.03, "galvanised", owner, 8)
        material = {"sun_box": "dark", "heater": "paint_grey", "brown_plate": "wood", "sign": "sign_yellow"}[
            kind
        ]
        rise_k = yard.uniform(4, 22) if kind == "heater" else 0.0
        yard.mesh.box((x, y, z), size, material, owner, None, 0.06, rise_k)


def far_towers(yard: Yard) -> None:
    """Adds one or two transmission towers in the distance."""
    for _ in range(int(yard.rng.integers(0, 3))):
        x, y, height = yard.uniform(-40, 40), yard.uniform(45, 75), yard.uniform(16, 24)
        lattice(yard, (x, y, 0), (x, y, height), 1.6, 0.12)
        for level in (0.62, 0.78, 0.93):
            arm = yard.uniform(2.5, 4.0)
            lattice(yard, (x - arm, y, height * level), (x + arm, y, height * level), 0.7, 0.08)


def surroundings(yard: Yard, depth_of_equipment_m: float) -> None:
    """Adds everything that is not equipment.

    In most worlds a near backdrop hides the cold sky behind the insulators.
    """
    behind = depth_of_equipment_m + yard.uniform(1.5, 5.0)
    backdrop = yard.pick("wall", "wall", "hedge", "hedge", "tank", "building", "none", "none")
    if backdrop == "wall":
        fire_wall(yard, behind)
    elif backdrop == "hedge":
        hedge(yard, behind + 2.0)
    elif backdrop == "building":
        building(yard, yard.uniform(-3, 3), behind + 2.5)
    elif backdrop == "tank":
        for _ in range(int(yard.rng.integers(1, 4))):
            storage_tank(yard, yard.uniform(-7, 7), behind + yard.uniform(2.5, 5.0))
    if yard.chance(0.5):
        fence(yard, behind + yard.uniform(6, 12))
    if yard.chance(0.4):
        building(yard, yard.pick(-1, 1) * yard.uniform(6, 16), behind + yard.uniform(9, 18))
    for _ in range(int(yard.rng.integers(3, 9))):
        tree(yard, yard.uniform(-34, 34), yard.uniform(24, 48), yard.uniform(5, 11), 500)
    decoys(yard)
    far_towers(yard)
    horizon(yard)
