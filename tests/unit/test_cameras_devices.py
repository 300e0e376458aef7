"""Devices: the order of OpenCV's settings, files that stand for cameras, V4L2's answers, threads."""

from __future__ import annotations

import errno
import json
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from fake_cameras import FakeCamera, FakeDevice
from frames_on_disk import rgb_image, write_image
from numpy.typing import NDArray

from edge_sdk.cli.cameras import is_live
from edge_sdk.clock import FakeClock, MonotonicClock
from edge_sdk.errors import CameraError, ConfigError, FrameError, FrameTimeoutError
from edge_sdk.frames import Calibration, FfcState, ThermalUnit
from edge_sdk.sources import open_source
from edge_sdk.sources.cameras import CameraSource, Grab, camera_uri
from edge_sdk.sources.cameras.clock_map import ClockMap
from edge_sdk.sources.cameras.opencv_device import OpenCvDevice, fourcc_text
from edge_sdk.sources.cameras.settings import CameraAddress, camera_address
from edge_sdk.sources.cameras.v4l2 import find_cameras
from edge_sdk.sources.radiometric_jpeg import RadiometricJpegSource

DATA = Path(__file__).resolve().parents[1] / "data" / "thermal"
S = 1_000_000_000


class FakeCapture:
    """Stands for `cv2.VideoCapture`: knows some sizes, and remembers what it was told in which order."""

    def __init__(self, images: list[Any], sizes: tuple[int, int] = (640, 480)) -> None:
        self.calls: list[tuple[int, float]] = []
        self._images = list(images)
        self._state: dict[int, float] = {
            cv2.CAP_PROP_FRAME_WIDTH: sizes[0],
            cv2.CAP_PROP_FRAME_HEIGHT: sizes[1],
            cv2.CAP_PROP_FPS: 30,
            cv2.CAP_PROP_POS_MSEC: 5000.25,
        }
        self.released = False

    def isOpened(self) -> bool:  # noqa: N802
        return bool(self._images)

    def set(self, prop: int, value: float) -> bool:
        self.calls.append((prop, value))
        if prop == cv2.CAP_PROP_FOURCC:
            self._state[prop] = value
        return True

    def get(self, prop: int) -> float:
        return self._state.get(prop, 0)

    def read(self) -> tuple[bool, Any]:
        image = self._images.pop(0) if self._images else None
        return image is not None, image

    def release(self) -> None:
        self.released = True


def device_on(
    capture: FakeCapture, text: str, role: str = "rgb", backend: int = cv2.CAP_V4L2
) -> OpenCvDevice:
    return OpenCvDevice(camera_address(text, role), backend, opener=lambda name, kind, limits: capture)


def test_fourcc_is_set_before_size_and_raw_mode_after_it() -> None:
    capture = FakeCapture([np.zeros((120, 160), np.uint16)])
    device_on(capture, "v4l2://0?format=lepton&width=160&height=120&fps=9", "thermal")
    order = [prop for prop, _ in capture.calls]
    assert order[0] == cv2.CAP_PROP_FOURCC
    assert order[1] == cv2.CAP_PROP_CONVERT_RGB
    assert order.index(cv2.CAP_PROP_FRAME_WIDTH) > 1
    assert dict(capture.calls)[cv2.CAP_PROP_FOURCC] == cv2.VideoWriter.fourcc(*"Y16 ")
    assert dict(capture.calls)[cv2.CAP_PROP_CONVERT_RGB] == 0


def test_a_double_frame_is_asked_for_in_full_height() -> None:
    capture = FakeCapture([np.zeros((384, 256, 2), np.uint8)])
    device_on(capture, "v4l2://0?format=p2pro", "thermal")
    assert dict(capture.calls)[cv2.CAP_PROP_FRAME_HEIGHT] == 384


def test_settings_are_read_back_and_deviations_named() -> None:
    device = device_on(FakeCapture([1]), "v4l2://0?width=1280&height=720&fps=30")
    assert [setting.sentence for setting in device.settings if not setting.kept] == [
        "width: asked 1280, the camera gives 640",
        "height: asked 720, the camera gives 480",
    ]
    assert device.size_wh == (640, 480)


