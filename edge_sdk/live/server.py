"""Serves the live page on threads of its own; the run never waits for it.

One thread makes pictures, a few a second and only while somebody looks. One event loop talks to the
viewers. Both run at normal priority: a thread of low priority that holds the interpreter on a busy
machine is put aside with it, and the run would wait for both. A viewer confirms each picture that it
has shown; who is slow gets fewer pictures, always the newest, and nobody else notices.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from aiohttp import web

from edge_sdk.closing import ClosedByWith
from edge_sdk.errors import DeviceError
from edge_sdk.live.actions import viewer_actions
from edge_sdk.live.board import Board
from edge_sdk.live.control import Control
from edge_sdk.live.guard import Address, Guard, token_query
from edge_sdk.live.limits import Limits
from edge_sdk.live.listener import Connection, Listener, listen
from edge_sdk.live.metrics import metrics_text
from edge_sdk.live.pictures import LiveFrame, still_pictures
from edge_sdk.live.proxy import Proxy, is_loopback
from edge_sdk.live.site import HEADERS, Site, on_own_thread, refusal
from edge_sdk.live.viewer import MOST_MESSAGE_BYTES, Viewer

__all__ = ["LiveServer"]

_STALE_MS = 5000.0
_STATE_KEPT_S = 0.2
_PICTURES_END_S, _SERVER_ENDS_S = 2.0, 6.0
"""How long the two threads are waited for at the end of a run."""

_SWITCH_S = 0.0005
"""How long one thread of Python may keep the run's thread waiting while the page is up; 5 ms by default.

