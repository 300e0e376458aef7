"""Power through the service of jetson-stats, for users who run it.

jetson-stats is under the AGPL and changes how Python starts processes when it is imported. So it runs in
a helper process of its own, is an optional extra, and is never imported by this SDK.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.errors import MeterError
from edge_sdk.meter.base import RailReading, Reading, Unavailable
from edge_sdk.meter.boards import board_of_labels, identify
from edge_sdk.meter.child import LineChild
from edge_sdk.meter.files import Tree
from edge_sdk.meter.ina3221 import L4T_TAU_S, ina3221_rail
from edge_sdk.power import MeterFacts
from edge_sdk.requirements import install_hint

__all__ = ["HELPER", "JtopMeter"]

HELPER = """
import json, jtop
with jtop.jtop(interval=0.5) as service:
    while service.ok():
        rails = service.power["rail"]
        print(json.dumps({name: [rail.get(key) for key in ("volt", "curr", "power")]
                          for name, rail in rails.items()}), flush=True)
"""
"""What the helper process runs: one JSON line a sample, millivolts, milliamperes and milliwatts a rail."""

_FIRST_LINE_S = 10.0
_STALE_NS = 5_000_000_000
_TAU_SHARE = 0.3


class JtopMeter:
    """Takes the rails that the service of jetson-stats shows; the total is ours, by board."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        installed: Callable[[str], str],
        command: Sequence[str] = (sys.executable, "-c", HELPER),
        tree: Tree | None = None,
        first_line_s: float = _FIRST_LINE_S,
    ) -> None:
        """Starts the helper and waits for its first line.

        Arguments:
            installed: distribution -> its version or "".
            command: the helper.
            tree: where the board is looked up.

        Raises:
            Unavailable: jetson-stats is not installed, or its service gives no rails.
        """
        if not installed("jetson-stats"):
            raise Unavailable(f"jetson-stats is not installed: {install_hint('jtop')}")
        self._clock = clock or MonotonicClock()
        self._child = LineChild(command, self._clock)
        try:
            _, line = self._child.wait_for_line(first_line_s)
            readings = _rails(line)
        except (Unavailable, ValueError) as error:
            self._child.close()
            raise Unavailable(f"the helper of jetson-stats: {error}. Is its service running?") from None
        if not readings:
            self._child.close()
            raise Unavailable("jetson-stats shows no rails")
        self._facts = self._describe(readings, tree or Tree())

    @property
    def facts(self) -> MeterFacts:
        """See `Meter.facts`."""
        return self._facts

    def read(self) -> Reading:
        """Returns the service's latest sample at the moment it came."""
        latest = self._child.latest
        if latest is None or self._clock.now_ns() - latest[0] > _STALE_NS:
            raise MeterError("the helper of jetson-stats gives no more samples")
        at_ns, line = latest
        try:
            return Reading(at_ns, at_ns, _rails(line))
        except ValueError as error:
            raise MeterError(f"the helper of jetson-stats: {error}") from None

    def close(self) -> None:
        """Ends the helper."""
        self._child.close()

    def _describe(self, readings: dict[str, RailReading], tree: Tree) -> MeterFacts:
        board = identify(tree)
        model = board.model
        if not board.family:
            board = board_of_labels(set(readings))
        total, note = board.total_of(set(readings))
        rails = tuple(
            replace(
                ina3221_rail(
                    label, "ina3221 by jetson-stats", reading.v or 5.0, reading.a or 0.0,
                    board.shunt_uohm, L4T_TAU_S, _TAU_SHARE,
                ),
                in_total=label in total,
            )
            for label, reading in readings.items()
        )  # fmt: skip
        return MeterFacts("jtop", model, "module" if total else "rails", rails, note=note)


def _rails(line: str) -> dict[str, RailReading]:
    """Reads a line of the helper; rails that are not connected are left out."""
    document = json.loads(line)
    if not isinstance(document, dict):
        raise ValueError(f"expected an object of rails, found {line[:40]!r}")
    rails = {}
    for label, values in document.items():
        numbers = [None if value is None else float(value) / 1e3 for value in values]
        if len(numbers) == 3 and numbers[2] is not None and label != "NC" and not label.startswith("ucsi"):
            rails[label] = RailReading(*numbers)
    return rails
