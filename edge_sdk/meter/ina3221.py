"""Power of a Jetson's own sensors through sysfs: INA3221 by hwmon or JetPack 4's iio, and Thor's INA238.

Chips are found by driver name and channels by label: bus and hwmon numbers change from boot to boot.
Source: linux `Documentation/hwmon/ina3221.rst`; TI SBOS576 (steps, offsets, gain, averaging); L4T
`nvpower.sh`; NVIDIA's change of 2021-06-04 to the driver, after which `update_interval` leaves the
number of samples out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.errors import MeterError
from edge_sdk.meter.base import RailReading, Reading, Unavailable
from edge_sdk.meter.boards import Board, identify
from edge_sdk.meter.files import Tree, cause
from edge_sdk.power import MeterFacts, RailFacts, Skipped

__all__ = ["L4T_TAU_S", "Ina3221Meter", "ina3221_rail", "time_constant"]

L4T_TAU_S = 0.43
"""512 samples of 2 x 140 us on 3 channels, which L4T sets on Orin. Source: L4T `nvpower.sh`."""

_CONVERSION_US = (140, 204, 332, 588, 1100, 2116, 4156, 8244)
_TAU_SHARE, _GUESSED_TAU_SHARE = 0.15, 0.5
_SHUNT_OFFSET_UV, _SHUNT_LSB_UV = 80.0, 40.0
_BUS_OFFSET_V, _BUS_LSB_V = 0.016, 0.008
_GAIN_SHARE = 0.0025 * math.sqrt(2.0) / math.sqrt(3.0)  # shunt and bus, 0.25 % at most each

_INA238_GAIN_SHARE = 0.01
"""The chip itself is good to 0.1 % (TI SLYS023); its shunt's tolerance is not known, so 1 % is taken."""

_ROOM = "sys/class/hwmon/hwmon*"
_HWMON = (_ROOM, f"{_ROOM}/device", "sys/bus/i2c/drivers/ina*/*/hwmon/hwmon*")
_IIO = ("sys/bus/i2c/drivers/ina3221x/*/iio:device*", "sys/bus/i2c/drivers/ina3221x/*/iio_device/iio:device*")


@dataclass(frozen=True)
class _Channel:
    """Where one rail is read, and what its errors are made of."""

    facts: RailFacts
    shunt_uohm: int
    volts: Path  # millivolts
    amps: Path  # milliamperes
    watts: Path | None = None  # by `watts_unit`; None: volts times amperes
    watts_unit: float = 1e-6


