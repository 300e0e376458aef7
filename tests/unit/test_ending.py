"""What signals do to a run: outside it, while it waits, while it works, and while results are saved."""

from __future__ import annotations

import errno
import os
import signal
import threading

import pytest

from edge_sdk.ending import Ending, StoppedBySignal, is_disk_full
from edge_sdk.errors import SaveError


def kill(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_outside_a_run_a_signal_ends_at_once(number: signal.Signals) -> None:
    ending = Ending()
    with ending.listening(), pytest.raises(StoppedBySignal, match=number.name) as caught:
        kill(number)
    assert caught.value.number == number
    assert ending.exit_status == 128 + number


def test_in_a_run_the_first_is_noted_and_breaks_the_next_wait() -> None:
    ending = Ending()
    with ending.listening(), ending.running():
        kill()
        assert ending.signal == signal.SIGTERM
        with ending.working:
            pass
        with pytest.raises(StoppedBySignal), ending.waiting:
            raise AssertionError("the wait began")


def test_a_wait_is_broken_at_once_and_work_by_the_second_signal() -> None:
    ending = Ending()
    with ending.listening(), ending.running():
        with pytest.raises(StoppedBySignal), ending.waiting:
            kill()
        with pytest.raises(StoppedBySignal), ending.working:
            kill()
    assert ending.signals == 2


def test_behind_a_run_signals_wait_until_everything_is_saved() -> None:
    ending = Ending()
    with ending.listening():
        with ending.running():
            pass
        kill(signal.SIGHUP)
        kill(signal.SIGHUP)
        assert ending.exit_status == 128 + signal.SIGHUP
        ending.saved()
        with pytest.raises(StoppedBySignal):
            kill(signal.SIGHUP)


def test_a_signal_that_was_ignored_stays_so_and_handlers_are_put_back() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        usual = signal.getsignal(signal.SIGTERM)
        ending = Ending()
        with ending.listening():
            kill(signal.SIGHUP)
            assert signal.getsignal(signal.SIGTERM) != usual
        assert ending.signal == 0
        assert signal.getsignal(signal.SIGTERM) == usual
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_thread_takes_no_signals() -> None:
    found: list[object] = []

    def listen() -> None:
        with Ending().listening():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGTERM)]


def test_a_full_disk_is_known_through_its_causes() -> None:
    full = OSError(errno.ENOSPC, "full")
    error = SaveError("r.json", full)
    assert not is_disk_full(error)
    error.__cause__ = full
    assert is_disk_full(error)
    assert not is_disk_full(ValueError("x"))
