"""The benchmark of the meter: its error by window length against a simulated sensor, and its own cost."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edge_sdk.bench.ina3221_model import (
    Chip,
    PowerCurve,
    SimulatedClock,
    Tolerances,
    bursts,
    ramp,
    step,
    write_tree,
)
from edge_sdk.devices import machine_facts
from edge_sdk.meter.files import Tree
from edge_sdk.meter.ina3221 import Ina3221Meter
from edge_sdk.meter.sampler import EnergyMeter
from edge_sdk.stats import Energy

__all__ = ["BOARDS", "SHAPES", "WindowErrors", "measure_window", "run_meter", "sampler_cost"]

BOARDS: dict[str, tuple[str, int, tuple[tuple[str, float, float], ...]]] = {
    "AGX Orin": (
        "nvidia,p3701-0005",
        2000,
        (("VDD_GPU_SOC", 19.6, 0.6), ("VDD_CPU_CV", 19.6, 0.25), ("VIN_SYS_5V0", 5.0, 0.15)),
    ),
    "Orin NX": (
        "nvidia,p3767-0000",
        5000,
        (("VDD_IN", 5.0, 1.0), ("VDD_CPU_GPU_CV", 5.0, 0.5), ("VDD_SOC", 5.0, 0.2)),
    ),
}
"""Boards of the simulation: compatible, shunt in microohms, (label, volts, share of the total) a rail."""

SHAPES = ("step", "ramp", "bursts")
WINDOWS_S = (2.0, 5.0, 10.0, 30.0)

_WINDOW_AT_S = 4.0
_HZ = 20.0
_COST_READS = 400


@dataclass(frozen=True)
class WindowErrors:
    """Errors of windows of one length and one shape of load, as shares of the true energy.

    Attributes:
        shape, window_s: the load, and the window.
        corrected_error_max, uncorrected_error_max: the largest of an ideal sensor, sign dropped.
        real_error_max: the largest corrected one, with rounding, offset, gain and clock errors drawn.
        within_2_sigma: share of those runs whose true energy lies within twice the stated uncertainty.
        runs: how many.
    """

    shape: str
    window_s: float
    corrected_error_max: float
    uncorrected_error_max: float
    real_error_max: float
    within_2_sigma: float
    runs: int


def run_meter(
    *,
    runs: int = 30,
    seed: int = 1,
    cost_s: float = 5.0,
    step_done: Callable[[str], None] = lambda name: None,
) -> dict[str, Any]:
    """Measures all of it.

    Arguments:
        runs: simulated runs of each shape and window length.
        seed: of the simulation.
        cost_s: how long the sampler runs for its cost.
        step_done: called with the name of each part as it begins.

    Returns: what `edge-sdk bench meter --json` writes.
    """
    windows = []
    for window_s in WINDOWS_S:
        for shape in SHAPES:
            step_done(f"{shape}, windows of {window_s:g} s")
            windows.append(_errors(shape, window_s, runs, seed))
    step_done("cost of sampling")
    with tempfile.TemporaryDirectory() as folder:
        board = "AGX Orin"
        compatible, shunt_uohm, rails = BOARDS[board]
        write_tree(Path(folder), compatible, [label for label, _, _ in rails], shunt_uohm)
        share = _thread_share(Path(folder), cost_s)
        read_ms = 1e3 * sampler_cost(EnergyMeter(Ina3221Meter(Tree(folder)), hz=_HZ))
    return {
        "schema": "edge-sdk/bench-meter",
        "schema_version": 1,
        "windows": [asdict(item) for item in windows],
        "sampler_hz": _HZ,
        "sampler_cpu_share": share,
        "sampler_cpu_ms_a_sample": read_ms,
        "conditions": {
            "windows": (
                f"simulated INA3221 (running average, {_HZ:g} Hz, 0.4 ms a file), not a Jetson; loads begin "
                f"within the window; boards {', '.join(BOARDS)} in turn; seed {seed}"
            ),
            "sampler_cpu_share": (
                f"thread CPU time over {cost_s:g} s at {_HZ:g} Hz on an AGX Orin's files, on this machine"
            ),
            "sampler_cpu_ms_a_sample": f"thread CPU time, mean of {_COST_READS} samples in a row",
        },
        "machine": machine_facts(),
    }


def measure_window(
    folder: Path, board: str, curve: PowerCurve, window_s: float, tolerances: Tolerances, phase_s: float = 0.0
) -> tuple[Energy, float]:
    """Drives meter, sampler and window over a simulated trace.

    Arguments:
        folder: where the board's tree may be written.
        board: a key of `BOARDS`.
        curve: true power; the window begins at 4 s.
        phase_s: of sampling against the window.

    Returns: the energy that the window says, and the true one in joules.
    """
    compatible, shunt_uohm, rails = BOARDS[board]
    write_tree(folder, compatible, [label for label, _, _ in rails], shunt_uohm)
    clock = SimulatedClock()
    end_s = _WINDOW_AT_S + window_s + 2.0
    chip = Chip(curve, rails, clock, end_s=end_s, shunt_uohm=shunt_uohm, tolerances=tolerances)
    sampler = EnergyMeter(Ina3221Meter(Tree(folder, chip), clock), hz=_HZ, clock=clock, keep_s=None)
    turn_s = _WINDOW_AT_S - 1.0 + phase_s
    while turn_s < _WINDOW_AT_S:
        clock.sleep_until_ns(round(turn_s * 1e9))
        sampler.sample()
        turn_s += 1 / _HZ
    clock.sleep_until_ns(round(_WINDOW_AT_S * 1e9))
    with sampler.window("simulated") as window:
        while turn_s < _WINDOW_AT_S + window_s:
            clock.sleep_until_ns(round(turn_s * 1e9))
            sampler.sample()
            turn_s += 1 / _HZ
        clock.sleep_until_ns(window.start_ns + round(window_s * 1e9))
    assert window.end_ns is not None
    return window.energy, curve.energy_j(window.start_ns / 1e9, window.end_ns / 1e9)


def curve_of(shape: str, window_s: float, random: np.random.Generator) -> PowerCurve:
    """Draws a load of a shape that begins at the window's start, or shortly after it."""
    if shape == "step":
        return step(_WINDOW_AT_S + 0.01)
    if shape == "ramp":
        return ramp(_WINDOW_AT_S, float(random.uniform(0.5, 1.0)) * window_s)
    return bursts(_WINDOW_AT_S, window_s, random)


