"""What a run took: power and energy of its steady frames, per inference, above idle, and by route."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import MeterError
from edge_sdk.power import PowerPart, PowerTrace, Span
from edge_sdk.report.record import RunRecord
from edge_sdk.stats import (
    FROZEN_S,
    LOW_CONFIDENCE_S,
    MIN_INFERENCES,
    MIN_SAMPLES,
    Energy,
    Figure,
    GroupFit,
    fit_by_group,
    idle_power,
    longest_standstill_s,
    marginal_energy,
    window_energy,
)

__all__ = ["MAX_PAUSE_SHARE", "EnergyReport", "energy_of_run", "power_problem"]

MAX_PAUSE_SHARE = 0.01
"""Work outside the pipeline (pictures drawn between frames) may take this share of the time, no more."""

_SURE = 2.0
"""Standard uncertainties by which a marginal energy must lie under zero for idle to be called wrong."""

_BLOCK_NS = 2_000_000_000
_SPACING_NS = 1_000_000_000  # samples nearer than this are not independent: the sensor averages


@dataclass(frozen=True, eq=False)
class EnergyReport:
    """Energy of the steady frames of a run. Warm-up is not in it.

    Attributes:
        energy: of the whole window.
        inferences: frames in it.
        total_mj: per inference, idle included.
        idle_w: idle power, None where it was not measured or moved.
        marginal_mj: per inference above idle; None with `marginal_why` where there is no idle power.
        marginal_doubt: why the marginal figure deserves little trust, or "".
        by_route, by_route_marginal: millijoules a frame of each route, or why they cannot be told apart.
        watts: float64, samples of the total in the window, a second apart or more.
        sample_sigma_w: standard uncertainty of one sample.
        pause_share: of the window in which something else than the pipeline worked.
        frozen: why the sensor is not believed to have moved with the load, or "".
    """

    energy: Energy
    inferences: int
    total_mj: Figure
    idle_w: Figure | None
    marginal_mj: Figure | None
    marginal_why: str
    marginal_doubt: str
    by_route: GroupFit
    by_route_marginal: GroupFit
    watts: NDArray[np.float64]
    sample_sigma_w: float
    pause_share: float
    frozen: str = ""


def power_problem(record: RunRecord, report: EnergyReport | None, why: str) -> str:
    """Says why the power of a run cannot be judged, "" where it can."""
    part = record.meter
    if part is None:
        return record.power
    if part.facts.origin in ("tree", "replay"):
        return f"no power was measured in this run: {part.facts.caveat}"
    if part.failed:
        return f"the power sensor failed in mid-run: {part.failed}"
    if report is None:
        return why
    if report.frozen:
        return report.frozen
    counted = bool(part.trace.joules)
    if report.energy.samples < MIN_SAMPLES and not counted:
        return f"too short: {report.energy.samples} samples of power after warm-up, {MIN_SAMPLES} are needed"
    if report.inferences < MIN_INFERENCES:
        return f"too short: {report.inferences} inferences after warm-up, {MIN_INFERENCES} are needed"
    if report.pause_share > MAX_PAUSE_SHARE:
        return (
            f"{100 * report.pause_share:.0f} % of the time went into pictures and files between frames; "
            "measure energy without --out and --report"
        )
    return ""


def energy_of_run(record: RunRecord) -> tuple[EnergyReport | None, str]:
    """Works out what the steady frames took, or None and why nothing can be said."""
    part = record.meter
    if part is None:
        return None, record.power
    frames = int(record.steady.sum())
    if not frames:
        return None, "no frame after warm-up"
    starts_ns, end_ns, pauses_ns = _times(record, part)
    first = record.warm_up_frames
    rails = tuple(rail for rail in part.facts.rails if rail.in_total)
    try:
        energy = window_energy(part.trace, rails, int(starts_ns[first]), end_ns)
    except MeterError as error:
        return None, str(error)
    idle_w, why = _idle(part)
    marginal = marginal_energy(energy, idle_w) if idle_w else None
    if marginal is not None and idle_w is not None and marginal.value < -_SURE * marginal.sigma:
        marginal, why = (
            None,
            (f"the run drew {energy.mean_w:.3f} W, less than idle ({idle_w.value:.3f} W): idle was not idle"),
        )
    blocks = _blocks(record, part, starts_ns, end_ns)
    return EnergyReport(
        energy=energy,
        inferences=frames,
        total_mj=_per_frame(Figure(energy.corrected_j, energy.sigma_j), frames),
        idle_w=idle_w,
        marginal_mj=_per_frame(marginal, frames) if marginal else None,
        marginal_why=why,
        marginal_doubt=_idle_doubt(part) if marginal else "",
        by_route=_fit(blocks, 0.0, Figure(energy.corrected_j, energy.sigma_j)),
        by_route_marginal=_fit(blocks, idle_w.value, marginal)
        if idle_w and marginal
        else GroupFit({}, why, 0),
        watts=_spaced(part.trace, part.facts.total_rails, int(starts_ns[first]), end_ns),
        sample_sigma_w=_sample_sigma(part, energy.mean_w),
        pause_share=float(pauses_ns[first:-1].sum()) / (end_ns - int(starts_ns[first])),
        frozen=_frozen(part, energy, int(starts_ns[first]), end_ns),
    ), ""


def _frozen(part: PowerPart, energy: Energy, start_ns: int, end_ns: int) -> str:
    """Says why the sensor is not believed to have moved: too long on one reading, or idle as at work."""
    if energy.standstill_s > FROZEN_S:
        return (
            f"the power sensor stood still: the same reading for {energy.standstill_s:.1f} s of the run, "
            f"at most {FROZEN_S:g} s are believed"
        )
    spans = [span for span in (part.idle_before, part.idle_after) if span]
    if not spans or part.trace.joules:
        return ""
    first_ns, last_ns = min(start_ns, *(span[0] for span in spans)), max(end_ns, *(span[1] for span in spans))
    still_s = longest_standstill_s(part.trace, part.facts.total_rails, first_ns, last_ns)
    if still_s * 1e9 >= 0.9 * (last_ns - first_ns):
        return "the power sensor stood still: idle and run have the very same reading"
    return ""


def _times(record: RunRecord, part: PowerPart) -> tuple[NDArray[np.int64], int, NDArray[np.int64]]:
    """When each frame really began and the last one ended: the run's clock may stand still in pauses."""
    pauses_ns = part.pause_ns if len(part.pause_ns) else np.zeros(len(record.frames), np.int64)
    if not record.run.pauses_left_out:
        return (
            record.frames.start_ns,
            int(record.frames.start_ns[-1] + record.frames.latency_ns[-1]),
            pauses_ns,
        )
    passed_ns = np.concatenate([[0], np.cumsum(pauses_ns)[:-1]]).astype(np.int64)
    starts_ns = record.frames.start_ns + passed_ns
    return starts_ns, int(starts_ns[-1] + record.frames.latency_ns[-1]), pauses_ns


