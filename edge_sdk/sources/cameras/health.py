"""What is wrong with a camera, judged frame by frame and by its silence; pure, with the time as argument."""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from edge_sdk.frames import FfcState, thinned
from edge_sdk.radiometry import noise_counts
from edge_sdk.sources.cameras.device import CameraFrame

__all__ = ["Fault", "FaultEvent", "HealthLimits", "Watch"]

_KEPT_EVENTS = 200


class Fault(str, Enum):
    """What can be wrong with a camera."""

    STARTING = "starting"
    """No frame has come yet."""
    LATE = "late"
    """No new frame for some frame times: a shutter, a hiccup, or the start of something worse."""
    LOST = "lost"
    """It went away, cannot be opened, or has been silent for too long."""
    FROZEN = "frozen"
    """Frames come, but it is always the same one."""
    BLACK = "black"
    """Every pixel is zero or nearly so, without noise: a dead signal, or no light at all."""
    SATURATED = "saturated"
    """Most pixels are at full scale, or all alike."""
    COVERED = "covered"
    """Nothing but noise is to be seen: a cap, a hand, snow; or a scene without any feature."""
    FFC = "ffc"
    """The thermal camera's shutter is closed for its flat-field correction."""
    WRONG_SIZE = "wrong-size"
    """The frames have another size than the first ones had."""
    STALE = "stale"
    """Frames come long after they were taken: something on the way queues them."""
    TIME_BACKWARDS = "time-backwards"
    """The timestamps went back."""
    BAD_FRAMES = "bad-frames"
    """Frames come that cannot be decoded."""
    ENDED = "ended"
    """The file is at its end."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class HealthLimits:
    """From when on something counts as wrong.

    Attributes:
        late_after_ms: time without a new frame after which the other camera goes on alone; None: four
            frame times, at least 250 ms.
        lost_after_ms: silence from which the camera counts as lost.
        frozen_after_ms: time without a new picture while frames keep coming.
        keep_repeats: pass identical pictures on while the camera does not count as frozen.
        stale_after_ms: age on arrival from which a live frame is not used.
        covered_after: featureless frames in a row.
        saturated_share: share of pixels at full scale, or all alike.
    """

    late_after_ms: float | None = None
    lost_after_ms: float = 1500.0
    frozen_after_ms: float = 1500.0
    keep_repeats: bool = False
    stale_after_ms: float = 1000.0
    covered_after: int = 5
    saturated_share: float = 0.6


@dataclass(frozen=True)
class FaultEvent:
    """A fault that began, or ended (`fault` None), and when on the host's clock."""

    at_ns: int
    fault: Fault | None
    detail: str = ""


