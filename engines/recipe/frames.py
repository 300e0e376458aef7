"""What the graphs of the bundle are fed: rendered pairs through the runtime's preprocess."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.engine.onnx_runner import CPU, open_session
from edge_sdk.radiometry import Radiometry
from engines.recipe.export import FEATURES
from engines.recipe.train.data import Crop, Pair, network_input

__all__ = ["crops_of", "feeds", "open_graph"]

Feed = dict[str, NDArray[Any]]


def crops_of(pairs: Sequence[Pair]) -> Iterator[Crop]:
    """Preprocesses pairs as the runtime does, one at a time."""
    radiometry = Radiometry()
    for pair in pairs:
        yield network_input(pair, radiometry)


def open_graph(file: Path, threads: int = 2, *, literal: bool = False) -> Any:
    """Opens a graph on the CPU as the runtime does, and returns ONNX Runtime's session.

    Arguments:
        file: the ONNX file.
        threads: within one graph.
        literal: run every node as written, in floating point between Q/DQ; nothing fused.
    """
    return open_session(file.read_bytes(), file, CPU, threads, literal=literal).session


def feeds(crops: Sequence[Crop], graph: str, rgb_file: Path) -> Iterator[Feed]:
    """Yields the inputs of one graph for each frame.

    Arguments:
        crops: preprocessed frames.
        graph: "rgb", "fuse", "thermal" or "screen".
        rgb_file: the rgb graph that makes the features which `fuse` reads.
    """
    rgb_graph = open_graph(rgb_file) if graph == "fuse" else None
    for crop in crops:
        rgb, thermal = crop.rgb[None], crop.thermal[None, :, :, None]
        if graph == "rgb":
            yield {"rgb": rgb}
        elif rgb_graph is not None:
            yield {FEATURES: rgb_graph.run([FEATURES], {"rgb": rgb})[0], "thermal": thermal}
        else:
            yield {"thermal": np.ascontiguousarray(thermal)}
