"""What holds for every source: counts add up, bad frames are typed, frames may be kept, closed is closed."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from frames_on_disk import (
    rgb_image,
    thermal_image,
    write_clip,
    write_pairs,
    write_rgb_video,
    write_thermal_video,
)

from edge_sdk.clock import FakeClock
from edge_sdk.errors import ConfigError, FrameError, ShapeError, SourceError, StateError
from edge_sdk.frames import FramePair, RgbFrame, ThermalFrame, ThermalUnit
from edge_sdk.recording.layout import pair_to_json
from edge_sdk.recording.writer import SegmentedFile
from edge_sdk.routing import RouterMemory
from edge_sdk.sources import ClipSource, MemorySource, Source, open_source, source_from_arrays
from edge_sdk.sources.base import BaseSource
from edge_sdk.sources.targets import FrameTargets
from edge_sdk.sources.uri import SourceUri

COUNT = 4
Opener = Callable[..., BaseSource]


def open_pairs(folder: Path, bad: bool, **options: Any) -> BaseSource:
    write_pairs(folder)
    if bad:
        path = folder / "rgb" / "1.png"
        path.write_bytes(path.read_bytes()[:-30])
    return open_source(f"pairs:{folder}?unit=centikelvin", **options)


def open_clip(folder: Path, bad: bool, **options: Any) -> BaseSource:
    clip = write_clip(folder)
    if bad:
        (clip / "thermal" / "001.png").write_bytes(b"")
    return ClipSource(SourceUri("clip:toy", "clip", "toy", {}), clips=folder, **options)


def open_ffv1(folder: Path, bad: bool, **options: Any) -> BaseSource:
    """Bad: the thermal video lacks its last frame."""
    write_rgb_video(folder / "rgb.avi", COUNT)
    write_thermal_video(folder / "thermal.mkv", COUNT - bad)
    return open_source(f"video:{folder}/rgb.avi?thermal=thermal.mkv&unit=centikelvin", **options)


def open_numpy(folder: Path, bad: bool, **options: Any) -> BaseSource:
    write_rgb_video(folder / "rgb.avi", COUNT)
    np.save(folder / "thermal.npy", np.stack([thermal_image(index) for index in range(COUNT - bad)]))
    return open_source(f"video:{folder}/rgb.avi?thermal=thermal.npy&unit=centikelvin", **options)


def open_tiff(folder: Path, bad: bool, **options: Any) -> BaseSource:
    """Bad: one page has 8 bits."""
    write_rgb_video(folder / "rgb.avi", COUNT)
    pages: list[Any] = [thermal_image(index) for index in range(COUNT)]
    if bad:
        pages[1] = (pages[1] >> 8).astype(np.uint8)
    assert cv2.imwritemulti(str(folder / "thermal.tiff"), pages)
    return open_source(f"video:{folder}/rgb.avi?thermal=thermal.tiff&unit=centikelvin", **options)


def open_arrays(folder: Path, bad: bool, **options: Any) -> BaseSource:
    thermal: list[Any] = [thermal_image(index) for index in range(COUNT)]
    if bad:
        thermal[1] = (thermal[1] >> 8).astype(np.uint8)
    rgb = [rgb_image(index) for index in range(COUNT)]
    return source_from_arrays(rgb, thermal, unit="centikelvin", **options)


def open_memory(folder: Path, bad: bool, **options: Any) -> BaseSource:
    assert not bad, "frames in memory are checked when they are made"
    unit = ThermalUnit.CENTIKELVIN
    pairs = [
        FramePair(str(index), RgbFrame(rgb_image(index)), ThermalFrame(thermal_image(index), unit))
        for index in range(COUNT)
    ]
    return MemorySource(pairs, **options)


def open_mcap(folder: Path, bad: bool, **options: Any) -> BaseSource:
    """Bad: one pair's entry lacks its picture."""
    file = SegmentedFile(folder / "run.mcap", {"version": "1"}, limit_bytes=1 << 24, ring=False)
    unit = ThermalUnit.CENTIKELVIN
    for index in range(COUNT):
        rgb, thermal = rgb_image(index), thermal_image(index)
        pair = FramePair(str(index), RgbFrame(rgb), ThermalFrame(thermal, unit))
        entry = pair_to_json(pair, index, RouterMemory(), None, "", jpeg=False, seen=True)
        lost = bad and index == 1
        file.write(
            index, index, None if lost else rgb.tobytes(), thermal.tobytes(), json.dumps(entry).encode()
        )
    file.close()
    return open_source(f"mcap:{folder}/run.mcap", **options)


