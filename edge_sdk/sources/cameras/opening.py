"""From a camera's address to an open device: the one place that chooses a library."""

from __future__ import annotations

from pathlib import Path

import cv2

from edge_sdk.errors import CameraError, ConfigError
from edge_sdk.sources.cameras.av_device import AvDevice, has_av
from edge_sdk.sources.cameras.device import CameraDevice
from edge_sdk.sources.cameras.file_device import (
    STACK_SUFFIXES,
    CptvDevice,
    PictureDevice,
    StackDevice,
)
from edge_sdk.sources.cameras.opencv_device import OpenCvDevice
from edge_sdk.sources.cameras.settings import CameraAddress
from edge_sdk.sources.decode import IMAGE_SUFFIXES
from edge_sdk.sources.rjpeg_marks import is_radiometric_jpeg

__all__ = ["check_address", "open_device"]


_TABLE_ADVICE = (
    "a table is no picture; save its numbers as an array first: "
    "numpy.save('frame.npy', numpy.loadtxt('FILE', delimiter=','))"
)
_NO_FRAMES = {
    ".csv": _TABLE_ADVICE,
    ".tsv": _TABLE_ADVICE,
    ".txt": _TABLE_ADVICE,
    ".xlsx": "a spreadsheet holds no frames; export 16-bit TIFF or a .npy stack",
    ".json": "a JSON file holds no frames",
    ".pdf": "a PDF holds no frames; give the camera's own files",
    ".zip": "an archive: unpack it first",
    ".mcap": "a recorded run is a source of its own: mcap:FILE",
}
"""Kinds of files that no reader of frames takes, and what to do."""


def check_address(address: CameraAddress) -> None:
    """Refuses what no device has to be touched for to know that it cannot work.

    Raises:
        ConfigError: a file is missing, or of a kind that holds no frames of one camera.
    """
    if address.scheme != "file":
        return
    path = Path(address.path)
    if not path.is_file():
        raise ConfigError(f"{address.text}: no file {address.path!r}")
    if is_radiometric_jpeg(path):
        raise ConfigError(
            f"{address.text}: a radiometric JPEG holds both frames of a pair: give it alone, as "
            f"file:{address.path}"
        )
    advice = _NO_FRAMES.get(path.suffix.lower())
    if advice is not None:
        raise ConfigError(f"{address.text}: {advice}")
    if address.thermal is not None and path.suffix.lower() in IMAGE_SUFFIXES - STACK_SUFFIXES:
        raise ConfigError(
            f"{address.text}: a {path.suffix.lower()} picture has 8 bits and has lost its radiometry; "
            "give the camera's raw frames as 16-bit PNG or TIFF, or as .npy"
        )


def open_device(address: CameraAddress) -> CameraDevice:
    """Opens a camera or a file.

    V4L2 is read by OpenCV, CSI sensors by OpenCV with GStreamer, RTSP by PyAV where it is installed
    and else by OpenCV with FFmpeg; `?via=` chooses otherwise.

    Raises:
        CameraError: it cannot be opened.
        ConfigError: a file needs an option.
    """
    if address.scheme == "csi" or address.via == "gstreamer":
        return OpenCvDevice(address, cv2.CAP_GSTREAMER)
    if address.scheme == "v4l2":
        if not Path(address.path).exists():
            raise CameraError(address.text, f"no device {address.path}", "See edge-sdk cameras.")
        return OpenCvDevice(address, cv2.CAP_V4L2)
    if address.scheme in ("rtsp", "rtsps"):
        if address.via == "opencv" or (address.via is None and not has_av()):
            return OpenCvDevice(address, cv2.CAP_FFMPEG)
        return AvDevice(address)
    suffix = Path(address.path).suffix.lower()
    if suffix == ".cptv":
        return CptvDevice(address)
    if address.thermal is not None and suffix in STACK_SUFFIXES:
        return StackDevice(address)
    if suffix in IMAGE_SUFFIXES:
        return PictureDevice(address)
    return AvDevice(address)
