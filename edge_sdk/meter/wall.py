"""The recording of an external meter: a CSV with times and power, or with counted energy.

The clocks of a wall meter and of this machine differ. `align` finds the offset from the run itself: power
rises where the run begins and falls where it ends.
"""

from __future__ import annotations

import csv
import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import MeterError
from edge_sdk.meter.boards import Board
from edge_sdk.meter.csv_columns import Columns, find_columns
from edge_sdk.meter.csv_values import ClockKind, Moment, TimeReader, number
from edge_sdk.meter.tegrastats import rails_behind_tegrastats
from edge_sdk.power import MeterFacts, PowerTrace, RailFacts
from edge_sdk.stats import MAX_RAIL_W

__all__ = ["RAIL", "WallRecording", "align", "load_csv", "text_of"]

RAIL = "wall"
"""Label of the one rail of an external meter."""

_GAIN_SHARE = 0.01
"""The file does not say how good the meter is; 1 % is taken."""

_HEADER_LINES = 60
"""A header is looked for in so many lines: some meters write their settings first."""

_SHOWN_DROPS = 3
_MAX_TEXT_NBYTES = 2**29
_HOUR_S = 3600.0
_GRID_S = 0.1
_LEAST_CORRELATION = 0.5
_RIVAL_CORRELATION = 0.1
"""Another place that fits as well but for this much makes the alignment ambiguous."""
_CLOCKS_APART_S = 30.0


@dataclass(frozen=True, eq=False)
class WallRecording:
    """What a CSV held.

    Attributes:
        seconds: float64 [n], as the file counts: since 1970 where `kind` is a date, else since any start.
        watts: label -> float64 [n].
        joules: label -> float64 [n], where the file counts energy; `watts` are then the means between counts.
        kind: what the times count from.
        facts: the meter, as far as a file can tell; its note names the columns and units that were taken.
        dropped: pairs of (line of the file, why it was not taken).
        notes: what was assumed of the times.
    """

    seconds: NDArray[np.float64]
    watts: Mapping[str, NDArray[np.float64]]
    kind: ClockKind
    facts: MeterFacts
    dropped: tuple[tuple[int, str], ...] = ()
    joules: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def total_w(self) -> NDArray[np.float64]:
        """Power of the total, or of all rails where no total is known, in watts, float64 [n]. Copies: yes."""
        return self.trace().sum_of(self.facts.total_rails or tuple(self.watts))

    def trace(self, shift_s: float = 0.0) -> PowerTrace:
        """Lays the samples on a monotonic clock.

        Arguments:
            shift_s: added to the file's seconds.
        """
        times_ns = np.round((self.seconds + shift_s) * 1e9).astype(np.int64)
        return PowerTrace(times_ns, np.zeros(len(times_ns), np.int64), self.watts, self.joules)


def load_csv(path: Path) -> WallRecording:
    """Reads a recording; its header names the columns and their units.

    Power: `power_w`, `watts`, `Power (kW)`, `power_mw`; or counted energy (`kWh`, `energy_wh`); or a log of
    jetson-stats. Times: dates (ISO 8601, 31.1.2026, 31/1/2026, with or without a zone), seconds, milli-,
    micro- and nanoseconds since 1970, or seconds since any start. Commas, semicolons or tabs between columns;
    decimal points or commas.

    Raises:
        MeterError: no such file, no such columns, several that may be meant, or fewer than two samples.
    """
    lines = text_of(path).splitlines()
    at, columns, rows = _table(path, lines)
    dropped: list[tuple[int, str]] = []
    reader = TimeReader(columns.time_scale, [_time_text(row, columns) for row in rows if row][:5000])
    comma_splits = _delimiter(lines[at]) == ","
    labels = tuple(columns.power) or tuple(columns.energy)
    moments: list[Moment] = []
    values: list[list[float]] = []
    running = _RunningClock()
    for line, row in enumerate(rows, start=at + 2):
        if not any(cell.strip() for cell in row):
            continue
        try:
            moment = running.take(reader.read(_time_text(row, columns)))
            found = [
                number(row[place], comma_splits=comma_splits) * scale
                for place, scale in (columns.power or columns.energy).values()
            ]
        except (ValueError, IndexError, OverflowError) as error:
            why = str(error) if isinstance(error, ValueError) else "no time or no power in it"
            dropped.append((line, why))
            continue
        if not np.isfinite([moment.seconds, *found]).all():
            dropped.append((line, "not a finite number"))
        elif columns.power and not all(0.0 <= value <= MAX_RAIL_W for value in found):
            dropped.append((line, f"{max(found, key=abs):g} W: expected 0 to {MAX_RAIL_W:g} W"))
        elif moments and moment.seconds <= moments[-1].seconds:
            dropped.append((line, "not after the sample before it"))
        elif moments and moment.kind is not moments[0].kind:
            dropped.append((line, f"a time of another kind ({moment.kind.value}) than before"))
        else:
            moments.append(moment)
            values.append(found)
    if len(moments) < 2:
        reasons = "; ".join(f"line {line}: {why}" for line, why in dropped[:_SHOWN_DROPS])
        raise MeterError(
            f"{path}: {len(moments)} samples can be read, at least 2 are needed. {columns.words}. "
            f"{len(dropped)} lines were dropped{': ' + reasons if reasons else ''}"
        )
    seconds = np.array([moment.seconds for moment in moments])
    table = {label: np.array(column) for label, column in zip(labels, zip(*values, strict=True), strict=True)}
    joules: dict[str, NDArray[np.float64]] = {}
    if columns.energy:
        joules = table
        table = {label: _mean_watts(seconds, column) for label, column in table.items()}
    watts, facts = _jetson(columns.words, table) if columns.jtop else (table, _meter(columns, rows))
    kind = moments[0].kind
    notes = [*running.notes]
    if kind is ClockKind.NAIVE:
        notes.append("times have no zone: they are taken as one running clock")
    return WallRecording(seconds, watts, kind, facts, tuple(dropped), joules, tuple(notes))


