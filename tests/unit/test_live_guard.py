"""Who may talk to the page."""

from __future__ import annotations

import socket

import pytest

from edge_sdk.errors import ConfigError
from edge_sdk.live.guard import Address, Guard, bearer_tokens, parse_address
from edge_sdk.live.proxy import parse_proxy

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
    ("headers", "tokens"),
    [
        ({}, []),
        ({"Authorization": "Bearer a-long-token"}, ["a-long-token"]),
        ({"Authorization": "bearer  a-long-token "}, ["a-long-token"]),
        ({"Authorization": "Bearer "}, []),
        ({"Authorization": "Basic a-long-token"}, []),
        ({"Authorization": "Bearer ä-löng-token"}, ["ä-löng-token"]),
    ],
)
def test_tokens_of_requests(headers: dict[str, str], tokens: list[str]) -> None:
    assert bearer_tokens(headers) == tokens


@pytest.mark.parametrize(
    ("text", "right"),
    [("a-long-token", True), ("a-long-tokeN", False), ("", False), ("ä", False), ("\udcff", False)],
)
def test_tokens(text: str, right: bool) -> None:
    assert Guard(OPEN, "a-long-token").is_token(text) is right
    assert not Guard(LOOPBACK).is_token(text), "none is needed"


def test_any_right_cookie_opens_the_page_among_whatever_others() -> None:
    guard = Guard(OPEN, "a-long-token")
    ours, right = guard.cookie_name, guard.cookie_value
    for header in (
        f"{ours}={right}",
        f'{ours}="{right}"',
        f"x=1; {ours}={right}; y=2",
        f"{{odd}}=[a b,c]; =; ;; \x00=\x7f; {ours}={right}",
        f"{ours}=stale; {ours}={right}",
    ):
        assert guard.cookie_is_right({"Cookie": header}), header
        assert not guard.has_stale_cookie({"Cookie": header})
    for header in (f"{ours}=stale", f"{ours}=", f"{ours}=a-long-token"):
        assert not guard.cookie_is_right({"Cookie": header}), header
        assert guard.has_stale_cookie({"Cookie": header})
    for header in ("", f"edge_sdk_9090={right}", f"{ours}x={right}", "\x00;;=="):
        assert not guard.cookie_is_right({"Cookie": header}), header
        assert not guard.has_stale_cookie({"Cookie": header}), "another's cookie is none of our business"


def test_the_cookie_follows_from_the_token_and_does_not_tell_it() -> None:
    guard = Guard(OPEN, "a-long-token")
    assert guard.cookie_value == Guard(Address("::1", 1), "a-long-token").cookie_value
    assert guard.cookie_value != Guard(OPEN, "another-token").cookie_value
    assert "a-long-token" not in guard.cookie_value
    assert guard.cookie_name.startswith("edge_sdk_8080_")
    assert guard.cookie_name != Guard(Address("0.0.0.0", 9090), "a-long-token").cookie_name


def test_behind_a_proxy() -> None:
    guard = Guard(LOOPBACK, "a-long-token", proxy=parse_proxy("https://site.example/yard7/"))
    for host in ("site.example", "SITE.example:443", "127.0.0.1:8080"):
        assert guard.host_is_ours(host), host
    assert not guard.host_is_ours("evil.example")
    for origin, host, ours in (
        ("https://site.example", "site.example", True),
        ("https://site.example", "127.0.0.1:8080", True),
        ("http://site.example", "site.example", False),
        ("https://site.example:444", "site.example", False),
        ("https://evil.example", "site.example", False),
        ("http://127.0.0.1:8080", "127.0.0.1:8080", True),
    ):
        assert guard.origin_is_ours({"Origin": origin, "Host": host}) is ours, (origin, host)
    made = Guard(LOOPBACK, proxy=parse_proxy("https://site.example"))
    assert made.token_was_made, "whoever reaches the proxy would reach the page"


def test_the_url_holds_the_token() -> None:
    assert Address("127.0.0.1", 80).url() == "http://127.0.0.1:80/"
    assert Address("::1", 80).url("a&b c").endswith("?token=a%26b%20c")
    assert Address("::1", 80).url("abc") == "http://[::1]:80/?token=abc"
    assert Address("0.0.0.0", 80).url() == f"http://{socket.gethostname()}:80/"
