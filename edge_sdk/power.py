"""What a power meter says of itself and of its readings: values that meters, records and reports share.

A meter reads rails. Some of them add up to one figure, and only for that figure is a scope named: what
of the machine it covers. A reading without its scope, sensor and error means nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import ConfigError, ShapeError
from edge_sdk.members import flag, number, put, text

__all__ = [
    "ORIGINS",
    "SCOPES",
    "MeterFacts",
    "PowerPart",
    "PowerTrace",
    "RailFacts",
    "Skipped",
    "Span",
]

SCOPES = ("module", "gpu", "board", "cpu package", "rails")
"""What the total covers. "module": the Jetson module without carrier board, cameras and power supply;
"board": all that is plugged into an external meter; "rails": single rails, of which no total is known."""

ORIGINS = {
    "live": "",
    "tree": "read from a copied file tree: not the power of this machine",
    "external": "from the recording of an external meter, aligned afterwards",
    "replay": "replayed from a recording: not measured in this run",
}
"""Where readings come from, and what every rendering says of those that are not this machine's own."""


Span = tuple[int, int]
"""Start and end on the monotonic clock, in nanoseconds."""


@dataclass(frozen=True)
class RailFacts:
    """One rail and how far its reading can be trusted.

    Attributes:
        label: as the board names it.
        sensor: chip and channel.
        in_total: whether it is part of the total.
        tau_s: time constant of the sensor's running average; 0 for a sensor that does not lag.
        tau_share: standard uncertainty of `tau_s`, as a share of it.
        lsb_w: one step of the reading, in watts at the voltage that was read.
        offset_w: largest offset by the data sheet.
        gain_share: standard uncertainty of the gain, as a share.
    """

    label: str
    sensor: str
    in_total: bool = False
    tau_s: float = 0.0
    tau_share: float = 0.0
    lsb_w: float = 0.0
    offset_w: float = 0.0
    gain_share: float = 0.0

    def __post_init__(self) -> None:
        members = {name: text(getattr(self, name), f"rail {name}") for name in ("label", "sensor")}
        figures = {
            name: number(getattr(self, name), f"rail {self.label}: {name}")
            for name in ("tau_s", "tau_share", "lsb_w", "offset_w", "gain_share")
        }
        for name, figure in figures.items():
            if figure < 0:
                raise ConfigError(f"rail {self.label}: {name}: expected 0 or more, found {figure:g}")
        put(self, in_total=flag(self.in_total, f"rail {self.label}: in_total"), **members, **figures)


@dataclass(frozen=True)
class Skipped:
    """A channel, sample or line that gave no reading.

    Attributes:
        channel: which.
        why: the cause, as text.
    """

    channel: str
    why: str

    def __post_init__(self) -> None:
        put(self, channel=text(self.channel, "skipped channel"), why=text(self.why, "why it was skipped"))


@dataclass(frozen=True)
class MeterFacts:
    """A meter.

    Attributes:
        meter: its name: "ina3221", "jtop", "nvml", "rapl", "tegrastats", "external", "replay".
        board: the machine as its device tree names it, or "unknown".
        scope: one of `SCOPES`: what the total covers.
        rails: every rail that answered when the meter was opened.
        origin: a key of `ORIGINS`.
        note: what a reader must know, such as why there is no total.
        skipped: channels that are not read, and why.
        tried: meters that were tried before this one, and why they did not serve.
    """

    meter: str
    board: str
    scope: str
    rails: tuple[RailFacts, ...]
    origin: str = "live"
    note: str = ""
    skipped: tuple[Skipped, ...] = ()
    tried: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for name, known in (("scope", SCOPES), ("origin", tuple(ORIGINS))):
            if getattr(self, name) not in known:
                raise ConfigError(
                    f"meter {name}: expected one of {', '.join(known)}, found {getattr(self, name)!r}"
                )
        words = {
            name: text(getattr(self, name), f"meter {name}")
            for name in ("meter", "board", "scope", "origin", "note")
        }
        rails, skipped = tuple(self.rails), tuple(self.skipped)
        for items, kind in ((rails, RailFacts), (skipped, Skipped)):
            for item in items:
                if not isinstance(item, kind):
                    raise ConfigError(f"meter: expected {kind.__name__}, found {item!r}")
        tried = tuple((text(name, "meter tried"), text(why, "meter tried")) for name, why in self.tried)
        put(self, rails=rails, skipped=skipped, tried=tried, **words)

    @property
    def total_rails(self) -> tuple[str, ...]:
        """Labels of the rails that add up to the total, empty where none is known."""
        return tuple(rail.label for rail in self.rails if rail.in_total)

    @property
    def caveat(self) -> str:
        """What to say beside every figure: where it is not this machine's own, and why."""
        return ORIGINS[self.origin]

    @property
    def named(self) -> str:
        """The meter, what it covers and which rails it adds up, for people."""
        rails = " + ".join(self.total_rails) or "no total"
        caveat = f"; {self.caveat}" if self.caveat else ""
        return f"{self.meter}, {self.scope} ({rails}){caveat}"


