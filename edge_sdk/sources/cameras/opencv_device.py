"""Cameras through OpenCV: V4L2, FFmpeg and GStreamer. The order of settings matters and is kept here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk.credentials import without_password
from edge_sdk.errors import CameraError, FrameTimeoutError
from edge_sdk.opencv_files import plain_name
from edge_sdk.sources.cameras.device import Grab, Setting
from edge_sdk.sources.cameras.gstreamer import pipeline_for, require_gstreamer
from edge_sdk.sources.cameras.settings import CameraAddress
from edge_sdk.sources.ring import FrameRing

__all__ = ["Capture", "OpenCvDevice", "fourcc_text"]

_RING_SLOTS = 20
"""More than a pairing holds unpaired, so that steady state allocates no picture."""

_FAILURES = 3
"""Reads in a row without a picture after which the camera counts as gone."""

_PICTURES = {cv2.CAP_V4L2: "host", cv2.CAP_FFMPEG: "device", cv2.CAP_GSTREAMER: "none"}
"""What `CAP_PROP_POS_MSEC` counts on, by back end. V4L2 gives the kernel's timestamp, CLOCK_MONOTONIC,
which `time.perf_counter_ns` reads too on Linux; GStreamer's follows the position in the pipeline."""


class Capture(Protocol):
    """The part of `cv2.VideoCapture` that is used; a fake in tests."""

    def isOpened(self) -> bool: ...  # noqa: N802  (OpenCV's name)
    def set(self, prop: int, value: float) -> bool: ...
    def get(self, prop: int) -> float: ...
    def read(self) -> tuple[bool, Any]: ...
    def release(self) -> None: ...


Opener = Callable[[str, int, list[int]], Capture]


