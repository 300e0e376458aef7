"""Memory of the GPU for all inputs and outputs of a bundle's graphs, of the kind that suits each."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from numpy.typing import NDArray

from edge_sdk.buffers.cuda import CudaBuffer, CudaDevice
from edge_sdk.buffers.policy import Use, default_kind
from edge_sdk.engine.manifest import Manifest
from edge_sdk.engine.memory import tensor_slots, unknown_tensor
from edge_sdk.errors import DeviceError, StateError

__all__ = ["DeviceMemory"]


class DeviceMemory:
    """Allocates every tensor once, shared as `tensor_slots` says.

    Arguments:
        manifest: says which tensors there are.
        device: where.
        kinds: tensor -> kind, measured on this module; the default for all others.

    Raises:
        CudaError: there is not enough memory. What was allocated is freed.
    """

    def __init__(
        self, manifest: Manifest, device: CudaDevice, kinds: Mapping[str, str] | None = None
    ) -> None:
        self._manifest = manifest
        self._slots = tensor_slots(manifest)
        self._buffers: dict[str, CudaBuffer] = {}
        self._arrays: dict[str, NDArray[Any]] = {}
        self._closed = False
        try:
            for slot in self._slots.values():
                if slot.name in self._buffers:
                    continue
                use = Use.FEATURES if slot.is_features else Use.IMAGE if slot.is_image else Use.RESULT
                kind = default_kind(use, integrated=device.integrated, can_map_host=device.can_map_host)
                if not slot.is_features:
                    kind = (kinds or {}).get(slot.spec.name, kind)
                buffer = device.allocate(slot.spec.nbytes, kind)
                self._buffers[slot.name] = buffer
                if not slot.is_features:
                    self._arrays[slot.name] = buffer.as_array(slot.spec.dtype, slot.spec.shape)
        except BaseException:
            self.close()
            raise

    @property
    def nbytes(self) -> Mapping[str, int]:
        """Bytes allocated of each kind of memory."""
        total: dict[str, int] = {}
        for buffer in self._buffers.values():
            total[buffer.kind] = total.get(buffer.kind, 0) + buffer.nbytes
        return total

    def array(self, graph: str, tensor: str) -> NDArray[Any]:
        """Returns a tensor's memory on the host; see `Runner.array`."""
        self._refuse_closed(graph, tensor)
        slot = self._slots.get((graph, tensor))
        if slot is None or slot.is_features:
            raise unknown_tensor(self._manifest, graph, tensor)
        return self._arrays[slot.name]

    def buffer(self, graph: str, tensor: str) -> CudaBuffer:
        """Returns a tensor's buffer. Raises as `array` does, but not for features."""
        self._refuse_closed(graph, tensor)
        return self._buffers[self._slots[graph, tensor].name]

    def close(self) -> None:
        """Frees all. Views that were handed out are dead. A second call does nothing."""
        self._closed = True
        self._arrays.clear()
        for buffer in self._buffers.values():
            with suppress(DeviceError):
                buffer.free()
        self._buffers.clear()

    def _refuse_closed(self, graph: str, tensor: str) -> None:
        if self._closed:
            raise StateError(f"the runner is closed: {graph}/{tensor} has no memory any more")
