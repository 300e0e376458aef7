"""What a run is doing now, for whoever looks: written by the run's thread, read by others."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.frames import FramePair
from edge_sdk.live.alarms import AlarmRule, Alarms, why_not_looked
from edge_sdk.live.events import Events
from edge_sdk.live.history import History
from edge_sdk.live.views import CameraView, PowerView
from edge_sdk.measurements import STAGES, FrameResult
from edge_sdk.stats import percentile

__all__ = ["Board", "Latest"]

_WINDOW = 300
"""Pairs that live quantiles are taken over."""

_CHANGES = 40
_RATE_NS = 2_000_000_000
_ANSWERED_NS = 15_000_000_000
_SILENT_NS = 1_000_000_000
"""Without a pair for so long, and for three times as long as pairs usually take, cameras count as silent.

Heat that nobody looked for during that time is unknown.
"""

_FIRST_PAIR_S = 10.0
"""Without any pair for so long, cameras that give nothing are an event; before, a run is only beginning."""

_POINT_NS = 1_000_000_000
_SHOWN_EVENTS = 30

Latest = tuple[int, FramePair, FrameResult]
"""Number of the pair, the pair, its answer."""


class Board:
    """Collects the live figures of a run: an observer for `run_source` and `record_run`.

    Taking a pair costs some microseconds: it is referred to, not copied, and nothing is drawn.

    Arguments:
        facts: of the run, shown as they are: "engine", "provider", "source", "title" and so on.
        rule: what raises an alarm.
        clock: ages and rates are measured with.
        unix_s: gives the time of day.

    Attributes:
        power: gives what is known of power now; set it to connect a meter.
        cameras: gives what is known of the cameras now; by default what the pipeline sees of them.
    """

    def __init__(
        self,
        facts: dict[str, Any],
        *,
        rule: AlarmRule | None = None,
        clock: Clock | None = None,
        unix_s: Callable[[], float] = time.time,
    ) -> None:
        self.facts = facts
        self.power: Callable[[], PowerView] = PowerView
        self.cameras: Callable[[], Sequence[CameraView]] = self.seen_cameras
        self._clock, self._unix_s = clock or MonotonicClock(), unix_s
        self._events = Events()
        self._alarms = Alarms(rule or AlarmRule(), self._events)
        self._history = History()
        self._changed = threading.Condition()
        self._latest: Latest | None = None
        self._arrived: deque[int] = deque(maxlen=_WINDOW)
        self._taken_ns: deque[tuple[int, int]] = deque(maxlen=_WINDOW)
        self._answered_ns: deque[int] = deque()
        self._stages: deque[tuple[dict[str, int], int]] = deque(maxlen=_WINDOW)
        self._routes: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._recent_routes: deque[str] = deque(maxlen=_WINDOW)
        self._changes: deque[dict[str, Any]] = deque(maxlen=_CHANGES)
        self._health = {"rgb": "missing", "thermal": "missing"}
        self._begun_s = unix_s()
        self._looked: tuple[int, float] | None = None
        self._not_looked = "no pair has come yet"
        self._ticked_ns = self._clock.now_ns()
        self._usable_ns: dict[str, deque[int]] = {
            "rgb": deque(maxlen=_WINDOW),
            "thermal": deque(maxlen=_WINDOW),
        }
        self._unanswered = 0
        self._last_unanswered = ""
        self._count = 0

    @property
    def rule(self) -> AlarmRule:
        """What raises an alarm."""
        return self._alarms.rule

    def arrived(self, pair: FramePair) -> None:
        """See `Observer.arrived`."""
        with self._changed:
            self._arrived.append(self._clock.now_ns())

    def answered(self, pair: FramePair, result: FrameResult) -> None:
        """See `Observer.answered`."""
        now_ns, unix_s = self._clock.now_ns(), self._unix_s()
        with self._changed:
            self._count += 1
            last = self._latest
            self._latest = self._count, pair, result
            self._taken_ns.append((now_ns, result.latency_ns))
            self._answered_ns.append(now_ns)
            while self._answered_ns[0] < now_ns - _ANSWERED_NS:
                self._answered_ns.popleft()
            self._stages.append((dict(result.stage_ns), result.latency_ns))
            self._routes[result.route.value] += 1
            self._recent_routes.append(result.route.value)
            self._reasons[result.reason.value] += 1
            if last is None or (last[2].route, last[2].reason) != (result.route, result.reason):
                self._changes.appendleft(
                    {
                        "time": unix_s,
                        "key": result.key,
                        "route": result.route.value,
                        "reason": result.reason.value,
                    }
                )
            self._see(pair, result.signals.rgb_health, result.signals.thermal_health, now_ns)
            self._not_looked = why_not_looked(result)
            if not self._not_looked:
                self._looked = now_ns, unix_s
            self._alarms.add(result, now_ns, unix_s)
            self._history.add(result.latency_ns, pair.thermal if self._health["thermal"] == "ok" else None)
            self._changed.notify_all()

    def unanswered(self, pair: FramePair | None, key: str, why: str) -> None:
        """See `Observer.unanswered`."""
        with self._changed:
            self._unanswered += 1
            self._last_unanswered = why
            self._not_looked = f"the last pair got no answer: {why}"
            if pair is not None:
                self._see(
                    pair,
                    "unusable" if pair.rgb is not None else "missing",
                    "unusable" if pair.thermal is not None else "missing",
                    self._clock.now_ns(),
                )

    def wait(self, after: int, timeout_s: float) -> Latest | None:
        """Returns the latest pair as soon as one later than number `after` is there; None at the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self._count > after, timeout_s)
            return self._latest if self._count > after else None

    @property
    def latest(self) -> Latest | None:
        """The last answered pair."""
        with self._changed:
            return self._latest

    @property
    def age_ms(self) -> float | None:
        """Time since a pair last came, answered or not, in milliseconds; None before the first."""
        with self._changed:
            return (self._clock.now_ns() - self._arrived[-1]) / 1e6 if self._arrived else None

    def answered_between(self, start_ns: int, end_ns: int) -> int:
        """Counts the pairs that were answered in a span of the last 15 s of the monotonic clock."""
        with self._changed:
            return sum(start_ns <= taken_ns < end_ns for taken_ns in self._answered_ns)

    def seen_cameras(self) -> list[CameraView]:
        """Makes the views of both cameras from the health the router measured and from silence."""
        now_ns = self._clock.now_ns()
        with self._changed:
            silent = self._is_silent(now_ns)
            views = []
            for camera, name in (("rgb", "RGB"), ("thermal", "Thermal")):
                usable = self._usable_ns[camera]
                age_ms = (now_ns - usable[-1]) / 1e6 if usable else None
                state = "no frames" if silent else self._health[camera]
                views.append(CameraView(name, state, _DETAILS.get(state, ""), _rate(usable, now_ns), age_ms))
        return views

    def tick(self) -> None:
        """Notes what frames alone do not say: a camera or source that fell silent, and a second of charts.

        To be called twice a second or more, by whoever serves the board; `as_json` does so too.
        """
        cameras, now_s = self.cameras(), self._unix_s()
        with self._changed:
            now_ns = self._clock.now_ns()
            known = self._count or self._unanswered or now_s - self._begun_s > _FIRST_PAIR_S
            for camera in cameras if known else ():
                why = "" if camera.is_ok else ": ".join(filter(None, (camera.state, camera.detail)))
                self._events.follow("camera", camera.name, why, now_s)
            heat = self._heat(now_ns)
            unseen = heat["why"] if known and heat["state"] == "unknown" else ""
            self._events.follow("unseen", "heat", unseen, now_s, heat["since"])
            due = now_ns - self._ticked_ns >= _POINT_NS
            if due:
                self._ticked_ns = now_ns
        if due:
            watts = self.power().watts
            with self._changed:
                self._history.close_second(now_s, watts)

    def history(self) -> dict[str, Any]:
        """Returns what charts show, in JSON types: see `History`."""
        with self._changed:
            return self._history.as_json()

    def as_json(self) -> dict[str, Any]:
        """Returns everything the page shows beside the picture, in JSON types."""
        self.tick()
        cameras, power = self.cameras(), self.power()
        with self._changed:
            now_ns = self._clock.now_ns()
            result = self._latest[2] if self._latest else None
            return {
                "facts": self.facts,
                "now": self._unix_s(),
                "frames": self._count,
                "unanswered": self._unanswered,
                "last_unanswered": self._last_unanswered,
                "age_ms": (now_ns - self._arrived[-1]) / 1e6 if self._arrived else None,
                "silent": self._is_silent(now_ns),
                "fps": _rate([taken for taken, _ in self._taken_ns], now_ns),
                "route": result.route.value if result else None,
                "reason": result.reason.value if result else None,
                "routes": dict(self._routes),
                "recent_routes": dict(Counter(self._recent_routes)),
                "reasons": dict(self._reasons),
                "changes": list(self._changes)[:12],
                "latency": _quantiles(self._stages),
                "cameras": [asdict(camera) for camera in cameras],
                "power": asdict(power),
                "heat": self._heat(now_ns),
                "alarms": self._alarms.as_json(now_ns),
                "events": self._events.as_json()[:_SHOWN_EVENTS],
                "point": self._history.last,
            }

    def _heat(self, now_ns: int) -> dict[str, Any]:
        """Says whether anybody looks for heat, and since when nobody does."""
        looked_ns, since_s = self._looked or (None, self._begun_s)
        why = "no pairs are coming" if self._arrived and self._is_silent(now_ns) else self._not_looked
        lately = looked_ns is not None and now_ns - looked_ns <= max(_SILENT_NS, 3 * self._usual_ns())
        if not why or (lately and not self._is_silent(now_ns)):
            return {"state": "looked", "since": since_s, "why": ""}
        return {"state": "unknown", "since": since_s, "why": why}

    def _see(self, pair: FramePair, rgb: str, thermal: str, now_ns: int) -> None:
        for camera, health, frame in (("rgb", rgb, pair.rgb), ("thermal", thermal, pair.thermal)):
            self._health[camera] = health
            if health == "ok" and frame is not None:
                self._usable_ns[camera].append(now_ns)

    def _is_silent(self, now_ns: int) -> bool:
        if not self._arrived:
            return True
        return now_ns - self._arrived[-1] > max(_SILENT_NS, 3 * self._usual_ns())

    def _usual_ns(self) -> float:
        """How far apart pairs usually come."""
        times = list(self._arrived)[-20:]
        return (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else 0.0


_DETAILS = {
    "missing": "its frame did not come",
    "frozen": "sends the same frame again and again",
    "stale": "its frames are too old for their partners",
    "saturated": "full scale or all alike: covered, blinded or broken",
    "unusable": "its frame cannot be used",
    "no frames": "nothing comes from the source",
}


def _rate(times_ns: Sequence[int] | deque[int], now_ns: int) -> float | None:
    lately = [moment for moment in times_ns if now_ns - moment <= _RATE_NS]
    if len(lately) < 2:
        return 0.0 if times_ns else None
    return (len(lately) - 1) * 1e9 / max(1, now_ns - lately[0])


def _quantiles(
    stages: Sequence[tuple[dict[str, int], int]] | deque[tuple[dict[str, int], int]],
) -> list[dict[str, Any]]:
    rows = []
    columns = {stage: [taken[stage] for taken, _ in stages if stage in taken] for stage in STAGES}
    columns["latency"] = [latency for _, latency in stages]
    for name, values in columns.items():
        if values:
            p50, p95, p99 = (percentile(np.array(values) / 1e6, share) for share in (0.5, 0.95, 0.99))
            rows.append(
                {
                    "stage": name,
                    "p50": p50,
                    "p95": p95,
                    "p99": p99,
                    "frames": len(values),
                }
            )
    return rows
