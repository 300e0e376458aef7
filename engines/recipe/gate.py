"""Calibrates scores and gate on rendered pairs and writes what the manifest takes over.

python -m engines.recipe.gate --build build --data data
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.gate import (
    FrameCounts,
    RuleChoice,
    area_under_curve,
    choose_darkness,
    choose_rule,
    fit_scores,
    threshold_for_recall,
)
from edge_sdk.box_heat import temperatures
from edge_sdk.frames import ThermalFrame
from edge_sdk.postprocess import Candidates, decode_grid, suppress
from edge_sdk.preprocess import ThermalPlane
from edge_sdk.radiometry import KELVIN_PER_CENTIKELVIN
from edge_sdk.routing import GateConfig, frame_confidence, hot_delta_counts, look_at_rgb
from engines.recipe.frames import crops_of
from engines.recipe.metrics import match
from engines.recipe.routes import ROUTES, Outputs, Runner, candidates
from engines.recipe.train.data import Crop, Labels, Pair, read_pairs
from engines.recipe.train.net import CLASSES, STRIDE_PX

__all__ = ["calibrate"]

SCORE_MIN = 0.3
HOT_DELTA_K = 5.0
RULE_LOSS_MAX = 0.01
_CONFIDENCES = (0.65, 0.7, 0.75, 0.8)
"""Thresholds to choose from: scores are probabilities, and less than two in three is not sure."""

_SCREEN_MARGIN = 0.01
"""Taken off the screen's threshold, in logits: INT8 kernels differ a little from machine to machine."""

_SURE_FIRE_SHARE = 0.01
"""Share of frames without a hot spot on which the plain rise in kelvin may fire: it stands in for a
screen that fails, and a scene's own contrast (sky, sun, people) is of the same size as a hot spot's."""

_HOTSPOT = CLASSES.index("hotspot")
_RGB_CLASSES = tuple(CLASSES.index(name) for name in ("insulator", "corrosion", "person"))

Calibration = dict[str, dict[str, tuple[float, float]]]


