"""The page behind a reverse proxy that has the name, the certificate and perhaps a path of its own."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from edge_sdk.errors import ConfigError

__all__ = ["Proxy", "host_name", "is_loopback", "parse_proxy"]

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Proxy:
    """What browsers see in front of the page.

    Attributes:
        origin: as a browser writes it: `https://site.example`, a usual port left out.
        prefix: the path below which the page lies there, `/yard7`, or "".
        address: of the proxy itself; "" for one on this machine. Only its word on who a client is counts.
    """

    origin: str
    prefix: str = ""
    address: str = ""

    @property
    def is_encrypted(self) -> bool:
        """Whether browsers reach it by HTTPS."""
        return self.origin.startswith("https://")

    @property
    def name(self) -> str:
        """The host's name."""
        return host_name(self.origin.partition("://")[2]) or ""

    @property
    def url(self) -> str:
        """What to open in a browser."""
        return f"{self.origin}{self.prefix}/"

    def is_peer(self, peer: str) -> bool:
        """Whether a connection comes from the proxy."""
        return peer == self.address if self.address else is_loopback(peer)

    def inside(self, path: str) -> str:
        """Returns a path without the prefix; a proxy may have taken it off already."""
        if self.prefix and (path == self.prefix or path.startswith(f"{self.prefix}/")):
            return path[len(self.prefix) :] or "/"
        return path

    def client(self, peer: str, forwarded: Sequence[str]) -> str:
        """Returns whom a request comes from.

        Arguments:
            peer: the other end of the connection.
            forwarded: values of the header X-Forwarded-For. A client can write there what it likes; the
                last entry is the proxy's own.
        """
        if not self.is_peer(peer):
            return peer
        last = ",".join(forwarded).rpartition(",")[2].strip()
        for text in (last, host_name(last) or ""):
            try:
                return str(ipaddress.ip_address(text))
            except ValueError:
                continue
        return peer


def parse_proxy(origin: str, address: str | None = None) -> Proxy:
    """Reads `https://HOST[:PORT][/PATH]`, and the address of the proxy.

    Raises:
        ConfigError: it is no such origin, or no such address.
    """
    try:
        parts = urlsplit(origin.strip())
        port, name = parts.port, host_name(parts.netloc)
    except ValueError:
        port, name = None, None
        parts = urlsplit("")
    if (
        parts.scheme not in _PORTS
        or not name
        or parts.query
        or parts.fragment
        or "@" in parts.netloc
        or not (parts.netloc + parts.path).isascii()
        or "//" in parts.path
    ):
        raise ConfigError(
            f"--behind-proxy {origin!r}: expected what browsers open, as https://site.example or "
            "https://site.example/yard7"
        )
    if address:
        try:
            address = str(ipaddress.ip_address(address))
        except ValueError:
            raise ConfigError(f"--proxy-address: expected an IP address, found {address!r}") from None
    shown = f"[{name}]" if ":" in name else name
    usual = port is None or port == _PORTS[parts.scheme]
    return Proxy(
        f"{parts.scheme}://{shown}{'' if usual else f':{port}'}", parts.path.rstrip("/"), address or ""
    )


def host_name(host: str | None) -> str | None:
    """Returns the name or address in a Host header, in small letters; None where there is none."""
    if not host:
        return None
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return None
    return name.rstrip(".").lower() if name else None


def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's own."""
    if host == "localhost":
        return True
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback
