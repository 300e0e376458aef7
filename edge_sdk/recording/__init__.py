"""Recordings of runs: raw streams, health, results and what the router remembered, in one MCAP file."""

from edge_sdk.recording.reader import Recording, RecordingFacts
from edge_sdk.recording.recorder import RecordingState, RunRecording
from edge_sdk.recording.seen import SeenThroughJpeg
from edge_sdk.recording.writer import RecordingPlan

__all__ = [
    "Recording",
    "RecordingFacts",
    "RecordingPlan",
    "RecordingState",
    "RunRecording",
    "SeenThroughJpeg",
]
