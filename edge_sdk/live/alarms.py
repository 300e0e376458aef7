"""When a hot spot is an alarm, and when it is over."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from edge_sdk.detections import BoxTemperatures, Detection
from edge_sdk.measurements import FrameResult

__all__ = ["AlarmRule", "Alarms"]

_ZERO_C_K = 273.15
_LOG = 50


@dataclass(frozen=True)
class AlarmRule:
    """What raises an alarm.

    Attributes:
        classes: these classes do, with a score of `score_min` or more.
        score_min: 0 - 1.
        rise_k: so does any other part so many kelvin over its surroundings; None: none does. Sound parts
            against a cold sky can stand 30 K above it: set it for scenes without sky.
        warm_by_nature: classes that no rise makes an alarm.
        max_c: so does any part this hot, in degrees Celsius; None: none does.
        frames: pairs in a row that must show it: one noisy frame is no alarm.
        clear_s: seconds without it after which the alarm is over.
    """

    classes: tuple[str, ...] = ("hotspot",)
    score_min: float = 0.5
    rise_k: float | None = None
    warm_by_nature: tuple[str, ...] = ("person",)
    max_c: float | None = None
    frames: int = 2
    clear_s: float = 3.0

    def why(self, found: Detection) -> str:
        """Returns why a detection is a cause for alarm, or ""."""
        heat = found.temperatures
        kelvin = heat if heat is not None and heat.unit == "K" else None
        if kelvin and self.max_c is not None and kelvin.max - _ZERO_C_K >= self.max_c:
            return f"over {self.max_c:g} °C"
        rise = kelvin.delta if kelvin and found.class_name not in self.warm_by_nature else None
        if self.rise_k is not None and rise is not None and rise >= self.rise_k:
            return f"{self.rise_k:g} K or more over its surroundings"
        if found.class_name in self.classes and found.score >= self.score_min:
            return "found by the engine"
        return ""


class Alarms:
    """Follows alarms through a run; one alarm a class at a time."""

    def __init__(self, rule: AlarmRule) -> None:
        self._rule = rule
        self._seen: dict[str, int] = {}
        self._active: dict[str, dict[str, Any]] = {}
        self._last_ns: dict[str, int] = {}
        self._log: deque[dict[str, Any]] = deque(maxlen=_LOG)
        self.raised = 0

    def add(self, result: FrameResult, now_ns: int, unix_s: float) -> None:
        """Takes one answered pair.

        Arguments:
            result: its answer.
            now_ns: monotonic time.
            unix_s: the time of day, seconds since 1970.
        """
        causes: dict[str, tuple[Detection, str]] = {}
        for found in result.detections:
            why = self._rule.why(found)
            if why and _hotter(found, causes.get(found.class_name)):
                causes[found.class_name] = found, why
        for name in list(self._seen):
            if name not in causes:
                del self._seen[name]
        for name, (found, why) in causes.items():
            self._seen[name] = self._seen.get(name, 0) + 1
            if name in self._active:
                self._last_ns[name] = now_ns
                self._active[name] |= {"key": result.key, **_heat(found.temperatures)}
            elif self._seen[name] >= self._rule.frames:
                self.raised += 1
                self._last_ns[name] = now_ns
                self._active[name] = {
                    "class": name,
                    "since": unix_s,
                    "key": result.key,
                    "score": round(found.score, 3),
                    "why": why,
                    **_heat(found.temperatures),
                }
                self._log.appendleft(dict(self._active[name]))
        self.expire(now_ns)

    def expire(self, now_ns: int) -> None:
        """Ends alarms whose cause was not seen for a while."""
        for name, last_ns in list(self._last_ns.items()):
            if now_ns - last_ns >= self._rule.clear_s * 1e9:
                del self._last_ns[name], self._active[name]

    def as_json(self) -> dict[str, Any]:
        """Returns the active alarms, the last ones raised (newest first) and their number."""
        return {"active": list(self._active.values()), "log": list(self._log)[:10], "raised": self.raised}


def _hotter(found: Detection, other: tuple[Detection, str] | None) -> bool:
    if other is None:
        return True
    mine, theirs = found.temperatures, other[0].temperatures
    return (mine.max if mine else -1.0) > (theirs.max if theirs else -1.0)


def _heat(heat: BoxTemperatures | None) -> dict[str, Any]:
    if heat is None:
        return {"unit": None, "max": None, "rise": None}
    zero = _ZERO_C_K if heat.unit == "K" else 0.0
    return {
        "unit": "°C" if heat.unit == "K" else "counts",
        "max": round(heat.max - zero, 1),
        "rise": None if heat.delta is None else round(heat.delta, 1),
    }
