"""Use the SDK from an asyncio program: results come as an async iterator, the event loop stays free.

    python apps/async_consumer.py
    python apps/async_consumer.py 'pairs:site?thermal=ir16' --frames 20

The detector and its source live on one thread of their own. Results cross over through a short queue; when
the consumer is slow, the oldest result is dropped and counted: news, not a backlog. Cancelling the consumer
(Ctrl-C and SIGTERM do) ends the thread and gives everything back.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import threading
from collections.abc import AsyncIterator
from itertools import takewhile

import edge_sdk
from edge_sdk.cli.streams import safe_streams
from edge_sdk.errors import EdgeSdkError

QUEUED = 4


class Results:
    """Runs a detector on a thread and hands its results to an event loop.

    async with Results("substation-rgbt", "clip:substation") as results:
        async for result in results: ...
    """

    def __init__(self, engine: str, source: str, *, device: str = "auto", frames: int | None = None) -> None:
        self._engine, self._source, self._device, self._frames = engine, source, device, frames
        self._queue: asyncio.Queue[edge_sdk.FrameResult | BaseException | None] = asyncio.Queue()
        self._ending = threading.Event()
        self._live: edge_sdk.Source | None = None
        self.dropped = 0

    async def __aenter__(self) -> Results:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="edge-sdk results")
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ending.set()
        if self._live is not None:
            self._live.close()  # a silent camera must not be waited for
        await asyncio.to_thread(self._thread.join)

    async def __aiter__(self) -> AsyncIterator[edge_sdk.FrameResult]:
        while (item := await self._queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def _run(self) -> None:
        last: BaseException | None = None
        try:
            with (
                edge_sdk.load(self._engine, device=self._device) as detector,
                edge_sdk.open_source(self._source, on_bad="skip") as source,
            ):
                self._live = source if getattr(source, "live", False) else None
                edge_sdk.run_source(
                    detector,
                    takewhile(lambda pair: not self._ending.is_set(), source),
                    frames=self._frames,
                    on_bad="skip",
                    on_result=lambda pair, result: self._hand_over(result),
                )
        except BaseException as error:
            last = error
        self._hand_over(last)

    def _hand_over(self, item: edge_sdk.FrameResult | BaseException | None) -> None:
        self._loop.call_soon_threadsafe(self._put, item)

    def _put(self, item: edge_sdk.FrameResult | BaseException | None) -> None:
        while self._queue.qsize() >= QUEUED:
            self._queue.get_nowait()
            self.dropped += 1
        self._queue.put_nowait(item)


async def consume(options: argparse.Namespace) -> None:
    """Prints findings as they come, and shows that other work goes on meanwhile."""
    beats = seen = 0
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    heart = asyncio.create_task(beat())
    results = Results(options.engine, options.source, device=options.device, frames=options.frames)
    with contextlib.suppress(asyncio.CancelledError):
        async with results:
            async for result in results:
                seen += 1
                reason = result.reason.value
                print(
                    f"{result.key}: {result.route.value}, because {reason}: {result.detections}", flush=True
                )
    heart.cancel()
    print(f"{seen} results seen, {results.dropped} dropped, event loop free: {beats > 0}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", nargs="?", default="clip:substation", help="any source URI")
    parser.add_argument("--engine", default="substation-rgbt", help="bundle name or folder")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or tensorrt")
    parser.add_argument("--frames", type=int, help="end after so many frames")
    options = parser.parse_args()
    safe_streams()  # `| head` ends nothing
    try:
        asyncio.run(consume(options))
    except EdgeSdkError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
