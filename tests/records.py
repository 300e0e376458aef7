"""Run records for tests, made through the recorder from synthetic frames: no engine, no clock."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np

from edge_sdk.detections import Detections
from edge_sdk.measurements import FrameResult, Reason, Route, Signals
from edge_sdk.report.record import (
    ColdStart,
    EngineFacts,
    ProviderFacts,
    RunFacts,
    RunRecord,
    RunRecorder,
    SourceFacts,
)

MS = 1_000_000
CLASSES = ("insulator", "hotspot")
REASONS = {Route.RGB: Reason.CONFIDENT, Route.FUSE: Reason.HOT_REGION, Route.THERMAL: Reason.DARK}


def frame_result(
    key: str, latency_ms: float, route: Route = Route.RGB, boxes: int = 1, notes: tuple[str, ...] = ()
) -> FrameResult:
    """Makes a result whose latency is exactly as asked, three quarters of it in the engine."""
    latency_ns = round(latency_ms * MS)
    engine_ns = latency_ns * 3 // 4
    graphs = {Route.RGB: ("rgb",), Route.FUSE: ("rgb", "fuse"), Route.THERMAL: ("thermal",)}[route]
    detections = Detections(
        np.zeros((boxes, 4), np.float32),
        np.full(boxes, 0.9, np.float32),
        np.arange(boxes, dtype=np.int64) % 2,
        CLASSES,
    )
    return FrameResult(
        key=key,
        route=route,
        reason=REASONS[route],
        signals=Signals(),
        detections=detections,
        thermal_consulted=route is not Route.RGB,
        stage_ns={"source": 5 * MS, "preprocess": latency_ns - engine_ns, "engine": engine_ns},
        engine_ns={graph: engine_ns // len(graphs) for graph in graphs},
        notes=notes,
    )


def record_of(
    latencies_ms: Sequence[float],
    *,
    routes: Sequence[Route] | None = None,
    period_ms: float = 40.0,
    dropped: int = 0,
    engine: str = "substation-rgbt",
    provider: ProviderFacts | None = None,
    source: SourceFacts | None = None,
    run: RunFacts | None = None,
    **facts: Any,
) -> RunRecord:
    """Makes a record of frames with these latencies, started a period apart."""
    recorder = RunRecorder()
    for index, latency_ms in enumerate(latencies_ms):
        route = routes[index] if routes else Route.RGB
        recorder.add(frame_result(f"{index:04d}", latency_ms, route), round(index * period_ms * MS))
    for index in range(dropped):
        recorder.drop(f"bad {index}", "truncated image")
    return recorder.finish(
        engine=EngineFacts(engine, engine, "1.0", "ab" * 32, "int8"),
        provider=provider or ProviderFacts("auto", "CPUExecutionProvider", (("cuda", "no GPU here"),)),
        source=source or SourceFacts("clip:substation", 150, False, 1, "clip", "centikelvin"),
        run=run or RunFacts(frames_asked=len(latencies_ms)),
        machine={
            "cpu_model": "Test CPU",
            "cpu_cores_usable": 2,
            "system": "Linux",
            "kernel": "6",
            "python": "3.11",
        },
        cold_start=ColdStart(load_ms=900.0),
        conditions=("Not measured on Jetson.",),
        created=datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
        sdk_version="0.1.0",
        **facts,
    )
