"""The recording of an external meter: a CSV with a column of time and one of power.

The clocks of a wall meter and of this machine differ. `align` finds the offset from the run itself: power
rises where the run begins and falls where it ends.
"""

from __future__ import annotations

import csv
import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import MeterError
from edge_sdk.power import MeterFacts, PowerTrace, RailFacts

__all__ = ["RAIL", "WallRecording", "align", "load_csv"]

RAIL = "wall"
"""Label of the one rail of an external meter."""

_TIME_NAMES = ("timestamp", "time", "datetime", "date", "t")
_POWER_NAMES = ("power", "watts", "watt", "w", "p")
_GAIN_SHARE = 0.01
"""The file does not say how good the meter is; 1 % is taken."""

_GRID_S = 0.1
_LEAST_CORRELATION = 0.5
_CLOCKS_APART_S = 30.0


@dataclass(frozen=True, eq=False)
class WallRecording:
    """What a CSV held.

    Attributes:
        seconds: float64 [n], as the file counts: since 1970 where `absolute`, else since any start.
        watts: float64 [n].
        absolute: whether the times are dates.
        dropped: pairs of (line of the file, why it was not taken).
    """

    seconds: NDArray[np.float64]
    watts: NDArray[np.float64]
    absolute: bool
    dropped: tuple[tuple[int, str], ...]

    @property
    def facts(self) -> MeterFacts:
        """The meter, as far as a file can tell."""
        rail = RailFacts(RAIL, "external meter", in_total=True, gain_share=_GAIN_SHARE)
        note = "all that is plugged into the external meter: its error is not stated, 1 % is taken"
        return MeterFacts("external", "unknown", "board", (rail,), origin="external", note=note)

    def trace(self, shift_s: float = 0.0) -> PowerTrace:
        """Lays the samples on a monotonic clock.

        Arguments:
            shift_s: added to the file's seconds.
        """
        times_ns = np.round((self.seconds + shift_s) * 1e9).astype(np.int64)
        return PowerTrace(times_ns, np.zeros(len(times_ns), np.int64), {RAIL: self.watts})


def load_csv(path: Path) -> WallRecording:
    """Reads a recording. The header names the columns: `time` or `timestamp`, and `power_w`, `watts` or `mW`.

    Times are seconds since any start, seconds or milliseconds since 1970, or ISO 8601 (local without a zone).

    Raises:
        MeterError: no such file, no such columns, or fewer than two samples.
    """
    try:
        lines = path.read_text("utf-8-sig", errors="replace").splitlines()
    except OSError as error:
        raise MeterError(f"{path}: cannot be read ({error.strerror or error})") from error
    delimiter = ";" if lines and lines[0].count(";") > lines[0].count(",") else ","
    rows = list(csv.reader(lines, delimiter=delimiter))
    header = [name.strip().lower() for name in rows[0]] if rows else []
    time_at, power_at = _find(header, _TIME_NAMES), _find(header, _POWER_NAMES)
    if power_at is None:
        power_at = next((at for at, name in enumerate(header) if name in ("mw", "milliwatts")), None)
    if time_at is None or power_at is None:
        raise MeterError(
            f"{path}: expected a header with a column of time (timestamp, time) and one of power "
            f"(power_w, watts, power_mw), found {', '.join(header) or 'nothing'}"
        )
    scale = 1e-3 if "mw" in header[power_at] or "milliwatt" in header[power_at] else 1.0
    seconds: list[float] = []
    watts: list[float] = []
    dropped = []
    absolute = False
    for number, row in enumerate(rows[1:], start=2):
        try:
            moment, dated = _seconds(row[time_at], header[time_at])
            value = float(row[power_at]) * scale
        except (ValueError, IndexError, OverflowError):
            dropped.append((number, "no time or no power in it"))
            continue
        if not np.isfinite([moment, value]).all():
            dropped.append((number, "not a finite number"))
        elif seconds and moment <= seconds[-1]:
            dropped.append((number, "not after the sample before it"))
        else:
            seconds.append(moment)
            watts.append(value)
            absolute = dated
    if len(seconds) < 2:
        raise MeterError(f"{path}: {len(seconds)} samples can be read, at least 2 are needed")
    return WallRecording(np.array(seconds), np.array(watts), absolute, tuple(dropped))


def align(
    recording: WallRecording,
    busy: Sequence[tuple[float, float]],
    span: tuple[float, float],
    near_s: float | None = None,
) -> tuple[float, float]:
    """Finds by how much the recording's seconds must be shifted to lie on the run's clock.

    Arguments:
        recording: covers at least the run.
        busy: (start, end) of each time that work was done, in seconds of the run's clock.
        span: (start, end) of all that is known of the run, idle before and after it included.
        near_s: the shift that the dates of both clocks give; only shifts within 30 s of it are tried.

    Returns: the shift in seconds, and the correlation that it rests on.

    Raises:
        MeterError: the recording is shorter than the run, or its power does not follow the work.
    """
    grid = np.arange(span[0], span[1], _GRID_S)
    working = np.zeros(len(grid))
    for start, end in busy:
        working[(grid >= start) & (grid < end)] = 1.0
    first, last = float(recording.seconds[0]), float(recording.seconds[-1])
    shifts = np.arange(span[1] - last, span[0] - first + _GRID_S / 2, _GRID_S)
    if near_s is not None:
        shifts = shifts[np.abs(shifts - near_s) <= _CLOCKS_APART_S]
    if not len(shifts):
        raise MeterError(
            f"the external recording ({last - first:.1f} s) does not cover the run with its idle times "
            f"({span[1] - span[0]:.1f} s). Record from before the run until after it"
        )
    best_shift, best = 0.0, -1.0
    if working.std() > 0:
        working = (working - working.mean()) / working.std()
        for shift in shifts:
            power = np.interp(grid, recording.seconds + shift, recording.watts)
            spread = float(power.std())
            match = float((working * (power - power.mean())).mean() / spread) if spread > 0 else -1.0
            if match > best:
                best_shift, best = float(shift), match
    if best < _LEAST_CORRELATION:
        raise MeterError(
            "the external recording cannot be aligned: its power does not rise and fall with the run. "
            "Measure idle before and after, or give the offset"
        )
    return best_shift, best


def with_note(facts: MeterFacts, note: str) -> MeterFacts:
    """Adds a sentence to a meter's note."""
    return replace(facts, note="; ".join(part for part in (facts.note, note) if part))


def _find(header: Sequence[str], names: Sequence[str]) -> int | None:
    for name in names:
        for at, column in enumerate(header):
            if column == name or (len(name) > 1 and column.startswith(name)):
                return at
    return None


def _seconds(text: str, header: str) -> tuple[float, bool]:
    """Reads a time, and says whether it is a date."""
    text = text.strip()
    try:
        value = float(text)
    except ValueError:
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp(), True
    if header.endswith("_ms"):
        value /= 1e3
    if value > 1e11:
        return value / 1e3, True
    return value, value > 1e8
