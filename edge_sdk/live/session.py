"""Everything that goes along with a run - page, recording, MQTT - as one thing to open and close."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

from edge_sdk.closing import ClosedByWith, close_within
from edge_sdk.errors import ConfigError
from edge_sdk.frames import FramePair
from edge_sdk.live.alarms import AlarmRule
from edge_sdk.live.board import Board
from edge_sdk.live.connect import camera_views, power_view
from edge_sdk.live.control import Control, SteeredSource
from edge_sdk.live.guard import Address
from edge_sdk.live.lamps import SlaLamps
from edge_sdk.live.limits import Limits
from edge_sdk.live.proxy import Proxy
from edge_sdk.measurements import Route
from edge_sdk.meter.run_power import RunPower
from edge_sdk.pipeline import Detector
from edge_sdk.publish.mqtt import Broker, MqttPublisher
from edge_sdk.recording import RecordingPlan, RunRecording, SeenThroughJpeg
from edge_sdk.report.record import NO_POWER
from edge_sdk.report.verdict import Verdicts
from edge_sdk.requirements import install_hint
from edge_sdk.runs import Observer, live_conditions, open_recording
from edge_sdk.sla import Sla
from edge_sdk.sources import Source

if TYPE_CHECKING:
    from edge_sdk.live.server import LiveServer

__all__ = ["LiveOptions", "LiveSession"]

_CLOSE_S = {"the recording": 10.0, "MQTT": 6.0, "the SLA lamps": 3.0, "the page": 10.0}
"""How long each is waited for at the end of a run: all but a hanging disk or network need a part of it."""


@dataclass(frozen=True)
class LiveOptions:
    """What goes along with a run. By default nothing does.

    Attributes:
        serve: where the page is served, or None.
        token, names: see `Guard`. The token is not part of the object's text.
        token_file: where the token is kept, for people, or None.
        proxy: that stands before the page, or None.
        limits: what those who connect to the page are granted.
        record: where the run is recorded to from its start, or None.
        record_on_demand: where a viewer may record to, or None.
        registration_file: where a viewer may save a registration, or None.
        sla: limits for the lamps, or None.
        alarms: what raises an alarm.
        broker, spool: where MQTT messages go, and the file in which they wait; None: nowhere.
        every_result: publish every pair, not only those with detections or another route.
        force: a route for every pair, which a viewer may lift.
    """

    serve: Address | None = None
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    proxy: Proxy | None = None
    limits: Limits = field(default_factory=Limits)
    names: tuple[str, ...] = ()
    record: RecordingPlan | None = None
    record_on_demand: RecordingPlan | None = None
    registration_file: Path | None = None
    sla: Sla | None = None
    alarms: AlarmRule = field(default_factory=AlarmRule)
    broker: Broker | None = None
    spool: Path | None = None
    every_result: bool = False
    force: Route | None = None

    def __post_init__(self) -> None:
        if self.token is not None and self.serve is None:
            raise ConfigError("--token: there is no page to guard; add --serve")
        if self.proxy is not None and self.serve is None:
            raise ConfigError("--behind-proxy: there is no page; add --serve")
        if (self.broker is None) != (self.spool is None):
            raise ConfigError("MQTT needs both: a broker, and a file in which messages wait")


class LiveSession(ClosedByWith):
    """Opens what `LiveOptions` ask for; give its `source`, `force` and `observers` to the run.

        with LiveSession(detector, source, LiveOptions(serve=parse_address(":8080"))) as live:
            edge_sdk.run_source(detector, live.source, force=live.force, observers=live.observers)

    Arguments:
        detector, source: of the run; both open; the caller closes them.
        options: what goes along.
        asked_engine, asked_device: what `load` was asked for.
        pace_hz: of the run.
        power: what follows the run with a power meter, or the text that says why nothing does.

    Attributes:
        source: the run's source from now on: it carries a viewer's registration, and stops when asked.
        observers: for the run.
        board, control, server: see their types; `server` is None without `serve`.

    Raises:
        ConfigError, DeviceError: something cannot be opened; nothing is then left open.
    """

    def __init__(
        self,
        detector: Detector,
        source: Source,
        options: LiveOptions,
        *,
        asked_engine: str = "",
        asked_device: str = "auto",
        pace_hz: float | None = None,
        power: RunPower | str = NO_POWER,
    ) -> None:
        self._options = options
        plan = options.record or options.record_on_demand
        seen: SeenThroughJpeg | None = None
        if plan is not None and plan.rgb == "jpeg":
            seen = SeenThroughJpeg(source, plan.jpeg_quality, lambda: self.control.is_recording)
        jpeg_of = seen.jpeg_of if seen is not None else None

        def start(where: RecordingPlan, begins_run: bool) -> Callable[[], RunRecording]:
            return lambda: open_recording(
                detector,
                source,
                where,
                asked_device=asked_device,
                jpeg_of=jpeg_of,
                begins_run=begins_run,
            )

        on_demand = options.record_on_demand
        self.control = Control(
            start_recording=start(on_demand, begins_run=False) if on_demand else None,
            registration_file=options.registration_file,
            force=options.force,
        )
        self.source: Source = cast(Source, SteeredSource(seen or source, self.control))
        self.board = Board(_facts(detector, source), rule=options.alarms)
        self.board.cameras = camera_views(source, self.board)
        self.board.power = power_view(power, self.board)
        self.observers: list[Observer] = [self.control]
        self.server: LiveServer | None = None
        self.mqtt: MqttPublisher | None = None
        self._lamps: SlaLamps | None = None
        self._left_behind: list[str] = []
        with ExitStack() as stack:
            self._closed_by(stack, "the recording", self.control.close)
            if options.record is not None:
                self.control.begin(start(options.record, begins_run=True)())
            if options.broker is not None and options.spool is not None:
                self.mqtt = MqttPublisher(options.broker, options.spool, every=options.every_result)
                self._closed_by(stack, "MQTT", self.mqtt.close)
                self.observers.append(self.mqtt)
            if options.sla is not None:
                self._lamps = SlaLamps(
                    options.sla,
                    detector,
                    source,
                    asked_engine=asked_engine,
                    asked_device=asked_device,
                    pace_hz=pace_hz,
                    power=power,
                    on_verdict=self._judged,
                )
                self._closed_by(stack, "the SLA lamps", self._lamps.close)
                self.observers.append(self._lamps)
            if options.serve is not None:
                self.observers.append(self.board)
                self.server = _server_type()(
                    self.board,
                    self.control,
                    options.serve,
                    token=options.token,
                    names=options.names,
                    sla=self._lamps.as_json if self._lamps else None,
                    proxy=options.proxy,
                    limits=options.limits,
                )
                self._closed_by(stack, "the page", self.server.close)
            self._stack = stack.pop_all()

    def force(self, pair: FramePair) -> Route | None:
        """Names the route that a viewer forces on a pair: for `run_source(force=...)`."""
        return self.control.force_for(pair)

    def stop(self) -> None:
        """Ends the run after the pair in hand."""
        self.control.stopped = True

    def stop_on_signals(self) -> None:
        """Lets the first Ctrl-C, SIGTERM or SIGHUP end the run in good order, and a second one at once.

        A signal that this process was started to ignore (`nohup`) stays ignored. Only in the main thread;
        elsewhere it does nothing. Undone by `close`.
        """
        if threading.current_thread() is not threading.main_thread():
            return

        def stop(number: int, frame: FrameType | None) -> None:
            if self.control.stopped:
                raise KeyboardInterrupt
            self.stop()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._stack.callback(signal.signal, number, signal.signal(number, stop))

    def lines(self) -> list[str]:
        """Says, for people, where everything goes: what to print at the start."""
        found = []
        if self.server is not None:
            guard, proxy = self.server.guard, self._options.proxy
            found.append(f"Live page: {self.server.url if guard.token_was_made else self.server.open_url}")
            if proxy is not None:
                found.append(f"It listens at {self.server.address.url()} for the proxy.")
            if self._options.token_file is not None:
                found.append(f"Its token is the line in {self._options.token_file}")
            if guard.token_was_made:
                found.append("The token was made for this run.")
            if guard.token is not None and not (proxy is not None and proxy.is_encrypted):
                found.append("The connection is not encrypted.")
        if self._options.record is not None:
            found.append(f"Recording: {self._options.record.path}")
        if self._options.broker is not None:
            found.append(f"MQTT: {self._options.broker}; messages wait in {self._options.spool}")
        return found

    def last_lines(self) -> list[str]:
        """Says how everything ended: what to print after `close`."""
        found = list(self._left_behind)
        if self.server is not None and self.server.cut_off:
            found.append(f"Live page: {self.server.cut_off} connections did not end and were cut off")
        if self.server is not None and self.server.left_behind:
            found.append(f"Live page: left behind: {self.server.left_behind}")
        if self.control.last_recording:
            found.append(f"Recording: {self.control.last_recording}")
        if self.mqtt is not None:
            counts = f"{self.mqtt.published} confirmed, {self.mqtt.left_waiting} waiting on disk"
            lost = f", {self.mqtt.lost} lost" if self.mqtt.lost else ""
            problem = f" ({self.mqtt.problem})" if self.mqtt.problem else ""
            found.append(f"MQTT: {counts}{lost}{problem}")
        return found

    def close(self) -> None:
        """Ends everything, the recording whole, within seconds: what hangs is left behind and said.

        A second call does nothing.
        """
        self._stack.close()

    def _closed_by(self, stack: ExitStack, name: str, close: Callable[[], None]) -> None:
        stack.callback(partial(self._close, name, close))

    def _close(self, name: str, close: Callable[[], None]) -> None:
        limit_s = _CLOSE_S[name]
        if not close_within(limit_s, close):
            self._left_behind.append(f"{name} could not be closed within {limit_s:g} s and was left behind")

    def _judged(self, verdicts: Verdicts, frames: int) -> None:
        if self.mqtt is not None:
            self.mqtt.judged(verdicts, frames)


def _server_type() -> type[LiveServer]:
    try:
        import prometheus_client  # noqa: F401 - checked before anything is opened

        from edge_sdk.live.server import LiveServer
    except ImportError as error:
        raise ConfigError(f"--serve needs the package {error.name}: {install_hint('serve')}") from None
    return LiveServer


def _facts(detector: Detector, source: Source) -> dict[str, Any]:
    manifest = detector.bundle.manifest
    null = " - no engine: nothing is inferred" if detector.choice.device == "null" else ""
    return {
        "title": f"edge-sdk{null}",
        "engine": f"{manifest.name} {manifest.version} {detector.choice.precision}",
        "provider": detector.choice.provider,
        "source": source.uri,
        "conditions": live_conditions(detector),
    }
