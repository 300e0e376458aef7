"""Which kind of memory a tensor gets: what it is used for, and what the GPU is, decide."""

from __future__ import annotations

from enum import Enum

from edge_sdk.buffers.kinds import DEVICE, HOST, MANAGED, MAPPED, PINNED

__all__ = ["Use", "candidates", "default_kind"]


class Use(str, Enum):
    """What a tensor is for.

    IMAGE: written by the host, read by a graph. RESULT: the other way round. FEATURES: from graph to graph.
    """

    IMAGE = "image"
    RESULT = "result"
    FEATURES = "features"


def default_kind(use: Use, *, integrated: bool, can_map_host: bool = True) -> str:
    """Returns the kind a tensor gets on a GPU where none was measured to be better.

    Features never visit the host. On a GPU that shares the CPU's memory (a Jetson) images and small
    results are used in place; a card copies them on a stream.

    Source: NVIDIA, CUDA for Tegra, memory selection: page-locked memory for small buffers that CPU and
    GPU share; zero copy.
    """
    if use is Use.FEATURES:
        return DEVICE
    return MAPPED if integrated and can_map_host else PINNED


def candidates(use: Use, *, has_gpu: bool, can_map_host: bool = True) -> tuple[str, ...]:
    """Returns the kinds that can serve a use, for a measurement to choose from."""
    if not has_gpu:
        return (HOST,)
    if use is Use.FEATURES:
        return (DEVICE,)
    return (PINNED, *((MAPPED,) if can_map_host else ()), MANAGED)
