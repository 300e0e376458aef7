"""What cameras and a power meter tell the page: the views of whoever really measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.errors import MeterError
from edge_sdk.live.board import Board
from edge_sdk.live.views import CameraView, PowerView
from edge_sdk.meter.run_power import RunPower
from edge_sdk.meter.sampler import EnergyMeter
from edge_sdk.sources.cameras import CameraSource

if TYPE_CHECKING:
    from edge_sdk.sources import Source

__all__ = ["POWER_WINDOW_S", "camera_views", "power_view"]

POWER_WINDOW_S = 10.0
"""The page shows the mean of so long: shorter windows are of low confidence, see `window_energy`."""


def camera_views(source: Source, board: Board) -> Callable[[], Sequence[CameraView]]:
    """Makes what the page asks for its cameras.

    Arguments:
        source: of the run. Live cameras know of themselves; of any other source the pipeline's own view
            is shown.
        board: counts the frames that were used.
    """
    if not isinstance(source, CameraSource):
        return board.seen_cameras

    def views() -> list[CameraView]:
        status, found = source.status()["cameras"], []
        for seen in board.seen_cameras():
            own = status.get(seen.name.lower())
            if own is None or own["health"] == "ok":
                found.append(seen)
                continue
            for_s = f"for {own['for_s']:.0f} s"
            detail = "; ".join(part for part in (own["detail"], for_s) if part)
            found.append(CameraView(seen.name, own["health"], detail, seen.fps, seen.age_ms, seen.ffc))
        return found

    return views


def power_view(power: RunPower | str, board: Board, clock: Clock | None = None) -> Callable[[], PowerView]:
    """Makes what the page asks for power and energy: means of the last `POWER_WINDOW_S` seconds.

    Arguments:
        power: what follows the run, or the text that says why nothing does.
        board: counts the pairs that were answered.
        clock: that of the meter and the board.
    """
    if isinstance(power, str):
        return lambda: PowerView(note=power)
    meter = power.meter
    if meter is None:
        return lambda: PowerView(note="an external meter is read when the run is over")
    return lambda: _measured(meter, board, clock or MonotonicClock())


def _measured(meter: EnergyMeter, board: Board, clock: Clock) -> PowerView:
    facts = meter.facts
    rail = f"{facts.meter}, {facts.scope}: {' + '.join(facts.total_rails) or 'no total'}"
    caveat = f"{facts.caveat}. " if facts.caveat else ""
    if meter.failed:
        return PowerView(rail=rail, note=f"the power sensor failed: {meter.failed}")
    end_ns = clock.now_ns() - round(2e9 / meter.hz)  # samples lie around the end of the window
    start_ns = end_ns - round(POWER_WINDOW_S * 1e9)
    try:
        energy = meter.energy_between(start_ns, end_ns)
    except MeterError as error:
        return PowerView(rail=rail, note=f"{caveat}{error}")
    pairs = board.answered_between(start_ns, end_ns)
    return PowerView(
        energy.mean_w,
        1e3 * energy.corrected_j / pairs if pairs else None,
        rail,
        f"{caveat}mean of {POWER_WINDOW_S:g} s, idle included, ± {energy.sigma_j / energy.duration_s:.2g} W",
    )
