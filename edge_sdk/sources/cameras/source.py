"""Cameras as a source of pairs: `camera:?rgb=v4l2:///dev/video0&thermal=v4l2:///dev/video1`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.errors import CamerasSilentError, ConfigError, FrameError
from edge_sdk.frames import FramePair, RgbFrame, ThermalFrame
from edge_sdk.sources.base import BaseSource, OnBad
from edge_sdk.sources.cameras.device import CAMERAS, CameraDevice, CameraFrame
from edge_sdk.sources.cameras.health import HealthLimits, Watch
from edge_sdk.sources.cameras.hub import CameraHub
from edge_sdk.sources.cameras.opening import check_address, open_device
from edge_sdk.sources.cameras.pair_address import pair_number, take_apart
from edge_sdk.sources.cameras.pairing import POLICIES, Paired, Pairing
from edge_sdk.sources.cameras.reader import Backoff, CameraReader
from edge_sdk.sources.cameras.settings import CameraAddress
from edge_sdk.sources.orientation import AS_TAGGED, UPRIGHT, TurnedPairs
from edge_sdk.sources.registration import RegistrationArgument, RegistrationRule

__all__ = ["CameraSource", "DeviceOpener"]

_WAIT_S = 0.05
"""How long the taker sleeps at most before it looks for cameras that have gone silent."""

_JOIN_S = 5.0

DeviceOpener = Callable[[CameraAddress], CameraDevice]


class CameraSource(BaseSource):
    """Pairs from one or two cameras, or from files that stand for them.

    A live camera is read by a thread of its own, which opens it again when it is lost; nothing but
    `close` ends the source. A camera at fault is left out of the pairs, and `rgb_fault` or
    `thermal_fault` says why. Files are read in step by their timestamps, without threads, pass after
    pass where `loop` says so.

    Options of `camera:`:
        rgb, thermal: the address of each camera, with `%26` for `&`; see `camera_address`.
        registration: a JSON file, `same-view`, `centred` or `bundle`.
        registration_for: `turned` (default) or `stored`: which pictures it was made for, where one is turned.
        limit_ms: largest skew of a pair; by default from the two frame rates, see `default_limit_ns`.
        policy: `latest` (default), `drop-oldest` or `block`; see `Pairing`.
        queue, depth: pairs kept, and unpaired frames kept of each camera.
        start: `now` (default): a camera that cannot be opened is an error; `wait`: it is tried again.
        patience_s: seconds without any usable frame until `CamerasSilentError`, 30 by default.

    Arguments:
        uri: the address as a whole.
        registration: instead of the address's; an object too.
        on_bad, clock: see `BaseSource`.
        loop: passes over files, 0 for ever. A live camera goes on for ever either way and takes 0 or 1.
        opener: opens a device; tests give their own.
        limits: when a camera counts as at fault.
        backoff: how soon a lost camera is tried again.

    Raises:
        ConfigError: an address or option cannot be met, or a live camera is to be paired with a file.
        CameraError: a camera cannot be opened.
    """

    def __init__(
        self,
        uri: str,
        *,
        registration: RegistrationArgument = None,
        on_bad: OnBad = "raise",
        loop: int = 1,
        clock: Clock | None = None,
        opener: DeviceOpener = open_device,
        limits: HealthLimits | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        addresses, options = take_apart(uri)
        super().__init__(options.text, on_bad=on_bad, loop=loop, clock=clock)
        self.addresses: Mapping[str, CameraAddress] = addresses
        self.live = all(address.live for address in addresses.values())
        if self.live and loop > 1:
            raise ConfigError(
                f"{self.uri}: loop: a live camera has no passes, it goes on until it is closed; "
                f"expected 0 or 1, found {loop}"
            )
        if not self.live and any(address.live for address in addresses.values()):
            raise ConfigError(
                f"{self.uri}: a live camera cannot be paired with a file: their times never meet"
            )
        if opener is open_device:
            for address in addresses.values():
                check_address(address)
        self._patience_ns = round(pair_number(options, "patience_s", 30.0) * 1e9)
        self._rule = RegistrationRule.of(options, registration, Path.cwd())
        self._clock = clock or MonotonicClock()
        turning = {camera: address.orientation for camera, address in addresses.items()}
        self._turned = TurnedPairs(
            options,
            rgb=turning.get("rgb", AS_TAGGED),
            thermal=turning.get("thermal", AS_TAGGED),
        )
        limit_ms = options.options.get("limit_ms")
        policy = options.choice("policy", POLICIES) or "latest"
        pairing = Pairing(
            limit_ns=None if limit_ms is None else round(pair_number(options, "limit_ms", 0.0) * 1e6),
            policy=policy if self.live else "block",
            queue=round(pair_number(options, "queue", 4)),
            depth=round(pair_number(options, "depth", 12)),
            cameras=tuple(camera for camera in CAMERAS if camera in addresses),
        )
        limits = limits or HealthLimits()
        watches = {
            camera: Watch(
                camera, _with_repeats(limits, address), live=self.live, since_ns=self._clock.now_ns()
            )
            for camera, address in addresses.items()
        }
        self.hub = CameraHub(pairing, watches, self._clock)
        self.readers: dict[str, CameraReader] = {
            camera: CameraReader(
                camera,
                partial(opener, address),
                watch=watches[camera],
                sink=self.hub,
                clock=self._clock,
                thermal=address.thermal,
                delay_ns=round(address.delay_ms * 1e6),
                turn=address.orientation.turn(UPRIGHT) if address.live else UPRIGHT,
                backoff=backoff,
            )
            for camera, address in addresses.items()
        }
        self._bug: BaseException | None = None
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._units: set[str] = set()
        if (options.choice("start", ("now", "wait")) or "now") == "now":
            self._open_all()

    @property
    def _pass_length(self) -> int | None:
        return None

    def start(self) -> None:
        """Starts the readers' threads; the first pair asked for does so by itself."""
        if self._threads or not self.live:
            return
        for camera, reader in self.readers.items():
            thread = threading.Thread(
                target=self._keep_reading, args=(reader,), name=f"camera-{camera}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def __next__(self) -> FramePair:
        self._refuse_closed()
        while not self._loop or self._pass_index < self._loop:
            paired = self._next_live() if self.live else self._next_from_files()
            if paired is not None:
                self._read_in_pass += 1
                return self._targets.settle(self._pair(paired))
            if self.live:
                break
            self._end_pass()
        raise StopIteration

    def poll(self) -> FramePair | None:
        """Returns the next pair if there is one now, else None; waits for nothing and starts nothing."""
        self._refuse_closed()
        paired = self.hub.take()
        return None if paired is None else self._pair(paired)

    def status(self) -> dict[str, Any]:
        """Returns health, rates, skews, settings and what became of every frame; safe from any thread."""
        status = self.hub.status()
        for camera, reader in self.readers.items():
            status["cameras"][camera].update(reader.describe())
        return status

    @property
    def refused_settings(self) -> list[str]:
        """What was asked of a camera and not given, in words."""
        return [
            f"{camera}: {sentence}"
            for camera, reader in self.readers.items()
            for sentence in reader.describe().get("settings_refused", ())
        ]

    def _read(self, index: int) -> FramePair | None:
        raise NotImplementedError  # `__next__` replaces the passes of a finite source.

    def _describe(self) -> dict[str, Any]:
        return {
            "kind": "camera",
            "thermal_unit": "; ".join(sorted(self._units)) or None,
            "registration": self._rule.origin,
            "licences": [],
            "conditions": self._turned.conditions,
            **self.status(),
        }

    def _rewind(self) -> None:
        self.hub.rewind()
        for reader in self.readers.values():
            reader.rewind()

    def _release(self) -> None:
        self._stop.set()
        self.hub.close()
        for thread in self._threads:
            thread.join(_JOIN_S)
        if not self._threads:
            for reader in self.readers.values():
                reader.close()

    def _open_all(self) -> None:
        opened: list[CameraReader] = []
        try:
            for reader in self.readers.values():
                reader.open()
                opened.append(reader)
        except BaseException:
            for reader in opened:
                reader.close()
            raise

    def _keep_reading(self, reader: CameraReader) -> None:
        """The thread of one camera."""
        try:
            while not self._stop.is_set():
                wait_ns = reader.step()
                if wait_ns:
                    self._stop.wait(wait_ns / 1e9)
        except BaseException as bug:
            self._bug = bug
            self.hub.close()
        finally:
            reader.close()

    def _next_live(self) -> Paired | None:
        self.start()
        asked_ns = self._clock.now_ns()
        while True:
            paired = self.hub.wait(_WAIT_S)
            if paired is not None:
                return paired
            if self._bug is not None:
                raise self._bug
            if self._closed:
                return None
            if self._clock.now_ns() - asked_ns > self._patience_ns:
                error = CamerasSilentError(self._key(), self._patience_ns / 1e9, self.hub.faults())
                self._index += 1
                if self._on_bad == "raise":
                    raise error
                self._skip(error)
                asked_ns = self._clock.now_ns()

    def _next_from_files(self) -> Paired | None:
        while True:
            paired = self.hub.take()
            if paired is not None:
                return paired
            reading = [reader for reader in self.readers.values() if not reader.ended]
            if not reading:
                return self.hub.take()
            try:
                min(reading, key=_reached).step()
            except FrameError as error:
                if self._on_bad == "raise":
                    raise
                self._skip(error)

    def _pair(self, paired: Paired) -> FramePair:
        rgb = None if paired.rgb is None else _rgb_frame(paired.rgb)
        thermal = None if paired.thermal is None else _thermal_frame(paired.thermal)
        notes: tuple[str, ...] = ()
        if thermal is not None:
            self._units.add(thermal.unit.value)
        if self._index == 0:
            notes += tuple(self.refused_settings)
        notes += paired.rgb.facts.notes if paired.rgb is not None else ()
        faults = {
            camera: (paired.why if getattr(paired, camera) is None and camera in self.readers else None)
            for camera in CAMERAS
        }
        pair = self._rule.pair(
            self._key(),
            rgb,
            thermal,
            skew_ms=None if paired.skew_ns is None else paired.skew_ns / 1e6,
            notes=notes,
            rgb_fault=faults["rgb"],
            thermal_fault=faults["thermal"],
            still=all(frame.still for frame in (paired.rgb, paired.thermal) if frame is not None),
        )
        self._index += 1
        turns = (UPRIGHT if frame is None else frame.turn for frame in (paired.rgb, paired.thermal))
        return self._turned.finish(pair, *turns)

    def _key(self) -> str:
        return f"{self._index:06d}"


def _rgb_frame(frame: CameraFrame) -> RgbFrame:
    return RgbFrame(frame.image, frame.captured_ns, frame.facts.sequence)  # type: ignore[arg-type]


def _thermal_frame(frame: CameraFrame) -> ThermalFrame:
    facts = frame.facts
    return ThermalFrame(
        frame.image,  # type: ignore[arg-type]
        facts.unit,
        frame.captured_ns,
        facts.calibration,
        facts.ffc,
        facts.sequence,
        facts.notes,
    )


def _reached(reader: CameraReader) -> tuple[bool, int]:
    """Files are read in step: the one that is behind first, unless its frame has to wait."""
    return reader.holds, -1 if reader.last_captured_ns is None else reader.last_captured_ns


def _with_repeats(limits: HealthLimits, address: CameraAddress) -> HealthLimits:
    return replace(limits, keep_repeats=True) if address.keep_repeats else limits
