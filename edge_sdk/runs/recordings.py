"""Recording a run to a file that can be replayed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from edge_sdk.clock import Clock
from edge_sdk.frames import RgbFrame
from edge_sdk.pipeline import Detector
from edge_sdk.recording import RecordingFacts, RecordingPlan, RunRecording
from edge_sdk.sources import Source
from edge_sdk.version import VERSION

__all__ = ["open_recording", "recording_facts"]


def recording_facts(detector: Detector, source: Source, asked_device: str = "auto") -> RecordingFacts:
    """Makes what a recording of this run must say of it, so that it can be replayed.

    Arguments:
        detector, source: of the run; both open.
        asked_device: what the caller asked `load` for.
    """
    described = source.describe()
    manifest = detector.bundle.manifest
    return RecordingFacts(
        engine=manifest.name,
        engine_version=manifest.version,
        bundle_sha256=detector.bundle.sha256,
        precision=str(detector.choice.precision),
        provider=detector.choice.provider,
        device=asked_device,
        gate={item.name: getattr(detector.gate, item.name) for item in fields(detector.gate)},
        source=source.uri,
        thermal_unit=str(described.get("thermal_unit") or "unknown"),
        registration=str(described.get("registration") or "unknown"),
        sdk_version=VERSION,
    )


def open_recording(
    detector: Detector,
    source: Source,
    plan: RecordingPlan,
    *,
    asked_device: str = "auto",
    jpeg_of: Callable[[RgbFrame], bytes | None] | None = None,
    clock: Clock | None = None,
    begins_run: bool = True,
) -> RunRecording:
    """Begins to record a run: give what it returns to the run as an observer, and close it afterwards.

    Arguments:
        detector, source: of the run; both open.
        plan: where to and how much.
        asked_device: what the caller asked `load` for.
        jpeg_of: see `RunRecording`; needed for `rgb="jpeg"`, from the `SeenThroughJpeg` around the source.
        clock: that arrival times are read from.
        begins_run: False in the middle of a run; see `RunRecording`.

    Raises:
        ConfigError, DeviceError: the file exists or cannot be made.
    """
    facts = recording_facts(detector, source, asked_device).as_json()
    return RunRecording(
        plan, facts, lambda: detector.memory, jpeg_of=jpeg_of, clock=clock, begins_run=begins_run
    )
