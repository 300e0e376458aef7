"""The sky: how bright it is in each direction for the RGB camera, and how cold for the thermal one."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from engines.recipe.render.conditions import Condition

ROWS, COLUMNS = 128, 512
CLEAR_ZENITH_DROP_K = 48.0
XYZ_TO_RGB = np.array([[3.2406, -1.5372, -0.4986], [-0.9689, 1.8758, 0.0415], [0.0557, -0.2040, 1.0570]])
PEREZ = {
    "Y": ([0.1787, -0.3554, -0.0227, 0.1206, -0.0670], [-1.4630, 0.4275, 5.3251, -2.5771, 0.3703]),
    "x": ([-0.0193, -0.0665, -0.0004, -0.0641, -0.0033], [-0.2592, 0.0008, 0.2125, -0.8989, 0.0452]),
    "y": ([-0.0167, -0.0950, -0.0079, -0.0441, -0.0109], [-0.2608, 0.0092, 0.2102, -1.6537, 0.0529]),
}
ZENITH_X = [
    [0.00166, -0.00375, 0.00209, 0.0],
    [-0.02903, 0.06377, -0.03202, 0.00394],
    [0.11693, -0.21196, 0.06052, 0.25886],
]
ZENITH_Y = [
    [0.00275, -0.00610, 0.00317, 0.0],
    [-0.04214, 0.08970, -0.04153, 0.00516],
    [0.15346, -0.26756, 0.06670, 0.26688],
]


@dataclass(frozen=True)
class Sky:
    """``radiance`` is an equirectangular map of both hemispheres (256, 512, 3).

    ``cloud`` covers the upper one (128, 512).
    """

    radiance: NDArray[np.float32]
    cloud: NDArray[np.float32]

    def thermal_k(self, directions: NDArray[np.float64], condition: Condition) -> NDArray[np.float64]:
        """Returns the apparent sky temperature, kelvin.

        Near air temperature at the horizon, coldest at the clear zenith.
        """
        azimuth = (np.arctan2(directions[:, 0], directions[:, 1]) / (2 * np.pi)) % 1
        column = ((azimuth * COLUMNS) % COLUMNS).astype(np.float32)
        angle = np.arccos(np.clip(directions[:, 2], -1, 1)) / (np.pi / 2)
        row = np.clip(angle * ROWS - 0.5, 0, ROWS - 1).astype(np.float32)
        wrapped = np.concatenate([self.cloud, self.cloud[:, :2]], 1)
        cover = cv2.remap(wrapped, column.reshape(-1, 64), row.reshape(-1, 64), cv2.INTER_LINEAR).ravel()
        height = np.clip(directions[:, 2], 0, 1) ** 0.6
        return condition.ambient_c + 273.15 - 2 - CLEAR_ZENITH_DROP_K * (1 - 0.85 * cover) * height


def clear_sky(turbidity: float, sun_elevation_deg: float) -> NDArray[np.float64]:
    """Returns the relative radiance of a clear sky (128, 512, 3), sun at column 0.

    Source: Preetham, Shirley, Smits, "A Practical Analytic Model for Daylight", 1999, appendix A.2.
    """
    sun_zenith = np.radians(90 - max(sun_elevation_deg, 1.5))
    theta = ((np.arange(ROWS) + 0.5) / ROWS * np.pi / 2)[:, None]
    azimuth = ((np.arange(COLUMNS) + 0.5) / COLUMNS * 2 * np.pi)[None]
    cos_gamma = np.sin(theta) * np.sin(sun_zenith) * np.cos(azimuth) + np.cos(theta) * np.cos(sun_zenith)
    gamma = np.arccos(np.clip(cos_gamma, -1, 1))

    def perez(name: str) -> NDArray[np.float64]:
        a, b, c, d, e = (np.array(PEREZ[name][0]) * turbidity + PEREZ[name][1]).tolist()
        value = (1 + a * np.exp(b / np.maximum(np.cos(theta), 0.02))) * (
            1 + c * np.exp(d * gamma) + e * np.cos(gamma) ** 2
        )
        zenith = (1 + a * np.exp(b)) * (1 + c * np.exp(d * sun_zenith) + e * np.cos(sun_zenith) ** 2)
        result: NDArray[np.float64] = value / zenith
        return result

    powers = np.array([sun_zenith**3, sun_zenith**2, sun_zenith, 1.0])
    x = float(np.array([turbidity**2, turbidity, 1]) @ np.array(ZENITH_X) @ powers) * perez("x")
    y = float(np.array([turbidity**2, turbidity, 1]) @ np.array(ZENITH_Y) @ powers) * perez("y")
    luminance = np.maximum(perez("Y"), 0.01)
    xyz = np.stack([x / y * luminance, luminance, (1 - x - y) / y * luminance], -1)
    return np.clip(xyz @ XYZ_TO_RGB.T, 0.001, None)


def _cloud_cover(condition: Condition) -> NDArray[np.float32]:
    rng = np.random.default_rng(condition.cloud_seed)
    theta = ((np.arange(ROWS) + 0.5) / ROWS * np.pi / 2)[:, None]
    azimuth = ((np.arange(COLUMNS) + 0.5) / COLUMNS * 2 * np.pi)[None]
    distance = np.tan(np.minimum(theta, 1.45)) * 1.3
    x, y = np.sin(azimuth) * distance, np.cos(azimuth) * distance
    field = np.zeros((ROWS, COLUMNS), np.float32)
    for octave in range(5):
        tiled = np.pad(rng.random((64, 64)).astype(np.float32), 4, mode="wrap")
        grid = cv2.GaussianBlur(tiled, (0, 0), 0.8)
        column = ((x * 2**octave + 11 * octave) % 64 + 4).astype(np.float32)
        row = ((y * 2**octave + 5 * octave) % 64 + 4).astype(np.float32)
        field += cv2.remap(grid, column, row, cv2.INTER_LINEAR) * np.float32(0.55**octave)
    field = (field - field.mean()) / field.std()
    if condition.cloud < 0.02:
        return np.zeros_like(field)
    return np.clip((field - (1.1 - 2.6 * condition.cloud)) * 0.9, 0, 1)


def make_sky(condition: Condition) -> Sky:
    """Builds the sky of a condition, scaled so that its light on the horizontal is the condition's
    ``diffuse_klx``.
    """
    clear = clear_sky(condition.turbidity, condition.sun_elevation_deg)
    if condition.sun_elevation_deg < -6:
        clear = clear.mean(2, keepdims=True) ** 0.3 * np.array([0.9, 0.95, 1.1])
    cover = _cloud_cover(condition)
    soft = cv2.GaussianBlur(cover, (0, 0), 1.0)[..., None]
    brightness = clear.mean(2, keepdims=True)
    grey = np.array([1.0, 0.99, 0.97]) * (brightness.mean() * 1.2 + 0.3 * brightness) * (1.15 - 0.35 * soft)
    dome = clear * (1 - soft) + grey * soft
    theta = ((np.arange(ROWS) + 0.5) / ROWS * np.pi / 2)[:, None]
    weight = np.cos(theta) * np.sin(theta) * (np.pi / 2 / ROWS) * (2 * np.pi / COLUMNS)
    dome *= condition.diffuse_klx / (dome.mean(2) * weight).sum()
    below = np.full((ROWS, COLUMNS, 3), 0.12 * condition.diffuse_klx / np.pi)
    shift = round(condition.sun_azimuth_deg / 360 * COLUMNS)
    radiance = np.roll(np.concatenate([dome, below]), shift, axis=1).astype(np.float32)
    return Sky(radiance, np.roll(cover, shift, axis=1).astype(np.float32))
