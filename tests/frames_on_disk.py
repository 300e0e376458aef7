"""Small synthetic pairs for tests: smooth pictures that differ from frame to frame, in every file format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

SIZE_WH = (48, 32)
HOMOGRAPHY = [[1.5, 0.0, 2.0], [0.0, 1.5, 3.0], [0.0, 0.0, 1.0]]


def rgb_image(index: int, size_wh: tuple[int, int] = SIZE_WH) -> NDArray[np.uint8]:
    """A slope in red, another in green, the frame's number in blue."""
    width, height = size_wh
    image = np.zeros((height, width, 3), np.uint8)
    image[..., 0] = np.linspace(20, 220, width, dtype=np.uint8)
    image[..., 1] = np.linspace(10, 120, height, dtype=np.uint8)[:, None]
    image[..., 2] = 10 * (index % 20)
    return image


def thermal_image(index: int, size_wh: tuple[int, int] = SIZE_WH) -> NDArray[np.uint16]:
    """A slope about 20 degrees Celsius in centikelvin, with a hot spot that moves."""
    width, height = size_wh
    image = np.tile(np.linspace(29000, 29600, width, dtype=np.uint16), (height, 1))
    image[4:7, 3 + index % 20 : 6 + index % 20] = 33315
    return image


def write_pairs(
    folder: Path,
    keys: Sequence[str] = ("0", "1", "2", "10"),
    *,
    rgb: str = "rgb",
    thermal: str = "thermal",
    rgb_suffix: str = ".png",
    thermal_suffix: str = ".png",
    thermal_size_wh: tuple[int, int] = SIZE_WH,
) -> Path:
    """Writes a folder of pairs; pair n of `keys` holds `rgb_image(n)` and `thermal_image(n)`."""
    for sub in (rgb, thermal):
        (folder / sub).mkdir(parents=True, exist_ok=True)
    for index, key in enumerate(keys):
        write_image(folder / rgb / f"{key}{rgb_suffix}", rgb_image(index)[..., ::-1])
        write_image(folder / thermal / f"{key}{thermal_suffix}", thermal_image(index, thermal_size_wh))
    return folder


def write_image(path: Path, image: NDArray[Any]) -> Path:
    """Writes an array (colour: blue first) in the format of the suffix."""
    done, encoded = cv2.imencode(path.suffix, image)
    assert done
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded.tobytes())
    return path


def write_clip(clips: Path, name: str = "toy", count: int = 4) -> Path:
    """Writes a clip as the package ships them, with label files."""
    keys = [f"{index:03d}" for index in range(count)]
    folder = write_pairs(clips / name, keys, rgb_suffix=".jpg", thermal_size_wh=(32, 24))
    about = {
        "name": name,
        "frames": count,
        "fps": 10,
        "rgb_size_wh": list(SIZE_WH),
        "thermal_size_wh": [32, 24],
        "thermal_unit": "centikelvin",
        "homography_thermal_to_rgb": HOMOGRAPHY,
        "classes": ["insulator", "hotspot"],
        "seed": 7,
        "licence": "CC0-1.0",
    }
    (folder / "clip.json").write_text(json.dumps(about))
    (folder / "labels").mkdir()
    for key in keys:
        write_label(folder, key)
    return folder


def write_label(folder: Path, key: str, **more: object) -> Path:
    """Writes a label file of one hot spot."""
    label = {
        "class": "hotspot",
        "box_xyxy": [3.0, 4.0, 6.0, 7.0],
        "rgb_visible": False,
        "thermal_visible": True,
        "delta_k": 38.5,
    }
    path = folder / "labels" / f"{key}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"key": key, "light": "day", "labels": [label], **more}))
    return path


def write_rgb_video(path: Path, count: int, *, fps: float = 10.0, codec: str = "MJPG") -> Path:
    """Writes `rgb_image(0 ...)` as a video."""
    video = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, cv2.VideoWriter.fourcc(*codec), fps, SIZE_WH)
    assert video.isOpened()
    for index in range(count):
        video.write(np.ascontiguousarray(rgb_image(index)[..., ::-1]))
    video.release()
    return path


def write_thermal_video(path: Path, count: int, *, fps: float = 10.0) -> Path:
    """Writes `thermal_image(0 ...)` as FFV1 gray16le."""
    options = [cv2.VIDEOWRITER_PROP_DEPTH, cv2.CV_16U, cv2.VIDEOWRITER_PROP_IS_COLOR, 0]
    codec = cv2.VideoWriter.fourcc(*"FFV1")
    video = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, codec, fps, SIZE_WH, options)
    assert video.isOpened()
    for index in range(count):
        video.write(thermal_image(index))
    video.release()
    return path
