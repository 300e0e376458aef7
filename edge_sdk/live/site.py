"""Answers requests: whoever may not come in is turned away here, and nothing but JSON of a few kB is read."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from importlib import resources
from typing import Any, TypeVar
from urllib.parse import parse_qs

from aiohttp import HttpVersion10, web

from edge_sdk.errors import ConfigError, EdgeSdkError
from edge_sdk.live.guard import Guard, bearer_tokens
from edge_sdk.live.limits import Guesses, Limits, address_key
from edge_sdk.live.listener import Connection
from edge_sdk.live.page_files import PAGE_FILES
from edge_sdk.live.proxy import host_name

__all__ = ["HEADERS", "Act", "Get", "Site", "on_own_thread", "refusal"]

_LOG = logging.getLogger("edge_sdk.live")
_MOST_BODY_BYTES = 16 * 1024
_WRONG_TOKEN_S = 0.5
_MOST_HEADERS = 128
_MOST_TOKENS = 4
"""Tokens of one request that are looked at."""

_ACTS = 4
"""Acts of viewers at one time: each has a thread."""

_FREE = ("/style.css", "/icon.svg")
"""Files that the page needs which asks for the token."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "edge-sdk",
}
"""Of every answer, whoever makes it."""

Get = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Act = Callable[[dict[str, Any]], "dict[str, Any] | None"]
_Answer = TypeVar("_Answer")