def sampler_cost(sampler: EnergyMeter, reads: int = _COST_READS) -> float:
    """Returns the processor time of one sample in seconds, the mean of many."""
    start_ns = time.thread_time_ns()
    for _ in range(reads):
        sampler.sample()
    return (time.thread_time_ns() - start_ns) / 1e9 / reads


def _thread_share(root: Path, seconds: float) -> float:
    with EnergyMeter(Ina3221Meter(Tree(root)), hz=_HZ) as sampler:
        time.sleep(seconds)
        return sampler.cpu_share or math.nan


def _errors(shape: str, window_s: float, runs: int, seed: int) -> WindowErrors:
    random = np.random.default_rng([seed, SHAPES.index(shape), int(window_s)])
    corrected, uncorrected, real, inside = [], [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        for run in range(runs):
            board = list(BOARDS)[run % len(BOARDS)]
            curve = curve_of(shape, window_s, random)
            phase_s = float(random.uniform(0, 1 / _HZ))
            energy, true_j = measure_window(
                Path(folder, board), board, curve, window_s, Tolerances(), phase_s
            )
            corrected.append(abs(energy.corrected_j / true_j - 1))
            uncorrected.append(abs(energy.uncorrected_j / true_j - 1))
            drawn = Tolerances.drawn(random)
            energy, true_j = measure_window(Path(folder, board), board, curve, window_s, drawn, phase_s)
            real.append(abs(energy.corrected_j / true_j - 1))
            inside += abs(energy.corrected_j - true_j) <= 2 * energy.sigma_j
    return WindowErrors(shape, window_s, max(corrected), max(uncorrected), max(real), inside / runs, runs)
