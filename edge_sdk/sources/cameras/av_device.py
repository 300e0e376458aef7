"""RTSP streams and video files through PyAV, with the timestamps of the stream itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from edge_sdk.credentials import without_password
from edge_sdk.errors import CameraError, FrameTimeoutError
from edge_sdk.requirements import install_hint
from edge_sdk.sources.cameras.device import Grab, Setting
from edge_sdk.sources.cameras.settings import CameraAddress
from edge_sdk.sources.ring import FrameRing

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame

__all__ = ["AvDevice", "has_av"]

_RING_SLOTS = 20
_OPEN_TIMEOUT_S = 5.0
_RAW = {"gray16le": "gray16le", "gray16be": "gray16le"}


def has_av() -> bool:
    """Says whether PyAV can be imported."""
    try:
        import av  # noqa: F401
    except ImportError:
        return False
    return True


class AvDevice:
    """A stream or file that FFmpeg reads, by PyAV.

    Arguments:
        address: the stream.

    Raises:
        CameraError: PyAV is missing, or the stream cannot be opened.
    """

    def __init__(self, address: CameraAddress) -> None:
        try:
            import av
        except ImportError:
            raise CameraError(
                address.text, "needs PyAV to keep timestamps", f"Install it: {install_hint('camera', 'av')}"
            ) from None
        self._av = av
        self._address = address
        self.clock = "device" if address.live else "media"
        options = (
            {"rtsp_transport": "tcp", "fflags": "nobuffer", "flags": "low_delay"} if address.live else {}
        )
        timeout = (_OPEN_TIMEOUT_S, address.timeout_ms / 1000) if address.live else None
        try:
            self._container: InputContainer | None = av.open(address.path, options=options, timeout=timeout)
            stream = self._container.streams.video[0]
        except IndexError:
            raise CameraError(address.text, "has no video stream") from None
        except (av.error.FFmpegError, OSError) as error:
            raise CameraError(
                address.text,
                f"cannot be opened: {_words(error, address)}",
                "Is the address right, and does it answer?",
            ) from None
        stream.thread_type = "SLICE" if address.live else "AUTO"
        context = stream.codec_context
        self.size_wh: tuple[int, int] | None = (
            (context.width, context.height) if context.width and context.height else None
        )
        rate = stream.average_rate
        self.settings = tuple(
            Setting(name, f"{asked:g}", f"{float(got):g}" if got else "unknown")
            for name, asked, got in (
                ("width", address.width, context.width),
                ("height", address.height, context.height),
                ("fps", address.fps, rate),
            )
            if asked
        )
        self._codec = context.name
        self._rate = float(rate) if rate else None
        self._frames: Iterator[VideoFrame] = self._container.decode(stream)
        self._ring = FrameRing(_RING_SLOTS)

    def grab(self) -> Grab | None:
        """See `CameraDevice.grab`."""
        try:
            frame = next(self._frames)
        except StopIteration:
            if self._address.live:
                raise CameraError(self._address.text, "the stream ended") from None
            return None
        except self._av.error.ExitError:
            raise FrameTimeoutError(self._address.text, self._address.timeout_ms) from None
        except (self._av.error.FFmpegError, OSError) as error:
            raise CameraError(
                self._address.text, f"the stream broke off: {_words(error, self._address)}"
            ) from None
        device_ns = (
            None
            if frame.pts is None or frame.time_base is None
            else round(frame.pts * frame.time_base * 10**9)
        )
        if self._address.thermal is not None:
            if frame.format.name not in _RAW:
                raise CameraError(
                    self._address.text,
                    f"the thermal stream has pixel format {frame.format.name}; expected gray16le",
                    "An 8-bit thermal picture has lost its radiometry; record raw 16 bits, for example FFV1.",
                )
            return Grab(frame.to_ndarray(format=_RAW[frame.format.name]), device_ns)
        image = self._ring.take((frame.height, frame.width, 3), np.uint8)
        np.copyto(image, frame.to_ndarray(format="rgb24"))
        return Grab(image, device_ns)

    def describe(self) -> dict[str, Any]:
        """See `CameraDevice.describe`."""
        return {
            "address": self._address.text,
            "read_by": f"PyAV {self._av.__version__}",
            "codec": self._codec,
            "stated_fps": self._rate,
        }

    def close(self) -> None:
        """See `CameraDevice.close`."""
        if self._container is not None:
            self._frames = iter(())
            self._container.close()
            self._container = None


def _words(error: Exception, address: CameraAddress) -> str:
    """FFmpeg's words may repeat the address: not with its password."""
    return str(error).replace(address.path, without_password(address.path))
