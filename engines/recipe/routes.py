"""Runs the three routes of a bundle over preprocessed frames, for evaluation and gate calibration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_sdk.postprocess import Candidates, decode_grid, suppress
from engines.recipe.export import FEATURES
from engines.recipe.frames import open_graph
from engines.recipe.quantise import INT8_GRAPHS
from engines.recipe.train.data import Crop
from engines.recipe.train.net import STRIDE_PX

__all__ = ["ROUTES", "Outputs", "Runner", "candidates", "graph_file"]

ROUTES = ("rgb", "thermal", "fuse")
LOWEST_SCORE = 0.02
"""Detections under this plain sigmoid do not move an average precision."""


@dataclass(frozen=True, eq=False)
class Outputs:
    """A head's outputs for one frame: logits [1, classes, h, w] and edge distances [1, 4, h, w]."""

    scores: NDArray[np.float32]
    boxes: NDArray[np.float32]


def graph_file(folder: Path, name: str, precision: str) -> Path:
    """Finds a graph in a build folder or in a bundle's folder.

    Arguments:
        folder: either.
        name: of the graph.
        precision: "int8" or "fp32"; the screen is there in fp32 only.
    """
    kind = precision if name in INT8_GRAPHS else "fp32"
    in_bundle = folder / f"{name}.{kind}.onnx"
    return in_bundle if in_bundle.exists() else folder / kind / f"{name}.onnx"


class Runner:
    """The graphs of one precision."""

    def __init__(self, folder: Path, precision: str, threads: int = 2, *, literal: bool = False) -> None:
        self._graphs = {
            name: open_graph(graph_file(folder, name, precision), threads, literal=literal)
            for name in ("rgb", "fuse", "thermal", "screen")
        }

    def run(self, crop: Crop) -> dict[str, Outputs]:
        """Runs all three routes of one frame; fusion reads what the rgb graph gave."""
        rgb, thermal = crop.rgb[None], crop.thermal[None, :, :, None]
        scores, boxes, features = self._graphs["rgb"].run(["scores", "boxes", FEATURES], {"rgb": rgb})
        names = ["scores", "boxes"]
        return {
            "rgb": Outputs(scores, boxes),
            "thermal": Outputs(*self._graphs["thermal"].run(names, {"thermal": thermal})),
            "fuse": Outputs(*self._graphs["fuse"].run(names, {FEATURES: features, "thermal": thermal})),
        }

    def screen(self, crop: Crop) -> float:
        """Returns the screen's logit for one frame."""
        logit = self._graphs["screen"].run(None, {"thermal": crop.thermal[None, :, :, None]})[0]
        return float(logit.ravel()[0])

    def run_all(self, crops: Sequence[Crop]) -> Iterator[dict[str, Outputs]]:
        """Runs all three routes of each frame."""
        return (self.run(crop) for crop in crops)


def candidates(outputs: Outputs, score_min: float = LOWEST_SCORE) -> Candidates:
    """Decodes one head by the runtime's own code, without score calibration."""
    grid = decode_grid(outputs.scores, outputs.boxes, stride=STRIDE_PX, score_min=score_min)
    return suppress(grid, 0.5, 100)
