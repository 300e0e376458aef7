"""The live page in a real browser, for tests that are people who look at it."""

from __future__ import annotations

from typing import Any

from live_runs import Live

PATIENCE_MS = 30_000

BREAKS = """
const parse = JSON.parse;
JSON.parse = (text) => {
  const said = parse(text);
  if (said.state && window.changeState) window.changeState(said.state);
  if (said.boxes && window.changeHead) window.changeHead(said);
  return said;
};
"""
"""Lets a test change what the page is told before any card sees it: `changeState` and `changeHead`."""


def open_page(browser: Any, live: Live, *, script: str = "", **how: Any) -> tuple[Any, list[str]]:
    """Opens the page and waits for pictures.

    Returns: the page, and a list that collects errors of its scripts, console errors and requests elsewhere.

    Arguments:
        script: runs in the page before its own.
        how: of the browser's context.
    """
    context = browser.new_context(**{"viewport": {"width": 1500, "height": 1000}, **how})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    if script:
        page.add_init_script(script)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    own = (f"http://127.0.0.1:{live.server.address.port}/", "ws://127.0.0.1", "data:", "blob:")
    page.on("request", lambda asked: None if asked.url.startswith(own) else problems.append(asked.url))
    page.goto(live.url)
    page.wait_for_function("() => document.body.dataset.frame > 2")
    return page, problems


def wait_for_text(page: Any, selector: str, text: str, timeout_ms: int = PATIENCE_MS) -> None:
    """Waits until an element says a text, in upper or lower case."""
    page.wait_for_function(
        "([s, t]) => document.querySelector(s).textContent.toLowerCase().includes(t)",
        arg=[selector, text.lower()],
        timeout=timeout_ms,
    )
