"""Who may talk to the page: pure checks of what a request says of itself.

The threats: another machine on the network (token), another web page in the user's browser (Origin,
SameSite cookie, JSON alone), a name of the attacker's that resolves to this machine (Host), and other
servers of this machine, which are sent our cookie too: it holds what follows from the token, not the token.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from edge_sdk.credentials import Credential, find_credential, make_token
from edge_sdk.errors import ConfigError
from edge_sdk.live.proxy import Proxy, host_name, is_loopback

__all__ = ["Address", "Guard", "bearer_tokens", "page_token", "parse_address", "token_query"]

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8080
_LEAST_TOKEN = 8
_TOKEN_VARIABLE = "EDGE_SDK_TOKEN"


@dataclass(frozen=True)
class Address:
    """Where the page is served."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    def url(self, token: str | None = None) -> str:
        """Returns what to open in a browser."""
        host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(self.host, self.host)
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self.port}/{token_query(token)}"


def token_query(token: str | None) -> str:
    """Returns what stands behind the page's address to open it with a token."""
    return f"?token={quote(token, safe='')}" if token else ""


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


def page_token(given: str | None, file: Path | None) -> Credential | None:
    """Finds the page's token: as given, else in a file, else in the environment variable EDGE_SDK_TOKEN.

    A file that is not there is made, with a new token in it, which then holds for later runs too.

    Returns: None where there is none.

    Raises:
        ConfigError: a token is given and a file named, or the file cannot be read or made.
    """
    if file is not None and given is None and not file.exists():
        return Credential(make_token(file), str(file))
    return find_credential("--token", given, file, _TOKEN_VARIABLE)


class Guard:
    """Checks requests.

    Arguments:
        address: where the page is served.
        token: what a viewer must know; None: made where other machines can reach the page, else none.
        names: further names that the machine is called by.
        proxy: that stands before the page, or None. Others can then reach the page wherever it is served.

    Attributes:
        token: the token, or None where none is needed.

    Raises:
        ConfigError: a token that is too short to be one.
    """

    def __init__(
        self,
        address: Address,
        token: str | None = None,
        names: tuple[str, ...] = (),
        proxy: Proxy | None = None,
    ) -> None:
        if token is not None and (
            len(token) < _LEAST_TOKEN or not token.isascii() or not token.isprintable()
        ):
            raise ConfigError(f"--token: expected {_LEAST_TOKEN} or more printable ASCII characters")
        self.address, self.proxy = address, proxy
        self.token_was_made = token is None and (proxy is not None or not address.is_loopback)
        self.token = make_token() if self.token_was_made else token
        self._cookie = _cookie_value(self.token or "")
        self._instance = _instance()
        self._names = {"localhost", *(name.lower() for name in names)}
        if proxy is not None:
            self._names.add(proxy.name)
        if not address.is_loopback:
            own = socket.gethostname().lower()
            self._names |= {own, f"{own.partition('.')[0]}.local", address.host.lower()}

    @property
    def cookie_name(self) -> str:
        """Of our cookie. Cookies know neither ports nor tunnels, so the name holds port and machine."""
        return f"edge_sdk_{self.address.port}_{self._instance}"

    @property
    def cookie_value(self) -> str:
        """What the cookie of a viewer holds who knows the token: 256 bits that follow from it."""
        return self._cookie

    def host_is_ours(self, host: str | None) -> bool:
        """Whether a Host header names this machine: an address, or a name that is known to be its own.

        A name that somebody else owns may resolve to this machine (DNS rebinding); an address cannot.
        """
        name = host_name(host)
        if name is None:
            return False
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return (
            address.is_loopback
            or not self.address.is_loopback
            or (self.proxy is not None and name == self.proxy.name)
        )

    def origin_is_ours(self, headers: Mapping[str, str]) -> bool:
        """Whether a request comes from our own page, or from no page at all (a program)."""
        if headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return False
        origin, host = headers.get("Origin"), headers.get("Host")
        if origin is None:
            return True
        if self.proxy is not None:
            if origin.lower() == self.proxy.origin:
                return True
            if host_name(host) == self.proxy.name:
                return False  # under that name there is one origin
        return bool(host) and origin == f"http://{host}"

    def cookie_is_right(self, headers: Mapping[str, str]) -> bool:
        """Whether a request has our cookie, among whatever others."""
        return any(_same(value, self._cookie) for value in self._cookies(headers))

    def has_stale_cookie(self, headers: Mapping[str, str]) -> bool:
        """Whether a request has a cookie of our name that is of no use."""
        return bool(self._cookies(headers)) and not self.cookie_is_right(headers)

    def is_token(self, text: str) -> bool:
        """Compares in a time that tells nothing."""
        return self.token is not None and _same(text, self.token)

    def _cookies(self, headers: Mapping[str, str]) -> list[str]:
        """Values of our cookie. Read by hand: one foreign cookie of odd form would hide all behind it."""
        found = []
        for header in _values(headers, "Cookie"):
            for part in header.split(";"):
                name, _, value = part.strip().partition("=")
                if name == self.cookie_name:
                    found.append(value.strip('" '))
        return found


def bearer_tokens(headers: Mapping[str, str]) -> list[str]:
    """Returns the tokens of `Authorization: Bearer`; other kinds are a proxy's own business."""
    found = []
    for header in _values(headers, "Authorization"):
        kind, _, token = header.strip().partition(" ")
        if kind.lower() == "bearer" and token.strip():
            found.append(token.strip())
    return found


def _values(headers: Mapping[str, str], name: str) -> list[str]:
    """All values of a header that may stand several times."""
    getall = getattr(headers, "getall", None)
    if getall is not None:
        return list(getall(name, []))
    return [headers[name]] if name in headers else []


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())


def _cookie_value(token: str) -> str:
    return hmac.new(token.encode(), b"edge-sdk live page, cookie", hashlib.sha256).hexdigest()


def _instance() -> str:
    """Tells machines apart that one browser reaches under one name, through tunnels or a proxy."""
    try:
        machine = Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        machine = ""
    named = machine or socket.gethostname()
    return hashlib.sha256(f"edge-sdk live page, cookie name, {named}".encode()).hexdigest()[:8]
