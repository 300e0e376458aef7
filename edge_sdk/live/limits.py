"""How much the page may take of the machine, and how often a token may be guessed: rules without sockets."""

from __future__ import annotations

import ipaddress
import os
import resource
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from edge_sdk.clock import Clock, MonotonicClock

__all__ = ["Guesses", "Limits", "Seats", "address_key", "handles_left"]


@dataclass(frozen=True)
class Limits:
    """What the page grants those who connect.

    Attributes:
        connections: at one time, all addresses together.
        each: of these, from one other machine.
        reserve: further ones that only this machine may have, for `/healthz` and `/metrics`.
        handles: file handles that are left to the run: its files, cameras and recordings.
        viewers: sockets of the page at one time.
        accepted_hz: new connections a second; more wait in the kernel.
        head_s: a connection must ask within so many seconds, and a request's head be whole.
        request_s: a request must be read, answered and its answer taken within so many seconds.
        idle_s: a connection may rest so long between requests.
        send_s: a viewer must take what is sent to it within so many seconds.
        goodbye_s: at the end of a run viewers are given so long to take their leave.
    """

    connections: int = 128
    each: int = 32
    reserve: int = 8
    handles: int = 64
    viewers: int = 16
    accepted_hz: float = 100.0
    head_s: float = 10.0
    request_s: float = 30.0
    idle_s: float = 30.0
    send_s: float = 10.0
    goodbye_s: float = 1.0


def handles_left() -> int:
    """Returns how many file handles this process may still open."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if most == resource.RLIM_INFINITY:
        return 1 << 30
    listing = Path("/proc/self/fd")
    try:
        used = len(os.listdir(listing))  # noqa: PTH208 - the shortest way, and this is asked often
    except OSError:
        return 0
    return most - used


def address_key(address: str) -> str:
    """Returns what counts as one address: an IPv4 address, or the /64 that one IPv6 machine has to itself."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        if not found.is_loopback:
            return str(ipaddress.ip_network((int(found), 64), strict=False))
    return str(found)


@dataclass
class _Seat:
    address: str
    is_local: bool
    is_proven: bool = False
    is_busy: bool = False


class Seats:
    """Who may be connected at one time.

    Where all seats are taken, a connection that has asked for nothing yet makes room: the oldest of the
    address that has most. One that is known to hold the token, or that is being answered, keeps its seat.

    Arguments:
        limits: see there.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._seats: dict[Hashable, _Seat] = {}

    def __len__(self) -> int:
        return len(self._seats)

    def ask(self, address: str, is_local: bool, handles: int) -> tuple[bool, Hashable | None]:
        """Asks for one more connection.

        Arguments:
            address: as `address_key` gives it.
            is_local: of this machine, or of the proxy: then the limit of one address does not hold.
            handles: that the process may still open.

        Returns: whether it may come, and who must go for it, or None.
        """
        limits = self._limits
        kept = limits.handles + (0 if is_local else limits.reserve)
        most = limits.connections + (limits.reserve if is_local else 0)
        if not is_local and sum(seat.address == address for seat in self._seats.values()) >= limits.each:
            return self._instead_of(address)
        if handles <= kept or len(self._seats) >= most:
            return self._instead_of(None)
        return True, None

    def take(self, who: Hashable, address: str, is_local: bool) -> None:
        """Notes a new connection."""
        self._seats[who] = _Seat(address, is_local)

    def leave(self, who: Hashable) -> None:
        """Notes that a connection has ended."""
        self._seats.pop(who, None)

    def mark(self, who: Hashable, *, is_proven: bool | None = None, is_busy: bool | None = None) -> None:
        """Notes that a connection holds the token, or is being answered."""
        seat = self._seats.get(who)
        if seat is not None:
            seat.is_proven = seat.is_proven if is_proven is None else is_proven
            seat.is_busy = seat.is_busy if is_busy is None else is_busy

    def _instead_of(self, address: str | None) -> tuple[bool, Hashable | None]:
        counts = Counter(seat.address for seat in self._seats.values())
        idle = [
            (-counts[seat.address], at, who)
            for at, (who, seat) in enumerate(self._seats.items())
            if not (seat.is_proven or seat.is_busy) and address in (None, seat.address)
        ]
        if not idle:
            return False, None
        return True, min(idle, key=lambda each: each[:2])[2]


class Guesses:
    """Slows whoever guesses tokens, and nobody who holds the right one.

    The first five wrong tokens of an address cost nothing; each further one doubles what its next waits
    before it is looked at, up to ten seconds. One is forgiven every ten seconds. The table is bounded: when
    it is full, addresses that are new share one entry.

    Arguments:
        most: addresses at one time.
        clock: the machine's by default.
    """

    FREE, FIRST_S, MOST_S, FORGIVEN_S, MOST_COUNTED = 5, 0.5, 10.0, 10.0, 30

    def __init__(self, most: int = 1024, clock: Clock | None = None) -> None:
        self._most, self._clock = most, clock or MonotonicClock()
        self._counted: dict[str, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self._counted)

    def begin(self, address: str) -> float:
        """Counts a guess before it is looked at, so that many at once gain nothing.

        Returns: seconds to wait until then.
        """
        key, count = self._find(address)
        self._counted[key] = min(count + 1, self.MOST_COUNTED), self._now_s()
        over = ceil(count) - self.FREE
        return 0.0 if over < 0 else min(self.MOST_S, self.FIRST_S * 2.0**over)

    def was_right(self, address: str) -> None:
        """Takes the guess back: it was none."""
        key, count = self._find(address)
        if count <= 1:
            self._counted.pop(key, None)
        else:
            self._counted[key] = count - 1, self._now_s()

    def _find(self, address: str) -> tuple[str, float]:
        now_s = self._now_s()
        if address not in self._counted and len(self._counted) >= self._most:
            self._counted = {
                key: (count, at_s)
                for key, (count, at_s) in self._counted.items()
                if count > (now_s - at_s) / self.FORGIVEN_S
            }
        full = address not in self._counted and len(self._counted) >= self._most
        key = "" if full else address
        count, at_s = self._counted.get(key, (0.0, now_s))
        return key, max(0.0, count - (now_s - at_s) / self.FORGIVEN_S)

    def _now_s(self) -> float:
        return self._clock.now_ns() / 1e9
