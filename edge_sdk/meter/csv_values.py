"""Numbers and times as the meters of many countries write them."""

from __future__ import annotations

import calendar
import datetime
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

__all__ = ["ClockKind", "Moment", "TimeReader", "number"]

_EPOCH_SCALES = ((1e18, 1e-9), (1e15, 1e-6), (1e12, 1e-3), (1e9, 1.0))
"""Stamps of this century lie within a factor of ten of 1.7 times these; see `_dated`."""

_DAY_S = 86_400.0
_ISO = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?:[T ]+(.*))?")
_DOTTED = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(?:[T ,]+(.*))?")
_SLASHED = re.compile(r"(\d{1,2})[/-](\d{1,2})[/-](\d{4})(?:[T ,]+(.*))?")
_CLOCK = re.compile(
    r"(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,:](\d+))?)?\s*([AaPp][Mm])?\s*(Z|[+-]\d{2}:?\d{2}|UTC|GMT)?"
)


class ClockKind(str, Enum):
    """What the times of a file count from.

    DATED: since 1970, UTC. NAIVE: dates without a zone, taken as one running clock. ELAPSED: any start.
    """

    DATED = "dated"
    NAIVE = "naive"
    ELAPSED = "elapsed"


@dataclass(frozen=True)
class Moment:
    """One time of a file, in seconds, and what it counts from."""

    seconds: float
    kind: ClockKind


def number(text: str, *, comma_splits: bool) -> float:
    """Reads a number with a decimal point or comma.

    Arguments:
        comma_splits: the file's columns are split by commas; then `1,234` in quotes may be either.

    Raises:
        ValueError: it is no number, or may be two.
    """
    text = text.strip().replace("\u00a0", "").replace(" ", "")
    if "," in text:
        if "." in text:
            decimal = "," if text.rfind(",") > text.rfind(".") else "."
            text = text.replace("." if decimal == "," else ",", "").replace(decimal, ".")
        elif text.count(",") > 1:
            text = text.replace(",", "")
        elif comma_splits and re.fullmatch(r"[+-]?\d{1,3},\d{3}", text):
            raise ValueError(f"{text} may be {text.replace(',', '.')} or {text.replace(',', '')}")
        else:
            text = text.replace(",", ".")
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?|[+-]?(nan|inf)", text, re.IGNORECASE):
        raise ValueError(f"{text[:40]!r} is no number")
    return float(text)


class TimeReader:
    """Reads the times of one column.

    Arguments:
        scale: seconds a unit, where the header says so; else a number's size tells seconds, milli-, micro-
            and nanoseconds since 1970 apart, and a small one counts seconds.
        sample: texts of the column, from which the order of day and month in 1/2/2026 is told.
    """

    def __init__(self, scale: float | None, sample: Sequence[str]) -> None:
        self._scale = scale
        self._day_first = _day_first(sample)
        self._last_of_day: float | None = None
        self._days = 0

    def read(self, text: str) -> Moment:
        """Reads a time.

        Raises:
            ValueError: it is none, or day and month cannot be told apart.
        """
        text = text.strip()
        if re.fullmatch(r"[+-]?[\d.,]+([eE][+-]?\d+)?", text) and not _DOTTED.fullmatch(text):
            return _dated(number(text, comma_splits=False), self._scale)
        for pattern, order in ((_ISO, "ymd"), (_DOTTED, "dmy"), (_SLASHED, "")):
            if match := pattern.fullmatch(text):
                year, month, day = self._date(match.groups()[:3], order, text)
                seconds, zone = _of_day(match[4] or "0:00", text)
                start = calendar.timegm((year, month, day, 0, 0, 0))
                if zone is None:
                    return Moment(start + seconds, ClockKind.NAIVE)
                return Moment(start + seconds - zone, ClockKind.DATED)
        seconds, _ = _of_day(text, text)
        if self._last_of_day is not None and seconds < self._last_of_day - _DAY_S / 2:
            self._days += 1  # past midnight
        self._last_of_day = seconds
        return Moment(self._days * _DAY_S + seconds, ClockKind.ELAPSED)

    def _date(self, parts: Sequence[str], order: str, text: str) -> tuple[int, int, int]:
        first, second, third = (int(part) for part in parts)
        if order == "ymd":
            found = first, second, third
        elif order == "dmy" or self._day_first:
            found = third, second, first
        elif self._day_first is None:
            raise ValueError(f"{text}: day and month cannot be told apart. Write dates as 2026-01-31")
        else:
            found = third, first, second
        datetime.date(*found)  # raises ValueError for a date that is none
        return found


def _day_first(sample: Sequence[str]) -> bool | None:
    pairs = [(int(match[1]), int(match[2])) for text in sample if (match := _SLASHED.fullmatch(text.strip()))]
    if any(first > 12 for first, _ in pairs):
        return True
    return False if any(second > 12 for _, second in pairs) else None


def _of_day(text: str, whole: str) -> tuple[float, float | None]:
    """Returns seconds of the day, and those of the zone east of UTC where there is one."""
    match = _CLOCK.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{whole[:40]!r} is no time")
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    if match[5]:
        hour = hour % 12 + (12 if match[5].casefold() == "pm" else 0)
    if hour > 23 or minute > 59 or second > 60:
        raise ValueError(f"{whole[:40]!r} is no time")
    fraction = float(f"0.{match[4]}") if match[4] else 0.0
    zone = match[6]
    if zone is None:
        return hour * 3600.0 + minute * 60.0 + second + fraction, None
    east = 0.0
    if zone[0] in "+-":
        digits = zone[1:].replace(":", "")
        east = (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (1.0 if zone[0] == "+" else -1.0)
    return hour * 3600.0 + minute * 60.0 + second + fraction, east


def _dated(value: float, scale: float | None) -> Moment:
    if not math.isfinite(value):
        raise ValueError(f"{value} is no time")
    if scale is None:
        scale = next((unit for size, unit in _EPOCH_SCALES if value >= 0.1 * size), 1.0)
    seconds = value * scale
    return Moment(seconds, ClockKind.DATED if seconds >= 1e8 else ClockKind.ELAPSED)
