"""A real reverse proxy with TLS before a page, for tests: nginx or HAProxy, a certificate of its own."""

from __future__ import annotations

import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from live_runs import eventually

NAME = "site.example"

NGINX = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
    uwsgi_temp_path {folder}; scgi_temp_path {folder};
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate {folder}/both.pem; ssl_certificate_key {folder}/both.pem;
        {location}
    }}
}}
"""

HAPROXY = """
global
    maxconn 64
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    timeout tunnel 60s
frontend tls
    bind 127.0.0.1:{port} ssl crt {folder}/both.pem
    option forwardfor
    default_backend page
backend page
    http-request replace-path {prefix}/(.*) /\\1
    server page 127.0.0.1:{page}
"""
"""It takes the prefix off, which nginx above leaves on."""


@dataclass
class TlsProxy:
    """A proxy that is up."""

    port: int
    certificate: Path

    @property
    def context(self) -> ssl.SSLContext:
        """Trusts the proxy's certificate and no other."""
        return ssl.create_default_context(cafile=str(self.certificate))


def program(kind: str) -> str | None:
    """Where a proxy is, or None: then its tests skip."""
    found = shutil.which(kind) or next((str(p) for p in [Path("/usr/sbin", kind)] if p.is_file()), None)
    return found if shutil.which("openssl") else None


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


@contextmanager
def tls_proxy(kind: str, folder: Path, port: int, page: int, prefix: str) -> Iterator[TlsProxy]:
    """Runs a proxy on a port before the page on another."""
    key, certificate, both = folder / "key.pem", folder / "certificate.pem", folder / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-days", "2", "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}", "-keyout", str(key),
         "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    both.write_text(certificate.read_text() + key.read_text())
    config = folder / f"{kind}.conf"
    text = NGINX if kind == "nginx" else HAPROXY
    location = _readme_location().replace(":8080", f":{page}").replace("/yard7/", f"{prefix}/")
    config.write_text(text.format(folder=folder, port=port, page=page, prefix=prefix, location=location))
    found = program(kind)
    assert found is not None
    command = [found, "-c", str(config), "-e", str(folder / "error.log")]
    if kind == "haproxy":
        command = [found, "-db", "-q", "-f", str(config)]
    log = (folder / "proxy.log").open("wb")
    with log, subprocess.Popen(command, stdout=log, stderr=log) as proxy:
        try:

            def answers() -> bool:
                with socket.socket() as probe:
                    return proxy.poll() is None and probe.connect_ex(("127.0.0.1", port)) == 0

            assert eventually(answers), (folder / "proxy.log").read_text()
            yield TlsProxy(port, certificate)
        finally:
            proxy.terminate()


def _readme_location() -> str:
    """What the README tells users of nginx to write."""
    readme = Path(__file__).resolve().parents[1] / "README.md"
    (block,) = re.findall(r"```nginx\n(.*?)```", readme.read_text(encoding="utf-8"), flags=re.DOTALL)
    return str(block)
