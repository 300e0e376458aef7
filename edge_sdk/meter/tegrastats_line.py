"""One line of `tegrastats`, of JetPack 4 to 7: rails and temperatures, whatever else stands around them.

Fields come and go with version, board and user, and change their order; units came with JetPack 5; Thor
prints a third value a rail and lists of clocks. So a line is searched for what is wanted, not parsed from
left to right.
Source: NVIDIA, Jetson Linux Developer Guide, "tegrastats Utility"; DRIVE OS, "Reported Statistics".
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["OFFLINE_C", "TegrastatsLine", "parse_line"]

OFFLINE_C = -256.0
"""What tegrastats prints for a sensor whose part is switched off."""

_STAMP = re.compile(r"^\s*(\d\d-\d\d-\d{4} \d\d:\d\d:\d\d)\b")
_RAIL = re.compile(
    r"(?<![\w@])((?:VDD|VIN|POM)_?\w*|V[A-Z]+_(?!FREQ\b)\w+|NC|GPU|CPU|SOC|CV|VDDRQ|SYS5V)"
    r"\s+(\d+)(mW)?((?:/\d*(?:m?W)?)*)(?=\s|$)"
)
_TEMPERATURE = re.compile(r"(?<!\S)([A-Za-z][\w-]*)@(-?\d+(?:\.\d+)?)C(?:/(-?\d+(?:\.\d+)?)C)?")
_MARKS = re.compile(r"\bRAM \d+/\d+|\bCPU \[|\bGR3D|\bEMC_FREQ")


@dataclass(frozen=True)
class TegrastatsLine:
    """What a line holds.

    Attributes:
        stamp: local time of the machine to the second, or None.
        rails_mw: power now by rail. The mean beside it counts from the start of tegrastats and is not used.
        temperatures_c: by sensor; None where the part is switched off.
        truncated: rails whose number may have lost digits, at the end of a line that was cut off.
        is_tegrastats: whether the line looks like one at all.
    """

    stamp: datetime.datetime | None
    rails_mw: Mapping[str, int]
    temperatures_c: Mapping[str, float | None]
    truncated: tuple[str, ...]
    is_tegrastats: bool


def parse_line(line: str) -> TegrastatsLine:
    """Finds rails and temperatures in a line; any text is taken, nothing is raised."""
    stamp = None
    if match := _STAMP.match(line):
        try:
            stamp = datetime.datetime.strptime(match[1], "%m-%d-%Y %H:%M:%S")
        except ValueError:
            stamp = None
    rails: dict[str, int] = {}
    truncated = []
    for match in _RAIL.finditer(line):
        label, value, unit, rest = match.groups()
        if label == "NC":
            continue
        if not unit and not rest:
            if match.end() == len(line.rstrip()):
                truncated.append(label)
            continue
        rails.setdefault(label, int(value))
    temperatures = {
        name: None if float(value) <= OFFLINE_C else float(value)
        for name, value, _ in _TEMPERATURE.findall(line)
    }
    known = bool(rails or temperatures or _MARKS.search(line))
    return TegrastatsLine(stamp, rails, temperatures, tuple(truncated), known)
