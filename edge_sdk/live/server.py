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
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from importlib import resources
from typing import Any

from aiohttp import web

from edge_sdk.closing import ClosedByWith
from edge_sdk.errors import ConfigError, DeviceError, EdgeSdkError
from edge_sdk.live.board import Board
from edge_sdk.live.control import Control
from edge_sdk.live.guard import Address, Guard
from edge_sdk.live.metrics import metrics_text
from edge_sdk.live.pictures import LiveFrame, still_pictures
from edge_sdk.live.viewer import MOST_MESSAGE_BYTES, Viewer
from edge_sdk.registering import fit_registration

__all__ = ["LiveServer"]

_MOST_BODY_BYTES = 16 * 1024
_MOST_VIEWERS = 16
_STALE_MS = 5000.0
_WRONG_TOKEN_S = 0.5
_STATE_KEPT_S = 0.2
_SWITCH_S = 0.0005
"""How long one thread of Python may keep the run's thread waiting while the page is up; 5 ms by default.

A run gives the interpreter away in every call of OpenCV and ONNX Runtime and wants it back at once.
"""

_FILES = {
    "/": ("index.html", "text/html"),
    "/app.js": ("app.js", "text/javascript"),
    "/picture.js": ("picture.js", "text/javascript"),
    "/register.js": ("register.js", "text/javascript"),
    "/style.css": ("style.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
"""Every file there is: a path is looked up here and never becomes a path on disk."""

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


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

    Attributes:
        address: where it listens.
        guard: its checks; `guard.token` is the token.

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
    ) -> None:
        self._board, self._control, self._sla = board, control, sla
        self._picture_s = 1.0 / max_fps
        self.address = address
        self.guard = Guard(address, token, names)
        static = resources.files("edge_sdk.live") / "static"
        self._files = {path: ((static / name).read_bytes(), kind) for path, (name, kind) in _FILES.items()}
        self._viewers: set[Viewer] = set()
        self._dropped = self._sent = 0
        self._state_text, self._state_until_s = "", 0.0
        self._frame: LiveFrame | None = None
        self._ending = threading.Event()
        self._watched = threading.Event()
        self._loop = asyncio.new_event_loop()
        started: Future[int] = Future()
        self._server_thread = threading.Thread(
            target=self._serve, args=(started,), name="edge-sdk page", daemon=True
        )
        self._server_thread.start()
        try:
            port = started.result()
        except OSError as error:
            self._server_thread.join()
            raise DeviceError(
                f"{address.host}:{address.port}: cannot listen there: {error.strerror or error}. "
                "Name another port: --serve HOST:PORT"
            ) from None
        self.address = Address(address.host, port)
        self.guard.address = self.address
        self._picture_thread = threading.Thread(
            target=self._make_pictures, name="edge-sdk pictures", daemon=True
        )
        self._picture_thread.start()
        self._switch_s = sys.getswitchinterval()
        sys.setswitchinterval(min(self._switch_s, _SWITCH_S))

    @property
    def url(self) -> str:
        """What to open in a browser, with the token if there is one."""
        return self.address.url(self.guard.token)

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
        """Ends both threads and every connection. A second call does nothing."""
        if self._ending.is_set():
            return
        self._ending.set()
        self._watched.set()
        self._picture_thread.join()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._server_thread.join()
        sys.setswitchinterval(self._switch_s)

    # Pictures -------------------------------------------------------------------------------------

    def _make_pictures(self) -> None:
        shown = 0
        while not self._ending.is_set():
            if not self._viewers:
                self._watched.wait(0.5)
                self._watched.clear()
                continue
            begun_s = time.monotonic()
            latest = self._board.wait(shown, 0.2)
            if latest is None:
                continue
            shown = latest[0]
            frame = LiveFrame.make(*latest)
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

        @web.middleware
        async def check(request: web.Request, handler: _Handler) -> web.StreamResponse:
            return await self._check(request, handler)

        app = web.Application(middlewares=[check], client_max_size=_MOST_BODY_BYTES)
        for path in self._files:
            app.router.add_get(path, self._get_file)
        app.router.add_get("/ws", self._watch)
        app.router.add_get("/api/state", self._get_state)
        app.router.add_get("/api/still", self._get_still)
        app.router.add_get("/healthz", self._get_health)
        app.router.add_get("/metrics", self._get_metrics)
        app.router.add_post("/login", self._post_login)
        for name, act in (
            ("force", self._force),
            ("record", self._record),
            ("registration/fit", self._fit),
            ("registration/apply", self._apply),
            ("registration/reset", self._reset),
            ("registration/save", self._save),
        ):
            app.router.add_post(f"/api/{name}", self._posted(act))
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        site = web.TCPSite(runner, self.address.host, self.address.port)
        try:
            await site.start()
        except OSError as error:
            await runner.cleanup()
            started.set_exception(error)
            return
        started.set_result(runner.addresses[0][1])
        await self._stop.wait()
        for viewer in list(self._viewers):
            await viewer.close()
        await runner.cleanup()

    async def _check(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Every request passes here first."""
        guard = self.guard
        response: web.StreamResponse
        try:
            if not guard.host_is_ours(request.headers.get("Host")):
                response = self._refuse(421, "this page is not served under that name; use the address")
            elif (request.method != "GET" or request.path == "/ws") and not guard.origin_is_ours(
                request.headers
            ):
                response = self._refuse(403, "requests of other pages are refused")
            elif guard.token_is_right(request.headers) or request.path == "/login":
                response = await handler(request)
            elif request.path == "/" and "token" in request.query:
                response = await self._log_in(request.query["token"])
            elif request.path in ("/style.css", "/icon.svg") and request.method == "GET":
                response = await self._get_file(request)  # for the page that asks for the token
            else:
                response = self._ask_for_token(request)
        except web.HTTPException as error:
            response = self._refuse(error.status, error.reason)
        if not response.prepared:
            for name, value in _HEADERS.items():
                response.headers.setdefault(name, value)
        return response

    def _refuse(self, status: int, why: str) -> web.Response:
        return web.json_response({"error": why}, status=status)

    def _ask_for_token(self, request: web.Request) -> web.Response:
        if request.path == "/":
            return web.Response(text=_LOGIN, content_type="text/html", status=401)
        response = self._refuse(401, "the token is missing or wrong")
        response.headers["WWW-Authenticate"] = "Bearer"
        return response

    async def _log_in(self, token: str) -> web.StreamResponse:
        if not self.guard.is_token(token):
            await asyncio.sleep(_WRONG_TOKEN_S)
            return web.Response(text=_LOGIN, content_type="text/html", status=401)
        response = web.Response(status=303, headers={"Location": "/"})
        response.set_cookie(self.guard.cookie_name, token, httponly=True, samesite="Strict", path="/")
        return response

    async def _post_login(self, request: web.Request) -> web.StreamResponse:
        return await self._log_in(str((await request.post()).get("token", "")))

    async def _get_file(self, request: web.Request) -> web.Response:
        body, kind = self._files[request.path]
        return web.Response(body=body, content_type=kind, charset="utf-8")

    async def _get_state(self, request: web.Request) -> web.Response:
        return web.json_response(self.state())

    async def _get_health(self, request: web.Request) -> web.Response:
        age_ms = self._board.age_ms
        alive = age_ms is not None and age_ms < _STALE_MS
        body = {"status": "ok" if alive else "no pairs", "last_pair_age_ms": age_ms}
        return web.json_response(body, status=200 if alive else 503)

    async def _get_metrics(self, request: web.Request) -> web.Response:
        body, kind = metrics_text(self.state())
        return web.Response(body=body, headers={"Content-Type": kind})

    async def _get_still(self, request: web.Request) -> web.Response:
        latest = self._board.latest
        if latest is None:
            return self._refuse(409, "no pair has come yet")
        pictures = await asyncio.to_thread(still_pictures, latest[1])
        for picture in filter(None, pictures.values()):
            picture["jpeg"] = "data:image/jpeg;base64," + base64.b64encode(picture["jpeg"]).decode()
        return web.json_response({"key": latest[1].key, **pictures})

    def _posted(self, act: Callable[[Any], Any]) -> Callable[[web.Request], Awaitable[web.Response]]:
        """Makes a handler that reads a JSON object and acts, away from the event loop."""

        async def handler(request: web.Request) -> web.Response:
            if request.content_type != "application/json":
                return self._refuse(415, "application/json is expected")
            try:
                body = json.loads(await request.text())
                if not isinstance(body, dict):
                    raise ValueError("expected a JSON object")
                answer = await asyncio.to_thread(act, body)
            except EdgeSdkError as error:
                return self._refuse(400 if isinstance(error, ConfigError) else 500, str(error))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                return self._refuse(400, f"not understood: {error!r}")
            return web.json_response({"ok": True, **(answer or {})})

        return handler

    def _force(self, body: dict[str, Any]) -> None:
        self._control.set_force(body["route"])

    def _record(self, body: dict[str, Any]) -> None:
        self._control.record(body["on"] is True)

    def _fit(self, body: dict[str, Any]) -> dict[str, Any]:
        latest = self._board.latest
        if latest is None or latest[1].rgb is None or latest[1].thermal is None:
            raise ConfigError("a pair with both frames is needed, and none is here now")
        points = [tuple(float(number) for number in point) for point in body["points"]]
        if any(len(point) != 4 for point in points):
            raise ValueError("each point is [thermal x, thermal y, RGB x, RGB y] in pixels")
        fit = fit_registration(
            [(point[0], point[1]) for point in points],
            [(point[2], point[3]) for point in points],
            latest[1].thermal.size_wh,
            latest[1].rgb.size_wh,
        )
        self._fitted = fit
        return {
            "homography": fit.registration.homography,
            "residual_px": fit.residual_px,
            "rms_px": fit.rms_px,
            "left_out_px": fit.left_out_px,
            "note": fit.note,
        }

    def _apply(self, body: dict[str, Any]) -> dict[str, Any]:
        answer = self._fit(body)
        self._control.apply_registration(self._fitted)
        return answer

    def _reset(self, body: dict[str, Any]) -> None:
        self._control.apply_registration(None)

    def _save(self, body: dict[str, Any]) -> dict[str, Any]:
        return {"file": self._control.save_registration().name}

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        """One viewer, until it goes."""
        if len(self._viewers) >= _MOST_VIEWERS:
            return self._refuse(503, f"{_MOST_VIEWERS} viewers are connected already")
        socket = web.WebSocketResponse(heartbeat=10.0, max_msg_size=MOST_MESSAGE_BYTES, compress=False)
        await socket.prepare(request)
        viewer = Viewer(socket, self.state_text, self._count_sent)
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


_LOGIN = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>edge-sdk: token</title><link rel="icon" href="/icon.svg"><link rel="stylesheet" href="/style.css">
<body class="login"><form method="post" action="/login"><h1>edge-sdk</h1>
<p>This page is open to the network, so it asks for the token that the program printed.</p>
<input name="token" type="password" aria-label="Token" autocomplete="off" autofocus required>
<button>Open</button></form></body></html>
"""
