"""Energy of the processor packages of an x86 machine, counted by the processor itself.

Source: linux `Documentation/power/powercap/powercap.rst`: `energy_uj` in microjoules, which starts over
after `max_energy_range_uj`.
"""

from __future__ import annotations

from pathlib import Path

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.errors import MeterError
from edge_sdk.meter.base import RailReading, Reading, Unavailable
from edge_sdk.meter.boards import identify
from edge_sdk.meter.files import Tree, cause
from edge_sdk.power import MeterFacts, RailFacts, Skipped

__all__ = ["RaplMeter"]

_GAIN_SHARE = 0.05
"""No maker states an error; comparisons with wall meters find some percent. Taken as 5 %."""

_STANDSTILL_S = 0.02
"""A processor that runs this draws energy: a counter that stays as it is this long is that of a dead tree."""

_MOST_W = 2000.0
"""No processor package draws more. A counter that fell started over after its range only if this power can
fill it in the time that passed; else it was reset. And one that was not read for as long as this power takes
to fill the range may have started over more than once."""

_UNLOCK = "readable by root only; allow it with: sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj"


class RaplMeter:
    """Reads the energy counters of all packages. The total is packages only: no memory, disk or GPU."""

    def __init__(self, tree: Tree | None = None, clock: Clock | None = None) -> None:
        """Finds the packages and reads each counter once.

        Raises:
            Unavailable: no counters, or none that may be read; says how to allow it.
        """
        self._tree, self._clock = tree or Tree(), clock or MonotonicClock()
        self._files: dict[str, Path] = {}
        self._span_uj: dict[str, int] = {}
        self._last_uj: dict[str, int] = {}
        self._sum_uj: dict[str, int] = {}
        self._last_ns = 0
        skipped = []
        zones = self._tree.glob("sys/class/powercap/intel-rapl:*")
        for zone in zones:
            name = self._tree.text_or(zone / "name")
            if zone.name.count(":") > 1 or name in self._files:
                skipped.append(Skipped(f"{zone.name} {name}", "inside a package, counted there"))
                continue
            try:
                count_uj = self._tree.number(zone / "energy_uj")
                self._span_uj[name] = self._tree.number(zone / "max_energy_range_uj")
            except OSError as error:
                why = _UNLOCK if isinstance(error, PermissionError) else cause(error)
                skipped.append(Skipped(f"{zone.name} {name}", why))
                continue
            self._files[name] = zone / "energy_uj"
            self._last_uj[name], self._sum_uj[name] = count_uj, 0
        if not any(name.startswith("package") for name in self._files):
            reasons = "; ".join(f"{item.channel}: {item.why}" for item in skipped)
            raise Unavailable(reasons or "no powercap zones (intel-rapl) in /sys")
        self._last_ns = self._clock.now_ns()
        rails = tuple(
            RailFacts(
                name,
                f"rapl {path.parent.name}",
                in_total=name.startswith("package"),
                gain_share=_GAIN_SHARE,
            )
            for name, path in self._files.items()
        )
        self._facts = MeterFacts(
            meter="rapl",
            board=identify(self._tree).model,
            scope="cpu package",
            rails=rails,
            origin="live" if self._tree.is_own else "tree",
            note="the processor packages alone: no memory modules, disk, GPU or power supply",
            skipped=tuple(skipped),
        )

    @property
    def facts(self) -> MeterFacts:
        """See `Meter.facts`."""
        return self._facts

    def read(self) -> Reading:
        """Reads the counters; watts are the mean since the last read."""
        before_ns = self._clock.now_ns()
        counts, skipped = {}, []
        for name, path in self._files.items():
            try:
                counts[name] = self._tree.number(path)
            except OSError as error:
                skipped.append(Skipped(name, cause(error)))
        after_ns = self._clock.now_ns()
        if not counts:
            raise MeterError(f"no counter answers any more ({skipped[0].channel}: {skipped[0].why})")
        at_ns = (before_ns + after_ns) // 2
        rails = {}
        for name, count_uj in counts.items():
            passed_s = (at_ns - self._last_ns) / 1e9
            grown_uj = count_uj - self._last_uj[name]
            if grown_uj < 0:
                grown_uj += self._span_uj[name] + 1
            self._last_uj[name] = count_uj
            most_uj = _MOST_W * 1e6 * max(passed_s, _STANDSTILL_S)
            if grown_uj > most_uj or most_uj > self._span_uj[name]:
                self._sum_uj[name] = min(0, self._sum_uj[name]) - 1  # falls: whoever reads the trace sees it
                skipped.append(Skipped(name, "its counter was reset, or not read for too long"))
                rails[name] = RailReading(j=self._sum_uj[name] / 1e6)
                continue
            self._sum_uj[name] += grown_uj
            if not grown_uj and passed_s >= _STANDSTILL_S:
                skipped.append(Skipped(name, "its counter stands still: no energy is counted"))
                continue
            watts = grown_uj / 1e6 / passed_s if grown_uj and passed_s > 0 else None
            rails[name] = RailReading(w=watts, j=self._sum_uj[name] / 1e6)
        self._last_ns = at_ns
        return Reading(before_ns, after_ns, rails, tuple(skipped))

    def close(self) -> None:
        """See `Meter.close`."""
