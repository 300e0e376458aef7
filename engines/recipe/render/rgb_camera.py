"""The RGB camera: automatic exposure, lens, sensor noise, white balance and tone curve."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from engines.recipe.render.conditions import Condition

ELECTRONS_PER_LUX = 30.0
FULL_WELL = 9000.0
WHITE_SHARE = 0.62
READ_NOISE = 3.0
MAX_GAIN = 24.0
Image = NDArray[np.float32]


@dataclass(frozen=True)
class RgbSettings:
    """Settings of one exposure. ``exposure`` is 1 at the longest shutter time; ``motion_px`` smears along
    ``motion_rad``; ``noise_share`` below 1 stands for noise reduction in the camera.
    """

    exposure: float
    gain: float
    blur_px: float
    motion_px: int = 0
    motion_rad: float = 0.0
    white_balance: NDArray[np.float64] = field(default_factory=lambda: np.ones(3))
    noise_share: float = 1.0

    def with_brightness(self, brightness: float) -> RgbSettings:
        """Returns settings with the product of exposure and gain set, shutter first, then gain up to its
        limit.
        """
        exposure = min(brightness, 1.0)
        return replace(
            self, exposure=exposure, gain=float(np.clip(brightness / max(exposure, 1e-9), 1.0, MAX_GAIN))
        )


def wanted_brightness(linear: Image, target: float = 0.2) -> float:
    """Meters a linear frame like an automatic exposure; returns exposure times gain."""
    light = np.maximum(linear, 0).mean(2) * np.pi * 1000 * ELECTRONS_PER_LUX
    middle = 0.5 * float(light.mean()) + 0.5 * float(np.percentile(light, 60))
    bright = float(np.percentile(light, 96))
    return float(min(target * FULL_WELL / max(middle, 1e-6), 0.75 * FULL_WELL / max(bright, 1e-6)))


def draw_settings(rng: np.random.Generator, linear: Image) -> RgbSettings:
    """Draws a photographer's settings for a frame.

    Slightly off exposure, focus, balance, and motion in low light.
    """
    brightness = wanted_brightness(linear, float(rng.uniform(0.16, 0.26)))
    dim = brightness >= 0.99
    blur_px = rng.uniform(0.2, 0.6) + (rng.exponential(0.35) if dim else 0.0)
    if rng.random() < 0.06:
        blur_px += rng.uniform(0.5, 1.3)
    motion = int(rng.integers(2, 8)) if brightness > 0.5 and rng.random() < 0.4 else 0
    balance = np.exp(rng.normal(0, 0.03, 3))
    base = RgbSettings(1.0, 1.0, float(min(blur_px, 1.8)), motion, float(rng.uniform(0, np.pi)), balance)
    return base.with_brightness(brightness)


def add_haze(linear: Image, depth_m: NDArray[np.float32], condition: Condition) -> Image:
    """Returns the frame with light scattered by fog or haze between camera and scene."""
    passed = np.exp(-condition.fog_per_m * np.minimum(depth_m, 400))[..., None]
    air_light = (condition.diffuse_klx + 0.15 * condition.direct_klx) / np.pi * 0.9
    result: Image = (linear * passed + (1 - passed) * air_light).astype(np.float32)
    return result


def _motion_kernel(length_px: int, angle_rad: float) -> Image:
    kernel = np.zeros((15, 15), np.float32)
    shift = np.array([np.cos(angle_rad), np.sin(angle_rad)]) * length_px / 2
    start, end = np.rint(7 - shift).astype(int).tolist(), np.rint(7 + shift).astype(int).tolist()
    cv2.line(kernel, start, end, 1.0)
    result: Image = kernel / kernel.sum()
    return result


def _rain(rng: np.random.Generator, shape_hw: tuple[int, int]) -> Image:
    height, width = shape_hw
    streaks = np.zeros(shape_hw, np.float32)
    for _ in range(220):
        x, y, length = int(rng.integers(0, width)), int(rng.integers(-20, height)), int(rng.integers(6, 24))
        cv2.line(streaks, (x, y), (x + 2, y + length), float(rng.uniform(0.05, 0.25)))
    return cv2.GaussianBlur(streaks, (0, 0), 0.7)


def _tone(values: Image) -> Image:
    """Shoulder for highlights, then the sRGB curve with its linear toe."""
    soft = values * (1 + values / 4.0) / (1 + values) * 1.6
    soft = np.clip(soft, 0, 1)
    return np.where(soft < 0.0031308, 12.92 * soft, 1.055 * soft ** (1 / 2.4) - 0.055).astype(np.float32)


def develop(
    linear: Image, settings: RgbSettings, condition: Condition, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Turns linear radiance into the camera's picture, RGB uint8.

    ``rng`` draws shot noise, read noise and rain.
    """
    height, width = linear.shape[:2]
    charge = np.maximum(linear, 0) * np.float32(np.pi * 1000 * ELECTRONS_PER_LUX * settings.exposure)
    charge = np.minimum(charge, FULL_WELL / max(settings.gain / 4, 1.0))
    charge = cv2.GaussianBlur(charge.astype(np.float32), (0, 0), max(settings.blur_px, 0.3))
    if settings.motion_px > 1:
        charge = cv2.filter2D(charge, -1, _motion_kernel(settings.motion_px, settings.motion_rad))
    row, column = np.mgrid[:height, :width]
    radius2 = ((column - width / 2) ** 2 + (row - height / 2) ** 2) / (width / 2) ** 2
    charge = charge * (1 - 0.15 * radius2)[..., None].astype(np.float32)
    coarse = cv2.resize(rng.normal(0, 1, (height // 2, width // 2, 3)).astype(np.float32), (width, height))
    noise = 0.6 * rng.normal(0, 1, linear.shape).astype(np.float32) + 0.5 * coarse
    scale = settings.gain / (FULL_WELL * WHITE_SHARE)
    deviation = np.sqrt(charge + READ_NOISE**2)
    values = (
        charge + settings.noise_share * deviation * noise - READ_NOISE * min(1.0, settings.gain / MAX_GAIN)
    ) * scale
    if condition.rain:
        values = values * 0.92 + _rain(rng, (height, width))[..., None] * max(
            0.01, 0.6 * float(values.mean())
        )
    values = np.maximum(values * settings.white_balance, 0)
    return (_tone(values) * 255 + 0.5).astype(np.uint8)