@dataclass
class Watch:
    """Watches one camera.

    `judge` is asked of every frame, `silence` whenever time has passed without one.

    Attributes:
        camera: "rgb" or "thermal".
        live: False for a file, whose silence means nothing.
        fault: what is wrong now, or None.
        detail: the same in words, with figures.
        events: the last faults that began and ended.
        counts: how often each fault began.
        size_wh: size of the frames, that of the first one.
    """

    camera: str
    limits: HealthLimits = field(default_factory=HealthLimits)
    live: bool = True
    fault: Fault | None = Fault.STARTING
    detail: str = "no frame yet"
    since_ns: int = 0
    events: deque[FaultEvent] = field(default_factory=lambda: deque(maxlen=_KEPT_EVENTS))
    counts: Counter[str] = field(default_factory=Counter)
    size_wh: tuple[int, int] | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    _last_arrival_ns: int | None = None
    _last_new_ns: int | None = None
    _last_device_ns: int | None = None
    _last_sequence: int | None = None
    _last_print: int | None = None
    _featureless: int = 0
    _intervals_ns: deque[int] = field(default_factory=lambda: deque(maxlen=16))

    def judge(self, frame: CameraFrame, device_ns: int | None) -> str | None:
        """Judges one frame.

        Arguments:
            frame: the frame, `arrival_ns` being now.
            device_ns: its timestamp on the device's own clock, or None.

        Returns: None where it can be used, else the cause for which it must be dropped.
        """
        with self._lock:
            return self._judge(frame, device_ns)

    def _judge(self, frame: CameraFrame, device_ns: int | None) -> str | None:
        now_ns = frame.arrival_ns
        self._last_arrival_ns = now_ns
        height, width = frame.image.shape[:2]
        if self.size_wh is None:
            self.size_wh = (width, height)
        elif self.size_wh != (width, height):
            wanted = f"{self.size_wh[0]}x{self.size_wh[1]}"
            return self._begin(Fault.WRONG_SIZE, f"{width}x{height} instead of {wanted}", now_ns)
        if frame.still:  # faults are a live camera's; what a picture by itself shows is the router's affair
            self.clear(now_ns)
            return None
        backwards = self._backwards(device_ns, now_ns)
        if backwards is not None:
            return backwards
        age_ms = (now_ns - frame.captured_ns) / 1e6
        if self.live and age_ms > self.limits.stale_after_ms:
            return self._begin(Fault.STALE, f"frames arrive {age_ms:.0f} ms after they were taken", now_ns)
        if frame.facts.ffc is FfcState.IN_PROGRESS:
            return self._begin(Fault.FFC, "flat-field correction in progress", now_ns)
        if self._is_repeat(frame):
            if self.fault in (Fault.BLACK, Fault.SATURATED):
                return str(self.fault)
            since_ns = now_ns - self._last_new_ns if self._last_new_ns is not None else 0
            if self.live and since_ns > self.limits.frozen_after_ms * 1e6:
                return self._begin(Fault.FROZEN, f"the same frame for {since_ns / 1e9:.1f} s", now_ns)
            if not self.limits.keep_repeats:
                return "repeat"
        elif self._last_new_ns is not None:
            self._intervals_ns.append(now_ns - self._last_new_ns)
            self._last_new_ns = now_ns
        else:
            self._last_new_ns = now_ns
        found = self._look(frame.image)
        if found is not None:
            return self._begin(*found, now_ns)
        self.clear(now_ns)
        return None

    def silence(self, now_ns: int) -> None:
        """Notices that nothing came for too long."""
        with self._lock:
            self._silence(now_ns)

    def _silence(self, now_ns: int) -> None:
        if not self.live or self._last_arrival_ns is None or self.fault is Fault.LOST:
            return
        silent_ms = (now_ns - self._last_arrival_ns) / 1e6
        if silent_ms > self.limits.lost_after_ms:
            self._begin(Fault.LOST, f"silent for more than {self.limits.lost_after_ms:.0f} ms", now_ns)
        elif self.fault is None and self._last_new_ns is not None:
            old_ms = (now_ns - self._last_new_ns) / 1e6
            if old_ms > self.late_after_ms:
                self._begin(Fault.LATE, f"no new frame for more than {self.late_after_ms:.0f} ms", now_ns)

    @property
    def late_after_ms(self) -> float:
        """The time without a new frame from which the camera counts as late, in milliseconds."""
        if self.limits.late_after_ms is not None:
            return self.limits.late_after_ms
        if not self._intervals_ns:
            return self.limits.lost_after_ms
        typical_ns = sorted(self._intervals_ns)[len(self._intervals_ns) // 2]
        return max(_LATE_LEAST_MS, _LATE_FRAME_TIMES * typical_ns / 1e6)

    def set(self, fault: Fault, detail: str, now_ns: int) -> None:
        """Notes a fault that was seen elsewhere: the device failed, or a file ended."""
        with self._lock:
            self._begin(fault, detail, now_ns)

    def bad_frame(self, why: str, now_ns: int) -> None:
        """Notes a frame that cannot be decoded: the camera is not silent."""
        with self._lock:
            self._last_arrival_ns = now_ns
            self._begin(Fault.BAD_FRAMES, why, now_ns)

    def closed(self) -> None:
        """Notes that nobody listens: the silence until it is opened again says nothing new."""
        with self._lock:
            self._last_arrival_ns = None

    def opened(self, now_ns: int) -> None:
        """Forgets what held for the connection before this one; size and faults stay."""
        self._last_arrival_ns = now_ns
        self._last_device_ns = None
        self._last_sequence = self._last_print = None
        self._intervals_ns.clear()

    def clear(self, now_ns: int) -> None:
        """Notes that the camera is well again."""
        if self.fault is not None:
            self.events.append(FaultEvent(now_ns, None, f"after {self.fault.value}"))
            self.fault, self.detail, self.since_ns = None, "", now_ns

    def status(self, now_ns: int) -> dict[str, Any]:
        """Returns the state for people and records. JSON types only."""
        return {
            "health": "ok" if self.fault is None else self.fault.value,
            "detail": self.detail,
            "for_s": round((now_ns - self.since_ns) / 1e9, 3),
            "faults": dict(sorted(self.counts.items())),
            "size_wh": None if self.size_wh is None else list(self.size_wh),
        }

    def _begin(self, fault: Fault, detail: str, now_ns: int) -> str:
        if fault is not self.fault:
            self.events.append(FaultEvent(now_ns, fault, detail))
            self.counts[fault.value] += 1
            self.fault, self.since_ns = fault, now_ns
        self.detail = detail
        return fault.value

    def _backwards(self, device_ns: int | None, now_ns: int) -> str | None:
        if device_ns is None:
            return None
        last_ns, self._last_device_ns = self._last_device_ns, device_ns
        if last_ns is None or device_ns >= last_ns:
            return None
        back_ms = (last_ns - device_ns) / 1e6
        return self._begin(Fault.TIME_BACKWARDS, f"timestamps went back by {back_ms:.1f} ms", now_ns)

    def _is_repeat(self, frame: CameraFrame) -> bool:
        """By the camera's counter, and by the pixels: a stuck camera may go on counting."""
        sequence, fingerprint = frame.facts.sequence, _fingerprint(frame.image)
        same = fingerprint == self._last_print or (sequence is not None and sequence == self._last_sequence)
        self._last_sequence, self._last_print = sequence, fingerprint
        return same

    def _look(self, image: NDArray[Any]) -> tuple[Fault, str] | None:
        found = _look_rgb(image, self.limits) if image.ndim == 3 else _look_thermal(image, self.limits)
        if found is None or found[0] is not Fault.COVERED:
            self._featureless = 0
            return found
        self._featureless += 1
        return found if self._featureless >= self.limits.covered_after else None


def _fingerprint(image: NDArray[Any]) -> int:
    """A checksum of whole rows, as many as make 256 KiB: noise alone changes every row of a live picture."""
    step = max(1, image.nbytes // _PRINT_BYTES)
    return crc32(np.ascontiguousarray(image[::step]).data)


def _look_rgb(image: NDArray[Any], limits: HealthLimits) -> tuple[Fault, str] | None:
    few = thinned(image)
    if int(few.max()) <= 2:
        return Fault.BLACK, f"brightest pixel {int(few.max())} of 255"
    share = np.count_nonzero((few >= 250).all(axis=2)) / (few.size // 3)
    if share >= limits.saturated_share:
        return Fault.SATURATED, f"{share:.0%} of the pixels at full scale"
    low, _, high = _spread(few[:, :, 1])
    if high - low < _FEATURELESS_LEVELS:
        return Fault.COVERED, f"brightness within {high - low} levels of 255"
    return None


def _look_thermal(image: NDArray[Any], limits: HealthLimits) -> tuple[Fault, str] | None:
    few = thinned(image)
    if int(few.max()) <= 2:
        return Fault.BLACK, f"largest count {int(few.max())}"
    low, middle, high = _spread(few)
    share = max(np.count_nonzero(few == np.uint16(count)) for count in (middle, 65535)) / few.size
    if share >= limits.saturated_share:
        return Fault.SATURATED, f"{share:.0%} of the pixels alike or at full scale"
    if high - low < _FEATURELESS_SIGMAS * noise_counts(image):
        return Fault.COVERED, f"counts within {high - low} of each other, which is noise"
    return None


def _spread(values: NDArray[Any]) -> tuple[int, int, int]:
    """Returns the 1st, 50th and 99th percentile; ten times as fast as `numpy.percentile`."""
    last = values.size - 1
    places = [last // 100, last // 2, last - last // 100]
    found = np.partition(values, places, axis=None)
    return int(found[places[0]]), int(found[places[1]]), int(found[places[2]])


_PRINT_BYTES = 262144
_LATE_FRAME_TIMES, _LATE_LEAST_MS = 4, 250.0

_FEATURELESS_LEVELS = 4
"""An RGB camera that sees nothing varies less than this from the 1st to the 99th percentile of green."""

_FEATURELESS_SIGMAS = 6.0
"""White noise spans 4.65 sigma from the 1st to the 99th percentile."""
