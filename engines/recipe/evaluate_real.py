"""Measures hot spots on real frames that training never saw, and how the screen behaves there.

    python -m engines.recipe.evaluate_real --bundle engines/substation-rgbt --data substation-real

The frames are an inspection camera's, 384x288, both pictures registered, heat in counts of no known
unit. Nothing is tuned on them. Their labels are incomplete: precision reads lower than it is.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from edge_sdk.frames import Registration, ThermalUnit
from engines.recipe.frames import crops_of
from engines.recipe.metrics import average_precision, match
from engines.recipe.pictures import read_picture
from engines.recipe.routes import ROUTES, Runner, candidates
from engines.recipe.train.data import Crop, Labels, Pair
from engines.recipe.train.net import CLASSES

__all__ = ["evaluate_real", "read_real_pairs"]

HOTSPOT = CLASSES.index("hotspot")


def read_real_pairs(folder: Path) -> tuple[list[Pair], dict[str, dict[str, Any]]]:
    """Reads the pairs and what the index says of each. Unlabelled near-duplicates are left out."""
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    entries = index if isinstance(index, dict) else {str(item["key"]): item for item in index}
    entries = entries.get("pairs", entries)
    if isinstance(entries, list):
        entries = {str(item["key"]): item for item in entries}
    pairs = [
        _read_pair(folder, key)
        for key, entry in sorted(entries.items())
        if not entry.get("ambiguous_negative")
    ]
    return pairs, entries


def _read_pair(folder: Path, key: str) -> Pair:
    bgr = read_picture(folder / "rgb" / f"{key}.jpg", cv2.IMREAD_COLOR)
    thermal = read_picture(folder / "ir16" / f"{key}.png", cv2.IMREAD_UNCHANGED)
    height, width = thermal.shape
    file = folder / "labels" / f"{key}.txt"
    rows = [line.split() for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
    centres = np.array([[float(value) for value in row[1:5]] for row in rows if row], np.float32).reshape(
        -1, 4
    )
    half = centres[:, 2:] / 2
    boxes = np.concatenate((centres[:, :2] - half, centres[:, :2] + half), axis=1)
    boxes *= np.array([width, height] * 2, np.float32)
    count = len(boxes)
    labels = Labels(boxes, np.full(count, HOTSPOT), np.zeros(count, bool), np.ones(count, bool))
    rgb = np.ascontiguousarray(bgr[:, :, ::-1]).astype(np.uint8)
    registration = Registration.identity((width, height), "registered")
    return Pair(key, "real", rgb, thermal, registration, labels, 0.0, ThermalUnit.COUNTS)


def evaluate_real(folder: Path, data: Path, precision: str = "int8") -> dict[str, Any]:
    """Evaluates thermal and fuse on the real frames.

    Arguments:
        folder: a bundle's or a build's.
        data: the folder of real pairs.
        precision: "int8" or "fp32".
    """
    pairs, entries = read_real_pairs(data)
    runner = Runner(folder, precision)
    crops = list(crops_of(pairs))
    outputs = list(runner.run_all(crops))
    logits = np.array([runner.screen(crop) for crop in crops])
    hot = np.array([len(pair.labels.boxes) > 0 for pair in pairs])
    standard = np.array([bool(entries[pair.key].get("standard_lens")) for pair in pairs])
    report: dict[str, Any] = {
        "precision": precision,
        "pairs": len(pairs),
        "pairs_with_hot_spot": int(hot.sum()),
    }
    for name, picked in (("all", np.ones(len(pairs), bool)), ("standard_lens", standard)):
        chosen = np.flatnonzero(picked)
        report[name] = {
            route: {
                f"ap{round(100 * iou)}": _precision(
                    [candidates(outputs[i][route]) for i in chosen], [crops[i] for i in chosen], iou
                )
                for iou in (0.3, 0.5)
            }
            for route in ROUTES
        }
    report["screen"] = {
        f"{threshold:.3f}": {
            "recall_of_hot_frames": round(float((_sigmoid(logits[hot]) >= threshold).mean()), 4),
            "fires_on_others": round(float((_sigmoid(logits[~hot]) >= threshold).mean()), 4),
        }
        for threshold in _thresholds(folder)
    }
    return report


def _thresholds(folder: Path) -> list[float]:
    """The threshold that the gate was calibrated to, and some around it."""
    file = folder / "gate.json"
    own = [float(json.loads(file.read_text())["gate"]["screen_score_min"])] if file.exists() else []
    return sorted({*own, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5})


def _precision(found: Sequence[Any], crops: Sequence[Crop], iou: float) -> float | None:
    value = average_precision(match(found, [crop.labels for crop in crops], HOTSPOT, iou))
    return None if value is None else round(value, 4)


def _sigmoid(logits: Any) -> Any:
    return 1 / (1 + np.exp(-np.asarray(logits)))


def main(arguments: list[str] | None = None) -> None:
    """Reads the command line, evaluates and prints."""
    parser = argparse.ArgumentParser(prog="python -m engines.recipe.evaluate_real", description=__doc__)
    parser.add_argument("--bundle", type=Path, required=True, help="a bundle's folder, or a build's")
    parser.add_argument("--data", type=Path, required=True, help="folder of the real pairs")
    parser.add_argument("--precision", default="int8", choices=("int8", "fp32"))
    parser.add_argument("--json", type=Path, help="where the report goes")
    options = parser.parse_args(arguments)
    if not (options.data / "index.json").exists():
        raise SystemExit(f"{options.data}: no real pairs there (index.json is missing); nothing measured")
    report = evaluate_real(options.bundle, options.data, options.precision)
    print(json.dumps(report, indent=1))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
