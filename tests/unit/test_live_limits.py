"""Who gets a seat, and how guesses are slowed: no socket, no waiting."""

from __future__ import annotations

import pytest

from edge_sdk.clock import FakeClock
from edge_sdk.live.limits import Guesses, Limits, Seats, address_key, handles_left

PLENTY = 1000
FEW = Limits(connections=6, each=3, reserve=2, handles=10)


def seated(seats: Seats, *who: tuple[str, str], is_local: bool = False) -> Seats:
    for name, address in who:
        may_come, goes = seats.ask(address, is_local, PLENTY)
        assert may_come
        assert goes is None
        seats.take(name, address, is_local)
    return seats


def test_one_address_cannot_have_all_seats() -> None:
    seats = seated(Seats(FEW), ("a1", "a"), ("a2", "a"), ("a3", "a"))
    assert seats.ask("a", False, PLENTY) == (True, "a1"), "its own oldest makes room"
    assert seats.ask("b", False, PLENTY) == (True, None)
    for name in ("a1", "a2", "a3"):
        seats.mark(name, is_proven=True)
    assert seats.ask("a", False, PLENTY) == (False, None), "all of them are in use"
    assert seats.ask("b", False, PLENTY) == (True, None)


def test_where_all_seats_are_taken_the_greediest_idle_address_makes_room() -> None:
    seats = seated(
        Seats(FEW), ("v", "viewer"), ("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("b2", "b")
    )
    assert seats.ask("c", False, PLENTY) == (True, "a1")
    seats.mark("a1", is_busy=True)
    assert seats.ask("c", False, PLENTY) == (True, "a2"), "one that is being answered stays"
    seats.mark("a1", is_busy=False)
    seats.leave("a1")
    assert len(seats) == 5
    assert seats.ask("c", False, PLENTY) == (True, None)


def test_who_knows_the_token_keeps_the_seat() -> None:
    names = [(f"{letter}{number}", letter) for letter in "ab" for number in range(3)]
    seats = seated(Seats(FEW), *names)
    for name, _ in names:
        seats.mark(name, is_proven=True)
        seats.mark(name, is_busy=False)
    assert seats.ask("c", False, PLENTY) == (False, None)
    assert seats.ask("here", True, PLENTY) == (True, None), "the reserve of this machine"
    seats = seated(seats, ("h1", "here"), ("h2", "here"), is_local=True)
    assert seats.ask("here", True, PLENTY) == (True, "h1")
    seats.mark("nobody", is_proven=True)


def test_this_machine_may_have_more_than_one_address() -> None:
    seats = seated(Seats(FEW), *[(str(number), "here") for number in range(8)], is_local=True)
    assert seats.ask("here", True, PLENTY) == (True, "0")


@pytest.mark.parametrize(
    ("handles", "is_local", "may_come"),
    [(13, False, True), (12, False, False), (12, True, True), (10, True, False)],
)
def test_handles_are_left_to_the_run(handles: int, is_local: bool, may_come: bool) -> None:
    assert Seats(FEW).ask("a", is_local, handles) == (may_come, None)


def test_handles_are_counted() -> None:
    before = handles_left()
    with open("/dev/null", "rb"):  # noqa: PTH123
        assert handles_left() == before - 1
    assert before > 0


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("192.168.1.5", "192.168.1.5"),
        ("::ffff:192.168.1.5", "192.168.1.5"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::1"),
        ("", ""),
        ("unix", "unix"),
    ],
)
def test_one_machine_is_one_address(address: str, key: str) -> None:
    assert address_key(address) == key


def test_guesses_are_slowed_and_forgiven() -> None:
    clock = FakeClock()
    guesses = Guesses(clock=clock)
    waits = [guesses.begin("a") for _ in range(12)]
    assert waits[:5] == [0.0] * 5
    assert waits[5:10] == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert waits[10:] == [10.0, 10.0]
    assert guesses.begin("b") == 0.0, "of another address"
    clock.advance_ns(int(130e9))
    assert guesses.begin("a") == 0.0
    for _ in range(100):
        guesses.begin("a")
    clock.advance_ns(int(310e9))
    assert guesses.begin("a") == 0.0, "it does not last for ever"


def test_right_tokens_are_no_guesses() -> None:
    guesses = Guesses(clock=FakeClock())
    for _ in range(100):
        assert guesses.begin("a") == 0.0
        guesses.was_right("a")
    assert len(guesses) == 0


def test_the_table_is_bounded_and_new_addresses_then_share() -> None:
    clock = FakeClock()
    guesses = Guesses(most=50, clock=clock)
    waits = [guesses.begin(str(number)) for number in range(500)]
    assert len(guesses) <= 51
    assert waits[:50] == [0.0] * 50
    assert waits[-1] == 10.0
    clock.advance_ns(int(400e9))
    assert guesses.begin("new") == 0.0
    assert len(guesses) <= 51
