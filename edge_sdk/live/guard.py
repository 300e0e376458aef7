"""Who may talk to the page: pure checks of what a request says of itself.

The threats: another machine on the network (token), another web page in the user's browser (Origin,
SameSite cookie, JSON alone), and a name of the attacker's that resolves to this machine (Host).
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from edge_sdk.errors import ConfigError

__all__ = ["Address", "Guard", "parse_address"]

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8080
_LEAST_TOKEN = 8


@dataclass(frozen=True)
class Address:
    """Where the page is served."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return _is_loopback(self.host)

    def url(self, token: str | None = None) -> str:
        """Returns what to open in a browser."""
        host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(self.host, self.host)
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self.port}/" + (f"?token={token}" if token else "")


def parse_address(text: str) -> Address:
    """Reads `HOST:PORT`, `:PORT`, `PORT`, `HOST` or "" (127.0.0.1:8080).

    Raises:
        ConfigError: it is none of these.
    """
    text = text.strip()
    host, port = DEFAULT_HOST, str(DEFAULT_PORT)
    if text.startswith("["):
        inside, _, rest = text[1:].partition("]")
        host, port = inside, rest.removeprefix(":") or port
    elif text.isdigit():
        port = text
    elif text.count(":") == 1:
        before, _, port = text.partition(":")
        host = before or host
    elif text:
        host = text
    if not port.isdigit() or not 0 <= int(port) <= 65535 or any(mark in host for mark in "/@?# "):
        raise ConfigError(f"--serve {text}: expected HOST:PORT, for example 127.0.0.1:8080 or :8080")
    return Address(host, int(port))


class Guard:
    """Checks requests.

    Arguments:
        address: where the page is served.
        token: what a viewer must know; None: made where other machines can reach the page, else none.
        names: further names that the machine is called by.

    Attributes:
        token: the token, or None where none is needed.

    Raises:
        ConfigError: a token that is too short to be one.
    """

    def __init__(self, address: Address, token: str | None = None, names: tuple[str, ...] = ()) -> None:
        if token is not None and (
            len(token) < _LEAST_TOKEN or not token.isascii() or not token.isprintable()
        ):
            raise ConfigError(f"--token: expected {_LEAST_TOKEN} or more printable ASCII characters")
        self.address = address
        self.token_was_made = token is None and not address.is_loopback
        self.token = secrets.token_urlsafe(16) if self.token_was_made else token
        self._names = {"localhost", *names}
        if not address.is_loopback:
            own = socket.gethostname().lower()
            self._names |= {own, f"{own.partition('.')[0]}.local", address.host.lower()}

    @property
    def cookie_name(self) -> str:
        """Of the cookie that holds the token; cookies know no ports, so the name does."""
        return f"edge_sdk_{self.address.port}"

    def host_is_ours(self, host: str | None) -> bool:
        """Whether a Host header names this machine: an address, or a name that is known to be its own.

        A name that somebody else owns may resolve to this machine (DNS rebinding); an address cannot.
        """
        name = _host_name(host)
        if name is None:
            return False
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return address.is_loopback or not self.address.is_loopback

    def origin_is_ours(self, headers: Mapping[str, str]) -> bool:
        """Whether a request comes from our own page, or from no page at all (a program)."""
        if headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return False
        origin = headers.get("Origin")
        if origin is None:
            return True
        parts = urlsplit(origin)
        return parts.scheme == "http" and bool(parts.netloc) and parts.netloc == headers.get("Host")

    def token_is_right(self, headers: Mapping[str, str]) -> bool:
        """Whether a request knows the token, by `Authorization: Bearer` or by the cookie."""
        if self.token is None:
            return True
        given = headers.get("Authorization", "")
        if given.startswith("Bearer ") and self.is_token(given[len("Bearer ") :]):
            return True
        try:
            cookie = SimpleCookie(headers.get("Cookie", "")).get(self.cookie_name)
        except CookieError:
            return False
        return cookie is not None and self.is_token(cookie.value)

    def is_token(self, text: str) -> bool:
        """Compares in a time that tells nothing."""
        return self.token is not None and hmac.compare_digest(text.encode(), self.token.encode())


def _host_name(host: str | None) -> str | None:
    if not host:
        return None
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return None
    return name.rstrip(".").lower() if name else None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
