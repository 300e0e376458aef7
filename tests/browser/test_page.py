"""The live page in Debian's Chromium: what a person would see, done by Playwright."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from live_browser import PATIENCE_MS, open_page, wait_for_text
from live_runs import Live, eventually, live_page

pytestmark = pytest.mark.browser


def test_frames_move_and_routes_change(browser: Any, live: Live) -> None:
    page, problems = open_page(browser, live)
    checksum = """(id) => { const c = document.getElementById(id);
        const pixels = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        return pixels.reduce((a, b) => (a * 31 + b) | 0, 7); }"""
    for canvas in ("rgb", "thermal"):
        before = page.evaluate(checksum, canvas)
        page.wait_for_function(f"() => ({checksum})('{canvas}') !== {before}")
    wait_for_text(page, "#route", "rgb")
    wait_for_text(page, "#reason", "confident")
    live.scene.hot = True
    wait_for_text(page, "#route", "fuse")
    wait_for_text(page, "#reason", "hot region")
    wait_for_text(page, "#readings", "61.")
    wait_for_text(page, "#alarms", "hot")
    live.scene.hot, live.scene.dark = False, True
    wait_for_text(page, "#route", "thermal")
    wait_for_text(page, "#reason", "dark")
    wait_for_text(page, "#changes", "hot region")
    wait_for_text(page, "#latency", "engine")
    wait_for_text(page, "#power-note", "no power sensor")
    wait_for_text(page, "#watts-top", "no sensor")
    assert problems == []
    page.context.close()


def test_a_killed_camera_shows_within_two_seconds_and_comes_back(browser: Any, live: Live) -> None:
    page, _ = open_page(browser, live)
    page.wait_for_selector("#banner", state="hidden")
    live.scene.no_thermal = True
    wait_for_text(page, "#banner", "thermal missing", 2000)
    assert page.is_visible("#screen-thermal .lost")
    assert not page.is_visible("#screen-rgb .lost")
    wait_for_text(page, "#reason", "thermal lost")
    live.scene.no_thermal, live.scene.no_rgb = False, True
    wait_for_text(page, "#banner", "rgb missing", 2000)
    live.scene.no_rgb = False
    page.wait_for_selector("#banner", state="hidden")
    live.scene.hangs.set()
    wait_for_text(page, "#banner", "no pairs are coming", 2000)
    assert page.is_visible("#screen-rgb .lost")
    live.scene.hangs.clear()
    page.wait_for_selector("#banner", state="hidden")
    page.context.close()


def test_force_record_and_spots_work(browser: Any, live: Live) -> None:
    page, problems = open_page(browser, live)
    page.click("#force [data-route=thermal]")
    wait_for_text(page, "#reason", "forced")
    wait_for_text(page, "#banner", "forced by a viewer")
    page.wait_for_selector("#force [data-route=thermal][aria-pressed=true]")
    page.click("#force [data-route='']")
    wait_for_text(page, "#reason", "confident")
    page.click("#record")
    page.wait_for_selector("#record.on")
    wait_for_text(page, "#record-text", ".mcap")
    page.click("#record")
    page.wait_for_selector("#record:not(.on)")
    assert len(list((live.folder / "recordings").iterdir())) == 1
    page.click("#thermal-over", position={"x": 100, "y": 100})
    wait_for_text(page, "#readings", "spot 1")
    page.wait_for_function(
        "() => /spot 1\\s*2\\d\\.\\d °C/.test(document.getElementById('readings').innerText)"
    )
    page.click("#clear-spots")
    wait_for_text(page, "#readings", "tap a picture")
    page.select_option("#palette", "white hot")
    page.fill("#blend", "60")
    assert problems == []
    page.context.close()


def test_points_are_picked_applied_and_saved(browser: Any, live: Live) -> None:
    page, problems = open_page(browser, live)
    page.click("#open-register")
    page.wait_for_selector("#pick-thermal.turn")
    for across, down in ((0.1, 0.1), (0.9, 0.12), (0.88, 0.9), (0.1, 0.85), (0.5, 0.45)):
        for name in ("thermal", "rgb"):
            page.wait_for_selector(f"#pick-{name}.turn")
            area = page.locator(f"#pick-{name}").bounding_box()
            page.click(f"#pick-{name}", position={"x": area["width"] * across, "y": area["height"] * down})
    wait_for_text(page, "#fit", "residual")
    wait_for_text(page, "#fit", "5 points")
    page.click("#apply")
    wait_for_text(page, "#fit", "applied")
    assert eventually(lambda: live.session.control.registration is not None)
    page.click("#save")
    wait_for_text(page, "#fit", "saved as registration.json")
    assert (live.folder / "registration.json").is_file()
    page.click("#register [value=close]")
    wait_for_text(page, "#registration-text", "picked: 5 points")
    assert problems == []
    page.context.close()


def test_it_fits_a_phone(browser: Any, live: Live) -> None:
    live.scene.hot = True
    page, problems = open_page(
        browser, live, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    )
    wait_for_text(page, "#alarms", "hot")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for selector in ("#route", "#reason", "#screen-rgb"):
        area = page.locator(selector).bounding_box()
        assert area["y"] < 844
        assert area["x"] >= 0
        assert area["x"] + area["width"] <= 390
    for selector in ("#force button", "#record", "#open-register"):
        assert page.locator(selector).first.bounding_box()["height"] >= 40, "large enough for a finger"
    page.locator("#force [data-route=fuse]").tap()
    wait_for_text(page, "#reason", "forced")
    assert problems == []
    page.context.close()


def test_the_token_is_asked_for(browser: Any, toy_fusion: Path, tmp_path: Path) -> None:
    with live_page(toy_fusion, tmp_path, token="correct-horse") as live:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(live.server.address.url())
        page.fill("[name=token]", "correct-horse")
        page.click("button")
        page.wait_for_function("() => document.body.dataset.frame > 2")
        assert "correct-horse" not in page.url
        page.close()
        page = browser.new_page()
        page.goto(live.url)
        page.wait_for_function("() => document.body.dataset.frame > 2")
        assert "correct-horse" not in page.url
        page.close()