def test_colour_comes_red_first_with_the_kernels_time() -> None:
    bgr = np.zeros((4, 6, 3), np.uint8)
    bgr[:, :, 0] = 200
    grab = device_on(FakeCapture([bgr]), "v4l2://0").grab()
    assert grab.image[0, 0].tolist() == [0, 0, 200]
    assert grab.device_ns == 5_000_250_000


def test_three_reads_without_a_picture_are_a_loss() -> None:
    capture = FakeCapture([np.zeros((4, 6, 3), np.uint8)])
    device = device_on(capture, "v4l2://0")
    device.grab()
    for _ in range(2):
        with pytest.raises(FrameTimeoutError, match="no frame within 1000 ms"):
            device.grab()
    with pytest.raises(CameraError, match="3 reads in a row"):
        device.grab()
    device.close()
    assert capture.released


def test_a_camera_that_does_not_open_says_what_to_look_at(tmp_path: Path) -> None:
    (tmp_path / "arm" / "gstreamer-1.0").mkdir(parents=True)
    (tmp_path / "arm" / "gstreamer-1.0" / "libgstnvarguscamerasrc.so").touch()
    with pytest.raises(CameraError, match=r"usermod -aG video.*fuser -v /dev/video0"):
        device_on(FakeCapture([]), "v4l2://0")
    with pytest.raises(CameraError, match="nvargus-daemon"):
        OpenCvDevice(
            camera_address("csi://0"),
            cv2.CAP_GSTREAMER,
            opener=lambda name, kind, limits: FakeCapture([]),
            build_information="  GStreamer:   YES (1.20)\n",
            lib_root=tmp_path,
        )


def test_fourcc_text() -> None:
    assert fourcc_text(cv2.VideoWriter.fourcc(*"Y16 ")) == "Y16 "
    assert fourcc_text(0) == "none"


# Clocks ------------------------------------------------------------------------------------------------


def test_a_host_clock_is_taken_as_it_is_until_it_proves_none() -> None:
    clock_map = ClockMap("host")
    assert clock_map.captured_ns(100 * S, 100 * S + 5) == 100 * S
    assert clock_map.captured_ns(100 * S + 9, 100 * S + 5) == 100 * S + 5, "never later than it arrived"
    assert clock_map.captured_ns(5, 200 * S) == 200 * S, "seconds since the camera started"
    assert clock_map.clock == "device"


def test_the_offset_follows_a_clock_that_drifts() -> None:
    clock_map = ClockMap("device", delay_ns=0)
    for second in range(3600):
        captured = clock_map.captured_ns(second * S, round(second * S * (1 + 50e-6)) + 5_000_000)
        error_ms = (captured - round(second * S * (1 + 50e-6))) / 1e6
        assert -1 < error_ms < 6, "5 ms of way, and at most a minute's drift"


def test_files_keep_their_own_time_and_arrivals_serve_without_any() -> None:
    assert ClockMap("media").captured_ns(7, 100) == 7
    assert ClockMap("none", delay_ns=3).captured_ns(None, 100) == 97


# Files -------------------------------------------------------------------------------------------------


def thermal_stack(count: int = 5) -> NDArray[np.uint16]:
    ramp = np.arange(64 * 48, dtype=np.uint32).reshape(48, 64) % 700
    return np.stack([(29000 + ramp + index * 7).astype(np.uint16) for index in range(count)])


@pytest.mark.parametrize("kind", ["npy", "tiff", "png"])
def test_raw_files_are_a_thermal_camera(tmp_path: Path, kind: str) -> None:
    stack = thermal_stack(1 if kind == "png" else 5)
    path = tmp_path / f"thermal.{kind}"
    if kind == "npy":
        np.save(path, stack)
    else:
        assert (
            cv2.imwritemulti(str(path), list(stack)) if kind == "tiff" else cv2.imwrite(str(path), stack[0])
        )
    with open_source(f"file://{path}?unit=centikelvin&fps=10") as source:
        pairs = list(source)
    assert len(pairs) == len(stack)
    for index, pair in enumerate(pairs):
        assert pair.rgb is None
        assert pair.thermal is not None
        np.testing.assert_array_equal(pair.thermal.image, stack[index])
        assert pair.thermal.unit is ThermalUnit.CENTIKELVIN
        assert pair.thermal.timestamp_ns == index * S // 10


