"""A model of the INA3221 behind sysfs files, with a true power trace beside it, to measure our own errors.

It is no meter and cannot be chosen as one: it stands in for the files that the real meter reads. The
register holds new = old + (x - old) / N every cycle; shunt and bus are rounded to the chip's steps, with
an offset and a gain error drawn within the data sheet.
Source: TI SBOS576; L4T `nvpower.sh` (512 samples, 0.84 ms a cycle of three channels).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["Chip", "PowerCurve", "SimulatedClock", "Tolerances", "bursts", "ramp", "step", "write_tree"]

_CYCLE_S = 0.00084
_SAMPLES = 512


class SimulatedClock:
    """A clock that moves when it is waited for and when a file is read."""

    def __init__(self, now_ns: int = 0) -> None:
        self._now_ns = now_ns

    def now_ns(self) -> int:
        """See `Clock.now_ns`."""
        return self._now_ns

    def sleep_until_ns(self, deadline_ns: int) -> None:
        """See `Clock.sleep_until_ns`."""
        self._now_ns = max(self._now_ns, deadline_ns)

    def pass_s(self, seconds: float) -> None:
        """Moves on."""
        self._now_ns += round(seconds * 1e9)


@dataclass(frozen=True)
class PowerCurve:
    """True power as straight lines between points; a step is two points at one time.

    Attributes:
        seconds, watts: ascending times and the power at each; power is constant outside.
    """

    seconds: tuple[float, ...]
    watts: tuple[float, ...]

    def at(self, seconds: Sequence[float]) -> list[float]:
        """Returns the power at these times."""
        return [float(value) for value in np.interp(seconds, self.seconds, self.watts)]

    def energy_j(self, start_s: float, end_s: float) -> float:
        """Returns the true energy between two times, exactly."""
        inner = [(t, w) for t, w in zip(self.seconds, self.watts, strict=True) if start_s < t < end_s]
        x = [start_s, *(t for t, _ in inner), end_s]
        edge = self.at([start_s + 1e-12, end_s - 1e-12])
        y = [edge[0], *(w for _, w in inner), edge[1]]
        return float(sum((b - a) * (p + q) / 2 for a, b, p, q in zip(x, x[1:], y, y[1:], strict=False)))


def step(at_s: float, low_w: float = 11.0, high_w: float = 30.0) -> PowerCurve:
    """A load that begins at once and stays."""
    return PowerCurve((at_s, at_s), (low_w, high_w))


def ramp(at_s: float, length_s: float, low_w: float = 8.0, high_w: float = 28.0) -> PowerCurve:
    """A load that grows steadily."""
    return PowerCurve((at_s, at_s + length_s), (low_w, high_w))


def bursts(
    at_s: float, length_s: float, random: np.random.Generator, low_w: float = 9.0, high_w: float = 32.0
) -> PowerCurve:
    """A load that comes and goes, each time for 0.1 to 1 s."""
    seconds, watts, now, high = [at_s], [low_w], at_s, False
    while now < at_s + length_s:
        high = not high
        level = high_w if high else low_w
        seconds += [now]
        watts += [level]
        now += float(random.uniform(0.1, 1.0))
        seconds += [now]
        watts += [level]
    return PowerCurve((*seconds, now), (*watts, low_w))


@dataclass(frozen=True)
class Tolerances:
    """Where one chip of many lies within its data sheet, as shares of the largest error: -1 to 1.

    Attributes:
        shunt_offset, bus_offset, gain: errors of a channel.
        clock: of the chip's oscillator, 1 meaning 15 %: it stretches the time constant.
        ideal: no rounding to the chip's steps either, only to the driver's whole millivolts.
    """

    shunt_offset: tuple[float, ...] = (0.0, 0.0, 0.0)
    bus_offset: tuple[float, ...] = (0.0, 0.0, 0.0)
    gain: tuple[float, ...] = (0.0, 0.0, 0.0)
    clock: float = 0.0
    ideal: bool = True

    @staticmethod
    def drawn(random: np.random.Generator) -> Tolerances:
        """Draws a chip."""
        drawn = random.uniform(-1, 1, (3, 3)).tolist()
        shunt_offset, bus_offset, gain = (tuple(row) for row in drawn)
        return Tolerances(shunt_offset, bus_offset, gain, float(random.uniform(-1, 1)), ideal=False)


class Chip:
    """Answers reads of its sysfs files at the simulated time; use it as the opener of a `Tree`."""

    def __init__(
        self,
        curve: PowerCurve,
        rails: Sequence[tuple[str, float, float]],
        clock: SimulatedClock,
        *,
        end_s: float,
        shunt_uohm: int,
        tolerances: Tolerances | None = None,
        read_s: float = 0.0004,
    ) -> None:
        """Runs the averaging over the whole trace.

        Arguments:
            curve: power of all rails together.
            rails: (label, volts, share of the power) of each channel.
            end_s: when the trace ends.
            read_s: time that one file takes to be read.
        """
        self._clock, self._rails, self._shunt_ohm = clock, tuple(rails), shunt_uohm / 1e6
        self._read_s, self._errors = read_s, tolerances or Tolerances()
        self._cycle_s = _CYCLE_S * (1 + 0.15 * self._errors.clock)
        register = curve.at([0.0])[0]
        self._watts = []
        for value in curve.at([k * self._cycle_s for k in range(int(end_s / self._cycle_s) + 2)]):
            register += (value - register) / _SAMPLES
            self._watts.append(register)

    def __call__(self, path: Path) -> bytes:
        """Reads a file as the driver would give it now."""
        kind, _, rest = path.name.partition("_")
        if rest != "input" or kind not in ("in1", "in2", "in3", "curr1", "curr2", "curr3"):
            return path.read_bytes()
        self._clock.pass_s(self._read_s / 2)
        at = min(int(self._clock.now_ns() / 1e9 / self._cycle_s), len(self._watts) - 1)
        channel = int(kind[-1]) - 1
        _, volts, share = self._rails[channel]
        errors = self._errors
        if kind.startswith("in"):
            seen = volts + errors.bus_offset[channel] * 0.016
            value = round(seen * 1e3) if errors.ideal else round(seen / 0.008) * 8
        else:
            amps = self._watts[at] * share / volts
            shunt_uv = amps * self._shunt_ohm * 1e6 * (1 + 0.0025 * errors.gain[channel])
            shunt_uv += 80.0 * errors.shunt_offset[channel]
            shunt_uv = shunt_uv if errors.ideal else round(shunt_uv / 40.0) * 40.0
            value = round(shunt_uv / self._shunt_ohm / 1e3)
        self._clock.pass_s(self._read_s / 2)
        return f"{value}\n".encode()


def write_tree(root: Path, compatible: str, labels: Sequence[str], shunt_uohm: int) -> None:
    """Writes the files of one chip and the board's name under `root`; their values come from a `Chip`."""
    files = {
        "proc/device-tree/model": f"simulated board ({compatible})",
        "proc/device-tree/compatible": compatible,
        "sys/class/hwmon/hwmon3/name": "ina3221",
        "sys/class/hwmon/hwmon3/samples": str(_SAMPLES),
        "sys/class/hwmon/hwmon3/update_interval": "430",
    }
    for n, label in enumerate(labels, 1):
        files[f"sys/class/hwmon/hwmon3/in{n}_label"] = label
        files[f"sys/class/hwmon/hwmon3/in{n}_input"] = "0"
        files[f"sys/class/hwmon/hwmon3/curr{n}_input"] = "0"
        files[f"sys/class/hwmon/hwmon3/shunt{n}_resistor"] = str(shunt_uohm)
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content + "\n", encoding="utf-8")
