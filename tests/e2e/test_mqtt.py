"""Messages reach a real Mosquitto, also those of the time when it was not there."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import paho.mqtt.client as paho
import pytest
from live_runs import eventually
from paho.mqtt.enums import CallbackAPIVersion
from pairs import make_pair

from edge_sdk.clock import FakeClock
from edge_sdk.pipeline import load
from edge_sdk.publish.messages import RESULT_SCHEMA, STATUS_SCHEMA
from edge_sdk.publish.mqtt import MqttPublisher, parse_broker
from edge_sdk.report.verdict import Dependence, Outcome, Verdicts
from edge_sdk.runs import run_source
from edge_sdk.sources import MemorySource

MOSQUITTO = shutil.which("mosquitto") or next(
    (str(path) for path in [Path("/usr/sbin/mosquitto")] if path.is_file()), None
)
pytestmark = pytest.mark.skipif(
    MOSQUITTO is None, reason="needs the broker mosquitto (Debian package mosquitto)"
)


class Broker:
    """A Mosquitto of the test's own, that can be killed and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._config = folder / "mosquitto.conf"
        self._config.write_text(f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence false\n")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert MOSQUITTO is not None
        self.process = subprocess.Popen(
            [MOSQUITTO, "-c", str(self._config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        assert eventually(self._answers), "mosquitto does not start"

    def stop(self, stopped: bool) -> None:
        """Lets it stand still, its connections open, or go on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP if stopped else signal.SIGCONT)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path)
    broker.start()
    yield broker
    broker.kill()


class Listener:
    """A subscriber that keeps what it hears."""

    def __init__(self, port: int) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self._subscribed = threading.Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.on_connect = lambda client, *_: client.subscribe("site/7/#", qos=1)
        self._client.on_subscribe = lambda *_: self._subscribed.set()
        self._client.on_message = lambda client, data, message: self.heard.append(
            (message.topic, json.loads(message.payload))
        )
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert self._subscribed.wait(20)

    def stamps(self) -> list[tuple[str, int]]:
        """Run and sequence of each result as it came, doubles too."""
        return [
            (message["run"], message["sequence"]) for topic, message in self.heard if topic == "site/7/result"
        ]

    def keys(self) -> list[str]:
        """Keys of the results, in the order in which they came, each once."""
        return list(
            dict.fromkeys(message["key"] for topic, message in self.heard if topic == "site/7/result")
        )

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@pytest.fixture
def answer(toy_fusion: Path) -> Iterator[Callable[[MqttPublisher, range], None]]:
    with load(str(toy_fusion), device="cpu", threads=1) as detector:

        def answer(publisher: MqttPublisher, numbers: range) -> None:
            pairs = [make_pair(number, hot=number % 5 == 0) for number in numbers]
            run_source(detector, MemorySource(pairs), observers=[publisher])

        yield answer


def test_nothing_is_lost_while_the_broker_is_killed_and_started_again(
    broker: Broker, tmp_path: Path, answer: Callable[[MqttPublisher, range], None]
) -> None:
    first = Listener(broker.port)
    where = parse_broker(f"mqtt://127.0.0.1:{broker.port}/site/7")
    with MqttPublisher(where, tmp_path / "spool.db", every=True) as publisher:
        answer(publisher, range(10))
        assert eventually(lambda: publisher.waiting == 0)
        assert eventually(lambda: len(first.keys()) == 10)
        before = first.keys()
        for topic, message in first.heard:
            jsonschema.validate(message, RESULT_SCHEMA if topic.endswith("result") else STATUS_SCHEMA)
        first.close()
        broker.kill()
        answer(publisher, range(10, 30))
        assert eventually(lambda: publisher.waiting == 20)
        assert eventually(lambda: "connection lost" in publisher.problem)
        broker.start()
        second = Listener(broker.port)
        answer(publisher, range(30, 35))
        assert eventually(lambda: publisher.waiting == 0, 60)
        assert eventually(lambda: len(second.keys()) + 10 >= 35)
    assert eventually(lambda: second.heard[-1][1].get("status") == "offline")
    after = second.keys()
    second.close()
    assert before + after == [f"{number:03d}" for number in range(35)]
    assert publisher.published == 35
    assert publisher.lost == 0


def test_messages_of_a_dead_process_reach_the_broker_at_the_next_start(
    broker: Broker, tmp_path: Path, answer: Callable[[MqttPublisher, range], None]
) -> None:
    where = parse_broker(f"mqtt://127.0.0.1:{broker.port}/site/7")
    broker.kill()
    with MqttPublisher(where, tmp_path / "spool.db", every=True) as publisher:
        answer(publisher, range(4))
    assert publisher.left_waiting == 4
    broker.start()
    listener = Listener(broker.port)
    with MqttPublisher(where, tmp_path / "spool.db", every=True) as publisher:
        assert eventually(lambda: publisher.waiting == 0, 60)
        assert eventually(lambda: len(listener.keys()) == 4)
    assert listener.keys() == ["000", "001", "002", "003"]
    listener.close()


def test_a_full_disk_does_not_end_the_publishing(
    broker: Broker, tmp_path: Path, answer: Callable[[MqttPublisher, range], None]
) -> None:
    """SQLite meets a full disk on storing and on removing; both happen later, and nothing is lost."""
    where = parse_broker(f"mqtt://127.0.0.1:{broker.port}/site/7")
    listener = Listener(broker.port)
    with MqttPublisher(where, tmp_path / "spool.db", every=True) as publisher:
        answer(publisher, range(5))
        assert eventually(lambda: publisher.waiting == 0)
        spool, room = publisher._spool, threading.Event()
        flush = spool._flush

        def no_room() -> None:
            if not room.is_set():
                spool._failed(sqlite3.OperationalError("database or disk is full"))
            else:
                flush()

        spool._flush = no_room  # type: ignore[method-assign]
        answer(publisher, range(5, 15))
        assert eventually(lambda: len(listener.keys()) == 15), "they go to the broker from memory"
        assert eventually(lambda: publisher.published == 15)
        assert "database or disk is full; messages wait in memory" in publisher.problem
        broker.kill()
        answer(publisher, range(15, 18))
        assert eventually(lambda: spool.in_memory == 3)
        room.set()
        assert eventually(lambda: spool.in_memory == 0)
        assert "disk" not in publisher.problem
        broker.start()
        assert eventually(lambda: publisher.waiting == 0, 60)
    assert publisher.lost == 0
    assert publisher.published == 18
    listener.close()


def test_a_packet_id_that_comes_again_confirms_nothing(
    broker: Broker, tmp_path: Path, answer: Callable[[MqttPublisher, range], None]
) -> None:
    """Ids are 16 bits: 65535 messages later a result has the id that `online` had, long confirmed."""
    where = parse_broker(f"mqtt://127.0.0.1:{broker.port}/site/7")
    with MqttPublisher(where, tmp_path / "spool.db", every=True) as publisher:
        answer(publisher, range(3))
        assert eventually(lambda: publisher.published == 3)
        publisher._client._last_mid = 65535  # type: ignore[attr-defined]
        broker.stop(True)
        answer(publisher, range(3, 8))
        assert eventually(lambda: len(publisher._on_the_way) == 5)
        assert not eventually(lambda: publisher.published > 3, 0.5), "nobody has confirmed them"
        assert publisher.waiting == 5
        broker.stop(False)
        assert eventually(lambda: publisher.published == 8)


def test_a_killed_runs_messages_come_again_under_their_own_name(
    broker: Broker, tmp_path: Path, toy_fusion: Path
) -> None:
    """Killed while messages are on their way: doubles have the same run and sequence, others never do."""
    from frames_on_disk import write_pairs

    write_pairs(tmp_path / "site", keys=[str(index) for index in range(8)])
    listener = Listener(broker.port)
    command = [
        sys.executable, "-m", "edge_sdk.cli.main", "run", "--source", f"pairs:{tmp_path}/site",
        "--engine", str(toy_fusion), "--device", "cpu", "--no-progress", "--mqtt-every", "--loop", "0",
        "--pace-hz", "30",
        "--mqtt", f"mqtt://127.0.0.1:{broker.port}/site/7", "--mqtt-spool", str(tmp_path / "spool.db"),
    ]  # fmt: skip
    for start in (1, 2):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
            assert eventually(lambda start=start: len({run for run, _ in listener.stamps()}) == start, 60)
            second = subprocess.run(command, capture_output=True, text=True, check=False)
            assert second.returncode == 3
            assert f"process {program.pid} (since" in second.stderr
            assert "--mqtt-spool" in second.stderr
            program.send_signal(signal.SIGKILL)
    done = subprocess.run([*command, "--frames", "5"], capture_output=True, text=True, check=False)
    assert "5 confirmed" in done.stdout or "0 waiting on disk" in done.stdout, done.stderr
    assert eventually(lambda: len({run for run, _ in listener.stamps()}) == 3)
    by_stamp: dict[tuple[str, int], str] = {}
    for topic, message in listener.heard:
        if topic == "site/7/result":
            stamp = message["run"], message["sequence"]
            assert by_stamp.setdefault(stamp, json.dumps(message)) == json.dumps(message)
    for run in {run for run, _ in by_stamp}:
        numbers = sorted(sequence for name, sequence in by_stamp if name == run)
        assert numbers == list(range(len(numbers))), "nothing of a run is missing"
    listener.close()


def test_verdicts_are_repeated_once_a_minute_whatever_the_date_does(tmp_path: Path) -> None:
    clock, date_s = FakeClock(), [2e9]
    verdicts = Verdicts("x", Outcome.PASS, 0.99, (), (), Dependence(None, 0, None, None), 1, ())
    with MqttPublisher(
        parse_broker("mqtt://127.0.0.1:9/x"), tmp_path / "spool.db", now_s=lambda: date_s[0], clock=clock
    ) as publisher:
        publisher.judged(verdicts, 1)
        date_s[0] = 1e9  # as when the first NTP answer comes
        publisher.judged(verdicts, 1)
        clock.advance_ns(59_000_000_000)
        date_s[0] = 3e9
        publisher.judged(verdicts, 1)
        assert publisher.waiting == 1
        clock.advance_ns(2_000_000_000)
        publisher.judged(verdicts, 1)
    assert publisher.left_waiting == 2


def test_only_findings_and_route_changes_unless_every_pair_is_asked_for(
    tmp_path: Path, toy_fusion: Path
) -> None:
    dark = [make_pair(number, bright=False) for number in range(5)]
    with (
        load(str(toy_fusion), device="cpu", threads=1) as detector,
        MqttPublisher(parse_broker("mqtt://127.0.0.1:9/x"), tmp_path / "spool.db") as publisher,
    ):
        results: list[int] = []
        run_source(
            detector,
            MemorySource(dark),
            observers=[publisher],
            on_result=lambda pair, result: results.append(len(result.detections)),
        )
    assert results == [0] * 5
    assert publisher.left_waiting == 1, "the first pair's route is news, the others' is not"


def test_the_command_line_publishes(broker: Broker, tmp_path: Path, toy_fusion: Path) -> None:
    from frames_on_disk import write_pairs

    write_pairs(tmp_path / "site")
    listener = Listener(broker.port)
    done = subprocess.run(
        [
            sys.executable, "-m", "edge_sdk.cli.main", "run", "--source", f"pairs:{tmp_path}/site",
            "--engine", str(toy_fusion), "--device", "cpu", "--no-progress", "--mqtt-every",
            "--mqtt", f"mqtt://127.0.0.1:{broker.port}/site/7", "--mqtt-spool", str(tmp_path / "spool.db"),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "MQTT: 4 confirmed, 0 waiting on disk" in done.stdout
    assert eventually(lambda: len(listener.keys()) == 4)
    listener.close()
