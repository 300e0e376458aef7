"""Cameras that are none: pictures of seeded noise, on a clock that is told the time, with faults by plan.

`Rig` steps readers and a taker in the order of their times, so a test of an hour takes seconds and no
thread decides anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.clock import FakeClock
from edge_sdk.errors import CameraError, FrameTimeoutError
from edge_sdk.frames import FfcState, FramePair
from edge_sdk.sources.cameras import CameraSource, Grab, HealthLimits, Setting, ThermalFacts
from edge_sdk.sources.cameras.formats import guard_range
from edge_sdk.sources.cameras.settings import CameraAddress

MS = 1_000_000
S = 1_000_000_000
START_NS = 100 * S


@dataclass(frozen=True)
class Trouble:
    """A fault of a fake camera from one time to another, in seconds after the start."""

    kind: str
    begin_s: float
    end_s: float


class FakeCamera:
    """A camera's hardware: outlives the devices that are opened on it.

    Arguments:
        role: "rgb" or "thermal".
        rate_hz: frames a second.
        clock: told the time by the rig.
        troubles: when what goes wrong.
        way_ms: time from the picture to its arrival.
        offset_ns: the device's clock minus the host's; None: the host's own clock.
        repeats: how often each frame is sent.
        jitter_ms: largest extra way, drawn at random.
    """

    def __init__(
        self,
        role: str,
        rate_hz: float,
        clock: FakeClock,
        troubles: Sequence[Trouble] = (),
        *,
        way_ms: float = 8.0,
        offset_ns: int | None = None,
        repeats: int = 1,
        jitter_ms: float = 0.0,
        phase_ms: float = 0.0,
        seed: int = 0,
        size_wh: tuple[int, int] = (40, 32),
    ) -> None:
        self.role, self.clock, self.troubles = role, clock, list(troubles)
        self.period_ns = round(S / rate_hz / repeats)
        self.way_ns, self.offset_ns, self.repeats = round(way_ms * MS), offset_ns, repeats
        self._jitter_ms = jitter_ms
        self._rng = np.random.default_rng(seed)
        self._size_wh = size_wh
        self._first_ns = START_NS + round(phase_ms * MS)
        self.number = 0
        self.sent = self.open_devices = self.opened = 0
        self._last: NDArray[Any] | None = None
        self._pictures: dict[str | None, list[NDArray[Any]]] = {}
        self._way_now_ns = self.way_ns

    def trouble(self, at_ns: int) -> str | None:
        """What is wrong at a time."""
        at_s = (at_ns - START_NS) / S
        return next((one.kind for one in self.troubles if one.begin_s <= at_s < one.end_s), None)

    def next_arrival_ns(self) -> int:
        """When the next picture is there to be read."""
        extra_ns = round(self._rng.uniform(0, self._jitter_ms) * MS) if self._jitter_ms else 0
        late_ns = 2 * S if self.trouble(self._taken_ns()) == "stale" else 0
        self._way_now_ns = self.way_ns + extra_ns + late_ns
        return self._taken_ns() + self._way_now_ns

    def _taken_ns(self) -> int:
        return self._first_ns + self.number * self.period_ns

    def open(self) -> FakeDevice:
        """Opens the camera as a program would."""
        if self.trouble(self.clock.now_ns()) == "lost":
            raise CameraError(f"fake:{self.role}", "no such device")
        self.opened += 1
        return FakeDevice(self)

    def skip_to(self, now_ns: int) -> None:
        """The pictures that nobody read are gone."""
        while self._taken_ns() + self.way_ns < now_ns:
            self.number += 1

    def picture(self) -> tuple[Grab, str | None]:
        """Takes the next picture."""
        taken_ns = self._taken_ns()
        trouble = self.trouble(taken_ns)
        unique = self.number // self.repeats
        self.number += 1
        device_ns = taken_ns + (self.offset_ns or 0) - (5 * S if trouble == "backwards" else 0)
        repeated = self._last is not None and (
            trouble == "frozen" or unique * self.repeats != self.number - 1
        )
        image = self._last if repeated else self._next_scene(trouble)
        assert image is not None
        self._last = image
        if self.role == "rgb":
            return Grab(image, device_ns), trouble
        counts, facts = guard_range(image, "centikelvin", by_camera=True)
        ffc = FfcState.IN_PROGRESS if trouble == "ffc" else FfcState.COMPLETE
        return Grab(
            counts, device_ns, ThermalFacts(facts.unit, facts.calibration, ffc, unique, facts.notes)
        ), trouble

    def _next_scene(self, trouble: str | None) -> NDArray[Any]:
        """One of 23 pictures of this kind, in turn: neighbours differ, as those of a live camera do."""
        kind = trouble if trouble in ("black", "saturated", "covered", "wrong-size") else None
        if kind not in self._pictures:
            self._pictures[kind] = [self._scene(kind) for _ in range(23)]
        return self._pictures[kind][self.number // self.repeats % 23]

    def _scene(self, trouble: str | None) -> NDArray[Any]:
        width, height = self._size_wh
        if trouble == "wrong-size":
            width, height = width // 2, height // 2
        ramp = np.linspace(0, 1, width)[None, :] * np.ones((height, 1))
        noise = self._rng.normal(0, 1, (height, width))
        if self.role == "rgb":
            levels = {
                "black": 0 * noise,
                "saturated": 255 + 0 * noise,
                "covered": 40 + 0.4 * noise,
            }.get(trouble or "", 60 + 120 * ramp + 3 * noise)
            return np.repeat(np.clip(levels, 0, 255).astype(np.uint8)[:, :, None], 3, axis=2)
        counts = {
            "black": 0 * noise,
            "saturated": 65535 + 0 * noise,
            "covered": 29500 + 5 * noise,
        }.get(trouble or "", 29000 + 1500 * ramp + 5 * noise)
        return np.clip(counts, 0, 65535).astype(np.uint16)


class FakeDevice:
    """An open fake camera."""

    def __init__(self, camera: FakeCamera) -> None:
        self._camera = camera
        self.clock = "host" if camera.offset_ns is None else "device"
        self.size_wh: tuple[int, int] | None = None
        self.settings = (Setting("width", "40", "40"),)
        self._open = True
        camera.open_devices += 1
        camera.skip_to(camera.clock.now_ns())

    def grab(self) -> Grab:
        """See `CameraDevice.grab`."""
        trouble = self._camera.trouble(self._camera.clock.now_ns())
        if trouble == "lost":
            raise CameraError(f"fake:{self._camera.role}", "the cable was pulled")
        if trouble == "silent":
            self._camera.number += 1
            raise FrameTimeoutError(f"fake:{self._camera.role}", 100)
        grab, trouble = self._camera.picture()
        self._camera.sent += 1
        if trouble == "undecodable":
            return Grab(grab.image.astype(np.float32), grab.device_ns)
        return grab

    def describe(self) -> dict[str, Any]:
        """See `CameraDevice.describe`."""
        return {"address": f"fake:{self._camera.role}", "read_by": "a fake camera"}

    def close(self) -> None:
        """See `CameraDevice.close`."""
        self._camera.open_devices -= self._open
        self._open = False


class Rig:
    """Two fake cameras, their source and a taker that needs `engine_ms` a pair, on one fake clock."""

    def __init__(
        self,
        rgb: FakeCamera,
        thermal: FakeCamera,
        clock: FakeClock,
        *,
        engine_ms: float = 1.0,
        options: str = "",
        limits: HealthLimits | None = None,
    ) -> None:
        self.cameras = {"rgb": rgb, "thermal": thermal}
        self.clock = clock

        def opener(address: CameraAddress) -> FakeDevice:
            return self.cameras[address.role].open()

        self.source = CameraSource(
            f"camera:?rgb=v4l2:///dev/fake0&thermal=v4l2:///dev/fake1{options}",
            clock=clock,
            opener=opener,
            limits=limits,
        )
        self._engine_ns = round(engine_ms * MS)
        self._due = {name: camera.next_arrival_ns() for name, camera in self.cameras.items()}
        self._busy_until_ns = 0
        self.pairs = 0
        self.ages_ms: list[float] = []

    def run(self, until_s: float, on_pair: Callable[[FramePair, int], None] | None = None) -> list[FramePair]:
        """Lets time pass until so many seconds after the start; returns the pairs where `on_pair` is None."""
        taken: list[FramePair] = []
        end_ns = START_NS + round(until_s * S)
        while True:
            name = min(self._due, key=self._due.__getitem__)
            due_ns = min(self._due[name], self._busy_until_ns or self._due[name])
            if due_ns >= end_ns:
                self.clock.sleep_until_ns(end_ns)
                return taken
            self.clock.sleep_until_ns(due_ns)
            if due_ns == self._due[name]:
                self._step(name)
            if not self._busy_until_ns or self._busy_until_ns <= due_ns:
                self._take(on_pair or (lambda pair, now_ns: taken.append(pair)))

    def _step(self, name: str) -> None:
        reader, camera = self.source.readers[name], self.cameras[name]
        wait_ns = reader.step()
        now_ns = self.clock.now_ns()
        self._due[name] = now_ns + wait_ns if wait_ns else max(now_ns + 1, camera.next_arrival_ns())

    def _take(self, on_pair: Callable[[FramePair, int], None]) -> None:
        pair = self.source.poll()
        now_ns = self.clock.now_ns()
        if pair is None:
            self._busy_until_ns = 0
            return
        self.pairs += 1
        times = [frame.timestamp_ns for frame in (pair.rgb, pair.thermal) if frame is not None]
        self.ages_ms.append((now_ns - min(time for time in times if time is not None)) / MS)
        self._busy_until_ns = now_ns + max(self._engine_ns, 1)
        on_pair(pair, now_ns)


def make_rig(
    rgb: Sequence[Trouble] = (),
    thermal: Sequence[Trouble] = (),
    *,
    rgb_hz: float = 30.0,
    thermal_hz: float = 9.0,
    engine_ms: float = 1.0,
    options: str = "",
    limits: HealthLimits | None = None,
    rgb_extra: dict[str, Any] | None = None,
    thermal_extra: dict[str, Any] | None = None,
) -> Rig:
    """Makes a rig of a 30 Hz RGB and a 9 Hz thermal camera, or as said."""
    clock = FakeClock(START_NS)
    return Rig(
        FakeCamera("rgb", rgb_hz, clock, rgb, seed=1, **(rgb_extra or {})),
        FakeCamera("thermal", thermal_hz, clock, thermal, seed=2, **(thermal_extra or {})),
        clock,
        engine_ms=engine_ms,
        options=options,
        limits=limits,
    )
