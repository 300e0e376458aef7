"""Recordings: exact, bounded, whole up to the last second whatever happens to the file."""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pairs import make_day, make_pair

from edge_sdk.clock import FakeClock
from edge_sdk.errors import ConfigError, DeviceError, FrameError, SourceError
from edge_sdk.frames import FramePair
from edge_sdk.pipeline import Detector, load
from edge_sdk.recording import Recording, RecordingPlan, RunRecording, SeenThroughJpeg, disk_file
from edge_sdk.recording.layout import RecordedPair
from edge_sdk.recording.ring import RingFile, find_files, removal_order, too_old
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
        dataclasses.replace(make_pair(index), rgb=RgbFrame(noise.integers(0, 255, (474, 632, 3), np.uint8)))
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


class Disk:
    """A disk with so much room for the files of a folder; what is removed gives its room back."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, nbytes: int) -> None:
        self.folder, self.nbytes, self._write = folder, nbytes, os.write
        monkeypatch.setattr(disk_file.os, "write", self.write)

    def write(self, descriptor: int, data: bytearray) -> int:
        used = sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())
        if used >= self.nbytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._write(descriptor, data[: self.nbytes - used])


def test_a_full_disk_costs_pairs_and_not_the_recording(
    detector: Detector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk(tmp_path, monkeypatch, 5 * MIB + 1234)
    source = MemorySource(pairs := big_pairs(14))
    seen: list[str] = []
    with open_recording(detector, source, RecordingPlan(tmp_path / "run.mcap")) as recording:
        for number, pair in enumerate(pairs):
            recording.arrived(pair)
            recording.answered(pair, detector(pair))
            recording._queue.join()
            seen.append(recording.state.held)
            if number == 9:
                disk.nbytes = 100 * MIB
        conditions = recording.conditions
    assert seen[0] == seen[-1] == ""
    assert seen[9] == "No space left on device"
    state = recording.state
    assert state.ended == "closed"
    assert 0 < state.left_out < 9
    assert state.pairs + state.left_out == 14
    back = Recording(tmp_path / "run.mcap")
    numbers = [entry.sequence for entry in back if isinstance(entry, RecordedPair)]
    assert back.whole, "what the disk took in part was gone on with at the very byte"
    back.close()
    assert len(numbers) == state.pairs
    assert numbers[-1] == 14
    assert "No space left on device; pairs are left out until there is room" in caplog.text
    assert "goes on" in caplog.text
    assert f"does not hold the whole run: {state.left_out} pairs left out" in conditions[0]


def test_a_disk_that_stays_full_keeps_what_there_is_readable(
    detector: Detector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Disk(tmp_path, monkeypatch, 3 * MIB + 77)
    recording = record(detector, tmp_path / "run.mcap", big_pairs(8))
    assert "the disk is full (No space left on device)" in recording.state.ended
    assert recording.state.pairs == len(entries(tmp_path / "run.mcap")) == 3
    assert recording.state.left_out == 5
    assert recording.conditions


def test_on_a_full_disk_nothing_begins_or_waits_as_asked(
    detector: Detector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path, monkeypatch, 0)
    source = MemorySource(pairs := [make_pair(index) for index in range(4)])
    with pytest.raises(DeviceError, match="cannot be written: No space left"):
        open_recording(detector, source, RecordingPlan(tmp_path / "run.mcap"))
    assert list(tmp_path.iterdir()) == [], "nothing is left in the way of the next start"
    plan = RecordingPlan(tmp_path / "run.mcap", when_behind="drop")
    with open_recording(detector, source, plan) as recording:
        for pair in pairs:
            recording.arrived(pair)
            recording.answered(pair, detector(pair))
            recording._queue.join()
            disk.nbytes = 9 * MIB if pair is pairs[1] else disk.nbytes
    assert (recording.state.pairs, recording.state.left_out) == (2, 2)
    assert [entry.sequence for entry in entries(tmp_path / "run.mcap")] == [3, 4]


def ring(path: Path) -> list[tuple[int, list[int]]]:
    """Number and sequences of each file of a ring."""
    files, _ = find_files(path)
    return [(file.number, [entry.sequence for entry in entries(file.path)]) for file in files]


def test_a_ring_makes_room_on_a_full_disk(
    detector: Detector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Disk(tmp_path, monkeypatch, 6 * MIB)
    recording = record(detector, tmp_path / "run.mcap", big_pairs(20), limit_mib=16, when_full="ring")
    state = recording.state
    assert state.ended == "closed"
    back = [number for _, numbers in ring(tmp_path / "run.mcap") for number in numbers]
    assert back[-1] == 20
    assert back == list(range(back[0], 21))
    assert (state.pairs, state.removed) == (len(back), 20 - len(back))


def test_a_ring_counts_what_is_there_and_says_what_went(detector: Detector, tmp_path: Path) -> None:
    recording = record(detector, tmp_path / "run.mcap", big_pairs(40), limit_mib=8, when_full="ring")
    state = recording.state
    there = [number for _, numbers in ring(tmp_path / "run.mcap") for number in numbers]
    assert state.pairs == len(there) > 4
    assert state.removed == 40 - len(there)
    assert f"{state.pairs} pairs ({state.removed} older ones made room)" in str(state)
    assert state.nbytes == sum(path.stat().st_size for path in tmp_path.iterdir())


def test_a_small_ring_goes_on_as_a_ring(detector: Detector, tmp_path: Path) -> None:
    """An eighth of 4 MiB holds no pair of 0.9 MB: then a file is a pair."""
    recording = record(detector, tmp_path / "run.mcap", big_pairs(12), limit_mib=4, when_full="ring")
    assert recording.state.ended == "closed"
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 4 * MIB
    back = [number for _, numbers in ring(tmp_path / "run.mcap") for number in numbers]
    assert back == list(range(back[0], 13))
    assert len(back) >= 3


@pytest.mark.parametrize(("when_full", "least"), [("ring", 14), ("stop", 7)])
def test_a_limit_too_small_for_the_first_pair_is_refused_with_the_least_that_works(
    detector: Detector, tmp_path: Path, when_full: str, least: int
) -> None:
    from edge_sdk.frames import RgbFrame

    noise = np.random.default_rng(0).integers(0, 255, (1344, 1792, 3), np.uint8)
    pairs = [dataclasses.replace(make_pair(index), rgb=RgbFrame(noise)) for index in range(4)]
    answered: list[str] = []

    def run(limit_mib: int, begins_run: bool = True) -> RunRecording:
        source = MemorySource(pairs)
        plan = RecordingPlan(tmp_path / "run.mcap", limit_mib=limit_mib, when_full=when_full)
        with open_recording(detector, source, plan, begins_run=begins_run) as recording:
            run_source(
                detector,
                source,
                observers=[recording],
                on_result=lambda pair, result: answered.append(pair.key),
            )
        return recording

    with pytest.raises(ConfigError, match=rf"a pair being 6\.9 MiB; expected {least} MiB or more"):
        run(least - 1)
    assert answered == []
    assert list(tmp_path.iterdir()) == [], "no empty file is left in the way"
    from_the_page = run(least - 1, begins_run=False)
    assert len(answered) == 4, "a viewer's button ends no run"
    assert f"expected {least} MiB" in from_the_page.state.ended
    assert run(least).state.pairs >= 1


def test_a_ring_goes_on_under_its_name(detector: Detector, tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    for _ in range(3):
        record(detector, path, big_pairs(3), limit_mib=32, when_full="ring")
    assert ring(path) == [(0, [1, 2, 3]), (1, [1, 2, 3]), (2, [1, 2, 3])]
    (tmp_path / "run-002.mcap").rename(tmp_path / "kept.mcap")
    record(detector, path, big_pairs(12), limit_mib=8, when_full="ring")
    numbers = ring(path)
    assert sum(file.stat().st_size for file in tmp_path.glob("run-*")) <= 8 * MIB
    assert numbers[-1][1][-1] == 12
    assert (tmp_path / "kept.mcap").exists()


def test_what_only_has_the_name_of_a_ring_is_left_alone(detector: Detector, tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    record(detector, tmp_path / "run-7.mcap", big_pairs(2))
    (tmp_path / "run-008.mcap").write_text("notes")
    record(detector, path, big_pairs(12), limit_mib=4, when_full="ring")
    assert len(entries(tmp_path / "run-7.mcap")) == 2
    assert (tmp_path / "run-008.mcap").read_text() == "notes"
    assert ring(path)[0][0] >= 9


def test_two_processes_do_not_share_a_ring(detector: Detector, tmp_path: Path) -> None:
    source = MemorySource([make_pair(0)])
    plan = RecordingPlan(tmp_path / "run.mcap", when_full="ring")
    with (
        open_recording(detector, source, plan),
        pytest.raises(ConfigError, match="another process records into this ring"),
    ):
        open_recording(detector, source, plan)


def test_a_crash_loop_deletes_no_good_recording(detector: Detector, tmp_path: Path) -> None:
    """Starts that fail at once, and starts that fail after two pairs, in turn."""
    path = tmp_path / "run.mcap"
    plan = RecordingPlan(path, limit_mib=8, when_full="ring")
    clock = FakeClock(step_ns=2_000_000_000)
    source = MemorySource(pairs := big_pairs(7))
    with open_recording(detector, source, plan, clock=clock) as good:
        run_source(detector, source, observers=[good])
    kept = [file.path for file in find_files(path)[0]]
    assert good.state.pairs == 7
    for start in range(20):
        recording = open_recording(detector, source, plan)
        if start % 2:
            for pair in pairs[:2]:
                recording.arrived(pair)
                recording.answered(pair, detector(pair))
            recording._queue.join()
        crash(recording)
        assert [file for file in kept if not file.exists()] == [], start
        assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 8 * MIB
    assert sum(len(entries(file)) for file in kept) == 7


def crash(recording: RunRecording) -> None:
    """Leaves the file as kill -9 does: what is in memory is gone, and so is the lock."""
    file = recording._file._file
    assert file is not None
    recording._ended, recording._file._file = "killed", None
    recording._queue.put(None)
    recording._thread.join()
    file.close()


def test_files_without_pairs_and_of_failed_starts_go_first() -> None:
    def file(number: int, start: str, pairs: int, span_s: float) -> RingFile:
        first_ns = 1_000_000_000_000
        return RingFile(Path(f"{number}"), number, 1, pairs, first_ns, first_ns + round(span_s * 1e9), start)

    files = [
        file(0, "long", 100, 8), file(1, "long", 100, 8), file(2, "short", 5, 3), file(3, "", 0, 0),
        file(4, "short2", 5, 9.9), file(5, "later", 100, 11),
    ]  # fmt: skip
    files[1] = dataclasses.replace(files[1], first_ns=1_020_000_000_000, last_ns=1_028_000_000_000)
    assert [one.number for one in removal_order(files)] == [3, 2, 4, 0, 1, 5]


def test_age_is_judged_only_where_dates_can_be_true(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.touch()
    day_s, now_s = 86_400.0, 1_800_000_000.0
    for written_s, asked_now_s, expected in [
        (now_s - 3 * day_s, now_s, True),
        (now_s - day_s, now_s, False),
        (now_s + 9 * day_s, now_s, False),
        (100.0, now_s, False),  # written before the clock was set
        (now_s - 3 * day_s, 100.0, False),  # the clock is not set yet
    ]:
        os.utime(path, (written_s, written_s))
        assert too_old(path, 2 * day_s, asked_now_s) is expected
    assert not too_old(tmp_path / "absent", 1.0, now_s)


def test_old_files_of_a_ring_go_once_this_start_has_recorded(detector: Detector, tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    record(detector, path, big_pairs(3), when_full="ring")
    os.utime(tmp_path / "run-000.mcap", (1_700_000_000, 1_700_000_000))
    record(detector, path, [], when_full="ring", max_age_s=86_400.0)
    assert [number for number, _ in ring(path)] == [0], (
        "a start without pairs removes nothing, nor leaves any"
    )
    record(detector, path, big_pairs(1), when_full="ring", max_age_s=86_400.0)
    assert [number for number, _ in ring(path)] == [1]
    with pytest.raises(ConfigError, match="max_age_s: expected more than 0 seconds, found 0"):
        RecordingPlan(path, max_age_s=0)


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