CAN_BE_BAD: list[Opener] = [open_pairs, open_clip, open_ffv1, open_numpy, open_tiff, open_arrays, open_mcap]


def name_of(opener: Opener) -> str:
    return opener.__name__.removeprefix("open_")


@pytest.fixture(params=[*CAN_BE_BAD, open_memory], ids=name_of)
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens each kind of source over the same four pairs."""
    return lambda **options: request.param(tmp_path, False, **options)


@pytest.fixture(params=CAN_BE_BAD, ids=name_of)
def flawed(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens each kind of source that can have a bad frame, with one among its four."""
    return lambda **options: request.param(tmp_path, True, **options)


def test_gives_as_many_pairs_as_it_says_and_no_more(opener: Opener) -> None:
    with opener() as source:
        assert isinstance(source, Source)
        assert source.length == len(source) == COUNT
        pairs = list(source)
        assert len({pair.key for pair in pairs}) == len(pairs) == COUNT
        assert list(source) == []
        assert source.skipped == []
        assert source.skipped_count == 0


def test_pairs_hold_both_frames(opener: Opener) -> None:
    with opener() as source:
        for index, pair in enumerate(source):
            assert pair.rgb is not None
            assert pair.thermal is not None
            assert pair.thermal.unit is ThermalUnit.CENTIKELVIN
            expected = thermal_image(index, pair.thermal.size_wh)
            np.testing.assert_array_equal(pair.thermal.image, expected)
            difference = pair.rgb.image.astype(int) - rgb_image(index).astype(int)
            assert np.abs(difference).mean() < 4, "red first, give or take the codec"


def test_frames_may_be_kept(opener: Opener) -> None:
    with opener(loop=3) as source:
        pairs = list(source)
    assert len(pairs) == 3 * COUNT
    for index, pair in enumerate(pairs):
        assert pair.rgb is not None
        assert pair.thermal is not None
        np.testing.assert_array_equal(
            pair.thermal.image,
            thermal_image(index % COUNT, pair.thermal.size_wh),
            f"pair {index} overwritten",
        )


def test_passes_repeat(opener: Opener) -> None:
    with opener(loop=3) as source:
        assert source.length == 3 * COUNT
        keys = [pair.key for pair in source]
    assert keys == keys[:COUNT] * 3


def test_endless_passes_have_no_length(opener: Opener) -> None:
    with opener(loop=0) as source:
        assert source.length is None
        assert source
        with pytest.raises(TypeError, match="not known"):
            len(source)
        assert sum(1 for _ in islice(source, 5 * COUNT + 1)) == 5 * COUNT + 1


def test_a_bad_frame_raises_and_the_next_one_comes(flawed: Opener) -> None:
    good, bad = 0, []
    with flawed() as source:
        while True:
            try:
                next(source)
            except FrameError as error:
                bad.append(error)
            except StopIteration:
                break
            else:
                good += 1
    assert (good, len(bad)) == (COUNT - 1, 1)
    assert bad[0].key in str(bad[0])
    assert bad[0].problem
    assert source.skipped_count == 0, "a raised frame is not also counted as skipped"


@pytest.mark.parametrize("loop", [1, 2])
def test_skipped_frames_are_counted_and_named(flawed: Opener, loop: int) -> None:
    with flawed(on_bad="skip", loop=loop) as source:
        good = [pair.key for pair in source]
        assert len(good) + source.skipped_count == source.length == loop * COUNT
        assert len(source.skipped) == source.skipped_count == loop
        skipped = source.skipped[0]
        assert skipped.key not in good
        assert skipped.key in skipped.why
        assert source.describe()["skipped"] == loop


def test_reading_is_timed(opener: Opener) -> None:
    with opener(clock=FakeClock(step_ns=1000)) as source:
        assert [pair.read_ns for pair in source] == [1000] * COUNT


def test_a_closed_source_says_so(opener: Opener) -> None:
    source = opener()
    next(source)
    source.close()
    source.close()
    with pytest.raises(StateError, match="closed"):
        next(source)
    with pytest.raises(StateError, match="open it again"), source:
        pass
    assert "(closed)" in repr(source)


def test_description_is_json_and_complete(opener: Opener) -> None:
    with opener() as source:
        list(source)
        described = json.loads(json.dumps(source.describe()))
    for name in (
        "uri",
        "kind",
        "frames",
        "loop",
        "on_bad",
        "skipped",
        "registration",
        "thermal_unit",
        "licences",
    ):
        assert name in described
    assert described["frames"] == COUNT
    assert described["thermal_unit"] == "centikelvin"
    assert described["registration"]


