"""Who may talk to the page."""

from __future__ import annotations

import socket

import pytest

from edge_sdk.errors import ConfigError
from edge_sdk.live.guard import Address, Guard, parse_address

LOOPBACK, OPEN = Address("127.0.0.1", 8080), Address("0.0.0.0", 8080)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("", "127.0.0.1", 8080),
        (":9000", "127.0.0.1", 9000),
        ("9000", "127.0.0.1", 9000),
        ("0.0.0.0", "0.0.0.0", 8080),
        ("192.168.1.5:81", "192.168.1.5", 81),
        ("[::1]:81", "::1", 81),
        ("::1", "::1", 8080),
        ("localhost:0", "localhost", 0),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    assert parse_address(text) == Address(host, port)


@pytest.mark.parametrize("text", ["host:port", "a/b:1", ":99999", "user@host:1", ":-1"])
def test_wrong_addresses_name_a_right_one(text: str) -> None:
    with pytest.raises(ConfigError, match=r"expected HOST:PORT, for example 127\.0\.0\.1:8080"):
        parse_address(text)


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False),
     ("192.168.1.5", False), ("::", False), ("jetson", False)],
)  # fmt: skip
def test_only_loopback_goes_without_a_token(host: str, is_loopback: bool) -> None:
    guard = Guard(Address(host, 8080))
    assert guard.address.is_loopback is is_loopback
    assert (guard.token is None) is is_loopback
    assert guard.token_was_made is not is_loopback


def test_made_tokens_differ_and_are_long() -> None:
    tokens = {Guard(OPEN).token for _ in range(20)}
    assert len(tokens) == 20
    assert all(token is not None and len(token) >= 20 for token in tokens)


@pytest.mark.parametrize("token", ["", "short", "no\nnewlines here", "ümläute-are-not"])
def test_poor_tokens_are_refused(token: str) -> None:
    with pytest.raises(ConfigError, match="8 or more printable ASCII"):
        Guard(OPEN, token)


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("127.0.0.1:8080", True),
        ("localhost:8080", True),
        ("LOCALHOST:8080", True),
        ("localhost.:8080", True),
        ("[::1]:8080", True),
        ("evil.example", False),
        ("evil.example:8080", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("192.168.1.5:8080", False),
        ("", False),
        (None, False),
        ("[::1", False),
        ("user@127.0.0.1", True),
    ],
)
def test_hosts_on_loopback(host: str | None, ours: bool) -> None:
    assert Guard(LOOPBACK).host_is_ours(host) is ours


def test_hosts_on_the_network() -> None:
    guard = Guard(OPEN, "a-long-token", names=("yard7.example",))
    own = socket.gethostname()
    for host in (
        "192.168.1.5:8080",
        "[fe80::1]:8080",
        own,
        f"{own.partition('.')[0]}.local:8080",
        "yard7.example",
    ):
        assert guard.host_is_ours(host), host
    assert not guard.host_is_ours("evil.example:8080")


@pytest.mark.parametrize(
    ("headers", "ours"),
    [
        ({"Host": "127.0.0.1:8080"}, True),
        ({"Host": "127.0.0.1:8080", "Origin": "http://127.0.0.1:8080"}, True),
        ({"Host": "127.0.0.1:8080", "Origin": "http://127.0.0.1:9090"}, False),
        ({"Host": "127.0.0.1:8080", "Origin": "http://evil.example"}, False),
        ({"Host": "127.0.0.1:8080", "Origin": "https://127.0.0.1:8080"}, False),
        ({"Host": "127.0.0.1:8080", "Origin": "null"}, False),
        ({"Host": "127.0.0.1:8080", "Origin": ""}, False),
        ({"Host": "127.0.0.1:8080", "Sec-Fetch-Site": "cross-site"}, False),
        ({"Host": "127.0.0.1:8080", "Sec-Fetch-Site": "same-site"}, False),
        ({"Host": "127.0.0.1:8080", "Sec-Fetch-Site": "same-origin"}, True),
    ],
)
def test_origins(headers: dict[str, str], ours: bool) -> None:
    assert Guard(LOOPBACK).origin_is_ours(headers) is ours


@pytest.mark.parametrize(
    ("headers", "right"),
    [
        ({}, False),
        ({"Authorization": "Bearer a-long-token"}, True),
        ({"Authorization": "Bearer a-long-tokeN"}, False),
        ({"Authorization": "Bearer "}, False),
        ({"Authorization": "Basic a-long-token"}, False),
        ({"Authorization": "Bearer ä-löng-token"}, False),
        ({"Cookie": "edge_sdk_8080=a-long-token"}, True),
        ({"Cookie": "x=1; edge_sdk_8080=a-long-token; y=2"}, True),
        ({"Cookie": "edge_sdk_9090=a-long-token"}, False),
        ({"Cookie": "edge_sdk_8080=wrong-token"}, False),
        ({"Cookie": "\x00;;=="}, False),
    ],
)
def test_tokens(headers: dict[str, str], right: bool) -> None:
    assert Guard(OPEN, "a-long-token").token_is_right(headers) is right


def test_the_url_holds_the_token() -> None:
    assert Address("127.0.0.1", 80).url() == "http://127.0.0.1:80/"
    assert Address("::1", 80).url("abc") == "http://[::1]:80/?token=abc"
    assert Address("0.0.0.0", 80).url() == f"http://{socket.gethostname()}:80/"
