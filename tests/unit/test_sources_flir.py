"""Radiometric JPEGs that the library flyr does not read: what can be read is, else the camera is named."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from frames_on_disk import rgb_image, write_image
from test_sources_orientation import tagged

from edge_sdk.errors import ConfigError, FrameError
from edge_sdk.frames import Calibration, FramePair
from edge_sdk.sources import open_source
from edge_sdk.sources.flir_file import canonical, flir_file

flyr = pytest.importorskip("flyr", reason="needs flyr")

DATA = Path(__file__).resolve().parents[1] / "data" / "thermal"
AX8 = (DATA / "rjpeg-ax8.jpg").read_bytes()
FILES = [DATA / "rjpeg-ax8.jpg", DATA / "rjpeg-handheld.jpg"]
RAW, VISIBLE, CAMERA = 1, 14, 32


def rebuilt(records: dict[int, bytes], *, order: str = ">", spare: int = 2, chunk: int = 60_000) -> bytes:
    """The AX8's file with other records, as another camera might lay them out."""
    directory, body, at = b"", b"", 64 + 32 * (len(records) + spare)
    for kind, record in records.items():
        directory += struct.pack(order + "HHIIIIIII", kind, 1, 100, 1, at + len(body), len(record), 0, 0, 0)
        body += record
    flir = b"FFF\0".ljust(20, b"\0") + struct.pack(order + "III", 100, 64, len(records) + spare)
    flir = flir.ljust(64, b"\0") + directory + bytes(32 * spare) + body
    parts = [flir[start : start + chunk] for start in range(0, len(flir), chunk)]
    head = b"".join(
        b"\xff\xe1" + struct.pack(">H", len(part) + 10) + b"FLIR\0\1" + bytes((number, len(parts) - 1)) + part
        for number, part in enumerate(parts)
    )
    done, jpeg = cv2.imencode(".jpg", rgb_image(0))
    assert done
    return b"\xff\xd8" + head + jpeg.tobytes()[2:]


def read(path: Path, data: bytes, options: str = "") -> FramePair:
    path.write_bytes(data)
    with open_source(f"file:{path}{options}") as source:
        return next(source)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_our_reading_of_the_records_is_flyrs(path: Path) -> None:
    data = path.read_bytes()
    found, judge = flir_file(data), flyr.unpack(str(path))
    again = flyr.unpack(io.BytesIO(canonical(data, found, found.raw("k"))))
    np.testing.assert_array_equal(again.kelvin, judge.kelvin)
    np.testing.assert_array_equal(found.visible("k"), judge.optical)
    assert vars(again.pip_info) == vars(judge.pip_info)


@pytest.mark.parametrize("order", [">", "<"])
@pytest.mark.parametrize("spare", [0, 2])
def test_directories_that_flyr_reads_otherwise(tmp_path: Path, order: str, spare: int) -> None:
    """flyr misses the last two records of a directory without spare entries, and knows one byte order."""
    records = dict(flir_file(AX8).records)
    data = rebuilt(records, order=order, spare=spare)
    pair, judge = read(tmp_path / "a.jpg", data), flyr.unpack(str(FILES[0]))
    assert pair.thermal is not None
    assert pair.thermal.calibration is Calibration.RADIOMETRIC
    np.testing.assert_allclose(pair.thermal.image / 100, judge.kelvin, atol=0.006)
    assert pair.rgb is not None
    np.testing.assert_array_equal(pair.rgb.image, judge.optical)
    if (order, spare) != (">", 2):
        assert any(note.startswith("read record by record (flyr: ") for note in pair.notes)


def test_a_png_of_another_size_than_stated_is_read_as_it_is(tmp_path: Path) -> None:
    records = dict(flir_file(AX8).records)
    head = bytearray(records[RAW])
    struct.pack_into("<HH", head, 2, 320, 240)
    pair = read(tmp_path / "a.jpg", rebuilt({**records, RAW: bytes(head)}))
    assert pair.thermal is not None
    assert pair.thermal.size_wh == (80, 60)
    np.testing.assert_allclose(pair.thermal.image / 100, flyr.unpack(str(FILES[0])).kelvin, atol=0.006)


