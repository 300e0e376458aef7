"""What the page looks like: on phones and in the sun, in Fahrenheit and with a fixed range, by keys alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import pytest
from live_browser import BREAKS, open_page, wait_for_text
from live_runs import Live, eventually

pytestmark = pytest.mark.browser

MANY_BOXES = """() => { window.changeHead = (head) => {
    head.boxes = Array.from({ length: 15 }, (_, at) => ({
        class: at ? "part" : "hot", id: at, score: 0.9 - at / 20,
        xyxy: [0.05 * at, 0.3, 0.05 * at + 0.1, 0.6], alarm: at ? "" : "found", hot: !at,
        heat: { unit: "°C", max: 90 - at, mean: 20, rise: 5 } }));
}; }"""


def box_of(page: Any, selector: str) -> dict[str, float]:
    found: dict[str, float] = page.locator(selector).bounding_box()
    return found


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_it_fits_every_width_without_sideways_scroll(browser: Any, live: Live, theme: str) -> None:
    live.scene.hot = True
    page, problems = open_page(
        browser, live, script=BREAKS, color_scheme=theme, viewport={"width": 1440, "height": 1000}
    )
    page.wait_for_selector("#strip.loud")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(255, 255, 255)" if theme == "light" else "rgb(12, 15, 19)")
    page.evaluate(MANY_BOXES)
    page.click("#fixed")
    for width, height in ((320, 640), (390, 844), (768, 1024), (1024, 768), (1440, 1000)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        rgb, thermal, strip = (box_of(page, at) for at in ("#screen-rgb", "#screen-thermal", "#strip"))
        assert strip["y"] + strip["height"] <= height, "alarms are on the first screen"
        assert rgb["y"] < height
        if width >= 768:
            assert rgb["y"] == thermal["y"], "two pictures side by side"
            assert rgb["width"] == pytest.approx(thermal["width"], abs=1)
        else:
            assert thermal["y"] > rgb["y"]
    assert problems == []
    page.context.close()


def test_themes_units_and_a_fixed_range_are_chosen_and_kept(browser: Any, live: Live) -> None:
    live.scene.hot = True
    page, problems = open_page(browser, live, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    page.click("#theme")
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    wait_for_text(page, "#readings", "°C")
    page.click("#unit")
    wait_for_text(page, "#readings", "143.")
    wait_for_text(page, "#alarms", "°F")
    wait_for_text(page, "#chart-hottest b", "°F")
    assert "°C" not in page.inner_text("main").replace("°C or", "")
    page.click("#unit")
    page.click("#fixed")
    page.fill("#range-low", "10")
    page.fill("#range-high", "200")
    page.keyboard.press("Tab")
    page.wait_for_function("() => document.getElementById('scale-high').textContent === '200.0 °C'")
    wait_for_text(page, "#scale-low", "10.0 °C")
    page.reload()
    page.wait_for_function("() => document.getElementById('scale-high').textContent === '200.0 °C'")
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    page.fill("#range-high", "5")
    page.keyboard.press("Tab")
    wait_for_text(page, "#range-unit", "not used")
    page.click("#fixed")
    page.wait_for_selector("#range", state="hidden")
    assert problems == []
    page.context.close()


def test_a_fixed_range_gives_a_temperature_one_colour(browser: Any, live: Live) -> None:
    page, problems = open_page(browser, live)
    steps = page.evaluate(
        """async () => {
            const { stepsOf } = await import('/palettes.js');
            const cool = { low: 10, high: 30, hottest: { value: 31 } };
            const warm = { low: 20, high: 60, hottest: { value: 90 } };
            const level = (heat, value) => Math.round(24 + 231 * (value - heat.low) / (heat.high - heat.low));
            const range = { low: 0, high: 100 };
            return [stepsOf(cool, range)[level(cool, 25)], stepsOf(warm, range)[level(warm, 25)],
                stepsOf(warm, range)[255], stepsOf(warm, null)[255], stepsOf(warm, null)[24],
                stepsOf(warm, { low: 30, high: 40 })[24]];
        }"""
    )
    assert steps[0] == pytest.approx(64, abs=1)
    assert steps[1] == pytest.approx(64, abs=1)
    assert steps[2] == 230, "what is over the frame's range is as hot as its hottest point, 90 of 100 degrees"
    assert steps[3:] == [255, 0, 0]
    assert problems == []
    page.context.close()


def test_no_label_covers_another_or_leaves_the_picture(browser: Any, live: Live) -> None:
    page, problems = open_page(browser, live)
    found = page.evaluate(
        """async () => {
            const { placeLabels } = await import('/labels.js');
            let seed = 7;
            const draw = (most) => (seed = (seed * 16807) % 2147483647) / 2147483647 * most;
            const meet = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
            let wrong = 0, placed = 0, onHot = 0;
            for (let run = 0; run < 200; run++) {
                const boxes = Array.from({ length: 12 }, () => { const x = draw(800), y = draw(500);
                    return [x, y, x + 20 + draw(140), y + 20 + draw(200)]; });
                const sizes = boxes.map(() => [60 + draw(120), 22]);
                const taken = [[400, 300, 420, 320]];
                const places = placeLabels(boxes, sizes, [900, 700], taken, boxes.map((_, at) => at ? 1 : 9));
                const known = [...taken, ...places.filter(Boolean)];
                placed += places.filter(Boolean).length;
                known.forEach((a, at) => known.slice(at + 1).forEach((b) => { wrong += meet(a, b); }));
                wrong += known.filter(([x0, y0, x1, y1]) => x0 < 0 || y0 < 0 || x1 > 900 || y1 > 700).length;
                onHot += places.slice(1).filter((place) => place && meet(place, boxes[0])).length;
            }
            return [wrong, placed, onHot];
        }"""
    )
    assert found[0] == 0
    assert found[1] > 0.97 * 200 * 12
    assert found[2] < 0.02 * 200 * 11, "labels keep off hot spots"
    assert problems == []
    page.context.close()


def test_hot_spots_are_loudest_and_no_box_is_left_out_in_silence(browser: Any, live: Live) -> None:
    page, problems = open_page(browser, live, script=BREAKS)
    page.evaluate(MANY_BOXES)
    wait_for_text(page, "#more-boxes", "+ 7 more")
    assert page.locator("#boxes tr").count() == 8
    assert page.inner_text("#boxes tr.hot").startswith("hot")
    page.click("#more-boxes")
    page.wait_for_function("() => document.querySelectorAll('#boxes tr').length === 15")
    assert page.get_attribute("#more-boxes", "aria-expanded") == "true"
    page.wait_for_timeout(500)
    assert page.locator("#boxes tr").count() == 15, "it stays open while pictures come"
    red = page.evaluate(
        """() => { const canvas = document.getElementById('rgb-over');
            const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            let count = 0;
            for (let at = 0; at < pixels.length; at += 4)
                count += pixels[at] > 240 && pixels[at + 1] < 60 && pixels[at + 2] < 90;
            return count; }"""
    )
    assert red > 500, "the one loud colour is the hot spot's"
    assert problems == []
    page.context.close()


def test_charts_show_what_was_and_gaps_and_survive_a_reload(browser: Any, live: Live) -> None:
    page, problems = open_page(browser, live)
    drawn = "(id) => document.querySelector(`#${id} path`)?.getAttribute('d') ?? ''"
    page.wait_for_function(f"() => (({drawn})('chart-hottest').match(/L/g) ?? []).length >= 3")
    live.scene.no_thermal = True
    page.wait_for_timeout(3500)
    live.scene.no_thermal = False
    page.wait_for_function(f"() => (({drawn})('chart-hottest').match(/M/g) ?? []).length === 2")
    wait_for_text(page, "#chart-latency b", "ms")
    wait_for_text(page, "#chart-watts b", "no power sensor")
    page.reload()
    page.wait_for_function(f"() => (({drawn})('chart-hottest').match(/M/g) ?? []).length === 2")
    page.focus("#chart-hottest svg")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("#chart-hottest .at", state="attached")
    assert page.inner_text("#chart-hottest .when").count(":") == 2
    assert problems == []
    page.context.close()


def test_a_snapshot_is_a_picture_of_what_is_shown(browser: Any, live: Live, tmp_path: Path) -> None:
    page, problems = open_page(browser, live, accept_downloads=True)
    with page.expect_download() as download:
        page.click("#snapshot")
    file = tmp_path / "snapshot.png"
    download.value.save_as(file)
    assert download.value.suggested_filename.startswith("edge-sdk-20")
    picture = cv2.imread(str(file))
    assert picture.shape[1] > 2 * 960
    left, right = picture[100:600, 100:900], picture[100:600, 1100:1900]
    assert min(left.std(), right.std()) > 5, "both pictures are in it"
    assert problems == []
    page.context.close()


def test_everything_can_be_done_by_keys_and_without_motion(browser: Any, live: Live) -> None:
    page, problems = open_page(browser, live, reduced_motion="reduce")
    reached: set[str] = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.closest('[id]')?.id ?? ''"))
    assert reached >= {
        *("rgb-over", "thermal-over", "blend", "palette", "fixed", "unit", "theme", "full", "snapshot"),
        *("clear-spots", "chart-hottest", "chart-latency", "chart-watts", "force", "record", "open-register"),
    }
    page.focus("#thermal-over")
    for key in ("ArrowLeft", "Shift+ArrowUp", "Enter"):
        page.keyboard.press(key)
    page.wait_for_function(
        "() => /spot 1\\s*2\\d\\.\\d °C/.test(document.getElementById('readings').innerText)"
    )
    page.keyboard.press("Delete")
    wait_for_text(page, "#readings", "tap a picture")
    page.focus("#record")
    page.keyboard.press("Enter")
    page.wait_for_selector("#record.on")
    animation = "getComputedStyle(document.querySelector('.record.on i')).animationName"
    assert page.evaluate(animation) == "none"
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate(animation) == "blink"
    page.keyboard.press("Enter")
    page.focus("#open-register")
    page.keyboard.press("Enter")
    page.wait_for_selector("#pick-thermal.turn")
    for spot in ("Shift+ArrowLeft", "Shift+ArrowUp", "Shift+ArrowRight", "Shift+ArrowDown"):
        for name in ("thermal", "rgb"):
            page.focus(f"#pick-{name}")
            for _ in range(4):
                page.keyboard.press(spot)
            page.keyboard.press("Enter")
    wait_for_text(page, "#fit", "4 points")
    page.keyboard.press("Escape")
    assert problems == []
    page.context.close()


def test_full_screen_shows_pictures_and_alarms(browser: Any, live: Live) -> None:
    live.scene.hot = True
    page, problems = open_page(browser, live)
    page.wait_for_selector("#strip.loud")
    page.click("#full")
    page.wait_for_function("() => document.fullscreenElement?.id === 'watch'")
    assert page.is_visible("#strip")
    assert page.is_visible("#screen-thermal")
    page.evaluate("document.exitFullscreen()")
    page.wait_for_function("() => !document.fullscreenElement")
    assert problems == []
    page.context.close()


def test_times_of_another_day_bear_their_date(browser: Any, live: Live) -> None:
    page, problems = open_page(browser, live, timezone_id="America/Denver")
    found = page.evaluate(
        """async () => {
            const { clock, dateOf } = await import('/words.js');
            const now = Date.UTC(2026, 11, 1, 12, 0, 5) / 1000;
            return [clock(now, now), clock(now - 86400, now), dateOf(now)];
        }"""
    )
    assert found == ["05:00:05", "2026-11-30 05:00:05", "2026-12-01"]
    assert eventually(lambda: page.inner_text("#date").startswith("20"))
    assert problems == []
    page.context.close()
