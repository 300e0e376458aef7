"""The kinds of memory by name, and the alignment that all of them keep."""

from __future__ import annotations

__all__ = ["ALIGNMENT", "DEVICE", "HOST", "KINDS", "MANAGED", "MAPPED", "PINNED"]

ALIGNMENT = 256
"""Bytes. Every buffer starts at a multiple of it.

Source: TensorRT, IExecutionContext.setTensorAddress: addresses are aligned to 256 bytes. It also
covers the cache line of every CPU, so neighbouring buffers share none."""

HOST, PINNED, MAPPED, MANAGED, DEVICE = "host", "pinned", "mapped", "managed", "device"

KINDS = (HOST, PINNED, MAPPED, MANAGED, DEVICE)
"""host: ordinary memory of the CPU. pinned: page-locked, with a half on the device, copied on a stream.
mapped: page-locked and used by the device in place. managed: moved by the driver. device: the GPU's alone."""
