"""What the columns of a meter's CSV mean: only a name that is exact, or that bears a unit, is believed.

A wrong column or a wrong unit is the worst fault of an energy figure: nothing else looks wrong afterwards. So
"power_factor" is no power, VA is no W, and of two candidates none is taken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Columns", "find_columns"]

_WATTS = {
    **dict.fromkeys(("w", "watt", "watts"), 1.0),
    **dict.fromkeys(("mw", "milliwatt", "milliwatts"), 1e-3),
    **dict.fromkeys(("uw", "µw", "μw", "microwatt", "microwatts"), 1e-6),
    **dict.fromkeys(("kw", "kilowatt", "kilowatts"), 1e3),
}
_JOULES = {
    **dict.fromkeys(("wh", "watthour", "watthours"), 3600.0),
    **dict.fromkeys(("kwh",), 3.6e6),
    **dict.fromkeys(("mwh",), 3.6),
    **dict.fromkeys(("j", "joule", "joules"), 1.0),
    **dict.fromkeys(("mj",), 1e-3),
    **dict.fromkeys(("kj",), 1e3),
}
_SECONDS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "millis", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "μs", "usec", "micros", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nanos", "nanosecond", "nanoseconds"), 1e-9),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60.0),
}
_EXACT_POWER = {
    "power",
    "p",
    "active power",
    "real power",
    "total power",
    "apower",
    "power active",
    "power real",
}
_NO_POWER = {
    "factor", "hour", "hours", "on", "off", "limit", "cap", "max", "maximum", "min", "minimum", "peak",
    "rated", "apparent", "reactive", "va", "var", "cost", "price", "budget", "setpoint", "target", "sigma",
    "std",
}  # fmt: skip
"""Words beside a unit that make a column something else than the power now."""

_TIME_NAMES = (
    "timestamp", "datetime", "date time", "time", "ts", "unix", "unix time", "epoch", "utc", "time utc",
    "utc time", "local time", "elapsed", "elapsed time", "uptime", "date", "t", "",
)  # fmt: skip
"""Names of times in the order in which they are preferred; "" stands for a bare unit such as `seconds`."""

_JTOP_RAIL = re.compile(r"power (\S+)", re.IGNORECASE)


@dataclass(frozen=True)
class Columns:
    """Where a file keeps what.

    Attributes:
        time_at: columns of the time: one, or date and time of day.
        time_scale: seconds a unit of the time where its header says so, else None.
        power: label -> (column, watts a unit).
        energy: label -> (column, joules a unit), for counters.
        jtop: whether it is a log of jetson-stats, whose unnamed unit is the milliwatt.
        words: which columns and units were taken, for people.
    """

    time_at: tuple[int, ...]
    time_scale: float | None
    power: dict[str, tuple[int, float]]
    energy: dict[str, tuple[int, float]]
    jtop: bool
    words: str


def find_columns(header: Sequence[str], label: str) -> Columns | str:
    """Finds time and power in a header, or says why not.

    Arguments:
        header: names as the file has them.
        label: of the one rail of an external meter.
    """
    times = _times(header)
    if not times:
        return "no column of time (timestamp, time, time_ms, date)"
    time_at, time_scale = times
    where = " + ".join(repr(header[at].strip()) for at in time_at)
    jtop = _jtop(header)
    if jtop:
        listed = ", ".join(repr(header[at].strip()) for at, _ in jtop.values())
        return Columns(
            time_at, time_scale, jtop, {}, True, f"a log of jetson-stats: {listed} in mW, times {where}"
        )
    power = [(at, scale) for at, name in enumerate(header) if (scale := _power_scale(name)) is not None]
    energy = [(at, scale) for at, name in enumerate(header) if (scale := _energy_scale(name)) is not None]
    for kind, found in (("power", power), ("energy", [] if power else energy)):
        if len(found) > 1:
            names = ", ".join(repr(header[at].strip()) for at, _ in found)
            return (
                f"{len(found)} columns of {kind} ({names}): which is meant cannot be told. Keep one of them"
            )
    if power:
        at, scale = power[0]
        words = f"power from {header[at].strip()!r} in {_unit_word(scale)}, times {where}"
        return Columns(time_at, time_scale, {label: power[0]}, {}, False, words)
    if energy:
        at, scale = energy[0]
        words = f"energy counted in {header[at].strip()!r}, {scale:g} J a unit, times {where}"
        return Columns(time_at, time_scale, {}, {label: energy[0]}, False, words)
    return (
        "no column of power whose unit is known (power_w, watts, 'Power (kW)', power_mw) or of energy (kWh)"
    )


def _words(name: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", name.casefold())


def _power_scale(name: str) -> float | None:
    words = _words(name)
    if "apparent" in words or "va" in words:
        return None
    units = [word for word in words if word in _WATTS]
    if len(units) == 1 and not _NO_POWER.intersection(words):
        return _WATTS[units[0]]
    plain = re.sub(r"[\s_./-]+", " ", name.casefold()).strip()
    return 1.0 if plain in _EXACT_POWER else None


def _energy_scale(name: str) -> float | None:
    words = _words(name)
    units = [word for word in words if word in _JOULES]
    if len(units) == 1 and not (_NO_POWER - {"hour", "hours"}).intersection(words):
        return _JOULES[units[0]]
    watts = [word for word in words if word in _WATTS]
    if len(watts) == 1 and {"hour", "hours"}.intersection(words) and "on" not in words:
        return _WATTS[watts[0]] * 3600.0
    return None


def _times(header: Sequence[str]) -> tuple[tuple[int, ...], float | None] | None:
    found: dict[str, tuple[int, float | None]] = {}
    for at, name in enumerate(header):
        words = _words(name)
        units = [word for word in words if word in _SECONDS]
        rest = " ".join(word for word in words if word not in _SECONDS)
        if len(units) <= 1 and rest in _TIME_NAMES and (rest or units):
            found.setdefault(rest, (at, _SECONDS[units[0]] if units else None))
    if {"date", "time"} <= found.keys() and not {"timestamp", "datetime", "date time"} & found.keys():
        return (found["date"][0], found["time"][0]), None
    for name in _TIME_NAMES:
        if name in found:
            at, scale = found[name]
            return (at,), scale
    return None


def _jtop(header: Sequence[str]) -> dict[str, tuple[int, float]]:
    """Finds the rails of a log that jetson-stats wrote: `Power NAME` beside `uptime`, in milliwatts."""
    if not any(name.strip().casefold() == "uptime" for name in header):
        return {}
    rails = {}
    for at, name in enumerate(header):
        match = _JTOP_RAIL.fullmatch(name.strip())
        if match and match[1].casefold() not in ("avg", "factor"):
            rails[match[1]] = (at, 1e-3)
    return rails


def _unit_word(scale: float) -> str:
    return {1.0: "W", 1e-3: "mW", 1e-6: "uW", 1e3: "kW"}[scale]
