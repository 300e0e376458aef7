"""The yard under construction.

Mesh builder, style of this substation, and the joints where faults may sit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from engines.recipe.world.mesh import MeshBuilder
from engines.recipe.world.noise import ValueNoise
from engines.recipe.world.vectors import Array, unit, yaw_rotation

Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Joint:
    """A bolted or clamped contact that carries current."""

    position: Array
    object_id: int


@dataclass(frozen=True)
class Focus:
    """Something worth a picture: a point, and the horizontal direction it is best seen from."""

    point: Array
    facing: Array


@dataclass(frozen=True)
class Style:
    """What the parts of one substation have in common."""

    paint: str
    steel: str
    insulator: str
    tint: float
    load_rise_k: float


@dataclass(frozen=True)
class Placement:
    """Local to world coordinates of a piece of equipment.

    A turn about the vertical, then a shift on the ground.
    """

    x_m: float
    y_m: float
    yaw_rad: float

    @property
    def rotation(self) -> Array:
        """The rotation matrix."""
        return yaw_rotation(self.yaw_rad)

    def point(self, local: ArrayLike) -> Array:
        """Returns a local point in world coordinates."""
        return self.rotation @ np.asarray(local, dtype=np.float64) + [self.x_m, self.y_m, 0.0]

    def direction(self, local: ArrayLike) -> Array:
        """Returns a local direction in world coordinates."""
        return self.rotation @ np.asarray(local, dtype=np.float64)


@dataclass
class Yard:
    """Everything the equipment functions need and add to."""

    rng: np.random.Generator
    mesh: MeshBuilder
    noise: ValueNoise
    style: Style
    joints: list[Joint] = field(default_factory=list)
    focuses: list[Focus] = field(default_factory=list)

    def uniform(self, low: float, high: float) -> float:
        """Draws from an interval."""
        return float(self.rng.uniform(low, high))

    def chance(self, probability: float) -> bool:
        """Draws true with the probability."""
        return bool(self.rng.random() < probability)

    def pick(self, *options: Choice) -> Choice:
        """Draws one of the options; list one twice to make it likelier."""
        return options[int(self.rng.integers(len(options)))]

    def add_focus(self, point: ArrayLike, facing: ArrayLike) -> None:
        """Registers a point worth a picture."""
        self.focuses.append(Focus(np.asarray(point, dtype=np.float64), unit(facing)))


def new_yard(rng: np.random.Generator) -> Yard:
    """Draws the style of a substation and returns an empty yard."""
    steels = ("paint_grey", "paint_grey", "galvanised", "paint_green")
    insulators = ("porcelain_brown", "porcelain_brown", "polymer_grey", "porcelain_white", "glass")
    style = Style(
        paint=str(rng.choice(["paint_grey", "paint_grey", "paint_green"])),
        steel=steels[int(rng.integers(len(steels)))],
        insulator=insulators[int(rng.integers(len(insulators)))],
        tint=float(rng.uniform(0.8, 1.25)),
        load_rise_k=float(rng.uniform(0.0, 6.0)),
    )
    return Yard(rng, MeshBuilder(), ValueNoise(rng), style)
