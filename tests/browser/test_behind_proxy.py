"""The live page in Chromium behind a real HTTPS proxy: pictures move and buttons work."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
from live_runs import eventually, live_page
from tls_proxy import NAME, free_port, program, tls_proxy

from edge_sdk.live.proxy import parse_proxy

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
playwright_api = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian package chromium)"),
]


@pytest.mark.parametrize("kind", ["nginx", "haproxy"])
def test_a_browser_behind_an_https_proxy(kind: str, toy_fusion: Path, tmp_path: Path) -> None:
    if program(kind) is None:
        pytest.skip(f"needs {kind} and openssl (Debian packages {kind}, openssl)")
    port = free_port()
    proxy = parse_proxy(f"https://{NAME}:{port}/yard7")
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    flags += ["--disable-gpu", f"--host-resolver-rules=MAP {NAME} 127.0.0.1"]
    with ExitStack() as program_stack, ExitStack() as stack:
        live = program_stack.enter_context(
            live_page(toy_fusion, tmp_path, proxy=proxy, token="correct-horse")
        )
        stack.enter_context(tls_proxy(kind, tmp_path, port, live.server.address.port, "/yard7"))
        playwright = stack.enter_context(playwright_api.sync_playwright())
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        page = browser.new_context(ignore_https_errors=True).new_page()
        page.set_default_timeout(30_000)
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        sockets: list[str] = []
        page.on("websocket", lambda socket: sockets.append(socket.url))
        page.goto(proxy.url)
        page.fill("[name=token]", "correct-horse")
        page.click("button")
        page.wait_for_function("() => document.body.dataset.frame > 2")
        assert page.url == proxy.url
        assert sockets[0] == proxy.url.replace("https", "wss") + "ws"
        page.click("#force [data-route=thermal]")
        assert eventually(lambda: live.server.state()["control"]["force"] == "thermal")
        assert page.evaluate("document.cookie") == "", "no script can read it"
        (cookie,) = page.context.cookies()
        assert cookie["secure"]
        assert cookie["httpOnly"]
        assert cookie["path"] == "/yard7/"
        assert problems == []
        program_stack.close()
        page.wait_for_function("() => document.body.dataset.link === 'gone'")
        browser.close()
