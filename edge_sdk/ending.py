"""How a run ends before its time: by a signal or an error, with what was measured until then kept.

ending = Ending()
with ending.listening():
    record = record_run(detector, source, plan, asked_engine="substation-rgbt", ending=ending)
raise SystemExit(ending.exit_status or 0)
"""

from __future__ import annotations

import errno
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Ending", "StoppedBySignal", "is_disk_full"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class StoppedBySignal(BaseException):
    """A signal asked this process to end. No error: nothing that handles errors may catch it.

    Attributes:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)


class Ending:
    """What ended a run before its time, if anything did.

    While a run goes on, the first signal ends it behind the pair in hand, or at once where it waits for the
    next pair; a second one does not wait for the engine either. Behind the run signals are only noted until
    the results are `saved`. Before and after that a signal raises `StoppedBySignal`.

    Attributes:
        signal: number of the first signal; 0: none came.
        error: what the run failed with, or None.
        signals: how many came.
        cut: whether the run ended because of either.
        waiting: a context in which the first signal raises: for waits that nothing is lost by.
        working: a context in which the second one does: for work that may hang.
    """

    def __init__(self) -> None:
        self.signal = 0
        self.error: BaseException | None = None
        self.cut = False
        self.waiting = _Breakable(self, 1)
        self.working = _Breakable(self, 2)
        self._state = ""
        self.signals = 0

    @property
    def exit_status(self) -> int:
        """128 + the signal's number, 3 for an error, 0 where neither ended the run."""
        if self.signal:
            return 128 + self.signal
        return 3 if self.error is not None else 0

    @contextmanager
    def listening(self) -> Iterator[Ending]:
        """Takes SIGINT, SIGTERM and SIGHUP for the time of a `with` block.

        Only in the main thread; elsewhere it does nothing. A signal that was ignored (`nohup`) stays so.
        """
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        before = {
            number: signal.signal(number, self._take)
            for number in _SIGNALS
            if signal.getsignal(number) not in (signal.SIG_IGN, None)
        }
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def running(self) -> Iterator[None]:
        """The time of a run. Behind it signals are only noted, until everything is `saved`."""
        self._state = "running"
        try:
            yield
        finally:
            self._state = "saving"

    def saved(self) -> None:
        """Says that nothing can be lost any more: a signal ends the process at once again."""
        self._state = ""

    def raise_signal(self) -> None:
        """Raises `StoppedBySignal` where a signal came."""
        if self.signal:
            raise StoppedBySignal(self.signal)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.signal = self.signal or number
        self.signals += 1
        broken = self.waiting.broken() or self.working.broken()
        if not self._state or (self._state == "running" and broken):
            raise StoppedBySignal(self.signal)


class _Breakable:
    """A context that so many signals break. Entered again and again; costs little."""

    def __init__(self, ending: Ending, signals: int) -> None:
        self._ending, self._least = ending, signals
        self._on = False

    def broken(self) -> bool:
        """Whether the context is entered and enough signals came."""
        return self._on and self._ending.signals >= self._least

    def __enter__(self) -> None:
        self._on = True
        if self.broken():
            self._on = False
            raise StoppedBySignal(self._ending.signal)

    def __exit__(self, *error: object) -> None:
        self._on = False


def is_disk_full(error: BaseException) -> bool:
    """Whether an error comes of a disk, a quota or a size limit that is used up."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in _FULL:
            return True
        seen = seen.__cause__ or seen.__context__
    return False
