"""Recordings: exact, bounded, whole up to the last second whatever happens to the file."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pairs import make_day, make_pair

from edge_sdk.errors import ConfigError, DeviceError, FrameError, SourceError
from edge_sdk.frames import FramePair
from edge_sdk.pipeline import Detector, load
from edge_sdk.recording import Recording, RecordingPlan, RunRecording, SeenThroughJpeg
from edge_sdk.recording.layout import RecordedPair
from edge_sdk.recording.writer import SegmentedFile
from edge_sdk.routing import RouterMemory
from edge_sdk.runs import open_recording, run_source
from edge_sdk.sources import MemorySource, open_source

MIB = 1024 * 1024


@pytest.fixture
def detector(toy_fusion: Path) -> Iterator[Detector]:
    with load(str(toy_fusion), device="cpu", threads=1) as detector:
        yield detector


def record(detector: Detector, path: Path, pairs: list[FramePair], **plan: Any) -> RunRecording:
    source: Any = MemorySource(pairs)
    seen = SeenThroughJpeg(source, 80) if plan.get("rgb") == "jpeg" else None
    recording = open_recording(
        detector, source, RecordingPlan(path, **plan), jpeg_of=seen.jpeg_of if seen else None
    )
    with recording:
        run_source(detector, seen or source, on_bad="skip", observers=[recording])
    return recording


def entries(path: Path) -> list[RecordedPair]:
    recording = Recording(path)
    found = [entry for entry in recording if isinstance(entry, RecordedPair)]
    recording.close()
    return found


def assert_same_pair(left: FramePair, right: FramePair) -> None:
    for name in ("key", "registration", "skew_ms", "notes"):
        assert getattr(left, name) == getattr(right, name)
    for camera in ("rgb", "thermal"):
        a, b = getattr(left, camera), getattr(right, camera)
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_array_equal(a.image, b.image)
            assert a.image.dtype == b.image.dtype
            assert a.timestamp_ns == b.timestamp_ns
    if left.thermal is not None and right.thermal is not None:
        assert left.thermal.unit is right.thermal.unit


def test_everything_comes_back_bit_for_bit(detector: Detector, tmp_path: Path) -> None:
    pairs = make_day()
    results = []
    path = tmp_path / "run.mcap"
    source = MemorySource(pairs)
    with open_recording(detector, source, RecordingPlan(path)) as recording:
        run_source(
            detector,
            source,
            on_bad="skip",
            observers=[recording],
            on_result=lambda pair, result: results.append(result),
        )
    assert recording.state.ended == "closed"
    assert recording.state.pairs == len(pairs)
    assert recording.state.nbytes == path.stat().st_size
    back = entries(path)
    assert [entry.sequence for entry in back] == list(range(1, len(pairs) + 1))
    arrivals = [entry.arrival_ns for entry in back]
    assert arrivals == sorted(arrivals)
    for pair, entry in zip(pairs, back, strict=True):
        assert_same_pair(pair, entry.pair)
        assert entry.seen
    answered = [entry for entry in back if entry.result is not None]
    assert len(answered) == len(results) < len(pairs)
    for then, entry in zip(results, answered, strict=True):
        now = entry.result
        assert now is not None
        for field in dataclasses.fields(then):
            if field.name != "detections":
                assert getattr(then, field.name) == getattr(now, field.name), field.name
        for name in ("xyxy", "scores", "class_ids"):
            np.testing.assert_array_equal(getattr(then.detections, name), getattr(now.detections, name))
        assert then.detections.temperatures == now.detections.temperatures
        assert then.detections.class_names == now.detections.class_names
    assert "neither camera" in next(entry.unanswered for entry in back if entry.result is None)
    assert back[0].memory == RouterMemory()
    assert back[5].memory.state.hot_frames_left > 0


def test_facts_say_what_a_replay_needs(detector: Detector, tmp_path: Path) -> None:
    record(detector, tmp_path / "run.mcap", [make_pair(0)])
    recording = Recording(tmp_path / "run.mcap")
    facts = recording.facts
    assert facts.engine == "toy-fusion"
    assert facts.bundle_sha256 == detector.bundle.sha256
    assert facts.gate == dataclasses.asdict(detector.gate)
    assert facts.source == "memory:pairs"
    assert facts.started_unix_ns > 0
    assert recording.length == 1
    list(recording)
    assert recording.whole is True
    assert recording.problem == ""
    recording.close()


def test_any_mcap_tool_can_list_it(detector: Detector, tmp_path: Path) -> None:
    from mcap.reader import make_reader

    record(detector, tmp_path / "run.mcap", make_day(6))
    with (tmp_path / "run.mcap").open("rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    assert {channel.topic for channel in summary.channels.values()} == {"/pair", "/rgb", "/thermal"}
    assert summary.statistics is not None
    assert summary.statistics.message_count == 18
    assert summary.chunk_indexes[0].compression == "zstd"


def test_cut_at_any_byte_it_gives_its_whole_pairs(detector: Detector, tmp_path: Path) -> None:
    pairs = [make_pair(index) for index in range(60)]
    path = tmp_path / "run.mcap"
    record(detector, path, pairs)
    data = path.read_bytes()
    positions = sorted({*range(0, len(data), max(1, len(data) // 60)), 1, 7, 8, 9, len(data) - 1})
    counts: list[int] = []
    refused: list[tuple[int, str]] = []
    for at in positions:
        cut = tmp_path / "cut.mcap"
        cut.write_bytes(data[:at])
        try:
            recording = Recording(cut)
        except SourceError as error:
            refused.append((at, str(error)))
            counts.append(0)
            continue
        found = list(recording)
        assert all(isinstance(entry, RecordedPair) for entry in found)
        for pair, entry in zip(pairs, found, strict=False):
            assert isinstance(entry, RecordedPair)
            assert_same_pair(pair, entry.pair)
        assert recording.whole is (at >= len(data) - 8), "eight bytes of mark follow the last record"
        assert ("cut short" in recording.problem) is not recording.whole
        counts.append(len(found))
        recording.close()
    assert all(at < 4000 and str(cut) in error for at, error in refused), "facts are on disk before pairs"
    assert counts == sorted(counts)
    assert max(counts) == 60
    assert len(set(counts)) > 3, "chunks are small, so that little is lost"


def test_a_damaged_chunk_costs_its_own_pairs_alone(detector: Detector, tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    record(detector, path, [make_pair(index) for index in range(80)])
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    recording = Recording(path)
    found = list(recording)
    recording.close()
    damaged = [entry for entry in found if isinstance(entry, FrameError)]
    good = [entry.sequence for entry in found if isinstance(entry, RecordedPair)]
    assert len(damaged) == 1
    assert "damaged" in str(damaged[0])
    assert 1 in good
    assert 80 in good
    assert 20 < len(good) < 80
    with open_source(f"mcap:{path}", on_bad="skip") as source:
        assert len(list(source)) == len(good)
        assert source.skipped_count == 1


@pytest.mark.parametrize("text", [b"", b"not a recording at all", b"\x89MCAP0\r\n"])
def test_another_file_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "other.mcap"
    path.write_bytes(text)
    with pytest.raises(SourceError, match="not a recording, or cut off"):
        Recording(path)


def test_an_mcap_file_of_another_program_is_refused(tmp_path: Path) -> None:
    from mcap.writer import Writer

    with (tmp_path / "ros.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start()
        writer.finish()
    with pytest.raises((ConfigError, SourceError), match=r"no recording of edge-sdk|not a recording"):
        Recording(tmp_path / "ros.mcap")


def test_a_recording_is_never_overwritten(detector: Detector, tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    record(detector, path, [make_pair(0)])
    with pytest.raises(ConfigError, match="exists already and is not overwritten"):
        record(detector, path, [make_pair(0)])
    assert len(entries(path)) == 1


def test_a_folder_gets_files_named_by_time(detector: Detector, tmp_path: Path) -> None:
    first = record(detector, tmp_path / "recordings", [make_pair(0)]).state.paths[0]
    second = record(detector, tmp_path / "recordings", [make_pair(0)]).state.paths[0]
    assert first != second
    assert first.parent == second.parent == tmp_path / "recordings"


def big_pairs(count: int) -> list[FramePair]:
    """About 0.9 MB each, which nothing compresses."""
    from edge_sdk.frames import RgbFrame

    noise = np.random.default_rng(0)
    return [
        dataclasses.replace(make_pair(index), rgb=RgbFrame(noise.integers(0, 255, (480, 640, 3), np.uint8)))
        for index in range(count)
    ]


def test_full_it_stops_and_the_run_goes_on(detector: Detector, tmp_path: Path) -> None:
    recording = record(detector, tmp_path / "run.mcap", big_pairs(10), limit_mib=4)
    assert "limit of 4 MiB is reached" in recording.state.ended
    assert (tmp_path / "run.mcap").stat().st_size <= 4 * MIB
    assert len(entries(tmp_path / "run.mcap")) == recording.state.pairs == 4


def test_a_ring_keeps_the_newest_within_the_limit(detector: Detector, tmp_path: Path) -> None:
    recording = record(detector, tmp_path / "run.mcap", big_pairs(40), limit_mib=16, when_full="ring")
    assert recording.state.ended == "closed"
    files = sorted(tmp_path.glob("run-*.mcap"))
    assert files == list(recording.state.paths)
    assert sum(file.stat().st_size for file in files) <= 16 * MIB
    back = [entry.sequence for file in files for entry in entries(file)]
    assert back == list(range(back[0], 41))
    assert 12 <= len(back) < 40
    assert entries(files[-1])[0].memory != RouterMemory(), "each file can be replayed alone"


def test_jpeg_holds_what_the_detector_saw(detector: Detector, tmp_path: Path) -> None:
    pairs = make_day(8)
    recording = record(detector, tmp_path / "run.mcap", pairs, rgb="jpeg")
    assert recording.state.pairs == 8
    back = entries(tmp_path / "run.mcap")
    assert all(entry.seen for entry in back)
    seen = list(SeenThroughJpeg(MemorySource(pairs), 80))
    for then, entry in zip(seen, back, strict=True):
        assert_same_pair(then, entry.pair)
    first, original = back[0].pair.rgb, pairs[0].rgb
    assert first is not None
    assert original is not None
    assert not np.array_equal(first.image, original.image), "JPEG is lossy"


def test_jpeg_without_the_wrapper_admits_that_it_is_lossy(detector: Detector, tmp_path: Path) -> None:
    source = MemorySource([make_pair(0)])
    with open_recording(detector, source, RecordingPlan(tmp_path / "run.mcap", rgb="jpeg")) as recording:
        run_source(detector, source, observers=[recording])
    assert [entry.seen for entry in entries(tmp_path / "run.mcap")] == [False]


def test_a_failing_disk_ends_the_recording_not_the_run(
    detector: Detector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: SegmentedFile, *_: object) -> bool:
        raise DeviceError("run.mcap: cannot be written: No space left on device")

    monkeypatch.setattr(SegmentedFile, "write", full)
    recording = record(detector, tmp_path / "run.mcap", make_day(12))
    assert "No space left" in recording.state.ended
    assert "ended early" in str(recording.state)


def test_behind_it_leaves_out_and_counts_or_waits(
    detector: Detector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    gate = threading.Event()
    write = SegmentedFile.write

    def slow(self: SegmentedFile, *arguments: Any) -> bool:
        gate.wait()
        return write(self, *arguments)

    monkeypatch.setattr(SegmentedFile, "write", slow)
    source = MemorySource([make_pair(index) for index in range(30)])
    plan = RecordingPlan(tmp_path / "run.mcap", when_behind="drop")
    with open_recording(detector, source, plan) as recording:
        run_source(detector, source, observers=[recording])
        gate.set()
    state = recording.state
    assert state.left_out > 0
    assert state.pairs + state.left_out == 30
    assert f"{state.left_out} pairs left out" in str(state)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rgb": "png"}, "rgb: expected lossless or jpeg"),
        ({"when_full": "wrap"}, "when_full: expected stop or ring"),
        ({"when_behind": "hope"}, "when_behind: expected wait or drop"),
        ({"jpeg_quality": 0}, "expected 1 - 100, found 0"),
        ({"limit_mib": 1}, "expected 4 MiB or more, found 1 MiB"),
    ],
)
def test_plans_are_checked(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RecordingPlan(Path("x.mcap"), **wrong)


def test_a_signal_that_is_no_number_survives(detector: Detector, tmp_path: Path) -> None:
    from edge_sdk.measurements import Signals
    from edge_sdk.recording.layout import pair_from_json, pair_to_json

    result = dataclasses.replace(detector(make_pair(1)), signals=Signals(hot_delta_k=float("nan")))
    entry = pair_to_json(make_pair(1), 0, RouterMemory(), result, "", jpeg=False, seen=True)
    pair = make_pair(1)
    assert pair.rgb is not None
    assert pair.thermal is not None
    back = pair_from_json(entry, 1, pair.rgb.image.tobytes(), pair.thermal.image.tobytes())
    assert back.result is not None
    assert np.isnan(back.result.signals.hot_delta_k)


def test_what_a_camera_says_of_its_frames_comes_back() -> None:
    from edge_sdk.frames import Calibration, FfcState
    from edge_sdk.recording.layout import pair_from_json, pair_to_json

    plain = make_pair(1)
    assert plain.thermal is not None
    thermal = dataclasses.replace(
        plain.thermal, calibration=Calibration.RADIOMETRIC, ffc=FfcState.COMPLETE, sequence=42
    )
    alone = dataclasses.replace(plain, rgb=None, thermal=thermal, rgb_fault="covered")
    entry = pair_to_json(alone, 0, RouterMemory(), None, "", jpeg=False, seen=True)
    back = pair_from_json(entry, 1, None, thermal.image.tobytes()).pair
    assert (back.rgb, back.rgb_fault, back.thermal_fault) == (None, "covered", None)
    assert back.thermal is not None
    for name in ("unit", "calibration", "ffc", "sequence", "timestamp_ns"):
        assert getattr(back.thermal, name) == getattr(thermal, name)
