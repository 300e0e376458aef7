"""From a camera's address to an open device: the one place that chooses a library."""

from __future__ import annotations

from pathlib import Path

import cv2

from edge_sdk.errors import CameraError, ConfigError
from edge_sdk.sources.cameras.av_device import AvDevice, has_av
from edge_sdk.sources.cameras.device import CameraDevice
from edge_sdk.sources.cameras.file_device import STACK_SUFFIXES, CptvDevice, StackDevice
from edge_sdk.sources.cameras.opencv_device import OpenCvDevice
from edge_sdk.sources.cameras.settings import CameraAddress

__all__ = ["check_address", "open_device"]


def check_address(address: CameraAddress) -> None:
    """Refuses what no device has to be touched for to know that it cannot work.

    Raises:
        ConfigError: a file is missing.
    """
    if address.scheme == "file" and not Path(address.path).is_file():
        raise ConfigError(f"{address.text}: no file {address.path!r}")


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
    return AvDevice(address)