@pytest.mark.parametrize(
    ("name", "value"), [("on_bad", "ignore"), ("loop", -1), ("loop", 1.5), ("loop", True)]
)
def test_arguments_are_checked(opener: Opener, name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=name):
        opener(**{name: value})


def test_a_source_without_a_good_frame_does_not_spin(tmp_path: Path) -> None:
    write_pairs(tmp_path)
    for path in (tmp_path / "rgb").iterdir():
        path.write_bytes(b"")
    source = open_source(f"pairs:{tmp_path}", on_bad="skip", loop=0)
    with source, pytest.raises(SourceError, match=r"a whole pass of 4 pairs gave no good one.*0 bytes"):
        next(source)
    with open_source(f"pairs:{tmp_path}", on_bad="skip") as source:
        assert list(source) == []
        assert source.skipped_count == 4


def test_a_home_folder_stays_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write_pairs(tmp_path / "site")
    with open_source(f"pairs:{tmp_path}/site") as source:
        assert source.uri == source.describe()["uri"] == "pairs:~/site"
    with open_source("pairs:~/site") as source:
        assert source.length == 4


def test_read_into_fills_memory_of_the_frames_size(opener: Opener) -> None:
    with opener(loop=2) as source:
        pairs = [next(source) for _ in range(COUNT)]
        expected = [(item.rgb.image, item.thermal.image) for item in pairs if item.rgb and item.thermal]
        rgb = np.zeros(expected[0][0].shape, np.uint8)
        thermal = np.zeros(expected[0][1].shape, np.uint16)
        for rgb_pixels, thermal_pixels in expected:
            pair = source.read_into(rgb=rgb, thermal=thermal)
            assert pair is not None
            assert pair.rgb is not None
            assert pair.thermal is not None
            assert pair.rgb.image is rgb
            assert pair.thermal.image is thermal
            assert (rgb == rgb_pixels).all()
            assert (thermal == thermal_pixels).all()
        assert source.read_into(rgb=rgb, thermal=thermal) is None
        assert (rgb == expected[-1][0]).all(), "nothing was written after the last pair"


def test_read_into_leaves_memory_of_another_size_alone(opener: Opener) -> None:
    rgb = np.full((7, 5, 3), 9, np.uint8)
    with opener(loop=2) as source:
        others = [next(source) for _ in range(COUNT)]
        pair = source.read_into(rgb=rgb)
        assert pair is not None
        assert pair.rgb is not None
        assert others[0].rgb is not None
        assert pair.rgb.image is not rgb
        assert (pair.rgb.image == others[0].rgb.image).all()
        assert (rgb == 9).all()


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (np.zeros((4, 4), np.uint8), "rgb target: expected uint8"),
        (np.zeros((4, 4, 3), np.float32), "rgb target: expected uint8"),
        (np.zeros((4, 8, 3), np.uint8)[:, ::2], "contiguous memory that can be written"),
        (np.broadcast_to(np.uint8(0), (4, 4, 3)), "contiguous memory that can be written"),
    ],
)
def test_read_into_refuses_memory_that_no_frame_fits(opener: Opener, wrong: Any, problem: str) -> None:
    with opener() as source:
        with pytest.raises(ShapeError, match=problem):
            source.read_into(rgb=wrong)
        assert source.read_into() is not None, "nothing was read"


def test_read_into_raises_for_a_bad_frame_as_next_does(flawed: Opener) -> None:
    rgb, thermal = np.zeros((16, 20, 3), np.uint8), np.zeros((16, 20), np.uint16)
    with flawed() as source, pytest.raises(FrameError):
        list(iter(lambda: source.read_into(rgb=rgb, thermal=thermal), None))


@pytest.mark.parametrize("open_it", [open_pairs, open_ffv1, open_numpy], ids=name_of)
def test_files_are_decoded_straight_into_the_memory(
    open_it: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever `settle` finds already in place was not copied. OpenCV reads colour so from 4.11 on."""
    straight = hasattr(cv2, "IMREAD_COLOR_RGB") or open_it is not open_pairs
    with open_it(tmp_path, False) as source:
        first = next(source)
        assert first.rgb is not None
        assert first.thermal is not None
        rgb, thermal = np.empty_like(first.rgb.image), np.empty_like(first.thermal.image)
        copied = []
        settle = FrameTargets.settle

        def watch(targets: FrameTargets, pair: FramePair) -> FramePair:
            copied.append(settle(targets, pair) is not pair)
            return pair

        monkeypatch.setattr(FrameTargets, "settle", watch)
        for _ in range(COUNT - 1):
            source.read_into(rgb=rgb, thermal=thermal)
    assert copied == [not straight] * (COUNT - 1)
