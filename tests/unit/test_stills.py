"""Stills say nothing of each other: no frozen camera, no hold, no hysteresis; and which door gives them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from frames_on_disk import rgb_image, thermal_image, write_clip, write_image, write_pairs, write_rgb_video
from pairs import make_pair

from edge_sdk.errors import ConfigError
from edge_sdk.frames import FramePair, RgbFrame, ThermalFrame
from edge_sdk.routing import RouterState
from edge_sdk.sources import ClipSource, MemorySource, open_source, source_from_arrays
from edge_sdk.sources.uri import SourceUri

DATA = Path(__file__).resolve().parents[1] / "data" / "thermal"


def test_what_is_a_still() -> None:
    rgb, thermal = rgb_image(0), thermal_image(0)
    assert FramePair("a", RgbFrame(rgb), ThermalFrame(thermal)).is_still
    assert not FramePair("a", RgbFrame(rgb, 1), ThermalFrame(thermal)).is_still
    assert not FramePair("a", RgbFrame(rgb), ThermalFrame(thermal, sequence=4)).is_still
    assert not FramePair("a", RgbFrame(rgb), None, still=False).is_still
    assert FramePair("a", RgbFrame(rgb, 1), None, still=True).is_still
    with pytest.raises(ConfigError, match="still: expected True or False, found 1"):
        FramePair("a", RgbFrame(rgb), still=1)  # type: ignore[arg-type]


def test_every_door_says_what_it_gives(tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "pairs")
    clip = SourceUri("clip:toy", "clip", "toy", {})
    write_clip(tmp_path / "clips")
    video = write_rgb_video(tmp_path / "a.avi", 3)
    stack = tmp_path / "stack.npy"
    np.save(stack, np.stack([thermal_image(index) for index in range(3)]))
    png = write_image(tmp_path / "one.png", thermal_image(0))
    for source, still in (
        (open_source(f"pairs:{pairs}"), True),
        (open_source(f"pairs:{pairs}?sequence=1"), False),
        (ClipSource(clip, clips=tmp_path / "clips"), False),
        (open_source(f"video:{video}"), False),
        (open_source(f"file:{stack}"), False),
        (open_source(f"file:{stack}?sequence=0"), True),
        (open_source(f"file:{png}"), True),
        (open_source(f"file:{png}?sequence=1"), False),
        (source_from_arrays([rgb_image(0)]), True),
        (source_from_arrays([rgb_image(0)], sequence=True), False),
        (MemorySource([make_pair(0)]), False),
        (MemorySource([make_pair(0)], sequence=False), True),
        (MemorySource([FramePair("a", RgbFrame(rgb_image(0)))]), True),
        (MemorySource([FramePair("a", RgbFrame(rgb_image(0)))], sequence=True), False),
    ):
        with source:
            assert next(source).is_still is still, source
    with pytest.raises(ConfigError, match="sequence: expected 0 or 1, found 'yes'"):
        open_source(f"pairs:{pairs}?sequence=yes")
    with pytest.raises(ConfigError, match="sequence=0 is of files"):
        open_source("v4l2:///dev/video9?sequence=0")
    with pytest.raises(ConfigError, match="sequence: expected True, False or None"):
        MemorySource([], sequence="1")  # type: ignore[arg-type]


def test_a_radiometric_jpeg_is_a_still_unless_said_otherwise() -> None:
    pytest.importorskip("flyr", reason="needs flyr")
    for option, still in (("", True), ("?sequence=1", False)):
        with open_source(f"file:{DATA}/rjpeg-ax8.jpg{option}") as source:
            assert next(source).still is still


def test_a_state_is_passed_around_a_still() -> None:
    state = RouterState(frames=7, dark=True, low_confidence=True, hot_frames_left=2, rgb_repeats=4)
    assert state.for_still() == RouterState(frames=7)
    assert state.after_still() == RouterState(
        frames=8, dark=True, low_confidence=True, hot_frames_left=2, rgb_repeats=4
    )
