"""Tells an MQTT broker what a run finds, and keeps it on disk while the broker is away."""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.closing import ClosedByWith
from edge_sdk.errors import ConfigError
from edge_sdk.frames import FramePair
from edge_sdk.measurements import FrameResult
from edge_sdk.publish.messages import result_message, sla_message, status_message
from edge_sdk.publish.spool import Spool
from edge_sdk.report.verdict import Verdicts
from edge_sdk.requirements import install_hint

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessageInfo

__all__ = ["Broker", "MqttPublisher", "parse_broker"]

_IN_FLIGHT = 50
"""Messages on their way at one time, not yet acknowledged."""

_ENCODE = (
    "Expected mqtt://[USER@]HOST[:PORT][/TOPIC]; in a user, password or topic write "
    "/ : @ % as %2F %3A %40 %25"
)
_QUEUED = 1000
_SLA_AGAIN_NS = 60_000_000_000
_RECONNECT_S = (1, 30)
_RETRY_NS = 1_000_000_000
_IDLE_S, _BUSY_S = 1.0, 0.02
"""How often the thread looks around, and at messages on their way: a confirmation follows its event."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Broker:
    """Where messages go.

    Attributes:
        host, port: of the broker.
        tls: whether the connection is encrypted, and the broker's certificate checked.
        user, password: or None. The password is not part of the object's text.
        base: the topic that all messages lie below.
    """

    host: str
    port: int
    tls: bool
    user: str | None
    password: str | None = field(repr=False)
    base: str

    def __str__(self) -> str:
        return f"{'mqtts' if self.tls else 'mqtt'}://{self.host}:{self.port}/{self.base}"


def parse_broker(url: str, name: str = "run") -> Broker:
    """Reads `mqtt://[USER:PASSWORD@]HOST[:PORT][/BASE/TOPIC]`, or `mqtts://` for TLS.

    Arguments:
        url: as above.
        name: the base topic is `edge-sdk/NAME` where the URL gives none.

    Raises:
        ConfigError: it is no such URL.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its text may hold a part of the password
        raise ConfigError(f"--mqtt: host or port cannot be read. {_ENCODE}") from None
    if parts.scheme not in ("mqtt", "mqtts") or not parts.hostname:
        raise ConfigError(
            f"--mqtt: expected mqtt://HOST[:PORT][/TOPIC] or mqtts://..., "
            f"found scheme {parts.scheme!r}, host {parts.hostname or ''!r}"
        )
    if parts.query or parts.fragment:
        raise ConfigError("--mqtt: a broker's URL has no ? and no #; write them as %3F and %23")
    if "@" in parts.path:
        raise ConfigError(f"--mqtt: a / stands before the @. {_ENCODE}")
    base = unquote(parts.path).strip("/") or f"edge-sdk/{name}"
    if any(wild in base for wild in "+#\0"):
        raise ConfigError(f"--mqtt: a topic to publish to cannot hold + or #, found {base!r}")
    tls = parts.scheme == "mqtts"
    return Broker(
        parts.hostname,
        port or (8883 if tls else 1883),
        tls,
        unquote(parts.username) if parts.username else None,
        unquote(parts.password) if parts.password else None,
        base,
    )


