"""What the pipeline asks of whatever runs a bundle's graphs."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

__all__ = ["Runner"]


@runtime_checkable
class Runner(Protocol):
    """Runs a bundle's graphs on memory that is allocated once.

    Fill `array(graph, input)`, call `run(graph)`, read `array(graph, output)`. Inputs of one name are
    one memory in all graphs, and features that one graph writes are the input of that name of
    another, so `run("rgb")` followed by `run("fuse")` repeats nothing and copies nothing.
    For one thread at a time.
    """

    @property
    def graphs(self) -> tuple[str, ...]:
        """Names of the graphs, in the manifest's order."""
        ...

    @property
    def provider(self) -> str:
        """What really runs them, for the record."""
        ...

    def array(self, graph: str, tensor: str) -> NDArray[Any]:
        """Returns the host memory bound to an input or output: always the same array.

        Copies: no. Valid until `close`; the next `run` overwrites outputs.

        Raises:
            StateError: the runner is closed.
            ConfigError: no such graph or tensor, or its memory is on the device alone (features on a GPU).
        """
        ...

    def run(self, graph: str) -> None:
        """Runs one graph on the bound memory and returns when its outputs are there.

        Raises:
            StateError: the runner is closed.
            ConfigError: no such graph.
            InferenceError: it failed; its outputs are not to be used.
        """
        ...

    def close(self) -> None:
        """Gives everything back. A second call does nothing."""
        ...

    def __enter__(self) -> Runner: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
