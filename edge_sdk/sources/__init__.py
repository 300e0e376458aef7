"""Where frame pairs come from: folders, videos, shipped clips and arrays, all as one kind of object."""

from edge_sdk.sources.base import BaseSource, SkippedFrame, Source
from edge_sdk.sources.clip import ClipSource, known_clips
from edge_sdk.sources.labels import FrameLabels, GroundTruth, load_labels
from edge_sdk.sources.memory import MemorySource, source_from_arrays
from edge_sdk.sources.opening import open_source
from edge_sdk.sources.pairs import PairsSource
from edge_sdk.sources.recorded import RecordedSource
from edge_sdk.sources.video import VideoSource

__all__ = [
    "BaseSource",
    "ClipSource",
    "FrameLabels",
    "GroundTruth",
    "MemorySource",
    "PairsSource",
    "RecordedSource",
    "SkippedFrame",
    "Source",
    "VideoSource",
    "known_clips",
    "load_labels",
    "open_source",
    "source_from_arrays",
]
