"""What an SLA may ask for, as values that were checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edge_sdk.measurements import Route
from edge_sdk.stats import USUAL_WARM_UP, WarmUpBudget

__all__ = ["LatencyLimit", "MachineLimits", "MemoryLimits", "PowerLimit", "RunPlan", "Sla"]


@dataclass(frozen=True)
class LatencyLimit:
    """One latency clause.

    Attributes:
        clause: its dotted key in the file, `latency.routes.rgb.p99_ms`.
        share: the percentile as a share (0.99), or None for the largest single frame.
        limit_ms: milliseconds that it may reach, inclusive.
        stage, route: what it is restricted to, or None for end to end and all routes.
    """

    clause: str
    share: float | None
    limit_ms: float
    stage: str | None = None
    route: Route | None = None


@dataclass(frozen=True)
class MachineLimits:
    """What state the machine must be in, from before the run to after it.

    Attributes:
        power_mode: name of the mode, or None for any.
        clocks_locked: clocks held (True), free (False), or None for either.
        unthrottled: nothing may have slowed the chip down.
    """

    power_mode: str | None = None
    clocks_locked: bool | None = None
    unthrottled: bool = False


@dataclass(frozen=True)
class MemoryLimits:
    """What memory this process may take.

    Attributes:
        peak_mb: at most, in megabytes (10^6 bytes).
        rss_slope_mb_per_h: growth after warm-up in megabytes an hour.
    """

    peak_mb: float | None = None
    rss_slope_mb_per_h: float | None = None


@dataclass(frozen=True)
class PowerLimit:
    """One clause on energy or power.

    Attributes:
        clause: its dotted key in the file, `energy.routes.rgb.per_inference_mj`.
        quantity: "per_inference_mj", "mean_w" or "p95_w".
        limit: millijoules or watts that it may reach, inclusive.
        kind: for energy, "total" (idle included) or "marginal" (above idle); "" for power.
        route: what energy is restricted to, or None for all frames together.
        scope: what the meter must cover ("module", "board", ...), or None for any.
    """

    clause: str
    quantity: str
    limit: float
    kind: str = ""
    route: Route | None = None
    scope: str | None = None


@dataclass(frozen=True)
class RunPlan:
    """How long and how fast to run.

    Attributes:
        frames: frames to judge, or None when the time decides.
        duration_s: seconds to run, or None when the frames decide.
        pace_hz: frames started a second, or None for back to back.
        seed: of whatever is drawn at random in the run.
        length_stated: the file states `frames` or `duration_s`, so that a shorter run is not enough.
        warm_up: what the run may take to settle; a longer slow head is judged with the rest.
    """

    frames: int | None = None
    duration_s: float | None = None
    pace_hz: float | None = None
    seed: int = 0
    length_stated: bool = True
    warm_up: WarmUpBudget = USUAL_WARM_UP


@dataclass(frozen=True)
class Sla:
    """A checked SLA.

    Attributes:
        name: of the SLA, for reports.
        engine: bundle name or path.
        source: URI of the frames.
        device: "auto" or what the run must be on.
        latency: its latency clauses in the order of the file.
        min_fps: frames a second to be reached, or None.
        max_dropped_share: share of frames that may be lost, 0 - 1, or None. 0 means none in this run.
        run: how to measure.
        confidence: of each one-sided bound.
        sha256: of the file's bytes.
        path: the file, or None when it came as text.
        machine, memory: what is asked of the machine's state and of memory.
        power: its clauses on energy and power, in the order of the file.
    """

    name: str
    engine: str
    source: str
    device: str
    latency: tuple[LatencyLimit, ...]
    min_fps: float | None
    max_dropped_share: float | None
    run: RunPlan
    confidence: float
    sha256: str
    path: Path | None = None
    machine: MachineLimits = MachineLimits()
    memory: MemoryLimits = MemoryLimits()
    power: tuple[PowerLimit, ...] = ()
