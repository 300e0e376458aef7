"""The pairs of a recording, as a source like any other: `mcap:FILE`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from edge_sdk.clock import Clock
from edge_sdk.errors import ConfigError, FrameError
from edge_sdk.frames import FramePair, RegistrationBy
from edge_sdk.recording.layout import RecordedPair
from edge_sdk.recording.reader import Recording
from edge_sdk.sources.base import BaseSource, OnBad
from edge_sdk.sources.registration import RegistrationArgument, RegistrationRule
from edge_sdk.sources.uri import SourceUri

__all__ = ["MCAP_OPTIONS", "RecordedSource"]

MCAP_OPTIONS = ("registration",)
_BUNDLE_BY_DEFAULT = "the engine bundle's default"
"""What recordings say of pairs without a registration from before the bundle's had to be asked for."""


class RecordedSource(BaseSource):
    """Gives the pairs of a recording again, those too that got no answer.

    What the run answered is not used here; `edge_sdk.replay` compares it.

    Arguments:
        uri: `mcap:FILE`, taken apart.
        registration: instead of the recorded ones.
        on_bad, loop, clock: see `BaseSource`. A damaged chunk is one bad frame, however many pairs it held.

    Attributes:
        facts: what the recording says of its run.
        current: the entry of the pair given out last, or None.

    Raises:
        ConfigError, SourceError: see `Recording`.
    """

    def __init__(
        self,
        uri: SourceUri,
        *,
        registration: RegistrationArgument = None,
        on_bad: OnBad = "raise",
        loop: int = 1,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(uri.text, on_bad=on_bad, loop=loop, clock=clock)
        path = Path(uri.path)
        if path.is_dir():
            raise ConfigError(f"{uri.text}: a folder, expected a .mcap file")
        self._rule = RegistrationRule.of(uri, registration, path.parent)
        self._given = registration is not None or "registration" in uri.options
        self._recording = Recording(path)
        self._entries: Iterator[RecordedPair | FrameError] = iter(self._recording)
        self._units: set[str] = set()
        self._origins: set[str] = set()
        self.facts = self._recording.facts
        self.current: RecordedPair | None = None

    @property
    def problem(self) -> str:
        """What is wrong with the file, as far as it was read; "" where nothing is."""
        return self._recording.problem

    @property
    def _pass_length(self) -> int | None:
        return self._recording.length

    def _read(self, index: int) -> FramePair | None:
        entry = next(self._entries, None)
        if entry is None:
            return None
        if isinstance(entry, FrameError):
            raise entry
        self.current = entry
        if entry.pair.thermal is not None:
            self._units.add(entry.pair.thermal.unit.value)
        pair = entry.pair
        if self._given:
            given = self._rule.pair(pair.key, pair.rgb, pair.thermal, notes=pair.notes)
            pair = replace(
                pair,
                registration=given.registration,
                registration_by=given.registration_by,
                notes=given.notes,
            )
        elif pair.registration is None:
            by_default = self.facts.registration == _BUNDLE_BY_DEFAULT
            by = RegistrationBy.BUNDLE if by_default else RegistrationBy.ASSUMED
            pair = replace(pair, registration_by=by)
        if pair.registration is not None:
            self._origins.add(pair.registration.origin)
        return pair

    def _rewind(self) -> None:
        self._entries = iter(self._recording)

    def _release(self) -> None:
        self._recording.close()

    def _describe(self) -> dict[str, Any]:
        return {
            "kind": "mcap",
            "recorded_from": self.facts.source,
            "rgb": self.facts.rgb,
            "whole": self._recording.whole,
            "problem": self._recording.problem,
            "thermal_unit": "; ".join(sorted(self._units)) or self.facts.thermal_unit,
            "registration": "; ".join(sorted(self._origins)) or self.facts.registration,
            "licences": [],
        }
