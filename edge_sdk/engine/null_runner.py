"""A runner that runs nothing, to measure everything around it."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from edge_sdk.closing import ClosedByWith
from edge_sdk.engine.bundle import Bundle
from edge_sdk.engine.memory import TensorMemory
from edge_sdk.errors import ConfigError, StateError

__all__ = ["NULL_PROVIDER", "NullRunner"]

NULL_PROVIDER = "null (no inference)"
_NO_LOGIT = -30.0
"""A logit whose sigmoid is below 1e-12."""


class NullRunner(ClosedByWith):
    """Implements `Runner` with a bundle's memory and no inference: every graph finds nothing.

    It measures the harness, like a null system under test. Its provider says so in every record.

    Arguments:
        bundle: its manifest lays out the memory; its files are not read.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._graphs = tuple(bundle.manifest.graphs)
        self._memory = TensorMemory(bundle.manifest)
        self._closed = False
        # Zeros mean "nothing" everywhere but in logits.
        logits = ("scores", "screen") if bundle.manifest.decode.kind == "grid" else ("screen",)
        for graph in bundle.manifest.graphs.values():
            for spec in graph.outputs:
                if spec.meaning in logits:
                    self._memory.array(graph.name, spec.name).fill(_NO_LOGIT)

    @property
    def graphs(self) -> tuple[str, ...]:
        """Names of the graphs."""
        return self._graphs

    @property
    def provider(self) -> str:
        """`NULL_PROVIDER`."""
        return NULL_PROVIDER

    def array(self, graph: str, tensor: str) -> NDArray[Any]:
        """See `Runner.array`."""
        return self._memory.array(graph, tensor)

    def run(self, graph: str) -> None:
        """Does nothing. Raises as `Runner.run` does."""
        if self._closed:
            raise StateError(f"the runner is closed: graph {graph!r} cannot run")
        if graph not in self._graphs:
            raise ConfigError(f"no graph {graph!r}; this bundle has {', '.join(self._graphs)}")

    def close(self) -> None:
        """Gives the memory back."""
        self._closed = True
        self._memory.close()
