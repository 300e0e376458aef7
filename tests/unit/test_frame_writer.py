"""Tests of writing pictures to folders and videos, and of disks that do not take them."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from frames_on_disk import rgb_image

from edge_sdk.errors import ConfigError, DeviceError, ShapeError, StateError
from edge_sdk.report.draw import FrameWriter


def test_a_folder_of_pictures(tmp_path: Path) -> None:
    with FrameWriter(tmp_path / "a" / "b") as writer:
        paths = [writer.write(key, rgb_image(index)) for index, key in enumerate(("k1", "k2", "k1"))]
        assert writer.count == 3
    assert [path.name for path in paths] == ["k1.jpg", "k2.jpg", "k1-2.jpg"]
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == ["k1-2.jpg", "k1.jpg", "k2.jpg"]
    read = cv2.imread(str(paths[1]))
    assert read is not None
    assert np.abs(read[..., ::-1].astype(int) - rgb_image(1)).mean() < 4


@pytest.mark.parametrize("key", ["../../outside", "a/b", "/etc/passwd", "..", "", "x" * 500, "nul\0"])
def test_no_key_leads_out_of_the_folder(tmp_path: Path, key: str) -> None:
    with FrameWriter(tmp_path / "out") as writer:
        assert writer.write(key, rgb_image(0)).parent == tmp_path / "out"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("suffix", [".mp4", ".avi", ".AVI"])
def test_a_video(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"out{suffix}"
    path.write_text("an older file")
    with FrameWriter(path, fps=8) as writer:
        for index in range(5):
            assert writer.write(str(index), rgb_image(index, (64, 48))) == path
        assert path.read_text() == "an older file", "the older file stays until the new one is whole"
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    video = cv2.VideoCapture(str(path))
    assert video.get(cv2.CAP_PROP_FRAME_COUNT) == 5
    assert video.get(cv2.CAP_PROP_FPS) == 8
    _, frame = video.read()
    video.release()
    assert np.abs(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB).astype(int) - rgb_image(0, (64, 48))).mean() < 8


def test_pictures_of_another_size_are_fitted_into_a_video(tmp_path: Path) -> None:
    with FrameWriter(tmp_path / "out.avi") as writer:
        for size_wh in ((65, 49), (65, 49), (48, 64), (200, 20)):
            writer.write("k", rgb_image(1, size_wh))
    video = cv2.VideoCapture(str(tmp_path / "out.avi"))
    assert video.get(cv2.CAP_PROP_FRAME_COUNT) == 4
    assert video.get(cv2.CAP_PROP_FRAME_WIDTH) == 64
    video.release()


def test_a_video_without_pictures_leaves_nothing(tmp_path: Path) -> None:
    with FrameWriter(tmp_path / "out.mp4"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_to_is_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(
        ConfigError, match=r"expected a folder or a video file \(\.mp4, \.avi\), found '\.webm'"
    ):
        FrameWriter(tmp_path / "out.webm")
    with pytest.raises(ConfigError, match="a file stands where a folder is needed"):
        FrameWriter(file)
    with pytest.raises(ConfigError, match="a file stands where a folder is needed"):
        FrameWriter(file / "sub")
    with pytest.raises(ConfigError, match="fps: expected frames a second above 0, found 0"):
        FrameWriter(tmp_path / "out.mp4", fps=0)
    with pytest.raises(DeviceError, match="cannot be made"):
        FrameWriter(tmp_path / ("x" * 300))


def test_a_folder_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(DeviceError, match="no permission to write there"):
        FrameWriter(tmp_path)


def test_a_folder_whose_name_has_a_point(tmp_path: Path) -> None:
    (tmp_path / "run.1").mkdir()
    with FrameWriter(tmp_path / "run.1") as writer:
        assert writer.write("k", rgb_image(0)).exists()


def test_a_full_disk_leaves_no_half_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with FrameWriter(tmp_path) as writer:
        writer.write("k", rgb_image(0))
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(DeviceError, match="cannot be written after 1 pictures: No space left on device"):
            writer.write("l", rgb_image(0))
    assert [path.name for path in tmp_path.iterdir()] == ["k.jpg"]


def test_a_video_that_lost_frames_is_not_passed_off_as_whole(tmp_path: Path) -> None:
    writer = FrameWriter(tmp_path / "out.avi")
    for index in range(5):
        writer.write("k", rgb_image(index))
    writer.count += 3
    with pytest.raises(DeviceError, match=r"out\.part\.avi: 5 of 8 frames can be read back"):
        writer.close()
    assert not (tmp_path / "out.avi").exists()


def test_a_video_that_does_not_start_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        fourcc = staticmethod(cv2.VideoWriter.fourcc)

        def __init__(self, *_: Any) -> None: ...

        def isOpened(self) -> bool:  # noqa: N802
            return False

        def release(self) -> None: ...

    monkeypatch.setattr(cv2, "VideoWriter", Closed)
    writer = FrameWriter(tmp_path / "out.mp4")
    with pytest.raises(DeviceError, match=r"could not start a video \(\.mp4\)"):
        writer.write("k", rgb_image(0))
    writer.close()
    assert list(tmp_path.iterdir()) == []


def test_pictures_are_checked(tmp_path: Path) -> None:
    with FrameWriter(tmp_path) as writer, pytest.raises(ShapeError, match=r"found uint8 \[32, 48\]"):
        writer.write("k", rgb_image(0)[..., 0])


def test_a_closed_writer_says_so(tmp_path: Path) -> None:
    writer = FrameWriter(tmp_path)
    writer.close()
    writer.close()
    with pytest.raises(StateError, match="closed"):
        writer.write("k", rgb_image(0))
