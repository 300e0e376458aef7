"""One browser that looks at the page, and what it is sent."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from collections.abc import Callable, Coroutine
from typing import Any

from aiohttp import web

from edge_sdk.live.limits import Limits
from edge_sdk.live.pictures import LiveFrame

__all__ = ["MOST_MESSAGE_BYTES", "Viewer"]

MOST_MESSAGE_BYTES = 2 * 1024
"""A longer message of a viewer ends its connection."""

_UNCONFIRMED = 2
"""Pictures that may be on their way to one viewer."""

_STATE_EVERY_S = 0.25
_MOST_SAID_HZ = 100
"""A viewer that says more than so much a second is let go: a page says a tenth of it."""


class Viewer:
    """One browser: the newest picture it has not seen, and what it asked for.

    Arguments:
        socket: the connection, prepared.
        state: gives the message of the figures.
        count: called for each picture sent.
        due: told within how many seconds what is being sent must be taken, and None when it was.
        limits: see there.
    """

    def __init__(
        self,
        socket: web.WebSocketResponse,
        state: Callable[[], str],
        count: Callable[[], None],
        due: Callable[[float | None], None],
        limits: Limits,
    ) -> None:
        self._socket, self._state, self._count = socket, state, count
        self._newest: LiveFrame | None = None
        self._spots: list[tuple[float, float]] = []
        self._unconfirmed = 0
        self._wake = asyncio.Event()
        self._gone = False
        self._due, self._limits = due, limits
        self._said, self._said_since_s = 0, time.monotonic()

    def offer(self, frame: LiveFrame) -> bool:
        """Takes a picture to be sent when this viewer can take it; True where one was dropped for it."""
        dropped = self._newest is not None
        self._newest = frame
        self._wake.set()
        return dropped

    async def serve(self) -> None:
        """Sends until the viewer goes."""
        sender = asyncio.ensure_future(self._send())
        hearer = asyncio.ensure_future(self._hear())
        try:
            await asyncio.wait((sender, hearer), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._gone = True
            self._wake.set()
            for task in (sender, hearer):
                task.cancel()
            await asyncio.gather(sender, hearer, return_exceptions=True)
            await self.close()

    async def close(self) -> None:
        """Says goodbye; a viewer that does not hear it in time is not waited for."""
        with contextlib.suppress(ConnectionError, RuntimeError, asyncio.TimeoutError):
            await asyncio.wait_for(self._socket.close(), self._limits.goodbye_s)

    async def _hear(self) -> None:
        async for message in self._socket:
            if not self._take(message.data):
                break

    async def _send(self) -> None:
        next_state_s = 0.0
        while not self._gone:  # a cancellation alone can be lost in wait_for (Python before 3.12)
            if time.monotonic() >= next_state_s:
                await self._to_viewer(self._socket.send_str(self._state()))
                next_state_s = time.monotonic() + _STATE_EVERY_S
            frame = self._newest
            if frame is not None and self._unconfirmed < _UNCONFIRMED:
                self._newest = None
                self._unconfirmed += 1
                await self._to_viewer(self._socket.send_bytes(frame.message))
                self._count()
                if self._spots:
                    spots = json.dumps({"spots": frame.spots(self._spots)})
                    await self._to_viewer(self._socket.send_str(spots))
            self._wake.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wake.wait(), max(0.01, next_state_s - time.monotonic()))

    async def _to_viewer(self, sending: Coroutine[Any, Any, None]) -> None:
        self._due(self._limits.send_s)
        await sending
        self._due(None)

    def _take(self, data: Any) -> bool:
        """Reads what a viewer says: {"shown": n} after a picture, {"spots": [[x, y], ...]}."""
        now_s = time.monotonic()
        if now_s - self._said_since_s > 1.0:
            self._said, self._said_since_s = 0, now_s
        self._said += 1
        if self._said > _MOST_SAID_HZ:
            return False
        try:
            said = json.loads(data)
            if "shown" in said:
                self._unconfirmed = max(0, self._unconfirmed - 1)
                self._wake.set()
            if "spots" in said:
                spots = [(float(x), float(y)) for x, y in said["spots"][:4]]
                if not all(math.isfinite(share) for spot in spots for share in spot):
                    return False
                self._spots = spots
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return False
        return True
