"""Host memory for all inputs and outputs of a bundle's graphs, shared where names say so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from numpy.typing import NDArray

from edge_sdk.buffers import Buffer, BufferSpec, HostPool
from edge_sdk.engine.manifest import Manifest
from edge_sdk.errors import ConfigError, StateError
from edge_sdk.tensors import TensorSpec

__all__ = ["Slot", "TensorMemory", "tensor_slots", "unknown_tensor"]


class Slot(NamedTuple):
    """One piece of memory.

    Attributes:
        name: equal for tensors that are one memory.
        spec: shape and dtype.
        is_features: whether only graphs read it.
        is_image: whether the host writes it.
    """

    name: str
    spec: TensorSpec
    is_features: bool
    is_image: bool


def tensor_slots(manifest: Manifest) -> Mapping[tuple[str, str], Slot]:
    """Says which tensors are one memory: (graph, tensor) -> slot.

    Inputs of one name, and features of that name, are one. Every other output is its own, even where two
    graphs use one name, so that no graph overwrites another's detections.
    """
    slots = {}
    producers = manifest.producers
    for graph in manifest.graphs.values():
        inputs = {spec.name for spec in graph.inputs}
        for spec in (*graph.inputs, *graph.outputs):
            shared = spec.name in inputs or spec.name in producers
            name = f"shared:{spec.name}" if shared else f"output:{graph.name}:{spec.name}"
            slots[graph.name, spec.name] = Slot(name, spec, spec.name in producers, spec.name in inputs)
    return slots


def unknown_tensor(manifest: Manifest, graph: str, tensor: str) -> ConfigError:
    """Says that a graph or tensor has no host memory, and which have."""
    if graph not in manifest.graphs:
        return ConfigError(f"no graph {graph!r}; this bundle has {', '.join(manifest.graphs)}")
    spec = manifest.graphs[graph]
    known = [item.name for item in (*spec.inputs, *spec.outputs)]
    if tensor in known:
        return ConfigError(f"{graph}/{tensor} stays on the device: it has no host memory to read")
    return ConfigError(f"graph {graph!r} has no tensor {tensor!r}; it has {', '.join(known)}")


class TensorMemory:
    """Allocates every tensor once, shared as `tensor_slots` says.

    Arguments:
        manifest: says which tensors there are.
        without_features: leave features out, for runners that keep them on a device.
    """

    def __init__(self, manifest: Manifest, without_features: bool = False) -> None:
        self._manifest = manifest
        self._slots = {
            place: slot
            for place, slot in tensor_slots(manifest).items()
            if not (without_features and slot.is_features)
        }
        specs = {
            slot.name: BufferSpec(slot.name, slot.spec.shape, slot.spec.dtype)
            for slot in self._slots.values()
        }
        self._pool = HostPool(specs.values())
        self._buffers: dict[str, Buffer] = {name: self._pool.lease(name) for name in specs}
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
        if (graph, tensor) not in self._slots:
            raise unknown_tensor(self._manifest, graph, tensor)
        return self._buffers[self._slots[graph, tensor].name]
