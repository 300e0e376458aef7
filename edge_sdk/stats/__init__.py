"""What a run's numbers can and cannot show: pure functions on arrays of measurements.

A percentile of a few hundred frames is an estimate, not a fact. The functions here say how far the
true value can be from it at a stated confidence. The bounds on percentiles and shares are exact for
independent samples (binomial, as in MLPerf LoadGen's early stopping). Frames are not independent
(throttling, shutter corrections, garbage collection), so `lag1_autocorrelation` and `block_percentiles`
belong beside every bound, and the bounds are optimistic where the autocorrelation is not near zero.
"""

from edge_sdk.stats.binomial import CONFIDENCE, admissible_over, binomial_cdf, samples_needed
from edge_sdk.stats.bounds import (
    BLOCK_NS,
    MIN_RATE_BLOCKS,
    Bounds,
    percentile,
    percentile_bounds,
    rate_bounds,
    share_bounds,
)
from edge_sdk.stats.by_group import GroupFit, fit_by_group
from edge_sdk.stats.energy import (
    IDLE_AGREEMENT,
    LOW_CONFIDENCE_S,
    MIN_INFERENCES,
    MIN_SAMPLES,
    MIN_WINDOW_S,
    Energy,
    Figure,
    idle_power,
    marginal_energy,
    window_energy,
)
from edge_sdk.stats.series import (
    MAX_WARM_UP_SHARE,
    USUAL_WARM_UP,
    Block,
    Settling,
    WarmUpBudget,
    block_percentiles,
    lag1_autocorrelation,
    settling,
    warm_up_frames,
)
from edge_sdk.stats.trace_checks import (
    FROZEN_S,
    MAX_RAIL_W,
    gap_limit_s,
    longest_standstill_s,
    refuse_impossible,
)

__all__ = [
    "BLOCK_NS",
    "CONFIDENCE",
    "FROZEN_S",
    "IDLE_AGREEMENT",
    "LOW_CONFIDENCE_S",
    "MAX_RAIL_W",
    "MAX_WARM_UP_SHARE",
    "MIN_INFERENCES",
    "MIN_RATE_BLOCKS",
    "MIN_SAMPLES",
    "MIN_WINDOW_S",
    "USUAL_WARM_UP",
    "Block",
    "Bounds",
    "Energy",
    "Figure",
    "GroupFit",
    "Settling",
    "WarmUpBudget",
    "admissible_over",
    "binomial_cdf",
    "block_percentiles",
    "fit_by_group",
    "gap_limit_s",
    "idle_power",
    "lag1_autocorrelation",
    "longest_standstill_s",
    "marginal_energy",
    "percentile",
    "percentile_bounds",
    "rate_bounds",
    "refuse_impossible",
    "samples_needed",
    "settling",
    "share_bounds",
    "warm_up_frames",
    "window_energy",
]
