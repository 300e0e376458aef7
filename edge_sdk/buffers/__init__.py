"""Memory that is allocated once, lent by name and given back.

One kind so far: `HostPool`, ordinary memory of the CPU.
"""

from edge_sdk.buffers.host import ALIGNMENT, Buffer, BufferSpec, HostPool

__all__ = ["ALIGNMENT", "Buffer", "BufferSpec", "HostPool"]
