"""Tests of video pairs: what keeps 16 bits, what does not, and files that end early."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frames_on_disk import rgb_image, thermal_image, write_image, write_rgb_video, write_thermal_video
from numpy.typing import NDArray

from edge_sdk.errors import ConfigError, FrameError, SourceError
from edge_sdk.frames import FramePair
from edge_sdk.sources import open_source


def test_ffv1_keeps_sixteen_bits_in_both_containers(tmp_path: Path) -> None:
    write_rgb_video(tmp_path / "rgb.avi", 3)
    for name in ("thermal.mkv", "thermal.avi"):
        write_thermal_video(tmp_path / name, 3)
        with open_source(f"video:{tmp_path}/rgb.avi?thermal={name}&unit=centikelvin") as source:
            for index, pair in enumerate(source):
                assert pair.thermal is not None
                np.testing.assert_array_equal(pair.thermal.image, thermal_image(index))
                assert pair.key == f"{index:06d}"
                assert pair.notes == ("registration assumed: equal frame sizes",)
            assert index == 2


def test_an_eight_bit_thermal_video_is_refused_with_a_way_out(tmp_path: Path) -> None:
    write_rgb_video(tmp_path / "rgb.avi", 3)
    write_rgb_video(tmp_path / "thermal.avi", 3)
    message = (
        "expected 16-bit with one channel, OpenCV .* gives 8-bit.*ffmpeg -i IN -pix_fmt gray16le -c:v ffv1"
    )
    source = open_source(f"video:{tmp_path}/rgb.avi?thermal=thermal.avi")
    with source, pytest.raises(FrameError, match=message):
        next(source)


def test_a_colour_video_alone(tmp_path: Path) -> None:
    write_rgb_video(tmp_path / "rgb.avi", 3)
    with open_source(f"video:{tmp_path}/rgb.avi") as source:
        assert [pair.thermal for pair in source] == [None] * 3
        assert source.describe()["thermal_unit"] is None


@pytest.mark.parametrize(("rgb_count", "thermal_count", "ended"), [(5, 3, "thermal"), (3, 5, "colour")])
def test_the_longer_file_is_not_lost_in_silence(
    tmp_path: Path, rgb_count: int, thermal_count: int, ended: str
) -> None:
    write_rgb_video(tmp_path / "rgb.avi", rgb_count)
    write_thermal_video(tmp_path / "thermal.avi", thermal_count)
    uri = f"video:{tmp_path}/rgb.avi?thermal=thermal.avi"
    with open_source(uri, on_bad="skip") as source:
        assert len(list(source)) == 3
        assert source.skipped_count == 2
        assert source.length == 5
        assert f"the {ended} file ended after 3 frames" in source.skipped[0].why
        assert "?partial=allow" in source.skipped[0].why
    with open_source(f"{uri}&partial=allow") as source:
        pairs = list(source)
    assert len(pairs) == 5
    assert (pairs[-1].thermal is None, pairs[-1].rgb is None) == (ended == "thermal", ended == "colour")


@pytest.mark.parametrize(("name", "codec"), [("a.avi", "MJPG"), ("a.mkv", "MJPG"), ("a.mkv", "FFV1")])
def test_each_frame_that_a_truncated_video_lost_is_counted(tmp_path: Path, name: str, codec: str) -> None:
    path = write_rgb_video(tmp_path / name, 40, codec=codec)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with open_source(f"video:{path}", on_bad="skip", loop=2) as source:
        good = len(list(source))
        assert 0 < good < 2 * 40
        assert good + source.skipped_count == source.length == 2 * 40
        assert f"ends after {good // 2} frames, its header states 40: truncated?" in source.skipped[-1].why


def test_a_truncated_thermal_video_is_counted_once(tmp_path: Path) -> None:
    write_rgb_video(tmp_path / "rgb.avi", 40)
    path = write_thermal_video(tmp_path / "thermal.mkv", 40)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with open_source(f"video:{tmp_path}/rgb.avi?thermal=thermal.mkv", on_bad="skip") as source:
        good = len(list(source))
        assert 0 < good < 40
        assert good + source.skipped_count == source.length == 40


def test_an_mp4_without_its_index_does_not_open(tmp_path: Path) -> None:
    path = write_rgb_video(tmp_path / "a.mp4", 40, codec="mp4v")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(SourceError, match=r"OpenCV cannot open it as a video\. Check that it plays"):
        open_source(f"video:{path}")
    path.write_bytes(data[:-100])
    try:
        source = open_source(f"video:{path}", on_bad="skip")
    except SourceError as error:  # OpenCV before 4.9
        assert "cannot open it as a video" in str(error)  # noqa: PT017
        return
    with source:
        good = len(list(source))
        assert good + source.skipped_count >= 1, "an empty video is not passed over in silence"


def test_unlike_frame_rates_are_refused_with_both_figures(tmp_path: Path) -> None:
    write_rgb_video(tmp_path / "rgb.avi", 20, fps=30)
    write_thermal_video(tmp_path / "thermal.mkv", 6, fps=9)
    with pytest.raises(ConfigError, match=r"colour 30 fps, thermal 9 fps.*ffmpeg -i IN -r 9 OUT"):
        open_source(f"video:{tmp_path}/rgb.avi?thermal=thermal.mkv")


def test_equal_counts_pair_by_number_whatever_the_rates_and_say_so(tmp_path: Path) -> None:
    write_rgb_video(tmp_path / "rgb.avi", 3, fps=30)
    write_thermal_video(tmp_path / "thermal.mkv", 3, fps=9)
    with open_source(f"video:{tmp_path}/rgb.avi?thermal=thermal.mkv") as source:
        pairs = list(source)
    assert len(pairs) == 3
    assert "paired by frame number: equal counts, but colour 30 fps, thermal 9 fps" in pairs[0].notes


def test_missing_and_unplayable_files(tmp_path: Path) -> None:
    video = write_rgb_video(tmp_path / "rgb.avi", 2)
    (tmp_path / "text.avi").write_text("no video")
    with pytest.raises(ConfigError, match=r"the colour video: no file '.*nowhere.avi'"):
        open_source(f"video:{tmp_path}/nowhere.avi")
    with pytest.raises(ConfigError, match="is a folder, expected a file; see 'pairs:'"):
        open_source(f"video:{tmp_path}")
    with pytest.raises(ConfigError, match=r"thermal: no file 'ir.mkv' or '.*/ir.mkv'"):
        open_source(f"video:{video}?thermal=ir.mkv")
    with pytest.raises(SourceError, match="cannot open it as a video"):
        open_source(f"video:{tmp_path}/text.avi")
    with pytest.raises(SourceError, match=r"cannot open it as a video.*16 bits"):
        open_source(f"video:{video}?thermal=text.avi")


STACK = np.stack([thermal_image(index) for index in range(3)])


def test_numpy_archives(tmp_path: Path) -> None:
    write_rgb_video(tmp_path / "rgb.avi", 3)
    np.savez(tmp_path / "one.npz", anything=STACK)
    np.savez(tmp_path / "named.npz", thermal=STACK, other=STACK[:1])
    np.savez(tmp_path / "two.npz", a=STACK, b=STACK)
    for name in ("one.npz", "named.npz"):
        with open_source(f"video:{tmp_path}/rgb.avi?thermal={name}") as source:
            assert len(list(source)) == 3
    with pytest.raises(SourceError, match="one named 'thermal'; found a, b"):
        open_source(f"video:{tmp_path}/rgb.avi?thermal=two.npz")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ((STACK >> 8).astype(np.uint8), r"expected numbers of 16 bits or more.*found uint8 \[3, 32, 48\]"),
        (STACK[0, 0], r"found uint16 \[48\]"),
        (STACK[:0], r"found uint16 \[0, 32, 48\]"),
        (np.array([{"a": 1}]), "cannot be read as a NumPy file"),
    ],
)
def test_numpy_files_of_another_kind(tmp_path: Path, array: NDArray[Any], message: str) -> None:
    video = write_rgb_video(tmp_path / "rgb.avi", 3)
    np.save(tmp_path / "thermal.npy", array)
    with pytest.raises(SourceError, match=message):
        open_source(f"video:{video}?thermal=thermal.npy")


@pytest.mark.parametrize("name", ["thermal.npy", "thermal.npz"])
def test_one_frame_and_temperatures_are_read_like_a_stack_of_counts(tmp_path: Path, name: str) -> None:
    video = write_rgb_video(tmp_path / "rgb.avi", 1)
    save = np.save if name.endswith("y") else np.savez_compressed
    for array in (STACK[0], STACK[0].astype(np.float32) / 100, np.asfortranarray(STACK[0])):
        save(tmp_path / name, array)
        unit = "kelvin" if array.dtype.kind == "f" else "centikelvin"
        with open_source(f"video:{video}?thermal={name}&unit={unit}") as source:
            (pair,) = list(source)
        assert pair.thermal is not None
        np.testing.assert_array_equal(pair.thermal.image, STACK[0])
    np.savez(tmp_path / "thermal.npz", np.asfortranarray(STACK))
    with open_source(f"video:{video}?thermal=thermal.npz&partial=allow") as source:
        assert [pair.thermal is not None and pair.thermal.image.sum() for pair in source] == [
            frame.sum() for frame in STACK
        ]


def test_floating_point_without_a_unit_says_what_to_write(tmp_path: Path) -> None:
    video = write_rgb_video(tmp_path / "rgb.avi", 3)
    np.save(tmp_path / "thermal.npy", STACK.astype(np.float32) / 100)
    with (
        open_source(f"video:{video}?thermal=thermal.npy") as source,
        pytest.raises(FrameError, match="unit 'kelvin' or 'celsius'"),
    ):
        next(source)


def test_truncated_stacks(tmp_path: Path) -> None:
    video = write_rgb_video(tmp_path / "rgb.avi", 3)
    np.save(tmp_path / "thermal.npy", STACK)
    tiff = write_image(tmp_path / "thermal.tiff", STACK[0])
    for path, message in ((tmp_path / "thermal.npy", "cannot be read"), (tiff, "truncated TIFF")):
        path.write_bytes(path.read_bytes()[:-100])
        with pytest.raises(SourceError, match=message):
            open_source(f"video:{video}?thermal={path.name}")


def write_timed(path: Path, times_ms: list[int], *, thermal: bool = False) -> Path:
    """Writes frame n of a camera at each of its times, so that frames tell when they were taken."""
    av = pytest.importorskip("av", reason="needs PyAV")
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1" if thermal else "mjpeg", rate=30)
        stream.width, stream.height = 48, 32
        stream.pix_fmt = "gray16le" if thermal else "yuvj420p"
        stream.time_base = stream.codec_context.time_base = Fraction(1, 1000)
        for at_ms in times_ms:
            image = (
                np.full((32, 48), 20000 + at_ms, np.uint16) if thermal else rgb_image(round(at_ms * 3 / 100))
            )
            frame = av.VideoFrame.from_ndarray(image, format="gray16le" if thermal else "rgb24")
            frame.pts, frame.time_base = at_ms, Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


STEADY_MS = [0, 33, 67, 100, 133, 167, 200, 233, 267, 300]


def taken(pair: FramePair) -> tuple[int | None, int | None]:
    """Which frames a pair has: number of the colour frame, milliseconds of the thermal one."""
    rgb = None if pair.rgb is None else round(float(pair.rgb.image[..., 2].mean()) / 10)
    return rgb, None if pair.thermal is None else int(pair.thermal.image[0, 0]) - 20000


def test_a_dropped_frame_shifts_nothing(tmp_path: Path) -> None:
    write_timed(tmp_path / "rgb.mkv", STEADY_MS)
    write_timed(tmp_path / "thermal.mkv", [at for at in STEADY_MS if at not in (67, 200)], thermal=True)
    uri = f"video:{tmp_path}/rgb.mkv?thermal=thermal.mkv"
    with open_source(f"{uri}&partial=allow") as source:
        pairs = [taken(pair) for pair in source]
    assert pairs == [(n, None if at in (67, 200) else at) for n, at in enumerate(STEADY_MS)]
    with open_source(uri, on_bad="skip") as source:
        assert [taken(pair)[1] for pair in source] == [at for at in STEADY_MS if at not in (67, 200)]
        assert [skipped.key for skipped in source.skipped] == ["000002", "000006"]
        assert "no thermal frame within 16 ms of the colour frame at 0.067 s" in source.skipped[0].why


def test_a_thermal_frame_without_a_colour_frame_waits_for_nobody(tmp_path: Path) -> None:
    write_timed(tmp_path / "rgb.mkv", [at for at in STEADY_MS if at != 133])
    write_timed(tmp_path / "thermal.mkv", STEADY_MS, thermal=True)
    with open_source(f"video:{tmp_path}/rgb.mkv?thermal=thermal.mkv&partial=allow", loop=2) as source:
        pairs = [taken(pair) for pair in source]
    once = [(None if at == 133 else n, at) for n, at in enumerate(STEADY_MS)]
    assert pairs == once * 2


def test_a_whole_file_of_variable_frame_rate_is_not_called_truncated(tmp_path: Path) -> None:
    """Its header states a duration, from which FFmpeg estimates far more frames than there are."""
    times_ms = [*STEADY_MS, 2300, 2333, 2367, 9000]
    path = write_timed(tmp_path / "rgb.mkv", times_ms)
    with open_source(f"video:{path}") as source:
        assert len(source) == len(times_ms)
        assert len(list(source)) == len(times_ms)
    with open_source(f"video:{path}", on_bad="skip") as source:
        list(source)
        assert source.skipped_count == 0
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    with open_source(f"video:{path}", on_bad="skip") as source:
        assert len(list(source)) < len(times_ms)
        assert "truncated?" in source.skipped[0].why
