"""A real RTSP server, killed and started again: the source survives, and no pair is older than it may be."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edge_sdk.errors import CameraError
from edge_sdk.sources import open_source
from edge_sdk.sources.cameras import CameraSource

SERVER = Path(__file__).resolve().parents[1] / "rtsp_server.py"
PYTHON = "/usr/bin/python3"
PACKAGES = "gir1.2-gst-rtsp-server-1.0, python3-gi, gstreamer1.0-plugins-good"
PATIENCE_S = 40


def has_server() -> bool:
    probe = (
        "import gi; gi.require_version('GstRtspServer', '1.0'); gi.require_version('Gst', '1.0'); "
        "from gi.repository import Gst, GstRtspServer; Gst.init(None); "
        "assert Gst.ElementFactory.find('jpegenc') and Gst.ElementFactory.find('rtpjpegpay')"
    )
    if not Path(PYTHON).exists():
        return False
    return subprocess.run([PYTHON, "-c", probe], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not has_server(), reason=f"needs an RTSP server: Debian packages {PACKAGES}")


class Server:
    """The server as a process of its own on one port."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def uri(self) -> str:
        return f"rtsp://user:secret@127.0.0.1:{self.port}/rgb"

    def start(self) -> None:
        self.process = subprocess.Popen(
            [PYTHON, str(SERVER), str(self.port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == "ready"

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.kill()


def wait_until(source: CameraSource, reached: Callable[[], bool]) -> float:
    """Takes pairs until something holds; returns after how many seconds."""
    begin = time.monotonic()
    while not reached():
        assert time.monotonic() - begin < PATIENCE_S, source.status()
        source.hub.wait(0.05)
    return time.monotonic() - begin


@pytest.mark.parametrize("via", ["av", "opencv"])
def test_a_killed_server_shows_and_comes_back(server: Server, via: str) -> None:
    if via == "av":
        pytest.importorskip("av", reason="needs the package av")
    source = open_source(f"{server.uri}?via={via}&timeout_ms=800")
    assert isinstance(source, CameraSource)
    with source:
        pairs = [next(source) for _ in range(5)]
        assert {pair.rgb.size_wh for pair in pairs if pair.rgb} == {(320, 240)}
        times = [pair.rgb.timestamp_ns for pair in pairs if pair.rgb and pair.rgb.timestamp_ns]
        assert times == sorted(set(times))
        assert all(pair.thermal is None and pair.thermal_fault is None for pair in pairs)

        server.kill()
        watch = source.hub.watch("rgb")
        took_s = wait_until(source, lambda: watch.fault is not None and watch.fault.value == "lost")
        assert took_s < 10
        server.start()
        wait_until(source, lambda: watch.fault is None)
        assert next(source).rgb is not None
        assert source.readers["rgb"].reconnects >= 1

        shown = f"{source.uri} {source.describe()}"
        assert "secret" not in shown
        assert "user:***@127.0.0.1" in shown


def test_a_server_that_is_not_there_is_an_error_without_the_password(server: Server) -> None:
    server.kill()
    with pytest.raises(CameraError, match=r"user:\*\*\*@127\.0\.0\.1") as caught:
        open_source(server.uri)
    assert "secret" not in str(caught.value)
