"""Limits of one SLA that cannot all matter: each is judged, and the reader is told."""

from __future__ import annotations

from collections.abc import Iterator

from edge_sdk.sla.terms import LatencyLimit, Sla

__all__ = ["contradictions"]


def contradictions(sla: Sla) -> Iterator[str]:
    """Names each pair of limits of which one makes the other pointless or out of reach."""
    for at, one in enumerate(sla.latency):
        for other in sla.latency[at + 1 :]:
            if (one.stage, one.route) != (other.stage, other.route):
                continue
            lower, higher = sorted((one, other), key=_share)
            if lower.limit_ms > higher.limit_ms:
                yield (
                    f"Limits contradict: {lower.clause} allows {lower.limit_ms:g} ms where {higher.clause} "
                    f"allows {higher.limit_ms:g} ms, and no percentile is over a higher one."
                )
    pace_hz = sla.run.pace_hz
    if sla.min_fps is not None and pace_hz is not None and sla.min_fps > pace_hz:
        yield (
            f"Limits contradict: throughput.min_fps asks for {sla.min_fps:g} frames/s and run.pace_hz starts "
            f"{pace_hz:g}."
        )


def _share(limit: LatencyLimit) -> float:
    return 1.0 if limit.share is None else limit.share
