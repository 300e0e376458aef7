"""What the live page costs: the frame rate with viewers over that without, side by side in one run."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
from collections.abc import Callable
from itertools import cycle, islice
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
    seconds: float = 6.0,
    repeats: int = 3,
    threads: int | None = None,
    device: str = "auto",
    step: Callable[[str], None] = lambda name: None,
) -> BenchReport:
    """Measures at a camera's pace and back to back.

    Viewers are programs in a process of their own on the same machine: they take every picture they are
    given and draw none. A browser on the same machine would cost more, one elsewhere nothing.

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
            f"{detector.provider}, {detector.choice.threads} threads, {source}, {viewers} viewers on this "
            f"machine, {repeats} turns of {seconds:g} s each"
        )
        for name, hz in (("paced", pace_hz), ("back_to_back", None)):
            alone, watched, shown = [], [], []
            for turn in range(repeats):
                step(f"{name}, turn {turn + 1} of {repeats}")
                alone.append(_turn(detector, pairs, hz, seconds, 0)[0])
                rate, pictures = _turn(detector, pairs, hz, seconds, viewers)
                watched.append(rate)
                shown.append(pictures)
            pace = f"camera at {hz:g} Hz" if hz else "back to back"
            report.add(
                f"fps_with_viewers_over_none_{name}",
                statistics.median(b / a for a, b in zip(alone, watched, strict=True)),
                f"median ratio of frame rates, {pace}; {where}",
            )
            report.add(f"fps_alone_{name}", statistics.median(alone), f"nobody looks, {pace}; {where}")
            report.add(f"fps_watched_{name}", statistics.median(watched), f"{pace}; {where}")
            report.add(
                f"pictures_per_viewer_per_s_{name}", statistics.median(shown), f"shown, {pace}; {where}"
            )
    return report


def _turn(
    detector: Detector, pairs: list[FramePair], hz: float | None, seconds: float, viewers: int
) -> tuple[float, float]:
    """Returns pairs a second, and pictures a second that a viewer got."""
    detector.reset()
    clock = MonotonicClock()
    options = LiveOptions(serve=Address("127.0.0.1", 0))
    source = MemorySource(pairs, loop=0)
    with LiveSession(detector, source, options, pace_hz=hz) as live:
        server = live.server
        assert server is not None
        crowd = None
        try:
            if viewers:
                crowd = subprocess.Popen(
                    [sys.executable, "-m", "edge_sdk.bench.serve", server.url, str(viewers)],
                    stdin=subprocess.PIPE,
                )
                waiting = cycle(pairs)
                while server.state()["page"]["viewers"] < viewers:
                    if crowd.poll() is not None:
                        raise RuntimeError(f"the viewers ended with status {crowd.returncode}")
                    live.board.answered(
                        pair := next(waiting), detector(pair)
                    )  # all are connected before it counts
            sent = server.state()["page"]["sent"]
            start_ns = perf_counter_ns()
            answered = run_source(
                detector,
                live.source,
                pace=Pace(hz, clock),
                duration_ns=round(seconds * 1e9),
                observers=live.observers,
            )
            elapsed_s = (perf_counter_ns() - start_ns) / 1e9
            pictures = (server.state()["page"]["sent"] - sent) / max(1, viewers) / elapsed_s
        finally:
            if crowd is not None:
                crowd.communicate()
    return answered / elapsed_s, pictures


async def watch(url: str, viewers: int) -> None:
    """Looks at a page with so many viewers until standard input ends."""
    import aiohttp

    async def look(session: aiohttp.ClientSession) -> None:
        async with session.ws_connect(url.replace("http://", "ws://") + "ws", max_msg_size=0) as socket:
            async for message in socket:
                if message.type is aiohttp.WSMsgType.BINARY:
                    await socket.send_str('{"shown": 1}')

    async with aiohttp.ClientSession() as session:
        looking = [asyncio.ensure_future(look(session)) for _ in range(viewers)]
        ended = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
        await asyncio.wait([ended, *looking], return_when=asyncio.FIRST_COMPLETED)
        for one in looking:
            one.cancel()
        await asyncio.gather(*looking, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(watch(sys.argv[1], int(sys.argv[2])))
