"""RTSP streams and video files through PyAV, with the timestamps of the stream itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edge_sdk.credentials import without_password
from edge_sdk.errors import CameraError, FrameTimeoutError, FrameTooLargeError
from edge_sdk.opencv_files import opencv_name
from edge_sdk.picture_size import check_size
from edge_sdk.requirements import install_hint
from edge_sdk.sources.cameras.device import Grab, Setting
from edge_sdk.sources.cameras.settings import CameraAddress
from edge_sdk.sources.orientation import UPRIGHT, Turn
from edge_sdk.sources.ring import FrameRing
from edge_sdk.sources.video_file import video_turn

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
            self._container: InputContainer | None = None
            if address.live:
                self._container = av.open(address.path, options=options, timeout=timeout)
            else:
                with opencv_name(Path(address.path)) as name:
                    self._container = av.open(name)
            stream = self._container.streams.video[0]
        except IndexError:
            self.close()
            raise CameraError(address.text, "has no video stream") from None
        except (av.error.FFmpegError, OSError) as error:
            raise CameraError(
                address.text,
                f"cannot be opened: {_words(error, address)}",
                "Is the address right, and does it answer?",
            ) from None
        size_wh = stream.codec_context.width, stream.codec_context.height
        try:
            check_size(address.text, size_wh)
        except FrameTooLargeError:
            self.close()
            raise
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
        self._tag: Turn | None = None

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
            raw = frame.to_ndarray(format=_RAW[frame.format.name])
            turn = self._turn_of(frame)
            return Grab(turn.apply(raw), device_ns, turn=turn)
        turn = self._turn_of(frame)
        width, height = turn.size((frame.width, frame.height))
        image = self._ring.take((height, width, 3), np.uint8)
        stored = frame.to_ndarray(format="rgb24")
        if turn == UPRIGHT:
            np.copyto(image, stored)
        else:
            turn.apply(stored, image)
        return Grab(image, device_ns, turn=turn)

    def _turn_of(self, frame: VideoFrame) -> Turn:
        """How a file says that this picture is to be turned; a live camera's are turned by the reader."""
        if self._address.live:
            return UPRIGHT
        # PyAV before 14 hands no rotation out: then OpenCV is asked, which reads the same display matrix.
        degrees = getattr(frame, "rotation", None)
        if degrees is None:
            if self._tag is None:
                self._tag = video_turn(Path(self._address.path))
            return self._address.orientation.turn(self._tag)
        return self._address.orientation.turn(Turn(round(-degrees / 90) % 4))

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
