"""Splitting a window's energy by kind of frame: a least-squares fit of block energies to counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from edge_sdk.stats.energy import Figure

__all__ = ["GroupFit", "fit_by_group"]

_MAX_CONDITION = 30.0  # columns that move together more than this cannot be told apart
_BLOCKS_A_GROUP = 4
_MAX_RELATIVE_SIGMA = 0.5  # a coefficient less sure than this is no finding


@dataclass(frozen=True)
class GroupFit:
    """Energy a frame of each kind.

    Attributes:
        groups: the figure of each kind, in the unit of the energies; empty where not identifiable.
        why: why not identifiable, or "".
        blocks: how many blocks of the run were fitted.
    """

    groups: Mapping[str, Figure]
    why: str
    blocks: int


def fit_by_group(energies: ArrayLike, counts: Mapping[str, Sequence[int]]) -> GroupFit:
    """Finds what a frame of each kind takes from blocks with different mixtures of them.

    Arguments:
        energies: one a block.
        counts: frames of each kind, one a block.

    Returns: figures with standard errors from the residuals, or why the data do not tell the kinds apart.
    """
    values = np.asarray(energies, dtype=np.float64)
    names = [name for name, column in counts.items() if sum(column)]
    blocks = len(values)
    if not names:
        return GroupFit({}, "not identifiable: no frames", blocks)
    if blocks < _BLOCKS_A_GROUP * len(names):
        return GroupFit(
            {},
            f"not identifiable: {blocks} blocks of the run for {len(names)} kinds of frame, "
            f"{_BLOCKS_A_GROUP * len(names)} are needed",
            blocks,
        )
    matrix = np.array([counts[name] for name in names], dtype=np.float64).T
    scales = np.sqrt((matrix**2).sum(axis=0))
    condition = float(np.linalg.cond(matrix / scales))
    if not condition < _MAX_CONDITION:
        return GroupFit({}, "not identifiable: the mixture of frames hardly changes over the run", blocks)
    solution, *_ = np.linalg.lstsq(matrix, values, rcond=None)
    residual = values - matrix @ solution
    variance = float(residual @ residual) / (blocks - len(names))
    sigmas = np.sqrt(variance * np.diag(np.linalg.inv(matrix.T @ matrix)))
    figures = {
        name: Figure(float(value), float(sigma))
        for name, value, sigma in zip(names, solution, sigmas, strict=True)
    }
    unsure = [name for name, item in figures.items() if item.sigma > _MAX_RELATIVE_SIGMA * abs(item.value)]
    if unsure:
        return GroupFit({}, f"not identifiable: the fit leaves {', '.join(unsure)} open", blocks)
    return GroupFit(figures, "", blocks)
