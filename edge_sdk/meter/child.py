"""A helper process that prints one line a sample, read without ever waiting for it."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Sequence

from edge_sdk.clock import Clock
from edge_sdk.meter.base import Unavailable

__all__ = ["LineChild"]

_END_S = 5.0


class LineChild:
    """Runs a program and keeps its latest line with the moment it came."""

    def __init__(self, command: Sequence[str], clock: Clock) -> None:
        """Starts the program.

        Raises:
            Unavailable: it cannot be started.
        """
        self._clock = clock
        self._news = threading.Condition()
        self._latest: tuple[int, str] | None = None
        self._ended = False
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise Unavailable(f"{command[0]} cannot be started ({error.strerror or error})") from None
        self._errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._read_lines, name="edge-sdk-meter-lines", daemon=True),
            threading.Thread(target=self._read_errors, name="edge-sdk-meter-errors", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def latest(self) -> tuple[int, str] | None:
        """The latest line and when it came on the monotonic clock; None before the first."""
        with self._news:
            return self._latest

    @property
    def ended(self) -> bool:
        """Whether the program prints no more."""
        with self._news:
            return self._ended

    def wait_for_line(self, limit_s: float) -> tuple[int, str]:
        """Waits for the first line.

        Raises:
            Unavailable: the program ended or said nothing in time.
        """
        with self._news:
            self._news.wait_for(lambda: self._latest is not None or self._ended, timeout=limit_s)
            if self._latest is not None:
                return self._latest
        return self._give_up(limit_s)

    def close(self) -> None:
        """Ends the program. A second call does nothing."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for thread in self._threads:
            thread.join(_END_S)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _give_up(self, limit_s: float) -> tuple[int, str]:
        if self.ended:  # its output has ended; it will end in a moment, and says why with its status
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
        silent = self._process.poll() is None
        self.close()
        said = f": {self._errors[-1]}" if self._errors else ""
        if silent:
            raise Unavailable(f"no line within {limit_s:g} s{said}")
        raise Unavailable(f"ended with status {self._process.returncode}{said}")

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self._latest = self._clock.now_ns(), line.rstrip("\n")
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.strip():
                self._errors = [line.strip()]
