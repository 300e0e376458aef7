"""Damaged and strange files at every reader: an error of ours or an answer, and never anything else.

Real small files are mutated with a fixed seed: bytes flipped, numbers made extreme, parts cut out, doubled
and swapped. EDGE_SDK_FUZZ makes it longer: so many mutations a file (40 by default).
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
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
    write_label,
    write_pairs,
    write_rgb_video,
    write_thermal_video,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from pairs import make_pair
from records import record_of

from edge_sdk.engine.parse import parse_manifest
from edge_sdk.errors import EdgeSdkError
from edge_sdk.json_text import JsonProblem, json_value
from edge_sdk.meter.recording import load_recording
from edge_sdk.recording.layout import pair_from_json, pair_to_json
from edge_sdk.recording.writer import SegmentedFile
from edge_sdk.report.record_file import load_record, write_record
from edge_sdk.routing import RouterMemory
from edge_sdk.sla import parse_sla
from edge_sdk.sources import open_source
from edge_sdk.sources.decode import ImageReader
from edge_sdk.sources.labels import load_json, load_labels, registration_from
from edge_sdk.sources.registration import load_sidecar

MUTATIONS = int(os.environ.get("EDGE_SDK_FUZZ", "40"))
DATA = Path(__file__).resolve().parents[1] / "data" / "thermal"
EXTREMES = (
    b"\x00" * 4,
    b"\xff" * 4,
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\x80\x00\x00\x00",
    b"\x01\x00",
)


def mutants(data: bytes, count: int = MUTATIONS, seed: int = 0) -> list[bytes]:
    """Makes damaged copies of a file, the same ones each time."""
    noise = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        copy = bytearray(data)
        for _ in range(int(noise.integers(1, 6))):
            # Headers hold what decides, so half of all damage is done there.
            reach = len(copy) if noise.random() < 0.5 else min(len(copy), 256)
            at = int(noise.integers(0, max(1, reach)))
            span = int(noise.integers(1, 64))
            kind = int(noise.integers(0, 6))
            if kind == 0:
                copy[at : at + 1] = bytes([int(noise.integers(0, 256))])
            elif kind == 1:
                extreme = EXTREMES[int(noise.integers(0, len(EXTREMES)))]
                copy[at : at + len(extreme)] = extreme
            elif kind == 2:
                del copy[at : at + span]
            elif kind == 3:
                copy[at:at] = copy[at : at + span]
            elif kind == 4:
                del copy[max(1, at) :]
            else:
                copy[at : at + span] = noise.bytes(span)
        made.append(bytes(copy))
    return made


def survives(read: Callable[..., Any], *arguments: Any) -> bool:
    """Reads; True where an answer came. Anything but an error of ours fails the test."""
    try:
        read(*arguments)
    except EdgeSdkError:
        return False
    return True


def drain(uri: str) -> int:
    with open_source(uri, on_bad="skip") as source:
        return sum(1 for _ in source)


PICTURES = {
    ".png": thermal_image(0),
    ".tif": thermal_image(1),
    ".jpg": rgb_image(2),
    ".webp": rgb_image(3),
    ".bmp": rgb_image(4),
}


@pytest.mark.parametrize("suffix", PICTURES)
@pytest.mark.parametrize("camera", ["rgb", "thermal"])
def test_pictures(tmp_path: Path, suffix: str, camera: str) -> None:
    path = write_image(tmp_path / f"a{suffix}", PICTURES[suffix])
    for data in mutants(path.read_bytes()):
        path.write_bytes(data)
        survives(ImageReader(camera).read, "a", path)


def test_tiff_pages_and_float_tiffs(tmp_path: Path) -> None:
    path, video = tmp_path / "a.tif", write_rgb_video(tmp_path / "v.avi", 2)
    assert cv2.imwritemulti(str(path), [thermal_image(0), thermal_image(1)])
    packed = path.read_bytes()
    plain = write_image(tmp_path / "f.tif", (thermal_image(0) / 100).astype(np.float32)).read_bytes()
    for data in mutants(packed) + mutants(plain):
        path.write_bytes(data)
        survives(drain, f"file:{path}?unit=kelvin")
        survives(drain, f"video:{video}?thermal={path}&unit=kelvin")


@pytest.mark.parametrize("name", ["rjpeg-ax8.jpg", "rjpeg-handheld.jpg"])
def test_radiometric_jpegs(tmp_path: Path, name: str) -> None:
    pytest.importorskip("flyr", reason="needs flyr")
    data = (DATA / name).read_bytes()
    at = data.index(b"FLIR\0")
    path = tmp_path / "a.jpg"
    answers = 0
    for number, flir in enumerate(mutants(data[at : at + 4096], MUTATIONS // 2)):
        path.write_bytes(data[:at] + flir.ljust(4096, b"\0")[:4096] + data[at + 4096 :])
        answers += survives(drain, f"file:{path}")
        assert number < MUTATIONS
    for whole in mutants(data, MUTATIONS // 4):
        path.write_bytes(whole)
        survives(drain, f"file:{path}")
    assert answers, "some damage is survived"


def cptv_bytes() -> bytes:
    """A clip of two frames, as the format's description lays it out."""
    width, height = 8, 6
    header = b"CPTV\x02H\x05\x08T" + bytes(8) + b"\x04X" + struct.pack("<I", width)
    header += b"\x04Y" + struct.pack("<I", height) + b"\x01C\x01\x01Z\x09"
    frame = struct.pack("<i", 29000) + bytes(width * height - 1)
    body = b"F\x04\x01w\x08\x04f" + struct.pack("<I", len(frame)) + b"\x04t" + struct.pack("<I", 100)
    body += b"\x04c" + struct.pack("<I", 10) + frame
    return header + body * 2