@dataclass(frozen=True, eq=False)
class PowerTrace:
    """Samples in the order of time.

    Attributes:
        times_ns: int64 [n], monotonic clock at the middle of each read.
        read_ns: int64 [n], how long each read took.
        watts: float64 [n] a rail, NaN where a rail gave nothing.
        joules: float64 [n] a rail, energy counted since an arbitrary start, for meters that count energy.
    """

    times_ns: NDArray[np.int64]
    read_ns: NDArray[np.int64]
    watts: Mapping[str, NDArray[np.float64]]
    joules: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        put(self, **{name: _times(getattr(self, name), name) for name in ("times_ns", "read_ns")})
        count = len(self.times_ns)
        columns: dict[str, NDArray[Any]] = {"read_ns": self.read_ns}
        for name in ("watts", "joules"):
            rails = {label: np.asarray(values, np.float64) for label, values in getattr(self, name).items()}
            put(self, **{name: rails})
            columns.update({f"{name} of {label}": values for label, values in rails.items()})
        for name, values in columns.items():
            if values.shape != (count,):
                raise ShapeError(f"power trace: {name}", f"[{count}]", f"{list(values.shape)}")

    def __len__(self) -> int:
        return len(self.times_ns)

    def rate_hz(self) -> float | None:
        """Returns the sampling rate really achieved, None for fewer than two samples."""
        if len(self) < 2 or self.times_ns[-1] <= self.times_ns[0]:
            return None
        return float((len(self) - 1) * 1e9 / (self.times_ns[-1] - self.times_ns[0]))

    def sum_of(self, labels: tuple[str, ...]) -> NDArray[np.float64]:
        """Adds rails up sample by sample: float64 [n], NaN where one of them gave nothing. Copies: yes."""
        total = np.zeros(len(self)) if labels else np.full(len(self), np.nan)
        for label in labels:
            total += self.watts[label]
        return total


@dataclass(frozen=True, eq=False)
class PowerPart:
    """What a meter gave over one run. Times are on the run's monotonic clock, pauses included.

    Attributes:
        facts: the meter.
        trace: its samples, from before the run until after it.
        hz: samples a second that were asked for.
        pause_ns: int64, one a frame: time after it that the run's clock stood still (pictures drawn).
        idle_before, idle_after: when nothing ran, engine loaded; None where idle was not measured.
        cpu_share: what sampling took of one core, None where not known.
        failed: why sampling stopped early, or "".
    """

    facts: MeterFacts
    trace: PowerTrace
    hz: float
    pause_ns: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    idle_before: Span | None = None
    idle_after: Span | None = None
    cpu_share: float | None = None
    failed: str = ""


def _times(values: object, name: str) -> NDArray[np.int64]:
    times = np.asarray(values)
    if times.ndim != 1 or (times.size and times.dtype.kind not in "iu"):
        raise ShapeError(
            f"power trace: {name}", "whole nanoseconds [n]", f"{times.dtype} {list(times.shape)}"
        )
    return times.astype(np.int64, copy=False)
