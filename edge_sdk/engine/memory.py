"""Host memory for all inputs and outputs of a bundle's graphs, shared where names say so."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from edge_sdk.buffers import Buffer, BufferSpec, HostPool
from edge_sdk.engine.manifest import Manifest
from edge_sdk.errors import ConfigError, StateError

__all__ = ["TensorMemory"]


class TensorMemory:
    """Allocates every tensor once.

    Inputs of one name, and features of that name, are one memory. Every other output is its own,
    even where two graphs use one name, so that no graph overwrites another's detections.

    Arguments:
        manifest: says which tensors there are.
        without_features: leave features out, for runners that keep them on a device.
    """

    def __init__(self, manifest: Manifest, without_features: bool = False) -> None:
        self._slots: dict[tuple[str, str], str] = {}
        self._device_only: set[tuple[str, str]] = set()
        specs: dict[str, BufferSpec] = {}
        producers = manifest.producers
        for graph in manifest.graphs.values():
            inputs = {spec.name for spec in graph.inputs}
            for spec in (*graph.inputs, *graph.outputs):
                place = (graph.name, spec.name)
                if without_features and spec.name in producers:
                    self._device_only.add(place)
                    continue
                shared = spec.name in inputs or spec.name in producers
                slot = f"shared:{spec.name}" if shared else f"output:{graph.name}:{spec.name}"
                self._slots[place] = slot
                specs[slot] = BufferSpec(slot, spec.shape, spec.dtype)
        self._graphs = {graph.name: graph for graph in manifest.graphs.values()}
        self._pool = HostPool(specs.values())
        self._buffers: dict[str, Buffer] = {slot: self._pool.lease(slot) for slot in specs}
        self._closed = False

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return self._pool.nbytes

    def array(self, graph: str, tensor: str) -> NDArray[Any]:
        """Returns a tensor's memory; see `Runner.array`."""
        return self._buffer(graph, tensor).array

    def pointer(self, graph: str, tensor: str) -> int:
        """Returns the address of a tensor's first byte. Raises as `array` does."""
        return self._buffer(graph, tensor).pointer

    def close(self) -> None:
        """Gives the memory back. A second call does nothing."""
        self._closed = True
        for buffer in self._buffers.values():
            buffer.release()
        self._pool.close()

    def _buffer(self, graph: str, tensor: str) -> Buffer:
        if self._closed:
            raise StateError(f"the runner is closed: {graph}/{tensor} has no memory any more")
        try:
            return self._buffers[self._slots[graph, tensor]]
        except KeyError:
            raise self._unknown(graph, tensor) from None

    def _unknown(self, graph: str, tensor: str) -> ConfigError:
        if graph not in self._graphs:
            return ConfigError(f"no graph {graph!r}; this bundle has {', '.join(self._graphs)}")
        if (graph, tensor) in self._device_only:
            return ConfigError(f"{graph}/{tensor} stays on the device: it has no host memory to read")
        spec = self._graphs[graph]
        known = ", ".join(item.name for item in (*spec.inputs, *spec.outputs))
        return ConfigError(f"graph {graph!r} has no tensor {tensor!r}; it has {known}")
