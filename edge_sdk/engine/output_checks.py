"""Whether a graph's outputs mean what its bundle says: all rows, once, when a bundle is made or verified.

`postprocess` refuses impossible detections frame by frame; a model that finds nothing in a test picture shows
its layout only in the rows below the threshold, which are looked at here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.engine.inputs import GraphInputs
from edge_sdk.engine.manifest import FEATURES, SCREEN_GRAPH, Manifest
from edge_sdk.engine.runner import Runner
from edge_sdk.errors import OutputError
from edge_sdk.postprocess import decode

__all__ = ["check_outputs", "run_and_check"]

_ROUNDING = 1e-3
_SHARE = 2.0
_MOST_END_TO_END = 1000
_SEED = 7


def run_and_check(runner: Runner, manifest: Manifest, graph: str) -> None:
    """Runs a graph once on a picture of noise and checks what comes out.

    Arguments:
        runner: of the bundle; graphs that this one reads features of must have run before.
        manifest: of the bundle.
        graph: the graph's name.

    Raises:
        OutputError, ShapeError: the outputs do not mean what the manifest says.
        InferenceError: the graph failed.
    """
    spec = manifest.graphs[graph]
    inputs = GraphInputs(spec, partial(runner.array, graph))
    random = np.random.default_rng(_SEED)
    for meaning in inputs.meanings:
        picture = inputs.picture(meaning)
        picture[...] = random.integers(0, 256, picture.shape, dtype=np.uint8)
    inputs.commit()
    runner.run(graph)
    if graph == SCREEN_GRAPH:
        return
    outputs = {
        item.meaning: runner.array(graph, item.name) for item in spec.outputs if item.meaning != FEATURES
    }
    check_outputs(manifest, graph, outputs)


def check_outputs(manifest: Manifest, graph: str, outputs: Mapping[str, NDArray[Any]]) -> None:
    """Checks every row of a graph's outputs against the bundle's `decode`.

    Arguments:
        manifest: of the bundle.
        graph: the graph's name.
        outputs: meaning -> array.

    Raises:
        OutputError: values that cannot mean what the manifest says, with the likely cause.
        ShapeError: an output is missing or has the wrong shape.
    """
    impossible: OutputError | None = None
    try:
        decode(manifest.decode, graph, manifest.class_names, outputs)
    except OutputError as error:  # all rows together tell the cause better
        impossible = error
    kind = manifest.decode.kind
    if kind == "grid":
        _check_logits(graph, outputs["scores"])
    elif kind == "yolo":
        rows = outputs["predictions"][0].astype(np.float64)
        wanted = 4 + len(manifest.class_names)
        rows = rows if rows.shape[1] == wanted else rows.T
        _refuse_end_to_end(graph, rows)
        _check_probabilities(graph, rows[:, 4:])
        _check_pixels(graph, rows[:, :4])
    else:
        _check_probabilities(graph, outputs["scores"].astype(np.float64))
        _check_pixels(graph, outputs["boxes"][0].astype(np.float64))
    if impossible is not None:
        raise impossible


def _check_logits(graph: str, scores: NDArray[Any]) -> None:
    if 0.0 <= float(scores.min()) < float(scores.max()) <= 1.0:
        raise OutputError(
            graph,
            "scores",
            "logits (decode kind 'grid' applies the sigmoid)",
            f"{float(scores.min()):.4g} to {float(scores.max()):.4g} in every cell",
            "They look like probabilities: leave the sigmoid out of the model.",
        )


def _check_probabilities(graph: str, scores: NDArray[np.float64]) -> None:
    lowest, highest = float(scores.min(initial=0.0)), float(scores.max(initial=0.0))
    if lowest < -_ROUNDING or highest > 1.0 + _ROUNDING:
        cause = "per cent: divide by 100" if lowest >= -_ROUNDING else "logits: end the model with a sigmoid"
        raise OutputError(
            graph, "scores", "probabilities of 0 to 1", f"{lowest:.4g} to {highest:.4g}",
            f"They look like {cause}.",
        )  # fmt: skip


def _check_pixels(graph: str, boxes: NDArray[np.float64]) -> None:
    if not np.isfinite(boxes).all():
        raise OutputError(graph, "boxes", "finite pixels", "an infinite one or one that is no number")
    if boxes.any() and float(np.abs(boxes).max()) <= _SHARE:
        raise OutputError(
            graph, "boxes", "pixels of the input", f"at most {float(boxes.max()):.3g} in {len(boxes)} rows",
            "They look like shares of the picture: multiply by its width and height inside the model.",
        )  # fmt: skip


def _refuse_end_to_end(graph: str, rows: NDArray[np.float64]) -> None:
    """Rows of corners, score and class, best first: what a model with suppression inside gives."""
    if rows.shape[1] != 6 or len(rows) > _MOST_END_TO_END or not rows[:, :4].any():
        return
    whole = (rows[:, 5] == np.rint(rows[:, 5])).all()
    sorted_down = (np.diff(rows[:, 4]) <= 0.0).all()
    corners = (rows[:, 2:4] >= rows[:, :2]).all()
    if whole and sorted_down and corners:
        raise OutputError(
            graph,
            "predictions",
            "centre, size and a score for each of 2 classes",
            f"{len(rows)} rows of corners, score and class, best first",
            "An end-to-end model: split its output into boxes, scores and labels, for decode kind 'boxes'.",
        )