A run gives the interpreter away in every call of OpenCV and ONNX Runtime and wants it back at once.
"""


class LiveServer(ClosedByWith):
    """The page of one run.

    Arguments:
        board: what is shown; feed it with the run's pairs.
        control: what viewers may change.
        address: where to listen; port 0 takes a free one, see `address` afterwards.
        token: see `Guard`.
        names: further names of this machine that a browser may use.
        sla: gives the SLA lamps, or None.
        max_fps: pictures a second at most.
        proxy: that stands before the page, or None.
        limits: what those who connect are granted.

    Attributes:
        address: where it listens.
        guard: its checks; `guard.token` is the token.
        cut_off: connections that `close` had to cut off.
        left_behind: threads that did not end within their time, and were left; "" where all did.

    Raises:
        ConfigError: the token is no good.
        DeviceError: the address is taken or not this machine's.
    """

    def __init__(
        self,
        board: Board,
        control: Control,
        address: Address,
        *,
        token: str | None = None,
        names: tuple[str, ...] = (),
        sla: Callable[[], dict[str, Any]] | None = None,
        max_fps: float = 10.0,
        proxy: Proxy | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._board, self._control, self._sla = board, control, sla
        self._picture_s = 1.0 / max_fps
        self.address = address
        self.guard = Guard(address, token, names, proxy)
        self._limits = limits or Limits()
        self.cut_off, self.left_behind = 0, ""
        self._viewers: set[Viewer] = set()
        self._dropped = self._sent = 0
        self._state_text, self._state_until_s = "", 0.0
        self._frame: LiveFrame | None = None
        self._stills = asyncio.Semaphore(1)
        self._ending = threading.Event()
        self._watched = threading.Event()
        self._loop = asyncio.new_event_loop()
        started: Future[int] = Future()
        self._server_thread = threading.Thread(
            target=self._serve, args=(started,), name="edge-sdk page", daemon=True
        )
        self._server_thread.start()
        try:
            started.result()
        except OSError as error:
            self._server_thread.join()
            raise DeviceError(
                f"{address.host}:{address.port}: cannot listen there: {error.strerror or error}. "
                "Name another port: --serve HOST:PORT"
            ) from None
        self._picture_thread = threading.Thread(
            target=self._make_pictures, name="edge-sdk pictures", daemon=True
        )
        self._picture_thread.start()
        self._switch_s = sys.getswitchinterval()
        sys.setswitchinterval(min(self._switch_s, _SWITCH_S))

    @property
    def url(self) -> str:
        """What to open in a browser, with the token if there is one."""
        return self._url(self.guard.token)

    @property
    def open_url(self) -> str:
        """What to open in a browser, without the token."""
        return self._url(None)

    def _url(self, token: str | None) -> str:
        proxy = self.guard.proxy
        return self.address.url(token) if proxy is None else proxy.url + token_query(token)

    def state(self) -> dict[str, Any]:
        """Returns everything the page shows beside the picture."""
        return {
            **self._board.as_json(),
            "sla": self._sla() if self._sla else None,
            "control": self._control.as_json(),
            "page": {"viewers": len(self._viewers), "dropped": self._dropped, "sent": self._sent},
        }

    def cpu_s(self) -> float:
        """Returns the processor time that the page's threads have taken, in seconds."""
        threads = (self._server_thread, self._picture_thread)
        clocks = [time.pthread_getcpuclockid(thread.ident) for thread in threads if thread.ident is not None]
        return sum(time.clock_gettime(clock) for clock in clocks)

    def state_text(self) -> str:
        """Returns the message that holds the state, made a few times a second for all viewers together."""
        now_s = time.monotonic()
        if now_s >= self._state_until_s:
            self._state_text = json.dumps({"state": self.state()})
            self._state_until_s = now_s + _STATE_KEPT_S
        return self._state_text

    def close(self) -> None:
        """Ends both threads and every connection within seconds. A second call does nothing."""
        if self._ending.is_set():
            return
        self._ending.set()
        self._watched.set()
        with contextlib.suppress(RuntimeError):  # the loop has ended with an error
            self._loop.call_soon_threadsafe(self._stop.set)
        self._picture_thread.join(_PICTURES_END_S)
        self._server_thread.join(_SERVER_ENDS_S)
        threads = (self._picture_thread, self._server_thread)
        self.left_behind = ", ".join(thread.name for thread in threads if thread.is_alive())
        sys.setswitchinterval(self._switch_s)

    # Pictures -------------------------------------------------------------------------------------

    def _make_pictures(self) -> None:
        shown = 0
        while not self._ending.is_set():
            self._board.tick()
            if not self._viewers:
                self._watched.wait(0.5)
                self._watched.clear()
                continue
            begun_s = time.monotonic()
            latest = self._board.wait(shown, 0.2)
            if latest is None:
                continue
            shown = latest[0]
            frame = LiveFrame.make(*latest, self._board.rule)
            self._frame = frame
            with contextlib.suppress(RuntimeError):  # the loop has just ended
                self._loop.call_soon_threadsafe(self._offer, frame)
            self._ending.wait(max(0.0, self._picture_s - (time.monotonic() - begun_s)))

    def _offer(self, frame: LiveFrame) -> None:
        for viewer in self._viewers:
            self._dropped += viewer.offer(frame)

    # The event loop -------------------------------------------------------------------------------

    def _serve(self, started: Future[int]) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._run(started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)
        finally:
            self._loop.close()

    async def _run(self, started: Future[int]) -> None:
        self._stop = asyncio.Event()
        sockets = listen(self.address.host, self.address.port)
        port: int = sockets[0].getsockname()[1]
        self.address = self.guard.address = Address(self.address.host, port)
        gets = {
            "/api/state": self._get_state,
            "/api/history": self._get_history,
            "/api/still": self._get_still,
            "/healthz": self._get_health,
            "/metrics": self._get_metrics,
        }
        self._site = Site(
            self.guard, self._limits, gets, viewer_actions(self._board, self._control), self._watch
        )
        listener = Listener(sockets, self._site.answer, self._limits, HEADERS, self._is_local)
        started.set_result(port)
        await self._stop.wait()
        listener.stop()
        goodbyes = [asyncio.ensure_future(viewer.close()) for viewer in self._viewers]
        if goodbyes:
            _, late = await asyncio.wait(goodbyes, timeout=self._limits.goodbye_s)
            for goodbye in late:
                goodbye.cancel()
        self.cut_off = await listener.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=self._limits.goodbye_s)

    def _is_local(self, peer: str) -> bool:
        proxy = self.guard.proxy
        return is_loopback(peer) or (proxy is not None and proxy.is_peer(peer))

    async def _get_state(self, request: web.BaseRequest) -> web.Response:
        return web.json_response(self.state())

    async def _get_history(self, request: web.BaseRequest) -> web.Response:
        return web.json_response(self._board.history())

    async def _get_health(self, request: web.BaseRequest) -> web.Response:
        age_ms = self._board.age_ms
        alive = age_ms is not None and age_ms < _STALE_MS
        body = {"status": "ok" if alive else "no pairs", "last_pair_age_ms": age_ms}
        return web.json_response(body, status=200 if alive else 503)

    async def _get_metrics(self, request: web.BaseRequest) -> web.Response:
        body, kind = metrics_text(self.state())
        return web.Response(body=body, headers={"Content-Type": kind})

    async def _get_still(self, request: web.BaseRequest) -> web.Response:
        latest = self._board.latest
        if latest is None:
            return refusal(409, "no pair has come yet")
        async with self._stills:
            pictures = await on_own_thread(still_pictures, latest[1])
        for picture in filter(None, pictures.values()):
            picture["jpeg"] = "data:image/jpeg;base64," + base64.b64encode(picture["jpeg"]).decode()
        return web.json_response({"key": latest[1].key, **pictures})

    async def _watch(self, request: web.BaseRequest) -> web.StreamResponse:
        """One viewer, until it goes. A plain request is told whether there is a place."""
        limits = self._limits
        if len(self._viewers) >= limits.viewers:
            return refusal(503, f"{limits.viewers} viewers are connected already")
        socket = web.WebSocketResponse(
            heartbeat=limits.send_s, timeout=limits.goodbye_s, max_msg_size=MOST_MESSAGE_BYTES, compress=False
        )
        if request.headers.get("Upgrade", "").lower() != "websocket":
            return refusal(426, "this address is for the page's WebSocket")
        try:
            await socket.prepare(request)
        except ValueError:  # a key of odd letters
            return refusal(400, "this is no whole request for a WebSocket")
        connection = request.protocol
        assert isinstance(connection, Connection)
        viewer = Viewer(socket, self.state_text, self._count_sent, connection.due, limits)
        self._viewers.add(viewer)
        self._watched.set()
        if self._frame is not None:
            viewer.offer(self._frame)
        try:
            await viewer.serve()
        finally:
            self._viewers.discard(viewer)
        return socket

    def _count_sent(self) -> None:
        self._sent += 1
