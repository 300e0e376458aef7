"""Connections that idle, dawdle or do not read: the page, the run and its end wait for none of them."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import os
import resource
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from live_runs import Live, eventually, live_page

from edge_sdk.live import session
from edge_sdk.live.limits import Limits
from edge_sdk.publish.mqtt import parse_broker

TOKEN = "correct-horse-battery"
QUICK = Limits(
    connections=12, each=6, reserve=4, viewers=3, head_s=0.5, request_s=1.0, idle_s=1.0, send_s=1.0,
    goodbye_s=0.5, accepted_hz=2000.0,
)  # fmt: skip


@pytest.fixture
def page(toy_fusion: Path, tmp_path: Path) -> Iterator[Live]:
    with live_page(toy_fusion, tmp_path, limits=QUICK) as live:
        assert eventually(lambda: live.server.state()["frames"] > 3)
        yield live


def wire_to(live: Live) -> socket.socket:
    return socket.create_connection(("127.0.0.1", live.server.address.port), timeout=20)


def get(live: Live, path: str = "/api/state", *headers: str) -> tuple[int, bytes]:
    with wire_to(live) as wire:
        wire.sendall(head_of(live, path, "Connection: close", *headers))
        answer = rest_of(wire)
    return (int(answer.split()[1]), answer.partition(b"\r\n\r\n")[2]) if answer else (0, b"")


def head_of(live: Live, path: str, *headers: str) -> bytes:
    host = f"Host: 127.0.0.1:{live.server.address.port}"
    return "\r\n".join([f"GET {path} HTTP/1.1", host, *headers, "", ""]).encode()


def rest_of(wire: socket.socket) -> bytes:
    answer = b""
    try:
        while chunk := wire.recv(65536):
            answer += chunk
    except ConnectionError:
        pass
    return answer


def is_over(wire: socket.socket) -> bool:
    """Whether the other end has ended the connection; waits for it."""
    try:
        return wire.recv(1) == b""
    except ConnectionError:
        return True


@contextmanager
def viewer(live: Live, *, receive_bytes: int | None = None, token: str = "") -> Iterator[socket.socket]:
    """A WebSocket that does nothing by itself."""
    with socket.socket() as wire:
        if receive_bytes is not None:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        wire.settimeout(20)
        wire.connect(("127.0.0.1", live.server.address.port))
        key = base64.b64encode(os.urandom(16)).decode()
        upgrade = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
        bearer = [f"Authorization: Bearer {token}"] if token else []
        wire.sendall(head_of(live, "/ws", *upgrade, f"Sec-WebSocket-Key: {key}", *bearer))
        assert wire.recv(12) == b"HTTP/1.1 101"
        yield wire


def test_idle_connections_are_ended_and_make_room(page: Live) -> None:
    with ExitStack() as stack:
        idle = [stack.enter_context(wire_to(page)) for _ in range(QUICK.connections + QUICK.reserve + 10)]
        assert get(page)[0] == 200, "the newest comes in at once"
        assert get(page, "/healthz")[0] == 200
        assert all(is_over(wire) for wire in idle)
    assert get(page)[0] == 200


def test_a_head_that_dribbles_is_ended(page: Live) -> None:
    with wire_to(page) as wire:
        begun_s = time.monotonic()
        wire.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        pause = threading.Event()
        try:
            for _ in range(200):
                wire.sendall(b"X: y\r\n")
                pause.wait(0.05)
        except ConnectionError:
            pass
        assert 0.3 < time.monotonic() - begun_s < 8
        assert is_over(wire)


def test_a_second_head_that_dribbles_is_ended(page: Live) -> None:
    with wire_to(page) as wire:
        wire.sendall(head_of(page, "/icon.svg"))
        answer = b""
        while b"</svg>" not in answer:
            answer += wire.recv(65536)
        wire.sendall(b"G")
        assert is_over(wire)


def test_a_body_that_dribbles_is_told_so(page: Live) -> None:
    with wire_to(page) as wire:
        wire.sendall(
            head_of(page, "/api/force", "Content-Type: application/json", "Content-Length: 100")
            .replace(b"GET", b"POST", 1) + b'{"rou'
        )  # fmt: skip
        answer = rest_of(wire)
    assert answer.startswith(b"HTTP/1.1 408"), answer
    assert b"nosniff" in answer


def test_answers_that_nobody_takes_are_given_up(page: Live) -> None:
    with socket.socket() as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        wire.settimeout(20)
        wire.connect(("127.0.0.1", page.server.address.port))
        try:
            for _ in range(2000):  # answers of many MB are asked for, none is read
                wire.sendall(head_of(page, "/app.js") * 20)
        except (ConnectionError, TimeoutError):
            pass
        assert eventually(lambda: open_connections(page) == 0)


def open_connections(live: Live) -> int:
    """Connections on the page's side, as the kernel has them."""
    port = f":{live.server.address.port:04X}"
    lines = Path("/proc/self/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[1].endswith(port) and line.split()[3] == "01" for line in lines)


def test_viewers_that_read_nothing_are_let_go(page: Live) -> None:
    with viewer(page, receive_bytes=2048):
        assert eventually(lambda: page.server.state()["page"]["viewers"] == 1)
        assert eventually(lambda: page.server.state()["page"]["viewers"] == 0), "its messages pile up"
        assert eventually(lambda: open_connections(page) == 0)


def test_viewers_that_answer_no_ping_are_let_go(page: Live) -> None:
    with viewer(page) as wire:
        wire.setblocking(False)
        assert eventually(lambda: page.server.state()["page"]["viewers"] == 1)

        def is_gone() -> bool:
            with suppress(OSError):
                wire.recv(1 << 20)  # it reads all that comes, and never says a word
            return page.server.state()["page"]["viewers"] == 0

        assert eventually(is_gone)


def test_viewers_that_chatter_are_let_go(page: Live) -> None:
    with viewer(page) as wire:
        said = b'{"shown": 1}'
        frame = struct.pack("!BB4s", 0x81, 0x80 | len(said), b"\0\0\0\0") + said
        with suppress(ConnectionError):
            wire.sendall(frame * 500)
        assert eventually(lambda: page.server.state()["page"]["viewers"] == 0)


def test_a_plain_request_tells_whether_there_is_a_place_for_a_viewer(page: Live) -> None:
    assert get(page, "/ws")[0] == 426
    with ExitStack() as stack:
        for _ in range(QUICK.viewers):
            stack.enter_context(viewer(page))
        status, body = get(page, "/ws")
        assert status == 503
        assert json.loads(body)["error"] == "3 viewers are connected already"


def test_the_run_ends_within_seconds_whatever_viewers_do(toy_fusion: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        with live_page(toy_fusion, tmp_path, token=TOKEN) as live:
            for _ in range(3):
                stack.enter_context(viewer(live, receive_bytes=2048, token=TOKEN))  # reads nothing
            stack.enter_context(viewer(live, token=TOKEN))  # and one that says no goodbye
            for _ in range(5):
                stack.enter_context(wire_to(live))
            slow = stack.enter_context(wire_to(live))
            slow.sendall(head_of(live, "/api/force", f"Authorization: Bearer {TOKEN}", "Content-Length: 9",
                                 "Content-Type: application/json").replace(b"GET", b"POST", 1))  # fmt: skip
            guess = stack.enter_context(wire_to(live))
            guess.sendall(head_of(live, "/api/state", "Authorization: Bearer wrong-wrong"))
            assert eventually(lambda: live.server.state()["page"]["viewers"] == 4)
            sent = live.server.state()["page"]["sent"]
            assert eventually(lambda: live.server.state()["page"]["sent"] >= sent)
            begun_s = time.monotonic()
        took_s = time.monotonic() - begun_s
    assert took_s < 8, took_s
    assert not live.server.left_behind
    said = " ".join(live.session.last_lines())
    if live.server.cut_off:
        assert f"{live.server.cut_off} connections did not end and were cut off" in said


def test_what_hangs_at_the_end_is_left_behind_and_said(
    toy_fusion: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    monkeypatch.setitem(session._CLOSE_S, "the recording", 0.2)
    with live_page(toy_fusion, tmp_path) as live:
        monkeypatch.setattr(live.session.control, "_end_recording", lambda: released.wait(30))
        assert get(live)[0] == 200
    assert "the recording could not be closed within 0.2 s and was left behind" in live.session.last_lines()
    released.set()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho drops its socket
def test_a_broker_that_never_answers_does_not_hold_up_the_end(
    toy_fusion: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(session._CLOSE_S, "MQTT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        broker = parse_broker(f"mqtts://127.0.0.1:{silent.getsockname()[1]}/site/7")
        with live_page(toy_fusion, tmp_path, broker=broker, spool=tmp_path / "spool.db") as live:
            taken, _ = silent.accept()  # and now it waits for a greeting in TLS
            assert eventually(lambda: live.server.state()["frames"] > 3)
            begun_s = time.monotonic()
        took_s = time.monotonic() - begun_s
        taken.close()
    left = [thread for thread in threading.enumerate() if "paho" in thread.name or "closing" in thread.name]
    for thread in left:
        thread.join(30)
    gc.collect()
    assert took_s < 8, took_s
    assert "MQTT could not be closed within 0.5 s and was left behind" in live.session.last_lines()


# Tokens -------------------------------------------------------------------------------------------


def test_guesses_are_slowed_and_right_viewers_are_not(toy_fusion: Path, tmp_path: Path) -> None:
    with live_page(toy_fusion, tmp_path, token=TOKEN) as live:
        cookie = f"Cookie: {live.server.guard.cookie_name}={live.server.guard.cookie_value}"
        assert eventually(lambda: live.server.state()["frames"] > 3)

        async def guess(number: int) -> float:
            begun_s = time.monotonic()
            assert (await asyncio.to_thread(get, live, "/api/state", f"Authorization: Bearer {number:08}"))[
                0
            ] == 401
            return time.monotonic() - begun_s

        async def crowd() -> tuple[list[float], list[float]]:
            guesses = [asyncio.ensure_future(guess(number)) for number in range(8)]
            await asyncio.sleep(0.3)
            viewers = []
            for _ in range(5):
                begun_s = time.monotonic()
                assert (await asyncio.to_thread(get, live, "/api/state", cookie))[0] == 200
                viewers.append(time.monotonic() - begun_s)
            return sorted(await asyncio.gather(*guesses)), viewers

        waits, viewers = asyncio.run(crowd())
        assert waits[0] >= 0.5
        assert waits[-1] >= 2.0, "the eighth waits longer"
        assert max(viewers) < 2.0
        begun_s = time.monotonic()
        assert get(live, "/api/state", f"Authorization: Bearer {TOKEN}")[0] == 200, "late, and not locked out"
        assert time.monotonic() - begun_s < 15


def test_any_right_credential_opens_and_a_stale_cookie_is_cleared(toy_fusion: Path, tmp_path: Path) -> None:
    with live_page(toy_fusion, tmp_path, token=TOKEN) as live:
        name, value = live.server.guard.cookie_name, live.server.guard.cookie_value
        for headers in (
            [f"Cookie: {name}=stale", f"Authorization: Bearer {TOKEN}"],
            [f"Cookie: {name}={value}", "Authorization: Basic dTpw"],
            [f"Cookie: {name}={value}", "Authorization: Bearer wrong-wrong"],
            [f"Cookie: other={{odd}}; {name}=stale; {name}={value}"],
            [f"Cookie: {name}=stale", f"Cookie: {name}={value}"],
        ):
            assert get(live, "/api/state", *headers)[0] == 200, headers
        assert get(live, f"/?token=wrong-wrong&token={TOKEN}", f"Cookie: {name}=stale")[0] == 303
        with wire_to(live) as wire:
            wire.sendall(head_of(live, "/", f"Cookie: {name}=stale; theirs=1"))
            answer = rest_of(wire).decode()
        assert answer.startswith("HTTP/1.1 401")
        (cleared,) = [line for line in answer.split("\r\n") if line.startswith("Set-Cookie")]
        assert name in cleared
        assert "Max-Age=0" in cleared
        assert "theirs" not in cleared


# Handles ------------------------------------------------------------------------------------------

RUN = """
import resource, sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
import live_runs
from edge_sdk.recording import RecordingPlan
folder = Path({folder!r})
with live_runs.live_page(Path({engine!r}), folder, record=RecordingPlan(folder / "run.mcap")) as live:
    print(live.server.address.port, flush=True)
    sys.stdin.readline()
    for file in [open(folder / f"file-{{number}}", "w") for number in range(20)]:  # a run may need them
        file.close()
    live_runs.eventually(lambda: live.server.state()["frames"] > 20)
print(live.session.last_lines(), flush=True)
"""


def test_connections_never_take_the_handles_of_the_run(toy_fusion: Path, tmp_path: Path) -> None:
    script = RUN.format(tests=str(Path(__file__).parents[1]), folder=str(tmp_path), engine=str(toy_fusion))
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 400
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as run, ExitStack() as stack:  # fmt: skip
        assert run.stdout is not None
        port = int(run.stdout.readline())
        for _ in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
        connection.sendall(f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        assert connection.recv(12) == b"HTTP/1.1 200"
        out, err = run.communicate("\n", timeout=120)
    assert run.returncode == 0, err
    assert "Too many open files" not in err
    assert "run.mcap" in out
    assert "ended early" not in out
