"""The last quarter of an hour for charts: a point a second of latency, power and the hottest temperature."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from edge_sdk.frames import ThermalFrame
from edge_sdk.live.degrees import hottest_at, unit_of, value_of

__all__ = ["History"]

_POINTS = 900


class History:
    """Collects points; what was not measured in a second is None in it, so that a chart shows a gap."""

    def __init__(self) -> None:
        self._points: deque[dict[str, Any]] = deque(maxlen=_POINTS)
        self._latencies_ns: list[int] = []
        self._hottest: float | None = None
        self._unit = ""

    @property
    def last(self) -> dict[str, Any] | None:
        """The newest point, None before the first."""
        return self._points[-1] if self._points else None

    def add(self, latency_ns: int, thermal: ThermalFrame | None) -> None:
        """Takes a pair of the second that goes on.

        Arguments:
            latency_ns: of its answer.
            thermal: its thermal frame, None where it is missing or cannot be used.
        """
        self._latencies_ns.append(latency_ns)
        if thermal is None:
            return
        unit, value = unit_of(thermal), value_of(hottest_at(thermal)[2], thermal)
        if self._hottest is None or unit != self._unit or value > self._hottest:
            self._unit, self._hottest = unit, value

    def close_second(self, unix_s: float, watts: float | None) -> None:
        """Makes a point of what came since the last one.

        Arguments:
            unix_s: the time of day.
            watts: power, None where it is not known.
        """
        p50 = p95 = None
        if self._latencies_ns:
            p50, p95 = (
                round(float(value), 2)
                for value in np.percentile(np.array(self._latencies_ns) / 1e6, (50, 95))
            )
        self._points.append(
            {
                "t": round(unix_s, 2),
                "p50": p50,
                "p95": p95,
                "watts": None if watts is None else round(watts, 3),
                "hottest": self._hottest,
                "unit": self._unit if self._hottest is not None else None,
            }
        )
        self._latencies_ns, self._hottest = [], None

    def as_json(self) -> dict[str, Any]:
        """Returns all points, oldest first, in JSON types."""
        return {"points": list(self._points)}
