"""What a reverse proxy's origin means, and whom its requests come from."""

from __future__ import annotations

import pytest

from edge_sdk.errors import ConfigError
from edge_sdk.live.proxy import Proxy, is_loopback, parse_proxy


@pytest.mark.parametrize(
    ("text", "origin", "prefix", "url"),
    [
        ("https://site.example", "https://site.example", "", "https://site.example/"),
        ("https://Site.Example:443/", "https://site.example", "", "https://site.example/"),
        ("https://site.example/yard/7/", "https://site.example", "/yard/7", "https://site.example/yard/7/"),
        ("http://10.0.0.5:8000", "http://10.0.0.5:8000", "", "http://10.0.0.5:8000/"),
        ("https://[2001:db8::1]:8443/a", "https://[2001:db8::1]:8443", "/a", "https://[2001:db8::1]:8443/a/"),
    ],
)
def test_origins(text: str, origin: str, prefix: str, url: str) -> None:
    proxy = parse_proxy(text)
    assert (proxy.origin, proxy.prefix, proxy.url) == (origin, prefix, url)
    assert proxy.is_encrypted is text.startswith("https")


@pytest.mark.parametrize(
    "text",
    ["", "site.example", "ftp://site.example", "https://", "https://u:p@site.example", "https://a?b", "https://a#b",
     "https://a:port", "https://a//b", "https://[::1", "https://ä.example"],
)  # fmt: skip
def test_no_origins(text: str) -> None:
    with pytest.raises(ConfigError, match=r"expected what browsers open, as https://site\.example"):
        parse_proxy(text)


def test_the_proxys_address_is_an_address() -> None:
    assert parse_proxy("https://a", "10.0.0.5").address == "10.0.0.5"
    with pytest.raises(ConfigError, match="--proxy-address: expected an IP address, found 'box'"):
        parse_proxy("https://a", "box")


@pytest.mark.parametrize(
    ("path", "inside"),
    [("/yard7/ws", "/ws"), ("/yard7/", "/"), ("/yard7", "/"), ("/yard77/ws", "/yard77/ws"), ("/ws", "/ws")],
)
def test_paths_with_and_without_the_prefix(path: str, inside: str) -> None:
    assert parse_proxy("https://a/yard7").inside(path) == inside
    assert Proxy("https://a").inside(path) == path


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("127.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("127.0.0.1", ["1.2.3.4, 203.0.113.9"], "203.0.113.9"),
        ("127.0.0.1", ["1.2.3.4", "203.0.113.9"], "203.0.113.9"),
        ("127.0.0.1", ["203.0.113.9:5555"], "203.0.113.9"),
        ("127.0.0.1", ["[2001:db8::1]:5555"], "2001:db8::1"),
        ("127.0.0.1", ["nonsense"], "127.0.0.1"),
        ("127.0.0.1", [], "127.0.0.1"),
        ("192.168.1.5", ["203.0.113.9"], "192.168.1.5"),
    ],
)
def test_only_the_proxys_word_counts(peer: str, forwarded: list[str], client: str) -> None:
    assert parse_proxy("https://a").client(peer, forwarded) == client


def test_a_proxy_on_another_machine() -> None:
    proxy = parse_proxy("https://a", "10.0.0.5")
    assert proxy.client("10.0.0.5", ["203.0.113.9"]) == "203.0.113.9"
    assert proxy.client("127.0.0.1", ["203.0.113.9"]) == "127.0.0.1"


@pytest.mark.parametrize(
    ("host", "is_own"),
    [("127.0.0.1", True), ("::1", True), ("::ffff:127.0.0.1", True), ("10.0.0.1", False), ("", False)],
)
def test_loopback(host: str, is_own: bool) -> None:
    assert is_loopback(host) is is_own
