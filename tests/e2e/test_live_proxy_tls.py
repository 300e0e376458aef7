"""The page behind a real HTTPS proxy: by name, below a path, with its socket, its buttons and its cookie."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from live_runs import Live, eventually, live_page
from tls_proxy import NAME, TlsProxy, free_port, program, tls_proxy

from edge_sdk.live.proxy import parse_proxy

TOKEN = "correct-horse-battery"
PREFIX = "/yard7"


class Here(AbstractResolver):
    """Every name is this machine."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host="127.0.0.1", port=port, family=socket.AF_INET, proto=0, flags=0)
        ]

    async def close(self) -> None:
        """Nothing is held."""


@pytest.fixture(scope="module", params=["nginx", "haproxy"])
def behind(
    request: pytest.FixtureRequest, toy_fusion: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Live, TlsProxy, str]]:
    kind = request.param
    if program(kind) is None:
        pytest.skip(f"needs {kind} and openssl (Debian packages {kind}, openssl)")
    folder, port = tmp_path_factory.mktemp(kind), free_port()
    proxy = parse_proxy(f"https://{NAME}:{port}{PREFIX}")
    with (
        live_page(toy_fusion, folder, proxy=proxy, token=TOKEN) as live,
        tls_proxy(kind, folder, port, live.server.address.port, PREFIX) as up,
    ):
        yield live, up, proxy.url


def run(up: TlsProxy, what: Any) -> Any:
    async def session() -> Any:
        connector = aiohttp.TCPConnector(resolver=Here(), ssl=up.context)
        jar = aiohttp.CookieJar()
        async with aiohttp.ClientSession(connector=connector, cookie_jar=jar) as browser:
            done = await asyncio.wait_for(what(browser), 60)
        await asyncio.sleep(0.1)  # TLS takes its leave after the session has
        return done

    return asyncio.run(session())


def test_the_page_its_socket_and_its_buttons_work(behind: tuple[Live, TlsProxy, str]) -> None:
    live, up, url = behind
    own = {"Origin": url.removesuffix(f"{PREFIX}/")}

    async def look(browser: aiohttp.ClientSession) -> None:
        async with browser.get(url) as refused:
            assert refused.status == 401
            login = await refused.text()
            assert 'action="login"' in login
        async with browser.post(
            url + "login", data={"token": TOKEN}, headers=own, allow_redirects=False
        ) as answer:
            assert answer.status == 303
            assert answer.headers["Location"] in ("./", f"{PREFIX}/")
            cookie = answer.headers["Set-Cookie"]
        assert "Secure" in cookie
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert f"Path={PREFIX}/" in cookie
        assert TOKEN not in cookie
        async with browser.get(url) as page:
            assert page.status == 200
            assert "/static" not in await page.text()
        for name in ("app.js", "style.css", "icon.svg"):
            async with browser.get(url + name) as file:
                assert file.status == 200, name
        async with browser.ws_connect(url.replace("https", "wss") + "ws", headers=own) as socket:
            seen = set()
            while len(seen) < 2:
                message = await socket.receive(timeout=20)
                seen.add(message.type)
                if message.type is aiohttp.WSMsgType.BINARY:
                    await socket.send_str('{"shown": 1}')
            assert seen == {aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY}
        async with browser.post(url + "api/force", json={"route": "thermal"}, headers=own) as pressed:
            assert pressed.status == 200, await pressed.text()
        assert live.server.state()["control"]["force"] == "thermal"
        async with browser.post(url + "api/force", json={"route": None}, headers=own) as pressed:
            assert pressed.status == 200

    run(up, look)


@pytest.mark.parametrize("origin", ["https://evil.example", f"http://{NAME}", "null", "https://127.0.0.1"])
def test_other_pages_do_not_come_through(behind: tuple[Live, TlsProxy, str], origin: str) -> None:
    live, up, url = behind
    bearer = {"Authorization": f"Bearer {TOKEN}", "Origin": origin}

    async def try_it(browser: aiohttp.ClientSession) -> None:
        async with browser.post(url + "api/force", json={"route": "fuse"}, headers=bearer) as answer:
            assert answer.status == 403
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await browser.ws_connect(url.replace("https", "wss") + "ws", headers=bearer)
        assert refused.value.status == 403

    run(up, try_it)
    assert live.server.state()["control"]["force"] is None


def test_a_name_that_is_not_ours_is_refused_through_the_proxy_too(behind: tuple[Live, TlsProxy, str]) -> None:
    _, up, url = behind

    async def try_it(browser: aiohttp.ClientSession) -> int:
        async with browser.get(url, headers={"Host": "evil.example"}) as answer:
            return answer.status

    assert run(up, try_it) == 421


def test_clients_are_told_apart_by_the_proxys_word_alone(behind: tuple[Live, TlsProxy, str]) -> None:
    live, up, url = behind
    asked: list[str] = []
    guesses = live.server._site._guesses
    begin = guesses.begin

    def note(client: str) -> float:
        asked.append(client)
        return begin(client)

    async def guess(browser: aiohttp.ClientSession) -> None:
        lie = {"X-Forwarded-For": "203.0.113.9", "Authorization": f"Bearer {TOKEN}"}
        async with browser.get(url + "healthz", headers=lie) as answer:
            assert answer.status == 200

    guesses.begin = note  # type: ignore[method-assign]
    try:
        run(up, guess)
    finally:
        guesses.begin = begin  # type: ignore[method-assign]
    assert asked == ["127.0.0.1"], "what a client writes of itself stands before the proxy's entry"


def test_the_machine_itself_still_opens_the_page_directly(behind: tuple[Live, TlsProxy, str]) -> None:
    live, _, url = behind

    async def directly() -> tuple[int, str]:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as browser:
            own = live.server.address.url()
            async with browser.get(own + f"?token={TOKEN}", allow_redirects=False) as answer:
                return answer.status, answer.headers["Set-Cookie"]

    status, cookie = asyncio.run(directly())
    assert status == 303
    assert "Secure" not in cookie
    assert "Path=/;" in cookie
    assert live.session.lines()[0] == f"Live page: {url}"
    assert eventually(lambda: live.server.state()["page"]["viewers"] == 0)
    assert TOKEN not in json.dumps(live.server.state()) + " ".join(live.session.lines())
