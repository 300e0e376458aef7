"""MQTT messages and their schema, the spool, broker URLs; signs of life for systemd."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sdk.detections import BoxTemperatures, Detections
from edge_sdk.errors import ConfigError, DeviceError
from edge_sdk.measurements import FrameResult, Reason, Route, Signals
from edge_sdk.publish.messages import (
    RESULT_SCHEMA,
    SLA_SCHEMA,
    STATUS_SCHEMA,
    result_message,
    sla_message,
    status_message,
)
from edge_sdk.publish.mqtt import parse_broker
from edge_sdk.publish.spool import Spool
from edge_sdk.publish.systemd import ServiceNotifier
from edge_sdk.report.verdict import ClauseVerdict, Dependence, Outcome, Verdicts


def result(heat: BoxTemperatures | None = None) -> FrameResult:
    found = Detections(
        np.array([[1.23, 2, 30, 40]], np.float32),
        np.array([1.0], np.float32),
        np.array([0]),
        ("hotspot",),
        (heat,),
    )
    return FrameResult(
        "007",
        Route.FUSE,
        Reason.HOT_REGION,
        Signals("ok", "ok"),
        found,
        True,
        {"engine": 5_000_000},
        {"fuse": 5},
    )


heats = st.none() | st.builds(
    BoxTemperatures, st.sampled_from(["K", "counts"]), *[st.floats()] * 3, st.none() | st.floats()
)


@given(heats)
def test_results_keep_their_schema_whatever_the_heat(heat: BoxTemperatures | None) -> None:
    message = json.loads(json.dumps(result_message(result(heat), "r1", 3, 1.5), allow_nan=False))
    jsonschema.validate(message, RESULT_SCHEMA)
    assert message["time"] == "1970-01-01T00:00:01.500+00:00"
    assert (message["run"], message["sequence"]) == ("r1", 3)
    assert message["detections"][0]["box_xyxy"] == [1.2, 2.0, 30.0, 40.0]


def test_the_schema_would_catch_a_lost_field() -> None:
    message = result_message(result(), "r1", 0, 0.0)
    del message["detections"][0]["heat"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(message, RESULT_SCHEMA)


def test_verdicts_and_status_keep_their_schema() -> None:
    clause = ClauseVerdict(
        "latency.p99_ms", 60.0, "ms", None, None, None, 12, Outcome.INCONCLUSIVE, "too few"
    )
    verdicts = Verdicts(
        "gate 4", Outcome.INCONCLUSIVE, 0.99, (clause,), (), Dependence(None, 0, None, None), 1, ()
    )
    message = sla_message(verdicts, 12, "r1", 4, 0.0)
    jsonschema.validate(json.loads(json.dumps(message)), SLA_SCHEMA)
    jsonschema.validate(status_message("offline", "r1", 0, 0.0), STATUS_SCHEMA)


def test_the_readme_of_messages_names_every_field() -> None:
    for schema in (RESULT_SCHEMA, SLA_SCHEMA, STATUS_SCHEMA):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert set(schema["required"]) == set(schema["properties"])


@pytest.mark.parametrize(
    ("url", "host", "port", "tls", "base"),
    [
        ("mqtt://broker", "broker", 1883, False, "edge-sdk/run"),
        ("mqtts://broker", "broker", 8883, True, "edge-sdk/run"),
        ("mqtt://broker:99/site/7/", "broker", 99, False, "site/7"),
        ("mqtt://[::1]:99", "::1", 99, False, "edge-sdk/run"),
    ],
)
def test_broker_urls(url: str, host: str, port: int, tls: bool, base: str) -> None:
    broker = parse_broker(url)
    assert (broker.host, broker.port, broker.tls, broker.base) == (host, port, tls, base)


def test_a_password_is_not_shown() -> None:
    broker = parse_broker("mqtt://me:s%40cret@broker/x")
    assert (broker.user, broker.password) == ("me", "s@cret")
    assert "s@cret" not in str(broker)


@pytest.mark.parametrize(
    "url",
    [
        "broker:1883",
        "http://broker",
        "mqtt://",
        "mqtt://b/a+b",
        "mqtt://b/a%23",
        "mqtt://b:x",
        "mqtt://b?q=1",
    ],
)
def test_wrong_broker_urls(url: str) -> None:
    with pytest.raises(ConfigError, match="--mqtt"):
        parse_broker(url)


def test_the_spool_outlives_its_process(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "deep" / "spool.db")
    for number in range(5):
        spool.put("t", str(number).encode(), retain=number == 4)
    rows = spool.peek()
    spool.done([rows[0].id])
    spool._holder.close()  # of all that `close` does, a kill -9 does this alone
    again = Spool(tmp_path / "deep" / "spool.db")
    assert len(again) == 4
    assert [(row[1], row[2], row[3]) for row in again.peek(count=9)] == [
        ("t", b"1", False), ("t", b"2", False), ("t", b"3", False), ("t", b"4", True)
    ]  # fmt: skip
    assert [row[2] for row in again.peek(after=rows[2][0], count=1)] == [b"3"]
    again.done([rows[0].id])
    assert len(again) == 4, "done twice counts once"
    again.close()


def test_a_full_spool_loses_the_oldest_and_counts_them(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", limit=3)
    for number in range(10):
        spool.put("t", str(number).encode())
    assert len(spool) == 3
    assert spool.lost == 7
    assert [row[2] for row in spool.peek()] == [b"7", b"8", b"9"]
    spool.close()


def payloads(spool: Spool) -> list[bytes]:
    return [row.payload for row in spool.peek(count=10_000)]


def filled(path: Path, count: int) -> Spool:
    spool = Spool(path)
    for number in range(count):
        spool.put("t", b"%d" % number)
    return spool


def test_what_is_no_spool_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.db") as other:
        other.execute("CREATE TABLE people (name TEXT)")
    other.close()
    with pytest.raises(ConfigError, match=r"a database of something else.*--mqtt-spool"):
        Spool(tmp_path / "x.db")
    with sqlite3.connect(tmp_path / "x.db") as other:
        assert [row[0] for row in other.execute("SELECT name FROM sqlite_master")] == ["people"]
    other.close()
    with pytest.raises(DeviceError, match="cannot be"):
        Spool(tmp_path / "x.db" / "y.db")
    with pytest.raises(ConfigError, match="1 message or more"):
        Spool(tmp_path / "z.db", limit=0)


@pytest.mark.parametrize("damage", ["another file", "truncated", "overwritten"])
def test_a_damaged_spool_is_set_aside_and_said(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "spool.db"
    filled(path, 500).close()
    whole = path.read_bytes()
    spoilt = {
        "another file": b"something else" * 1000,
        "truncated": whole[: len(whole) // 2],
        "overwritten": whole[:8192] + bytes(4096) + whole[12288:],
    }[damage]
    path.write_bytes(spoilt)
    with Spool(path) as spool:
        (aside,) = spool.set_aside
        assert aside.read_bytes() == spoilt, "evidence is moved, not changed"
        assert aside.parent == tmp_path
        assert f"set aside as {aside.name}" in caplog.text
        spool.put("t", b"news")
        assert payloads(spool) == [b"news"]
        assert (spool.problem, spool.lost) == ("", 0)
    with Spool(path) as spool:
        assert payloads(spool) == [b"news"]
        assert spool.set_aside == []


def test_damage_in_the_middle_of_a_run_is_set_aside_too(tmp_path: Path) -> None:
    path = tmp_path / "spool.db"
    spool = filled(path, 500)
    last = spool.peek(count=10_000)[-1].id
    spool._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:
        file.write(b"?" * 8192)
    spool._database.execute("PRAGMA cache_size=0")
    spool.put("t", b"news")
    spool.retry()
    assert payloads(spool) == [b"news"]
    assert spool.peek()[0].id > last, "ids go on: a message that was sent is not taken for a new one"
    assert (len(spool.set_aside), spool.problem) == (1, "")
    spool.close()


def test_a_spool_is_held_by_one_run(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db")
    (tmp_path / "link.db").symlink_to("spool.db")
    for name in ("spool.db", "link.db"):
        with pytest.raises(DeviceError, match=rf"process {os.getpid()} \(since .*holds it.*--mqtt-spool"):
            Spool(tmp_path / name)
    spool.put("t", b"1")
    spool.close()
    spool.close()
    with Spool(tmp_path / "spool.db") as spool:
        assert payloads(spool) == [b"1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.db", "spool.db"]


def full(spool: Spool, is_full: bool) -> None:
    """Lets SQLite meet a full disk, as far as it can tell: no page more than there are."""
    pages = spool._database.execute("PRAGMA page_count").fetchone()[0]
    spool._database.execute(f"PRAGMA max_page_count={pages if is_full else 1 << 30}")


def test_a_full_disk_costs_nothing_but_a_warning_until_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = filled(tmp_path / "spool.db", 10)
    full(spool, True)
    for number in range(10, 200):
        spool.put("t", b"%d" % number + b" " * 200)
    assert spool.in_memory > 0
    assert "full; messages wait in memory" in spool.problem
    assert len(spool) == 200
    numbers = [int(payload) for payload in payloads(spool)]
    assert numbers == list(range(200)), "nothing is lost, and all in order"
    spool.retry()
    assert spool.in_memory > 0
    first = spool.peek(count=3)
    spool.done([message.id for message in first])
    spool.done([spool.peek(count=10_000)[-1].id])
    assert len(spool) == 196
    full(spool, False)
    spool.retry()
    assert (spool.in_memory, spool.problem, spool.lost) == (0, "", 0)
    assert caplog.text.count("takes no messages") == caplog.text.count("takes messages again") == 1
    spool.close()
    with Spool(tmp_path / "spool.db") as spool:
        assert [int(payload) for payload in payloads(spool)] == list(range(3, 199))


def test_a_disk_that_stays_full_costs_the_oldest_and_they_are_counted(tmp_path: Path) -> None:
    spool = filled(tmp_path / "spool.db", 10)
    full(spool, True)
    while not spool.in_memory:
        spool.put("t", b" " * 200)
    on_disk = len(spool) - spool.in_memory
    for _ in range(1500):
        spool.put("t", b" " * 200)
    assert (spool.in_memory, spool.lost) == (1000, 501)
    spool.close()
    assert spool.lost == 1501, "what memory alone had is lost with it"
    with Spool(tmp_path / "spool.db") as spool:
        assert len(spool) == on_disk


def test_a_spool_that_was_removed_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "disk" / "spool.db"
    spool = filled(path, 3)
    path.parent.rename(tmp_path / "unplugged")
    spool.retry()
    assert "wait in memory" in spool.problem
    assert payloads(spool) == [b"0", b"1", b"2"]
    path.parent.mkdir()
    for number in range(3, 6):
        spool.put("t", b"%d" % number)
        spool.retry()
    assert payloads(spool) == [b"%d" % number for number in range(6)]
    assert len(spool) == 6
    spool.close()
    with Spool(path) as spool:
        assert payloads(spool) == [b"%d" % number for number in range(6)]


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[tuple[dict[str, str], Any]]:
    """A service manager's end of the socket, and what a service finds in its environment."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.setblocking(False)

        def heard() -> list[str]:
            messages = []
            while True:
                try:
                    messages.append(channel.recv(4096).decode())
                except BlockingIOError:
                    return messages

        yield {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "8000000"}, heard


