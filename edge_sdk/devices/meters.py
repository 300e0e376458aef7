"""Which power meter this machine has: each is tried by reading it, and the first that answers is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.devices.machine import installed_version
from edge_sdk.engine.tables import nearest
from edge_sdk.errors import ConfigError, MeterError, MeterNotFoundError
from edge_sdk.meter.base import Meter, Unavailable
from edge_sdk.meter.files import Opener, Tree, read_file
from edge_sdk.meter.ina3221 import Ina3221Meter
from edge_sdk.meter.jtop import JtopMeter
from edge_sdk.meter.nvml import NvmlMeter
from edge_sdk.meter.rapl import RaplMeter
from edge_sdk.meter.recording import load_recording
from edge_sdk.meter.replay import ReplayMeter
from edge_sdk.meter.run_power import DEFAULT_IDLE_S, RunPower, WallFile
from edge_sdk.meter.sampler import DEFAULT_HZ, EnergyMeter
from edge_sdk.meter.tegrastats import TegrastatsMeter
from edge_sdk.report.power_text import no_sensor
from edge_sdk.report.record import NO_POWER

__all__ = ["METERS", "find_meter", "open_meter", "power_of_run"]

METERS = ("auto", "none", "ina3221", "jtop", "tegrastats", "nvml", "rapl", "external:FILE", "replay:FILE")
"""What may be asked for."""

_LIVE = ("ina3221", "jtop", "tegrastats", "nvml", "rapl")
_OF_A_TREE = ("ina3221", "rapl")
_FIX = "edge-sdk power read lists each channel; an external meter can be used with --meter external:FILE."


def open_meter(
    meter: str = "auto",
    *,
    root: Path | str = "/",
    hz: float = DEFAULT_HZ,
    clock: Clock | None = None,
    keep_s: float | None = 3600.0,
    opener: Opener = read_file,
) -> EnergyMeter:
    """Opens the machine's power meter for sampling on a thread of its own.

        with edge_sdk.open_meter() as meter:
            with meter.window("inspection") as window:
                ...
        print(window.energy.corrected_j, window.energy.sigma_j, meter.facts.named)

    Arguments:
        meter: one of `METERS`, less "none" and "external:FILE". "auto" keeps the list of what it tried.
        root: of the file system; another than "/" reads a copied tree, and every figure says so.
        hz: samples a second.
        clock: what samples are timed with.
        keep_s: seconds of samples kept beyond open windows; None keeps all.
        opener: reads one sysfs file.

    Raises:
        MeterNotFoundError: no power sensor answers; lists what was tried.
        ConfigError: no such meter.
    """
    clock = clock or MonotonicClock()
    return EnergyMeter(find_meter(meter, Tree(root, opener), clock), hz=hz, clock=clock, keep_s=keep_s)


@contextmanager
def power_of_run(
    meter: str = "auto",
    *,
    root: Path | str = "/",
    hz: float = DEFAULT_HZ,
    idle_s: float = DEFAULT_IDLE_S,
    offset_s: float | None = None,
    clock: Clock | None = None,
) -> Iterator[RunPower | str]:
    """Opens what follows a run with a meter, and closes it afterwards.

    Arguments:
        meter: one of `METERS`. With "auto" a machine without a sensor is no error.
        root, hz, clock: see `open_meter`.
        idle_s: seconds of idle before and after the run; 0 leaves it out.
        offset_s: of an external meter's clock; None aligns its power with the run.

    Yields: what `record_run` and `check_sla` take as `power`; a text where there is no sensor.

    Raises:
        MeterNotFoundError: a meter that was asked for by name does not answer.
        ConfigError: no such meter.
    """
    if meter == "none":
        yield NO_POWER
        return
    clock = clock or MonotonicClock()
    if meter.startswith("external:"):
        file = WallFile(Path(meter.removeprefix("external:")), offset_s)
        yield RunPower(file, idle_s=idle_s, clock=clock)
        return
    try:
        sampler = open_meter(meter, root=root, hz=hz, clock=clock, keep_s=None)
    except MeterNotFoundError as error:
        if meter != "auto":
            raise
        yield no_sensor(error.tried)
        return
    try:
        yield RunPower(sampler, idle_s=idle_s, clock=clock)
    finally:
        sampler.close()


def find_meter(meter: str, tree: Tree, clock: Clock) -> Meter:
    """Finds a meter and reads it once; see `open_meter`.

    Raises:
        MeterNotFoundError, ConfigError: see there.
    """
    if meter.startswith("replay:"):
        return ReplayMeter(load_recording(Path(meter.removeprefix("replay:"))), clock)
    if meter not in ("auto", *_LIVE):
        known = [name for name in METERS if name not in ("none", "external:FILE")]
        raise ConfigError(
            f"meter: expected one of {', '.join(known)}, found {meter!r}. {nearest(meter, known)}"
        )
    tried: list[tuple[str, str]] = []
    for name in _LIVE if meter == "auto" else (meter,):
        if not tree.is_own and name not in _OF_A_TREE:
            tried.append((name, f"reads this machine, not the tree {tree.root}"))
            continue
        try:
            return _Tried(_open(name, tree, clock), tuple(tried)) if tried else _open(name, tree, clock)
        except (Unavailable, MeterError) as error:
            tried.append((name, str(error)))
    raise MeterNotFoundError(meter, tried, _FIX)


def _open(name: str, tree: Tree, clock: Clock) -> Meter:
    opened: dict[str, Callable[[], Meter]] = {
        "ina3221": lambda: Ina3221Meter(tree, clock),
        "jtop": lambda: JtopMeter(clock, installed=installed_version),
        "tegrastats": lambda: TegrastatsMeter(clock),
        "nvml": lambda: NvmlMeter(clock),
        "rapl": lambda: RaplMeter(tree, clock),
    }
    return opened[name]()


class _Tried:
    """A meter that remembers which others did not serve."""

    def __init__(self, meter: Meter, tried: tuple[tuple[str, str], ...]) -> None:
        self._meter = meter
        self.facts = replace(meter.facts, tried=tried)
        self.read, self.close = meter.read, meter.close
