"""What every power meter can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from edge_sdk.power import MeterFacts, Skipped

__all__ = ["Meter", "RailReading", "Reading", "Unavailable"]


class Unavailable(Exception):
    """A meter does not serve on this machine; the text says why. Caught by whoever chooses a meter."""


@dataclass(frozen=True)
class RailReading:
    """One rail at one moment. None: not given by this sensor.

    Attributes:
        v, a, w: volts, amperes, watts.
        j: joules counted since an arbitrary start.
    """

    v: float | None = None
    a: float | None = None
    w: float | None = None
    j: float | None = None


@dataclass(frozen=True)
class Reading:
    """All rails, read once.

    Attributes:
        before_ns, after_ns: monotonic clock around the read; the middle counts.
        rails: by label. A rail that gave nothing is absent.
        skipped: rails that gave nothing this time, and why.
    """

    before_ns: int
    after_ns: int
    rails: Mapping[str, RailReading]
    skipped: tuple[Skipped, ...] = ()

    @property
    def at_ns(self) -> int:
        """The moment that the reading stands for."""
        return (self.before_ns + self.after_ns) // 2

    @property
    def read_ns(self) -> int:
        """How long the read took."""
        return self.after_ns - self.before_ns

    def sum_w(self, labels: tuple[str, ...]) -> float | None:
        """Adds rails up; None where one of them gave nothing, or there are none."""
        watts = [self.rails[label].w if label in self.rails else None for label in labels]
        known = [value for value in watts if value is not None]
        return sum(known) if labels and len(known) == len(watts) else None


class Meter(Protocol):
    """Reads the rails of one machine. Opened by reading once, so that a meter that exists also answers."""

    @property
    def facts(self) -> MeterFacts:
        """What it reads and how far that can be trusted."""
        ...

    def read(self) -> Reading:
        """Reads all rails now. For one thread at a time.

        Raises:
            MeterError: nothing could be read at all.
        """
        ...

    def close(self) -> None:
        """Gives everything back. A second call does nothing."""
        ...