def test_the_manager_hears_what_systemd_expects(manager: tuple[dict[str, str], Any]) -> None:
    environment, heard = manager
    notify = ServiceNotifier(environment)
    assert notify.watchdog_ns == 8_000_000_000
    notify.ready("up")
    notify.status("fuse")
    second = 1_000_000_000
    sent = [notify.alive(at * second) for at in (100, 101, 102, 103, 104)]
    assert sent == [True, False, True, False, True], "four signs of life a watchdog time"
    notify.stopping()
    assert heard() == ["READY=1\nSTATUS=up", "STATUS=fuse", *["WATCHDOG=1"] * 3, "STOPPING=1"]


def test_without_a_manager_nothing_happens(tmp_path: Path) -> None:
    notify = ServiceNotifier({})
    notify.ready()
    assert not notify.alive(5)
    gone = ServiceNotifier({"NOTIFY_SOCKET": str(tmp_path / "gone")})
    gone.ready()
    other = ServiceNotifier(
        {"NOTIFY_SOCKET": "x", "WATCHDOG_USEC": "1000", "WATCHDOG_PID": str(os.getpid() + 1)}
    )
    assert other.watchdog_ns is None


def test_a_manager_that_does_not_listen_holds_up_nothing(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        notify = ServiceNotifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            other.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    other.sendto(b"x", str(tmp_path / "notify"))
        notify.status("nobody reads this")


def test_abstract_sockets_are_reached() -> None:
    name = f"edge-sdk-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(f"\0{name}")
        ServiceNotifier({"NOTIFY_SOCKET": f"@{name}"}).ready()
        assert channel.recv(100) == b"READY=1"
