"""Tests of reading image files: formats, channels, bit depths, sizes and broken files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from frames_on_disk import rgb_image, thermal_image, write_image
from numpy.typing import NDArray

from edge_sdk.errors import FrameError
from edge_sdk.sources.decode import IMAGE_SUFFIXES, ImageReader

LOSSLESS = sorted(IMAGE_SUFFIXES - {".jpg", ".jpeg", ".webp"})


@pytest.mark.parametrize("suffix", sorted(IMAGE_SUFFIXES))
@pytest.mark.parametrize("times", [1, 3])
def test_colour_comes_red_first(tmp_path: Path, suffix: str, times: int) -> None:
    path = write_image(tmp_path / f"a{suffix}", rgb_image(5)[..., ::-1])
    reader = ImageReader("rgb")
    images = [reader.read("a", path) for _ in range(times)]
    for image in images:
        assert image.dtype == np.uint8
        difference = np.abs(image.astype(int) - rgb_image(5).astype(int))
        assert difference.max() == 0 if suffix in LOSSLESS else difference.mean() < 4
    assert reader.size_wh == (48, 32)


@pytest.mark.parametrize("suffix", [".png", ".tif", ".tiff"])
def test_thermal_keeps_sixteen_bits(tmp_path: Path, suffix: str) -> None:
    path = write_image(tmp_path / f"a{suffix}", thermal_image(5))
    reader = ImageReader("thermal")
    for _ in range(3):
        np.testing.assert_array_equal(reader.read("a", path), thermal_image(5))


def test_a_grey_picture_counts_as_colour(tmp_path: Path) -> None:
    path = write_image(tmp_path / "a.png", rgb_image(5)[..., 0])
    image = ImageReader("rgb").read("a", path)
    np.testing.assert_array_equal(image, np.repeat(rgb_image(5)[..., :1], 3, axis=2))


def test_transparency_is_dropped(tmp_path: Path) -> None:
    path = write_image(tmp_path / "a.png", cv2.cvtColor(rgb_image(5), cv2.COLOR_RGB2BGRA))
    np.testing.assert_array_equal(ImageReader("rgb").read("a", path), rgb_image(5))


def turned_jpeg(path: Path) -> Path:
    """Writes a JPEG whose EXIF tag says: turn by 90 degrees."""
    write_image(path, rgb_image(5)[..., ::-1])
    data = path.read_bytes()
    orientation = bytes.fromhex("4d4d002a00000008000101120003000000010006000000000000")
    segment = b"Exif\0\0" + orientation
    path.write_bytes(data[:2] + b"\xff\xe1" + (len(segment) + 2).to_bytes(2, "big") + segment + data[2:])
    return path


def test_a_turned_picture_is_turned_every_time(tmp_path: Path) -> None:
    path = turned_jpeg(tmp_path / "a.jpg")
    reader = ImageReader("rgb")
    first, second, third = (reader.read("a", path) for _ in range(3))
    assert reader.size_wh == (32, 48)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, third)


@pytest.mark.parametrize("known_size", [None, (48, 32)])
@pytest.mark.parametrize(
    ("camera", "image", "message"),
    [
        (
            "thermal",
            (thermal_image(0) >> 8).astype(np.uint8),
            "expected 16-bit with one channel.*8-bit with 1 channel",
        ),
        (
            "thermal",
            rgb_image(0),
            "expected 16-bit with one channel.*found 8-bit with 3 channels.*radiometry",
        ),
        ("rgb", thermal_image(0), "expected 8-bit colour, found 16-bit with 3 channels.*folders swapped"),
    ],
)
def test_a_wrong_dtype_is_named(
    tmp_path: Path,
    camera: str,
    image: NDArray[Any],
    message: str,
    known_size: tuple[int, int] | None,
) -> None:
    path = write_image(tmp_path / "a.png", image)
    with pytest.raises(FrameError, match=message) as caught:
        ImageReader(camera, known_size).read("a", path)
    assert caught.value.path == path
    assert caught.value.key == "a"


@pytest.mark.parametrize("camera", ["rgb", "thermal"])
def test_a_change_of_size_is_named(tmp_path: Path, camera: str) -> None:
    make = rgb_image if camera == "rgb" else thermal_image
    good = write_image(tmp_path / "good.png", make(0))
    other = write_image(tmp_path / "other.png", make(0, (40, 30)))
    reader = ImageReader(camera)
    reader.read("good", good)
    message = rf"{camera} image: expected 48x32 \(width x height, as in the first frame\), found 40x30"
    with pytest.raises(FrameError, match=message):
        reader.read("other", other)
    assert reader.read("good", good).shape[:2] == (32, 48)


def test_a_stated_size_holds_from_the_first_frame_on(tmp_path: Path) -> None:
    path = write_image(tmp_path / "a.png", thermal_image(0, (40, 30)))
    with pytest.raises(FrameError, match=r"as in clip\.json"):
        ImageReader("thermal", (48, 32), "clip.json").read("a", path)


@pytest.mark.parametrize("suffix", sorted(IMAGE_SUFFIXES))
def test_a_truncated_file_is_never_half_a_picture(tmp_path: Path, suffix: str) -> None:
    path = write_image(tmp_path / f"a{suffix}", rgb_image(5)[..., ::-1])
    data = path.read_bytes()
    reader = ImageReader("rgb")
    reader.read("a", path)
    for length in (1, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(FrameError):
            reader.read("a", path)


def test_broken_files_say_what_they_are(tmp_path: Path) -> None:
    reader = ImageReader("rgb")
    empty = tmp_path / "empty.jpg"
    empty.touch()
    text = tmp_path / "text.jpg"
    text.write_text("not a picture")
    folder = tmp_path / "folder.jpg"
    folder.mkdir()
    for path, message in (
        (empty, r"empty \(0 bytes\)"),
        (text, "not a JPEG, PNG, TIFF, WebP or BMP"),
        (folder, "a folder stands where an image file was expected"),
        (tmp_path / "gone.jpg", "no such file"),
        (tmp_path / "gone" / "a.jpg", "no such file"),
    ):
        with pytest.raises(FrameError, match=message) as caught:
            reader.read("k", path)
        assert str(path) in str(caught.value)


def test_a_whole_structure_around_nonsense_is_a_bad_frame(tmp_path: Path) -> None:
    path = write_image(tmp_path / "a.webp", rgb_image(5))
    data = bytearray(path.read_bytes())
    data[40:] = bytes(len(data) - 40)
    path.write_bytes(bytes(data))
    with pytest.raises(FrameError, match="cannot be decoded"):
        ImageReader("rgb").read("a", path)
    data[12:] = bytes(len(data) - 12)
    path.write_bytes(bytes(data))
    with pytest.raises(FrameError, match="damaged WebP: its header states 0x0 pixels"):
        ImageReader("rgb").read("a", path)


def test_an_unreadable_file_is_a_bad_frame(tmp_path: Path) -> None:
    loop = tmp_path / "loop.png"
    loop.symlink_to(loop)
    with pytest.raises(FrameError, match="cannot be read: "):
        ImageReader("rgb").read("a", loop)


def test_files_of_growing_size_are_read_whole(tmp_path: Path) -> None:
    reader = ImageReader("thermal")
    noise = np.random.default_rng(0)
    for spread in (1, 4000, 10, 60000):
        image = noise.integers(0, spread + 1, (32, 48)).astype(np.uint16)
        np.testing.assert_array_equal(reader.read("a", write_image(tmp_path / "a.png", image)), image)
