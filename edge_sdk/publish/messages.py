"""The MQTT messages of a run, their topics and their schema.

Below the base topic (`edge-sdk/NAME` by default), all JSON, UTF-8, at least once (QoS 1):

| topic | when | retained |
|---|---|---|
| `BASE/result` | each pair with detections or another route than the last, or every pair | no |
| `BASE/sla` | each SLA verdict that differs from the last, and one a minute | yes |
| `BASE/status` | `online` when connected, `offline` (last will) when the connection broke | yes |

Every message has `schema` and `version`; fields are added in later versions, never changed. Messages that
waited on disk arrive late and in order: `time` says when a thing was seen, `run` and `sequence` together what
is missing or came twice. Of `status` the last one holds. Version 2 added `run`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from edge_sdk.measurements import FrameResult
from edge_sdk.report.verdict import Verdicts

__all__ = ["RESULT_SCHEMA", "SLA_SCHEMA", "STATUS_SCHEMA", "result_message", "sla_message", "status_message"]

VERSION = 2

_NUMBER = {"type": ["number", "null"]}
_HEAD: dict[str, Any] = {
    "schema": {"type": "string"},
    "version": {"const": VERSION},
    "time": {"type": "string", "format": "date-time", "description": "UTC, when it was seen"},
    "run": {
        "type": "string",
        "description": "drawn at random at the publisher's start: two results, or two verdicts, are one and "
        "the same if and only if both run and sequence are alike",
    },
    "sequence": {
        "type": "integer",
        "minimum": 0,
        "description": "counts results and verdicts of the run, from 0 by one: a gap is what was lost. "
        "Status has the number that the next of them will have",
    },
}


def _schema(title: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "type": "object",
        "properties": {**_HEAD, "schema": {"const": title}, **properties},
        "required": [*_HEAD, *properties],
    }


RESULT_SCHEMA = _schema(
    "edge-sdk/mqtt/result",
    {
        "key": {"type": "string", "description": "the pair's name in its source"},
        "route": {"enum": ["rgb", "fuse", "thermal"]},
        "reason": {"type": "string"},
        "thermal_consulted": {"type": "boolean"},
        "health": {
            "type": "object",
            "properties": {"rgb": {"type": "string"}, "thermal": {"type": "string"}},
            "required": ["rgb", "thermal"],
        },
        "latency_ms": {"type": "number"},
        "detections": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "class": {"type": "string"},
                    "score": {"type": "number", "minimum": 0, "maximum": 1},
                    "box_xyxy": {
                        "type": "array",
                        "items": {"type": "number"},
                        "minItems": 4,
                        "maxItems": 4,
                        "description": "left, top, right, bottom in pixels of the RGB frame",
                    },
                    "heat": {
                        "type": ["object", "null"],
                        "description": "unit: K (absolute kelvin) or counts; delta: over the surroundings",
                        "properties": {
                            "unit": {"enum": ["K", "counts"]},
                            "min": _NUMBER,
                            "mean": _NUMBER,
                            "max": _NUMBER,
                            "delta": _NUMBER,
                        },
                        "required": ["unit", "min", "mean", "max", "delta"],
                    },
                },
                "required": ["class", "score", "box_xyxy", "heat"],
            },
        },
    },
)

SLA_SCHEMA = _schema(
    "edge-sdk/mqtt/sla",
    {
        "sla": {"type": "string"},
        "overall": {"enum": ["PASS", "INCONCLUSIVE", "FAIL", "INVALID"]},
        "frames": {"type": "integer", "description": "frames of the window that was judged"},
        "clauses": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "clause": {"type": "string"},
                    "verdict": {"enum": ["PASS", "INCONCLUSIVE", "FAIL", "INVALID"]},
                    "limit": {"type": ["number", "string"], "description": "text for a state of the machine"},
                    "estimate": {"type": ["number", "string", "null"]},
                    "unit": {"type": "string"},
                },
                "required": ["clause", "verdict", "limit", "estimate", "unit"],
            },
        },
        "unsound": {"type": "array", "items": {"type": "string"}},
    },
)

STATUS_SCHEMA = _schema("edge-sdk/mqtt/status", {"status": {"enum": ["online", "offline"]}})


def result_message(result: FrameResult, run: str, sequence: int, unix_s: float) -> dict[str, Any]:
    """Makes the message of one answered pair."""
    return {
        **_head("edge-sdk/mqtt/result", run, sequence, unix_s),
        "key": result.key,
        "route": result.route.value,
        "reason": result.reason.value,
        "thermal_consulted": result.thermal_consulted,
        "health": {"rgb": result.signals.rgb_health, "thermal": result.signals.thermal_health},
        "latency_ms": round(result.latency_ms, 3),
        "detections": [
            {
                "class": found.class_name,
                "score": round(min(max(found.score, 0.0), 1.0), 4),
                "box_xyxy": [round(edge, 1) for edge in found.box_xyxy],
                "heat": None
                if found.temperatures is None
                else {name: _rounded(value) for name, value in vars(found.temperatures).items()},
            }
            for found in result.detections
        ],
    }


def sla_message(verdicts: Verdicts, frames: int, run: str, sequence: int, unix_s: float) -> dict[str, Any]:
    """Makes the message of one SLA verdict over the last `frames` frames."""
    return {
        **_head("edge-sdk/mqtt/sla", run, sequence, unix_s),
        "sla": verdicts.sla,
        "overall": verdicts.overall.value,
        "frames": frames,
        "clauses": [
            {
                "clause": clause.clause,
                "verdict": clause.verdict.value,
                "limit": clause.limit,
                "estimate": _rounded(clause.estimate),
                "unit": clause.unit,
            }
            for clause in verdicts.clauses
        ],
        "unsound": list(verdicts.unsound),
    }


def status_message(status: str, run: str, sequence: int, unix_s: float) -> dict[str, Any]:
    """Makes the message that says whether a publisher is there: "online" or "offline"."""
    return {**_head("edge-sdk/mqtt/status", run, sequence, unix_s), "status": status}


def _head(schema: str, run: str, sequence: int, unix_s: float) -> dict[str, Any]:
    moment = datetime.fromtimestamp(unix_s, timezone.utc).isoformat(timespec="milliseconds")
    return {"schema": schema, "version": VERSION, "time": moment, "run": run, "sequence": sequence}


def _rounded(value: float | str | None) -> float | str | None:
    if value is None or isinstance(value, str):
        return value
    return round(value, 3) if math.isfinite(value) else None