def test_floating_kelvin_needs_its_unit_said(tmp_path: Path) -> None:
    path = tmp_path / "kelvin.npy"
    np.save(path, thermal_stack().astype(np.float32) / 100)
    with pytest.raises(ConfigError, match=r"need \?unit=kelvin"):
        open_source(f"file://{path}")
    with open_source(f"file://{path}?unit=kelvin") as source:
        pair = next(source)
    assert pair.thermal is not None
    np.testing.assert_array_equal(pair.thermal.image, thermal_stack()[0])


def test_an_8_bit_png_is_refused(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "grey.png"), np.zeros((4, 4), np.uint8))
    with (
        open_source(f"file://{tmp_path}/grey.png") as source,
        pytest.raises(FrameError, match="expected 16-bit with one channel"),
    ):
        next(source)
    with open_source(f"file://{tmp_path}/grey.png", on_bad="skip") as source:
        assert list(source) == []
        assert source.skipped_count == 1


def test_a_clip_that_breaks_off_is_an_error_and_not_read_again(tmp_path: Path) -> None:
    stack = np.stack([np.resize(image, (120, 160)) for image in thermal_stack(20)])
    write_cptv(tmp_path / "clip.cptv", stack, ffc_ms=1)
    data = (tmp_path / "clip.cptv").read_bytes()
    (tmp_path / "clip.cptv").write_bytes(data[: len(data) // 2])
    with open_source(f"file://{tmp_path}/clip.cptv") as source:
        with pytest.raises(CameraError, match=r"frame \d+ cannot be read"):
            list(source)
        assert list(source) == []


def write_cptv(path: Path, stack: NDArray[np.uint16], ffc_ms: int) -> None:
    from datetime import datetime, timedelta, timezone

    cptv = pytest.importorskip("cptv", reason="needs the package cptv")
    with path.open("wb") as file:
        writer = cptv.CPTVWriter(file)
        writer.timestamp = datetime(2026, 1, 1, tzinfo=timezone.utc)
        writer.device_name = b"test"
        writer.write_header()
        for index, image in enumerate(stack):
            on = timedelta(milliseconds=60000 + index * 111)
            frame = cptv.Frame(image, on, timedelta(milliseconds=ffc_ms), 20.0, 20.0)
            writer.write_frame(frame)
        writer.close()


def test_a_cptv_clip_carries_times_and_ffc(tmp_path: Path) -> None:
    stack = np.stack([np.resize(image, (120, 160)) for image in thermal_stack(20)])
    write_cptv(tmp_path / "clip.cptv", stack, ffc_ms=59500)
    with open_source(f"file://{tmp_path}/clip.cptv?unit=centikelvin") as source:
        pairs = list(source)
        ledger = source.status()["pairing"]["frames"]["thermal"]  # type: ignore[attr-defined]
    assert ledger["dropped"] == {"ffc": 5}, "frames within a second of the shutter stand still"
    assert len(pairs) == 15
    assert pairs[0].thermal is not None
    assert pairs[0].thermal.ffc is FfcState.COMPLETE
    assert pairs[0].thermal.timestamp_ns == 60555 * 1_000_000
    assert pairs[0].thermal.calibration is Calibration.UNSTATED, "the file does not say; its user does"


def test_a_file_that_is_no_cptv_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("cptv", reason="needs the package cptv")
    (tmp_path / "x.cptv").write_bytes(b"\x1f\x8b nothing")
    with pytest.raises(CameraError, match="is no CPTV file"):
        open_source(f"file://{tmp_path}/x.cptv")


def write_video(path: Path, count: int, rate: int) -> None:
    av = pytest.importorskip("av", reason="needs the package av")
    container = av.open(str(path), "w")
    stream = container.add_stream("mjpeg", rate=rate)
    stream.width, stream.height, stream.pix_fmt = 64, 48, "yuvj420p"
    for index in range(count):
        image = np.full((48, 64, 3), 40, np.uint8)
        image[:, (index * 5) % 60 : (index * 5) % 60 + 4] = 220
        container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
    container.mux(stream.encode())
    container.close()


def test_a_video_and_a_stack_are_paired_by_their_times(tmp_path: Path) -> None:
    """30 frames a second against 10: each thermal frame meets the colour frame of its moment."""
    write_video(tmp_path / "rgb.mkv", 60, 30)
    np.save(tmp_path / "thermal.npy", thermal_stack(20))
    uri = camera_uri(f"file://{tmp_path}/rgb.mkv", f"file://{tmp_path}/thermal.npy?fps=10&unit=centikelvin")
    with open_source(uri) as source:
        pairs = list(source)
        status = source.status()  # type: ignore[attr-defined]
    both = [pair for pair in pairs if pair.rgb is not None and pair.thermal is not None]
    assert len(both) == 20
    assert max(abs(pair.skew_ms or 0) for pair in both) <= 1
    for side, count in (("rgb", 60), ("thermal", 20)):
        ledger = status["pairing"]["frames"][side]
        assert (
            ledger["offered"]
            == count
            == ledger["given"] + ledger["waiting"] + sum(ledger["dropped"].values())
        )
    assert [pair.thermal_fault for pair in pairs if pair.thermal is None] in (
        [],
        ["ended"],
        ["ended", "ended"],
    )


def test_files_that_stand_for_cameras_are_gone_through_as_often_as_asked(tmp_path: Path) -> None:
    write_video(tmp_path / "rgb.mkv", 12, 30)
    np.save(tmp_path / "thermal.npy", thermal_stack(4))
    uri = camera_uri(f"file://{tmp_path}/rgb.mkv", f"file://{tmp_path}/thermal.npy?fps=10&unit=centikelvin")
    with open_source(uri) as source:
        once = list(source)
    with open_source(uri, loop=3) as source:
        thrice = list(source)
        assert list(source) == []
        ledger = source.status()["pairing"]["frames"]["rgb"]  # type: ignore[attr-defined]
    assert [pair.key for pair in thrice] == [pair.key for pair in once] * 3
    for now, then in zip(thrice, once * 3, strict=True):
        for camera in ("rgb", "thermal"):
            a, b = getattr(now, camera), getattr(then, camera)
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_array_equal(a.image, b.image)
                assert a.timestamp_ns == b.timestamp_ns
    assert ledger["offered"] == 36 == ledger["given"] + ledger["waiting"] + sum(ledger["dropped"].values())
    with open_source(uri, loop=0) as source:
        assert source.length is None
        assert len(list(islice(source, 5 * len(once) + 1))) == 5 * len(once) + 1
    alone = f"file://{tmp_path}/thermal.npy?unit=centikelvin"
    with open_source(alone, loop=2) as source:
        assert len(list(source)) == 8


@pytest.mark.parametrize(
    ("name", "rgb_wh", "thermal_wh", "celsius"),
    [
        ("rjpeg-ax8.jpg", (640, 480), (80, 60), (24.3, 25.5)),
        ("rjpeg-handheld.jpg", (480, 640), (240, 320), (25.9, 62.4)),
    ],
)
def test_one_flir_file_is_a_registered_pair(
    name: str, rgb_wh: tuple[int, int], thermal_wh: tuple[int, int], celsius: tuple[float, float]
) -> None:
    """The AX8 prints its own least and largest temperature into its picture: 24.3 and 25.5 C."""
    pytest.importorskip("flyr", reason="needs the package flyr")
    with open_source(f"file://{DATA}/{name}") as source:
        (pair,) = source
        assert source.describe()["registration"] == "the camera's picture-in-picture figures"
    assert pair.rgb is not None
    assert pair.thermal is not None
    assert (pair.rgb.size_wh, pair.thermal.size_wh) == (rgb_wh, thermal_wh)
    assert pair.thermal.calibration is Calibration.RADIOMETRIC
    found = (pair.thermal.image.min() / 100 - 273.15, pair.thermal.image.max() / 100 - 273.15)
    assert found == pytest.approx(celsius, abs=0.1)
    assert pair.registration is not None
    middle = np.array(
        [[thermal_wh[0] / 2 - 5, thermal_wh[1] / 2 - 5, thermal_wh[0] / 2 + 5, thermal_wh[1] / 2 + 5]]
    )
    box = pair.registration.boxes_to_rgb(middle.astype(np.float32), rgb_wh, thermal_wh)[0]
    assert (box[0] + box[2]) / 2 == pytest.approx(rgb_wh[0] / 2, abs=15)


def test_a_folder_of_flir_files_is_a_source(tmp_path: Path) -> None:
    pytest.importorskip("flyr", reason="needs the package flyr")
    data = (DATA / "rjpeg-ax8.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(data)
    (tmp_path / "b.jpg").write_bytes(data[:-5000])
    (tmp_path / "c.jpg").write_bytes(data)
    with open_source(f"file://{tmp_path}", on_bad="skip") as source:
        assert [pair.key for pair in source] == ["a", "c"]
        assert "truncated" in source.skipped[0].why
    with open_source(f"file://{tmp_path}") as source, pytest.raises(FrameError, match="truncated"):
        list(source)


def test_an_ordinary_jpeg_is_a_colour_picture(tmp_path: Path) -> None:
    write_image(tmp_path / "x.JPG", rgb_image(5)[..., ::-1])
    with open_source(f"file://{tmp_path}/x.JPG") as source:
        pairs = list(source)
    assert [(pair.thermal, pair.still) for pair in pairs] == [(None, True)]
    assert pairs[0].rgb is not None
    assert np.abs(pairs[0].rgb.image.astype(int) - rgb_image(5)).mean() < 4


def test_a_drones_colour_photo_is_no_radiometric_one(tmp_path: Path) -> None:
    dji_jpeg(tmp_path / "DJI_0001_T.jpg")
    dji_jpeg(tmp_path / "DJI_0001_V.jpg", raw_segments=0)
    with open_source(f"file:{tmp_path}") as source:
        assert isinstance(source, RadiometricJpegSource)
        assert [key for key, _ in source.files] == ["DJI_0001_T"]
        assert source.describe()["ignored_files"] == 1
    with open_source(f"file:{tmp_path}/DJI_0001_V.jpg") as source:
        assert next(source).thermal is None


DIRP = r"""
#include <stdint.h>
#include <string.h>
int32_t dirp_create_from_rjpeg(const uint8_t *data, int32_t size, void **handle)
{ if (size < 2 || data[0] != 0xff) return -1; *handle = (void *)0x10; return 0; }
int32_t dirp_get_rjpeg_resolution(void *handle, int32_t *size) { size[0] = 4; size[1] = 3; return 0; }
int32_t dirp_measure_ex(void *handle, float *image, int32_t size)
{ if (size != 48) return -2; for (int i = 0; i < 12; i++) image[i] = 20.0f + i; return 0; }
int32_t dirp_destroy(void *handle) { return handle == (void *)0x10 ? 0 : -3; }
"""


def dji_jpeg(path: Path, raw_segments: int = 1) -> None:
    """A drone's JPEG; without segments of raw numbers it is a colour photo."""
    there, data = cv2.imencode(".jpg", np.zeros((8, 8, 3), np.uint8))
    assert there
    mark = b"http://www.dji.com/drone-dji/1.0/"
    segments = [(0xE1, mark)] + [(0xE3, bytes(60_000))] * raw_segments
    parts = b"".join(struct.pack(">BBH", 0xFF, marker, len(part) + 2) + part for marker, part in segments)
    path.write_bytes(data.tobytes()[:2] + parts + data.tobytes()[2:])


def test_a_dji_file_needs_djis_library(tmp_path: Path) -> None:
    dji_jpeg(tmp_path / "dji.jpg")
    with (
        open_source(f"file://{tmp_path}/dji.jpg") as source,
        pytest.raises(FrameError, match="DJI Thermal SDK"),
    ):
        next(source)
    with (
        open_source(f"file://{tmp_path}/dji.jpg?dirp=/no/libdirp.so") as source,
        pytest.raises(FrameError, match="cannot be loaded"),
    ):
        next(source)


def test_djis_library_is_called_as_its_header_says(tmp_path: Path) -> None:
    """A stand-in with the same five functions: DJI's own may not be shipped."""
    (tmp_path / "dirp.c").write_text(DIRP)
    library = tmp_path / "libdirp.so"
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "dirp.c"], check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs a C compiler")
    dji_jpeg(tmp_path / "dji.jpg")
    with open_source(f"file://{tmp_path}/dji.jpg?dirp={library}") as source:
        pair = next(source)
    assert pair.rgb is None
    assert pair.thermal is not None
    assert pair.thermal.image.tolist()[0] == [29315, 29415, 29515, 29615]


# V4L2 --------------------------------------------------------------------------------------------------


def fake_ioctl(y16: bool) -> Callable[[int, int, bytearray], int]:
    """Answers as a driver would: one capture device with MJPG and, where wanted, Y16."""
    fourccs = [b"MJPG"] + ([b"Y16 "] if y16 else [])

    def answer(handle: int, request: int, data: bytearray) -> int:
        number = request & 0xFF
        index = struct.unpack_from("I", data)[0]
        if number == 0:
            data[:] = struct.pack("16s32s32sIII12x", b"uvcvideo", b"Test Cam", b"usb-1", 6, 0x80000001, 1)
        elif number == 2 and index < len(fourccs):
            code = int.from_bytes(fourccs[index], "little")
            data[:] = struct.pack("II I32s I I12x", index, 1, 0, b"a format", code, 0)
        elif number == 74 and index < 2:
            width, height = ((640, 480), (1280, 720))[index]
            data[:] = struct.pack("III II16x8x", index, 0, 1, width, height)
        elif number == 75 and index < 1:
            data[:] = struct.pack("IIII I II16x8x", index, 0, 0, 0, 1, 1, 30)
        elif number == 36 and index == 0x80000000:
            data[:] = struct.pack("II32siiii I8x", 0x980900, 1, b"Brightness", 0, 255, 1, 128, 0)
        elif number == 27:
            data[:] = struct.pack("Ii", 0x980900, 77)
        else:
            raise OSError(errno.EINVAL, "Invalid argument")
        return 0

    return answer


def fake_tree(root: Path, usb_id: str = "1e4e:0100") -> None:
    node = root / "sys" / "class" / "video4linux" / "video0"
    usb = root / "sys" / "devices" / "usb1" / "1-2"
    (usb / "1-2:1.0").mkdir(parents=True)
    node.mkdir(parents=True)
    (node / "name").write_text("Test Cam\n")
    (node / "device").symlink_to(usb / "1-2:1.0")
    vendor, product = usb_id.split(":")
    (usb / "idVendor").write_text(vendor + "\n")
    (usb / "idProduct").write_text(product + "\n")
    (root / "dev").mkdir()
    (root / "dev" / "video0").write_bytes(b"")


@pytest.mark.parametrize(
    ("usb_id", "y16", "role", "address"),
    [
        ("1e4e:0100", True, "thermal", "?format=lepton"),
        ("ffff:0001", True, "thermal", "?format=y16"),
        ("ffff:0001", False, "rgb", "/dev/video0"),
    ],
)
def test_v4l2_cameras_are_found_and_told_apart(
    tmp_path: Path, usb_id: str, y16: bool, role: str, address: str
) -> None:
    fake_tree(tmp_path, usb_id)
    (found,) = find_cameras(sys_root=tmp_path / "sys", dev_root=tmp_path / "dev", ioctl=fake_ioctl(y16))
    assert (found.name, found.driver, found.usb_id, found.role) == ("Test Cam", "uvcvideo", usb_id, role)
    assert found.address.endswith(address)
    assert found.formats[0].fourcc == "MJPG"
    assert found.formats[0].sizes_wh == ((640, 480), (1280, 720))
    assert found.formats[0].rates_hz == (30,)
    assert [(control.name, control.value, control.most) for control in found.controls] == [
        ("Brightness", 77, 255)
    ]


def test_a_camera_that_may_not_be_opened_is_listed_with_its_problem(tmp_path: Path) -> None:
    fake_tree(tmp_path)
    (tmp_path / "dev" / "video0").unlink()
    (found,) = find_cameras(sys_root=tmp_path / "sys", dev_root=tmp_path / "dev")
    assert "cannot be opened: No such file" in found.problem


def test_a_machine_without_cameras_has_none(tmp_path: Path) -> None:
    assert find_cameras(sys_root=tmp_path, dev_root=tmp_path) == []


def test_the_ioctl_numbers_are_the_kernels(tmp_path: Path) -> None:
    from edge_sdk.sources.cameras import v4l2

    names = ["QUERYCAP", "ENUM_FMT", "ENUM_FRAMESIZES", "ENUM_FRAMEINTERVALS", "QUERYCTRL", "G_CTRL"]
    prints = "".join(f'printf("%lu ", (unsigned long)VIDIOC_{name});' for name in names)
    source = f"#include <linux/videodev2.h>\n#include <stdio.h>\nint main(void) {{ {prints} return 0; }}\n"
    (tmp_path / "v.c").write_text(source)
    try:
        subprocess.run(["cc", "-o", tmp_path / "v", tmp_path / "v.c"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs a C compiler and the kernel's headers")
    theirs = subprocess.run([tmp_path / "v"], check=True, capture_output=True, text=True).stdout.split()
    layouts = [
        ("r", 0, v4l2._QUERYCAP), ("rw", 2, v4l2._FMTDESC), ("rw", 74, v4l2._FRMSIZE),
        ("rw", 75, v4l2._FRMIVAL), ("rw", 36, v4l2._QUERYCTRL), ("rw", 27, v4l2._CONTROL),
    ]  # fmt: skip
    ours = [v4l2._code(way, number, struct.calcsize(layout)) for way, number, layout in layouts]
    assert ours == [int(number) for number in theirs]


# The command line and threads --------------------------------------------------------------------------


def edge_sdk(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "edge_sdk.cli.main", *arguments], capture_output=True, text=True, check=False
    )


def test_the_cameras_command_prints_json() -> None:
    done = edge_sdk("cameras", "--json")
    assert done.returncode == 0, done.stderr
    assert isinstance(json.loads(done.stdout), list)


def test_run_takes_two_cameras_or_a_source_but_not_both(tmp_path: Path, toy_fusion: Path) -> None:
    np.save(tmp_path / "thermal.npy", thermal_stack(20))
    address = f"file://{tmp_path}/thermal.npy?unit=centikelvin&fps=9"
    done = edge_sdk("run", "--thermal", address, "--engine", str(toy_fusion), "--no-progress")
    assert done.returncode == 0, done.stderr
    assert "Cameras" in done.stdout
    assert "thermal" in done.stdout
    done = edge_sdk("run", "--thermal", address, "--source", "clip:substation")
    assert done.returncode == 3
    assert "twice" in done.stderr


@pytest.mark.parametrize(
    ("source", "live"),
    [
        ("v4l2://0", True),
        ("rtsp://h/x", True),
        (camera_uri("csi://0", "v4l2://1"), True),
        (camera_uri(None, "file:///x.npy"), False),
        ("clip:substation", False),
        ("file:///x.npy", False),
    ],
)
def test_live_cameras_are_told_from_files(source: str, live: bool) -> None:
    assert is_live(source) is live


class ThreadedCamera(FakeCamera):
    """A fake camera on the machine's clock: each grab waits for a permit, so the test sets the pace."""

    def __init__(self, role: str) -> None:
        super().__init__(role, 30, FakeClock(MonotonicClock().now_ns()))
        self.permits = threading.Semaphore(0)
        self.hung = threading.Event()

    def device(self) -> FakeDevice:
        camera = self

        class Device(FakeDevice):
            clock = "none"

            def grab(self) -> Grab:
                if not camera.permits.acquire(timeout=0.2):
                    raise FrameTimeoutError(f"fake:{camera.role}", 200)
                grab, _ = camera.picture()
                return Grab(grab.image, None, grab.facts)

        device = Device(self)
        device.clock = "none"
        return device


def test_threads_end_with_the_source_and_pairs_come_through_them() -> None:
    cameras = {role: ThreadedCamera(role) for role in ("rgb", "thermal")}

    def opener(address: CameraAddress) -> FakeDevice:
        return cameras[address.role].device()

    before = threading.active_count()
    source = CameraSource(
        "camera:?rgb=v4l2://0&thermal=v4l2://1&limit_ms=60000&policy=block&queue=50&depth=50", opener=opener
    )
    with source:
        for camera in cameras.values():
            for _ in range(10):
                camera.permits.release()
        pairs = [next(source) for _ in range(3)]
        assert all(pair.rgb is not None or pair.thermal is not None for pair in pairs)
        assert threading.active_count() == before + 2
    assert threading.active_count() == before
    assert all(camera.open_devices == 0 for camera in cameras.values())


def test_a_bug_in_a_reader_is_not_swallowed() -> None:
    camera = ThreadedCamera("rgb")

    def opener(address: CameraAddress) -> FakeDevice:
        device = camera.device()
        device.grab = lambda: 1 / 0  # type: ignore[method-assign,assignment,return-value]
        return device

    with CameraSource("v4l2://0", opener=opener) as source, pytest.raises(ZeroDivisionError):
        next(source)


def test_a_cameras_frame_is_read_into_the_callers_memory(tmp_path: Path) -> None:
    clip = np.arange(3 * 24 * 32, dtype=np.uint16).reshape(3, 24, 32) + 29000
    np.save(tmp_path / "clip.npy", clip)
    target = np.zeros((24, 32), np.uint16)
    with open_source(f"file://{tmp_path}/clip.npy?unit=centikelvin&fps=10") as source:
        for wanted in clip:
            pair = source.read_into(thermal=target)
            assert pair is not None
            assert pair.thermal is not None
            assert pair.thermal.image is target
            np.testing.assert_array_equal(target, wanted)
        assert source.read_into(thermal=target) is None
    with open_source(f"file://{tmp_path}/clip.npy?unit=centikelvin&fps=10") as source:
        other = np.zeros((48, 64), np.uint16)
        pair = source.read_into(thermal=other)
        assert pair is not None
        assert pair.thermal is not None
        assert pair.thermal.image is not other, "of another size: it lies in the source's own memory"
        assert not other.any()


def test_the_cameras_command_says_what_to_type_until_the_cameras_are_registered() -> None:
    from edge_sdk.cli.cameras import _command
    from edge_sdk.sources.cameras.v4l2 import CameraFacts

    def facts(role: str, number: int) -> CameraFacts:
        device, address = f"/dev/video{number}", f"v4l2:///dev/video{number}"
        return CameraFacts(device=device, name=role, role=role, address=address)

    rgb, thermal = facts("rgb", 0), facts("thermal", 1)
    line = "edge-sdk run --rgb 'v4l2:///dev/video0' --thermal 'v4l2:///dev/video1'"
    first, advice, then = _command([rgb, thermal]).splitlines()
    assert first == f"Try: {line} --serve --registration centred"
    assert "pick points" in advice
    assert then.strip() == f"{line} --registration registration.json"
    assert _command([rgb]) == "Try: edge-sdk run --rgb 'v4l2:///dev/video0'"
    assert _command([]) == "None of them can be used as it is."
