"""The machine's state in sentences, for tables, reports and the command line."""

from __future__ import annotations

from edge_sdk.machine_state.changes import mode_text
from edge_sdk.machine_state.heat import hottest_c
from edge_sdk.machine_state.state import Board, ClockDomain, RunState

__all__ = ["board_text", "clock_text", "locked_text", "release_text", "state_text"]


def state_text(state: RunState | None) -> str:
    """Says in one line what state a run was made in."""
    if state is None:
        return "not read"
    before, after = state.before, state.after
    parts = [release_text(before.board)] if before.board.jetson else []
    if before.board.jetson or before.power_mode.name:
        parts.append(f"power mode {mode_text(before.power_mode)}")
    parts.append(f"clocks {locked_text(before.locked)}")
    temps = [
        temp for temp in (hottest_c(before.zones), *state.watch.hottest_c, hottest_c(after.zones)) if temp
    ]
    if temps:
        parts.append(f"hottest zone {min(temps):.0f} to {max(temps):.0f} °C")
    if after.memory.peak_rss_kb is not None:
        parts.append(f"process memory at most {after.memory.peak_rss_kb * 1024 / 1e6:.0f} MB")
    return ", ".join(parts)


def board_text(board: Board) -> str:
    """Names the board, as far as it is known."""
    if not board.jetson:
        return board.model or "no Jetson"
    known = ", ".join(part for part in (board.module, board.chip) if part)
    return (board.model or "a Jetson whose model cannot be read") + (f" ({known})" if known else "")


def release_text(board: Board) -> str:
    """Names Jetson Linux and JetPack; a release that is not in the table is shown as it is."""
    if board.l4t is None:
        return "L4T unknown"
    return f"L4T {board.l4t}, " + (f"JetPack {board.jetpack}" if board.jetpack else "unknown JetPack")


def locked_text(locked: bool | None) -> str:
    """Says whether clocks are held."""
    return {True: "locked", False: "not locked", None: "lock unknown"}[locked]


def clock_text(domain: ClockDomain) -> str:
    """Writes one clock: its limits, what it was asked for, what it does."""
    parts = [f"{_mhz(domain.min_hz)} to {_mhz(domain.max_hz)} MHz"]
    if domain.request_hz is not None:
        parts.append(f"asked {_mhz(domain.request_hz)}")
    if domain.actual_hz is not None:
        parts.append(f"runs at {_mhz(domain.actual_hz)}")
    if domain.cap_hz:
        parts.append(f"cap {_mhz(domain.cap_hz)}")
    if domain.governor:
        parts.append(domain.governor)
    return ", ".join(parts)


def _mhz(hz: int | None) -> str:
    return "?" if hz is None else f"{hz / 1e6:.0f}"
