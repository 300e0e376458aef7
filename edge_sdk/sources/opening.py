"""`open_source`: from a URI to a source."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TypedDict

from edge_sdk.clock import Clock
from edge_sdk.errors import ConfigError
from edge_sdk.sources.base import BaseSource, OnBad
from edge_sdk.sources.cameras.file_device import THERMAL_SUFFIXES
from edge_sdk.sources.cameras.pair_address import CAMERA_SCHEMES
from edge_sdk.sources.cameras.settings import CAMERA_OPTIONS
from edge_sdk.sources.cameras.source import CameraSource
from edge_sdk.sources.clip import CLIP_OPTIONS, ClipSource
from edge_sdk.sources.folder_files import files_in
from edge_sdk.sources.pairs import PAIRS_OPTIONS, PairsSource
from edge_sdk.sources.radiometric_jpeg import RJPEG_OPTIONS, RadiometricJpegSource
from edge_sdk.sources.recorded import MCAP_OPTIONS, RecordedSource
from edge_sdk.sources.registration import RegistrationArgument
from edge_sdk.sources.rjpeg_marks import RJPEG_SUFFIXES, is_radiometric_jpeg
from edge_sdk.sources.uri import SourceUri, parse_uri
from edge_sdk.sources.video import VIDEO_OPTIONS, VideoSource

__all__ = ["open_source"]

_log = logging.getLogger(__name__)

_SCHEMES = {
    "clip": CLIP_OPTIONS,
    "mcap": MCAP_OPTIONS,
    "memory": (),
    "pairs": PAIRS_OPTIONS,
    "video": VIDEO_OPTIONS,
    "file": tuple(dict.fromkeys((*CAMERA_OPTIONS, *RJPEG_OPTIONS, *PAIRS_OPTIONS))),
    **CAMERA_SCHEMES,
}


def open_source(
    uri: str,
    *,
    registration: RegistrationArgument = None,
    on_bad: OnBad = "raise",
    loop: int = 1,
    clock: Clock | None = None,
) -> BaseSource:
    """Opens a source of frame pairs by its URI, for `with` and `for`.

        clip:NAME                                a clip that comes with the package
        pairs:DIR?rgb=rgb&thermal=ir16           a folder of image files; see `PairsSource`
        video:RGB_FILE?thermal=FILE              two videos; see `VideoSource`
        mcap:FILE                                a recorded run; see `RecordedSource`
        camera:?rgb=ADDRESS&thermal=ADDRESS      two cameras, or files with times; see `CameraSource`
        v4l2:///dev/video0?width=1280&fps=30     one camera; likewise csi://0 and rtsp://HOST/PATH
        file:///PATH                             a radiometric JPEG or a folder of them; a clip of one
                                                 camera; a folder of pairs

    Arrays in memory: `source_from_arrays`.

    Arguments:
        uri: as above; options not listed for the scheme are refused by name.
        registration: how the thermal frames lie on the colour ones: a `Registration`, the path of a JSON
            file, "same-view", "centred" or "bundle" (`RegistrationWord`); `?registration=` in the address
            says the same. Without it: what the source states, else frames of equal size are taken to share
            their pixels, else the detector refuses the pair unless it was given one.
        on_bad: what a bad frame does: "raise" raises `FrameError` (asking for the next pair goes on
            behind it), "skip" counts it in `skipped`.
        loop: number of passes; 0 goes on for ever.
        clock: what the reading time of each pair is taken from; the machine's by default.

    Raises:
        ConfigError: the URI or an argument cannot be met; the message names the nearest known word.
        SourceError: a file cannot be opened.
    """
    source = _open(uri, _How(registration=registration, on_bad=on_bad, loop=loop, clock=clock))
    _log.info("opened %s", source.uri)
    return source


def _open(uri: str, how: _How) -> BaseSource:
    if _scheme(uri) in CAMERA_SCHEMES:
        return CameraSource(uri, **how)
    parsed = parse_uri(uri, _SCHEMES)
    if parsed.scheme == "file":
        return _open_file(parsed, how)
    if parsed.scheme == "memory":
        raise ConfigError(
            f"{parsed.text!r}: arrays have no address; use source_from_arrays(rgb=..., thermal=...)"
        )
    if parsed.scheme == "clip":
        return ClipSource(parsed, **how)
    if parsed.scheme == "mcap":
        return RecordedSource(parsed, **how)
    if parsed.scheme == "video":
        return VideoSource(parsed, **how)
    return PairsSource(parsed, **how)


def _scheme(uri: str) -> str:
    text = os.fspath(uri) if isinstance(uri, (str, os.PathLike)) else ""
    return text.partition(":")[0].strip().lower() if ":" in text else ""


class _How(TypedDict):
    """What every source takes beside its address."""

    registration: RegistrationArgument
    on_bad: OnBad
    loop: int
    clock: Clock | None


def _open_file(uri: SourceUri, how: _How) -> BaseSource:
    """Opens what a `file://` address points at, by what it is."""
    path = Path(uri.path)
    if not path.exists():
        raise ConfigError(f"{uri.text}: no file or folder {uri.path!r}")
    if path.is_dir():
        if any(is_radiometric_jpeg(entry) for _, entry in files_in(path, RJPEG_SUFFIXES).files):
            return RadiometricJpegSource(_narrowed(uri, RJPEG_OPTIONS), **how)
        return PairsSource(_narrowed(uri, PAIRS_OPTIONS), **how)
    if path.suffix.lower() in RJPEG_SUFFIXES and is_radiometric_jpeg(path):
        return RadiometricJpegSource(_narrowed(uri, RJPEG_OPTIONS), **how)
    _narrowed(uri, CAMERA_OPTIONS)
    text = uri.text
    if "as" not in uri.options and path.suffix.lower() in THERMAL_SUFFIXES:
        text += ("&" if "?" in text else "?") + "as=thermal"
    return CameraSource(text, **how)


def _narrowed(uri: SourceUri, options: tuple[str, ...]) -> SourceUri:
    """Refuses options that what was found does not have."""
    for name in uri.options:
        if name not in options:
            raise ConfigError(
                f"{uri.text}: option {name!r} does not go with what is there. "
                f"Known: {', '.join(sorted(options))}"
            )
    return uri
