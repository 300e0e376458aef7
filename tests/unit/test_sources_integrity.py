"""Tests of noticing that an image file is not whole."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import cv2
import pytest
from frames_on_disk import rgb_image, thermal_image
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edge_sdk.sources.integrity import check_complete

RGB, RAW = rgb_image(3)[..., ::-1], thermal_image(3)


def encoded(suffix: str, image: NDArray[Any] = RGB, *options: int) -> bytes:
    done, data = cv2.imencode(suffix, image, options)
    assert done
    return data.tobytes()


WHOLE = {
    "JPEG": encoded(".jpg"),
    "JPEG, progressive": encoded(".jpg", RGB, cv2.IMWRITE_JPEG_PROGRESSIVE, 1),
    "JPEG, restart markers": encoded(".jpg", RGB, cv2.IMWRITE_JPEG_RST_INTERVAL, 2),
    "PNG": encoded(".png"),
    "PNG, 16 bits": encoded(".png", RAW),
    "TIFF": encoded(".tiff"),
    "TIFF, 16 bits, no compression": encoded(".tiff", RAW, cv2.IMWRITE_TIFF_COMPRESSION, 1),
    "WebP": encoded(".webp"),
    "BMP": encoded(".bmp"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_files_pass(name: str) -> None:
    assert check_complete(WHOLE[name]) == name.split(",", maxsplit=1)[0]
    assert check_complete(memoryview(bytearray(WHOLE[name])))


@pytest.mark.parametrize("name", WHOLE)
@given(data=st.data())
def test_no_truncation_goes_unnoticed(name: str, data: st.DataObject) -> None:
    whole = WHOLE[name]
    length = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ValueError, match=r"truncated|not a JPEG|empty"):
        check_complete(whole[:length])


@given(position=st.integers(8, len(WHOLE["PNG"]) - 13), flip=st.integers(1, 255))
def test_no_damage_to_a_png_goes_unnoticed(position: int, flip: int) -> None:
    damaged = bytearray(WHOLE["PNG"])
    damaged[position] ^= flip
    with pytest.raises(ValueError, match="PNG"):
        check_complete(damaged)


@pytest.mark.parametrize(
    "start", [b"", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"II*\0", b"MM\0+", b"RIFF", b"BM"]
)
@given(rest=st.binary(max_size=200))
def test_any_bytes_are_judged(start: bytes, rest: bytes) -> None:
    with suppress(ValueError):
        assert check_complete(start + rest)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"the file is empty \(0 bytes\)"),
        (b"hello, world", r"not a JPEG, PNG, TIFF, WebP or BMP file \(it begins with 68 65 6c"),
        (WHOLE["JPEG"][:-2], r"truncated JPEG: \d+ bytes without an end-of-image marker"),
        (WHOLE["JPEG"][:30], "truncated JPEG"),
        (b"\xff\xd8\xff\xd9", "ends before its picture begins"),
        (b"\xff\xd8\xff\xe0\x00\x04abXX", "expected a marker at byte 8 of 10"),
        (WHOLE["PNG"][:-12], "truncated PNG: .* without an IEND chunk"),
        (WHOLE["TIFF"][:40], "truncated TIFF"),
        (WHOLE["WebP"][:-5], "truncated WebP: .* its header states"),
        (WHOLE["BMP"][:-1], "truncated BMP: .* 48x32 pixels need"),
        (b"RIFF\x10\0\0\0WAVEfmt ", "a RIFF file that is not WebP"),
        (b"BM123", "truncated BMP: 5 bytes end inside its header"),
    ],
)
def test_messages_have_figures(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_complete(data)


def test_what_follows_a_jpeg_does_no_harm() -> None:
    assert check_complete(WHOLE["JPEG"] + b"camera maker's notes") == "JPEG"


def test_an_end_marker_inside_a_thumbnail_does_not_count() -> None:
    thumbnail = WHOLE["JPEG"]
    segment = b"\xff\xe1" + struct.pack(">H", len(thumbnail) + 2) + thumbnail
    with_thumbnail = WHOLE["JPEG"][:2] + segment + WHOLE["JPEG"][2:]
    assert check_complete(with_thumbnail) == "JPEG"
    with pytest.raises(ValueError, match="truncated JPEG"):
        check_complete(with_thumbnail[:-2])


def test_a_tiff_whose_pages_go_in_circles_ends() -> None:
    data = b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", 0) + struct.pack("<I", 8)
    assert check_complete(data) == "TIFF"


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_big_tiff(order: str) -> None:
    start = (b"II" if order == "<" else b"MM") + struct.pack(order + "HHHQ", 43, 8, 0, 16)
    entries = struct.pack(order + "HHQQ", 273, 16, 1, 72) + struct.pack(order + "HHQQ", 279, 16, 1, 10)
    page = struct.pack(order + "Q", 2) + entries + struct.pack(order + "Q", 0)
    whole = start + page + bytes(82 - len(start) - len(page))
    assert check_complete(whole) == "TIFF"
    with pytest.raises(ValueError, match="reaches to byte 82"):
        check_complete(whole[:-1])
