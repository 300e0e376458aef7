"""From a device's timestamps to the host's clock, by the frames that were on their way the shortest.

A frame's arrival minus its timestamp is the offset of the two clocks plus the time the frame was on
its way. That time is never negative and often small, so the least difference of the last minute is the
offset, up to the shortest way a frame can take. That rest is constant; whoever knows it (from the
camera's data sheet) states it as `delay_ms`.
"""

from __future__ import annotations

from collections import deque

__all__ = ["ClockMap"]

_BUCKET_NS = 10_000_000_000
_BUCKETS = 6
"""The least difference is kept of the last 6 x 10 s: two crystals 50 ppm apart drift 3 ms in a minute."""

_HOST_CLOCK_SLACK_NS = 10_000_000_000
"""A timestamp said to be on the host's clock that is further from the arrival than this is not."""


class ClockMap:
    """Turns the timestamps of one device into times on the host's clock.

    Arguments:
        clock: what the timestamps count on, see `CameraDevice.clock`.
        delay_ns: constant time from the picture to its timestamp, stated by the user.
    """

    def __init__(self, clock: str, delay_ns: int = 0) -> None:
        self.clock = clock
        self._delay_ns = delay_ns
        self._buckets: deque[tuple[int, int]] = deque(maxlen=_BUCKETS)

    @property
    def offset_ns(self) -> int | None:
        """Host clock minus device clock as estimated, or None where nothing is or was to be estimated."""
        return min(least for _, least in self._buckets) if self._buckets else None

    def captured_ns(self, device_ns: int | None, arrival_ns: int) -> int:
        """Returns when a frame was taken, on the host's clock; never later than it arrived.

        Arguments:
            device_ns: the device's timestamp, or None.
            arrival_ns: when the frame reached the host.
        """
        if device_ns is not None and self.clock == "media":
            return device_ns - self._delay_ns
        if device_ns is None or self.clock == "none":
            return arrival_ns - self._delay_ns
        if self.clock == "host":
            if abs(arrival_ns - device_ns) <= _HOST_CLOCK_SLACK_NS:
                return min(device_ns, arrival_ns) - self._delay_ns
            self.clock = "device"
        self._see(arrival_ns - device_ns, arrival_ns)
        offset_ns = self.offset_ns
        assert offset_ns is not None
        return device_ns + offset_ns - self._delay_ns

    def jumped(self) -> None:
        """Notes that the device's clock jumped: it is no host clock, and its offset is another now."""
        self._buckets.clear()
        if self.clock == "host":
            self.clock = "device"

    def _see(self, difference_ns: int, arrival_ns: int) -> None:
        start_ns = arrival_ns // _BUCKET_NS
        if self._buckets and self._buckets[-1][0] == start_ns:
            self._buckets[-1] = (start_ns, min(self._buckets[-1][1], difference_ns))
        else:
            self._buckets.append((start_ns, difference_ns))