class Ina3221Meter:
    """Reads every labelled rail of every power monitor that the board has."""

    def __init__(self, tree: Tree | None = None, clock: Clock | None = None) -> None:
        """Finds the monitors and reads each rail once.

        Arguments:
            tree: the machine's files, or another one's.
            clock: that of the samples.

        Raises:
            Unavailable: there is no such sensor, or no rail of it answers.
        """
        self._tree, self._clock = tree or Tree(), clock or MonotonicClock()
        board = identify(self._tree)
        self._channels: dict[str, _Channel] = {}
        self._skipped: list[Skipped] = []
        monitors = 0
        for folder in self._monitors():
            monitors += 1
            self._add_hwmon(folder, board)
        for pattern in _IIO:
            for folder in self._tree.glob(pattern):
                monitors += 1
                self._add_iio(folder, board)
        self._skip_supplies()
        for label, channel in list(self._channels.items()):
            self._probe(label, channel)
        if not self._channels:
            raise Unavailable(self._why_none(monitors))
        self._facts = self._describe(board)

    @property
    def facts(self) -> MeterFacts:
        """See `Meter.facts`."""
        return self._facts

    def read(self) -> Reading:
        """See `Meter.read`."""
        before_ns = self._clock.now_ns()
        rails, skipped = {}, []
        for label, channel in self._channels.items():
            try:
                rails[label] = self._read(channel)
            except OSError as error:
                skipped.append(Skipped(label, cause(error)))
        after_ns = self._clock.now_ns()
        if not rails:
            raise MeterError(f"no rail answers any more ({skipped[0].channel}: {skipped[0].why})")
        return Reading(before_ns, after_ns, rails, tuple(skipped))

    def close(self) -> None:
        """See `Meter.close`."""

    def _read(self, channel: _Channel) -> RailReading:
        volts = self._tree.number(channel.volts) / 1e3
        amps = self._tree.number(channel.amps) / 1e3
        if channel.watts is None:
            return RailReading(volts, amps, volts * amps)
        return RailReading(volts, amps, self._tree.number(channel.watts) * channel.watts_unit)

    # Finding channels ----------------------------------------------------------------------------

    def _monitors(self) -> Iterator[Path]:
        seen = set()
        for pattern in _HWMON:
            for folder in self._tree.glob(pattern):
                try:
                    name, real = self._tree.text_or(folder / "name"), folder.resolve()
                except (OSError, RuntimeError):
                    continue
                if name.startswith("ucsi"):
                    self._skipped.append(Skipped(f"{folder.name}/{name}", "a USB-PD contract, not a rail"))
                elif name in ("ina3221", "ina238") and real not in seen:
                    seen.add(real)
                    yield folder

    def _add_hwmon(self, folder: Path, board: Board) -> None:
        chip = _chip_name(folder)
        if self._tree.text_or(folder / "name") == "ina238":
            self._add_ina238(folder, chip)
            return
        inputs = [n for n in range(1, 4) if (folder / f"in{n}_input").exists()]
        enabled = [n for n in inputs if self._tree.text_or(folder / f"in{n}_enable", "1") != "0"]
        tau_s, tau_share = time_constant(
            self._count(folder / "samples"), self._count(folder / "update_interval"), max(1, len(enabled))
        )
        for n in inputs:
            where = f"{chip}/in{n}"
            label = self._tree.text_or(folder / f"in{n}_label")
            if n not in enabled:
                self._skip(where, label, f"disabled (in{n}_enable is 0)")
            elif self._is_rail(where, label):
                shunt_uohm = self._count(folder / f"shunt{n}_resistor") or board.shunt_uohm
                facts = RailFacts(label, f"ina3221 {where}", tau_s=tau_s, tau_share=tau_share)
                volts, amps = folder / f"in{n}_input", folder / f"curr{n}_input"
                self._add(where, _Channel(facts, shunt_uohm, volts, amps))
        for name, why in (
            ("in7", "sum of shunt voltages, not a rail"),
            ("curr4", "sum of channels, not a rail"),
        ):
            if (folder / f"{name}_input").exists():
                self._skipped.append(Skipped(f"{chip}/{name}", why))

    def _add_ina238(self, folder: Path, chip: str) -> None:
        labels = (
            self._tree.text_or(folder / name)
            for name in ("in1_label", "power1_label", "curr1_label", "label")
        )
        label = next((text for text in labels if text), "")
        if self._is_rail(f"{chip}/power1", label):
            facts = RailFacts(label, f"ina238 {chip}", gain_share=_INA238_GAIN_SHARE)
            volts, amps, watts = (folder / f"{name}_input" for name in ("in1", "curr1", "power1"))
            channel = _Channel(facts, 0, volts, amps, watts, 1e-6)
            self._add(f"{chip}/power1", channel)

    def _add_iio(self, folder: Path, board: Board) -> None:
        chip = folder.parent.name
        for n in range(3):
            if not (folder / f"in_voltage{n}_input").exists() and not (folder / f"rail_name_{n}").exists():
                continue
            where = f"{chip}/{folder.name}/{n}"
            label = self._tree.text_or(folder / f"rail_name_{n}")
            if self._is_rail(where, label):
                facts = RailFacts(label, f"ina3221x {where}", tau_s=L4T_TAU_S, tau_share=_GUESSED_TAU_SHARE)
                volts, amps, watts = (
                    folder / f"in_{kind}{n}_input" for kind in ("voltage", "current", "power")
                )
                channel = _Channel(
                    facts, board.shunt_uohm, volts, amps, watts if watts.exists() else None, 1e-3
                )
                self._add(where, channel)

    def _is_rail(self, where: str, label: str) -> bool:
        if not label:
            self._skip(where, "", "no label: the board does not say what it feeds")
        elif re.search(r"(?<![A-Z])NC(?![A-Z])", label):
            self._skip(where, label, "not connected")
        elif label.lower() == "sum of shunt voltages":
            self._skip(where, label, "not a rail")
        else:
            return True
        return False

    def _skip(self, where: str, label: str, why: str) -> None:
        self._skipped.append(Skipped(f"{where} {label}".strip(), why))

    def _add(self, where: str, channel: _Channel) -> None:
        label = channel.facts.label
        if label in self._channels:
            if self._channels[label].volts.name != channel.volts.name:
                self._skip(where, label, "another channel has this label")
            return
        self._channels[label] = channel

    def _skip_supplies(self) -> None:
        for folder in self._tree.glob("sys/class/power_supply/ucsi-*"):
            self._skipped.append(Skipped(folder.name, "a USB-PD contract, not a rail"))

    def _count(self, path: Path) -> int | None:
        try:
            return self._tree.number(path)
        except OSError:
            return None

    # Trying them ---------------------------------------------------------------------------------

    def _probe(self, label: str, channel: _Channel) -> None:
        """Reads a rail once: the voltage found sets what a step of its current means in watts."""
        try:
            reading = self._read(channel)
        except OSError as error:
            del self._channels[label]
            self._skip(channel.facts.sensor.split()[-1], label, cause(error))
            return
        if channel.shunt_uohm:
            known = channel.facts
            facts = ina3221_rail(
                label, known.sensor, reading.v or 0.0, reading.a or 0.0, channel.shunt_uohm,
                known.tau_s, known.tau_share,
            )  # fmt: skip
            self._channels[label] = replace(channel, facts=facts)

    def _describe(self, board: Board) -> MeterFacts:
        total, note = board.total_of(set(self._channels))
        rails = tuple(
            replace(channel.facts, in_total=label in total) for label, channel in self._channels.items()
        )
        return MeterFacts(
            meter="ina3221",
            board=board.model,
            scope="module" if total else "rails",
            rails=rails,
            origin="live" if self._tree.is_own else "tree",
            note=note,
            skipped=tuple(self._skipped),
        )

    def _why_none(self, monitors: int) -> str:
        if monitors:
            reasons = "; ".join(f"{item.channel}: {item.why}" for item in self._skipped)
            return f"{monitors} power monitors, no rail of them answers ({reasons})"
        if not self._tree.glob("sys/*"):
            return "no /sys here: start the container with -v /sys:/sys:ro"
        if self._tree.glob("sys/bus/i2c/drivers/ina3221x/*-00*"):
            return "the driver ina3221x is there without its iio folders: mount all of /sys, or read as root"
        return "no hwmon or iio device of the driver ina3221 or ina238 in /sys"


