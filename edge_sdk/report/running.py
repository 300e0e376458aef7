"""Counts and latencies of a detector since it was loaded, in bounded memory."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from edge_sdk.measurements import FrameResult
from edge_sdk.stats import percentile

__all__ = ["DetectorStats", "RunningStats"]

_WINDOW = 10_000
"""Latencies kept a route: the last so many frames."""


@dataclass(frozen=True)
class RouteStats:
    """One route: frames since load, and latency percentiles in ms over the last 10 000 of them.

    Percentiles are the nearest rank, as in a record: a latency that some frame really had.
    """

    frames: int
    share: float
    p50_ms: float
    p95_ms: float
    max_ms: float
    engine_p50_ms: float


@dataclass(frozen=True)
class DetectorStats:
    """A detector's counts since it was loaded. `print` it for a short table.

    Attributes:
        frames: pairs answered.
        routes: by route.
        reasons: frames by reason.
        audits: frames fused as a check although RGB was sure of itself or not asked yet.
        audit_misses: audits in which fusing found a sure object that RGB alone had missed.
        provider: what ran the graphs.
    """

    frames: int
    routes: dict[str, RouteStats]
    reasons: dict[str, int]
    audits: int
    audit_misses: int
    provider: str

    def __str__(self) -> str:
        lines = [f"{self.frames} frames on {self.provider}"]
        for name, route in self.routes.items():
            lines.append(
                f"  {name:8}{route.frames:7} frames ({route.share:4.0%})  "
                f"p50 {route.p50_ms:6.1f} ms  p95 {route.p95_ms:6.1f} ms  max {route.max_ms:6.1f} ms"
            )
        reasons = ", ".join(f"{name} {count}" for name, count in self.reasons.items())
        lines.append(f"  reasons: {reasons or 'none'}")
        if self.audits:
            lines.append(f"  audits: {self.audits}, of which RGB alone missed something: {self.audit_misses}")
        return "\n".join(lines)


class RunningStats:
    """Collects `DetectorStats`."""

    def __init__(self) -> None:
        self._frames: dict[str, int] = {}
        self._reasons: dict[str, int] = {}
        self._latencies_ns: dict[str, deque[tuple[int, int]]] = {}
        self._audits = self._audit_misses = 0

    def add(self, result: FrameResult) -> None:
        """Counts one answered pair."""
        route, reason = result.route.value, result.reason.value
        self._frames[route] = self._frames.get(route, 0) + 1
        self._reasons[reason] = self._reasons.get(reason, 0) + 1
        kept = self._latencies_ns.get(route)
        if kept is None:
            kept = self._latencies_ns[route] = deque(maxlen=_WINDOW)
        kept.append((result.latency_ns, sum(result.engine_ns.values())))

    def add_audit(self, missed: bool) -> None:
        """Counts one audit."""
        self._audits += 1
        self._audit_misses += missed

    def snapshot(self, provider: str) -> DetectorStats:
        """Returns the counts so far."""
        total = sum(self._frames.values())
        routes = {}
        for name, kept in self._latencies_ns.items():
            latency_ms, engine_ms = np.array(kept, dtype=np.float64).T / 1e6
            routes[name] = RouteStats(
                frames=self._frames[name],
                share=self._frames[name] / total,
                p50_ms=percentile(latency_ms, 0.5),
                p95_ms=percentile(latency_ms, 0.95),
                max_ms=float(latency_ms.max()),
                engine_p50_ms=percentile(engine_ms, 0.5),
            )
        return DetectorStats(total, routes, dict(self._reasons), self._audits, self._audit_misses, provider)
