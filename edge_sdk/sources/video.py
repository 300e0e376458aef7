"""A colour video and a raw thermal file of the same scene: `video:RGB?thermal=FILE`, frame by frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk.clock import Clock
from edge_sdk.errors import ConfigError, FrameError, SourceError
from edge_sdk.frames import FramePair, RgbFrame, ThermalFrame, ThermalUnit
from edge_sdk.heat_units import heat_unit
from edge_sdk.sources.base import KEPT_SKIPS, BaseSource, OnBad
from edge_sdk.sources.registration import RegistrationArgument, RegistrationRule
from edge_sdk.sources.ring import FrameRing
from edge_sdk.sources.thermal_stream import ThermalStream, open_thermal_stream
from edge_sdk.sources.uri import SourceUri, user_path

__all__ = ["VIDEO_OPTIONS", "VideoSource"]

VIDEO_OPTIONS = ("thermal", "unit", "registration", "partial")

_RATE_TOLERANCE = 0.01
"""Frame rates that differ by more than this share drift apart; such files are not paired by number."""

_COUNT_TOLERANCE = 0.02
"""Containers without a frame index (Matroska) state their length only to within a frame or two."""


class VideoSource(BaseSource):
    """Frame n of a colour video with frame n of a thermal file.

    The thermal file must keep 16 bits: FFV1 gray16le video, a multi-page 16-bit TIFF, a .npy stack
    uint16 [frames, height, width] or an .npz with one. H.264, MJPEG and other 8-bit video do not and
    are refused. Keys are frame numbers, "000000" first. A damaged picture inside a video that FFmpeg
    can conceal is not seen; a file that ends early is.

    Options of the URI:
        thermal: the thermal file, from the working directory or beside the colour video. Without it
            the pairs have no thermal frame.
        unit: what a count is, see `edge_sdk.heat_units`; counts by default.
        registration: a JSON file, `same-view`, `centred` or `bundle`; by default frames of equal size are
            taken to share their pixels.
        partial: `allow`: when one file ends first, go on with the other alone. By default each frame
            without a partner is a bad frame.

    Arguments:
        uri: the URI, taken apart.
        registration: instead of the URI's; an object too.
        on_bad, loop, clock: see `BaseSource`.

    Raises:
        ConfigError: a file is missing, or the two have neither like frame rates nor like frame counts.
        SourceError: a file cannot be opened.
    """

    def __init__(
        self,
        uri: SourceUri,
        *,
        registration: RegistrationArgument = None,
        on_bad: OnBad = "raise",
        loop: int = 1,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(uri.text, on_bad=on_bad, loop=loop, clock=clock)
        self._path = _existing(uri, "the colour video", Path(uri.path))
        self.unit = heat_unit(uri.option("unit", "counts"), uri.text)
        self._units: set[str] = set()
        self._allow_partial = uri.choice("partial", ("allow", "refuse")) == "allow"
        self._rule = RegistrationRule.of(uri, registration, self._path.parent)
        thermal = uri.options.get("thermal")
        thermal_path = None if thermal is None else _existing(uri, "thermal", *_places(self._path, thermal))
        self._capture = self._open()
        fps, count = self._capture.get(cv2.CAP_PROP_FPS), self._capture.get(cv2.CAP_PROP_FRAME_COUNT)
        self.fps: float | None = float(fps) if fps > 0 else None
        self._rgb_count = int(count) if count > 0 else None
        self._thermal: ThermalStream | None = open_thermal_stream(thermal_path) if thermal_path else None
        self._notes = self._compare_rates()
        self._scratch: NDArray[np.uint8] | None = None
        self._ring = FrameRing()
        self._rgb_read = self._thermal_read = 0

    @property
    def _pass_length(self) -> int | None:
        counts = [self._rgb_count] if self._thermal is None else [self._rgb_count, self._thermal.count]
        known = [count for count in counts if count is not None]
        return max(known) if len(known) == len(counts) else None

    def _read(self, index: int) -> FramePair | None:
        key = f"{index:06d}"
        image = self._read_rgb()
        thermal_image = self._thermal.read(key, index, self._targets) if self._thermal else None
        self._rgb_read += image is not None
        self._thermal_read += thermal_image is not None
        if image is None and thermal_image is None:
            self._refuse_short(key, index)
            return None
        if self._thermal is not None and not self._allow_partial:
            self._refuse_single(key, image is None, thermal_image is None)
        rgb = RgbFrame(image) if image is not None else None
        try:
            thermal = ThermalFrame(thermal_image, self.unit) if thermal_image is not None else None
        except ConfigError as error:
            raise FrameError(key, str(error), self._path) from None
        if thermal is not None:
            self._units.add(thermal.unit.value)
        return self._rule.pair(key, rgb, thermal, notes=self._notes)

    def _read_rgb(self) -> NDArray[np.uint8] | None:
        there, bgr = cast("tuple[bool, NDArray[np.uint8]]", self._capture.read(self._scratch))
        if not there:
            return None
        self._scratch = bgr
        if bgr.ndim != 3 or bgr.dtype != np.uint8:
            raise SourceError(
                f"{self._path}: expected 8-bit colour, OpenCV gives {bgr.dtype} {list(bgr.shape)}"
            )
        image = self._targets.take(bgr.shape, np.uint8)
        if image is None:
            image = self._ring.take(bgr.shape, np.uint8)
        cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB, dst=image)
        return image

    def _refuse_short(self, key: str, index: int) -> None:
        """Past the last frame: what a file's header promised and the file did not hold is bad frames."""
        if index == 0:
            raise FrameError(key, "the video opens, but OpenCV finds no frame in it: truncated?", self._path)
        read = [(self._path, self._rgb_read, self._rgb_count)]
        if self._thermal is not None:
            read.append((self._thermal.path, self._thermal_read, self._thermal.count))
        for path, found, stated in read:
            if stated is None or index >= min(
                stated, found + KEPT_SKIPS
            ):  # a damaged header may state billions
                continue
            if stated - found > max(2, _COUNT_TOLERANCE * stated):
                raise FrameError(
                    key, f"the video ends after {found} frames, its header states {stated}: truncated?", path
                )

    def _refuse_single(self, key: str, no_rgb: bool, no_thermal: bool) -> None:
        if no_rgb or no_thermal:
            ended, other = ("colour", "thermal") if no_rgb else ("thermal", "colour")
            count = self._rgb_read if no_rgb else self._thermal_read
            raise FrameError(
                key,
                f"the {ended} file ended after {count} frames, the {other} file goes on",
                self._path,
                "Pass ?partial=allow to go on with one camera.",
            )

    def _compare_rates(self) -> tuple[str, ...]:
        """Refuses rates that drift apart; equal counts show that frame n belongs to frame n all the same."""
        thermal = self._thermal
        if (
            thermal is None
            or not self.fps
            or not thermal.fps
            or _alike(self.fps, thermal.fps, _RATE_TOLERANCE)
        ):
            return ()
        rates = f"colour {self.fps:g} fps, thermal {thermal.fps:g} fps"
        if self._rgb_count and thermal.count and _alike(self._rgb_count, thermal.count, _COUNT_TOLERANCE):
            return (f"paired by frame number: equal counts, but {rates}",)
        self._release()
        raise ConfigError(
            f"{self.uri}: {rates}: frames of unlike rates cannot be paired by number. "
            f"Bring both to one rate: ffmpeg -i IN -r {min(self.fps, thermal.fps):g} OUT"
        )

    def _open(self) -> cv2.VideoCapture:
        capture = cv2.VideoCapture(str(self._path), cv2.CAP_FFMPEG)
        if not capture.isOpened():
            raise SourceError(
                f"{self._path}: OpenCV cannot open it as a video. Check that it plays; if it does, "
                "convert it: ffmpeg -i IN -c:v mjpeg -q:v 2 OUT.avi"
            )
        return capture

    def _rewind(self) -> None:
        self._capture.release()
        self._capture = self._open()
        self._rgb_read = self._thermal_read = 0
        if self._thermal is not None:
            self._thermal.rewind()

    def _release(self) -> None:
        self._capture.release()
        if self._thermal is not None:
            self._thermal.close()

    @property
    def _stated_unit(self) -> str:
        return str((ThermalUnit.CENTIKELVIN if self.unit.absolute else ThermalUnit.COUNTS).value)

    def _describe(self) -> dict[str, Any]:
        return {
            "kind": "video",
            "fps": self.fps,
            "rgb_frames": self._rgb_count,
            "thermal_frames": self._thermal.count if self._thermal else None,
            "thermal_unit": ("; ".join(sorted(self._units)) or self._stated_unit) if self._thermal else None,
            "registration": self._rule.origin,
            "licences": [],
        }


def _alike(a: float, b: float, tolerance: float) -> bool:
    return abs(a - b) <= tolerance * max(a, b)


def _places(video: Path, name: str) -> tuple[Path, ...]:
    path = user_path(name)
    return (path,) if path.is_absolute() else (path, video.parent / path)


def _existing(uri: SourceUri, what: str, *places: Path) -> Path:
    for place in places:
        if place.is_file():
            return place
    folder = next((place for place in places if place.is_dir()), None)
    if folder is not None:
        raise ConfigError(f"{uri.text}: {what}: {str(folder)!r} is a folder, expected a file; see 'pairs:'")
    tried = " or ".join(repr(str(place)) for place in dict.fromkeys(places))
    raise ConfigError(f"{uri.text}: {what}: no file {tried}")
