"""Calibrates scores and gate on the validation split and writes what the manifest takes over.

python -m engines.recipe.gate --build build --data data/val
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibration.gate import (
    FrameCounts,
    area_under_curve,
    choose_darkness,
    choose_rule,
    fit_scores,
    threshold_for_recall,
)
from edge_sdk.postprocess import Candidates, decode_grid, suppress
from edge_sdk.radiometry import KELVIN_PER_CENTIKELVIN
from edge_sdk.routing import GateConfig, hot_delta_counts, look_at_rgb
from engines.recipe.frames import crops_of
from engines.recipe.metrics import match
from engines.recipe.routes import ROUTES, Outputs, Runner, candidates
from engines.recipe.train.data import Crop, Labels, Pair, read_pairs
from engines.recipe.train.net import CLASSES, STRIDE_PX

__all__ = ["calibrate"]

SCORE_MIN = 0.3
SCREEN_RECALL_MIN = 0.995
HOT_DELTA_K = 5.0
_SCREEN_MARGIN = 0.5
"""Taken off the screen's threshold, in logits."""

_SURE_FIRE_SHARE = 0.05
"""Share of frames without a hot spot on which the plain rise in kelvin may fire: it stands in for a
screen that fails, and a scene's own contrast (sky, sun, people) is of the same size as a hot spot's."""

_RGB_CLASSES = tuple(CLASSES.index(name) for name in ("insulator", "corrosion", "person"))

Calibration = dict[str, dict[str, tuple[float, float]]]


def calibrate(folder: Path, data: Path) -> dict[str, Any]:
    """Calibrates on one split with the INT8 graphs.

    Arguments:
        folder: a build's or a bundle's.
        data: the validation split.

    Returns: `score_calibration`, `decode` and `gate` for the manifest, and `found`: why.
    """
    pairs = read_pairs(data)
    crops = list(crops_of(pairs))
    runner = Runner(folder, "int8")
    outputs = list(runner.run_all(crops))
    calibration = _fit(outputs, crops)
    reported = {route: [_decode(frame[route], calibration[route]) for frame in outputs] for route in ROUTES}
    wanted = [crop.labels for crop in crops]
    rgb_counts, fused_rgb_counts = (
        _counts(reported[route], wanted, _RGB_CLASSES) for route in ("rgb", "fuse")
    )
    every_class = tuple(range(len(CLASSES)))
    thermal_counts, fused_counts = (
        _counts(reported[route], wanted, every_class) for route in ("thermal", "fuse")
    )
    looks = [look_at_rgb(pair.rgb) for pair in pairs]
    luminance = np.array([look.luminance for look in looks])
    default = GateConfig()
    rule = choose_rule(
        [found.scores for found in reported["rgb"]], rgb_counts, fused_rgb_counts, default.rgb_confidence_min
    )
    darkness = choose_darkness(luminance, thermal_counts, fused_counts)
    screen, screen_found = _screen(runner, pairs, crops)
    gate: dict[str, Any] = {
        "rgb_confidence_min": default.rgb_confidence_min,
        "confidence_rule": rule.rule,
        "screen_score_min": round(screen, 5),
        "hot_delta_k": screen_found["kelvin_rise"]["threshold_k"],
    }
    if darkness:
        gate |= {"dark_below": darkness[0], "dark_above": darkness[1]}
        gate["dim_below"] = max(default.dim_below, darkness[1])
    gate["calibrated_how"] = (
        f"{len(pairs)} rendered validation pairs, INT8: scores by Platt scaling; rule with the best AUC for "
        f"'fusion would not better RGB'; screen for {SCREEN_RECALL_MIN:.1%} recall of frames with a hot spot "
        f"of {HOT_DELTA_K:.0f} K or more, less {_SCREEN_MARGIN} logits; rise in kelvin where "
        f"{_SURE_FIRE_SHARE:.0%} of frames without a hot spot reach it; dark where thermal loses at most "
        "0.01 F1 to fuse"
    )
    return {
        "score_calibration": {
            route: {name: [round(value, 4) for value in pair] for name, pair in by_class.items()}
            for route, by_class in calibration.items()
        },
        "decode": {"score_min": SCORE_MIN},
        "gate": gate,
        "found": {
            "pairs": len(pairs),
            "rule_areas": dict(rule.curve_areas),
            "kept_rgb_share": rule.kept_share,
            "gain_left_f1": rule.gain_left,
            "mean_f1": {
                "rgb (what RGB can see)": _mean(rgb_counts),
                "fuse (what RGB can see)": _mean(fused_rgb_counts),
                "thermal": _mean(thermal_counts),
                "fuse": _mean(fused_counts),
            },
            "gain_by_luminance": _by_luminance(
                luminance, rgb_counts, fused_rgb_counts, thermal_counts, fused_counts
            ),
            "screen": screen_found,
        },
    }


