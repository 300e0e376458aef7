"""Pairs for tests of whole runs over the toy bundle: bright, dark and hot cells that make routes change."""

from __future__ import annotations

import numpy as np

from edge_sdk.frames import FramePair, Registration, RgbFrame, ThermalFrame, ThermalUnit

SIZE_WH = (64, 48)


def make_pair(
    index: int,
    *,
    bright: bool = True,
    hot: bool = False,
    dark: bool = False,
    no_rgb: bool = False,
    no_thermal: bool = False,
) -> FramePair:
    """Makes one pair; its pixels depend on its number alone."""
    noise = np.random.default_rng(index)
    shape = SIZE_WH[::-1]
    rgb = noise.integers(90, 120, (*shape, 3), np.uint8)
    if dark:
        rgb = noise.integers(0, 4, (*shape, 3), np.uint8)
    elif bright:
        rgb[8:16, 8:16] = 250
    thermal = noise.normal(29500, 5, shape).astype(np.uint16)
    if hot:
        thermal[24:32, 40:48] = 33500
    return FramePair(
        f"{index:03d}",
        None if no_rgb else RgbFrame(rgb, 1000 + index),
        None if no_thermal else ThermalFrame(thermal, ThermalUnit.CENTIKELVIN, 2000 + index),
        Registration(((1.0, 0.0, 0.25), (0.0, 1.0, 1 / 3), (0.0, 0.0, 1.0)), SIZE_WH, SIZE_WH, 7.5, "test"),
        skew_ms=0.1 + index / 3,
        notes=("a note",) if index % 2 else (),
    )


def make_day(count: int = 24) -> list[FramePair]:
    """A sequence with every route: sure, hot, unsure, dark, one camera lost, both lost."""
    pairs = []
    for index in range(count):
        turn = index % 12
        pairs.append(
            make_pair(
                index,
                bright=turn not in (5, 6),
                hot=turn in (3, 4),
                dark=turn in (7, 8),
                no_rgb=turn in (9, 11),
                no_thermal=turn in (10, 11),
            )
        )
    return pairs
