"""Tests of buffers that are written again once nobody holds them."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import cv2
import numpy as np
import pytest
from frames_on_disk import write_pairs, write_rgb_video

from edge_sdk.frames import RgbFrame
from edge_sdk.sources import open_source
from edge_sdk.sources.decode import ImageReader
from edge_sdk.sources.ring import FrameRing

SHAPE = (4, 5, 3)


def test_a_free_buffer_comes_back() -> None:
    ring = FrameRing()
    first = ring.take(SHAPE, np.uint8)
    address = first.ctypes.data
    del first
    assert ring.take(SHAPE, np.uint8).ctypes.data == address


def test_a_held_buffer_does_not() -> None:
    ring = FrameRing(slots=2)
    held = [ring.take(SHAPE, np.uint8) for _ in range(5)]
    assert len({buffer.ctypes.data for buffer in held}) == 5


@pytest.mark.parametrize("hold", [lambda array: array[1:, ::2], RgbFrame, memoryview])
def test_views_frames_and_memory_views_hold(hold: object) -> None:
    ring = FrameRing()
    array = ring.take(SHAPE, np.uint8)
    address = array.ctypes.data
    held = hold(array)  # type: ignore[operator]
    del array
    assert ring.take(SHAPE, np.uint8).ctypes.data != address
    del held


def test_another_size_takes_a_free_place() -> None:
    ring = FrameRing(slots=1)
    ring.take(SHAPE, np.uint8)
    other = ring.take((2, 2), np.uint16)
    assert other.shape == (2, 2)
    assert other.dtype == np.uint16
    address = other.ctypes.data
    del other
    assert ring.take((2, 2), np.uint16).ctypes.data == address


def largest_growth(read: object, times: int = 12) -> int:
    """Returns the most memory that `times` readings took on top of what was there, in bytes."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for _ in range(times):
            read()  # type: ignore[operator]
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def test_reading_a_folder_allocates_no_frame(tmp_path: Path) -> None:
    size_wh = (320, 240)
    write_pairs(tmp_path, [str(index) for index in range(4)])
    for index in range(4):
        noise = np.random.default_rng(index)
        for path, shape, kind in (("rgb", (240, 320, 3), np.uint8), ("thermal", (240, 320), np.uint16)):
            cv2.imwrite(str(tmp_path / path / f"{index}.png"), noise.integers(0, 255, shape).astype(kind))
    with open_source(f"pairs:{tmp_path}", loop=0) as source:
        for _ in range(8):
            next(source)
        reads_in_place = source._rgb_reader._can_decode_into  # type: ignore[attr-defined]
        growth = largest_growth(lambda: next(source))
    frame_nbytes = size_wh[0] * size_wh[1] * 3
    assert growth < frame_nbytes / 4 or not reads_in_place, f"{growth} bytes"


def test_reading_a_video_allocates_no_frame(tmp_path: Path) -> None:
    write_rgb_video(tmp_path / "rgb.avi", 30)
    with open_source(f"video:{tmp_path}/rgb.avi") as source:
        for _ in range(4):
            next(source)
        growth = largest_growth(lambda: next(source))
    assert growth < 48 * 32 * 3


def test_a_reader_without_decoding_in_place_reads_the_same(tmp_path: Path) -> None:
    write_pairs(tmp_path)
    path = tmp_path / "rgb" / "0.png"
    fast, slow = ImageReader("rgb"), ImageReader("rgb")
    slow._can_decode_into = False
    for _ in range(3):
        np.testing.assert_array_equal(fast.read("0", path), slow.read("0", path))
