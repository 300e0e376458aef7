"""Filters the grain of few path-tracing samples, guided by the geometry behind each pixel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engines.recipe.render.rig import RGB_SIZE_WH
from engines.recipe.render.tracer import Hits
from engines.recipe.world.mesh import Mesh

REACH_PX = 3
NORMAL_SHARPNESS = 24.0
DARKEST_ALBEDO = 0.03
Floats = NDArray[np.float32]


class GrainFilter:
    """Averages light (radiance over albedo) among neighbours on the same part with like normals.

    The weights depend on the pose alone, so they are computed once and serve every light. Ground, leaves
    and pixels at the edge of a part are left as they are: texture hides the grain there, and edges keep
    their anti-aliasing.
    """

    def __init__(self, mesh: Mesh, hits: Hits) -> None:
        width, height = RGB_SIZE_WH
        owner = hits.object_id.reshape(height, width)
        corners = mesh.faces[hits.face]
        albedo = mesh.color_rgb[corners].mean(1).reshape(height, width, 3)
        self._albedo = np.where((owner >= 0)[..., None], np.maximum(albedo, DARKEST_ALBEDO), 1).astype(
            np.float32
        )
        inside = (owner >= 0) & ~np.isin(owner, mesh.objects_of("tree", "horizon", "fence"))
        for axis in (0, 1):
            for step in (-1, 1):
                inside &= np.roll(owner, step, axis) == owner
        normal = hits.normal.reshape(height, width, 3)
        self._steps: list[tuple[int, int, Floats]] = []
        total = np.ones((height, width), np.float32)
        for down in range(-REACH_PX, REACH_PX + 1):
            for right in range(-REACH_PX, REACH_PX + 1):
                if (down, right) == (0, 0) or down**2 + right**2 > REACH_PX**2 + 1:
                    continue
                same = (
                    inside
                    & np.roll(inside, (down, right), (0, 1))
                    & (np.roll(owner, (down, right), (0, 1)) == owner)
                )
                alike = (normal * np.roll(normal, (down, right), (0, 1))).sum(-1)
                weight = same * np.exp(np.minimum(NORMAL_SHARPNESS * (alike - 1), 0)).astype(np.float32)
                self._steps.append((down, right, weight.astype(np.float32)))
                total += weight
        self._scale = (1 / total)[..., None]

    def apply(self, linear: Floats) -> Floats:
        """Returns the filtered frame. Copies: the input stays as it is."""
        light = linear / self._albedo
        result = light.copy()
        for down, right, weight in self._steps:
            result += weight[..., None] * np.roll(light, (down, right), (0, 1))
        filtered: Floats = result * self._scale * self._albedo
        return filtered