def test_without_the_cameras_constants_there_are_counts_and_no_degrees(tmp_path: Path) -> None:
    records = dict(flir_file(AX8).records)
    del records[CAMERA]
    pair = read(tmp_path / "a.jpg", rebuilt(records))
    assert pair.thermal is not None
    assert pair.thermal.unit.value == "counts"
    np.testing.assert_array_equal(pair.thermal.image, flir_file(AX8).raw("k"))
    assert any(note.startswith("no degrees: the constants of ") for note in pair.notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda records: records.pop(RAW),
            r"a file of FLIR AX8: it has no raw thermal frame \(record 1\) \(flyr:",
        ),
        (
            lambda records: records.update(
                {RAW: struct.pack("<HHH", 2, 80, 60).ljust(32, b"\0") + bytes(100)}
            ),
            "a file of FLIR AX8: its raw thermal frame is stated as 80x60 pixels, which need 9600 bytes; 100",
        ),
        (
            lambda records: records.update({RAW: records[RAW][:-200]}),
            "a file of FLIR AX8: truncated PNG",
        ),
        (
            lambda records: records.update({RAW: struct.pack("<HHH", 2, 60000, 60000).ljust(40, b"\0")}),
            "states 60000x60000 pixels, at most",
        ),
    ],
)
def test_what_cannot_be_read_names_the_camera(
    tmp_path: Path, change: Callable[[dict[int, bytes]], Any], message: str
) -> None:
    records = dict(flir_file(AX8).records)
    change(records)
    with pytest.raises(FrameError, match=message):
        read(tmp_path / "a.jpg", rebuilt(records))


def test_a_missing_visible_picture_is_noted(tmp_path: Path) -> None:
    records = dict(flir_file(AX8).records)
    records[VISIBLE] = records[VISIBLE][:100]
    pair = read(tmp_path / "a.jpg", rebuilt(records))
    assert pair.rgb is None
    assert "the file holds no visible frame" in pair.notes


def test_both_frames_and_the_cameras_registration_are_turned_together(tmp_path: Path) -> None:
    stored = read(tmp_path / "a.jpg", AX8, "?orientation=stored&thermal_orientation=stored")
    plain = tagged(tmp_path / "b.jpg", rgb_image(0), 6).read_bytes()
    exif = plain[2 : 4 + int.from_bytes(plain[4:6], "big")]
    pair = read(tmp_path / "c.jpg", AX8[:2] + exif + AX8[2:])
    assert pair.rgb is not None
    assert pair.thermal is not None
    assert stored.thermal is not None
    assert pair.rgb.size_wh == (480, 640)
    np.testing.assert_array_equal(pair.thermal.image, np.rot90(stored.thermal.image, -1))
    assert pair.registration is not None
    assert stored.registration is not None
    # The centre of the thermal view falls on the same thing before and after.
    before = np.asarray(stored.registration.homography) @ np.array([40.0, 30.0, 1.0])
    after = np.asarray(pair.registration.homography) @ np.array([30.0, 40.0, 1.0])
    np.testing.assert_allclose(after[:2] / after[2], [480 - before[1] / before[2], before[0] / before[2]])
    assert not any("turned unlike" in note for note in pair.notes)


def test_a_folder_with_sub_folders_in_natural_order(tmp_path: Path) -> None:
    for name in ("IMG_10", "IMG_2", "more/IMG_1"):
        path = tmp_path / f"{name}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(AX8)
    (tmp_path / "._IMG_2.jpg").write_bytes(AX8)
    write_image(tmp_path / "photo.jpg", rgb_image(0))
    with open_source(f"file:{tmp_path}") as source:
        assert [pair.key for pair in source] == ["IMG_2", "IMG_10", "more/IMG_1"]
        assert source.describe()["ignored_files"] == 2


@pytest.mark.parametrize(
    "uri",
    [
        "{folder}",
        "{folder}/IMG_1.jpg",
        "pairs:{folder}",
        "video:{folder}/IMG_1.jpg",
        "camera:?rgb=file:{folder}/IMG_1.jpg",
    ],
)
def test_every_other_door_says_which_one_it_is(tmp_path: Path, uri: str) -> None:
    (tmp_path / "IMG_1.jpg").write_bytes(AX8)
    with pytest.raises(ConfigError, match=f"file:{tmp_path}"):
        open_source(uri.format(folder=tmp_path))


def test_a_radiometric_jpeg_among_thermal_files_says_so(tmp_path: Path) -> None:
    (tmp_path / "thermal").mkdir()
    (tmp_path / "thermal" / "a.jpg").write_bytes(AX8)
    with (
        open_source(f"pairs:{tmp_path}?rgb=none") as source,
        pytest.raises(FrameError, match=r"It is a radiometric JPEG of FLIR: its raw frame is read by file:"),
    ):
        next(source)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("t.csv", "a table is no picture.*numpy.save"),
        ("t.CSV", "a table is no picture"),
        ("run.mcap", "mcap:FILE"),
        ("a.pdf", "a PDF holds no frames"),
    ],
)
def test_files_that_hold_no_frames_ask_for_no_video_library(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / name).write_text("1,2,3")
    for uri in (f"file:{tmp_path}/{name}", f"camera:?rgb=file:{tmp_path}/{name}"):
        with pytest.raises(ConfigError, match=message):
            open_source(uri)
