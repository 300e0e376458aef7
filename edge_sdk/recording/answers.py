"""How the answer to a pair lies in a recording, and the types that its JSON must have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from edge_sdk.detections import BoxTemperatures, Detections
from edge_sdk.measurements import FrameResult, Reason, Route, Signals
from edge_sdk.members import flag, number, text, texts, whole
from edge_sdk.registration import Registration

__all__ = ["result_from_json", "result_to_json"]


def result_to_json(result: FrameResult) -> dict[str, Any]:
    """Lays an answer out in JSON types; numbers so that reading gives the same bits."""
    found = result.detections
    return {
        "route": result.route.value,
        "reason": result.reason.value,
        "signals": {name: _number_to_json(value) for name, value in asdict(result.signals).items()},
        "thermal_consulted": result.thermal_consulted,
        "class_names": list(found.class_names),
        "detections": [
            {
                "class_id": int(class_id),
                "score": float(score),
                "xyxy": [float(edge) for edge in box],
                "temperatures": asdict(heat) if heat is not None else None,
            }
            for class_id, score, box, heat in zip(
                found.class_ids,
                found.scores,
                found.xyxy,
                found.temperatures or (None,) * len(found),
                strict=True,
            )
        ],
        "heat": bool(found.temperatures),
        "stage_ns": dict(result.stage_ns),
        "engine_ns": dict(result.engine_ns),
        "gpu_ms": {graph: dict(times) for graph, times in result.gpu_ms.items()},
        "notes": list(result.notes),
        "registered": result.registration is not None,
    }


def result_from_json(key: str, entry: Mapping[str, Any], registration: Registration | None) -> FrameResult:
    """Makes the answer again, of a pair with this registration.

    Raises:
        KeyError, TypeError, ValueError, AttributeError, OverflowError: the entry is no such answer.
    """
    boxes = entry["detections"]
    heat = tuple(_heat(box["temperatures"]) for box in boxes)
    return FrameResult(
        key,
        Route(entry["route"]),
        Reason(entry["reason"]),
        _signals(entry["signals"]),
        Detections(
            np.array([box["xyxy"] for box in boxes], np.float32).reshape(-1, 4),
            np.array([box["score"] for box in boxes], np.float32),
            np.array([box["class_id"] for box in boxes], np.int64),
            tuple(entry["class_names"]),
            heat if entry["heat"] else (),
        ),
        flag(entry["thermal_consulted"], "thermal_consulted"),
        _times(entry["stage_ns"]),
        _times(entry["engine_ns"]),
        texts(entry["notes"], "notes"),
        {
            text(graph, "gpu_ms"): {text(name, "gpu_ms"): number(ms, name) for name, ms in times.items()}
            for graph, times in entry["gpu_ms"].items()
        },
        registration if entry.get("registered") else None,
    )


def _heat(entry: Mapping[str, Any] | None) -> BoxTemperatures | None:
    if entry is None:
        return None
    values: dict[str, Any] = {
        name: text(value, name)
        if name == "unit"
        else None
        if value is None and name == "delta"
        else number(value, name)
        for name, value in entry.items()
    }
    return BoxTemperatures(**values)


def _times(entry: Mapping[str, Any]) -> dict[str, int]:
    return {text(name, "a stage"): whole(time_ns, name) for name, time_ns in entry.items()}


def _number_to_json(value: Any) -> Any:
    """JSON has no word for what is no finite number; a signal may be one."""
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


def _signals(entry: Mapping[str, Any]) -> Signals:
    values: dict[str, Any] = {}
    for name, value in entry.items():
        if name in _TEXT_SIGNALS:
            values[name] = None if value is None else text(value, name)
        else:
            values[name] = (
                value if value is None else float(value) if value in _NO_NUMBERS else number(value, name)
            )
    return Signals(**values)


_TEXT_SIGNALS = ("rgb_health", "thermal_health", "heat_unit")
_NO_NUMBERS = ("nan", "inf", "-inf")
