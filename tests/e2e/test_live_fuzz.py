"""Broken requests over a raw socket: each gets a 4xx with our headers, and the page goes on."""

from __future__ import annotations

import json
import random
import select
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_runs import Live, eventually, live_page

from edge_sdk.live.limits import Limits
from edge_sdk.live.site import HEADERS

TOKEN = "correct-horse-battery"
QUICK = Limits(head_s=0.4, idle_s=0.4, request_s=3.0, accepted_hz=2000.0)


@pytest.fixture(scope="module")
def page(toy_fusion: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live_page(toy_fusion, tmp_path_factory.mktemp("fuzz"), limits=QUICK) as live:
        assert eventually(lambda: live.server.state()["frames"] > 3)
        yield live


@pytest.fixture(scope="module")
def guarded(toy_fusion: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live_page(toy_fusion, tmp_path_factory.mktemp("fuzz-token"), limits=QUICK, token=TOKEN) as live:
        yield live


def send(live: Live, request: bytes, patience_s: float = 0.0) -> tuple[int, dict[str, str], bytes]:
    """Sends bytes as they are, and returns status, headers and body of the first answer; 0 without one."""
    with socket.create_connection(("127.0.0.1", live.server.address.port), timeout=10) as wire:
        answer = b""
        try:
            wire.sendall(request)
            if patience_s and not select.select([wire], [], [], patience_s)[0]:
                wire.shutdown(socket.SHUT_WR)  # it waits for the rest of the request
            while not answer.startswith(b"HTTP/1.1 101") and (chunk := wire.recv(65536)):
                answer += chunk
        except ConnectionError:
            pass
    if not answer:
        return 0, {}, b""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(first.split()[1]), headers, body


def request(
    live: Live, method: str = "GET", path: str = "/api/state", body: bytes = b"", *extra: bytes
) -> bytes:
    head = [
        f"{method} {path} HTTP/1.1".encode(),
        f"Host: 127.0.0.1:{live.server.address.port}".encode(),
        b"Connection: close",
        *extra,
    ]
    if body and not any(line.lower().startswith((b"content-length", b"transfer-encoding")) for line in extra):
        head.append(f"Content-Length: {len(body)}".encode())
    if body and not any(line.lower().startswith(b"content-type") for line in extra):
        head.append(b"Content-Type: application/json")
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def assert_turned_away(answer: tuple[int, dict[str, str], bytes]) -> None:
    status, headers, body = answer
    assert 400 <= status < 500, (status, body[:300])
    for name, value in HEADERS.items():
        assert headers.get(name.lower()) == value, (name, headers)
    assert json.loads(body)["error"]
    assert b"Traceback" not in body
    assert b"aiohttp" not in body
    assert "aiohttp" not in headers.get("server", "").lower()


FORM = b"Content-Type: application/x-www-form-urlencoded"
BODIES = {
    "400 digits": b'{"points": [[%s, 1, 1, 1]]}' % (b"9" * 400),
    "400 digits as a route": b'{"route": %s}' % (b"9" * 400),
    "5000 digits": b'{"points": [[%s, 1, 1, 1]]}' % (b"9" * 5000),
    "a huge exponent": b'{"points": [[1e999, 1, 1, 1], [1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]]}',
    "no number": b'{"points": [[NaN, 1, 1, 1]]}',
    "deep lists": b"[" * 16_000,
    "deep objects": b'{"a":' * 3_000 + b"1" + b"}" * 3_000,
    "deep points": b'{"points": ' + b"[" * 7_000 + b"]" * 7_000 + b"}",
    "a list": b"[1, 2]",
    "nothing": b" ",
    "no UTF-8": b'{"route": "\xff\xfe"}',
    "a lone surrogate": b'{"route": "\\ud800"}',
    "a NUL": b'{"route": "\\u0000"}',
    "points as an object": b'{"points": {"1": 2}}',
}


@pytest.mark.parametrize("path", ["/api/force", "/api/registration/fit", "/api/registration/apply"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_broken_bodies(page: Live, path: str, body: bytes) -> None:
    assert_turned_away(send(page, request(page, "POST", path, body)))


KINDS = {
    "no kind": b"Content-Type:",
    "no slash": b"Content-Type: json",
    "text": b"Content-Type: text/plain",
    "another charset": b"Content-Type: application/json; charset=utf-16",
    "an unknown charset": b"Content-Type: application/json; charset=klingon",
    "a charset that is none": b'Content-Type: application/json; charset="\xff"',
    "multipart without a boundary": b"Content-Type: multipart/form-data",
    "multipart": b"Content-Type: multipart/form-data; boundary=x",
    "multipart of an odd boundary": b"Content-Type: multipart/form-data; boundary=" + b"x" * 200,
    "odd": b"Content-Type: ;;;=,,,",
}


@pytest.mark.parametrize("path", ["/api/force", "/login"])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_bodies_of_another_kind(page: Live, path: str, kind: bytes) -> None:
    assert_turned_away(send(page, request(page, "POST", path, b'--x\r\n{"route": "fuse"}', kind)))
    assert page.server.state()["control"]["force"] is None


@pytest.mark.parametrize("coding", [b"gzip", b"deflate", b"br", b"nonsense"])
def test_packed_bodies_are_not_unpacked(page: Live, coding: bytes) -> None:
    packed = request(
        page, "POST", "/api/force", b"\x1f\x8b\x08\x00" + b"\x00" * 40, b"Content-Encoding: " + coding
    )
    assert_turned_away(send(page, packed))


BROKEN = {
    "no HTTP": b"hello\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(200)),
    "no version": b"GET /\r\nHost: 127.0.0.1\r\n\r\n",
    "a version to come": b"GET / HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n",
    "no name": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n: x\r\n\r\n",
    "no colon": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nnonsense\r\n\r\n",
    "a NUL in a header": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\x00b\r\n\r\n",
    "a bare CR": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\rb: c\r\n\r\n",
    "a space in a name": b"GET / HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n",
    "no Host": b"GET / HTTP/1.1\r\n\r\n",
    "two Hosts": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
    "an odd Host": b"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n",
    "a Host of odd bytes": b"GET / HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n",
    "two lengths": b"POST /api/force HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n"
    b"Content-Length: 3\r\n\r\n{}",
    "a negative length": b"POST /api/force HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
    "400 digits of length": b"POST /api/force HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %s\r\n\r\n"
    % (b"9" * 400),
    "a length and chunks": b"POST /api/force HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "an odd chunk": b"POST /api/force HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "an odd coding": b"POST /api/force HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: nonsense\r\n\r\n{}",
    "a long line": b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    "a long header": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"y" * 20_000 + b"\r\n\r\n",
    "an odd path": b"GET http://[::1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a path of odd bytes": b"GET /\xff\xfe?token=%ff%fe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "percent signs": b"GET /%%%?%=% HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a port too high": b"GET http://127.0.0.1:99999999/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "CONNECT": b"CONNECT evil.example:443 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "TRACE": b"TRACE / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a method of its own": b"BREW /pot HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "asterisk": b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a socket without a key": b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\n\r\n",
    "a socket of an odd key": b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: \xc3\xa4\r\n\r\n",
    "no socket": b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_broken_requests(page: Live, guarded: Live, broken: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    for live in (page, guarded):
        answer = send(live, broken)
        if answer[0] != 0:  # cut off in the middle of what it still sends: it may not see the answer
            assert_turned_away(answer)
        else:
            assert len(broken) > 10_000
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/nothing", "GET", 404),
        ("/api", "POST", 404),
        ("/api/state", "POST", 405),
        ("/api/force", "GET", 405),
        ("/api/force", "DELETE", 405),
        ("/", "OPTIONS", 405),
        ("/login", "GET", 405),
        ("/ws", "GET", 426),
    ],
)
def test_what_is_not_there(page: Live, path: str, method: str, status: int) -> None:
    answer = send(page, request(page, method, path))
    assert answer[0] == status
    assert_turned_away(answer)


def test_tokens_of_odd_bytes(guarded: Live) -> None:
    for line in (b"Authorization: Bearer \xff\xfe", b"Cookie: \xff=\xfe; {a}=[b]; =", b"Authorization: \xff"):
        assert_turned_away(send(guarded, request(guarded, "GET", "/api/state", b"", line)))
    for body in (b"token=%ff%fe", b"token=\xff", b"&" * 100, b"token", b"a=b"):
        status, headers, _ = send(guarded, request(guarded, "POST", "/login", body, FORM))
        assert 400 <= status < 500, body
        assert headers["x-content-type-options"] == "nosniff"


def test_mutated_requests(page: Live, capfd: pytest.CaptureFixture[str]) -> None:
    """Requests that are right but for a few bytes; the same ones each time."""
    chance = random.Random(20261201)
    seeds = [
        request(page, "POST", "/api/force", b'{"route": null}'),
        request(page, "POST", "/api/registration/fit", b'{"points": [[1, 2, 3, 4], [5, 6, 7, 8]]}'),
        request(page, "GET", "/api/state", b"", b"Cookie: a=b; c=d", b"Authorization: Bearer x"),
        request(page, "GET", "/metrics", b"", b"Accept: */*"),
        BROKEN["an odd chunk"].replace(b"zz", b"2"),
        BROKEN["a socket of an odd key"].replace(b"\xc3\xa4", b"AAAAAAAAAAAAAAAAAAAAAA=="),
    ]
    answered = 0
    for _ in range(250):
        broken = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(broken))
            what = chance.randrange(3)
            if what == 0:
                broken[at] = chance.randrange(256)
            elif what == 1:
                del broken[at : at + chance.randint(1, 8)]
            else:
                broken[at:at] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 8)))
            if not broken:
                break
        status, headers, body = send(page, bytes(broken), patience_s=0.15)
        assert status < 500, (bytes(broken), body)
        if status >= 400:
            answered += 1
            assert headers["x-content-type-options"] == "nosniff", bytes(broken)
            assert headers["content-security-policy"] == HEADERS["Content-Security-Policy"]
            assert b"Traceback" not in body
    assert answered > 50
    assert "Traceback" not in capfd.readouterr().err
    assert send(page, request(page))[0] == 200
    assert page.server.state()["control"]["force"] in (None, "rgb", "fuse", "thermal")
