"""The live page from outside: what it serves, and every way in that must be shut."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from live_runs import Live, eventually, live_page

from edge_sdk.errors import DeviceError
from edge_sdk.live.guard import Address
from edge_sdk.live.page_files import PAGE_FILES
from edge_sdk.recording import Recording

TOKEN = "correct-horse-battery"


@pytest.fixture(scope="module")
def page(toy_fusion: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live_page(toy_fusion, tmp_path_factory.mktemp("live")) as live:
        assert eventually(lambda: live.server.state()["frames"] > 3)
        yield live


@pytest.fixture(scope="module")
def guarded(toy_fusion: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live_page(toy_fusion, tmp_path_factory.mktemp("guarded"), token=TOKEN) as live:
        assert eventually(lambda: live.server.state()["frames"] > 3)
        yield live


def ask(
    live: Live, path: str, *, method: str = "GET", body: Any = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """One request, its path exactly as given."""
    connection = http.client.HTTPConnection("127.0.0.1", live.server.address.port, timeout=20)
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    all_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        all_headers.setdefault("Content-Type", "application/json")
    try:
        connection.request(method, path, data, all_headers)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def origin(live: Live) -> str:
    return f"http://127.0.0.1:{live.server.address.port}"


@pytest.mark.parametrize(("path", "kind"), [(path, kind) for path, (_, kind) in sorted(PAGE_FILES.items())])
def test_the_page_is_whole_and_needs_nothing_from_elsewhere(page: Live, path: str, kind: str) -> None:
    status, headers, body = ask(page, path)
    assert status == 200
    assert headers["content-type"].startswith(kind)
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    text = body.decode().replace("http://www.w3.org/", "")
    assert "http://" not in text
    assert "https://" not in text


def test_every_file_of_the_page_is_served_and_no_other() -> None:
    static = resources.files("edge_sdk.live") / "static"
    assert sorted(name for name, _ in PAGE_FILES.values()) == sorted(file.name for file in static.iterdir())


def test_health_metrics_and_state(page: Live) -> None:
    status, _, body = ask(page, "/healthz")
    assert (status, json.loads(body)["status"]) == (200, "ok")
    status, headers, body = ask(page, "/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain")
    from prometheus_client.parser import text_string_to_metric_families

    families = {family.name: family for family in text_string_to_metric_families(body.decode())}
    assert sum(sample.value for sample in families["edge_sdk_pairs"].samples) > 3
    assert {sample.labels["camera"] for sample in families["edge_sdk_camera_ok"].samples} == {
        "rgb",
        "thermal",
    }
    assert "edge_sdk_power_watts" not in families, "no sensor, no sample"
    state = json.loads(ask(page, "/api/state")[2])
    assert state["facts"]["engine"] == "toy-fusion 0.0.1 int8"
    assert state["power"]["note"] == "no power sensor read"


@pytest.mark.parametrize(
    "path",
    [
        "/../server.py",
        "/static/../server.py",
        "/..%2fserver.py",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/app.js/../../server.py",
        "/app.js%00.css",
        "/.git/config",
        "/index.html",
        "/static/app.js",
        "/api",
        "/api/",
        "/recordings",
    ],
)
def test_path_tricks_find_nothing(page: Live, path: str) -> None:
    status, _, body = ask(page, path)
    assert status in (400, 404), body
    assert b"root:" not in body
    assert b"import" not in body


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "192.168.1.77", "a b"])
@pytest.mark.parametrize("path", ["/", "/api/state", "/ws", "/metrics", "/healthz", "/login"])
def test_dns_rebinding_gets_nothing(page: Live, host: str, path: str) -> None:
    assert ask(page, path, Host=host)[0] in (400, 421)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_other_pages_change_nothing(page: Live, headers: dict[str, str]) -> None:
    for path in ("/api/force", "/api/record", "/api/registration/save", "/login"):
        status, answer_headers, _ = ask(
            page, path, method="POST", body={"route": "fuse", "on": True}, **headers
        )
        assert status == 403
        assert "access-control-allow-origin" not in answer_headers
    assert ask(page, "/ws", Upgrade="websocket", Connection="Upgrade", **headers)[0] == 403
    assert page.server.state()["control"]["force"] is None


def test_a_form_of_another_kind_changes_nothing(page: Live) -> None:
    status, _, _ = ask(
        page, "/api/force", method="POST", body=b'{"route": "fuse"}', Content_Type="text/plain"
    )
    assert status == 415
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "GET"):
        assert ask(page, "/api/force", method=method)[0] in (403, 404, 405)


def test_large_bodies_are_cut_off(page: Live) -> None:
    assert ask(page, "/api/force", method="POST", body=b'{"route": "' + b"x" * 20_000 + b'"}')[0] == 413
    status, _, _ = ask(page, "/", X_Long="x" * 20_000)
    assert status in (400, 431)
    assert ask(page, "/api/force", method="POST", body=b"[" * 10_000)[0] == 400


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/force", {"route": "both"}),
        ("/api/force", {}),
        ("/api/force", ["fuse"]),
        ("/api/force", {"route": ["fuse"]}),
        ("/api/registration/fit", {"points": [[1, 2, 3]]}),
        ("/api/registration/fit", {"points": "many"}),
        ("/api/registration/fit", {"points": [[1, 1, 1, 1]] * 3}),
        ("/api/registration/fit", {"points": [["a", 1, 1, 1]] * 4}),
        ("/api/registration/save", {}),
    ],
)
def test_wrong_requests_are_told_what_is_wrong(page: Live, path: str, body: Any) -> None:
    status, _, answer = ask(page, path, method="POST", body=body)
    assert status == 400
    assert json.loads(answer)["error"]


def test_force_record_and_register(page: Live) -> None:
    own = {"Origin": origin(page)}
    assert ask(page, "/api/force", method="POST", body={"route": "thermal"}, **own)[0] == 200
    assert eventually(lambda: page.server.state()["reason"] == "forced")
    assert ask(page, "/api/record", method="POST", body={"on": True}, **own)[0] == 200
    assert eventually(lambda: page.server.state()["control"]["recording"]["pairs"] > 2)
    assert ask(page, "/api/record", method="POST", body={"on": False}, **own)[0] == 200
    assert ask(page, "/api/force", method="POST", body={"route": None}, **own)[0] == 200
    (path,) = (page.folder / "recordings").iterdir()
    recording = Recording(path)
    assert sum(1 for _ in recording) > 2
    assert recording.whole
    recording.close()
    still = json.loads(ask(page, "/api/still")[2])
    assert still["rgb"]["size_wh"] == [64, 48]
    assert still["thermal"]["jpeg"].startswith("data:image/jpeg;base64,")
    points = [[5, 5, 6, 7], [60, 4, 61, 6], [58, 44, 59, 46], [4, 40, 5, 42], [30, 20, 31, 22]]
    status, _, answer = ask(page, "/api/registration/apply", method="POST", body={"points": points})
    assert status == 200
    fit = json.loads(answer)
    assert fit["rms_px"] < 0.01
    assert fit["homography"][0][2] == pytest.approx(1.0, abs=0.01)
    assert ask(page, "/api/registration/save", method="POST", body={})[0] == 200
    assert (page.folder / "registration.json").is_file()
    assert ask(page, "/api/registration/reset", method="POST", body={})[0] == 200


# With a token -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/", "/app.js", "/api/state", "/api/still", "/ws", "/healthz", "/metrics", "/nope"]
)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong-token"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Cookie": "edge_sdk_1=x"},
    ],
)
def test_without_the_token_nothing_is_told(guarded: Live, path: str, headers: dict[str, str]) -> None:
    status, _, body = ask(guarded, path, **headers)
    assert status == 401
    assert b"toy" not in body


def test_without_the_token_nothing_is_changed(guarded: Live) -> None:
    for path in ("/api/force", "/api/record", "/api/registration/save"):
        assert ask(guarded, path, method="POST", body={"route": "fuse", "on": True})[0] == 401
    assert guarded.server.state()["control"]["force"] is None


def test_the_token_opens_the_page_and_moves_into_a_cookie(guarded: Live) -> None:
    assert ask(guarded, "/?token=wrong-wrong")[0] == 401
    status, headers, _ = ask(guarded, f"/?token={TOKEN}")
    assert (status, headers["location"]) == (303, "./"), "as right behind a proxy's path"
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    value = cookie.partition(";")[0]
    assert ask(guarded, "/", Cookie=value)[0] == 200
    assert ask(guarded, "/api/state", Cookie=value)[0] == 200
    assert ask(guarded, "/metrics", Authorization=f"Bearer {TOKEN}")[0] == 200
    form = {"Content_Type": "application/x-www-form-urlencoded", "Origin": origin(guarded)}
    assert ask(guarded, "/login", method="POST", body=b"token=nonsense", **form)[0] == 401
    assert ask(guarded, "/login", method="POST", body=f"token={TOKEN}".encode(), **form)[0] == 303
    assert ask(guarded, "/api/state?token=" + TOKEN)[0] == 401, "a token in a link opens the page alone"


# Viewers ------------------------------------------------------------------------------------------


def test_a_viewer_that_never_confirms_gets_two_pictures_and_slows_nobody(page: Live) -> None:
    async def look() -> tuple[int, int, int]:
        url = f"ws://127.0.0.1:{page.server.address.port}/ws"
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(url) as slow,
            session.ws_connect(url) as quick,
        ):
            await quick.send_str('{"spots": [[0.5, 0.5]]}')
            pictures = {slow: 0, quick: 0}
            spots = 0

            async def count(one: aiohttp.ClientWebSocketResponse, confirms: bool) -> None:
                nonlocal spots
                async for message in one:
                    if message.type is aiohttp.WSMsgType.BINARY:
                        pictures[one] += 1
                        if confirms:
                            await one.send_str('{"shown": 1}')
                    elif message.type is aiohttp.WSMsgType.TEXT and "spots" in message.json():
                        spots += 1
                        assert message.json()["spots"][0]["unit"] == "°C"
                    if pictures[quick] >= 12:
                        return

            both = [asyncio.ensure_future(count(slow, False)), asyncio.ensure_future(count(quick, True))]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED, timeout=30)
            for task in both:
                task.cancel()
            return pictures[slow], pictures[quick], spots

    dropped = page.server.state()["page"]["dropped"]
    slow, quick, spots = asyncio.run(look())
    assert slow == 2
    assert quick >= 12
    assert spots >= 10
    assert page.server.state()["page"]["dropped"] > dropped
    assert eventually(lambda: page.server.state()["page"]["viewers"] == 0)


@pytest.mark.parametrize("said", ["no json", "[1", '{"spots": 7}', '{"spots": [["a", 1]]}', "x" * 5000, "[]"])
def test_a_viewer_that_talks_nonsense_is_let_go(page: Live, said: str) -> None:
    async def talk() -> bool:
        url = f"ws://127.0.0.1:{page.server.address.port}/ws"
        async with aiohttp.ClientSession() as session, session.ws_connect(url) as viewer:
            await viewer.send_str(said)
            async for _ in viewer:
                pass
            return viewer.closed

    if said == "[]":  # harmless: nothing is asked for
        return
    assert asyncio.run(asyncio.wait_for(talk(), 20))


def test_there_is_an_end_to_viewers(page: Live) -> None:
    async def crowd() -> list[int]:
        url = f"ws://127.0.0.1:{page.server.address.port}/ws"
        async with aiohttp.ClientSession() as session:
            statuses = []
            open_ones = []
            for _ in range(18):
                try:
                    open_ones.append(await session.ws_connect(url))
                    statuses.append(101)
                except aiohttp.WSServerHandshakeError as error:
                    statuses.append(error.status)
            for one in open_ones:
                await one.close()
            return statuses

    assert asyncio.run(crowd()) == [101] * 16 + [503] * 2


def test_a_taken_port_is_said_to_be_taken(page: Live, toy_fusion: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(DeviceError, match="Name another port: --serve HOST:PORT"),
        live_page(toy_fusion, tmp_path, serve=Address("127.0.0.1", page.server.address.port)),
    ):
        pass


def test_other_machines_need_the_token_that_was_made(toy_fusion: Path, tmp_path: Path) -> None:
    with live_page(toy_fusion, tmp_path, serve=Address("0.0.0.0", 0)) as live:
        assert any("token was made" in line for line in live.session.lines())
        assert live.server.guard.token is not None
        assert live.server.guard.token in live.session.lines()[0]
        assert ask(live, "/api/state")[0] == 401
        assert ask(live, "/api/state", Authorization=f"Bearer {live.server.guard.token}")[0] == 200
        assert ask(live, "/api/state", Host=f"{socket.gethostname()}:80")[0] == 401
        assert ask(live, "/api/state", Host="evil.example")[0] == 421
