"""A file may state any size: no memory is taken before that was judged, and the error says both figures."""

from __future__ import annotations

import json
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from frames_on_disk import thermal_image, write_image, write_pairs, write_rgb_video

from edge_sdk.errors import FrameTooLargeError, SourceError
from edge_sdk.picture_size import LONGEST_SIDE_PX, MOST_PIXELS, check_size
from edge_sdk.recording.layout import RUN_METADATA, decode_jpeg
from edge_sdk.recording.reader import Recording
from edge_sdk.sources import open_source
from edge_sdk.sources.decode import ImageReader

SIDE = 30000


def png(path: Path) -> Path:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    rows = zlib.compress(bytes(100_000), 9)
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 16, 0, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    )
    return path


def patched(path: Path, size_at: Callable[[bytes], int], code: str) -> Path:
    """Writes another size into a small file's header."""
    data = bytearray(write_image(path, thermal_image(0)).read_bytes())
    struct.pack_into(code, data, size_at(bytes(data)), SIDE, SIDE)
    path.write_bytes(bytes(data))
    return path


def jpeg(path: Path) -> Path:
    data = bytearray(write_image(path, (thermal_image(0) >> 8).astype(np.uint8)).read_bytes())
    struct.pack_into(">HH", data, data.index(b"\xff\xc0") + 5, SIDE, SIDE)
    path.write_bytes(bytes(data))
    return path


def tiff(path: Path) -> Path:
    """One strip that is there, of a page that is stated to be huge."""
    entries = [(256, SIDE), (257, SIDE), (258, 16), (259, 1), (273, 8), (277, 1), (278, SIDE), (279, 16)]
    directory = struct.pack("<H", len(entries)) + b"".join(
        struct.pack("<HHII", t, 4, 1, v) for t, v in entries
    )
    path.write_bytes(b"II*\0" + struct.pack("<I", 24) + bytes(16) + directory + bytes(4))
    return path


def bmp(path: Path) -> Path:
    data = bytearray(write_image(path, (thermal_image(0) >> 8).astype(np.uint8)).read_bytes())
    struct.pack_into("<iiHHI", data, 18, SIDE, SIDE, 1, 8, 1)
    path.write_bytes(bytes(data))
    return path


