"""GStreamer pipelines, for CSI sensors and hardware decoding, where the installed OpenCV can run them."""

from __future__ import annotations

import re
from pathlib import Path

import cv2

from edge_sdk.errors import CameraError
from edge_sdk.sources.cameras.settings import CameraAddress

__all__ = ["has_gstreamer", "pipeline_for", "require_gstreamer"]

_ARGUS = "libgstnvarguscamerasrc.so"
_SINK = "appsink drop=true max-buffers=1 sync=false"


def has_gstreamer(build_information: str | None = None) -> bool:
    """Says whether OpenCV was built with GStreamer, from its own account.

    Arguments:
        build_information: that account; by default that of the OpenCV which is installed.
    """
    text = cv2.getBuildInformation() if build_information is None else build_information
    return re.search(r"^\s*GStreamer:\s*YES", text, re.MULTILINE) is not None


def require_gstreamer(
    address: CameraAddress, build_information: str | None = None, lib_root: Path = Path("/usr/lib")
) -> None:
    """Refuses an address that needs GStreamer where OpenCV, or NVIDIA's camera plugin, is not there.

    OpenCV would wait for ever for a pipeline whose source does not exist.

    Arguments:
        address: the camera.
        build_information: OpenCV's own account of what it can do.
        lib_root: where libraries lie.

    Raises:
        CameraError: it cannot work, with what to do.
    """
    if not has_gstreamer(build_information):
        raise CameraError(
            address.text,
            f"needs GStreamer, and this OpenCV ({cv2.__version__}) was built without it, as all wheels from "
            "PyPI are",
            "On a Jetson use JetPack's own OpenCV: sudo apt-get install python3-opencv, make the environment "
            "with python3 -m venv --system-site-packages, and pip uninstall opencv-python in it.",
        )
    if address.scheme == "csi" and not any(lib_root.glob(f"*/gstreamer-1.0/{_ARGUS}")):
        raise CameraError(
            address.text,
            f"needs NVIDIA's GStreamer plugin nvarguscamerasrc; no {_ARGUS} under {lib_root}",
            "On a Jetson: sudo apt-get install nvidia-l4t-gstreamer. Elsewhere there are no CSI cameras; "
            "see edge-sdk cameras.",
        )


def pipeline_for(address: CameraAddress) -> str:
    """Writes the pipeline that reads a camera into OpenCV, newest frame only.

    Source: NVIDIA's Accelerated GStreamer guide for nvarguscamerasrc, nvvidconv and nvv4l2decoder.
    """
    if address.scheme == "csi":
        caps = _caps("video/x-raw(memory:NVMM)", address, "NV12", (1280, 720), 30.0)
        return (
            f"nvarguscamerasrc sensor-id={address.path} ! {caps} ! nvvidconv ! video/x-raw,format=BGRx ! "
            f"videoconvert ! video/x-raw,format=BGR ! {_SINK}"
        )
    if address.scheme in ("rtsp", "rtsps"):
        location = address.path.replace('"', "%22")
        return (
            f'rtspsrc location="{location}" latency=100 protocols=tcp ! decodebin ! videoconvert ! '
            f"video/x-raw,format=BGR ! {_SINK}"
        )
    form = "GRAY16_LE" if address.thermal is not None and not address.thermal.double else ""
    caps = _caps("video/x-raw", address, form, None, None)
    convert = "" if address.thermal is not None else "videoconvert ! video/x-raw,format=BGR ! "
    return f"v4l2src device={address.path} ! {caps} ! {convert}{_SINK}"


def _caps(
    kind: str, address: CameraAddress, form: str, size_wh: tuple[int, int] | None, fps: float | None
) -> str:
    width = address.width or (size_wh[0] if size_wh else None)
    height = address.height or (size_wh[1] if size_wh else None)
    rate = address.fps or fps
    parts = [kind]
    if form:
        parts.append(f"format={form}")
    if width:
        parts.append(f"width={width}")
    if height:
        parts.append(f"height={height}")
    if rate:
        parts.append(f"framerate={round(rate * 1000)}/1000" if rate % 1 else f"framerate={round(rate)}/1")
    return ",".join(parts)