def _fit(outputs: Sequence[dict[str, Outputs]], crops: Sequence[Crop]) -> Calibration:
    calibration: Calibration = {}
    wanted = [crop.labels for crop in crops]
    for route in ROUTES:
        found = [candidates(frame[route]) for frame in outputs]
        calibration[route] = {}
        for class_id, name in enumerate(CLASSES):
            scored = match(found, wanted, class_id)
            score = np.clip(scored.scores.astype(np.float64), 1e-6, 1 - 1e-6)
            calibration[route][name] = fit_scores(
                np.log(score / (1 - score)).astype(np.float32), scored.right
            )
    return calibration


def _decode(outputs: Outputs, calibration: dict[str, tuple[float, float]]) -> Candidates:
    grid = decode_grid(
        outputs.scores,
        outputs.boxes,
        stride=STRIDE_PX,
        score_min=SCORE_MIN,
        calibration=[calibration[name] for name in CLASSES],
    )
    return suppress(grid, 0.5, 100)


def _counts(
    found: Sequence[Candidates], wanted: Sequence[Labels], class_ids: Sequence[int]
) -> list[FrameCounts]:
    counts = []
    for one, labels in zip(found, wanted, strict=True):
        scored = [match([one], [labels], class_id) for class_id in class_ids]
        right = sum(int(item.right.sum()) for item in scored)
        total = sum(len(item.right) for item in scored)
        counts.append(FrameCounts(right, total - right, sum(item.objects for item in scored) - right))
    return counts


def _screen(runner: Runner, pairs: Sequence[Pair], crops: Sequence[Crop]) -> tuple[float, dict[str, Any]]:
    logits = np.array([runner.screen(crop) for crop in crops])
    hot = np.array([pair.hottest_delta_k >= HOT_DELTA_K for pair in pairs])
    none = np.array([pair.hottest_delta_k == 0 for pair in pairs])
    threshold = threshold_for_recall(logits[hot], SCREEN_RECALL_MIN, _SCREEN_MARGIN)
    rise_k = np.array([hot_delta_counts(pair.thermal) for pair in pairs]) * KELVIN_PER_CENTIKELVIN
    sure_k = float(np.quantile(rise_k[none], 1 - _SURE_FIRE_SHARE))
    score = 1 / (1 + np.exp(-threshold))
    return float(score), {
        "frames_with_hot_spot": int(hot.sum()),
        "frames_without": int(none.sum()),
        "recall": round(float((logits[hot] >= threshold).mean()), 4),
        "fires_without_hot_spot": round(float((logits[none] >= threshold).mean()), 4),
        "area_under_curve": round(area_under_curve(logits[hot | none], hot[hot | none]), 4),
        "kelvin_rise": {
            "threshold_k": round(sure_k, 1),
            "recall": round(float((rise_k[hot] >= sure_k).mean()), 4),
            "fires_without_hot_spot": round(float((rise_k[none] >= sure_k).mean()), 4),
            "area_under_curve": round(area_under_curve(rise_k[hot | none], hot[hot | none]), 4),
        },
    }


def _by_luminance(
    luminance: Any,
    rgb: Sequence[FrameCounts],
    fused_rgb: Sequence[FrameCounts],
    thermal: Sequence[FrameCounts],
    fused: Sequence[FrameCounts],
) -> list[dict[str, float]]:
    rows = []
    edges = (0, 5, 12, 20, 35, 60, 100, 256)
    for low, high in itertools.pairwise(edges):
        inside = np.flatnonzero((luminance >= low) & (luminance < high))
        if len(inside):
            rows.append(
                {
                    "from": low,
                    "to": high,
                    "frames": len(inside),
                    "fuse_over_rgb_f1": _mean([fused_rgb[i] for i in inside])
                    - _mean([rgb[i] for i in inside]),
                    "fuse_over_thermal_f1": _mean([fused[i] for i in inside])
                    - _mean([thermal[i] for i in inside]),
                }
            )
    return [{name: round(value, 4) for name, value in row.items()} for row in rows]


def _mean(counts: Sequence[FrameCounts]) -> float:
    return round(float(np.mean([item.quality for item in counts])), 4)


def main(arguments: list[str] | None = None) -> None:
    """Reads the command line, calibrates and writes `gate.json` into the build's folder."""
    parser = argparse.ArgumentParser(prog="python -m engines.recipe.gate", description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True, help="the validation split")
    options = parser.parse_args(arguments)
    found = calibrate(options.build, options.data)
    (options.build / "gate.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
