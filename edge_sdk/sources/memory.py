"""Pairs that are in memory already: arrays, or frames that a program made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.clock import Clock
from edge_sdk.errors import ConfigError, FrameError
from edge_sdk.frames import FramePair, HeatUnit, RgbFrame, ThermalFrame, ThermalUnit
from edge_sdk.heat_units import heat_unit
from edge_sdk.sources.base import BaseSource, OnBad
from edge_sdk.sources.registration import (
    NOT_GIVEN,
    RegistrationArgument,
    RegistrationRule,
    read_registration,
)

__all__ = ["MemorySource", "source_from_arrays"]

RgbArrays = Sequence["NDArray[np.uint8] | None"] | NDArray[np.uint8]
ThermalArrays = Sequence["NDArray[Any] | None"] | NDArray[Any]


class MemorySource(BaseSource):
    """Pairs from a sequence.

    Arguments:
        pairs: the pairs, given out as they are.
        uri: a name for the record.
        registration: of the pairs that bring none of their own: a `Registration`, a word or a file.
        sequence: True where they follow each other like a video, False where each stands by itself; None
            for what each pair says of itself, see `FramePair.is_still`.
        on_bad, loop, clock: see `BaseSource`.

    Copies: nothing.

    Raises:
        ConfigError: `registration` is none. What is no `FramePair` is refused when its turn comes.
    """

    def __init__(
        self,
        pairs: Sequence[FramePair],
        *,
        uri: str = "memory:pairs",
        registration: RegistrationArgument = None,
        sequence: bool | None = None,
        on_bad: OnBad = "raise",
        loop: int = 1,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(uri, on_bad=on_bad, loop=loop, clock=clock)
        given = read_registration(registration, uri)
        self._pairs = pairs
        self._rule = RegistrationRule(given)
        self._fills_in = given is not None
        if not isinstance(sequence, (bool, type(None))):
            raise ConfigError(f"{uri}: sequence: expected True, False or None, found {sequence!r}")
        self._still = None if sequence is None else not sequence

    @property
    def _pass_length(self) -> int:
        return len(self._pairs)

    def _read(self, index: int) -> FramePair | None:
        if index >= len(self._pairs):
            return None
        pair = self._pairs[index]
        if not isinstance(pair, FramePair):
            raise ConfigError(
                f"{self.uri}: entry {index}: expected a FramePair, found {type(pair).__name__}. "
                "Write FramePair(key, RgbFrame(rgb), ThermalFrame(raw, unit)), or use source_from_arrays"
            )
        if self._still is not None and pair.still is None:
            pair = replace(pair, still=self._still)
        if pair.registration is not None or not self._fills_in:
            return pair
        filled = self._rule.pair(pair.key, pair.rgb, pair.thermal, notes=pair.notes)
        return replace(
            pair,
            registration=filled.registration,
            registration_by=filled.registration_by,
            notes=filled.notes,
        )

    def _describe(self) -> dict[str, Any]:
        pairs = [pair for pair in self._pairs if isinstance(pair, FramePair)]
        units = {pair.thermal.unit.value for pair in pairs if pair.thermal is not None}
        origins = {pair.registration.origin for pair in pairs if pair.registration is not None}
        if self._fills_in:
            origins.add(self._rule.origin)
        return {
            "kind": "memory",
            "thermal_unit": "; ".join(sorted(units)) or None,
            "registration": "; ".join(sorted(origins)) or NOT_GIVEN,
            "licences": [],
            "still": self._still,
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
        unit: HeatUnit,
        registration: RegistrationArgument,
        *,
        sequence: bool,
        on_bad: OnBad,
        loop: int,
        clock: Clock | None,
    ) -> None:
        super().__init__(
            (),
            uri="memory:arrays",
            registration=registration,
            sequence=sequence,
            on_bad=on_bad,
            loop=loop,
            clock=clock,
        )
        self._keys, self._rgb, self._thermal = keys, rgb, thermal
        self._unit, self._units = unit, set[str]()

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
        except ConfigError as error:
            raise FrameError(key, str(error)) from None
        if rgb_frame is None and thermal_frame is None:
            raise FrameError(key, "neither an RGB nor a thermal array")
        if thermal_frame is not None:
            self._units.add(thermal_frame.unit.value)
        return self._rule.pair(key, rgb_frame, thermal_frame, still=self._still)

    def _describe(self) -> dict[str, Any]:
        there = any(image is not None for image in self._thermal)
        stated = (ThermalUnit.CENTIKELVIN if self._unit.absolute else ThermalUnit.COUNTS).value
        return {
            "kind": "memory",
            "thermal_unit": "; ".join(sorted(self._units)) or (stated if there else None),
            "registration": self._rule.origin,
            "licences": [],
            "still": self._still,
        }

    def _release(self) -> None:
        self._rgb, self._thermal = (), ()


def source_from_arrays(
    rgb: RgbArrays | None = None,
    thermal: ThermalArrays | None = None,
    *,
    unit: ThermalUnit | HeatUnit | str | float = ThermalUnit.COUNTS,
    registration: RegistrationArgument = None,
    keys: Sequence[str] | None = None,
    sequence: bool = False,
    on_bad: OnBad = "raise",
    loop: int = 1,
    clock: Clock | None = None,
) -> MemorySource:
    """Makes a source of arrays, for programs and tests that have their frames already.

    Arguments:
        rgb: uint8 [height, width, 3] each, red first; or an array [n, height, width, 3]. None: no such
            camera; an entry None: that frame is missing.
        thermal: uint16 [height, width] each, raw counts, or floating point with a unit; likewise.
        unit: what a count is, as `ThermalFrame` takes it: "counts", "centikelvin", "celsius", 0.04, ...
        registration: of all pairs: a `Registration`, a word or a file; without one, frames of equal size
            are taken as registered, and others are refused by the detector.
        keys: names of the pairs; "000000", "000001", ... by default.
        sequence: whether they follow each other like a video; by default each stands by itself.
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
    nothing: tuple[None, ...] = (None,) * count
    return _ArraySource(
        keys if keys is not None else [f"{index:06d}" for index in range(count)],
        rgb if rgb is not None else nothing,
        thermal if thermal is not None else nothing,
        heat_unit(unit, "source_from_arrays"),
        registration,
        sequence=sequence,
        on_bad=on_bad,
        loop=loop,
        clock=clock,
    )
