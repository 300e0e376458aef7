"""What the thermal camera sees.

Surface temperatures from a heat balance, then radiance, then the camera itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from engines.recipe.render.conditions import Condition
from engines.recipe.render.rig import THERMAL_SIZE_WH, PlacedRig, pixel_rays
from engines.recipe.render.sky import Sky
from engines.recipe.render.tracer import FAR_M, GROUND_HALF_M, GROUND_REPEATS, GROUND_TEXELS, Hits, Tracer
from engines.recipe.world.mesh import SURFACE_COLUMNS

SUPERSAMPLING = 2
BODY_C = 34.0
DIRECT_W_M2_PER_KLX, DIFFUSE_W_M2_PER_KLX = 9.5, 8.3
CLEAR_NIGHT_LOSS_W_M2 = 62.0
RADIANCE_EXPONENT = 4.6
ZERO_C_K = 273.15
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PastLight:
    """The light of one moment that still warms the surfaces, with its share in the thermal memory."""

    condition: Condition
    share: float


def recent_hour(condition: Condition) -> list[PastLight]:
    """Returns the memory of surfaces under steady weather: four moments of the last hour, fading."""
    if condition.sun_elevation_deg < -3:
        return [PastLight(condition, 1.0)]
    return [
        PastLight(condition.earlier(minutes), share)
        for minutes, share in ((3, 0.4), (15, 0.28), (35, 0.2), (60, 0.12))
    ]


@dataclass
class ThermalView:
    """Everything of a thermal frame that light and weather do not change: the hits and the mirrored hits."""

    directions: Floats
    points: Floats
    hits: Hits
    facing: Floats
    mirrored: Floats
    mirrored_points: Floats
    mirrored_hits: Hits


def look(tracer: Tracer, placed: PlacedRig) -> ThermalView:
    """Casts the rays of a thermal frame and one mirrored ray for each."""
    directions, _ = pixel_rays(
        placed.rig.thermal_matrix, placed.thermal_rotation, THERMAL_SIZE_WH, SUPERSAMPLING
    )
    hits = tracer.cast(placed.thermal_eye, directions)
    points = placed.thermal_eye + directions * hits.distance_m[:, None]
    along = (hits.normal * directions).sum(1)
    outward = np.where(along[:, None] > 0, -hits.normal, hits.normal)
    mirrored = directions + 2 * np.abs(along)[:, None] * outward
    mirrored_hits = tracer.cast(points + outward * 0.004, mirrored)
    reach = np.minimum(mirrored_hits.distance_m, 200)[:, None]
    facing = np.clip(np.abs(along), 0.02, 1)
    return ThermalView(directions, points, hits, facing, mirrored, points + mirrored * reach, mirrored_hits)


def _column(hits: Hits, name: str) -> NDArray[np.float32]:
    return hits.surface[:, SURFACE_COLUMNS.index(name)]


def _ground_absorptivity(tracer: Tracer, points: Floats) -> NDArray[np.float32]:
    share = (points[:, :2] / GROUND_HALF_M * 0.5 + 0.5) * GROUND_REPEATS % 1
    column, row = (share * (GROUND_TEXELS - 1)).astype(np.int64).T
    return 1 - tracer.ground[row, column].mean(1)


def surface_c(
    tracer: Tracer, hits: Hits, points: Floats, memory: Sequence[PastLight], shadows: bool = True
) -> tuple[Floats, Floats]:
    """Returns surface temperature without any fault, Celsius, and emissivity, one each a ray.

    Sunlight (shadowed, remembered), loss to the sky, and wind make the balance; load, oil and body heat
    come on top. Wet surfaces lose more, keep nearer to the air, and emit more evenly.
    """
    now = memory[0].condition
    mesh, ground = hits.on_mesh, _ground_absorptivity(tracer, points)
    absorptivity = np.where(mesh, _column(hits, "absorptivity"), ground)
    locality = np.where(mesh, _column(hits, "locality"), 0.8)
    emissivity = np.where(mesh, _column(hits, "emissivity"), 0.95)
    emissivity = emissivity + now.wetness * 0.5 * np.maximum(0.95 - emissivity, 0)
    upward = 0.5 + 0.5 * hits.normal[:, 2]
    heat = np.zeros(len(points))
    for past in memory:
        condition = past.condition
        direct = condition.direct_klx * DIRECT_W_M2_PER_KLX
        diffuse = condition.diffuse_klx * DIFFUSE_W_M2_PER_KLX
        if direct > 1 and shadows:
            sun = condition.sun_direction()
            slant = np.maximum(hits.normal @ sun, 0)
            slant *= tracer.lit(points + hits.normal * 0.004, sun)
        else:
            slant = np.full(len(points), 0.3)
        local = direct * slant + diffuse * upward
        spread = 0.28 * direct + 0.5 * diffuse
        heat += past.share * absorptivity * (locality * local + (1 - locality) * spread)
    clear = 1 - 0.8 * now.cloud
    heat -= emissivity * clear * CLEAR_NIGHT_LOSS_W_M2 * upward * np.where(locality > 0.3, 1, 0.6)
    exchange = (14 + 4.5 * now.wind_m_s) * (1 + 0.8 * now.wetness)
    result = now.ambient_c + heat / exchange - now.wetness * 1.2
    result += np.where(
        mesh, _column(hits, "load_rise_k") * now.load_share, now.ground_offset_k + 3.5 * (ground - 0.8)
    )
    result += _column(hits, "body_share") * max(2.0, BODY_C - now.ambient_c)
    return result, emissivity


def _radiance(temperature_c: Floats) -> Floats:
    result: Floats = ((temperature_c + ZERO_C_K) / 300.0) ** RADIANCE_EXPONENT
    return result


def apparent_c(
    tracer: Tracer, view: ThermalView, memory: Sequence[PastLight], sky: Sky
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns two ideal frames in Celsius, shape (256, 320): as the world is, and as it would be without
    its faults.

    Source: radiance as a power of temperature; exponent 4.6 fits Planck's law over 8-14 um within 4 % from
    260 to 340 K.
    """
    now = memory[0].condition
    healthy, emissivity = surface_c(tracer, view.hits, view.points, memory)
    emissivity = emissivity * (1 - 0.8 * (1 - view.facing) ** 5)
    other, _ = surface_c(tracer, view.mirrored_hits, view.mirrored_points, memory, shadows=False)
    mirrored = np.where(
        view.mirrored_hits.valid, _radiance(other), _radiance(sky.thermal_k(view.mirrored, now) - ZERO_C_K)
    )
    behind = _radiance(sky.thermal_k(view.directions, now) - ZERO_C_K)
    passed = np.exp(-view.hits.distance_m * (0.0008 + 0.3 * now.fog_per_m))
    passed = np.where(view.hits.distance_m < FAR_M, passed, np.exp(-60 * 0.3 * now.fog_per_m))
    air = _radiance(np.array([now.ambient_c]))
    frames = []
    for surface in (healthy + _column(view.hits, "fault_rise_k"), healthy):
        radiance = np.where(
            view.hits.valid, emissivity * _radiance(surface) + (1 - emissivity) * mirrored, behind
        )
        radiance = passed * radiance + (1 - passed) * air
        width, height = THERMAL_SIZE_WH
        pixels = radiance.reshape(height, SUPERSAMPLING, width, SUPERSAMPLING).mean((1, 3))
        frames.append((300.0 * pixels ** (1 / RADIANCE_EXPONENT) - ZERO_C_K).astype(np.float32))
    return frames[0], frames[1]


