"""The pair of cameras: intrinsics, relative pose, and the homography that registers thermal to RGB on a
plane.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from engines.recipe.world.scene import CameraPose
from engines.recipe.world.vectors import Array

RGB_SIZE_WH = (480, 384)
THERMAL_SIZE_WH = (320, 256)


def intrinsics(size_wh: tuple[int, int], horizontal_fov_deg: float) -> Array:
    """Returns a pinhole matrix with square pixels and the centre in the middle.

    Pixel centres lie at halves.
    """
    width, height = size_wh
    focal_px = width / 2 / np.tan(np.radians(horizontal_fov_deg / 2))
    return np.array([[focal_px, 0, width / 2], [0, focal_px, height / 2], [0, 0, 1.0]])


def pixel_rays(matrix: Array, rotation: Array, size_wh: tuple[int, int], samples: int) -> tuple[Array, Array]:
    """Returns unit directions in the world (n, 3), ``samples`` squared a pixel, and distance over depth
    (n,).
    """
    width, height = size_wh
    x, y = np.meshgrid(
        (np.arange(width * samples) + 0.5) / samples, (np.arange(height * samples) + 0.5) / samples
    )
    focal, center_x, center_y = matrix[0, 0], matrix[0, 2], matrix[1, 2]
    local = np.stack([(x - center_x) / focal, (y - center_y) / focal, np.ones_like(x)], -1).reshape(-1, 3)
    stretch = np.linalg.norm(local, axis=1)
    return (local / stretch[:, None]) @ rotation.T, stretch


@dataclass(frozen=True)
class Rig:
    """How the two cameras of one device are built; it stays the same while the device moves."""

    rgb_matrix: Array
    thermal_matrix: Array
    offset_m: Array
    misalignment: Array

    def place(self, pose: CameraPose) -> PlacedRig:
        """Returns the rig standing at a pose, registered for the plane through the pose's target."""
        rotation = pose.axes()
        depth_m = float((pose.target - pose.eye) @ rotation[:, 2])
        normal = np.array([0.0, 0.0, 1.0])
        plane = self.misalignment + np.outer(self.offset_m, normal) / depth_m
        centers = np.array([[1, 0, -0.5], [0, 1, -0.5], [0, 0, 1.0]])
        homography = self.rgb_matrix @ plane @ np.linalg.inv(self.thermal_matrix)
        homography = centers @ homography @ np.linalg.inv(centers)
        return PlacedRig(
            self,
            pose.eye,
            rotation,
            pose.eye + rotation @ self.offset_m,
            rotation @ self.misalignment,
            homography / homography[2, 2],
            depth_m,
        )


@dataclass(frozen=True)
class PlacedRig:
    """Both cameras in the world.

    ``homography`` maps thermal pixels to RGB pixels for things ``plane_depth_m`` away. As in OpenCV, whole
    numbers are the centres of pixels, so ``cv2.warpPerspective`` takes it as it is.
    """

    rig: Rig
    rgb_eye: Array
    rgb_rotation: Array
    thermal_eye: Array
    thermal_rotation: Array
    homography: Array
    plane_depth_m: float

    def register(self, thermal_image: NDArray[np.float32]) -> NDArray[np.float32]:
        """Resamples a thermal image into the RGB frame. Copies: the result is new."""
        edge = cv2.BORDER_REPLICATE
        return cv2.warpPerspective(
            thermal_image, self.homography, RGB_SIZE_WH, flags=cv2.INTER_LINEAR, borderMode=edge
        )


def draw_rig(rng: np.random.Generator) -> Rig:
    """Draws a device: RGB about 48 degrees, thermal about 54 and 4 cm beside it, a few milliradians off."""
    offset = np.array([0.04 + rng.normal(0, 0.001), rng.normal(0, 0.002), rng.normal(0, 0.003)])
    turn, _ = cv2.Rodrigues(rng.normal(0, 0.003, 3))
    rgb = intrinsics(RGB_SIZE_WH, float(rng.normal(48.0, 0.2)))
    return Rig(rgb, intrinsics(THERMAL_SIZE_WH, float(rng.normal(54.0, 0.2))), offset, turn)
