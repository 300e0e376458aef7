"""When a hot spot is an alarm, when it is over, and when nobody can say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from edge_sdk.detections import Detection
from edge_sdk.live.degrees import heat_of_box
from edge_sdk.live.events import Event, Events
from edge_sdk.measurements import FrameResult, Reason

__all__ = ["AlarmRule", "Alarms", "why_not_looked"]

_ZERO_C_K = 273.15
_STEP_NS = 1_000_000_000
"""Of the time between two frames without the spot at most so much counts: nobody looked meanwhile."""

_FRESH_NS = 1_000_000_000
"""An alarm whose spot was seen so lately is one that is seen."""


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
        clear_s: seconds of frames in which heat was looked at and the spot was not there, after which the
            alarm is over.
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


def why_not_looked(result: FrameResult) -> str:
    """Says why a frame without a hot spot shows nothing: "" where a sound thermal frame was looked at.

    A detection graph or the screen for hot regions must have read it.
    """
    health = result.signals.thermal_health
    if health != "ok":
        return f"the thermal frame is {health}"
    if result.thermal_consulted or result.signals.hot_delta_k is not None:
        return ""
    if result.reason is Reason.FORCED:
        return f"route {result.route} is forced, and it does not look at heat"
    return "the engine does not look at heat"


@dataclass
class _Active:
    """An alarm that goes on."""

    event: Event
    now: dict[str, Any]
    last_ns: int
    last_unix_s: float
    absent_ns: int = 0
    frame_ns: int = field(default=0)


class Alarms:
    """Follows alarms through a run; one alarm a class at a time.

    An alarm ends on frames that were looked at and do not show it, never by time alone: while heat is not
    seen (a forced route, a lost camera, a source that hangs) it is kept.

    Arguments:
        rule: what raises one.
        events: where they are listed, with peak and end.
    """

    def __init__(self, rule: AlarmRule, events: Events | None = None) -> None:
        self.rule = rule
        self.raised = 0
        self._events = events if events is not None else Events()
        self._seen: dict[str, int] = {}
        self._active: dict[str, _Active] = {}

    def add(self, result: FrameResult, now_ns: int, unix_s: float) -> None:
        """Takes one answered pair.

        Arguments:
            result: its answer.
            now_ns: monotonic time.
            unix_s: the time of day, seconds since 1970.
        """
        causes = self._causes(result)
        looked = not why_not_looked(result)
        for name in list(self._seen):
            if name not in causes:
                del self._seen[name]
        for name, (found, why) in causes.items():
            self._seen[name] = self._seen.get(name, 0) + 1
            heat = heat_of_box(found.temperatures)
            if name in self._active:
                self._go_on(self._active[name], found, heat, result.key, now_ns, unix_s)
            elif self._seen[name] >= self.rule.frames:
                self._begin(name, found, heat, why, result.key, now_ns, unix_s)
        for name in [name for name in self._active if name not in causes]:
            self._absent(name, looked, now_ns)

    def as_json(self, now_ns: int) -> dict[str, Any]:
        """Returns the active alarms, hottest first, and how many were raised.

        Arguments:
            now_ns: monotonic time. "not_seen_since" is the time of day at which an alarm's spot was last
                seen, None while it is seen.
        """
        active = []
        for alarm in self._active.values():
            fresh = now_ns - alarm.last_ns < _FRESH_NS
            active.append({**alarm.now, "not_seen_since": None if fresh else alarm.last_unix_s})
        active.sort(key=lambda alarm: -(alarm["max"] if alarm["max"] is not None else -1e9))
        return {"active": active, "raised": self.raised}

    def _causes(self, result: FrameResult) -> dict[str, tuple[Detection, str]]:
        causes: dict[str, tuple[Detection, str]] = {}
        for found in result.detections:
            why = self.rule.why(found)
            if why and _hotter(found, causes.get(found.class_name)):
                causes[found.class_name] = found, why
        return causes

    def _begin(
        self,
        name: str,
        found: Detection,
        heat: dict[str, Any],
        why: str,
        key: str,
        now_ns: int,
        unix_s: float,
    ) -> None:
        self.raised += 1
        event = self._events.begin("alarm", name, why, unix_s)
        now = {"class": name, "since": unix_s, "key": key, "score": round(found.score, 3), "why": why, **heat}
        event.raise_peak(heat, key, unix_s)
        self._active[name] = _Active(event, now, now_ns, unix_s, frame_ns=now_ns)

    def _go_on(
        self, alarm: _Active, found: Detection, heat: dict[str, Any], key: str, now_ns: int, unix_s: float
    ) -> None:
        alarm.last_ns, alarm.last_unix_s = now_ns, unix_s
        alarm.absent_ns, alarm.frame_ns = 0, now_ns
        alarm.now |= {"key": key, "score": round(found.score, 3), **heat}
        alarm.event.last = unix_s
        alarm.event.raise_peak(heat, key, unix_s)

    def _absent(self, name: str, looked: bool, now_ns: int) -> None:
        alarm = self._active[name]
        if looked:
            alarm.absent_ns += max(1, min(_STEP_NS, now_ns - alarm.frame_ns))
        alarm.frame_ns = now_ns
        if looked and alarm.absent_ns >= self.rule.clear_s * 1e9:
            alarm.event.end(alarm.last_unix_s)
            del self._active[name]


def _hotter(found: Detection, other: tuple[Detection, str] | None) -> bool:
    if other is None:
        return True
    mine, theirs = found.temperatures, other[0].temperatures
    return (mine.max if mine else -1.0) > (theirs.max if theirs else -1.0)