def text_of(path: Path) -> str:
    """Reads a text file of another program: UTF-8, or UTF-16 by its byte order mark.

    Raises:
        MeterError: it cannot be read, is too large, or is no text.
    """
    try:
        if path.stat().st_size > _MAX_TEXT_NBYTES:
            raise MeterError(f"{path}: larger than {_MAX_TEXT_NBYTES >> 20} MiB. Cut it into parts")
        content = path.read_bytes()
    except OSError as error:
        raise MeterError(f"{path}: cannot be read ({error.strerror or error})") from error
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16", errors="replace")
    if b"\0" in content[:4096]:
        raise MeterError(
            f"{path}: expected text (UTF-8, or UTF-16 with a byte order mark), found binary data"
        )
    return content.decode("utf-8-sig", errors="replace")


def align(
    recording: WallRecording,
    busy: Sequence[tuple[float, float]],
    span: tuple[float, float],
    near_s: Sequence[float] = (),
) -> tuple[float, float]:
    """Finds by how much the recording's seconds must be shifted to lie on the run's clock.

    Arguments:
        recording: covers at least the run.
        busy: (start, end) of each time that work was done, in seconds of the run's clock.
        span: (start, end) of all that is known of the run, idle before and after it included.
        near_s: shifts that the dates of both clocks give; only shifts within 30 s of one of them are tried.

    Returns: the shift in seconds, and the correlation that it rests on.

    Raises:
        MeterError: the recording is shorter than the run, its power does not follow the work, or it does so
            at several places.
    """
    grid = np.arange(span[0], span[1], _GRID_S)
    working = np.zeros(len(grid))
    for start, end in busy:
        working[(grid >= start) & (grid < end)] = 1.0
    first, last = float(recording.seconds[0]), float(recording.seconds[-1])
    shifts = np.arange(span[1] - last, span[0] - first + _GRID_S / 2, _GRID_S)
    if near_s:
        near = np.abs(shifts[:, None] - np.asarray(near_s)[None, :]).min(axis=1)
        shifts = shifts[near <= _CLOCKS_APART_S]
    if not len(shifts):
        raise MeterError(
            f"the external recording ({last - first:.1f} s) does not cover the run with its idle times "
            f"({span[1] - span[0]:.1f} s). Record from before the run until after it"
        )
    matches = np.full(len(shifts), -1.0)
    if working.std() > 0:
        working = (working - working.mean()) / working.std()
        watts = recording.total_w
        for at, shift in enumerate(shifts):
            power = np.interp(grid, recording.seconds + shift, watts)
            spread = float(power.std())
            if spread > 0:
                matches[at] = float((working * (power - power.mean())).mean() / spread)
    best = int(matches.argmax())
    if matches[best] < _LEAST_CORRELATION:
        raise MeterError(
            "the external recording cannot be aligned: its power does not rise and fall with the run. "
            "Measure idle before and after, or give the offset"
        )
    rival = _rival(shifts, matches, best)
    if rival is not None:
        raise MeterError(
            "the external recording cannot be aligned: its power fits the run at a shift of "
            f"{shifts[best]:.1f} s (correlation {matches[best]:.2f}) and of {shifts[rival]:.1f} s "
            f"({matches[rival]:.2f}). Give the offset, or record this run alone"
        )
    return float(shifts[best]), float(matches[best])


def with_note(facts: MeterFacts, note: str) -> MeterFacts:
    """Adds a sentence to a meter's note."""
    return replace(facts, note="; ".join(part for part in (facts.note, note) if part))


