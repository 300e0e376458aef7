"""`open_source`: from a URI to a source."""

from __future__ import annotations

from edge_sdk.clock import Clock
from edge_sdk.errors import ConfigError
from edge_sdk.sources.base import BaseSource, OnBad
from edge_sdk.sources.clip import CLIP_OPTIONS, ClipSource
from edge_sdk.sources.pairs import PAIRS_OPTIONS, PairsSource
from edge_sdk.sources.recorded import MCAP_OPTIONS, RecordedSource
from edge_sdk.sources.uri import parse_uri
from edge_sdk.sources.video import VIDEO_OPTIONS, VideoSource

__all__ = ["open_source"]

_SCHEMES = {
    "clip": CLIP_OPTIONS,
    "mcap": MCAP_OPTIONS,
    "memory": (),
    "pairs": PAIRS_OPTIONS,
    "video": VIDEO_OPTIONS,
}


def open_source(
    uri: str, *, on_bad: OnBad = "raise", loop: int = 1, clock: Clock | None = None
) -> BaseSource:
    """Opens a source of frame pairs by its URI, for `with` and `for`.

        clip:NAME                                a clip that comes with the package
        pairs:DIR?rgb=rgb&thermal=ir16           a folder of image files; see `PairsSource`
        video:RGB_FILE?thermal=FILE              two videos; see `VideoSource`
        mcap:FILE                                a recorded run; see `RecordedSource`

    Arrays in memory: `source_from_arrays`.

    Arguments:
        uri: as above; options not listed for the scheme are refused by name.
        on_bad: what a bad frame does: "raise" raises `FrameError` (asking for the next pair goes on
            behind it), "skip" counts it in `skipped`.
        loop: number of passes; 0 goes on for ever.
        clock: what the reading time of each pair is taken from; the machine's by default.

    Raises:
        ConfigError: the URI or an argument cannot be met; the message names the nearest known word.
        SourceError: a file cannot be opened.
    """
    parsed = parse_uri(uri, _SCHEMES)
    if parsed.scheme == "memory":
        raise ConfigError(
            f"{parsed.text!r}: arrays have no address; use source_from_arrays(rgb=..., thermal=...)"
        )
    if parsed.scheme == "clip":
        return ClipSource(parsed, on_bad=on_bad, loop=loop, clock=clock)
    if parsed.scheme == "mcap":
        return RecordedSource(parsed, on_bad=on_bad, loop=loop, clock=clock)
    if parsed.scheme == "video":
        return VideoSource(parsed, on_bad=on_bad, loop=loop, clock=clock)
    return PairsSource(parsed, on_bad=on_bad, loop=loop, clock=clock)
