"""What surfaces are made of: how they look, and what they do with heat."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Material:
    """Optical and thermal constants of a surface.

    ``emissivity`` holds for 8-14 um, ``absorptivity`` for sunlight. ``locality`` is 1 where heat stays
    where it falls and 0 where the part spreads it. Source: handbook ranges for painted, galvanised and
    weathered parts, rounded.
    """

    color_rgb: tuple[float, float, float]
    roughness: float
    metallic: float
    emissivity: float
    absorptivity: float
    locality: float


MATERIALS: dict[str, Material] = {
    "paint_grey": Material((0.42, 0.45, 0.45), 0.45, 0.0, 0.92, 0.55, 0.6),
    "paint_green": Material((0.16, 0.22, 0.17), 0.50, 0.0, 0.93, 0.75, 0.6),
    "galvanised": Material((0.52, 0.54, 0.56), 0.45, 0.7, 0.55, 0.55, 0.45),
    "aluminium": Material((0.62, 0.63, 0.65), 0.35, 0.9, 0.42, 0.45, 0.15),
    "clamp": Material((0.50, 0.50, 0.51), 0.40, 0.85, 0.75, 0.50, 0.1),
    "porcelain_brown": Material((0.14, 0.05, 0.028), 0.18, 0.0, 0.92, 0.85, 0.5),
    "polymer_grey": Material((0.38, 0.41, 0.43), 0.20, 0.0, 0.92, 0.50, 0.5),
    "porcelain_white": Material((0.62, 0.62, 0.58), 0.25, 0.0, 0.92, 0.35, 0.5),
    "glass": Material((0.16, 0.32, 0.28), 0.08, 0.0, 0.90, 0.50, 0.5),
    "concrete": Material((0.36, 0.34, 0.31), 0.90, 0.0, 0.94, 0.65, 0.7),
    "wood": Material((0.17, 0.11, 0.07), 0.90, 0.0, 0.93, 0.80, 0.8),
    "leaf": Material((0.055, 0.105, 0.03), 0.80, 0.0, 0.97, 0.30, 0.3),
    "brick": Material((0.30, 0.14, 0.10), 0.90, 0.0, 0.94, 0.70, 0.8),
    "dark": Material((0.03, 0.03, 0.035), 0.50, 0.0, 0.93, 0.95, 0.7),
    "cloth": Material((0.05, 0.08, 0.25), 0.90, 0.0, 0.95, 0.60, 0.6),
    "hi_vis": Material((0.75, 0.35, 0.02), 0.90, 0.0, 0.95, 0.50, 0.6),
    "skin": Material((0.55, 0.33, 0.24), 0.60, 0.0, 0.98, 0.60, 0.2),
    "red": Material((0.45, 0.03, 0.02), 0.40, 0.0, 0.92, 0.60, 0.4),
    "sign_yellow": Material((0.70, 0.48, 0.03), 0.50, 0.0, 0.93, 0.45, 0.5),
}
