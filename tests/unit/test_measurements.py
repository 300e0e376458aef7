"""What is known of a processed frame."""

from __future__ import annotations

import pytest

from edge_sdk.detections import Detections
from edge_sdk.measurements import STAGES, FrameResult, Reason, Route, Signals


def result(**changes: object) -> FrameResult:
    values: dict[str, object] = {
        "key": "k",
        "route": Route.FUSE,
        "reason": Reason.DIM,
        "signals": Signals(),
        "detections": Detections.empty(["a"]),
        "thermal_consulted": True,
        "stage_ns": {
            "source": 9_000_000,
            "preprocess": 2_000_000,
            "engine": 5_000_000,
            "postprocess": 500_000,
        },
        "engine_ns": {"rgb": 3_000_000, "fuse": 2_000_000},
    }
    return FrameResult(**(values | changes))  # type: ignore[arg-type]


def test_latency_is_all_stages_but_reading() -> None:
    found = result()
    assert found.latency_ns == 7_500_000
    assert found.latency_ms == 7.5
    assert found.engine_ms == 5.0
    assert found.stage_ms == {"source": 9.0, "preprocess": 2.0, "engine": 5.0, "postprocess": 0.5}


def test_a_frame_without_a_source_stage_has_a_latency() -> None:
    assert result(stage_ns={"engine": 1_000_000}).latency_ms == 1.0
    assert result(stage_ns={}, engine_ns={}).latency_ms == 0.0


def test_words_are_what_records_hold() -> None:
    assert [route.value for route in Route] == ["rgb", "fuse", "thermal"]
    assert [reason.value for reason in Reason] == [
        "confident",
        "low-confidence",
        "hot-region",
        "hot-hold",
        "dim",
        "uncalibrated",
        "audit",
        "dark",
        "forced",
        "rgb-lost",
        "thermal-lost",
        "only-graph",
    ]
    assert STAGES == ("source", "pairing", "preprocess", "buffers", "routing", "engine", "postprocess")


@pytest.mark.parametrize("name", ["route", "reason"])
def test_results_cannot_be_changed(name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(result(), name, None)
