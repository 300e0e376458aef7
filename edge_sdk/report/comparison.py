"""Two records side by side: whether they may be compared at all, and by how much they differ.

Figures of unlike runs are not compared: a ratio between two boards, modes or loads says nothing of what
was changed on purpose. A ratio has bounds: each side's own bound at half the risk, so that both hold
together at the asked confidence. They hold for these two runs: two runs of the same software differ by more
than the frames within each show, so one run each is no claim that anything is faster or slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.machine_state.changes import mode_text
from edge_sdk.machine_state.state import MachineSnapshot
from edge_sdk.measurements import Reason, Route
from edge_sdk.report.machine_text import locked_text
from edge_sdk.report.power_clauses import find_power
from edge_sdk.report.record import RunRecord
from edge_sdk.report.rounding import rounded
from edge_sdk.report.soundness import faults_of, state_faults
from edge_sdk.sla import PowerLimit
from edge_sdk.stats import CONFIDENCE, Bounds, percentile_bounds, rate_bounds, share_bounds

__all__ = [
    "Comparison",
    "Difference",
    "Ratio",
    "Regressions",
    "compare_records",
    "differences",
    "regressions",
]

_SHARES = (0.5, 0.95, 0.99)
_POWER_FIGURES = {
    "energy per inference, total": PowerLimit("", "per_inference_mj", 0.0, "total"),
    "energy per inference, above idle": PowerLimit("", "per_inference_mj", 0.0, "marginal"),
    "mean power": PowerLimit("", "mean_w", 0.0),
}
_RUNTIMES = ("onnxruntime", "onnxruntime-gpu", "tensorrt")


@dataclass(frozen=True)
class Difference:
    """One condition in which two records are unlike.

    Attributes:
        what: "board", "power mode", "clocks", "bundle", "runtime", "rail scope" or "load".
        a, b: what each record says.
    """

    what: str
    a: str
    b: str


@dataclass(frozen=True)
class Ratio:
    """One figure of both records.

    Attributes:
        figure: "latency P95", "throughput", "share of route fuse".
        unit: of `a` and `b`.
        a, b: what each record measured; None where it cannot be said.
        ratio: b over a.
        lower, upper: what the samples allow around the ratio; None where they are too few.
        worse: "higher" or "lower", whichever is the worse direction; "" where neither is.
    """

    figure: str
    unit: str
    a: float | None
    b: float | None
    ratio: float | None
    lower: float | None
    upper: float | None
    worse: str = "higher"

    @property
    def meaning(self) -> str:
        """What may be said of it: never that one software is better, from one run of each."""
        if self.lower is None or self.upper is None:
            return "too few to say"
        return "no difference shown" if self.lower <= 1 <= self.upper else "one run each: no claim"

    def worse_by(self) -> tuple[float, float] | None:
        """Bounds on the share by which B is worse than A; None where there are none."""
        if self.lower is None or self.upper is None or not self.worse:
            return None
        if self.worse == "higher":
            return self.lower - 1, self.upper - 1
        return 1 - self.upper, 1 - self.lower


@dataclass(frozen=True)
class Comparison:
    """Two records, compared.

    Attributes:
        differences: conditions in which they are unlike; figures stand for nothing where there are any.
        unsound: why a record's own figures cannot be relied on, "A: ..." or "B: ...".
        ratios: figure by figure.
        notes: what a reader must know.
        confidence: of each pair of bounds.
    """

    differences: tuple[Difference, ...]
    unsound: tuple[str, ...]
    ratios: tuple[Ratio, ...]
    notes: tuple[str, ...]
    confidence: float = CONFIDENCE

    def as_json(self) -> dict[str, Any]:
        """Lays the comparison out in JSON types. Copies: yes."""
        return {
            "schema": "edge-sdk/comparison",
            "schema_version": 1,
            "comparable": not self.differences,
            "confidence": self.confidence,
            "differences": [asdict(entry) for entry in self.differences],
            "unsound": list(self.unsound),
            "ratios": rounded([{**asdict(entry), "meaning": entry.meaning} for entry in self.ratios]),
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Regressions:
    """What of B is worse than A by more than a limit. The limit is the caller's allowance between two runs.

    Attributes:
        limit: share, 0.05 for 5 %.
        over: figures whose lower bound is beyond it.
        within: figures whose upper bound is not.
        undecided: figures of which the frames show neither: longer runs would.
        too_few: figures without bounds.
    """

    limit: float
    over: tuple[str, ...]
    within: tuple[str, ...]
    undecided: tuple[str, ...]
    too_few: tuple[str, ...]


def regressions(comparison: Comparison, limit: float) -> Regressions:
    """Sorts the figures of a comparison by whether B is worse than A by more than a limit.

    Arguments:
        limit: share by which B may be worse: 0.05 for 5 %.
    """
    found: dict[str, list[str]] = {"over": [], "within": [], "undecided": [], "too_few": []}
    for entry in comparison.ratios:
        if entry.worse and entry.ratio is not None:
            bounds = entry.worse_by()
            if bounds is None:
                kind = "too_few"
            else:
                kind = "over" if bounds[0] > limit else "within" if bounds[1] <= limit else "undecided"
            found[kind].append(entry.figure)
    return Regressions(limit, *(tuple(names) for names in found.values()))


def differences(a: RunRecord, b: RunRecord) -> tuple[Difference, ...]:
    """Lists the conditions in which two records are unlike, with what each says."""
    said = zip(_conditions(a), _conditions(b), strict=True)
    return tuple(Difference(what, one, other) for (what, one), (_, other) in said if one != other)


def compare_records(a: RunRecord, b: RunRecord) -> Comparison:
    """Compares two records, whether they may be compared or not: `differences` says that.

    Arguments:
        a: what is compared with.
        b: what is compared; a ratio of 2 is twice as much as in `a`.
    """
    faults = [
        f"{name}: {fault}"
        for name, record in (("A", a), ("B", b))
        for fault in (*faults_of(record), *state_faults(record))
    ]
    return Comparison(differences(a, b), tuple(faults), tuple(_ratios(a, b)), tuple(_notes(a, b)))


def _conditions(record: RunRecord) -> Iterator[tuple[str, str]]:
    """What must be alike, as pairs of (what, how it is in this record)."""
    state, machine = record.machine_state, record.machine
    before = state.before if state else None
    module = before.board.module if before else None
    chip = [machine.get("board"), module, machine.get("cpu_model"), machine.get("gpu")]
    cores = f"{machine.get('cpu_cores_usable', '?')} cores usable"
    yield "board", ", ".join(str(part) for part in (*chip, cores) if part)
    yield "power mode", "not recorded" if before is None else mode_text(before.power_mode)
    yield "clocks", "not recorded" if before is None else _clocks_text(before)
    yield "bundle", f"{record.engine.bundle_sha256}, {record.engine.precision}"
    versions = [f"{name} {machine[name]}" for name in _RUNTIMES if name in machine]
    if before is not None and before.board.l4t is not None:
        versions.append(f"L4T {before.board.l4t}")
    yield "runtime", f"{record.provider.loaded}; {', '.join(versions) or 'versions unknown'}"
    yield "rail scope", _scope(record)
    yield "load", _load(record)


def _clocks_text(snapshot: MachineSnapshot) -> str:
    limits = [
        f"{domain.name} {_mhz(domain.min_hz)}-{_mhz(domain.max_hz)} MHz {domain.governor or ''}".rstrip()
        for domain in snapshot.clocks.domains
        if domain.min_hz is not None or domain.max_hz is not None
    ]
    return "; ".join([locked_text(snapshot.locked), *limits])


def _scope(record: RunRecord) -> str:
    if record.meter is None:
        return "no power"
    facts = record.meter.facts
    return f"{facts.scope}: {' + '.join(facts.total_rails) or 'no total'}, by {facts.meter}"


def _load(record: RunRecord) -> str:
    run, source = record.run, record.source
    pace = "back to back" if run.pace_hz is None else f"paced at {run.pace_hz:g} Hz"
    threads = "threads unknown" if run.threads is None else f"{run.threads} threads"
    forced = Reason.FORCED.value in record.frames.reason
    routes = "routes forced" if forced else "routes by the gate"
    return f"{source.uri}, {source.thermal_unit}, {source.registration}; {pace}, {threads}, {routes}"


def _ratios(a: RunRecord, b: RunRecord) -> Iterator[Ratio]:
    half = 1.0 - (1.0 - CONFIDENCE) / 2
    for share in _SHARES:
        sides = [percentile_bounds(_latency_ms(record, None), share, half) for record in (a, b)]
        yield _ratio(f"latency P{100 * share:g}", "ms", *sides)
    for route in Route:
        if all(route.value in record.frames.route for record in (a, b)):
            for share in _SHARES[:2]:
                sides = [percentile_bounds(_latency_ms(record, route), share, half) for record in (a, b)]
                yield _ratio(f"latency P{100 * share:g}, route {route.value}", "ms", *sides)
    rates = [rate_bounds(record.frames.start_ns[record.steady], half) for record in (a, b)]
    yield _ratio("throughput", "frames/s", *rates, worse="lower")
    for route in Route:
        counts = [int((record.frames.is_route(route.value) & record.steady).sum()) for record in (a, b)]
        if any(counts):
            totals = [int(record.steady.sum()) for record in (a, b)]
            shares = [share_bounds(count, total, half) for count, total in zip(counts, totals, strict=True)]
            yield _ratio(f"share of route {route.value}", "", *shares, worse="")
    for figure, limit in _POWER_FIGURES.items():
        found = [find_power(record, limit, half) for record in (a, b)]
        if not any(finding.invalid for finding in found):
            yield _ratio(figure, found[0].unit, *(finding.bounds for finding in found))


def _ratio(figure: str, unit: str, a: Bounds, b: Bounds, *, worse: str = "higher") -> Ratio:
    return Ratio(
        figure,
        unit,
        a.estimate,
        b.estimate,
        _over(b.estimate, a.estimate),
        _over(b.lower, a.upper),
        _over(b.upper, a.lower),
        worse,
    )


def _over(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below


def _latency_ms(record: RunRecord, route: Route | None) -> NDArray[np.float64]:
    wanted = record.steady if route is None else record.steady & record.frames.is_route(route.value)
    return record.frames.latency_ns[wanted] / 1e6


def _notes(a: RunRecord, b: RunRecord) -> Iterator[str]:
    yield "Frames are not independent: every bound is optimistic. Warm-up is left out on both sides."
    yield (
        "One run each: how far two runs of the same software lie apart is not known, so nothing here says "
        "that one is faster or slower."
    )
    if a.sdk_version != b.sdk_version:
        yield f"edge-sdk {a.sdk_version} made A, {b.sdk_version} made B."
    for name, record in (("A", a), ("B", b)):
        if record.machine_state is None:
            yield f"{name} does not say the machine's state: mode, clocks and throttling are unknown."
    for name, record in (("A", a), ("B", b)):
        problems: dict[str, list[str]] = {}
        for figure, limit in _POWER_FIGURES.items():
            if problem := find_power(record, limit, CONFIDENCE).invalid:
                problems.setdefault(problem, []).append(figure)
        for problem, figures in problems.items():
            what = "energy and power" if len(figures) == len(_POWER_FIGURES) else "; ".join(figures)
            yield f"Not compared: {what}. {name}: {problem}"
    if a.run.pace_hz is not None or b.run.pace_hz is not None:
        yield "A paced run shows no higher frame rate than its pace."


def _mhz(hz: int | None) -> str:
    return "?" if hz is None else f"{hz / 1e6:.0f}"