def calibrate(folder: Path, data: Path) -> dict[str, Any]:
    """Calibrates with the INT8 graphs, on the validation split.

    Arguments:
        folder: a build's or a bundle's.
        data: folder with `val/`.

    Returns: `score_calibration`, `decode` and `gate` for the manifest, and `found`: why.
    """
    pairs = read_pairs(data / "val")
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
    scores = [found.scores for found in reported["rgb"]]
    confidence_min, rule = _confidence(scores, rgb_counts, fused_rgb_counts)
    darkness = choose_darkness(luminance, thermal_counts, fused_counts)
    sure = np.array([frame_confidence(own, rule.rule) >= confidence_min for own in scores])
    clear = np.array(
        [look.luminance >= default.dim_below and look.contrast >= default.contrast_min for look in looks]
    )
    screen, screen_found = _screen(runner, pairs, crops, sure & clear)
    gate: dict[str, Any] = {
        "rgb_confidence_min": confidence_min,
        "confidence_rule": rule.rule,
        "screen_score_min": round(screen, 5),
        "hot_delta_k": screen_found["kelvin_rise"]["threshold_k"],
        "hot_hold_frames": 0,
        "heat_unit": "kelvin",
    }
    if darkness:
        gate |= {"dark_below": darkness[0], "dark_above": darkness[1]}
        gate["dim_below"] = max(default.dim_below, darkness[1])
    consulted = screen_found["consulted"]
    gate["calibrated_how"] = (
        f"{len(pairs)} rendered validation pairs, INT8: scores by Platt scaling; confidence rule and "
        f"threshold that leave most frames to RGB at a mean loss of at most {RULE_LOSS_MAX} F1; screen so "
        f"that the gate as a whole consults thermal on {consulted['share']:.1%} of the "
        f"{consulted['frames']} frames that show a hot spot of {HOT_DELTA_K:.0f} K or more; rise in kelvin "
        f"where {_SURE_FIRE_SHARE:.0%} of frames without one reach it; dark where thermal loses at most 0.01 "
        "F1 to fuse"
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
            "rules": {
                "kept_rgb_shares": dict(rule.kept_shares),
                "losses_f1": dict(rule.losses_f1),
                "curve_areas": dict(rule.curve_areas),
            },
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


def _confidence(
    scores: Sequence[NDArray[np.float32]], alone: Sequence[FrameCounts], fused: Sequence[FrameCounts]
) -> tuple[float, RuleChoice]:
    """Chooses threshold and rule together: what leaves most frames to RGB at the loss that is allowed."""
    choices = [(least, choose_rule(scores, alone, fused, least, RULE_LOSS_MAX)) for least in _CONFIDENCES]
    sound = [(least, choice) for least, choice in choices if choice.losses_f1[choice.rule] <= RULE_LOSS_MAX]
    return max(sound or choices, key=lambda item: item[1].kept_shares[item[1].rule])


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


def _screen(
    runner: Runner, pairs: Sequence[Pair], crops: Sequence[Crop], would_stay_rgb: NDArray[np.bool_]
) -> tuple[float, dict[str, Any]]:
    """Finds the screen's threshold: no frame that shows a hot spot may be left to RGB alone.

    Only frames that RGB would keep otherwise count: on all others thermal is consulted anyway.
    """
    logits = np.array([runner.screen(crop) for crop in crops])
    hot = np.array([_shown_rise_k(pair) >= HOT_DELTA_K for pair in pairs])
    labelled = np.array([_has_hot_spot(pair) for pair in pairs])
    none = ~labelled
    rise_k = np.array([hot_delta_counts(pair.thermal) for pair in pairs]) * KELVIN_PER_CENTIKELVIN
    sure_k = float(np.quantile(rise_k[none], 1 - _SURE_FIRE_SHARE))
    guarded = hot & would_stay_rgb & (rise_k < sure_k)
    threshold = threshold_for_recall(logits[guarded if guarded.any() else hot], 1.0, _SCREEN_MARGIN)
    unseen = would_stay_rgb & (rise_k < sure_k) & (logits < threshold)
    return float(1 / (1 + np.exp(-threshold))), {
        "consulted": {"frames": int(hot.sum()), "share": round(1 - float(unseen[hot].mean()), 4)},
        "consulted_every_labelled": {
            "frames": int(labelled.sum()),
            "share": round(1 - float(unseen[labelled].mean()), 4),
        },
        "recall_of_the_screen_alone": round(float((logits[hot] >= threshold).mean()), 4),
        "frames_without_hot_spot": int(none.sum()),
        "left_to_rgb_without_hot_spot": round(float(unseen[none].mean()), 4),
        "fires_without_hot_spot": round(float((logits[none] >= threshold).mean()), 4),
        "area_under_curve": round(area_under_curve(logits[hot | none], hot[hot | none]), 4),
        "kelvin_rise": {
            "threshold_k": round(sure_k, 1),
            "recall": round(float((rise_k[hot] >= sure_k).mean()), 4),
            "fires_without_hot_spot": round(float((rise_k[none] >= sure_k).mean()), 4),
            "area_under_curve": round(area_under_curve(rise_k[hot | none], hot[hot | none]), 4),
        },
    }


def _has_hot_spot(pair: Pair) -> bool:
    return bool((pair.labels.in_thermal & (pair.labels.class_ids == _HOTSPOT)).any())


def _shown_rise_k(pair: Pair) -> float:
    """Largest rise of a hot spot that the runtime itself measures in the thermal frame, in kelvin.

    A spot that is hot but shows less than its surroundings (half hidden, before a warm tank) is not
    what a look at one thermal frame can find.
    """
    hot = pair.labels.in_thermal & (pair.labels.class_ids == _HOTSPOT)
    frame = ThermalFrame(pair.thermal, pair.unit)
    sizes_wh = (pair.rgb.shape[1], pair.rgb.shape[0]), frame.size_wh
    plane = ThermalPlane(0, KELVIN_PER_CENTIKELVIN, pair.registration.matrix_for(*sizes_wh))
    measured = temperatures(frame, plane, pair.labels.boxes[hot])
    rises = [found.delta for found in measured if found is not None and found.delta is not None]
    return min(max(rises, default=0.0), pair.hottest_delta_k)


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
    parser.add_argument("--data", type=Path, required=True, help="folder with train/ and val/")
    options = parser.parse_args(arguments)
    found = calibrate(options.build, options.data)
    (options.build / "gate.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
