"""TIFF as radiometric cameras write it: without a photometric tag, signed, floating, in strips and tiles."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from frames_on_disk import thermal_image, write_image
from numpy.typing import NDArray

from edge_sdk.errors import FrameError
from edge_sdk.sources import open_source
from edge_sdk.sources.decode import ImageReader, decode_page
from edge_sdk.sources.tiff import rebuilt, tiff_pages

FORMATS = {"u": 1, "i": 2, "f": 3}


def tiff_bytes(
    image: NDArray[Any],
    *,
    order: str = "<",
    rows: int = 0,
    tile: int = 0,
    big: bool = False,
    **tags: int,
) -> bytes:
    """Writes an uncompressed TIFF without PhotometricInterpretation; `tags` are t262=1 and the like."""
    height, width = image.shape
    stored = image.astype(image.dtype.newbyteorder(order))
    if tile:
        pieces = []
        for y in range(0, height, tile):
            for x in range(0, width, tile):
                block = np.zeros((tile, tile), stored.dtype)
                part = stored[y : y + tile, x : x + tile]
                block[: part.shape[0], : part.shape[1]] = part
                pieces.append(block.tobytes())
    else:
        rows = rows or height
        pieces = [stored[y : y + rows].tobytes() for y in range(0, height, rows)]
    body, starts = b"", []
    head = 16 if big else 8
    for piece in pieces:
        starts.append(head + len(body))
        body += piece
    values: dict[int, list[int]] = {
        256: [width],
        257: [height],
        258: [image.dtype.itemsize * 8],
        259: [1],
        277: [1],
        339: [FORMATS[image.dtype.kind]],
        (324 if tile else 273): starts,
        (325 if tile else 279): [len(piece) for piece in pieces],
        **({322: [tile], 323: [tile]} if tile else {278: [rows]}),
        **{int(name[1:]): [value] for name, value in tags.items()},
    }
    code, size, inline = ("Q", 20, 8) if big else ("I", 12, 4)
    at = head + len(body)
    far_at = at + (8 if big else 2) + size * len(values) + inline
    directory, far = struct.pack(order + ("Q" if big else "H"), len(values)), b""
    for tag, numbers in sorted(values.items()):
        packed = struct.pack(f"{order}{len(numbers)}I", *numbers)
        if len(packed) > inline:
            place = struct.pack(order + code, far_at + len(far))
            far += packed
        else:
            place = packed.ljust(inline, b"\0")
        directory += struct.pack(order + "HH" + code, tag, 4, len(numbers)) + place
    mark = b"II" if order == "<" else b"MM"
    if big:
        start = mark + struct.pack(order + "HHHQ", 43, 8, 0, at)
    else:
        start = mark + struct.pack(order + "HI", 42, at)
    return start + body + directory + bytes(inline) + far


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("layout", [{}, {"rows": 5}, {"tile": 16}])
def test_an_uncompressed_page_without_a_photometric_tag(
    tmp_path: Path, order: str, big: bool, layout: dict[str, int]
) -> None:
    path = tmp_path / "camera.tif"
    path.write_bytes(tiff_bytes(thermal_image(3), order=order, big=big, **layout))
    reader = ImageReader("thermal")
    for _ in range(2):
        np.testing.assert_array_equal(reader.read("a", path), thermal_image(3))
    with open_source(f"file:{path}?unit=centikelvin") as source:
        thermal = next(source).thermal
    assert thermal is not None
    np.testing.assert_array_equal(thermal.image, thermal_image(3))
    assert thermal.unit.value == "centikelvin"


@pytest.mark.parametrize("compression", [1, 5, 8])
def test_a_compressed_page_without_the_tag_is_rebuilt_for_opencv(compression: int) -> None:
    done, encoded = cv2.imencode(".tif", thermal_image(2), [cv2.IMWRITE_TIFF_COMPRESSION, compression])
    assert done
    data = bytearray(encoded.tobytes())
    (page,) = tiff_pages(bytes(data))
    (at,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, at)
    for entry in range(at + 2, at + 2 + 12 * count, 12):
        if struct.unpack_from("<H", data, entry)[0] == 262:
            struct.pack_into("<H", data, entry, 65000)  # a tag that nobody knows
    (page,) = tiff_pages(bytes(data))
    assert not page.is_complete
    np.testing.assert_array_equal(decode_page("a", Path("a.tif"), bytes(data), page), thermal_image(2))
    np.testing.assert_array_equal(
        cv2.imdecode(np.frombuffer(rebuilt(bytes(data), page), np.uint8), cv2.IMREAD_UNCHANGED),
        thermal_image(2),
    )


def test_each_page_of_many_is_read_alone(tmp_path: Path) -> None:
    path = tmp_path / "stack.tif"
    assert cv2.imwritemulti(str(path), [thermal_image(index) for index in range(4)])
    data = path.read_bytes()
    for index, page in enumerate(tiff_pages(data)):
        np.testing.assert_array_equal(decode_page("a", path, data, page), thermal_image(index))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_float_tiff_holds_temperatures(tmp_path: Path, dtype: type[np.floating[Any]]) -> None:
    path = tmp_path / "celsius.tif"
    path.write_bytes(tiff_bytes((thermal_image(0) / 100 - 273.15).astype(dtype)))
    with open_source(f"file:{path}?unit=celsius") as source:
        thermal = next(source).thermal
    assert thermal is not None
    np.testing.assert_array_equal(thermal.image, thermal_image(0))
    (tmp_path / "thermal").mkdir()
    path.rename(tmp_path / "thermal" / "0.tif")
    with (
        open_source(f"pairs:{tmp_path}?rgb=none") as source,
        pytest.raises(FrameError, match="unit 'kelvin' or 'celsius'") as caught,
    ):
        next(source)
    assert "coloured" not in str(caught.value)


def test_a_signed_tiff_is_read_with_its_unit(tmp_path: Path) -> None:
    hundredths = (thermal_image(0).astype(np.int32) - 27315).astype(np.int16)
    (tmp_path / "thermal").mkdir()
    (tmp_path / "thermal" / "0.tif").write_bytes(tiff_bytes(hundredths))
    with open_source(f"pairs:{tmp_path}?rgb=none&unit=linear:0.01:273.15") as source:
        thermal = next(source).thermal
    assert thermal is not None
    np.testing.assert_array_equal(thermal.image, thermal_image(0))


def test_what_is_wrong_is_said_in_words(tmp_path: Path) -> None:
    path = write_image(tmp_path / "a.tif", (thermal_image(0) >> 8).astype(np.uint8))
    with pytest.raises(FrameError, match=r"expected 16-bit with one channel.*found 8-bit with 1 channel"):
        ImageReader("thermal").read("a", path)
    data = tiff_bytes(thermal_image(0), rows=5)
    path.write_bytes(data[:-1])
    with pytest.raises(FrameError, match="truncated TIFF"):
        ImageReader("thermal").read("a", path)
    path.write_bytes(tiff_bytes(thermal_image(0), t278=8))
    with pytest.raises(FrameError, match="damaged TIFF: 1 of 4 strips or tiles are listed"):
        ImageReader("thermal").read("a", path)
