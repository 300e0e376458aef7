"""Measures how often the finished bundle's router consults thermal on frames that hold a hot spot.

    python -m engines.recipe.consulted --bundle engines/substation-rgbt --data data/test
    python -m engines.recipe.consulted --bundle engines/substation-rgbt --real substation-real

Every frame is a sequence of its own, so that no neighbour's hot region covers for a miss. Nothing is
tuned on these frames.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import edge_sdk
from edge_sdk.frames import FramePair, RgbFrame, ThermalFrame
from edge_sdk.measurements import Route
from engines.recipe.evaluate_real import read_real_pairs
from engines.recipe.train.data import Pair, read_pairs
from engines.recipe.train.net import CLASSES

__all__ = ["measure_consulted"]

_HOTSPOT = CLASSES.index("hotspot")
_PLAIN_RISE_K = 5.0


def measure_consulted(bundle: Path, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Routes each pair and counts.

    Arguments:
        bundle: a finished bundle's folder.
        pairs: with labels.

    Returns: frames and share consulted, of those with a labelled hot spot, of those where it rises by 5 K
        or more (rendered frames alone know that), and of the others; reasons; the share left to RGB.
    """
    consulted: list[bool] = []
    reasons: Counter[str] = Counter()
    left_to_rgb = 0
    with edge_sdk.load(str(bundle), device="cpu") as detector:
        for pair in pairs:
            detector.reset()
            frames = FramePair(
                pair.key, RgbFrame(pair.rgb), ThermalFrame(pair.thermal, pair.unit), pair.registration
            )
            result = detector(frames)
            consulted.append(result.thermal_consulted)
            reasons[result.reason.value] += 1
            left_to_rgb += result.route is Route.RGB
    labelled = [bool((pair.labels.in_thermal & (pair.labels.class_ids == _HOTSPOT)).any()) for pair in pairs]
    plain = [pair.hottest_delta_k >= _PLAIN_RISE_K for pair in pairs]
    return {
        "pairs": len(pairs),
        "labelled_hot": _share(consulted, labelled),
        "rise_of_5_k_or_more": _share(consulted, plain),
        "without_hot_spot": _share(consulted, [not own for own in labelled]),
        "left_to_rgb_share": round(left_to_rgb / len(pairs), 4),
        "reasons": dict(reasons.most_common()),
    }


def _share(consulted: Sequence[bool], picked: Sequence[bool]) -> dict[str, Any]:
    chosen = [own for own, wanted in zip(consulted, picked, strict=True) if wanted]
    return {
        "frames": len(chosen),
        "consulted_share": round(sum(chosen) / len(chosen), 4) if chosen else None,
    }


def main(arguments: list[str] | None = None) -> None:
    """Reads the command line, measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m engines.recipe.consulted", description=__doc__)
    parser.add_argument("--bundle", type=Path, required=True, help="a bundle's folder")
    parser.add_argument("--data", type=Path, help="a rendered split")
    parser.add_argument("--real", type=Path, help="folder of the real pairs")
    parser.add_argument("--json", type=Path, help="where the report goes")
    options = parser.parse_args(arguments)
    if (options.data is None) == (options.real is None):
        parser.error("give one of --data and --real")
    pairs = read_pairs(options.data) if options.data else read_real_pairs(options.real)[0]
    report = measure_consulted(options.bundle, pairs)
    print(json.dumps(report, indent=1))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
