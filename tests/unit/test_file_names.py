"""Names that are no UTF-8, long, or composed otherwise: each reader and writer takes them, none crashes."""

from __future__ import annotations

import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import cv2
import numpy as np
import pytest
from frames_on_disk import (
    rgb_image,
    thermal_image,
    write_image,
    write_pairs,
    write_rgb_video,
    write_thermal_video,
)

from edge_sdk.errors import DeviceError, FrameError
from edge_sdk.opencv_files import opencv_name, plain_name
from edge_sdk.report.frame_writer import FrameWriter
from edge_sdk.sources import open_source

ODD = os.fsdecode(b"caf\xe9")
"""Latin-1 on a disk of today."""


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    folder = tmp_path / ODD
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system takes UTF-8 names alone")
    return folder


def test_which_names_opencv_can_be_given(tmp_path: Path) -> None:
    assert plain_name(tmp_path / "caf\u00e9")
    assert not plain_name(Path("/x") / ODD)
    with opencv_name(Path("a:b.mp4")) as name:  # a relative name with a colon is a protocol to FFmpeg
        assert name == str(Path.cwd() / "a:b.mp4")


def test_pictures_and_their_keys(odd: Path) -> None:
    write_pairs(odd, [f"{ODD}2", f"{ODD}10"], rgb_suffix=".jpg", thermal_suffix=".tif")
    with open_source(f"pairs:{odd}") as source:
        pairs = [pair.copied() for pair in source]
        for text in (source.uri, str(source.describe()), repr(source)):
            text.encode("utf-8")
    assert [pair.key for pair in pairs] == ["caf\\xe92", "caf\\xe910"]
    for index, pair in enumerate(pairs):
        assert pair.thermal is not None
        np.testing.assert_array_equal(pair.thermal.image, thermal_image(index))
    (odd / "rgb" / f"{ODD}2.jpg").write_bytes(b"no picture")
    with open_source(f"pairs:{odd}") as source, pytest.raises(FrameError) as caught:
        next(source)
    str(caught.value).encode("utf-8")


def test_videos_and_stacks(odd: Path) -> None:
    rgb, thermal = odd / f"{ODD}.avi", odd / f"{ODD}.mkv"
    write_rgb_video(odd.parent / "a.avi", 3).rename(rgb)
    write_thermal_video(odd.parent / "t.mkv", 3).rename(thermal)
    with open_source(f"video:{rgb}?thermal={thermal}", loop=2) as source:
        assert len(list(source)) == 6
    tiff = write_image(odd / f"{ODD}.tif", thermal_image(0))
    np.save(odd / "s.npy", thermal_image(0)[None])
    for path in (tiff, odd / "s.npy"):
        with open_source(f"file:{path}") as source:
            assert next(source).thermal is not None
    pytest.importorskip("av", reason="needs PyAV")
    with open_source(f"camera:?rgb=file:{rgb}&thermal=file:{thermal}") as source:
        assert len(list(source)) == 3


@pytest.mark.parametrize("name", ["out.mp4", f"{ODD}.avi", "caf\u00e9.mp4"])
def test_videos_are_written(odd: Path, name: str) -> None:
    with FrameWriter(odd / name) as writer:
        for index in range(3):
            writer.write("k", rgb_image(index, (64, 48)))
    assert [path.name for path in odd.iterdir()] == [name]
    with open_source(f"video:{odd / name}") as source:
        assert len(list(source)) == 3


def test_pictures_are_written(odd: Path) -> None:
    with FrameWriter(odd) as writer:
        path = writer.write(ODD, rgb_image(0))
    assert cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_COLOR) is not None


def test_long_names_that_are_not_ascii(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FrameWriter(tmp_path) as writer:
        names = [writer.write("\u6e29" * 300, rgb_image(0)).name for _ in range(2)]
        assert len(set(names)) == 2
        assert all(len(os.fsencode(name)) < 250 for name in names)
        monkeypatch.setattr("edge_sdk.report.frame_writer._NAME_BYTES", 900)
        with pytest.raises(DeviceError, match="File name too long"):
            writer.write("\u6e29" * 299, rgb_image(0))


def test_no_picture_overwrites_another(tmp_path: Path) -> None:
    keys = ["IMG", "IMG-2", "IMG", "IMG-2", "IMG", "a/b", "a_b"]
    with FrameWriter(tmp_path) as writer:
        names = [writer.write(key, rgb_image(index)).name for index, key in enumerate(keys)]
    assert len(set(names)) == len(keys)
    assert names[:3] == ["IMG.jpg", "IMG-2.jpg", "IMG-3.jpg"]


def test_names_composed_otherwise_are_one_pair_and_macos_files_are_none(tmp_path: Path) -> None:
    name = "Stra\u00dfe \u00e9cole"
    write_pairs(tmp_path, [unicodedata.normalize("NFC", name)])
    thermal = tmp_path / "thermal" / f"{unicodedata.normalize('NFC', name)}.png"
    thermal.rename(tmp_path / "thermal" / f"{unicodedata.normalize('NFD', name)}.png")
    (tmp_path / "rgb" / f"._{name}.png").write_bytes(b"\0\5\x16\7")
    (tmp_path / "rgb" / "@eaDir").mkdir()
    write_image(tmp_path / "rgb" / "@eaDir" / "x.png", rgb_image(0))
    with open_source(f"pairs:{tmp_path}") as source:
        assert [pair.key for pair in source] == [unicodedata.normalize("NFC", name)]
        assert source.describe()["ignored_files"] == 1


def test_sub_folders_are_read_in_natural_order(tmp_path: Path) -> None:
    write_pairs(tmp_path, ["day10/1", "day2/10", "day2/9", "3"])
    for camera in ("rgb", "thermal"):
        (tmp_path / camera).mkdir(exist_ok=True)
    with open_source(f"pairs:{tmp_path}") as source:
        assert [pair.key for pair in source] == ["3", "day2/9", "day2/10", "day10/1"]
    (tmp_path / "labels").mkdir()
    with open_source(f"pairs:{tmp_path}?rgb=rgb&thermal=rgb/../thermal") as source:
        assert len(source) == 4


def test_the_command_line_prints_such_names(odd: Path) -> None:
    write_pairs(odd, [ODD])
    (odd / "rgb" / f"{ODD}.png").write_bytes(b"")
    code = (
        "import sys, os; from edge_sdk.cli.main import main; "
        "uri = 'pairs:' + os.fsdecode(sys.stdin.buffer.read()); "
        "sys.argv = ['edge-sdk', 'run', '--source', uri, '--device', 'null']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=os.fsencode(odd), capture_output=True, timeout=120, check=False
    )
    text = done.stderr.decode() + done.stdout.decode()
    assert "Traceback" not in text
    assert "empty (0 bytes)" in " ".join(text.split())
