"""One camera, kept running: opened, read, judged, and opened again with back-off when it fails.

A reader is stepped; a thread steps it for a live camera, a test or a file source steps it by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edge_sdk.clock import Clock
from edge_sdk.errors import CameraError, FrameError, FrameTimeoutError, ShapeError, SourceError
from edge_sdk.sources.cameras.clock_map import ClockMap
from edge_sdk.sources.cameras.device import CameraDevice, CameraFrame, Grab, ThermalFacts
from edge_sdk.sources.cameras.formats import ThermalFormat, decode_thermal
from edge_sdk.sources.cameras.health import Fault, Watch
from edge_sdk.sources.orientation import UPRIGHT, Turn

__all__ = ["Backoff", "CameraReader", "Sink"]

_TOLERATED = {Fault.WRONG_SIZE.value: 5, Fault.BAD_FRAMES.value: 30, Fault.STALE.value: 60}
"""Frames of such a fault in a row after which the camera is opened anew: that restores size and format, and
empties whatever queue made the frames late."""

_FLUSHED = 4
"""Frames thrown away after a stall of a device without timestamps: its driver's buffers hold old ones.
Source: the Linux UVC driver and OpenCV's V4L2 back end queue four buffers."""

_STALL_NS = 1_000_000_000


class Sink(Protocol):
    """Takes what a reader has."""

    def offer(self, camera: str, frame: CameraFrame) -> bool:
        """Takes a good frame; False where the reader must hold it and try again."""
        ...

    def drop(self, camera: str, cause: str) -> None:
        """Counts a frame that is not passed on."""
        ...

    def fault(self, camera: str, fault: str | None) -> None:
        """Takes the camera's state."""
        ...

    def end(self, camera: str) -> None:
        """Takes that no frame will come any more."""
        ...


@dataclass(frozen=True)
class Backoff:
    """How long to wait before a lost camera is opened again: `first_ms`, twice that, ... `most_ms`."""

    first_ms: float = 250.0
    most_ms: float = 2000.0

    def wait_ns(self, failures: int) -> int:
        """Returns the wait after so many failures in a row (1 or more)."""
        return round(min(self.most_ms, self.first_ms * 2.0 ** min(failures - 1, 30)) * 1e6)