class OpenCvDevice:
    """A camera that OpenCV reads.

    Arguments:
        address: the camera.
        backend: `cv2.CAP_V4L2`, `cv2.CAP_FFMPEG` or `cv2.CAP_GSTREAMER`.
        opener: makes the capture; `cv2.VideoCapture` by default.
        build_information: OpenCV's own account of what it can do.
        lib_root: where libraries lie.

    Raises:
        CameraError: it cannot be opened, or this OpenCV lacks GStreamer.
    """

    def __init__(
        self,
        address: CameraAddress,
        backend: int,
        *,
        opener: Opener | None = None,
        build_information: str | None = None,
        lib_root: Path = Path("/usr/lib"),
    ) -> None:
        self._address, self._backend = address, backend
        self.clock = _PICTURES[backend]
        self._ring = FrameRing(_RING_SLOTS)
        self._failures = 0
        name = address.path
        if backend == cv2.CAP_GSTREAMER:
            require_gstreamer(address, build_information, lib_root)
            name = pipeline_for(address)
        self._name = name
        limits = (
            []
            if backend == cv2.CAP_GSTREAMER
            else [
                cv2.CAP_PROP_OPEN_TIMEOUT_MSEC,
                max(3000, round(address.timeout_ms)),
                cv2.CAP_PROP_READ_TIMEOUT_MSEC,
                round(address.timeout_ms),
            ]
        )
        if backend == cv2.CAP_V4L2:
            limits = []
        self._capture = (opener or _open_capture)(name, backend, limits)
        if not self._capture.isOpened():
            self._capture.release()
            raise CameraError(address.text, "OpenCV cannot open it", _advice(address))
        self.settings: tuple[Setting, ...] = self._configure() if backend == cv2.CAP_V4L2 else ()

    def grab(self) -> Grab:
        """See `CameraDevice.grab`."""
        there, image = self._capture.read()
        if not there or image is None:
            self._failures += 1
            if self._failures >= _FAILURES:
                raise CameraError(self._address.text, f"{_FAILURES} reads in a row gave no picture")
            raise FrameTimeoutError(self._address.text, self._address.timeout_ms)
        self._failures = 0
        position_ms = self._capture.get(cv2.CAP_PROP_POS_MSEC) if self.clock != "none" else 0.0
        device_ns = round(position_ms * 1e6) if position_ms > 0 else None
        if self._address.thermal is not None:
            return Grab(np.array(image, copy=True), device_ns)
        return Grab(self._to_rgb(image), device_ns)

    def describe(self) -> dict[str, Any]:
        """See `CameraDevice.describe`."""
        names = {cv2.CAP_V4L2: "V4L2", cv2.CAP_FFMPEG: "FFmpeg", cv2.CAP_GSTREAMER: "GStreamer"}
        described: dict[str, Any] = {
            "address": self._address.text,
            "read_by": f"OpenCV {cv2.__version__}, {names[self._backend]}",
        }
        if self._backend == cv2.CAP_GSTREAMER:
            described["pipeline"] = self._name.replace(
                self._address.path.replace('"', "%22"), without_password(self._address.path)
            )
        return described

    def close(self) -> None:
        """See `CameraDevice.close`."""
        self._capture.release()

    def _configure(self) -> tuple[Setting, ...]:
        """FOURCC goes first: setting the size of a format that will change is undone by the change.

        For raw thermal, CONVERT_RGB=0 comes after FOURCC, or OpenCV makes 8-bit colour of it.
        """
        address, form = self._address, self._address.thermal
        fourcc = form.fourcc if form is not None else address.fourcc
        width, height = address.width, address.height
        if form is not None and form.double and form.size_wh and not (width or height):
            width, height = form.size_wh[0], 2 * form.size_wh[1]
        if fourcc:
            self._capture.set(cv2.CAP_PROP_FOURCC, cv2.VideoWriter.fourcc(*fourcc))
        if form is not None:
            self._capture.set(cv2.CAP_PROP_CONVERT_RGB, 0)
        for prop, value in (
            (cv2.CAP_PROP_FRAME_WIDTH, width),
            (cv2.CAP_PROP_FRAME_HEIGHT, height),
            (cv2.CAP_PROP_FPS, address.fps),
        ):
            if value:
                self._capture.set(prop, value)
        self._capture.set(cv2.CAP_PROP_BUFFERSIZE, 2)
        asked: list[tuple[str, Any, int]] = [
            ("width", width, cv2.CAP_PROP_FRAME_WIDTH),
            ("height", height, cv2.CAP_PROP_FRAME_HEIGHT),
            ("fps", address.fps, cv2.CAP_PROP_FPS),
        ]
        settings = [
            Setting(name, f"{value:g}", f"{self._capture.get(prop):g}")
            for name, value, prop in asked
            if value
        ]
        if fourcc:
            got = fourcc_text(int(self._capture.get(cv2.CAP_PROP_FOURCC)))
            settings.insert(0, Setting("fourcc", fourcc, got))
        return tuple(settings)

    @property
    def size_wh(self) -> tuple[int, int] | None:
        """Width and height that the camera states, or None where it states none."""
        width, height = (
            int(self._capture.get(prop)) for prop in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT)
        )
        return (width, height) if width > 0 and height > 0 else None

    def _to_rgb(self, bgr: NDArray[Any]) -> NDArray[Any]:
        if bgr.dtype != np.uint8 or bgr.ndim not in (2, 3):
            return bgr
        code = cv2.COLOR_GRAY2RGB if bgr.ndim == 2 or bgr.shape[2] == 1 else cv2.COLOR_BGR2RGB
        image = self._ring.take((bgr.shape[0], bgr.shape[1], 3), np.uint8)
        cv2.cvtColor(bgr, code, dst=image)
        return image


def fourcc_text(code: int) -> str:
    """Returns the four letters of a FOURCC number, blanks kept."""
    return "".join(chr(code >> shift & 0xFF) for shift in (0, 8, 16, 24)) if code > 0 else "none"


def _open_capture(name: str, backend: int, limits: list[int]) -> Capture:
    if not plain_name(Path(name)):  # OpenCV takes UTF-8 alone, and crashes on anything else
        raise CameraError(name, "its name is not UTF-8", "Rename it, or make a link to it.")
    return cast("Capture", cv2.VideoCapture(name, backend, limits))


def _advice(address: CameraAddress) -> str:
    if address.scheme == "v4l2":
        return (
            "Is it plugged in (edge-sdk cameras), may you read it (sudo usermod -aG video $USER), and is no "
            "other program using it (fuser -v " + address.path + ")?"
        )
    if address.scheme == "csi":
        return (
            "Is the sensor's ribbon seated, and is nvargus-daemon running "
            "(sudo systemctl restart nvargus-daemon)?"
        )
    return "Is the address right, and does it answer from this machine?"
