"""Smooth value noise in space, for dirt, rust and leaves."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float32]


class ValueNoise:
    """A periodic lattice of random values with smooth interpolation; values lie in 0..1."""

    def __init__(self, rng: np.random.Generator, size: int = 32) -> None:
        self._lattice = rng.random((size, size, size)).astype(np.float32)
        self._size = size

    def sample(self, points: ArrayLike) -> FloatArray:
        """Returns one octave at the points, shape (n,)."""
        positions = np.asarray(points, dtype=np.float32)
        low = np.floor(positions).astype(np.int64)
        part = positions - low
        part = part * part * (3 - 2 * part)
        x0, y0, z0 = (low % self._size).T
        x1, y1, z1 = ((low + 1) % self._size).T
        u, v, w = part.T
        cell = self._lattice
        near = (cell[x0, y0, z0] * (1 - u) + cell[x1, y0, z0] * u) * (1 - v) + (
            cell[x0, y1, z0] * (1 - u) + cell[x1, y1, z0] * u
        ) * v
        far = (cell[x0, y0, z1] * (1 - u) + cell[x1, y0, z1] * u) * (1 - v) + (
            cell[x0, y1, z1] * (1 - u) + cell[x1, y1, z1] * u
        ) * v
        result: FloatArray = near * (1 - w) + far * w
        return result

    def fractal(self, points: ArrayLike, frequency: float = 1.0, octaves: int = 3) -> FloatArray:
        """Returns the mean of octaves that halve in strength, shape (n,), values in 0..1."""
        positions = np.asarray(points, dtype=np.float32)
        total, weight, weight_sum = np.zeros(len(positions), np.float32), 1.0, 0.0
        for octave in range(octaves):
            total += weight * self.sample(positions * (frequency * 2**octave) + 7.3 * octave)
            weight_sum += weight
            weight *= 0.5
        return total / np.float32(weight_sum)
