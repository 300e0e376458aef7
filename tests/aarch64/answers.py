"""Answers of the reference engine on known frames, as JSON: run on two machines, they are compared.

    python tests/aarch64/answers.py OUT.json [MODULE ...]

Each MODULE is imported, and what fails is noted. Literally computed outputs of a few frames are in it too.
"""

from __future__ import annotations

import importlib
import json
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np

import edge_sdk
from edge_sdk.devices.canary import compare
from edge_sdk.engine import load_bundle
from edge_sdk.engine.onnx_runner import OnnxRunner, cpu_sums
from edge_sdk.errors import PlanRejectedError
from edge_sdk.frames import FramePair
from edge_sdk.pipeline import Detector

ENGINE = "substation-rgbt"
FIRST = 6
LATER = (60, 61, 105, 149)
"""Places in the clip: by day, at dusk and at night, so that every route is taken."""
CANARY = (0, 60, 149)


def main(out: Path, modules: list[str]) -> None:
    """Writes the answers."""
    pairs = _pairs()
    with edge_sdk.load(ENGINE, device="cpu") as detector:
        frames = [_answer(detector, pair) for place, pair in pairs.items() if place not in CANARY[1:-1]]
        sums = detector.choice.int8_sums
    out.write_text(
        json.dumps(
            {
                "machine": platform.machine(),
                "python": platform.python_version(),
                "int8_sums": [cpu_sums(), sums],
                "imports": {name: _problem(name) for name in modules},
                "frames": frames,
                "canary": _canary([pairs[place] for place in CANARY]),
            }
        ),
        encoding="utf-8",
    )


def _pairs() -> dict[int, FramePair]:
    wanted = {*range(FIRST), *LATER, *CANARY}
    with edge_sdk.open_source("clip:substation") as source:
        return {place: pair.copied() for place, pair in enumerate(source) if place in wanted}


def _answer(detector: Detector, pair: FramePair) -> dict[str, Any]:
    result = detector(pair)
    found = result.detections
    return {
        "key": pair.key,
        "route": result.route.value,
        "reason": result.reason.value,
        "xyxy": found.xyxy.tolist(),
        "scores": found.scores.tolist(),
        "class_ids": found.class_ids.tolist(),
    }


def _problem(module: str) -> str:
    try:
        importlib.import_module(module)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _canary(pairs: list[FramePair]) -> dict[str, Any]:
    """The canary's comparison of the graphs as they are written with what the detector runs."""
    bundle = load_bundle(ENGINE)
    with OnnxRunner(bundle, literal=True) as reference, OnnxRunner(bundle) as candidate:
        try:
            figures = dict(compare(bundle.manifest, reference, candidate, pairs))
        except PlanRejectedError as error:
            return {"rejected": str(error)}
        outputs = {
            f"{name}/{spec.meaning}": np.asarray(reference.array(name, spec.name), np.float64)
            .ravel()
            .tolist()
            for name, graph in bundle.manifest.graphs.items()
            for spec in graph.outputs
            if spec.meaning == "scores"
        }
    return {"graphs": figures["graphs"], "outputs": outputs}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
