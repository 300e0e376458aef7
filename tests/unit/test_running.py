"""Counts and latencies of a detector in bounded memory."""

from __future__ import annotations

import numpy as np
import pytest

from edge_sdk.detections import Detections
from edge_sdk.measurements import FrameResult, Reason, Route, Signals
from edge_sdk.report import running
from edge_sdk.report.running import RunningStats
from edge_sdk.stats import percentile


def result(route: Route, reason: Reason, latency_ms: float, engine_ms: float = 1.0) -> FrameResult:
    return FrameResult(
        "k",
        route,
        reason,
        Signals(),
        Detections.empty(["a"]),
        route is not Route.RGB,
        {"source": 10**9, "engine": round(latency_ms * 1e6)},
        {"rgb": round(engine_ms * 1e6)},
    )


def test_nothing_yet() -> None:
    stats = RunningStats().snapshot("cpu")
    assert (stats.frames, stats.routes, stats.reasons, stats.audits) == (0, {}, {}, 0)
    assert str(stats) == "0 frames on cpu\n  reasons: none"


def test_counts_shares_and_percentiles_by_route() -> None:
    running_stats = RunningStats()
    latencies = np.arange(1.0, 76.0)
    for latency in latencies:
        running_stats.add(result(Route.RGB, Reason.CONFIDENT, latency, latency / 2))
    for _ in range(25):
        running_stats.add(result(Route.FUSE, Reason.DIM, 100.0))
    stats = running_stats.snapshot("cpu")
    assert stats.frames == 100
    rgb = stats.routes["rgb"]
    assert (rgb.frames, rgb.share) == (75, 0.75)
    # The nearest rank, as records have it: of 75 values the 38th and the 72nd, no value in between.
    assert rgb.p50_ms == percentile(latencies, 0.5) == 38.0
    assert rgb.p95_ms == percentile(latencies, 0.95) == 72.0
    assert rgb.max_ms == 75.0
    assert rgb.engine_p50_ms == pytest.approx(19.0)
    assert stats.routes["fuse"].p50_ms == 100.0
    assert stats.reasons == {"confident": 75, "dim": 25}
    text = str(stats)
    assert "100 frames on cpu" in text
    assert "75 frames ( 75%)" in text
    assert "confident 75, dim 25" in text
    assert "audits" not in text


def test_audits_and_their_misses() -> None:
    running_stats = RunningStats()
    for missed in (False, True, False):
        running_stats.add_audit(missed)
    stats = running_stats.snapshot("cpu")
    assert (stats.audits, stats.audit_misses) == (3, 1)
    assert "audits: 3, of which RGB alone missed something: 1" in str(stats)


def test_latencies_are_a_window_and_counts_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_WINDOW", 10)
    running_stats = RunningStats()
    for latency in range(30):
        running_stats.add(result(Route.RGB, Reason.CONFIDENT, float(latency)))
    stats = running_stats.snapshot("cpu").routes["rgb"]
    assert stats.frames == 30
    assert stats.p50_ms == 24.0