@pytest.mark.filterwarnings("ignore:The 'warn' method is deprecated")  # the library's own
def test_cptv(tmp_path: Path) -> None:
    pytest.importorskip("cptv", reason="needs cptv")
    path = tmp_path / "a.cptv"
    for data in mutants(cptv_bytes()):
        path.write_bytes(gzip.compress(data, 1))
        survives(drain, f"file:{path}")
    for data in mutants(gzip.compress(cptv_bytes())):
        path.write_bytes(data)
        survives(drain, f"file:{path}")


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_arrays(tmp_path: Path, suffix: str) -> None:
    stack = np.stack([thermal_image(index, (8, 6)) for index in range(3)])
    buffer = io.BytesIO()
    (np.save if suffix == ".npy" else np.savez_compressed)(buffer, stack)
    path = tmp_path / f"a{suffix}"
    for data in mutants(buffer.getvalue()):
        path.write_bytes(data)
        survives(drain, f"file:{path}?unit=centikelvin")
    member = io.BytesIO()
    np.save(member, stack)
    for data in mutants(member.getvalue()):
        with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
            archive.writestr("thermal.npy", data)
        survives(drain, f"file:{tmp_path}/b.npz?unit=centikelvin")


@pytest.mark.parametrize("name", ["a.avi", "a.mkv", "t.mkv"])
def test_videos(tmp_path: Path, name: str) -> None:
    colour = write_rgb_video(tmp_path / "colour.avi", 3)
    write = write_thermal_video if name == "t.mkv" else write_rgb_video
    path = write(tmp_path / name, 3)
    uri = f"video:{colour}?thermal={path}" if name == "t.mkv" else f"video:{path}"
    for data in mutants(path.read_bytes(), MUTATIONS // 4):
        path.write_bytes(data)
        survives(drain, f"{uri}{'&' if '?' in uri else '?'}partial=allow")


def recorded(path: Path) -> bytes:
    pytest.importorskip("mcap", reason="needs mcap")
    file = SegmentedFile(
        path, {"version": "1", "gate": '{"audit_every": 0}'}, limit_bytes=1 << 24, ring=False
    )
    for index in range(2):
        pair = make_pair(index)
        assert pair.rgb is not None
        assert pair.thermal is not None
        entry = pair_to_json(pair, index, RouterMemory(), None, "", jpeg=False, seen=True)
        pictures = pair.rgb.image.tobytes(), pair.thermal.image.tobytes()
        file.write(index, index, *pictures, json.dumps(entry).encode())
    file.close()
    return path.read_bytes()


def test_recordings(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    for data in mutants(recorded(path), MUTATIONS * 2):
        path.write_bytes(data)
        survives(drain, f"mcap:{path}")


# JSON and other texts ------------------------------------------------------------------------------------

ODD: list[Any] = [
    None, True, -1, 0, 1.5, 10**30, "", "x", "1", [], [1], {}, {"a": 1}, [[1, 2, 3]] * 3, "nan", [None] * 3,
]  # fmt: skip


def odd_documents(document: Any) -> list[Any]:
    """The document with each of its members, at every depth, replaced by things of other types, or gone."""
    made: list[Any] = list(ODD)
    if isinstance(document, dict):
        for name, value in document.items():
            made.append({key: item for key, item in document.items() if key != name})
            made += [{**document, name: other} for other in odd_documents(value)]
    elif isinstance(document, list) and document:
        made += [[other, *document[1:]] for other in odd_documents(document[0])]
    return made


def test_entries_of_recordings() -> None:
    pair = make_pair(0)
    assert pair.rgb is not None
    assert pair.thermal is not None
    pictures = pair.rgb.image.tobytes(), pair.thermal.image.tobytes()
    entry = pair_to_json(pair, 0, RouterMemory(), None, "", jpeg=False, seen=True)
    assert survives(lambda: pair_from_json(json.loads(json.dumps(entry)), 0, *pictures))
    for document in odd_documents(json.loads(json.dumps(entry))):
        survives(pair_from_json, document, 0, *pictures)


REGISTRATION = {
    "homography_thermal_to_rgb": [[1.5, 0.0, 2.0], [0.0, 1.5, 3.0], [0.0, 0.0, 1.0]],
    "rgb_size_wh": [48, 32],
    "thermal_size_wh": [32, 24],
    "depth_m": 6.0,
    "pixel_convention": "corner",
    "thermal_unit": "centikelvin",
    "licence": ["CC0-1.0"],
    "registration_for": "turned",
}


def registered(path: Path) -> Any:
    return registration_from(load_json(path), path, "test")


def test_sidecars_labels_and_registrations(tmp_path: Path) -> None:
    write_pairs(tmp_path, ["0"], thermal_size_wh=(32, 24))
    label = write_label(tmp_path, "0", homography_thermal_to_rgb=REGISTRATION["homography_thermal_to_rgb"])
    sidecar, given_file = tmp_path / "pairs.json", tmp_path / "r.json"
    for document in odd_documents(REGISTRATION):
        text = json.dumps(document)
        sidecar.write_text(text)
        given_file.write_text(text)
        survives(load_sidecar, tmp_path)
        survives(registered, given_file)
    for document in odd_documents(json.loads(label.read_text())):
        label.write_text(json.dumps(document))
        survives(load_labels, label)
    sidecar.write_text(json.dumps(REGISTRATION))
    given_file.write_text("[" * 100_000)
    for word in ("r.json", "none.json", str(tmp_path), "\u00e9" * 200):
        assert not survives(drain, f"pairs:{tmp_path}?registration={word}")


def test_run_records_and_power_logs(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_record(record_of([40.0, 41.0, 39.0, 45.0], dropped=1), path)
    whole = path.read_bytes()
    for data in mutants(whole, MUTATIONS * 2):
        path.write_bytes(data)
        survives(load_record, path)
        survives(load_recording, path)
    document = json.loads(whole)
    noise = np.random.default_rng(1)
    candidates = odd_documents(document)
    for index in noise.integers(0, len(candidates), MUTATIONS * 4):
        path.write_text(json.dumps(candidates[index]))
        survives(load_record, path)


def test_power_logs_of_other_programs(tmp_path: Path) -> None:
    path = tmp_path / "power.log"
    for text in (
        "timestamp,power_w\n2026-01-01 00:00:00,5.0\n2026-01-01 00:00:01,6.0\n2026-01-01 00:00:02,6.0\n",
        "01-01-2026 00:00:00 RAM 1/2MB CPU [1%@729] VDD_IN 3000mW/3000mW\n" * 3,
    ):
        for data in mutants(text.encode(), MUTATIONS * 2):
            path.write_bytes(data)
            survives(load_recording, path)


SLA = b"""name: gate
engine: substation-rgbt
source: clip:substation
latency: {p50_ms: 40, p99_ms: 60}
frames: {max_dropped_share: 0.01}
"""


def test_sla_files() -> None:
    strange = [
        b"a: " + b"[" * 50_000,
        b"a: " + b"9" * 10_000,
        b"latency: {p50_ms: " + b"1" * 5000 + b"}",
        b"a: 2026-99-99",
        b"a: !!python/object:os.system {}",
        b"a: &b [*b, *b]",
        b"? [1, 2]\n: 3",
        b"\xff\xfe",
        b"a: \x00",
        b"a: .inf\nb: .nan",
        b"1e999: 2",
    ]
    for data in mutants(SLA, MUTATIONS * 3) + strange:
        survives(parse_sla, data)


def test_manifests(tmp_path: Path) -> None:
    path = write_toy_fusion_bundle(tmp_path / "toy", (64, 48)) / "bundle.toml"
    data = path.read_bytes()
    strange = [b"a = " + b"[" * 50_000, b"a = " + b"9" * 10_000, b"a = 1e999", b"a = 2026-99-99", b"\xff"]
    for mutant in mutants(data, MUTATIONS * 2) + strange:
        survives(parse_manifest, mutant, path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)


@given(document=JSON)
@settings(max_examples=150)
def test_json_is_read_as_it_was_written_or_refused(document: Any) -> None:
    text = json.dumps(document)
    try:
        value = json_value(text)
    except JsonProblem:
        assert "NaN" in text or "Infinity" in text or max(map(len, text.split())) > 40
    else:
        assert value == document


@given(text=st.text(alphabet='{}[]",:0123456789.eE+-tfn\\ua \n', max_size=60))
@settings(max_examples=300)
def test_any_text_is_json_or_a_problem(text: str) -> None:
    for given_text in (text, text.encode()):
        with contextlib.suppress(JsonProblem):
            json_value(given_text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested over 64 levels"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "nested over 64 levels"),
        ("[" * 70 + "]" * 70, "nested over 64 levels"),
        ("9" * 5000, "a number of 5000 digits"),
        ("1e999", "not finite"),
        ("NaN", "NaN, which is no number of JSON"),
        ("[-Infinity]", "-Infinity, which is no number of JSON"),
        ('{"a": 1, "a": 2}', "'a' stands twice in one object"),
        (b'{"a": "\xff"}', r"no UTF-8 text \(invalid start byte at byte 7\)"),
        ("", "not JSON that can be read"),
        ("[1,]", "not JSON that can be read"),
        (" " * 20_000_000, "20000000 bytes of JSON; at most 16777216"),
    ],
)
def test_what_is_wrong_with_json_is_said(text: str | bytes, message: str) -> None:
    with pytest.raises(JsonProblem, match=message):
        json_value(text)
    assert json_value(b'\xef\xbb\xbf{"a": [1, 2.5, "x", null]}') == {"a": [1, 2.5, "x", None]}
