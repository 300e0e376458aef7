"""Insulators, clamps, conductors and the steel that carries them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from engines.recipe.world.vectors import Array, bulged_line, frame_along, unit
from engines.recipe.world.yard import Joint, Yard


def post_insulator(
    yard: Yard,
    base: ArrayLike,
    axis: ArrayLike,
    length_m: float,
    radius_m: float,
    material: str | None = None,
) -> Array:
    """Adds a post or bushing with sheds and metal end caps; returns the point at its top."""
    owner = yard.mesh.new_object("post", label="insulator")
    foot, along = np.asarray(base, float), unit(axis)
    core, cap = radius_m * yard.uniform(0.42, 0.6), min(0.09, length_m * 0.08)
    load = yard.style.load_rise_k
    yard.mesh.cylinder(foot, foot + along * cap, core * 1.25, "galvanised", owner)
    yard.mesh.cylinder(
        foot + along * (length_m - cap), foot + along * length_m, core * 1.2, "galvanised", owner, rise_k=load
    )
    pitch = yard.uniform(0.05, 0.085) * (1.0 if radius_m < 0.14 else 1.25)
    sheds = max(3, int((length_m - 2 * cap) // pitch))
    pitch = (length_m - 2 * cap) / sheds
    alternate, taper = yard.uniform(0.78, 1.0), yard.uniform(0.75, 1.0)
    profile = []
    for shed in range(sheds):
        narrow = 1 - (1 - taper) * shed / sheds
        outer = radius_m * narrow * (alternate if shed % 2 else 1.0)
        inner, z = core * narrow, cap + shed * pitch
        profile += [(inner, z), (inner, z + 0.25 * pitch), (outer * 0.97, z + 0.42 * pitch)]
        profile += [(outer, z + 0.5 * pitch), (outer * 0.93, z + 0.6 * pitch), (inner, z + 0.86 * pitch)]
    profile.append((core * taper, length_m - cap))
    yard.mesh.revolve(
        profile,
        foot,
        along,
        material or yard.style.insulator,
        owner,
        segments=20,
        rise_k=yard.uniform(-0.3, 0.5),
        tint=yard.uniform(0.8, 1.15),
    )
    return foot + along * length_m


def disc_string(yard: Yard, start: ArrayLike, direction: ArrayLike, length_m: float) -> Array:
    """Adds a string of cap-and-pin discs; returns the point at its live end."""
    owner = yard.mesh.new_object("string", label="insulator")
    along, first = unit(direction), np.asarray(start, float)
    disc_pitch_m = 0.146
    discs = max(4, int(length_m / disc_pitch_m))
    material = yard.pick("glass", "porcelain_brown", "polymer_grey", yard.style.insulator)
    radius, tint = yard.uniform(0.115, 0.15), yard.uniform(0.9, 1.1)
    yard.mesh.cylinder(first, first + along * 0.12, 0.02, "galvanised", owner, segments=8)
    for disc in range(discs):
        z = 0.12 + disc * disc_pitch_m
        cap = [(0.03, z + 0.02), (0.045, z + 0.03), (0.05, z + 0.075)]
        skirt = [(0.05, z + 0.07), (radius * 0.6, z + 0.082), (radius, z + 0.115), (radius * 0.95, z + 0.125)]
        skirt += [(0.04, z + 0.115), (0.018, z + 0.12), (0.018, z + disc_pitch_m + 0.02)]
        yard.mesh.revolve(cap, first, along, "galvanised", owner, segments=12)
        yard.mesh.revolve(skirt, first, along, material, owner, segments=18, tint=tint)
    end = first + along * (0.12 + discs * disc_pitch_m)
    yard.mesh.cylinder(end, end + along * 0.15, 0.02, "galvanised", owner, segments=8)
    return end + along * 0.15


def clamp(yard: Yard, position: ArrayLike, axis: ArrayLike = (0.0, 0.0, 1.0)) -> None:
    """Adds a bolted clamp and registers it as a joint. A dark bird guard may cover it: a sun-heated decoy."""
    owner = yard.mesh.new_object("clamp")
    turn, middle, load = frame_along(axis), np.asarray(position, float), yard.style.load_rise_k
    size = np.array([yard.uniform(0.07, 0.1), yard.uniform(0.1, 0.15), yard.uniform(0.13, 0.2)])
    yard.mesh.box(middle, size, "clamp", owner, turn, rise_k=load, tint=yard.uniform(0.75, 1.15))
    for a in (-0.3, 0.3):
        for b in (-0.3, 0.3):
            bolt = middle + turn @ np.array([0.0, a * size[1], b * size[2]])
            reach = turn[:, 0] * size[0] * 0.75
            yard.mesh.cylinder(
                bolt - reach, bolt + reach, 0.013, "galvanised", owner, segments=6, rise_k=load
            )
    yard.joints.append(Joint(middle, owner))
    if yard.chance(0.07):
        guard = yard.mesh.new_object("bird_guard")
        color = yard.pick("dark", "dark", "red")
        top = middle + [0.0, 0.0, size.max() * 0.75]
        yard.mesh.cylinder(top, top + [0.0, 0.0, 0.09], yard.uniform(0.1, 0.16), color, guard, segments=16)


def conductor(yard: Yard, path: ArrayLike, radius_m: float) -> None:
    """Adds a bare conductor along a path."""
    owner = yard.mesh.new_object("conductor")
    tint = yard.uniform(0.6, 1.0)
    yard.mesh.tube(path, radius_m, "aluminium", owner, rise_k=yard.style.load_rise_k, tint=tint)


def lattice(yard: Yard, start: ArrayLike, end: ArrayLike, width_m: float, bar_m: float = 0.05) -> None:
    """Adds a square lattice mast or beam."""
    style = yard.style
    owner = yard.mesh.new_object("lattice", rustable=style.steel != "galvanised")
    foot, head = np.asarray(start, float), np.asarray(end, float)
    turn, length = frame_along(head - foot), float(np.linalg.norm(head - foot))
    panels = max(2, int(length / (width_m * 1.1)))
    corners = [np.array([i, j, 0.0]) * width_m / 2 for i in (-1, 1) for j in (-1, 1)]

    def bar(local_start: Array, local_end: Array, thickness_m: float, step_m: float) -> None:
        a, b = foot + turn @ local_start, foot + turn @ local_end
        size = (thickness_m, thickness_m * 0.9, float(np.linalg.norm(b - a)))
        yard.mesh.box((a + b) / 2, size, style.steel, owner, frame_along(b - a), step_m, tint=style.tint)

    for corner in corners:
        bar(corner, corner + [0.0, 0.0, length], bar_m, 0.1)
    for panel in range(panels):
        low, high = length * panel / panels, length * (panel + 1) / panels
        for p, q in ((0, 1), (1, 3), (3, 2), (2, 0)):
            bar(corners[p] + [0.0, 0.0, low], corners[q] + [0.0, 0.0, high], bar_m * 0.6, 0.2)


def support(yard: Yard, x_m: float, y_m: float, height_m: float, kind: str | None = None) -> None:
    """Adds a foundation and a pole, lattice or concrete column with a head plate."""
    kind = kind or yard.pick("pole", "lattice", "concrete")
    steel = yard.style.steel
    owner = yard.mesh.new_object("support", rustable=kind == "pole" and steel != "galvanised")
    yard.mesh.box((x_m, y_m, 0.1), (0.7, 0.7, 0.3), "concrete", owner, rise_k=0.5)
    yard.mesh.box((x_m, y_m, height_m), (0.42, 0.42, 0.04), "galvanised", owner)
    if kind == "lattice":
        lattice(yard, (x_m, y_m, 0.2), (x_m, y_m, height_m), 0.32, 0.045)
    else:
        material = "concrete" if kind == "concrete" else steel
        radius = yard.uniform(0.09, 0.13)
        foot, head = (x_m, y_m, 0.1), (x_m, y_m, height_m)
        yard.mesh.cylinder(foot, head, radius, material, owner, 18, 0.06, tint=yard.style.tint)


def bus_bar(yard: Yard, start: ArrayLike, end: ArrayLike) -> None:
    """Adds a tubular bus that rests on a post insulator and a column at each end, so that nothing ends in
    the air.
    """
    first, last = np.asarray(start, float), np.asarray(end, float)
    overhang = unit(last - first) * 0.25
    conductor(yard, bulged_line(first - overhang, last + overhang, step_m=0.15), yard.uniform(0.03, 0.045))
    length_m, radius_m = yard.uniform(0.75, 1.05), yard.uniform(0.09, 0.12)
    kind = yard.pick("pole", "concrete")
    for point in (first, last):
        height_m = float(point[2]) - length_m - 0.08
        support(yard, float(point[0]), float(point[1]), height_m, kind)
        top = post_insulator(yard, (point[0], point[1], height_m), (0, 0, 1), length_m, radius_m)
        clamp(yard, top + [0.0, 0.0, 0.05], last - first)


def jumper(yard: Yard, start: ArrayLike, end: ArrayLike, bulge: ArrayLike = (0.0, 0.0, 0.0)) -> None:
    """Adds a flexible connection between two points and a clamp where it ends."""
    first, last = np.asarray(start, float), np.asarray(end, float)
    conductor(yard, bulged_line(first, last, bulge), yard.uniform(0.012, 0.019))
    clamp(yard, last, (1.0, 0.1, 0.0))