class Site:
    """All paths there are, and who may have them.

    Arguments:
        guard: see there.
        limits: see there.
        gets: what answers GET, by path.
        acts: what a viewer may do by POST, by path: takes the JSON object of the body, returns what to
            tell, on a thread of its own.
        watch: answers the socket of a viewer, for as long as the viewer likes.
    """

    def __init__(
        self, guard: Guard, limits: Limits, gets: Mapping[str, Get], acts: Mapping[str, Act], watch: Get
    ) -> None:
        self._guard, self._limits, self._acts, self._watch = guard, limits, acts, watch
        static = resources.files("edge_sdk.live") / "static"
        self._files = {
            path: ((static / name).read_bytes(), kind) for path, (name, kind) in PAGE_FILES.items()
        }
        self._gets: dict[str, Get] = {
            **dict.fromkeys(PAGE_FILES, self._get_file),
            **gets,
            "/ws": self._get_watch,
        }
        self._guesses = Guesses()
        self._hands = asyncio.Semaphore(_ACTS)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers one request, whatever it is: never with a trace, always with our headers."""
        connection = request.protocol
        assert isinstance(connection, Connection)
        connection.begin()
        let_in = is_socket = False
        try:
            let_in, response = await self._checked(request)
            is_socket = response.prepared
        except web.HTTPException as error:
            response = refusal(error.status, error.reason)
        except asyncio.TimeoutError:
            response = refusal(408, "the request took too long to come")
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception:
            _LOG.exception("an error while answering %s %s", request.method, request.rel_url.path[:100])
            response = refusal(500, "the program has an error; its log has it")
        finally:
            connection.end(is_proven=let_in, is_last=is_socket)
        if not response.prepared:
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            if not let_in or response.status >= 400:
                response.force_close()
        return response

    async def _checked(self, request: web.BaseRequest) -> tuple[bool, web.StreamResponse]:
        """Returns whether a request may have what it asks for, and what it is told."""
        guard, headers, path = self._guard, request.headers, self._path(request)
        if request.version < HttpVersion10 or len(headers.getall("Host", ())) != 1:
            return False, refusal(400, "HTTP/1.0 or later with one Host header is expected")
        if len(headers) > _MOST_HEADERS:
            return False, refusal(431, f"at most {_MOST_HEADERS} headers are expected")
        if not guard.host_is_ours(headers["Host"]):
            return False, refusal(421, "this page is not served under that name; use the address")
        if (request.method not in ("GET", "HEAD") or path == "/ws") and not guard.origin_is_ours(headers):
            return False, refusal(403, "requests of other pages are refused")
        if path == "/login" and request.method == "POST":
            return await self._log_in(request, await self._in_time(_form_tokens(request)))
        if await self._may_come_in(request):
            return True, await self._handled(request, path)
        if path == "/" and "token" in request.query:
            return await self._log_in(request, request.query.getall("token"))
        if path in _FREE and request.method in ("GET", "HEAD"):
            return False, await self._get_file(request)
        return False, self._ask_for_token(request, path)

    async def _handled(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        is_get = request.method in ("GET", "HEAD")
        if path in self._gets and is_get:
            return await self._gets[path](request)
        if path in self._acts and request.method == "POST":
            return await self._act(request, self._acts[path])
        if path not in self._gets and path not in self._acts and path != "/login":
            return refusal(404, "nothing is there")
        response = refusal(405, f"{request.method} is not for that")
        response.headers["Allow"] = "GET, HEAD" if path in self._gets else "POST"
        return response

    # Who may come in ------------------------------------------------------------------------------

    def _client(self, request: web.BaseRequest) -> str:
        peer = _peer(request)
        proxy = self._guard.proxy
        return proxy.client(peer, request.headers.getall("X-Forwarded-For", [])) if proxy else peer

    async def _may_come_in(self, request: web.BaseRequest) -> bool:
        """Whether any of what a request shows is right: one that is stale or another's does no harm."""
        if self._guard.token is None or self._guard.cookie_is_right(request.headers):
            return True
        return await self._any_is_right(request, bearer_tokens(request.headers))

    async def _any_is_right(self, request: web.BaseRequest, tokens: list[str]) -> bool:
        """Looks at tokens, which may be guesses: the wrong ones of an address are slowed."""
        if not tokens:
            return False
        client, tokens = address_key(self._client(request)), tokens[:_MOST_TOKENS]
        await asyncio.sleep(max([self._guesses.begin(client) for _ in tokens]))
        if True in [self._guard.is_token(token) for token in tokens]:
            for _ in tokens:
                self._guesses.was_right(client)
            return True
        await asyncio.sleep(_WRONG_TOKEN_S)
        return False

    async def _log_in(self, request: web.BaseRequest, tokens: list[str]) -> tuple[bool, web.StreamResponse]:
        if not await self._any_is_right(request, tokens):
            return False, self._ask_for_token(request, "/")
        response = web.Response(status=303, headers={"Location": "./"})
        path, secure = self._cookie_place(request)
        self._set_cookie(response, self._guard.cookie_value, path, secure)
        return True, response

    def _set_cookie(
        self, response: web.Response, value: str, path: str, secure: bool, max_age: int | None = None
    ) -> None:
        response.set_cookie(
            self._guard.cookie_name,
            value,
            max_age=max_age,
            path=path,
            secure=secure,
            httponly=True,
            samesite="Strict",
        )

    def _ask_for_token(self, request: web.BaseRequest, path: str) -> web.Response:
        if path == "/" and request.method in ("GET", "HEAD", "POST"):
            response = web.Response(text=_LOGIN, content_type="text/html", status=401)
        else:
            response = refusal(401, "the token is missing or wrong")
        response.headers["WWW-Authenticate"] = "Bearer"
        if self._guard.has_stale_cookie(request.headers):
            place, secure = self._cookie_place(request)
            self._set_cookie(response, "", place, secure, max_age=0)
        return response

    def _cookie_place(self, request: web.BaseRequest) -> tuple[str, bool]:
        """The cookie's path, and whether it is for HTTPS alone: behind the proxy as browsers see it."""
        proxy, headers = self._guard.proxy, request.headers
        if proxy is None or not proxy.is_peer(_peer(request)):
            return "/", False
        marks = ("X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "Forwarded", "Via")
        through = any(mark in headers for mark in marks) or host_name(headers["Host"]) == proxy.name
        return (f"{proxy.prefix}/", proxy.is_encrypted) if through else ("/", False)

    def _path(self, request: web.BaseRequest) -> str:
        path = request.rel_url.raw_path
        return self._guard.proxy.inside(path) if self._guard.proxy else path

    async def _in_time(self, body: Coroutine[Any, Any, _Answer]) -> _Answer:
        return await asyncio.wait_for(body, self._limits.head_s)

    # What there is --------------------------------------------------------------------------------

    async def _get_file(self, request: web.BaseRequest) -> web.Response:
        body, kind = self._files[self._path(request)]
        return web.Response(body=body, content_type=kind, charset="utf-8")

    async def _get_watch(self, request: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(request.protocol, Connection)
        request.protocol.due(None)
        return await self._watch(request)

    async def _act(self, request: web.BaseRequest, act: Act) -> web.Response:
        try:
            body = await self._in_time(_json_object(request))
            async with self._hands:
                told = await on_own_thread(act, body)
        except EdgeSdkError as error:
            return refusal(400 if isinstance(error, ConfigError) else 500, str(error))
        except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
            return refusal(400, f"not understood: {repr(error)[:200]}")
        return web.json_response({"ok": True, **(told or {})})


def refusal(status: int, why: str) -> web.Response:
    """Makes an answer that says why there is none."""
    return web.json_response({"error": why}, status=status)


async def on_own_thread(work: Callable[..., _Answer], *arguments: Any) -> _Answer:
    """Works away from the event loop, on a thread that the end of the program does not wait for."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[_Answer] = loop.create_future()

    def tell(value: _Answer | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(value)  # type: ignore[arg-type]

    def do() -> None:
        value, failed = None, None
        try:
            value = work(*arguments)
        except BaseException as error:
            failed = error
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell, value, failed)

    threading.Thread(target=do, name="edge-sdk viewer's act", daemon=True).start()
    return await answer


def _peer(request: web.BaseRequest) -> str:
    return request.protocol.peer if isinstance(request.protocol, Connection) else ""


async def _body(request: web.BaseRequest, kind: str) -> str:
    """Reads a body of a few kB of one kind.

    Raises:
        HTTPException: it is of another kind, too long, or no UTF-8.
    """
    if request.content_type != kind:
        raise web.HTTPUnsupportedMediaType(reason=f"{kind} is expected")
    charset = request.charset or "utf-8"
    if charset.lower() not in ("utf-8", "utf8") or "Content-Encoding" in request.headers:
        raise web.HTTPUnsupportedMediaType(reason="plain UTF-8 is expected")
    content = b""
    if (request.content_length or 0) <= _MOST_BODY_BYTES:
        try:
            async for chunk in request.content.iter_any():
                content += chunk
                if len(content) > _MOST_BODY_BYTES:
                    break
        except (web.RequestPayloadError, EOFError):
            raise web.HTTPBadRequest(reason="the body is broken") from None
    if max(request.content_length or 0, len(content)) > _MOST_BODY_BYTES:
        raise web.HTTPRequestEntityTooLarge(_MOST_BODY_BYTES, len(content), reason="the body is too long")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise web.HTTPBadRequest(reason="the body is no UTF-8") from None


async def _json_object(request: web.BaseRequest) -> dict[str, Any]:
    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no JSON")

    body = json.loads(await _body(request, "application/json"), parse_constant=refuse)
    if not isinstance(body, dict):
        raise ValueError("expected a JSON object")
    return body


async def _form_tokens(request: web.BaseRequest) -> list[str]:
    body = await _body(request, "application/x-www-form-urlencoded")
    try:
        return parse_qs(body, max_num_fields=10).get("token", [])
    except ValueError:
        raise web.HTTPBadRequest(reason="the form is broken") from None


_LOGIN = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>edge-sdk: token</title><link rel="icon" href="icon.svg"><link rel="stylesheet" href="style.css">
<body class="login"><form method="post" action="login"><h1>edge-sdk</h1>
<p>This page is open to the network, so it asks for the token that the program printed or was given.</p>
<input name="token" type="password" aria-label="Token" autocomplete="off" autofocus required>
<button>Open</button></form></body></html>
"""
