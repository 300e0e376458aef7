"""The large pieces of a substation: transformers, switch bays, gantries and instrument transformers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engines.recipe.world.fittings import (
    bus_bar,
    clamp,
    conductor,
    disc_string,
    jumper,
    lattice,
    post_insulator,
    support,
)
from engines.recipe.world.mesh import Rise
from engines.recipe.world.vectors import bulged_line, unit
from engines.recipe.world.yard import Placement, Yard

UP = np.array([0.0, 0.0, 1.0])


def transformer(yard: Yard, place: Placement) -> None:
    """Adds an oil transformer with radiators, conservator, bushings and the bus above it.

    The tank is a warm decoy.
    """
    mesh, style, turn = yard.mesh, yard.style, place.rotation
    length, depth, height = yard.uniform(1.9, 3.2), yard.uniform(1.1, 1.6), yard.uniform(1.5, 2.1)
    oil_rise_k, floor_m = yard.uniform(3.0, 28.0), 0.45
    paint, tint = style.paint, style.tint

    def oil(points: NDArray[np.float64]) -> NDArray[np.float64]:
        return oil_rise_k * (0.45 + 0.55 * np.clip((points[:, 2] - floor_m) / height, 0, 1.2))

    plinth = mesh.new_object("plinth")
    mesh.box(
        place.point((0, 0, 0.15)),
        (length + 1.2, depth + 1.8, 0.35),
        "concrete",
        plinth,
        turn,
        0.3,
        rise_k=1.0,
    )
    tank = mesh.new_object("tank", rustable=True)
    middle = floor_m + height / 2
    mesh.box(place.point((0, 0, middle)), (length, depth, height), paint, tank, turn, 0.045, oil, tint)
    lid_size = (length + 0.14, depth + 0.14, 0.06)
    mesh.box(place.point((0, 0, floor_m + height)), lid_size, paint, tank, turn, 0.06, oil, tint * 0.95)
    for rib in range(4):
        x = -length / 2 + length * (rib + 0.5) / 4
        mesh.box(
            place.point((x, 0, middle)), (0.06, depth + 0.1, height * 0.9), paint, tank, turn, 0.07, oil, tint
        )
    for side in (-1, 1) if yard.chance(0.6) else (yard.pick(-1, 1),):
        _radiator(yard, place, side, length, depth, height, floor_m, oil)
    if yard.chance(0.8):
        drum = mesh.new_object("conservator", rustable=True)
        z, y = floor_m + height + yard.uniform(0.5, 0.8), depth * 0.42
        ends = place.point((length * 0.1, y, z)), place.point((length * 0.62, y, z))
        mesh.cylinder(*ends, yard.uniform(0.2, 0.28), paint, drum, 24, 0.05, oil_rise_k * 0.35, tint)
        for x in (length * 0.2, length * 0.45):
            low, high = place.point((x, y, floor_m + height)), place.point((x, y, z))
            mesh.cylinder(low, high, 0.05, paint, drum, rise_k=oil_rise_k * 0.6, tint=tint)
    cabinet = mesh.new_object("cabinet", rustable=True)
    spot = place.point((length * yard.uniform(-0.3, 0.3), -depth / 2 - 0.62, 1.1))
    heater_k = yard.uniform(1.0, 9.0)
    mesh.box(spot, (0.6, 0.35, 0.8), "paint_grey", cabinet, turn, 0.05, heater_k, yard.uniform(0.8, 1.2))
    _bushings(yard, place, length, depth, floor_m + height, oil_rise_k)


def _radiator(
    yard: Yard,
    place: Placement,
    side: int,
    length: float,
    depth: float,
    height: float,
    floor_m: float,
    oil: Rise,
) -> None:
    mesh, style = yard.mesh, yard.style
    owner = mesh.new_object("radiator", rustable=True)
    fins, fin_h, fin_d = (
        int(length / yard.uniform(0.09, 0.14)),
        height * yard.uniform(0.7, 0.9),
        yard.uniform(0.25, 0.45),
    )
    z, near = floor_m + height * 0.52, side * (depth / 2 + 0.1)
    for fin in range(fins):
        spot = place.point((-length * 0.46 + length * 0.92 * fin / (fins - 1), near + side * fin_d / 2, z))
        mesh.box(spot, (0.02, fin_d, fin_h), style.paint, owner, place.rotation, 0.07, oil, style.tint)
    for level in (z - fin_h * 0.46, z + fin_h * 0.46):
        ends = place.point((-length * 0.47, near, level)), place.point((length * 0.47, near, level))
        mesh.cylinder(*ends, 0.06, style.paint, owner, 12, 0.1, oil, style.tint)


def _bushings(
    yard: Yard, place: Placement, length: float, depth: float, lid_m: float, oil_rise_k: float
) -> None:
    mesh, style = yard.mesh, yard.style
    phases, bushing_m, radius_m = yard.pick(1, 2, 3, 3), yard.uniform(0.8, 1.5), yard.uniform(0.11, 0.17)
    bus_z = lid_m + bushing_m + yard.uniform(0.9, 1.8)
    terminals = []
    for phase in range(phases):
        foot = place.point((-length * 0.36 + length * 0.72 * (phase + 0.5) / phases, -depth * 0.22, lid_m))
        turret = mesh.new_object("turret", rustable=True)
        mesh.cylinder(
            foot, foot + 0.25 * UP, radius_m * 1.2, style.paint, turret, 22, 0.05, oil_rise_k, style.tint
        )
        axis = unit(place.direction(((phase - (phases - 1) / 2) * 0.14, -0.12, 1.0)))
        top = post_insulator(yard, foot + 0.24 * UP, axis, bushing_m, radius_m)
        stud = mesh.new_object("terminal")
        mesh.cylinder(top, top + axis * 0.16, 0.03, "clamp", stud, rise_k=style.load_rise_k)
        clamp(yard, top + axis * 0.14, axis)
        terminals.append(top + axis * 0.14)
    reach, bus_y = length / 2 + yard.uniform(0.7, 1.8), yard.uniform(-0.9, 0.2)
    bus_bar(yard, place.point((-reach, bus_y, bus_z)), place.point((reach, bus_y, bus_z)))
    for terminal in terminals:
        local_x = float((place.rotation.T @ (terminal - [place.x_m, place.y_m, 0]))[0])
        landing = place.point((local_x + yard.uniform(-0.2, 0.2), bus_y, bus_z))
        bulge = place.direction((yard.uniform(-0.2, 0.2), yard.uniform(-0.45, 0.2), 0.0))
        jumper(yard, terminal, landing - 0.04 * UP, bulge)
    for phase in range(yard.pick(0, 3, 4)):
        foot = place.point((-length * 0.35 + length * 0.5 * phase / 3, depth * 0.25, lid_m))
        top = post_insulator(yard, foot, UP, yard.uniform(0.35, 0.5), 0.075) + 0.08 * UP
        clamp(yard, top)
        landing = foot + place.direction((0.0, depth * 0.25 + 1.2, 0.0))
        post_z = lid_m * 0.75
        support(yard, float(landing[0]), float(landing[1]), post_z, "pole")
        landing = post_insulator(yard, (landing[0], landing[1], post_z), UP, 0.5, 0.08) + 0.05 * UP
        jumper(yard, top, landing, (0.0, 0.0, 0.45))
    yard.add_focus(place.point((0, -depth * 0.2, lid_m + bushing_m * 0.4)), place.direction((0, -1, 0)))


def switch_bay(yard: Yard, place: Placement) -> None:
    """Adds rows of post insulators with switch blades between them, fed from a bus behind and dropped from
    one above.
    """
    mesh, style = yard.mesh, yard.style
    phases, pitch, gap = yard.pick(2, 3, 3), yard.uniform(1.0, 1.7), yard.uniform(0.9, 1.6)
    height, length, radius = yard.uniform(1.3, 2.3), yard.uniform(0.8, 1.3), yard.uniform(0.09, 0.14)
    kind, closed_switch = yard.pick("pole", "lattice", "concrete", "beam"), yard.chance(0.6)
    material = (
        style.insulator
        if yard.chance(0.7)
        else yard.pick("porcelain_brown", "polymer_grey", "porcelain_white")
    )
    if kind == "beam":
        for y in (-gap / 2, gap / 2):
            beam, size = (
                mesh.new_object("beam", rustable=style.steel != "galvanised"),
                (pitch * phases + 0.2, 0.14, 0.12),
            )
            spot = place.point((0, y, height - 0.06))
            mesh.box(spot, size, style.steel, beam, place.rotation, 0.06, tint=style.tint)
            for side in (-1, 1):
                foot = place.point((side * pitch * phases * 0.45, y, 0))
                head = foot + (height - 0.1) * UP
                mesh.cylinder(foot, head, 0.1, style.steel, beam, 16, 0.06, tint=style.tint)
    rear_y, rear_z = gap / 2 + yard.uniform(1.8, 3.2), height + length + yard.uniform(0.2, 1.4)
    for phase in range(phases):
        x, tops = (phase - (phases - 1) / 2) * pitch, []
        for y in (-gap / 2, gap / 2):
            foot = place.point((x, y, height))
            if kind != "beam":
                support(yard, float(foot[0]), float(foot[1]), height, kind)
            top = post_insulator(yard, foot, UP, length, radius, material) + 0.07 * UP
            clamp(yard, top, place.direction((0, 1, 0)))
            tops.append(top + 0.05 * UP)
        near, far = tops
        if closed_switch:
            conductor(yard, bulged_line(near + (near - far) * 0.1, far + (far - near) * 0.1), 0.022)
            clamp(yard, (near + far) / 2, place.direction((0, 1, 0)))
        elif yard.chance(0.7):
            conductor(yard, bulged_line(near, far, (0, 0, -yard.uniform(0.02, 0.12))), 0.016)
        jumper(yard, far, place.point((x, rear_y, rear_z - 0.04)), (0, 0, -yard.uniform(0.05, 0.3)))
    half = pitch * phases / 2 + yard.uniform(0.3, 1.2)
    bus_bar(yard, place.point((-half, rear_y, rear_z)), place.point((half, rear_y, rear_z)))
    yard.add_focus(place.point((0, 0, height + length * 0.55)), place.direction((0, -1, 0)))


def gantry(yard: Yard, place: Placement) -> None:
    """Adds a lattice gantry with strings, either hanging or dead-ending a line that leaves to a far tower."""
    width, height, hanging = yard.uniform(3.5, 6.0), yard.uniform(4.0, 5.6), yard.chance(0.4)
    for side in (-1, 1):
        foot = place.point((side * width / 2, 0, 0))
        lattice(yard, foot, foot + (height + 0.3) * UP, 0.45, 0.065)
    lattice(yard, place.point((-width / 2, 0, height)), place.point((width / 2, 0, height)), 0.4, 0.055)
    strings = yard.pick(2, 3, 3)
    for index in range(strings):
        x = -width / 2 + width * (index + 0.5) / strings + yard.uniform(-0.1, 0.1)
        if hanging:
            local = np.array([0.0, 0.0, -1.0])
        else:
            local = np.array([yard.uniform(-0.1, 0.1), -1.0, -yard.uniform(0.1, 0.3)])
        start = place.point((x, 0.0 if hanging else -0.22, height - 0.2))
        live = disc_string(yard, start, place.direction(local), yard.uniform(0.8, 1.3))
        clamp(yard, live, place.direction((0, 1, 0)) if hanging else place.direction(local))
        post_x, post_y = x + yard.uniform(-0.3, 0.3), (0.0 if hanging else -yard.uniform(0.7, 1.5))
        column = place.point((post_x, post_y, yard.uniform(0.8, 1.7)))
        support(yard, float(column[0]), float(column[1]), float(column[2]), yard.pick("pole", "concrete"))
        top = post_insulator(yard, column, UP, 0.86, yard.uniform(0.09, 0.13)) + 0.06 * UP
        clamp(yard, top)
        conductor(yard, bulged_line(live, top, place.direction((0, -0.35, -0.1))), 0.016)
        if not hanging:
            far = live + place.direction((yard.uniform(-1, 1), -45.0, 9.0))
            conductor(yard, bulged_line(live, far, (0, 0, -1.2)), yard.uniform(0.012, 0.018))
    yard.add_focus(place.point((0, -0.6, height * 0.62)), place.direction((0, -1, 0)))


def current_transformer(yard: Yard, place: Placement) -> None:
    """Adds an instrument transformer on a column, tied to a small bus beside it."""
    height = yard.uniform(1.4, 2.2)
    foot = place.point((0, 0, height))
    support(yard, float(foot[0]), float(foot[1]), height)
    top = post_insulator(yard, foot, UP, yard.uniform(0.9, 1.3), yard.uniform(0.14, 0.2))
    head = yard.mesh.new_object("head", rustable=True)
    radius, warm_k = yard.uniform(0.2, 0.27), yard.uniform(1.0, 4.0)
    yard.mesh.cylinder(top, top + 0.38 * UP, radius, "paint_grey", head, 24, 0.05, warm_k, yard.style.tint)
    left, right = top + place.direction((-0.34, 0, 0.2)), top + place.direction((0.34, 0, 0.2))
    yard.mesh.cylinder(left, right, 0.03, "clamp", head, rise_k=yard.style.load_rise_k)
    bus_z, bus_y = float(top[2]) + yard.uniform(0.6, 1.3), yard.uniform(0.9, 1.6)
    span = yard.uniform(0.7, 1.1)
    ends = [place.point((side * span, bus_y, bus_z)) for side in (-1, 1)]
    bus_bar(yard, ends[0], ends[1])
    for start, end in ((left, ends[0]), (right, ends[1])):
        clamp(yard, start, place.direction((1, 0, 0)))
        jumper(yard, start, end - 0.05 * UP, (0, 0, -0.2))
    yard.add_focus(top - 0.4 * UP, place.direction((0, -1, 0)))
