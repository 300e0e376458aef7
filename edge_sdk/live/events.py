"""What happened and when it was over: alarms with their peak, lost cameras, heat that nobody looked for."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

__all__ = ["Event", "Events"]

_KEPT = 100
_REOPENED_S = 2.0
"""A fault that comes back so soon is the same event: a loose cable must not push alarms off the list."""


@dataclass
class Event:
    """One event.

    Attributes:
        kind: "alarm", "camera" or "unseen".
        name: the class, the camera or "heat".
        why: the cause, for people.
        since, last: when it began and when it was last so, seconds since 1970.
        until: when it was over; None while it goes on.
        peak: the hottest of an alarm: "unit", "max", "rise", "key" and "at"; None for others.
    """

    kind: str
    name: str
    why: str
    since: float
    last: float
    until: float | None = None
    peak: dict[str, Any] | None = None

    def raise_peak(self, heat: dict[str, Any], key: str, unix_s: float) -> None:
        """Keeps the hottest of what an alarm showed; a peak in degrees gives way to none in counts."""
        peak = self.peak
        if peak is None or (heat["max"] is not None and _is_over(heat, peak)):
            self.peak = {
                "unit": heat["unit"],
                "max": heat["max"],
                "rise": heat["rise"],
                "key": key,
                "at": unix_s,
            }

    def end(self, unix_s: float) -> None:
        """Notes when it was over."""
        self.last, self.until = unix_s, unix_s


def _is_over(heat: dict[str, Any], peak: dict[str, Any]) -> bool:
    if heat["unit"] != peak["unit"]:
        return peak["max"] is None
    return bool(heat["max"] > peak["max"])


class Events:
    """The last 100 events, newest first."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=_KEPT)
        self._open: dict[tuple[str, str], Event] = {}

    def begin(self, kind: str, name: str, why: str, unix_s: float) -> Event:
        """Lists a new event."""
        event = Event(kind, name, why, unix_s, unix_s)
        self._events.appendleft(event)
        return event

    def follow(self, kind: str, name: str, why: str, unix_s: float, since_s: float | None = None) -> None:
        """Says how something stands now, so that it begins, goes on or ends.

        Arguments:
            kind, name: of the event.
            why: the fault that holds now, or "" for none.
            unix_s: the time of day.
            since_s: when it began, where that was earlier.
        """
        event = self._open.get((kind, name))
        if not why:
            if event is not None and event.until is None:
                event.end(unix_s)
            return
        if event is not None and event.why == why:
            if event.until is None:
                event.last = unix_s
                return
            if unix_s - event.until < _REOPENED_S:
                event.until, event.last = None, unix_s
                return
        elif event is not None and event.until is None:
            event.end(unix_s)
        self._open[kind, name] = self.begin(kind, name, why, unix_s if since_s is None else since_s)

    def as_json(self) -> list[dict[str, Any]]:
        """Returns them in JSON types, newest first."""
        return [vars(event).copy() for event in self._events]