def _idle(part: PowerPart) -> tuple[Figure | None, str]:
    if part.idle_before is None or part.idle_after is None:
        return None, "idle was not measured before and after the run"
    try:
        return idle_power(_between(part, part.idle_before), _between(part, part.idle_after))
    except MeterError as error:
        return None, f"idle: {error}"


def _between(part: PowerPart, span: Span) -> Energy:
    rails = tuple(rail for rail in part.facts.rails if rail.in_total)
    return window_energy(part.trace, rails, *span)


def _per_frame(figure: Figure, frames: int) -> Figure:
    return Figure(figure.value * 1e3 / frames, figure.sigma * 1e3 / frames)


@dataclass(frozen=True)
class _Blocks:
    energies_mj: list[float]
    seconds: list[float]
    counts: dict[str, list[int]]


def _blocks(record: RunRecord, part: PowerPart, starts_ns: NDArray[np.int64], end_ns: int) -> _Blocks:
    """Cuts the steady run into blocks of 2 s or more, at the starts of frames."""
    rails = tuple(rail for rail in part.facts.rails if rail.in_total)
    routes = record.frames.route
    blocks = _Blocks([], [], {route: [] for route in dict.fromkeys(routes[record.warm_up_frames :])})
    first = record.warm_up_frames
    while first < len(starts_ns):
        last = int(np.searchsorted(starts_ns, starts_ns[first] + _BLOCK_NS))
        last = max(last, first + 1)  # a clock that ran backwards makes the run invalid elsewhere
        stop_ns = int(starts_ns[last]) if last < len(starts_ns) else end_ns
        if stop_ns - starts_ns[first] >= _BLOCK_NS:
            try:
                energy = window_energy(part.trace, rails, int(starts_ns[first]), stop_ns)
            except MeterError:
                energy = None
            if energy is not None:
                blocks.energies_mj.append(energy.corrected_j * 1e3)
                blocks.seconds.append(energy.duration_s)
                for route, column in blocks.counts.items():
                    column.append(routes[first:last].count(route))
        first = last
    return blocks


def _fit(blocks: _Blocks, idle_w: float, whole: Figure) -> GroupFit:
    """Fits energy to routes. What the sensor is wrong by falls on all of them: it joins their errors."""
    energies = [mj - 1e3 * idle_w * s for mj, s in zip(blocks.energies_mj, blocks.seconds, strict=True)]
    fit = fit_by_group(energies, blocks.counts)
    share = whole.sigma / abs(whole.value) if whole.value else 0.0
    figures = {
        name: Figure(item.value, math.hypot(item.sigma, share * item.value))
        for name, item in fit.groups.items()
    }
    return GroupFit(figures, fit.why, fit.blocks)


def _idle_doubt(part: PowerPart) -> str:
    spans = [span for span in (part.idle_before, part.idle_after) if span]
    shortest_s = min((end_ns - start_ns) / 1e9 for start_ns, end_ns in spans)
    if shortest_s < LOW_CONFIDENCE_S:
        return f"idle was measured for {shortest_s:.1f} s, under {LOW_CONFIDENCE_S:g} s"
    return ""


def _spaced(trace: PowerTrace, labels: tuple[str, ...], start_ns: int, end_ns: int) -> NDArray[np.float64]:
    watts = trace.sum_of(labels)
    kept, next_ns = [], start_ns
    for at, value in zip(trace.times_ns.tolist(), watts.tolist(), strict=True):
        if next_ns <= at <= end_ns and math.isfinite(value):
            kept.append(value)
            next_ns = at + _SPACING_NS
    return np.array(kept)


def _sample_sigma(part: PowerPart, mean_w: float) -> float:
    rails = [rail for rail in part.facts.rails if rail.in_total]
    rounding = sum(rail.lsb_w**2 for rail in rails) / 12.0
    offset = sum(rail.offset_w for rail in rails) / math.sqrt(3.0)
    gain = max((rail.gain_share for rail in rails), default=0.0) * mean_w
    return math.sqrt(rounding + offset**2 + gain**2)
