"""Pairs by capture time: nearest within a limit, each frame once, nothing queued that would grow old.

Pure: no thread, no clock. Frames are offered as they come; pairs are taken. Every frame offered is
given out, waiting, or dropped and counted by its cause.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from edge_sdk.errors import ConfigError
from edge_sdk.sources.cameras.device import CAMERAS, CameraFrame
from edge_sdk.sources.uri import nearest

__all__ = ["POLICIES", "Paired", "Pairing", "default_limit_ns"]

POLICIES = ("latest", "drop-oldest", "block")

_CEILING_NS = 60_000_000
"""Frames further apart are not of one moment. Source: facts on 9 Hz cameras: refuse above 60 ms."""

_UNKNOWN_RATE_LIMIT_NS = 40_000_000
_KEPT_SKEWS = 4096
_INTERVALS = 15


@dataclass(frozen=True, eq=False)
class Paired:
    """Frames of one moment; one side is None where that camera is at fault (`why`)."""

    rgb: CameraFrame | None
    thermal: CameraFrame | None
    why: str | None = None

    @property
    def skew_ns(self) -> int | None:
        """Thermal minus RGB capture time, or None where one is missing."""
        if self.rgb is None or self.thermal is None:
            return None
        return self.thermal.captured_ns - self.rgb.captured_ns


@dataclass
class _Side:
    """What is known of one camera's stream."""

    waiting: deque[CameraFrame] = field(default_factory=deque)
    offered: int = 0
    given: int = 0
    drops: Counter[str] = field(default_factory=Counter)
    fault: str | None = None
    intervals: deque[int] = field(default_factory=lambda: deque(maxlen=_INTERVALS))
    last_ns: int | None = None

    @property
    def period_ns(self) -> int | None:
        """Typical time between two frames."""
        if len(self.intervals) < 3:
            return None
        return sorted(self.intervals)[len(self.intervals) // 2]


def default_limit_ns(periods_ns: list[int | None]) -> int:
    """Returns the largest skew of a pair: three quarters of the faster camera's period, at most 60 ms.

    The nearest frame of the faster camera is half its period away at most; the rest is for jitter.
    """
    known = [period for period in periods_ns if period is not None]
    return min(_CEILING_NS, 3 * min(known) // 4) if known else _UNKNOWN_RATE_LIMIT_NS


class Pairing:
    """Pairs two streams of frames.

    Arguments:
        limit_ns: the largest skew; None for `default_limit_ns` of the rates seen.
        policy: what happens to finished pairs that nobody has taken when the next one is ready.
            "latest": only the newest is kept; "drop-oldest": at most `queue`, the oldest goes;
            "block": at most `queue`, then `offer` refuses, and a live camera drops frames itself.
        queue: pairs kept, for the last two.
        depth: unpaired frames kept of each camera.
        cameras: ("rgb", "thermal"), or one of them: then every frame is given out alone.
    """

    def __init__(
        self,
        *,
        limit_ns: int | None = None,
        policy: str = "latest",
        queue: int = 4,
        depth: int = 12,
        cameras: tuple[str, ...] = CAMERAS,
    ) -> None:
        if policy not in POLICIES:
            raise ConfigError(
                f"policy: expected {' or '.join(POLICIES)}, found {policy!r}{nearest(policy, POLICIES)}"
            )
        for name, value in (("queue", queue), ("depth", depth)):
            if value < 1:
                raise ConfigError(f"{name}: expected 1 or more, found {value}")
        self.policy = policy
        self._limit_ns = limit_ns
        self._queue = 1 if policy == "latest" else queue
        self._depth = depth
        self._cameras = cameras
        self._sides = {camera: _Side() for camera in cameras}
        self._ready: deque[Paired] = deque()
        self._skews_ns: deque[int] = deque(maxlen=_KEPT_SKEWS)
        self._pairs = 0
        self._singles = 0

    @property
    def limit_ns(self) -> int:
        """The largest skew now in force."""
        if self._limit_ns is not None:
            return self._limit_ns
        return default_limit_ns([side.period_ns for side in self._sides.values()])

    @property
    def full(self) -> bool:
        """Whether `offer` would refuse: policy "block", and nobody takes pairs."""
        return self.policy == "block" and len(self._ready) >= self._queue

    def offer(self, camera: str, frame: CameraFrame) -> bool:
        """Hands over a good frame; False where the policy says that the camera has to wait."""
        side = self._sides[camera]
        if self.full or (self.policy == "block" and len(side.waiting) >= self._depth):
            return False
        side.offered += 1
        if side.last_ns is not None:
            if frame.captured_ns <= side.last_ns:
                side.drops["out-of-order"] += 1
                return True
            side.intervals.append(frame.captured_ns - side.last_ns)
        side.last_ns = frame.captured_ns
        side.fault = None
        if len(side.waiting) >= self._depth:
            side.waiting.popleft()
            side.drops["overflow"] += 1
        side.waiting.append(frame)
        self._match()
        return True

    def drop(self, camera: str, cause: str) -> None:
        """Counts a frame that never got here: a repeat, or one of a camera at fault."""
        side = self._sides[camera]
        side.offered += 1
        side.drops[cause] += 1

    def set_fault(self, camera: str, fault: str | None) -> None:
        """Notes what is wrong with a camera, so that the other one goes on alone; None: nothing."""
        side = self._sides[camera]
        if fault is not None and side.fault is None:
            side.fault = fault
            side.last_ns = None
            self._match()
            # What still waits of it is older than the fault: it must meet no frame taken after it.
            self._drop_first(camera, len(side.waiting), "no-partner")
        side.fault = fault
        self._match()

    def end(self, camera: str) -> None:
        """Notes that a file is at its end: what waits of it may still be paired, nothing more comes."""
        self._sides[camera].fault = "ended"
        self._match()

    def rewind(self) -> None:
        """Notes that the files begin anew and their times with them; the ledger goes on."""
        for side in self._sides.values():
            side.fault = side.last_ns = None

    def take(self) -> Paired | None:
        """Returns the next pair, or None where there is none yet."""
        if not self._ready:
            return None
        paired = self._ready.popleft()
        for camera, frame in (("rgb", paired.rgb), ("thermal", paired.thermal)):
            if frame is not None:
                self._sides[camera].given += 1
        if paired.skew_ns is not None:
            self._pairs += 1
            self._skews_ns.append(abs(paired.skew_ns))
        else:
            self._singles += 1
        self._match()
        return paired

    def skew_quantile_ms(self, q: float) -> float | None:
        """Returns a quantile of |skew| over the last 4096 pairs given out, or None before the first."""
        if not self._skews_ns:
            return None
        ordered = sorted(self._skews_ns)
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))] / 1e6

    def ledger(self, camera: str) -> dict[str, Any]:
        """Returns what became of each frame of a camera: offered = given + waiting + all dropped."""
        side = self._sides[camera]
        ready = sum(getattr(paired, camera) is not None for paired in self._ready)
        return {
            "offered": side.offered,
            "given": side.given,
            "waiting": len(side.waiting) + ready,
            "dropped": dict(sorted(side.drops.items())),
        }

    def status(self) -> dict[str, Any]:
        """Returns the state for people and records. JSON types only."""
        quantiles = {f"p{q:g}": self.skew_quantile_ms(q / 100) for q in (50, 95, 99, 100)}
        rates = {
            camera: round(1e9 / side.period_ns, 2) if side.period_ns else None
            for camera, side in self._sides.items()
        }
        return {
            "policy": self.policy,
            "limit_ms": round(self.limit_ns / 1e6, 3),
            "pairs": self._pairs,
            "singles": self._singles,
            "skew_ms": quantiles,
            "rate_hz": rates,
            "frames": {camera: self.ledger(camera) for camera in self._sides},
        }

    def _match(self) -> None:
        while not self.full and self._match_once():
            pass

    def _match_once(self) -> bool:
        """Makes one step; False where nothing can be decided yet."""
        for camera, side in self._sides.items():
            other = next((name for name in self._cameras if name != camera), None)
            alone = other is None or self._sides[other].fault is not None
            if side.waiting and alone and not (other and self._sides[other].waiting):
                why = None if other is None else self._sides[other].fault
                self._emit(camera, side.waiting.popleft(), None, why)
                return True
        if len(self._sides) < 2 or not all(side.waiting for side in self._sides.values()):
            return False
        anchor, follower = self._roles()
        return self._decide(anchor, follower)

    def _roles(self) -> tuple[str, str]:
        """The slower camera's frames look for partners; thermal where the rates are alike or unknown."""
        rgb, thermal = (self._sides[camera].period_ns for camera in CAMERAS)
        if rgb is not None and thermal is not None and rgb > 1.2 * thermal:
            return "rgb", "thermal"
        return "thermal", "rgb"

    def _decide(self, anchor: str, follower: str) -> bool:
        """Finds the partner of the anchor's oldest frame, once none nearer can come."""
        frame = self._sides[anchor].waiting[0]
        others = self._sides[follower]
        gaps = [abs(other.captured_ns - frame.captured_ns) for other in others.waiting]
        best = min(range(len(gaps)), key=gaps.__getitem__)
        passed = others.waiting[-1].captured_ns >= frame.captured_ns
        period_ns = others.period_ns
        near = period_ns is not None and 2 * gaps[best] <= period_ns
        if not (passed or near or others.fault is not None):
            # All others are older than this frame; only the last can still be its nearest.
            return self._drop_first(follower, len(gaps) - 1, "rate")
        if gaps[best] <= self.limit_ns:
            self._drop_first(follower, best, "rate")
            self._emit(anchor, self._sides[anchor].waiting.popleft(), others.waiting.popleft(), None)
            return True
        older = sum(other.captured_ns < frame.captured_ns for other in others.waiting)
        self._drop_first(follower, older, "no-partner")
        self._drop_first(anchor, 1, "no-partner")
        return True

    def _drop_first(self, camera: str, count: int, cause: str) -> bool:
        side = self._sides[camera]
        for _ in range(count):
            side.waiting.popleft()
            side.drops[cause] += 1
        return count > 0

    def _emit(self, camera: str, frame: CameraFrame, partner: CameraFrame | None, why: str | None) -> None:
        paired = Paired(frame, partner, why) if camera == "rgb" else Paired(partner, frame, why)
        if len(self._ready) >= self._queue:
            oldest = self._ready.popleft()
            for name, lost in (("rgb", oldest.rgb), ("thermal", oldest.thermal)):
                if lost is not None:
                    self._sides[name].drops["superseded"] += 1
        self._ready.append(paired)
