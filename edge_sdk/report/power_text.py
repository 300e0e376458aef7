"""What a person reads of power and energy: which rails, how sure, and what was not measured."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edge_sdk.power import PowerPart
from edge_sdk.report.energy import MAX_PAUSE_SHARE, EnergyReport, energy_of_run
from edge_sdk.report.record import RunRecord
from edge_sdk.stats import Figure, GroupFit

__all__ = ["no_sensor", "power_caveats", "power_facts"]

_SLOW_READ_NS = 50_000_000


def no_sensor(tried: tuple[tuple[str, str], ...]) -> str:
    """Says that there was no power sensor, and what was tried. Never a number of watts."""
    reasons = "; ".join(f"{name}: {why}" for name, why in tried)
    return f"no power sensor: {reasons}" if reasons else "no power sensor"


def power_facts(record: RunRecord, figure: Callable[[float], str]) -> list[tuple[str, str]]:
    """Makes the lines on power and energy.

    Arguments:
        figure: writes a number for people.
    """
    part = record.meter
    if part is None:
        return [("Power", record.power), ("Energy", "none: without a power sensor there is no figure")]
    report, why = energy_of_run(record)
    if report is None:
        return [("Power", f"no figure: {why}"), ("Meter", _meter(part))]
    energy = report.energy

    def with_sigma(item: Figure, unit: str) -> str:
        return f"{figure(item.value)} +/- {figure(item.sigma)} {unit}"

    marginal = (
        f"{with_sigma(report.marginal_mj, 'mJ')} above idle of {with_sigma(report.idle_w, 'W')}"
        if report.marginal_mj is not None and report.idle_w is not None
        else f"none above idle: {report.marginal_why}"
    )
    return [
        (
            "Power",
            f"{with_sigma(Figure(energy.mean_w, energy.sigma_w), 'W')}, {part.facts.scope} "
            f"({' + '.join(part.facts.total_rails)}), over {figure(energy.duration_s)} s after warm-up",
        ),
        ("Energy", f"per inference {with_sigma(report.total_mj, 'mJ')} in total; {marginal}"),
        ("By route", _by_route(report, with_sigma)),
        (
            "Lag",
            f"energy {figure(energy.corrected_j)} J corrected for the sensor's lag, "
            f"{figure(energy.uncorrected_j)} J without; +/- is one standard uncertainty",
        ),
        ("Meter", _meter(part)),
    ]


def power_caveats(record: RunRecord) -> list[str]:
    """Lists what a reader must know before trusting the energy."""
    part = record.meter
    if part is None:
        return []
    caveats = [f"Power: {text}." for text in (part.facts.caveat, part.facts.note) if text]
    if part.failed:
        caveats.append(f"Power: the sensor failed in mid-run: {part.failed}.")
    slow = int((part.trace.read_ns > _SLOW_READ_NS).sum())
    if slow:
        caveats.append(
            f"Power: {slow} of {len(part.trace)} reads took longer than 50 ms and disturbed the run."
        )
    report, _ = energy_of_run(record)
    if report is not None:
        if report.energy.low_confidence:
            caveats.append(f"Energy: low confidence, {report.energy.low_confidence}.")
        if report.marginal_doubt:
            caveats.append(f"Energy above idle: low confidence, {report.marginal_doubt}.")
        if report.pause_share > MAX_PAUSE_SHARE:
            caveats.append(
                f"Energy: {100 * report.pause_share:.0f} % of the time went into pictures and files between "
                "frames, whose energy is in the figures."
            )
    return caveats


def _meter(part: PowerPart) -> str:
    rate = part.trace.rate_hz()
    text = f"{part.facts.meter} on {part.facts.board}"
    if rate is not None:
        text += f", {rate:.1f} samples/s"
    if len(part.trace):
        text += f", {np.median(part.trace.read_ns) / 1e6:.2f} ms a read"
    if part.cpu_share is not None:
        text += f", sampling took {100 * part.cpu_share:.2f} % of a core"
    skipped = "; ".join(f"{item.channel}: {item.why}" for item in part.facts.skipped)
    return f"{text}; not read: {skipped}" if skipped else text


def _by_route(report: EnergyReport, with_sigma: Callable[[Figure, str], str]) -> str:
    def listed(fit: GroupFit) -> str:
        return ", ".join(f"{route} {with_sigma(item, 'mJ')}" for route, item in fit.groups.items())

    if report.by_route.why:
        return report.by_route.why
    text = f"in total {listed(report.by_route)}"
    marginal = listed(report.by_route_marginal)
    return f"{text}; above idle {marginal}" if marginal else text