@pytest.mark.parametrize(("make", "suffix"), [(png, ".png"), (jpeg, ".jpg"), (tiff, ".tif"), (bmp, ".bmp")])
@pytest.mark.parametrize("camera", ["rgb", "thermal"])
def test_pictures(tmp_path: Path, make: Callable[[Path], Path], suffix: str, camera: str) -> None:
    path = make(tmp_path / f"huge{suffix}")
    tracemalloc.start()
    with pytest.raises(FrameTooLargeError, match="states 30000x30000 pixels, at most 134 million") as caught:
        ImageReader(camera).read("huge", path)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken < 4_000_000
    assert (caught.value.found, caught.value.key) == ("30000x30000 pixels", "huge")
    with pytest.raises(FrameTooLargeError):
        check_size("a", (LONGEST_SIDE_PX + 1, 1))
    check_size("a", (MOST_PIXELS // 16384, 16384))


def test_a_folder_passes_over_the_one_that_is_too_large(tmp_path: Path) -> None:
    write_pairs(tmp_path, ["0", "1", "2"])
    png(tmp_path / "thermal" / "1.png")
    with open_source(f"pairs:{tmp_path}", on_bad="skip") as source:
        assert [pair.key for pair in source] == ["0", "2"]
        assert "30000x30000" in source.skipped[0].why


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_arrays(tmp_path: Path, suffix: str) -> None:
    header = f"{{'descr': '<u2', 'fortran_order': False, 'shape': (2, {SIDE}, {SIDE}), }}"
    text = header.ljust(117) + "\n"
    member = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()
    path = tmp_path / f"huge{suffix}"
    if suffix == ".npy":
        path.write_bytes(member)
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("thermal.npy", member + bytes(1_000_000))
    write_rgb_video(tmp_path / "a.avi", 2)
    with pytest.raises(SourceError, match=r"cannot be read as a NumPy file|30000x30000"):
        open_source(f"video:{tmp_path}/a.avi?thermal={path}")


def test_a_stack_in_an_archive_is_unpacked_frame_by_frame(tmp_path: Path) -> None:
    path = tmp_path / "long.npz"
    np.savez_compressed(path, thermal=np.zeros((400, 256, 320), np.uint16))
    tracemalloc.start()
    with open_source(f"file:{path}?repeats=keep") as source:
        with pytest.raises(StopIteration):
            next(source)  # every frame is black, and so left out
        assert source.status()["cameras"]["thermal"]["health"] == "ended"  # type: ignore[attr-defined]
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken < 16_000_000, "65 MB of frames are never in memory at once"


def test_a_recording_states_more_than_it_holds(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard", reason="needs mcap")
    from mcap.writer import Writer

    path = tmp_path / "bomb.mcap"
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start(profile="", library="test")
        writer.add_metadata(RUN_METADATA, {"version": "1"})
        writer.finish()
    data = path.read_bytes()
    packed = zstandard.compress(bytes(1 << 16))
    chunk = (
        struct.pack("<QQQI", 0, 0, 3_300_000_000, 0)
        + struct.pack("<I", 4)
        + b"zstd"
        + struct.pack("<Q", len(packed))
        + packed
    )
    end = data.index(b"\x0f" + struct.pack("<Q", 4))  # the record that ends the data
    path.write_bytes(data[:end] + b"\x06" + struct.pack("<Q", len(chunk)) + chunk + data[end:])
    recording = Recording(path)
    (problem,) = list(recording)
    recording.close()
    assert "it states 3300000000 bytes, at most" in str(problem)


def test_a_recorded_jpeg_too(tmp_path: Path) -> None:
    with pytest.raises(FrameTooLargeError, match="30000x30000"):
        decode_jpeg(jpeg(tmp_path / "a.jpg").read_bytes())


def test_a_cptv_header(tmp_path: Path) -> None:
    pytest.importorskip("cptv", reason="needs cptv")
    import gzip

    header = b"CPTV\x02H\x04" + b"\x08T" + bytes(8) + b"\x04X" + struct.pack("<I", SIDE)
    header += b"\x04Y" + struct.pack("<I", SIDE) + b"\x01C\x01"
    path = tmp_path / "huge.cptv"
    path.write_bytes(gzip.compress(header + b"F\x02\x01w\x08\x04f" + struct.pack("<I", 4) + bytes(4)))
    with pytest.raises(FrameTooLargeError, match="30000x30000"):
        open_source(f"file:{path}")


def test_a_video(tmp_path: Path) -> None:
    """FFmpeg itself refuses 268 million pixels and more; here are 225 million."""
    path, side = write_rgb_video(tmp_path / "a.avi", 2), 15000
    data = bytearray(path.read_bytes())
    struct.pack_into("<ii", data, data.index(b"strf") + 12, side, side)
    at = 0
    while (at := data.find(b"\xff\xc0\x00\x11", at + 1)) > 0:
        struct.pack_into(">HH", data, at + 5, side, side)
    path.write_bytes(bytes(data))
    for uri in (f"video:{path}", f"file:{path}"):
        with pytest.raises(FrameTooLargeError, match="15000x15000"):
            open_source(uri)


def test_the_limit_is_part_of_the_error(tmp_path: Path) -> None:
    error = FrameTooLargeError("k", "9 bytes", "8 bytes", tmp_path / "f")
    assert json.dumps([error.found, error.limit]) == '["9 bytes", "8 bytes"]'
    assert str(error).startswith(
        f"frame 'k' ({tmp_path}/f): its header states 9 bytes, at most 8 bytes are read"
    )