class _RunningClock:
    """Times without a zone go on where the clock was set back by an hour, as at the end of summer time."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._added_s = 0.0
        self._last_s: float | None = None
        self._step_s = 0.0

    def take(self, moment: Moment) -> Moment:
        """Returns the moment on the running clock."""
        if moment.kind is not ClockKind.NAIVE:
            return moment
        seconds = moment.seconds + self._added_s
        if self._last_s is not None:
            back_s = self._last_s - seconds
            if abs(back_s - _HOUR_S) <= max(2.0 * self._step_s, 2.0):
                self._added_s += _HOUR_S
                seconds += _HOUR_S
                day = datetime.datetime.fromtimestamp(moment.seconds, datetime.timezone.utc)
                self.notes.append(
                    f"the clock went back an hour at {day:%Y-%m-%d %H:%M:%S}: taken as summer time's end"
                )
            self._step_s = max(0.0, seconds - self._last_s)
        self._last_s = seconds
        return Moment(seconds, moment.kind)


def _table(path: Path, lines: list[str]) -> tuple[int, Columns, list[list[str]]]:
    """Finds the header and returns its place, its columns and the rows below it."""
    why = ""
    for at, line in enumerate(lines[:_HEADER_LINES]):
        header = next(csv.reader([line], delimiter=_delimiter(line)), [])
        found = find_columns(header, RAIL)
        if isinstance(found, Columns):
            return at, found, list(csv.reader(lines[at + 1 :], delimiter=_delimiter(line)))
        if not why or "cannot be told" in found:
            why = f"{found}. Found {', '.join(name.strip() for name in header) or 'nothing'}"
    raise MeterError(f"{path}: expected a header that names time and power: {why or 'found nothing'}")


def _delimiter(line: str) -> str:
    return max((",", ";", "\t"), key=line.count)


def _time_text(row: Sequence[str], columns: Columns) -> str:
    return " ".join(row[at].strip() for at in columns.time_at if at < len(row))


def _meter(columns: Columns, rows: Sequence[Sequence[str]]) -> MeterFacts:
    (label, (place, scale)), *_ = (columns.power or columns.energy).items()
    lsb_w = 0.0 if columns.energy else _resolution([row[place] for row in rows if place < len(row)]) * scale
    rail = RailFacts(label, "external meter", in_total=True, lsb_w=lsb_w, gain_share=_GAIN_SHARE)
    note = (
        f"all that is plugged into the external meter: its error is not stated, 1 % is taken; {columns.words}"
    )
    return MeterFacts("external", "unknown", "board", (rail,), origin="external", note=note)


def _resolution(texts: Sequence[str]) -> float:
    """Returns the last digit that the file writes, in its own unit."""
    digits = [match[1] for text in texts if (match := re.fullmatch(r"\s*[+-]?\d+(?:[.,](\d*))?\s*", text))]
    return 10.0 ** -max((len(found or "") for found in digits), default=0)


def _jetson(
    words: str, table: dict[str, NDArray[np.float64]]
) -> tuple[dict[str, NDArray[np.float64]], MeterFacts]:
    """Describes the rails of a log of jetson-stats; its own total counts rails twice on some boards."""
    total = next((label for label in table if label.casefold() in ("tot", "total", "cur")), None)
    rails_w = {label: column for label, column in table.items() if label != total}
    if total is not None and rails_w.keys() <= {"VDD_CPU_GPU_CV", "VDD_SOC"}:
        rails_w = {"VDD_IN": table[total], **rails_w}  # jetson-stats shows VDD_IN as its total
    rails, note = rails_behind_tegrastats(
        {label: float(column.mean() * 1e3) for label, column in rails_w.items()}, Board("unknown")
    )
    rails = tuple(replace(rail, sensor="ina3221 by jetson-stats") for rail in rails)
    known = any(rail.in_total for rail in rails)
    scope = "module" if known else "rails"
    note = note or "a log of jetson-stats does not name its board: it is told by its rails"
    note = f"{note}; {words}"
    return rails_w, MeterFacts("external", "unknown", scope, rails, origin="external", note=note)


def _mean_watts(seconds: NDArray[np.float64], joules: NDArray[np.float64]) -> NDArray[np.float64]:
    """Power between one change of a counter and the next, all that a counter of whole Wh can show."""
    changed = np.concatenate([[0], np.flatnonzero(np.diff(joules) != 0.0) + 1])
    if len(changed) < 2:
        return np.full(len(joules), np.nan)
    watts = np.diff(joules[changed]) / np.diff(seconds[changed])
    held = np.searchsorted(changed, np.arange(len(joules)), side="left").clip(1, len(watts)) - 1
    return np.asarray(watts[held])


def _rival(shifts: NDArray[np.float64], matches: NDArray[np.float64], best: int) -> int | None:
    """Finds another peak that fits nearly as well, with a valley between the two."""
    wanted = matches[best] - _RIVAL_CORRELATION
    for step in (-1, 1):
        low, at = float(matches[best]), best
        while 0 <= at + step < len(matches) and abs(shifts[at + step] - shifts[at]) < 2 * _GRID_S:
            at += step
            low = min(low, float(matches[at]))
            if matches[at] >= wanted and low < wanted - _RIVAL_CORRELATION:
                return at
    apart = np.flatnonzero((matches >= wanted) & (np.abs(shifts - shifts[best]) > 2 * _CLOCKS_APART_S))
    return int(apart[0]) if len(apart) else None
