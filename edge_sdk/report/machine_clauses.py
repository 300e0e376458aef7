"""The clauses of an SLA on the machine's state and on memory.

What could not be read is INVALID, never PASS. A state must hold before and after the run; memory of the
process is read from the kernel at the end, its growth from the samples of the watch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from edge_sdk.machine_state.changes import THROTTLED, changes, mode_text, sees_throttling
from edge_sdk.machine_state.state import MachineSnapshot, RunState, same_mode
from edge_sdk.report.clauses import ClauseVerdict, Outcome, clause_of
from edge_sdk.report.record import RunRecord
from edge_sdk.sla import Sla
from edge_sdk.stats import warm_up_frames
from edge_sdk.stats.trend import MIN_TREND_SAMPLES, slope_bounds

__all__ = ["OWN_KEYS", "judge_machine", "judge_memory"]

OWN_KEYS = ("machine", "memory")
"""Sections that a throttled or changed machine does not spoil: they judge it, or do not depend on it."""

NOT_RECORDED = "the record does not say: the machine's state was not read in this run."
_BYTES_PER_KB, _BYTES_PER_MB = 1024, 1e6
_HOUR_MS = 3_600_000.0
_ARENA_MB = 1.05
"""Growth that resident memory may hide: Python takes memory in arenas of 1 MiB (3.10 and later)."""

_STEP_MB = 8.0
"""Growth may come in such steps at random times: what allocators and runtimes take at once."""

_SETTLE_MS, _SETTLE_SHARE = 60_000.0, 0.1
"""Memory climbs to its level when a run begins: at most so long, and this share of the run, is left out."""


def judge_machine(record: RunRecord, sla: Sla) -> Iterator[ClauseVerdict]:
    """Judges `machine: {power_mode, clocks_locked, throttled}`."""
    asked, state = sla.machine, record.machine_state
    if asked.power_mode is not None:
        yield _mode(state, asked.power_mode)
    if asked.clocks_locked is not None:
        yield _locked(state, asked.clocks_locked)
    if asked.unthrottled:
        yield _throttled(state)


def judge_memory(record: RunRecord, sla: Sla) -> Iterator[ClauseVerdict]:
    """Judges `memory: {peak_mb, rss_slope_mb_per_h}`."""
    asked = sla.memory
    if asked.peak_mb is not None:
        yield _peak(record, asked.peak_mb)
    if asked.rss_slope_mb_per_h is not None:
        yield _slope(record, asked.rss_slope_mb_per_h, sla.confidence)


def _mode(state: RunState | None, wanted: str) -> ClauseVerdict:
    key = "machine.power_mode"
    if state is None:
        return _said(key, wanted, None, Outcome.INVALID, NOT_RECORDED)
    ends = (state.before.power_mode, state.after.power_mode)
    found = " then ".join(dict.fromkeys(mode.name or "unknown" for mode in ends))
    wrong = [mode for mode in ends if mode.name is not None and not same_mode(mode.name, wanted)]
    if wrong:
        return _said(key, wanted, found, Outcome.FAIL, f"the machine was in {mode_text(wrong[0])}.")
    unknown = [mode for mode in ends if mode.source != "nvpmodel"]
    if unknown:
        why = "; ".join(unknown[0].warnings) or "nvpmodel did not say it"
        return _said(key, wanted, found, Outcome.INVALID, f"the power mode is not known: {why}.")
    return _said(key, wanted, found, Outcome.PASS, f"{mode_text(ends[0])} before and after the run.")


def _locked(state: RunState | None, wanted: bool) -> ClauseVerdict:
    key, limit = "machine.clocks_locked", _yes(wanted)
    if state is None:
        return _said(key, limit, None, Outcome.INVALID, NOT_RECORDED)
    ends = (state.before.locked, state.after.locked)
    found = " then ".join(dict.fromkeys(_yes(locked) for locked in ends))
    wrong = [
        snapshot
        for snapshot, locked in zip((state.before, state.after), ends, strict=True)
        if locked is (not wanted)
    ]
    if wrong:
        why = f"not held: {free_clocks(wrong[0])}." if wanted else "clocks are held at one frequency."
        return _said(key, limit, found, Outcome.FAIL, why)
    if None in ends:
        snapshot = state.before if ends[0] is None else state.after
        return _said(key, limit, found, Outcome.INVALID, f"not known: {_unknown_clocks(snapshot)}.")
    return _said(key, limit, found, Outcome.PASS, "so before and after the run.")


def _throttled(state: RunState | None) -> ClauseVerdict:
    key = "machine.throttled"
    if state is None:
        return _said(key, "no", None, Outcome.INVALID, NOT_RECORDED)
    seen = [finding.text for finding in changes(state) if finding.kind == THROTTLED]
    if seen:
        return _said(key, "no", "yes", Outcome.FAIL, " ".join(seen))
    if blind := sees_throttling(state):
        return _said(key, "no", None, Outcome.INVALID, f"cannot be told: {blind}.")
    samples = len(state.watch.at_ms)
    measured = any(domain.kind == "cpu" and domain.actual_hz for domain in state.after.clocks.domains)
    rest = "" if measured else " The CPU's measured clock was not readable (root only) or is not given here."
    reason = f"nothing held the chip back before, after and in {samples} samples between.{rest}"
    return _said(key, "no", "no", Outcome.PASS, reason)


def _peak(record: RunRecord, limit_mb: float) -> ClauseVerdict:
    state, key = record.machine_state, "memory.peak_mb"
    peak_kb = state.after.memory.peak_rss_kb if state else None
    if state is None or peak_kb is None:
        why = NOT_RECORDED if state is None else "the process's peak memory cannot be read here."
        return ClauseVerdict(key, limit_mb, "MB", None, None, None, 0, Outcome.INVALID, why)
    lower_mb = peak_kb * _BYTES_PER_KB / _BYTES_PER_MB
    upper_mb: float | None = lower_mb
    samples, note = 1, "the process's own peak since it began, loading included."
    if state.after.board.jetson and not _on_cpu(record):
        # The GPU's buffers are in the same memory, and in nobody's resident set.
        used_kb = [used for used in state.watch.used_kb if used is not None]
        samples, upper_mb = len(used_kb), max(used_kb) * _BYTES_PER_KB / _BYTES_PER_MB if used_kb else None
        note = "between the process's resident peak and all memory in use on the board, as the GPU shares it."
    if upper_mb is not None and upper_mb <= limit_mb:
        verdict = Outcome.PASS
    elif lower_mb > limit_mb:
        verdict = Outcome.FAIL
    else:
        verdict = Outcome.INCONCLUSIVE if upper_mb is not None else Outcome.INVALID
    if not state.after.board.jetson and not _on_cpu(record):
        note += " A GPU's own memory is not in it."
    return ClauseVerdict(key, limit_mb, "MB", lower_mb, lower_mb, upper_mb, samples, verdict, note)


def _slope(record: RunRecord, limit: float, confidence: float) -> ClauseVerdict:
    state, key = record.machine_state, "memory.rss_slope_mb_per_h"
    pairs = [] if state is None else zip(state.watch.at_ms, state.watch.rss_kb, strict=True)
    known = [(at_ms, rss_kb) for at_ms, rss_kb in pairs if rss_kb]
    if not known:
        why = NOT_RECORDED if state is None else "no sample of the process's memory was taken."
        return ClauseVerdict(key, limit, "MB/h", None, None, None, 0, Outcome.INVALID, why)
    rss = np.array([rss_kb for _, rss_kb in known], np.float64)
    times_ms = np.array([at_ms for at_ms, _ in known], np.float64)
    allowed_ms = min(_SETTLE_MS, _SETTLE_SHARE * float(times_ms[-1] - times_ms[0]))
    allowed = int(np.searchsorted(times_ms, times_ms[0] + allowed_ms, side="right"))
    settled = min(warm_up_frames(1.0 / rss), allowed)  # memory climbs to its level, latency falls to it
    resident_mb = rss[settled:] * _BYTES_PER_KB / _BYTES_PER_MB
    bounds = slope_bounds(times_ms[settled:] / _HOUR_MS, resident_mb, confidence, _ARENA_MB, _STEP_MB)
    if bounds.upper is None or bounds.lower is None:
        verdict = Outcome.INCONCLUSIVE
        reason = f"too short: {bounds.samples} samples after warm-up, {MIN_TREND_SAMPLES} are needed."
    elif bounds.upper <= limit:
        verdict, reason = Outcome.PASS, "upper bound is within it."
    elif bounds.lower > limit:
        verdict, reason = Outcome.FAIL, "lower bound is over it."
    else:
        verdict = Outcome.INCONCLUSIVE
        minutes = float(times_ms[-1] - times_ms[settled]) / 60_000.0
        reason = (
            f"{minutes:.1f} minutes do not decide it: growth comes in steps, of {_STEP_MB:g} MB or those "
            "seen. Run longer."
        )
    return clause_of(key, limit, "MB/h", bounds, verdict, reason)


def free_clocks(snapshot: MachineSnapshot) -> str:
    """Names what is known not to be held."""
    free = [domain.name for domain in snapshot.clocks.domains if domain.pinned is False]
    if snapshot.board.jetson and snapshot.clocks.deep_idle:
        free.append("deep idle states are on")
    return ", ".join(free)


def _unknown_clocks(snapshot: MachineSnapshot) -> str:
    unknown = [domain.name for domain in snapshot.clocks.domains if domain.pinned is None]
    kinds = {domain.kind for domain in snapshot.clocks.domains}
    if snapshot.board.jetson:
        unknown += [kind for kind in ("cpu", "gpu", "emc") if kind not in kinds]
        unknown += ["idle states"] if snapshot.clocks.deep_idle is None else []
    if not unknown:
        return "this machine shows no clock"
    root = " (root may: run with sudo)" if snapshot.needs_root else ""
    return f"{', '.join(unknown)} cannot be read{root}"


def _on_cpu(record: RunRecord) -> bool:
    return record.provider.loaded == "CPUExecutionProvider"


def _yes(flag: bool | None) -> str:
    return "unknown" if flag is None else "yes" if flag else "no"


def _said(key: str, limit: str, found: str | None, verdict: Outcome, reason: str) -> ClauseVerdict:
    return ClauseVerdict(key, limit, "", found, None, None, 2 if found else 0, verdict, reason)