def ina3221_rail(
    label: str, sensor: str, volts: float, amps: float, shunt_uohm: float, tau_s: float, tau_share: float
) -> RailFacts:
    """Works out the errors of one channel from the data sheet.

    Arguments:
        volts, amps: what was read; errors of the current count in watts at this voltage.
        shunt_uohm: the shunt in microohms.

    Source: TI SBOS576: shunt step 40 uV, offset 80 uV; bus step 8 mV, offset 16 mV; gain 0.25 % each.
    """
    volts = max(volts, _BUS_LSB_V)
    bus = math.hypot(_BUS_OFFSET_V / math.sqrt(3.0), _BUS_LSB_V / math.sqrt(12.0)) / volts
    return RailFacts(
        label,
        sensor,
        tau_s=tau_s,
        tau_share=tau_share,
        lsb_w=math.hypot(volts * _SHUNT_LSB_UV / shunt_uohm, abs(amps) * _BUS_LSB_V),
        offset_w=volts * _SHUNT_OFFSET_UV / shunt_uohm,
        gain_share=math.hypot(_GAIN_SHARE, bus),
    )


def time_constant(samples: int | None, interval_ms: int | None, channels: int) -> tuple[float, float]:
    """Returns the time constant of a chip's running average and its uncertainty as a share.

    tau = samples x (bus + shunt conversion) x channels. The driver tells the conversion time only
    through `update_interval`, which holds the time of one cycle, with the number of samples in it
    (drivers before 2021) or without. The conversion time of the chip that explains it either way counts.

    Arguments:
        samples, interval_ms: the files `samples` and `update_interval`; None where unreadable.
        channels: how many are enabled.
    """
    if samples is None or samples < 1:
        return L4T_TAU_S, _GUESSED_TAU_SHARE
    for conversion_us in _CONVERSION_US:
        cycle_ms = channels * 2 * conversion_us / 1e3
        explained = (samples * cycle_ms, cycle_ms)
        if interval_ms is not None and any(abs(interval_ms - ms) <= max(0.6, 0.005 * ms) for ms in explained):
            return samples * cycle_ms / 1e3, _TAU_SHARE
    conversion_us = _CONVERSION_US[0] if samples > 1 else _CONVERSION_US[4]
    return samples * channels * 2 * conversion_us / 1e6, _GUESSED_TAU_SHARE


def _chip_name(folder: Path) -> str:
    """The chip's I2C address as the kernel writes it ("1-0040"), or its hwmon folder."""
    try:
        parts = folder.resolve().parts
    except (OSError, RuntimeError):
        parts = folder.parts
    for part in reversed(parts):
        if re.fullmatch(r"\d+-[0-9a-f]{4}", part):
            return part
    return folder.name if folder.name != "device" else folder.parent.name
