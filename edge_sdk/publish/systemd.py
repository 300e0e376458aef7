"""Tells systemd that a service is ready and alive, by the datagrams that `sd_notify(3)` describes."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

__all__ = ["ServiceNotifier"]


_PATIENCE_S = 1.0


class ServiceNotifier:
    """Sends states to the service manager; does nothing where there is none.

    Arguments:
        environment: where NOTIFY_SOCKET and WATCHDOG_USEC stand; the process's by default.

    Source: sd_notify(3) and systemd.service(5), `Type=notify`, `WatchdogSec=`.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        watched_pid = environment.get("WATCHDOG_PID")
        watched = watched_pid is None or watched_pid == str(os.getpid())
        usec = environment.get("WATCHDOG_USEC", "")
        self._watchdog_ns = int(usec) * 1000 if usec.isdigit() and watched else None
        self._last_ns: int | None = None

    @property
    def watchdog_ns(self) -> int | None:
        """Time without a sign of life after which the service is restarted; None where nobody watches."""
        return self._watchdog_ns

    def ready(self, status: str = "") -> None:
        """Says that the service is up."""
        self._send("READY=1", f"STATUS={status}" if status else "")

    def status(self, text: str) -> None:
        """Sets the line that `systemctl status` shows."""
        self._send(f"STATUS={text}")

    def stopping(self) -> None:
        """Says that the service is on its way down."""
        self._send("STOPPING=1")

    def alive(self, now_ns: int) -> bool:
        """Gives a sign of life where one is due: call it for every frame, or more often.

        Arguments:
            now_ns: the time on a monotonic clock.

        Returns: whether one was sent.
        """
        if self._watchdog_ns is None:
            return False
        if self._last_ns is not None and now_ns - self._last_ns < self._watchdog_ns // 4:
            return False
        self._last_ns = now_ns
        self._send("WATCHDOG=1")
        return True

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.settimeout(_PATIENCE_S)
            try:
                channel.sendto("\n".join(filter(None, lines)).encode(), self._address)
            except OSError:
                return  # the manager went away, or does not listen: a service goes on without it
