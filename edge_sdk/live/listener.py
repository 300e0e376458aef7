"""Sockets of the page: connections come one at a time, within limits, and each has a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import resource
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from aiohttp import web
from yarl import URL

from edge_sdk.live.limits import Limits, Seats, address_key, handles_left

if TYPE_CHECKING:
    from aiohttp import StreamReader
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.http_parser import RawRequestMessage

__all__ = ["Connection", "Listener", "listen"]

_LOG = logging.getLogger("edge_sdk.live")
_BACKLOG = 128
_SWEEP_S = 0.25
_OUT_OF_HANDLES_S = 0.5
_CLOSED_S = 0.05
_BROKEN = "this is no whole HTTP request"


class Connection(web.RequestHandler):
    """One connection. It is cut off where its deadline passes, whatever it is busy with.

    Attributes:
        deadline_s: of the loop's clock; None while nothing is waited for (a viewer's socket keeps its own).
    """

    def __init__(self, server: web.Server, listener: Listener, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]
            logger=_LOG,
            keepalive_timeout=listener.limits.idle_s,
            lingering_time=1.0,
            auto_decompress=False,
        )
        self._listener, self._clock_s = listener, loop.time
        self._idle = False
        self._wire: asyncio.Transport | None = None  # the library lets go of its own while it still sends
        self.peer = ""
        self.deadline_s: float | None = self._clock_s() + listener.limits.head_s

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        assert isinstance(transport, asyncio.Transport)
        self._wire = transport
        self.peer = str((transport.get_extra_info("peername") or ("",))[0])
        self._listener.came(self)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """See `asyncio.Protocol`."""
        self._listener.went(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self._idle:
            self._idle, self.deadline_s = False, self._clock_s() + self._listener.limits.head_s
        try:
            super().data_received(data)
        except ValueError:  # older parsers let some through; asyncio would print a trace
            self._listener.say_broken(self)

    def write_and_close(self, answer: bytes) -> None:
        """Ends the connection with an answer made by hand."""
        if self._wire is not None:
            self._wire.write(answer)
        self.force_close()

    def due(self, seconds: float | None) -> None:
        """What goes on must be over within so many seconds; None: it may take as long as it likes."""
        self.deadline_s = None if seconds is None else self._clock_s() + seconds

    def begin(self) -> None:
        """A request is being answered."""
        self._idle = False
        self.due(self._listener.limits.request_s)
        self._listener.seats.mark(self, is_busy=True)

    def end(self, *, is_proven: bool, is_last: bool) -> None:
        """A request is answered; the answer must be taken, and the next one begun, within a time."""
        limits = self._listener.limits
        self._idle = True
        self.due(limits.goodbye_s if is_last else limits.idle_s)
        self._listener.seats.mark(self, is_busy=False, is_proven=is_proven or None)

    def cut(self) -> None:
        """Ends the connection now; what was not sent is not."""
        if self._wire is not None:
            self._wire.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answers what could not even be read as HTTP; without a trace, for it is no fault of ours."""
        why = _BROKEN if status < 500 else "the program has an error; see its log"
        if status >= 500:
            _LOG.error("an error while answering a request", exc_info=exc)
        response = web.json_response({"error": why}, status=status, headers=self._listener.headers)
        response.force_close()
        return response


