"""Turning: by tag or by word, alike at every door, and never in silence where one camera alone is turned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from bundles import write_toy_fusion_bundle
from frames_on_disk import (
    rgb_image,
    thermal_image,
    write_image,
    write_pairs,
    write_rgb_video,
    write_thermal_video,
)
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edge_sdk.errors import ConfigError
from edge_sdk.frames import FramePair, Registration
from edge_sdk.pipeline import load
from edge_sdk.sources import open_source
from edge_sdk.sources.orientation import Turn, turn_of_exif, turned_registration
from edge_sdk.sources.picture_facts import picture_facts

UPRIGHT_JPEG_ERROR = 4
QUARTERS = {"90": 1, "180": 2, "270": 3}


def tagged(path: Path, image: NDArray[Any], exif: int) -> Path:
    """Writes a JPEG or PNG (colour: red first) whose EXIF block says how it is to be turned."""
    stored = image[..., ::-1] if image.ndim == 3 else image
    write_image(path, np.ascontiguousarray(stored))
    block = bytes.fromhex("4d4d002a0000000800010112000300000001") + bytes((0, exif)) + bytes(6)
    data = path.read_bytes()
    if path.suffix == ".jpg":
        segment = b"Exif\0\0" + block
        path.write_bytes(data[:2] + b"\xff\xe1" + (len(segment) + 2).to_bytes(2, "big") + segment + data[2:])
    else:
        import zlib

        chunk = b"eXIf" + block
        whole = len(block).to_bytes(4, "big") + chunk + zlib.crc32(chunk).to_bytes(4, "big")
        path.write_bytes(data[:33] + whole + data[33:])
    return path


def turned_mp4(path: Path, quarters: int) -> Path:
    """Writes a video whose track header says: turn by so many quarters clockwise."""
    write_rgb_video(path, 3, codec="mp4v")
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd") + 4 + 4 + 20 + 16
    a, b = ((1, 0), (0, 1), (-1, 0), (0, -1))[quarters]
    matrix = np.array([a, b, 0, -b, a, 0, 0, 0, 1]) * 65536
    matrix[8] = 0x40000000
    data[at : at + 36] = matrix.astype(">i4").tobytes()
    path.write_bytes(bytes(data))
    return path


def images(pair: FramePair) -> tuple[NDArray[Any], NDArray[Any]]:
    assert pair.rgb is not None
    assert pair.thermal is not None
    return pair.rgb.image, pair.thermal.image


@pytest.mark.parametrize("exif", range(1, 9))
@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_each_exif_value_turns_as_opencv_would(tmp_path: Path, exif: int, suffix: str) -> None:
    path = tagged(tmp_path / f"a{suffix}", rgb_image(5), exif)
    turn = picture_facts(path.read_bytes()).turn
    expected = cv2.cvtColor(cv2.imread(str(path), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
    stored = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    if suffix == ".jpg" or expected.shape == turn.apply(stored).shape:
        np.testing.assert_array_equal(turn.apply(cv2.cvtColor(stored, cv2.COLOR_BGR2RGB)), expected)
    out = np.empty_like(turn.apply(stored))
    assert turn.apply(stored, out) is out or turn == Turn()
    assert out.shape[:2] == turn.size((48, 32))[::-1]


@given(
    exif=st.integers(1, 8),
    x=st.integers(0, 5),
    y=st.integers(0, 3),
)
def test_the_matrix_leads_where_the_pixels_go(exif: int, x: int, y: int) -> None:
    turn = turn_of_exif(exif)
    image = np.zeros((4, 6), np.uint16)
    image[y, x] = 1
    row, column = np.argwhere(turn.apply(image))[0]
    mapped = turn.matrix((6, 4)) @ np.array([x + 0.5, y + 0.5, 1.0])
    np.testing.assert_allclose(mapped, [column + 0.5, row + 0.5, 1.0])


@pytest.mark.parametrize("exif", [6, 3, 5])
def test_a_phones_picture_beside_an_unturned_thermal_frame_is_said_in_every_result(
    tmp_path: Path, exif: int
) -> None:
    write_pairs(tmp_path, ["0", "1"], rgb_suffix=".jpg")
    for index in range(2):
        tagged(tmp_path / "rgb" / f"{index}.jpg", rgb_image(index), exif)
    turn = turn_of_exif(exif)
    with open_source(f"pairs:{tmp_path}?registration=centred") as source:
        pairs = list(source)
        (condition,) = source.describe()["conditions"]
    assert condition.startswith(f"turned unlike: the colour frame is {turn}, the thermal frame as stored")
    for index, pair in enumerate(pairs):
        rgb, thermal = images(pair)
        assert condition in pair.notes
        assert np.abs(rgb.astype(int) - turn.apply(rgb_image(index))).mean() < UPRIGHT_JPEG_ERROR
        np.testing.assert_array_equal(thermal, thermal_image(index))


def test_the_caller_says_which_holds(tmp_path: Path) -> None:
    write_pairs(tmp_path, ["0", "1"], rgb_suffix=".jpg")
    for index in range(2):
        tagged(tmp_path / "rgb" / f"{index}.jpg", rgb_image(index), 6)
    uri = f"pairs:{tmp_path}?registration=centred"
    for options, rgb_turn, thermal_turn in (
        ("orientation=tag", Turn(1), Turn()),
        ("orientation=stored", Turn(), Turn()),
        ("orientation=180", Turn(2), Turn()),
        ("thermal_orientation=90", Turn(1), Turn(1)),
        ("orientation=270&thermal_orientation=270", Turn(3), Turn(3)),
    ):
        with open_source(f"{uri}&{options}") as source:
            for index, pair in enumerate(source):
                rgb, thermal = images(pair)
                assert np.abs(rgb.astype(int) - rgb_turn.apply(rgb_image(index))).mean() < UPRIGHT_JPEG_ERROR
                np.testing.assert_array_equal(thermal, thermal_turn.apply(thermal_image(index)))
                assert not any("turned unlike" in note for note in pair.notes), options
            assert source.describe()["conditions"] == []
    with pytest.raises(
        ConfigError, match="orientation: expected tag or stored or 90 or 180 or 270, found 'left'"
    ):
        open_source(f"{uri}&orientation=left")


def test_a_thermal_tag_counts_too(tmp_path: Path) -> None:
    write_pairs(tmp_path, ["0"], rgb_suffix=".jpg")
    tagged(tmp_path / "rgb" / "0.jpg", rgb_image(0), 8)
    tagged(tmp_path / "thermal" / "0.png", thermal_image(0), 8)
    with open_source(f"pairs:{tmp_path}") as source:
        pair = next(source)
    np.testing.assert_array_equal(images(pair)[1], Turn(3).apply(thermal_image(0)))
    assert not any("turned unlike" in note for note in pair.notes)


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_a_turned_video_is_turned_alike_at_every_door(tmp_path: Path, quarters: int) -> None:
    pytest.importorskip("av", reason="needs PyAV")
    path = turned_mp4(tmp_path / "phone.mp4", quarters)
    turn = Turn(quarters)
    with open_source(f"video:{path}?orientation=stored") as source:
        stored = [pair.rgb.image for pair in source if pair.rgb]
    for uri in (f"video:{path}", f"file:{path}", f"camera:?rgb=file:{path}"):
        with open_source(uri) as source:
            pairs = list(source)
        assert len(pairs) == 3
        for pair, image in zip(pairs, stored, strict=True):
            assert pair.rgb is not None
            assert np.abs(pair.rgb.image.astype(int) - turn.apply(image)).mean() < 3, uri
    with open_source(f"file:{path}?orientation=stored") as source:
        assert next(source).rgb.size_wh == (48, 32)  # type: ignore[union-attr]


def test_a_turned_colour_video_beside_a_thermal_one_is_said(tmp_path: Path) -> None:
    path = turned_mp4(tmp_path / "phone.mp4", 1)
    write_thermal_video(tmp_path / "thermal.mkv", 3)
    with open_source(f"video:{path}?thermal=thermal.mkv&registration=centred") as source:
        assert all(any("turned unlike" in note for note in pair.notes) for pair in source)
    with open_source(
        f"video:{path}?thermal=thermal.mkv&registration=centred&thermal_orientation=90"
    ) as source:
        pair = next(source)
        assert images(pair)[1].shape == images(pair)[0].shape[:2] == (48, 32)
        assert not any("turned unlike" in note for note in pair.notes)
    pytest.importorskip("av", reason="needs PyAV")
    uri = f"camera:?rgb=file:{path}&thermal=file:{tmp_path}/thermal.mkv&registration=centred"
    with open_source(uri) as source:
        assert any("turned unlike" in note for note in next(source).notes)


@pytest.mark.parametrize("door", ["pairs", "camera"])
def test_the_refusal_of_a_picture_turned_alone_names_the_turn(tmp_path: Path, door: str) -> None:
    write_pairs(tmp_path, ["0"], rgb_suffix=".jpg")
    colour = tagged(tmp_path / "rgb" / "0.jpg", rgb_image(0), 6)
    address = f"camera:?rgb=file:{colour}&thermal=file:{tmp_path}/thermal/0.png"
    if door == "pairs":
        address = f"pairs:{tmp_path}"
    engine = write_toy_fusion_bundle(tmp_path / "engine", (48, 32))
    with open_source(address) as source, load(str(engine), device="cpu", threads=1) as detector:
        with pytest.raises(ConfigError, match="no registration of thermal 48x32 to RGB 32x48") as caught:
            detector(next(source))
        assert "turned unlike: the colour frame is turned by 90 degrees" in str(caught.value)
        assert "thermal_orientation=" in str(caught.value)


def test_a_registration_of_the_stored_pictures_is_turned_with_them(tmp_path: Path) -> None:
    write_pairs(tmp_path, ["0"], rgb_suffix=".jpg", thermal_size_wh=(24, 16))
    tagged(tmp_path / "rgb" / "0.jpg", rgb_image(0), 6)
    stated = {
        "homography_thermal_to_rgb": [[2, 0, 1], [0, 2, 0], [0, 0, 1]],
        "rgb_size_wh": [48, 32],
        "thermal_size_wh": [24, 16],
    }
    (tmp_path / "r.json").write_text(json.dumps(stated))
    with open_source(f"pairs:{tmp_path}?registration=r.json&registration_for=stored") as source:
        pair = next(source)
    assert pair.registration is not None
    assert pair.registration.rgb_size_wh == (32, 48)
    # Thermal (3, 5) is stored colour (7, 10), which a quarter turn brings to (32 - 10, 7).
    mapped = np.asarray(pair.registration.homography) @ np.array([3.0, 5.0, 1.0])
    np.testing.assert_allclose(mapped, [22.0, 7.0, 1.0])
    with pytest.raises(ConfigError, match="registration_for: expected turned or stored"):
        open_source(f"pairs:{tmp_path}?registration=r.json&registration_for=both")


@given(rgb=st.integers(1, 8), thermal=st.integers(1, 8), x=st.floats(0, 24), y=st.floats(0, 16))
def test_a_turned_registration_maps_turned_points(rgb: int, thermal: int, x: float, y: float) -> None:
    matrix = ((1.9, 0.1, 1.0), (-0.1, 2.1, 0.5), (0.001, 0.0, 1.0))
    stored = Registration(matrix, (48, 32), (24, 16))
    turned = turned_registration(stored, turn_of_exif(rgb), turn_of_exif(thermal))
    point = np.array([x, y, 1.0])
    expected = turn_of_exif(rgb).matrix((48, 32)) @ np.asarray(matrix) @ point
    found = np.asarray(turned.homography) @ turn_of_exif(thermal).matrix((24, 16)) @ point
    np.testing.assert_allclose(found / found[2], expected / expected[2], atol=1e-9)
