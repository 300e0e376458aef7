"""What the page says when something is not known, has failed or is gone: never "none" or "ok"."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from live_browser import BREAKS, PATIENCE_MS, open_page, wait_for_text
from live_runs import Live, eventually, live_page

from edge_sdk.live.guard import Address
from edge_sdk.sla import load_sla

pytestmark = pytest.mark.browser


def text_of(page: Any, selector: str) -> str:
    found: str = page.inner_text(selector)
    return found


def test_heat_that_a_forced_route_hides_is_unknown_and_the_alarm_stays(browser: Any, live: Live) -> None:
    live.scene.hot = True
    page, problems = open_page(browser, live)
    page.wait_for_selector("#strip.loud")
    page.wait_for_function("() => document.title.startsWith('⚠ hot ')")
    assert re.search(r"HOT +61\.\d °C .*since \d\d:\d\d:\d\d", text_of(page, "#strip"))
    page.click("#force [data-route=rgb]")
    page.wait_for_selector("#strip.unseen")
    wait_for_text(page, "#alarms", "hot spots unknown")
    live.scene.hot = False
    page.wait_for_timeout(4000)  # longer than an alarm takes to end where heat is looked at
    assert re.search(r"not seen since \d\d:\d\d:\d\d", text_of(page, "#strip"))
    alarms = text_of(page, "#alarms")
    assert re.search(r"not looked for since \d\d:\d\d:\d\d: route rgb is forced", alarms)
    assert "no hot spot" not in alarms
    assert "not looked at" in text_of(page, "#cap-thermal")
    assert "not seen now" in page.title()
    page.click("#force [data-route='']")
    page.wait_for_selector("#strip.calm")
    assert text_of(page, "#alarms") == "no hot spot"
    events = text_of(page, "#events")
    assert re.search(r"hot\nuntil \d\d:\d\d:\d\d \(\d+ s\)\npeak 6\d\.\d °C \+\d+\.\d K at", events)
    assert "heat not looked for" in events
    assert problems == []
    page.context.close()


def test_heat_that_no_camera_sees_is_unknown(browser: Any, live: Live) -> None:
    page, problems = open_page(browser, live)
    page.wait_for_selector("#strip.calm")
    live.scene.no_thermal = True
    page.wait_for_selector("#strip.unknown")
    wait_for_text(page, "#alarms", "the thermal frame is missing")
    wait_for_text(page, "#readings", "unknown")
    assert "counts" not in text_of(page, "body"), "no thermal camera has no unit"
    live.scene.no_thermal = False
    page.wait_for_selector("#strip.calm")
    live.scene.hangs.set()
    wait_for_text(page, "#strip", "no pairs are coming")
    page.wait_for_selector("body.silent")
    page.wait_for_function("() => document.title.startsWith('⚠ no pairs')")
    live.scene.hangs.clear()
    page.wait_for_selector("#strip.calm")
    assert problems == []
    page.context.close()


EVERY_CLAUSE = """
latency:
  p50_ms: 1000
  max_ms: 5000
  routes: {rgb: {p50_ms: 1000}}
  stages: {engine: {p50_ms: 1000}}
throughput: {min_fps: 1}
frames: {max_dropped_share: 0.5}
energy:
  per_inference_mj: {max: 400, kind: total}
  routes: {rgb: {per_inference_mj: {max: 300, kind: marginal}}}
