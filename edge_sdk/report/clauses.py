"""One judged clause: what a verdict is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from edge_sdk.stats import Bounds

__all__ = ["ClauseVerdict", "Outcome", "clause_of", "invalid", "unproven"]


class Outcome(str, Enum):
    """What came of a clause, or of the whole SLA. Of several the last in this order decides.

    A clause that was soundly missed is missed whatever else could not be measured, so FAIL is the last.
    """

    PASS = "PASS"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"
    FAIL = "FAIL"


@dataclass(frozen=True)
class ClauseVerdict:
    """One clause, judged.

    Attributes:
        clause: its dotted key in the SLA file.
        limit, unit: what it asks for: "ms", "frames/s", "share", "mJ", "W", "MB", "MB/h";
            "" for a state, which is text.
        estimate, lower, upper: what was measured and its one-sided bounds, in `unit`; None: cannot be said.
        samples: frames, or blocks of a second for the frame rate.
        verdict: the outcome.
        reason: why, in a sentence.
    """

    clause: str
    limit: float | str
    unit: str
    estimate: float | str | None
    lower: float | None
    upper: float | None
    samples: int
    verdict: Outcome
    reason: str


def clause_of(
    clause: str, limit: float, unit: str, bounds: Bounds, verdict: Outcome, reason: str
) -> ClauseVerdict:
    """Makes a verdict on a figure with bounds."""
    return ClauseVerdict(
        clause,
        limit,
        unit,
        bounds.estimate,
        bounds.lower,
        bounds.upper,
        bounds.samples,
        verdict,
        reason,
    )


def unproven(clause: ClauseVerdict, why: str) -> ClauseVerdict:
    """Makes a clause that passed INCONCLUSIVE; any other is left as it is."""
    if clause.verdict is not Outcome.PASS:
        return clause
    return replace(clause, verdict=Outcome.INCONCLUSIVE, reason=why)


def invalid(clause: ClauseVerdict, why: str) -> ClauseVerdict:
    """Makes the same clause INVALID; its figures stay to be seen."""
    return replace(clause, verdict=Outcome.INVALID, reason=why)
