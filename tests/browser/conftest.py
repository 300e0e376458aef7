"""A browser for the tests of the page, and a page that is up."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_runs import Live, live_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright_api = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    if CHROMIUM is None:
        pytest.skip("needs Chromium (Debian package chromium)")
    with playwright_api.sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*flags, "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def live(toy_fusion: Path, tmp_path: Path) -> Iterator[Live]:
    with live_page(toy_fusion, tmp_path) as live:
        yield live
