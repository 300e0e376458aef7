"""A source whose RGB frames went through JPEG before anybody saw them."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import cv2

from edge_sdk.frames import FramePair, RgbFrame
from edge_sdk.recording.layout import decode_jpeg

__all__ = ["SeenThroughJpeg"]

_KEPT = 32


class _Source(Protocol):
    def __next__(self) -> FramePair: ...


class SeenThroughJpeg:
    """Passes pairs on with RGB frames as their JPEG decodes, and keeps the JPEG for the recorder.

    What a detector sees is then what the recording holds, bit for bit. The time it takes is booked as
    reading time of the pair. All else is the inner source's.

    Arguments:
        source: where pairs come from.
        quality: of the JPEG, 1 - 100.
        active: whether to do it for the next pair; always, by default.
    """

    def __init__(self, source: Any, quality: int = 90, active: Callable[[], bool] = lambda: True) -> None:
        self._source, self._quality, self._active = source, quality, active
        self._kept: OrderedDict[int, tuple[RgbFrame, bytes]] = OrderedDict()

    def __iter__(self) -> Iterator[FramePair]:
        return self

    def __next__(self) -> FramePair:
        pair: FramePair = next(self._source)
        if pair.rgb is None or not self._active():
            return pair
        start_ns = time.perf_counter_ns()
        bgr = cv2.cvtColor(pair.rgb.image, cv2.COLOR_RGB2BGR)
        _, encoded = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, self._quality])
        data = encoded.tobytes()
        image = decode_jpeg(data)
        assert image is not None
        seen = RgbFrame(image, pair.rgb.timestamp_ns, pair.rgb.sequence)
        self._kept[id(seen)] = seen, data
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return replace(pair, rgb=seen, read_ns=pair.read_ns + time.perf_counter_ns() - start_ns)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def jpeg_of(self, frame: RgbFrame) -> bytes | None:
        """Returns the file that a frame was decoded from; None for another source's frame, or an old one."""
        kept = self._kept.get(id(frame))
        return kept[1] if kept is not None and kept[0] is frame else None