class MqttPublisher(ClosedByWith):
    """Publishes results and SLA verdicts: an observer for `run_source` and `record_run`.

    The run's thread hands results over and goes on; another thread writes them to the spool and gives
    them to the broker from there, at least once each, in order. The broker may be away at the start and
    at any time, and the disk may be full: nothing in a run waits for them or fails by them.

    Arguments:
        broker: where to.
        spool: file of the messages that wait.
        every: publish every answered pair; by default those with detections or another route than before.
        limit: messages that wait at most.
        client_id: that of MQTT; by default one the broker makes.
        now_s: gives the date that messages carry, seconds since 1970.
        clock: what intervals are measured with.

    Attributes:
        run: names this publisher in its messages; see `edge_sdk.publish.messages`.
        published: messages that the broker confirmed.
        left_waiting: messages on disk for the next start; known after `close`.

    Raises:
        ConfigError: the package `paho-mqtt` is not installed, or the spool is a database of something else.
        DeviceError: the spool cannot be made, or another run holds it.
    """

    def __init__(
        self,
        broker: Broker,
        spool: Path,
        *,
        every: bool = False,
        limit: int = 100_000,
        client_id: str = "",
        now_s: Callable[[], float] = time.time,
        clock: Clock | None = None,
    ) -> None:
        try:
            import paho.mqtt.client as paho
            from paho.mqtt.enums import CallbackAPIVersion
        except ImportError:
            raise ConfigError(f"--mqtt needs the package paho-mqtt: {install_hint('mqtt')}") from None
        self._broker, self._every, self._now_s = broker, every, now_s
        self._clock = clock or MonotonicClock()
        self._spool = Spool(spool, limit=limit)
        self.run = uuid.uuid4().hex[:12]
        self._queue: queue.Queue[tuple[str, dict[str, Any], bool]] = queue.Queue(_QUEUED)
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._on_the_way: deque[tuple[MQTTMessageInfo, int]] = deque()
        self._sent_to = 0
        self._sequence = self._retried_ns = 0
        self._route: object = None
        self._sla: tuple[object, int] | None = None
        self._closing = False
        self._connection = ""
        self.published = self.left_out = self.left_waiting = 0
        self._client: Client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv311
        )
        self._success, self._no_connection = paho.MQTT_ERR_SUCCESS, paho.MQTT_ERR_NO_CONN
        if broker.user is not None:
            self._client.username_pw_set(broker.user, broker.password)
        if broker.tls:
            self._client.tls_set()
        self._client.max_inflight_messages_set(_IN_FLIGHT)
        self._client.reconnect_delay_set(*_RECONNECT_S)
        self._write_will()
        self._client.on_connect = self._connected
        self._client.on_disconnect = self._disconnected
        self._client.on_publish = self._acknowledged
        self._client.connect_async(broker.host, broker.port, keepalive=30)
        self._client.loop_start()
        self._thread = threading.Thread(target=self._serve, name="edge-sdk mqtt", daemon=True)
        self._thread.start()

    @property
    def problem(self) -> str:
        """What is wrong with the connection or the disk now, or what became of a damaged spool; or ""."""
        aside = [f"a damaged spool was set aside as {path}" for path in self._spool.set_aside]
        return "; ".join(filter(None, (self._connection, self._spool.problem, *aside)))

    @property
    def lost(self) -> int:
        """Messages thrown away: the spool was full, the disk failed for long, or the run was far too fast."""
        return self._spool.lost + self.left_out

    @property
    def conditions(self) -> list[str]:
        """What the run's record must say of its messages."""
        return [f"{self.lost} MQTT messages of this run were lost."] if self.lost else []

    @property
    def waiting(self) -> int:
        """Messages that the broker has not confirmed yet."""
        return len(self._spool) + self._queue.qsize()

    def arrived(self, pair: FramePair) -> None:
        """See `Observer.arrived`."""

    def answered(self, pair: FramePair, result: FrameResult) -> None:
        """See `Observer.answered`."""
        if self._every or len(result.detections) or result.route is not self._route:
            self._put("result", result_message(result, self.run, self._next(), self._now_s()))
        self._route = result.route

    def unanswered(self, pair: FramePair | None, key: str, why: str) -> None:
        """See `Observer.unanswered`."""

    def judged(self, verdicts: Verdicts, frames: int) -> None:
        """Takes an SLA verdict; published where it differs from the last one, and once a minute.

        Arguments:
            verdicts: of the last frames.
            frames: how many those are.
        """
        now_ns = self._clock.now_ns()
        state = verdicts.overall, tuple((c.clause, c.verdict) for c in verdicts.clauses)
        if self._sla is not None and self._sla[0] == state and now_ns - self._sla[1] < _SLA_AGAIN_NS:
            return
        self._sla = state, now_ns
        message = sla_message(verdicts, frames, self.run, self._next(), self._now_s())
        self._put("sla", message, retain=True)

    def close(self, drain_s: float = 2.0) -> None:
        """Ends. What the broker does not take within `drain_s` seconds stays on disk for the next start."""
        if self._closing:
            return
        self._closing = True
        self._wake.set()
        self._thread.join()
        deadline_s = time.monotonic() + drain_s
        while len(self._spool) and self._client.is_connected() and time.monotonic() < deadline_s:
            self._settle()
            self._send()
            self._wake.wait(_BUSY_S)
            self._wake.clear()
        if self._client.is_connected():
            gone = _encoded(status_message("offline", self.run, self._sequence, self._now_s()))
            told = self._client.publish(f"{self._broker.base}/status", gone, qos=1, retain=True)
            with contextlib.suppress(RuntimeError, ValueError):  # it broke meanwhile: the last will says so
                told.wait_for_publish(drain_s)
        self._client.disconnect()
        self._client.loop_stop()
        self._settle()
        self._spool.close()
        self.left_waiting = len(self._spool)

    def _next(self) -> int:
        with self._lock:
            self._sequence += 1
            return self._sequence - 1

    def _put(self, topic: str, message: dict[str, Any], *, retain: bool = False) -> None:
        try:
            self._queue.put_nowait((f"{self._broker.base}/{topic}", message, retain))
        except queue.Full:
            self.left_out += 1
        self._wake.set()

    def _serve(self) -> None:
        while True:
            self._wake.wait(_BUSY_S if self._on_the_way and self._client.is_connected() else _IDLE_S)
            self._wake.clear()
            ending = self._closing
            try:
                self._step()
            except Exception:  # whatever it was, later messages must not be lost by it
                _log.exception("MQTT: a step failed")
            if ending:
                return

    def _step(self) -> None:
        self._keep()
        now_ns = self._clock.now_ns()
        if now_ns - self._retried_ns > _RETRY_NS:
            self._retried_ns = now_ns
            self._spool.retry()
        self._settle()
        self._send()

    def _keep(self) -> None:
        """Moves what the run handed over to the disk."""
        while True:
            try:
                topic, message, retain = self._queue.get_nowait()
            except queue.Empty:
                return
            self._spool.put(topic, _encoded(message), retain=retain)

    def _send(self) -> None:
        """Gives the broker the oldest messages, as many as may be on their way."""
        while self._client.is_connected() and len(self._on_the_way) < _IN_FLIGHT:
            rows = self._spool.peek(self._sent_to, _IN_FLIGHT - len(self._on_the_way))
            if not rows:
                return
            for number, topic, payload, retain in rows:
                told = self._client.publish(topic, payload, qos=1, retain=retain)
                if told.rc == self._no_connection:
                    told.rc = self._success  # the client has it, and sends it on the next connection
                if told.rc != self._success:
                    return
                self._sent_to = number
                self._on_the_way.append((told, number))

    def _settle(self) -> None:
        """Takes from the disk what the broker has confirmed.

        Each message is known by the object that its sending gave: packet ids begin anew after 65535.
        """
        confirmed = {number for told, number in self._on_the_way if told.is_published()}
        if confirmed:
            self._on_the_way = deque(entry for entry in self._on_the_way if entry[1] not in confirmed)
            self._spool.done(confirmed)
            self.published += len(confirmed)

    def _acknowledged(self, client: Client, data: Any, mid: int, *_: Any) -> None:
        self._wake.set()

    def _write_will(self) -> None:
        """Says what the broker is to publish when the connection breaks; anew before each connection."""
        gone = _encoded(status_message("offline", self.run, self._sequence, self._now_s()))
        self._client.will_set(f"{self._broker.base}/status", gone, qos=1, retain=True)

    def _connected(self, client: Client, data: Any, flags: Any, reason: Any, *_: Any) -> None:
        if reason.is_failure:
            self._connection = f"{self._broker}: refused: {reason}"
            return
        self._connection = ""
        _log.info("connected to %s", self._broker)
        there = _encoded(status_message("online", self.run, self._sequence, self._now_s()))
        client.publish(f"{self._broker.base}/status", there, qos=1, retain=True)
        self._wake.set()

    def _disconnected(self, client: Client, data: Any, flags: Any, reason: Any, *_: Any) -> None:
        if not self._closing:
            if not self._connection:  # after a refusal its reason stands: the loss that follows says less
                self._connection = f"{self._broker}: connection lost: {reason}"
            _log.info("%s", self._connection)
            self._write_will()


def _encoded(message: dict[str, Any]) -> bytes:
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode()
