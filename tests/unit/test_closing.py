"""What hangs is not waited for."""

from __future__ import annotations

import threading
import time

import pytest

from edge_sdk.closing import close_within
from edge_sdk.errors import DeviceError


def test_what_closes_in_time_is_closed() -> None:
    closed: list[int] = []
    assert close_within(10.0, lambda: closed.append(1))
    assert closed == [1]


def test_what_hangs_is_left_behind() -> None:
    released = threading.Event()
    begun_s = time.monotonic()
    assert not close_within(0.05, lambda: released.wait(30) and None)
    assert time.monotonic() - begun_s < 10
    released.set()


def test_errors_of_closing_are_told() -> None:
    def fail() -> None:
        raise DeviceError("the disk is full")

    with pytest.raises(DeviceError, match="the disk is full"):
        close_within(10.0, fail)
