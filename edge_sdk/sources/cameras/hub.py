"""Where the readers' threads and the one who takes pairs meet: one lock, bounded queues."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from edge_sdk.clock import Clock
from edge_sdk.sources.cameras.device import CameraFrame
from edge_sdk.sources.cameras.health import Watch
from edge_sdk.sources.cameras.pairing import Paired, Pairing

__all__ = ["CameraHub"]

_log = logging.getLogger(__name__)


class CameraHub:
    """Joins the cameras of a pair.

    Arguments:
        pairing: the pure rule; this object alone touches it.
        watches: one a camera; silence is noticed here too, should a reader hang in its driver.
        clock: the host's.
    """

    def __init__(self, pairing: Pairing, watches: Mapping[str, Watch], clock: Clock) -> None:
        self._pairing, self._watches, self._clock = pairing, dict(watches), clock
        self._changed = threading.Condition()
        self._closed = False

    def offer(self, camera: str, frame: CameraFrame) -> bool:
        """See `Sink.offer`."""
        with self._changed:
            taken = self._pairing.offer(camera, frame)
            self._changed.notify_all()
            return taken

    def drop(self, camera: str, cause: str) -> None:
        """See `Sink.drop`."""
        with self._changed:
            self._pairing.drop(camera, cause)

    def fault(self, camera: str, fault: str | None) -> None:
        """See `Sink.fault`."""
        _log.info("camera %s: %s", camera, fault or "well")
        with self._changed:
            self._pairing.set_fault(camera, fault)
            self._changed.notify_all()

    def end(self, camera: str) -> None:
        """See `Sink.end`."""
        with self._changed:
            self._pairing.end(camera)
            self._changed.notify_all()

    def rewind(self) -> None:
        """Takes that all files begin anew; what was counted stays."""
        with self._changed:
            self._pairing.rewind()

    def take(self) -> Paired | None:
        """Returns the next pair if there is one now; notices cameras that have gone silent."""
        with self._changed:
            return self._take()

    def wait(self, timeout_s: float) -> Paired | None:
        """Returns the next pair, or None when none came in that time or the hub was closed."""
        with self._changed:
            paired = self._take()
            if paired is None and not self._closed:
                self._changed.wait(timeout_s)
                paired = self._take()
            return paired

    def close(self) -> None:
        """Wakes whoever waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def status(self) -> dict[str, Any]:
        """Returns health, rates, skews and what became of every frame. JSON types only."""
        now_ns = self._clock.now_ns()
        with self._changed:
            return {
                "cameras": {camera: watch.status(now_ns) for camera, watch in self._watches.items()},
                "pairing": self._pairing.status(),
            }

    def watch(self, camera: str) -> Watch:
        """Returns what watches a camera, to look at."""
        return self._watches[camera]

    def faults(self) -> dict[str, str]:
        """Returns what is wrong with each camera now, in words; "ok" where nothing is."""
        with self._changed:
            return {
                camera: f"{watch.fault.value}, {watch.detail}" if watch.fault else "ok"
                for camera, watch in self._watches.items()
            }

    def _take(self) -> Paired | None:
        now_ns = self._clock.now_ns()
        for camera, watch in self._watches.items():
            before = watch.fault
            watch.silence(now_ns)
            if watch.fault is not before and watch.fault is not None:
                _log.info("camera %s: %s", camera, watch.fault.value)
                self._pairing.set_fault(camera, watch.fault.value)
        return self._pairing.take()