class Listener:
    """Takes connections, one at a time, so that there is never more than one too many.

    Arguments:
        sockets: that listen.
        answer: answers a request.
        limits: see there; fewer handles are kept where the process may have few.
        headers: of every answer.
        is_local: whether a peer is this machine or the proxy.
        handles: how many file handles the process may still open.
    """

    def __init__(
        self,
        sockets: list[socket.socket],
        answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        limits: Limits,
        headers: Mapping[str, str],
        is_local: Callable[[str], bool],
        handles: Callable[[], int] = handles_left,
    ) -> None:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        few = most if most != resource.RLIM_INFINITY else limits.handles * 4
        self.limits = replace(limits, handles=min(limits.handles, few // 4))
        self.seats, self.headers = Seats(self.limits), headers
        self._sockets, self._is_local, self._handles = sockets, is_local, handles
        self._loop = asyncio.get_running_loop()
        self._server = web.Server(answer, handler_cancellation=True, request_factory=self._request)
        self._connections: set[Connection] = set()
        self._gone = asyncio.Event()
        self._full = _bare_answer(
            "503 Service Unavailable",
            "too many connections; try again in a few seconds",
            {"Retry-After": "5", **headers},
        )
        self._tasks = [
            *(self._loop.create_task(self._accept(each)) for each in sockets),
            self._loop.create_task(self._sweep()),
        ]

    def came(self, connection: Connection) -> None:
        """Notes a connection that was made."""
        self._connections.add(connection)
        self.seats.take(connection, address_key(connection.peer), self._is_local(connection.peer))

    def went(self, connection: Connection) -> None:
        """Notes a connection that has ended."""
        self._connections.discard(connection)
        self.seats.leave(connection)
        if not self._connections:
            self._gone.set()

    def say_broken(self, connection: Connection) -> None:
        """Answers a request that the library fails on."""
        connection.write_and_close(_bare_answer("400 Bad Request", _BROKEN, self.headers))

    def stop(self) -> None:
        """Takes no more connections."""
        for task in self._tasks:
            task.cancel()
        for each in self._sockets:
            each.close()

    async def close(self) -> int:
        """Ends all connections.

        Returns: how many had to be cut off in the middle of an answer.
        """
        self.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._server.pre_shutdown()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._server.shutdown(self.limits.goodbye_s / 2), self.limits.goodbye_s)
        await asyncio.sleep(_CLOSED_S)  # those that have nothing more to send end now
        left = list(self._connections)
        for connection in left:
            connection.cut()
        if left:
            self._gone.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._gone.wait(), self.limits.goodbye_s)
        return len(left)

    def _request(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: web.RequestHandler,
        writer: AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> web.BaseRequest:
        try:
            return web.BaseRequest(message, payload, protocol, writer, task, self._loop)
        except ValueError:  # a port that is none, in an address that older parsers let through
            message = message._replace(url=URL("*"))
            return web.BaseRequest(message, payload, protocol, writer, task, self._loop)

    async def _accept(self, listening: socket.socket) -> None:
        hz, burst = self.limits.accepted_hz, self.limits.accepted_hz / 2
        credit, counted_s = burst, self._loop.time()
        while True:
            try:
                one, address = await self._loop.sock_accept(listening)
            except OSError as error:  # no handle left, or it is gone again: the run needs time, not us
                _LOG.debug("cannot take a connection: %s", error)
                await asyncio.sleep(_OUT_OF_HANDLES_S)
                continue
            now_s = self._loop.time()
            credit, counted_s = min(burst, credit + hz * (now_s - counted_s)) - 1.0, now_s
            if credit < 0.0:
                await asyncio.sleep(-credit / hz)
            try:
                await self._seat(one, str(address[0]))
            except OSError as error:
                _LOG.debug("a connection was lost while it came: %s", error)
                one.close()

    async def _seat(self, one: socket.socket, peer: str) -> None:
        may_come, goes = self.seats.ask(address_key(peer), self._is_local(peer), self._handles())
        if isinstance(goes, Connection):
            goes.cut()
        if not may_come:
            self._refuse(one)
            return
        one.setblocking(False)
        await self._loop.connect_accepted_socket(lambda: Connection(self._server, self, self._loop), one)

    def _refuse(self, one: socket.socket) -> None:
        """Says that all seats are taken, if the other end takes it at once."""
        one.setblocking(False)
        with one, contextlib.suppress(OSError):
            with contextlib.suppress(BlockingIOError):
                one.recv(65536)  # closed with this unread, the answer would be thrown away
            one.send(self._full)
            one.shutdown(socket.SHUT_WR)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            now_s = self._loop.time()
            for connection in list(self._connections):
                if connection.deadline_s is not None and now_s > connection.deadline_s:
                    connection.cut()


def listen(host: str, port: int) -> list[socket.socket]:
    """Opens the sockets of an address; a name may have several. Port 0 takes a free one.

    Raises:
        OSError: none of them can be opened.
    """
    found: list[socket.socket] = []
    failed: OSError | None = None
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, _, _, _, where in dict.fromkeys(infos):
        taken = found[0].getsockname()[1] if found else port
        try:
            each = socket.create_server((where[0], taken), family=family, backlog=_BACKLOG)
        except OSError as error:
            failed = error
            continue
        each.setblocking(False)
        found.append(each)
    if not found:
        raise failed or OSError(f"{host}: no address")
    return found


def _bare_answer(status: str, why: str, headers: Mapping[str, str]) -> bytes:
    body = json.dumps({"error": why}).encode()
    lines = {
        "Content-Type": "application/json; charset=utf-8",
        "Content-Length": str(len(body)),
        "Connection": "close",
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body