@dataclass(frozen=True)
class ThermalCamera:
    """A microbolometer camera with its own blur, noise and patterns.

    Uncooled, so offsets of half a kelvin are usual.
    """

    blur_px: float
    netd_k: float
    pattern_k: NDArray[np.float32]
    vignetting_k: float
    offset_k: float
    step_centikelvin: int = 1

    def expose(self, ideal_c: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.uint16]:
        """Returns what the camera puts out for an ideal frame: centikelvin, uint16."""
        height, width = ideal_c.shape
        image = cv2.GaussianBlur(ideal_c, (0, 0), self.blur_px)
        row, column = np.mgrid[:height, :width]
        radius2 = ((column - width / 2) ** 2 + (row - height / 2) ** 2) / (width / 2) ** 2
        image = image + self.pattern_k + self.vignetting_k * radius2 + self.offset_k
        image = image + rng.normal(0, self.netd_k, image.shape)
        steps = np.rint((image + ZERO_C_K) * 100 / self.step_centikelvin)
        return np.clip(steps * self.step_centikelvin, 0, 65535).astype(np.uint16)

    def drifted(self, offset_k: float) -> ThermalCamera:
        """Returns the same camera with another offset, as after a shutter event."""
        return replace(self, offset_k=offset_k)


def draw_thermal_camera(rng: np.random.Generator) -> ThermalCamera:
    """Draws a camera: about 50 mK of noise, a column pattern, mild vignetting."""
    width, height = THERMAL_SIZE_WH
    pattern = rng.normal(0, 0.06, (1, width)) + rng.normal(0, 0.02, (height, width))
    return ThermalCamera(
        float(rng.uniform(0.45, 0.8)),
        float(rng.uniform(0.04, 0.06)),
        pattern.astype(np.float32),
        float(rng.normal(0, 0.35)),
        float(rng.normal(0, 0.5)),
    )
