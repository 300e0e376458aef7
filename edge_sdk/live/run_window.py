"""The last pairs of a run that goes on, as lamps judge them: answers, losses and missed turns."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edge_sdk.measurements import FrameResult, Reason, Route
from edge_sdk.report.camera_losses import pairs_lost

__all__ = ["CameraLosses", "Forcing", "RunWindow", "Seen", "Turns"]


@dataclass(frozen=True)
class Seen:
    """One pair of the window.

    Attributes:
        result: its answer, None where there is none, and `why`.
        start_ns: when its work began.
        missed_turns: turns of the pace that were missed right before it.
        number: of its answer in the run, from 0.
    """

    result: FrameResult | None
    start_ns: int
    why: str = ""
    missed_turns: int = 0
    number: int = -1


@dataclass(frozen=True)
class Forcing:
    """When somebody else than the router chose the route.

    Attributes:
        route: that is forced now, or None.
        since: when that began, or when the window began anew after it; seconds since 1970.
    """

    route: Route | None
    since: float


class Turns:
    """Counts turns of a pace at which no pair came, from when pairs came.

    Arguments:
        pace_hz: turns a second; None: there are none to miss.
    """

    _TOLERANCE = 0.05  # of a turn, for a thread that is put aside between its turn and this call

    def __init__(self, pace_hz: float | None) -> None:
        self._pace_hz = pace_hz
        self._first_ns: float | None = None
        self._turn = 0

    def missed_before(self, now_ns: int) -> int:
        """Returns how many turns passed without a pair right before the one that comes now."""
        if self._pace_hz is None:
            return 0
        period_ns = 1e9 / self._pace_hz
        if self._first_ns is None:
            self._first_ns = now_ns
            return 0
        passed = (now_ns - self._first_ns) / period_ns
        turn = max(self._turn + 1, int(passed + self._TOLERANCE))
        missed = turn - self._turn - 1
        self._turn = turn
        self._first_ns = min(self._first_ns, now_ns - turn * period_ns)  # the first call may have been late
        return missed


class RunWindow:
    """Keeps the newest pairs. Not safe from several threads.

    Pairs whose route was forced are no choice of the router's: they are left out, and the window begins anew
    after them, since rates across a hole say nothing.

    Arguments:
        most: pairs kept.
        pace_hz: of the run.
    """

    def __init__(self, most: int, pace_hz: float | None) -> None:
        self._pairs: deque[Seen] = deque(maxlen=most)
        self._turns = Turns(pace_hz)
        self._start_ns = self._missed = self._answered = 0
        self.forcing: Forcing | None = None

    @property
    def pairs(self) -> list[Seen]:
        """The pairs, oldest first. Copies: the list."""
        return list(self._pairs)

    def arrived(self, now_ns: int) -> None:
        """Notes that work on a pair begins."""
        self._start_ns = now_ns
        self._missed += self._turns.missed_before(now_ns)

    def answered(self, result: FrameResult, unix_s: float) -> None:
        """Takes the answer of the pair that arrived."""
        number, self._answered = self._answered, self._answered + 1
        if result.reason is Reason.FORCED:
            if self.forcing is None or self.forcing.route is not result.route:
                self.forcing = Forcing(result.route, unix_s)
            self._pairs.clear()
            self._missed = 0
            return
        if self.forcing is not None and self.forcing.route is not None:
            self.forcing, self._missed = Forcing(None, unix_s), 0
        self._add(Seen(result, self._start_ns, missed_turns=self._missed, number=number))

    def unanswered(self, now_ns: int, why: str) -> None:
        """Takes a pair without an answer."""
        if self.forcing is None or self.forcing.route is None:
            self._add(Seen(None, now_ns, why, self._missed))

    def _add(self, seen: Seen) -> None:
        self._pairs.append(seen)
        self._missed = 0


class CameraLosses:
    """Counts the pairs that live cameras lost, from the ledgers their source keeps.

    Arguments:
        status: gives `CameraSource.status()`.
    """

    def __init__(self, status: Callable[[], Mapping[str, Any]]) -> None:
        self._status = status
        self._totals: deque[tuple[int, Counter[str]]] = deque()

    def take(self, now_ns: int, keep_from_ns: int) -> None:
        """Reads the ledgers.

        Arguments:
            now_ns: monotonic time.
            keep_from_ns: what is older than the last reading before this may be forgotten.
        """
        self._totals.append((now_ns, pairs_lost(self._status())))
        while len(self._totals) > 1 and self._totals[1][0] <= keep_from_ns:
            self._totals.popleft()

    def lost(self) -> dict[str, int]:
        """Returns pairs lost by cause, from the reading before the window to the last one."""
        if not self._totals:
            return {}
        found = self._totals[-1][1] - self._totals[0][1]
        return {cause: count for cause, count in found.items() if count}
