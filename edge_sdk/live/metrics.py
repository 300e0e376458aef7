"""The live figures in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

__all__ = ["metrics_text"]

_VERDICTS = ("PASS", "INCONCLUSIVE", "FAIL", "INVALID")


class _Figures:
    """A collector of one state."""

    def __init__(self, state: dict[str, Any]) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        state = self._state
        answered = CounterMetricFamily("edge_sdk_pairs", "Pairs answered, by route.", labels=["route"])
        for route in ("rgb", "fuse", "thermal"):
            answered.add_metric([route], state["routes"].get(route, 0))
        yield answered
        yield CounterMetricFamily(
            "edge_sdk_pairs_unanswered", "Pairs that got no answer.", value=state["unanswered"]
        )
        reasons = CounterMetricFamily("edge_sdk_reasons", "Pairs answered, by reason.", labels=["reason"])
        for reason, count in sorted(state["reasons"].items()):
            reasons.add_metric([reason], count)
        yield reasons
        latency = GaugeMetricFamily(
            "edge_sdk_stage_seconds",
            "Time of a stage over the last 300 pairs; `latency` is from the pair in memory to the result.",
            labels=["stage", "quantile"],
        )
        for row in state["latency"]:
            for name, quantile in (("p50", "0.5"), ("p95", "0.95"), ("p99", "0.99")):
                latency.add_metric([row["stage"], quantile], row[name] / 1e3)
        yield latency
        if state["fps"] is not None:
            yield GaugeMetricFamily(
                "edge_sdk_pairs_per_second", "Pairs answered a second.", value=state["fps"]
            )
        if state["age_ms"] is not None:
            yield GaugeMetricFamily(
                "edge_sdk_last_pair_age_seconds", "Time since a pair last came.", value=state["age_ms"] / 1e3
            )
        cameras = GaugeMetricFamily("edge_sdk_camera_ok", "1 where its frames are used.", labels=["camera"])
        for camera in state["cameras"]:
            cameras.add_metric([camera["name"].lower()], float(camera["state"] == "ok"))
        yield cameras
        yield GaugeMetricFamily(
            "edge_sdk_alarms_active", "Hot spots that are alarms now.", value=len(state["alarms"]["active"])
        )
        yield GaugeMetricFamily(
            "edge_sdk_heat_looked_for",
            "0 while nobody looks for heat: then no alarm means nothing.",
            value=float(state["heat"]["state"] == "looked"),
        )
        yield CounterMetricFamily("edge_sdk_alarms", "Alarms raised.", value=state["alarms"]["raised"])
        power = state["power"]  # without a sensor there is no sample, never a 0
        if power["watts"] is not None:
            yield GaugeMetricFamily("edge_sdk_power_watts", f"Power. {power['note']}", value=power["watts"])
        if power["mj_per_inference"] is not None:
            yield GaugeMetricFamily(
                "edge_sdk_inference_joules",
                f"Energy of a pair. {power['note']}",
                value=power["mj_per_inference"] / 1e3,
            )
        if state.get("sla"):
            lamps = GaugeMetricFamily(
                "edge_sdk_sla", "1 for the verdict that holds.", labels=["clause", "verdict"]
            )
            rows = [{"clause": "overall", "verdict": state["sla"]["overall"]}, *state["sla"]["clauses"]]
            for row in rows:
                for verdict in _VERDICTS:
                    lamps.add_metric([row["clause"], verdict], float(row["verdict"] == verdict))
            yield lamps
        page = state["page"]
        yield GaugeMetricFamily("edge_sdk_viewers", "Browsers that look at the page.", value=page["viewers"])
        yield CounterMetricFamily(
            "edge_sdk_viewer_frames_dropped",
            "Pictures not sent to a viewer that was too slow.",
            value=page["dropped"],
        )


def metrics_text(state: dict[str, Any]) -> tuple[bytes, str]:
    """Returns the body and its content type.

    Arguments:
        state: what `LiveServer.state` gives.
    """
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(state))  # type: ignore[arg-type]
    return generate_latest(registry), CONTENT_TYPE_LATEST
