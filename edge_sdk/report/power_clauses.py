"""Energy and power clauses of an SLA: what was found, between which bounds, and why it may say nothing."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

from edge_sdk.report.energy import energy_of_run, power_problem
from edge_sdk.report.record import RunRecord
from edge_sdk.sla import PowerLimit
from edge_sdk.stats import Bounds, Figure, percentile_bounds, samples_needed

__all__ = ["PowerFinding", "find_power"]

_NOTHING = Bounds(None, None, None, 0)


@dataclass(frozen=True)
class PowerFinding:
    """What a record says of one clause.

    Attributes:
        bounds: estimate and one-sided bounds with the sensor's uncertainty in them; samples are inferences
            for energy, samples of power for power.
        invalid: why the measurement cannot be judged, or "".
        undecided: what to say where the bounds lie on both sides of the limit.
        unit: "mJ" or "W".
    """

    bounds: Bounds
    invalid: str
    undecided: str
    unit: str


def find_power(record: RunRecord, limit: PowerLimit, confidence: float) -> PowerFinding:
    """Finds what a clause asks for."""
    unit = "mJ" if limit.quantity == "per_inference_mj" else "W"
    report, why = energy_of_run(record)
    problem = power_problem(record, report, why)
    if record.meter is not None and not problem and limit.scope not in (None, record.meter.facts.scope):
        problem = f"the SLA asks for the power of {limit.scope}, the meter covers {record.meter.facts.scope}"
    if report is None:
        return PowerFinding(_NOTHING, problem or why, "", unit)
    z = NormalDist().inv_cdf(confidence)
    undecided = "the limit lies within the uncertainty of the sensor."
    if limit.quantity == "p95_w":
        bounds = percentile_bounds(report.watts, 0.95, confidence)
        margin = z * report.sample_sigma_w
        widened = Bounds(
            bounds.estimate,
            None if bounds.lower is None else bounds.lower - margin,
            None if bounds.upper is None else bounds.upper + margin,
            bounds.samples,
        )
        if bounds.upper is None:
            needed = samples_needed(0.95, 0, confidence)
            undecided = (
                f"too few samples: {bounds.samples} a second apart after warm-up, "
                f"at least {needed} are needed."
            )
        return PowerFinding(widened, problem, undecided, unit)
    if limit.quantity == "mean_w":
        figure: Figure | None = Figure(report.energy.mean_w, report.energy.sigma_w)
        samples = report.energy.samples
    else:
        samples = report.inferences
        fit = report.by_route_marginal if limit.kind == "marginal" else report.by_route
        if limit.route is not None:
            figure = fit.groups.get(limit.route.value)
            samples = record.frames.route[record.warm_up_frames :].count(limit.route.value)
            undecided = fit.why or undecided
            if figure is None:
                undecided = fit.why or f"no frame took the route {limit.route.value} after warm-up."
        else:
            figure = report.marginal_mj if limit.kind == "marginal" else report.total_mj
        if limit.kind == "marginal" and report.marginal_mj is None:
            problem = problem or f"no marginal energy: {report.marginal_why}"
        elif figure is not None and figure.value < -z * figure.sigma:
            problem = problem or f"{figure.value:.3g} mJ is under zero: energy was told apart wrongly"
    if figure is None:
        return PowerFinding(Bounds(None, None, None, samples), problem, undecided, unit)
    margin = z * figure.sigma
    return PowerFinding(
        Bounds(figure.value, figure.value - margin, figure.value + margin, samples), problem, undecided, unit
    )
