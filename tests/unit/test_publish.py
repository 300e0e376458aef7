"""MQTT messages and their schema, the spool, broker URLs; signs of life for systemd."""

from __future__ import annotations

import json
import os
import socket
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
    message = json.loads(json.dumps(result_message(result(heat), 3, 1.5), allow_nan=False))
    jsonschema.validate(message, RESULT_SCHEMA)
    assert message["time"] == "1970-01-01T00:00:01.500+00:00"
    assert message["sequence"] == 3
    assert message["detections"][0]["box_xyxy"] == [1.2, 2.0, 30.0, 40.0]


def test_the_schema_would_catch_a_lost_field() -> None:
    message = result_message(result(), 0, 0.0)
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
    message = sla_message(verdicts, 12, 4, 0.0)
    jsonschema.validate(json.loads(json.dumps(message)), SLA_SCHEMA)
    jsonschema.validate(status_message("offline", 0, 0.0), STATUS_SCHEMA)


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
    spool.done(rows[0][0])
    del spool  # no close: as after kill -9
    again = Spool(tmp_path / "deep" / "spool.db")
    assert len(again) == 4
    assert [(row[1], row[2], row[3]) for row in again.peek(count=9)] == [
        ("t", b"1", False), ("t", b"2", False), ("t", b"3", False), ("t", b"4", True)
    ]  # fmt: skip
    assert [row[2] for row in again.peek(after=rows[2][0], count=1)] == [b"3"]
    again.done(rows[0][0])
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


def test_what_is_no_spool_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"something else" * 100)
    with pytest.raises(ConfigError, match="not a file of waiting messages"):
        Spool(tmp_path / "x.db")
    with pytest.raises(DeviceError, match="cannot be"):
        Spool(tmp_path / "x.db" / "y.db")
    with pytest.raises(ConfigError, match="1 message or more"):
        Spool(tmp_path / "z.db", limit=0)


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


def test_abstract_sockets_are_reached() -> None:
    name = f"edge-sdk-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(f"\0{name}")
        ServiceNotifier({"NOTIFY_SOCKET": f"@{name}"}).ready()
        assert channel.recv(100) == b"READY=1"