class CameraReader:
    """Keeps one camera running.

    Arguments:
        camera: "rgb" or "thermal".
        opener: opens the device; called again after each loss.
        watch: judges its frames.
        sink: takes what is good.
        clock: the host's.
        thermal: layout of a thermal camera's memory, None for colour.
        delay_ns: see `ClockMap`.
        turn: how its pictures are turned here; files turn theirs themselves.
        backoff: see `Backoff`.

    Attributes:
        reconnects: how often the camera was opened again with success.
        ended: a file is at its end.
    """

    def __init__(
        self,
        camera: str,
        opener: Callable[[], CameraDevice],
        *,
        watch: Watch,
        sink: Sink,
        clock: Clock,
        thermal: ThermalFormat | None = None,
        delay_ns: int = 0,
        turn: Turn = UPRIGHT,
        backoff: Backoff | None = None,
    ) -> None:
        self.camera, self.watch = camera, watch
        self.reconnects = 0
        self.ended = False
        self.clock_map: ClockMap | None = None
        self._opener, self._sink, self._clock = opener, sink, clock
        self._thermal = thermal
        self._delay_ns, self._turn = delay_ns, turn
        self._backoff = backoff or Backoff()
        self._device: CameraDevice | None = None
        self._described: dict[str, Any] = {}
        self._size_wh: tuple[int, int] | None = None
        self._opened = False
        self._failures = self._in_a_row = self._to_flush = 0
        self._last_arrival_ns: int | None = None
        self._retry_ns = 0
        self._held: CameraFrame | None = None
        self._last_captured_ns: int | None = None

    @property
    def last_captured_ns(self) -> int | None:
        """Capture time of the last frame passed on, for whoever reads two files in step."""
        return self._last_captured_ns

    @property
    def holds(self) -> bool:
        """Whether a frame waits here because the sink did not take it."""
        return self._held is not None

    def open(self) -> None:
        """Opens the camera the first time.

        Raises:
            SourceError: it cannot be opened.
        """
        self._device = self._opener()
        self._opened_well()

    def step(self) -> int:
        """Does one thing: hand over a held frame, open, or read one frame.

        Returns: nanoseconds to wait before the next step; 0 for none.

        Raises:
            SourceError: a file is damaged. A live camera's troubles are faults and no errors.
        """
        now_ns = self._clock.now_ns()
        if self.ended:
            return self._backoff.wait_ns(1)
        if self._held is not None:
            return self._hand_over(self._held)
        if self._device is None:
            if now_ns < self._retry_ns:
                return self._retry_ns - now_ns
            self._reopen(now_ns)
            return 0
        try:
            grab = self._device.grab()
        except SourceError as error:
            return self._failed(error)
        except OSError as error:
            return self._failed(CameraError(self.camera, str(error)))
        if grab is None:
            self._end()
            return 0
        return self._pass_on(grab)

    def _failed(self, error: SourceError) -> int:
        """Takes a device's error: part of a live camera's life, the caller's affair with a file."""
        if not self.watch.live:
            if isinstance(error, FrameError):
                self._sink.drop(self.camera, Fault.BAD_FRAMES.value)
            else:
                self._end()
            raise error
        if isinstance(error, FrameTimeoutError):
            self._silence()
            if self.watch.fault is Fault.LOST:
                self._lose("it is silent")
        elif isinstance(error, FrameError):
            self._bad_frame(str(error))
        else:
            self._lose(error.problem if isinstance(error, CameraError) else str(error))
        return 0

    def _end(self) -> None:
        self.ended = True
        self.watch.set(Fault.ENDED, "the file is at its end", self._clock.now_ns())
        self._sink.end(self.camera)
        self._close_device()

    def rewind(self) -> None:
        """Opens a file anew, at its first frame.

        Raises:
            SourceError: it cannot be opened.
        """
        self._close_device()
        self._held = self._last_captured_ns = None
        self.open()
        self.ended = False

    def close(self) -> None:
        """Closes the camera. Closing twice is fine."""
        self.ended = True
        self._close_device()

    def describe(self) -> dict[str, Any]:
        """Returns what a record says of the camera, its settings and its clock."""
        offset_ns = self.clock_map.offset_ns if self.clock_map else None
        return {
            **self._described,
            "reconnects": self.reconnects,
            "clock": self.clock_map.clock if self.clock_map else None,
            "clock_offset_ms": None if offset_ns is None else round(offset_ns / 1e6, 3),
        }

    def _pass_on(self, grab: Grab) -> int:
        arrival_ns = self._clock.now_ns()
        assert self.clock_map is not None
        try:
            image, facts = self._decode(grab)
        except ShapeError as error:
            return self._failed(FrameError(self.camera, str(error)))
        if self._is_old(grab, arrival_ns):
            self._sink.drop(self.camera, "flushed")
            return 0
        captured_ns = self.clock_map.captured_ns(grab.device_ns, arrival_ns)
        turn = grab.turn if self._turn == UPRIGHT else self._turn
        frame = CameraFrame(self._turn.apply(image), captured_ns, arrival_ns, facts, turn, grab.still)
        cause = self.watch.judge(frame, grab.device_ns)
        if cause is not None:
            self._sink.drop(self.camera, cause)
            if self.watch.fault is not None:
                self._sink.fault(self.camera, self.watch.fault.value)
            self._after_drop(cause)
            return 0
        self._failures = self._in_a_row = 0
        return self._hand_over(frame)

    def _is_old(self, grab: Grab, arrival_ns: int) -> bool:
        """Without timestamps, the first frames after a stall cannot be told from new ones: none is used."""
        last_ns, self._last_arrival_ns = self._last_arrival_ns, arrival_ns
        if grab.device_ns is not None:
            return False
        if last_ns is not None and arrival_ns - last_ns > _STALL_NS:
            self._to_flush = _FLUSHED
        if self._to_flush == 0:
            return False
        self._to_flush -= 1
        return True

    def _decode(self, grab: Grab) -> tuple[NDArray[Any], ThermalFacts]:
        if grab.facts is not None:
            return grab.image, grab.facts
        if self._thermal is not None:
            return decode_thermal(grab.image, self._thermal, self._size_wh)
        image = grab.image
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
            raise ShapeError(
                "RGB frame",
                "uint8 [height, width, 3]",
                f"{image.dtype} {list(image.shape)}",
                "Is this the thermal camera? Swap the two addresses.",
            )
        return image, ThermalFacts()

    def _hand_over(self, frame: CameraFrame) -> int:
        if not self._sink.offer(self.camera, frame):
            self._held = frame
            return _HELD_WAIT_NS
        self._held = None
        self._last_captured_ns = frame.captured_ns
        return 0

    def _after_drop(self, cause: str) -> None:
        if cause == Fault.TIME_BACKWARDS.value:
            assert self.clock_map is not None
            self.clock_map.jumped()
        self._in_a_row = self._in_a_row + 1 if cause in _TOLERATED else 0
        if self._in_a_row >= _TOLERATED.get(cause, self._in_a_row + 1):
            self._lose(self.watch.detail, Fault(cause))

    def _bad_frame(self, why: str) -> None:
        self.watch.bad_frame(why, self._clock.now_ns())
        self._sink.drop(self.camera, Fault.BAD_FRAMES.value)
        self._sink.fault(self.camera, Fault.BAD_FRAMES.value)
        self._after_drop(Fault.BAD_FRAMES.value)

    def _silence(self) -> None:
        before = self.watch.fault
        self.watch.silence(self._clock.now_ns())
        if self.watch.fault is not before and self.watch.fault is not None:
            self._sink.fault(self.camera, self.watch.fault.value)

    def _lose(self, why: str, fault: Fault = Fault.LOST) -> None:
        now_ns = self._clock.now_ns()
        self._close_device()
        self._failures += 1
        self._in_a_row = 0
        self._retry_ns = now_ns + self._backoff.wait_ns(self._failures)
        self.watch.set(fault, why, now_ns)
        self._sink.fault(self.camera, fault.value)

    def _reopen(self, now_ns: int) -> None:
        try:
            self._device = self._opener()
        except (SourceError, OSError) as error:
            self._lose(str(error))
            return
        if self._opened:
            self.reconnects += 1
        self._opened_well()

    def _opened_well(self) -> None:
        assert self._device is not None
        self._opened = True
        self._size_wh = self._device.size_wh
        self.clock_map = ClockMap(self._device.clock, self._delay_ns)
        self._described = {
            **self._device.describe(),
            "settings": [setting.sentence for setting in self._device.settings],
            "settings_refused": [setting.sentence for setting in self._device.settings if not setting.kept],
        }
        self._last_arrival_ns = None
        self.watch.opened(self._clock.now_ns())

    def _close_device(self) -> None:
        if self._device is not None:
            self._device.close()
            self._device = None
            self.watch.closed()


_HELD_WAIT_NS = 2_000_000
"""How long a frame that nobody takes is held before it is offered again (policy "block")."""
