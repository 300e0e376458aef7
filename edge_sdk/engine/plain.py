"""Graphs through plain `session.run`, as anyone would write it: the yardstick of the benchmarks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.engine.bundle import Bundle
from edge_sdk.engine.manifest import FEATURES
from edge_sdk.engine.onnx_runner import CPU, open_session

__all__ = ["PlainSessions"]


class PlainSessions:
    """One session a graph on the CPU, fed with ready-made arrays; features go from graph to graph.

    Its sessions are opened as the runner's are: the comparison is of the path of a frame, not of settings.

    Arguments:
        bundle: as `load_bundle` returns it.
        threads: within one graph.
    """

    def __init__(self, bundle: Bundle, threads: int) -> None:
        random = np.random.default_rng(0)
        self._feeds: dict[str, NDArray[Any]] = {}
        self._graphs = bundle.manifest.graphs
        self._sessions = {
            name: open_session(
                bundle.read_graph(name), bundle.folder / graph.file_for(None).file, CPU, threads
            ).session
            for name, graph in self._graphs.items()
        }
        for graph in self._graphs.values():
            for spec in graph.inputs:
                picture = random.integers(0, 256, spec.shape)
                self._feeds.setdefault(spec.name, picture.astype(spec.dtype))

    def run(self, graph: str) -> list[NDArray[Any]]:
        """Runs one graph and returns its outputs; features become the input of the next graph."""
        spec = self._graphs[graph]
        outputs: list[NDArray[Any]] = self._sessions[graph].run(
            None, {item.name: self._feeds[item.name] for item in spec.inputs}
        )
        for item, array in zip(spec.outputs, outputs, strict=True):
            if item.meaning == FEATURES:
                self._feeds[item.name] = array
        return outputs