power: {mean_w: 15, p95_w: 20}
machine: {power_mode: 30W, clocks_locked: true, throttled: false}
memory: {peak_mb: 100000, rss_slope_mb_per_h: 50}
"""


def test_every_kind_of_clause_has_its_lamp_and_no_card_fails(
    browser: Any, toy_fusion: Path, tmp_path: Path
) -> None:
    text = f"name: yard\nengine: {toy_fusion}\nsource: 'memory:fake cameras'\ndevice: cpu\n{EVERY_CLAUSE}"
    (tmp_path / "sla.yaml").write_text(text)
    sla = load_sla(tmp_path / "sla.yaml")
    with live_page(toy_fusion, tmp_path, sla=sla) as live:
        page, problems = open_page(browser, live)
        page.wait_for_function("() => document.querySelectorAll('#sla li').length == 16")
        lamps = text_of(page, "#sla")
        for clause in (
            "latency.p50_ms",
            "latency.max_ms",
            "latency.routes.rgb.p50_ms",
            "latency.stages.engine.p50_ms",
            "throughput.min_fps",
            "frames.max_dropped_share",
            "energy.per_inference_mj",
            "energy.routes.rgb.per_inference_mj",
            "power.mean_w",
            "power.p95_w",
            "machine.power_mode",
            "machine.clocks_locked",
            "machine.throttled",
            "memory.peak_mb",
            "memory.rss_slope_mb_per_h",
        ):
            assert clause in lamps
        assert re.search(r"machine\.power_mode\n.* / 30W", lamps)
        assert page.locator(".failed").count() == 0
        page.click("#record")
        wait_for_text(page, "#record-text", "stop: ")
        page.click("#force [data-route=fuse]")
        wait_for_text(page, "#sla", "route fuse is forced since")
        page.click("#force [data-route='']")
        wait_for_text(page, "#sla", "judged anew since")
        page.click("#record")
        wait_for_text(page, "#record-text", "start recording")
        assert problems == []
        page.context.close()


HARMS = {
    "header": "latency = 7",
    "card-routes": "routes = null",
    "card-cameras": "cameras = [{name: null}]",
    "card-alarms": "alarms = null",
    "card-changes": "changes = 7",
    "card-events": "events = null",
    "card-latency": "latency = [null]",
    "card-power": "power = null",
    "card-sla": "sla = {clauses: null}",
    "card-charts": "point = { t: 1e12, get p50() { throw new Error('no figure'); } }",
}


def test_a_card_that_fails_says_so_and_takes_no_other_with_it(browser: Any, live: Live) -> None:
    page, problems = open_page(browser, live, script=BREAKS)
    for card, harm in HARMS.items():
        page.evaluate(f"() => {{ window.changeState = (state) => {{ state.{harm}; }}; }}")
        page.wait_for_selector(f"#{card}.failed .fault")
        assert "this part of the page failed" in text_of(page, f"#{card}").lower()
        before = page.evaluate("document.body.dataset.frame")
        page.wait_for_function(f"() => +document.body.dataset.frame > {before}")
        page.click("#record")
        wait_for_text(page, "#record-text", "stop: ")
        page.click("#record")
        wait_for_text(page, "#record-text", "start recording")
        page.evaluate("() => { window.changeState = null; }")
        if card != "card-charts":  # the last: that point stays among the points
            page.wait_for_function("() => !document.querySelector('.failed')")
    assert problems == []
    page.context.close()


def test_controls_that_are_not_known_are_not_offered(browser: Any, live: Live) -> None:
    page, problems = open_page(browser, live, script=BREAKS)
    page.click("#record")
    wait_for_text(page, "#record-text", "stop: ")
    page.evaluate("() => { window.changeState = (state) => { state.control.recording = null; }; }")
    page.wait_for_selector("#card-control.failed")
    assert text_of(page, "#record-text") == "unknown"
    assert page.is_disabled("#record"), "it never says 'start recording' while it records"
    page.evaluate("() => { window.changeState = null; }")
    wait_for_text(page, "#record-text", "stop: ")
    assert problems == []
    page.context.close()


def test_a_program_that_is_gone_leaves_nothing_that_looks_live(
    browser: Any, toy_fusion: Path, tmp_path: Path
) -> None:
    with live_page(toy_fusion, tmp_path) as live:
        live.scene.hot = True
        page, _ = open_page(browser, live)
        page.wait_for_selector("#strip.loud")
        port = live.server.address.port
    wait_for_text(page, "#link", "the program is gone")
    assert re.search(r"Nothing here is live: it is of \d\d:\d\d:\d\d", text_of(page, "#link"))
    assert page.get_attribute("body", "data-link") == "gone"
    for name in ("rgb", "thermal"):
        shown = page.evaluate(f"() => getComputedStyle(document.getElementById('{name}')).filter")
        assert "grayscale(1)" in shown
        assert "not live" in page.get_attribute(f"#screen-{name}", "data-old")
    assert text_of(page, "#cameras").lower().count("unknown") == 2
    assert page.locator("#cameras .ok").count() == 0
    assert re.search(r"not seen since \d\d:\d\d:\d\d", text_of(page, "#strip"))
    wait_for_text(page, "#alarms", "no connection to the program")
    assert text_of(page, "#record-text") == "unknown"
    assert page.is_disabled("#record")
    assert page.title().startswith("✕ not connected")
    with live_page(toy_fusion, tmp_path / "again", serve=Address("127.0.0.1", port)):
        page.wait_for_selector("body[data-link=live]")
        page.wait_for_selector("#link", state="hidden")
        wait_for_text(page, "#record-text", "start recording")
        assert page.get_attribute("#screen-rgb", "data-old") == ""
    page.context.close()


def test_a_new_run_with_another_token_is_told_from_one_that_is_gone(
    browser: Any, toy_fusion: Path, tmp_path: Path
) -> None:
    with live_page(toy_fusion, tmp_path, token="correct-horse") as live:
        page, _ = open_page(browser, live)
        port = live.server.address.port
    wait_for_text(page, "#link", "the program is gone")
    with live_page(
        toy_fusion, tmp_path / "again", serve=Address("127.0.0.1", port), token="battery-staple"
    ) as live:
        wait_for_text(page, "#link", "the token is no longer right")
        page.click("#link a")
        page.fill("[name=token]", "battery-staple")
        page.click("button")
        page.wait_for_selector("body[data-link=live]")
    page.context.close()


def test_a_full_program_is_told_from_one_that_is_gone(browser: Any, live: Live) -> None:
    page, _ = open_page(browser, live)
    page.evaluate(
        """() => {
            const address = new URL('ws', location.href.replace('http', 'ws'));
            window.crowd = Array.from({ length: 15 }, () => new WebSocket(address));
        }"""
    )
    assert eventually(lambda: live.server.state()["page"]["viewers"] == 16)
    late = page.context.new_page()
    late.goto(live.url)
    wait_for_text(late, "#link", "no more viewers")
    wait_for_text(late, "#link", "16 viewers")
    assert "start recording" not in text_of(late, "body"), "nothing is offered before it is known"
    assert "no hot spot" not in text_of(late, "body")
    page.evaluate("() => window.crowd[0].close()")
    late.wait_for_selector("body[data-link=live]", timeout=PATIENCE_MS)
    page.context.close()
