"""Memory that is allocated once, lent by name and given back.

Kinds by name: "host" is ordinary memory; "pinned", "mapped", "managed" and "device" need a GPU, whose
memory comes from `edge_sdk.buffers.cuda`, imported only where it is used.
"""

from edge_sdk.buffers.host import HostMemory, HostPool
from edge_sdk.buffers.kinds import ALIGNMENT, KINDS
from edge_sdk.buffers.policy import Use, default_kind
from edge_sdk.buffers.pool import Buffer, BufferSpec, Memory, Pool

__all__ = [
    "ALIGNMENT",
    "KINDS",
    "Buffer",
    "BufferSpec",
    "HostMemory",
    "HostPool",
    "Memory",
    "Pool",
    "Use",
    "default_kind",
]
