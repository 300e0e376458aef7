"""People on the site."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from engines.recipe.world.vectors import Array
from engines.recipe.world.yard import Yard


def person(yard: Yard, x_m: float, y_m: float, yaw_rad: float) -> int:
    """Adds a standing or walking person in work clothes and a helmet; returns the object's id.

    ``body_share`` says how much of the way from air to body temperature a surface goes: little for cloth,
    most for skin.
    """
    owner = yard.mesh.new_object("person", label="person")
    forward = np.array([np.cos(yaw_rad), np.sin(yaw_rad), 0.0])
    side = np.array([-forward[1], forward[0], 0.0])
    feet, jacket = np.array([x_m, y_m, 0.0]), yard.pick("cloth", "hi_vis", "dark", "paint_green")
    trousers = yard.pick("dark", "cloth")
    scale, tint = yard.uniform(0.93, 1.06), yard.uniform(0.8, 1.2)

    def limb(
        start: ArrayLike, end: ArrayLike, near_m: float, far_m: float, material: str, share: float
    ) -> None:
        a, b = np.asarray(start, float) * scale, np.asarray(end, float) * scale
        length = float(np.linalg.norm(b - a))
        profile = [(0.001, -near_m * 0.8), (near_m * 0.8, -near_m * 0.5), (near_m, 0.0), (far_m, length)]
        profile += [(far_m * 0.8, length + far_m * 0.5), (0.001, length + far_m * 0.8)]
        yard.mesh.revolve(profile, feet + a, b - a, material, owner, 14, tint=tint, body_share=share)

    def at(sideways_m: float, height_m: float, ahead: Array | float = 0.0) -> Array:
        return side * sideways_m + np.array([0.0, 0.0, height_m]) + ahead

    lean = forward * yard.uniform(-0.02, 0.08)
    for sign in (-1, 1):
        stride, swing = forward * yard.uniform(-0.18, 0.22), forward * yard.uniform(-0.1, 0.3)
        limb(at(0.10 * sign, 0.10, stride), at(0.1 * sign, 0.85), 0.065, 0.09, trousers, 0.35)
        limb(
            at(0.10 * sign, 0.05, stride - forward * 0.04),
            at(0.1 * sign, 0.05, stride + forward * 0.14),
            0.05,
            0.045,
            "dark",
            0.2,
        )
        limb(at(0.24 * sign, 1.40, lean), at(0.27 * sign, 1.12, swing * 0.3), 0.06, 0.05, jacket, 0.4)
        limb(at(0.27 * sign, 1.12, swing * 0.3), at(0.27 * sign, 0.88, swing), 0.05, 0.045, jacket, 0.4)
        limb(at(0.27 * sign, 0.84, swing), at(0.27 * sign, 0.76, swing), 0.045, 0.04, "skin", 0.8)
    limb(at(0, 0.90), at(0, 1.38, lean), 0.16, 0.19, jacket, 0.5)
    limb(at(0, 1.50, lean), at(0, 1.62, lean), 0.06, 0.095, "skin", 0.95)
    helmet = [(0.12, 1.63 * scale), (0.115, 1.68 * scale), (0.08, 1.75 * scale), (0.001, 1.78 * scale)]
    color = yard.pick("porcelain_white", "red", "sign_yellow")
    yard.mesh.revolve(helmet, feet + lean, (0, 0, 1), color, owner, 14, body_share=0.3)
    return owner
