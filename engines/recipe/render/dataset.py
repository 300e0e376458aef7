"""Writes the data set: one folder a split, files named by key, resumable and safe to run in shards.

    DIR/SPLIT/rgb/KEY.jpg       480 x 384, JPEG
    DIR/SPLIT/thermal/KEY.png   320 x 256, uint16 centikelvin, in the thermal camera's own geometry
    DIR/SPLIT/labels/KEY.json   boxes in pixels of the RGB frame, light, weather, and the homography

KEY is the world's seed, a number within the world, and the light, such as ``00012-0day``.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import cv2

from engines.recipe.pictures import write_picture
from engines.recipe.render.shoot import Pair, shoot_world, world_keys
from engines.recipe.world.scene import SPLIT_SEEDS

STOP_FILE = "STOP"
JPEG_QUALITY = 90


def write_pair(
    folder: Path, name: str, pair: Pair, jpeg_quality: int = JPEG_QUALITY, png_level: int = 6
) -> None:
    """Writes the three files of a pair; the label file comes last and marks the pair as complete."""
    for kind in ("rgb", "thermal", "labels"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    rgb, thermal = folder / "rgb" / f"{name}.jpg", folder / "thermal" / f"{name}.png"
    write_picture(rgb, pair.rgb[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, jpeg_quality])
    write_picture(thermal, pair.thermal, [cv2.IMWRITE_PNG_COMPRESSION, png_level])
    label = folder / "labels" / f"{name}.json"
    partial = label.with_suffix(".partial")
    partial.write_text(json.dumps(pair.to_record(), indent=1))
    partial.replace(label)


def write_dataset(
    out: Path, split: str, seeds: range, shard: int = 0, shards: int = 1, threads: int = 1
) -> int:
    """Renders the worlds of a split that are not there yet; returns how many pairs were written.

    A file named STOP in ``out`` ends the run after the world in work.

    Raises:
        ValueError: a seed lies outside the split.
    """
    allowed = SPLIT_SEEDS[split]
    if len(seeds) and (seeds[0] not in allowed or seeds[-1] not in allowed):
        raise ValueError(f"worlds {seeds} lie outside split {split}, which has seeds {allowed}")
    folder, written = out / split, 0
    for seed in seeds[shard::shards]:
        if (out / STOP_FILE).exists():
            print(f"stopped by {out / STOP_FILE}", flush=True)
            break
        keys = [key for key, _ in world_keys(seed)]
        if all((folder / "labels" / f"{key}.json").exists() for key in keys):
            continue
        start = time.perf_counter()
        for pair in shoot_world(seed, threads):
            write_pair(folder, pair.key, pair)
            written += 1
        print(f"{split} {seed:05d}: {time.perf_counter() - start:.1f} s for {len(keys)} pairs", flush=True)
    return written
