"""Pairs that are in memory already: arrays, or frames that a program made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.clock import Clock
from edge_sdk.errors import ConfigError, FrameError, ShapeError
from edge_sdk.frames import FramePair, Registration, RgbFrame, ThermalFrame, ThermalUnit
from edge_sdk.sources.base import BaseSource, OnBad
from edge_sdk.sources.registration import ASSUMED, BUNDLE

__all__ = ["MemorySource", "source_from_arrays"]

RgbArrays = Sequence["NDArray[np.uint8] | None"] | NDArray[np.uint8]
ThermalArrays = Sequence["NDArray[np.uint16] | None"] | NDArray[np.uint16]


class MemorySource(BaseSource):
    """Pairs from a sequence.

    Arguments:
        pairs: the pairs, given out as they are.
        uri: a name for the record.
        on_bad, loop, clock: see `BaseSource`.

    Copies: nothing.
    """

    def __init__(
        self,
        pairs: Sequence[FramePair],
        *,
        uri: str = "memory:pairs",
        on_bad: OnBad = "raise",
        loop: int = 1,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(uri, on_bad=on_bad, loop=loop, clock=clock)
        self._pairs = pairs

    @property
    def _pass_length(self) -> int:
        return len(self._pairs)

    def _read(self, index: int) -> FramePair | None:
        return self._pairs[index] if index < len(self._pairs) else None

    def _describe(self) -> dict[str, Any]:
        thermals = [pair.thermal for pair in self._pairs if pair.thermal is not None]
        origins = {pair.registration.origin for pair in self._pairs if pair.registration is not None}
        return {
            "kind": "memory",
            "thermal_unit": "; ".join(sorted({thermal.unit.value for thermal in thermals})) or None,
            "registration": "; ".join(sorted(origins)) or BUNDLE,
            "licences": [],
        }

    def _release(self) -> None:
        self._pairs = ()


class _ArraySource(MemorySource):
    """Pairs from arrays; each is checked when its turn comes, so that a bad one is a bad frame."""

    def __init__(
        self,
        keys: Sequence[str],
        rgb: RgbArrays,
        thermal: ThermalArrays,
        unit: ThermalUnit,
        registration: Registration | None,
        *,
        on_bad: OnBad,
        loop: int,
        clock: Clock | None,
    ) -> None:
        super().__init__((), uri="memory:arrays", on_bad=on_bad, loop=loop, clock=clock)
        self._keys, self._rgb, self._thermal = keys, rgb, thermal
        self._unit, self._registration = unit, registration

    @property
    def _pass_length(self) -> int:
        return len(self._keys)

    def _read(self, index: int) -> FramePair | None:
        if index >= len(self._keys):
            return None
        key, rgb, thermal = self._keys[index], self._rgb[index], self._thermal[index]
        try:
            rgb_frame = None if rgb is None else RgbFrame(rgb)
            thermal_frame = None if thermal is None else ThermalFrame(thermal, self._unit)
        except ShapeError as error:
            raise FrameError(key, str(error)) from None
        if rgb_frame is None and thermal_frame is None:
            raise FrameError(key, "neither an RGB nor a thermal array")
        registration = self._registration
        if (
            registration is None
            and rgb_frame
            and thermal_frame
            and rgb_frame.size_wh == thermal_frame.size_wh
        ):
            registration = Registration.identity(rgb_frame.size_wh, ASSUMED)
            return FramePair(key, rgb_frame, thermal_frame, registration, notes=(f"registration {ASSUMED}",))
        return FramePair(key, rgb_frame, thermal_frame, registration)

    def _describe(self) -> dict[str, Any]:
        given = self._registration.origin if self._registration else "assumed where frame sizes are equal"
        unit = self._unit.value if any(image is not None for image in self._thermal) else None
        return {"kind": "memory", "thermal_unit": unit, "registration": given, "licences": []}

    def _release(self) -> None:
        self._rgb, self._thermal = (), ()


def source_from_arrays(
    rgb: RgbArrays | None = None,
    thermal: ThermalArrays | None = None,
    *,
    unit: ThermalUnit | str = ThermalUnit.COUNTS,
    registration: Registration | None = None,
    keys: Sequence[str] | None = None,
    on_bad: OnBad = "raise",
    loop: int = 1,
    clock: Clock | None = None,
) -> MemorySource:
    """Makes a source of arrays, for programs and tests that have their frames already.

    Arguments:
        rgb: uint8 [height, width, 3] each, red first; or an array [n, height, width, 3]. None: no such
            camera; an entry None: that frame is missing.
        thermal: uint16 [height, width] each, raw counts; likewise.
        unit: what a count means.
        registration: of all pairs; without one, frames of equal size are taken as registered.
        keys: names of the pairs; "000000", "000001", ... by default.
        on_bad, loop, clock: see `BaseSource`. An array of another dtype or shape is a bad frame.

    Copies: nothing; frames share the arrays.

    Raises:
        ConfigError: no frames, or sequences of unequal length.
    """
    lengths = {name: len(side) for name, side in (("rgb", rgb), ("thermal", thermal)) if side is not None}
    if keys is not None:
        lengths["keys"] = len(keys)
    if rgb is None and thermal is None:
        raise ConfigError("source_from_arrays: give rgb=[...], thermal=[...] or both")
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} {count}" for name, count in lengths.items())
        raise ConfigError(f"source_from_arrays: as many of each are needed, found {found}")
    count = next(iter(lengths.values()))
    try:
        thermal_unit = ThermalUnit(unit)
    except ValueError:
        words = " or ".join(repr(known.value) for known in ThermalUnit)
        raise ConfigError(f"source_from_arrays: unit: expected {words}, found {unit!r}") from None
    nothing: tuple[None, ...] = (None,) * count
    return _ArraySource(
        keys if keys is not None else [f"{index:06d}" for index in range(count)],
        rgb if rgb is not None else nothing,
        thermal if thermal is not None else nothing,
        thermal_unit,
        registration,
        on_bad=on_bad,
        loop=loop,
        clock=clock,
    )
