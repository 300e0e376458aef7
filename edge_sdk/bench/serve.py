"""What the live page costs: the frame rate with viewers over that without, side by side in one run."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from time import perf_counter_ns

from edge_sdk.bench.core import BenchReport
from edge_sdk.clock import MonotonicClock
from edge_sdk.frames import FramePair
from edge_sdk.live.guard import Address
from edge_sdk.live.session import LiveOptions, LiveSession
from edge_sdk.pipeline import Detector, load
from edge_sdk.runs import run_source
from edge_sdk.scheduler import Pace
from edge_sdk.sources import MemorySource, open_source

__all__ = ["run_serve", "watch"]

_MOST_PAIRS = 200


def run_serve(
    engine: str,
    source: str,
    *,
    viewers: int = 5,
    pace_hz: float = 30.0,
    seconds: float = 2.0,
    repeats: int = 8,
    threads: int | None = None,
    device: str = "auto",
    step: Callable[[str], None] = lambda name: None,
) -> BenchReport:
    """Measures at a camera's pace and back to back.

    Viewers are programs in a process of their own on the same machine: they take every picture they are
    given, draw none, and run at low priority. A browser on this machine would cost more, one elsewhere less.

    Arguments:
        engine: name or folder of a bundle.
        source: read into memory first, at most 200 pairs, so that no disk is timed.
        viewers: how many look.
        pace_hz: of the camera.
        seconds: length of each turn.
        repeats: turns of each kind.
        threads, device: see `load`.
        step: called with the name of each part as it begins.
    """
    with open_source(source) as opened:
        pairs = list(islice(opened, _MOST_PAIRS))
    report = BenchReport()
    with load(engine, threads=threads, device=device) as detector:
        where = (
            f"{detector.provider}, {detector.choice.threads} threads, {source}, {viewers} viewers (nice 10) "
            f"on this machine, {repeats} turns of {seconds:g} s each"
        )
        for name, hz in (("paced", pace_hz), ("back_to_back", None)):
            step(name)
            pace = f"camera at {hz:g} Hz" if hz else "back to back"
            with _Stage(detector, pairs, hz, viewers) as stage:
                for turn in range(repeats):
                    # Alone first in one turn and second in the next: a drift of the machine falls on both.
                    for watched in (False, True) if turn % 2 else (True, False):
                        stage.turn(seconds, watched)
            report.add(
                f"fps_with_viewers_over_none_{name}",
                statistics.median(b / a for a, b in zip(stage.alone, stage.watched, strict=True)),
                f"median ratio of the frame rates of neighbouring turns, {pace}; {where}",
            )
            report.add(f"fps_alone_{name}", statistics.median(stage.alone), f"nobody looks, {pace}; {where}")
            report.add(f"fps_watched_{name}", statistics.median(stage.watched), f"{pace}; {where}")
            report.add(
                f"pictures_per_viewer_per_s_{name}",
                statistics.median(stage.pictures),
                f"sent and confirmed, {pace}; {where}",
            )
            report.add(
                f"page_cores_{name}",
                statistics.median(stage.page_cores),
                f"processor time of the page's threads a second, in cores; waits of the run for the "
                f"interpreter are not in it; {pace}; {where}",
            )
    return report


class _Stage:
    """A page that is up all the time, and viewers that come and go between turns."""

    def __init__(self, detector: Detector, pairs: list[FramePair], hz: float | None, viewers: int) -> None:
        self._detector, self._pairs, self._hz, self._viewers = detector, pairs, hz, viewers
        self.alone: list[float] = []
        self.watched: list[float] = []
        self.pictures: list[float] = []
        self.page_cores: list[float] = []

    def __enter__(self) -> _Stage:
        self._source = MemorySource(self._pairs, loop=0)
        options = LiveOptions(serve=Address("127.0.0.1", 0))
        self._live = LiveSession(self._detector, self._source, options, pace_hz=self._hz)
        assert self._live.server is not None
        self._server = self._live.server
        self._crowd = subprocess.Popen(
            [sys.executable, "-m", "edge_sdk.bench.serve", self._server.url, str(self._viewers)],
            stdin=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._crowd.communicate()
        self._live.close()

    def turn(self, seconds: float, watched: bool) -> None:
        """Runs for some seconds with all viewers, or with none."""
        assert self._crowd.stdin is not None
        self._crowd.stdin.write("look\n" if watched else "rest\n")
        self._crowd.stdin.flush()
        wanted = self._viewers if watched else 0
        while (
            self._server.state()["page"]["viewers"] != wanted
        ):  # pairs go on, so that sockets are written to
            if self._crowd.poll() is not None:
                raise RuntimeError(f"the viewers ended with status {self._crowd.returncode}")
            self._run(0.1)
        sent = self._server.state()["page"]["sent"]
        start_ns, start_cpu_s = perf_counter_ns(), self._server.cpu_s()
        answered = self._run(seconds)
        elapsed_s = (perf_counter_ns() - start_ns) / 1e9
        (self.watched if watched else self.alone).append(answered / elapsed_s)
        if watched:
            self.page_cores.append((self._server.cpu_s() - start_cpu_s) / elapsed_s)
            self.pictures.append((self._server.state()["page"]["sent"] - sent) / self._viewers / elapsed_s)

    def _run(self, seconds: float) -> int:
        return run_source(
            self._detector,
            self._live.source,
            pace=Pace(self._hz, MonotonicClock()),
            duration_ns=round(seconds * 1e9),
            observers=self._live.observers,
        )


async def watch(url: str, viewers: int) -> None:
    """Looks at a page with so many viewers; "look" and "rest" on standard input bring and send them away."""
    import aiohttp

    async def look(session: aiohttp.ClientSession) -> None:
        async with session.ws_connect(url.replace("http://", "ws://") + "ws", max_msg_size=0) as socket:
            async for message in socket:
                if message.type is aiohttp.WSMsgType.BINARY:
                    await socket.send_str('{"shown": 1}')

    async with aiohttp.ClientSession() as session:
        looking: list[asyncio.Future[None]] = []
        while line := await asyncio.to_thread(sys.stdin.readline):
            for one in looking:
                one.cancel()
            await asyncio.gather(*looking, return_exceptions=True)
            wanted = viewers if line.strip() == "look" else 0
            looking = [asyncio.ensure_future(look(session)) for _ in range(wanted)]
        for one in looking:
            one.cancel()
        await asyncio.gather(*looking, return_exceptions=True)


if __name__ == "__main__":
    os.nice(10)
    asyncio.run(watch(sys.argv[1], int(sys.argv[2])))
