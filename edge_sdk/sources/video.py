"""A colour video and a raw thermal file of the same scene: `video:RGB?thermal=FILE`, frame by frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk.clock import Clock
from edge_sdk.errors import ConfigError, FrameError, SourceError
from edge_sdk.frames import FramePair, RgbFrame, ThermalFrame, ThermalUnit
from edge_sdk.heat_units import heat_unit
from edge_sdk.sources.base import KEPT_SKIPS, BaseSource, OnBad
from edge_sdk.sources.orientation import ORIENTATION_OPTIONS, UPRIGHT, TurnedPairs
from edge_sdk.sources.registration import RegistrationArgument, RegistrationRule
from edge_sdk.sources.ring import FrameRing
from edge_sdk.sources.rjpeg_marks import RJPEG_SUFFIXES, is_radiometric_jpeg
from edge_sdk.sources.thermal_stream import ThermalStream, open_thermal_stream
from edge_sdk.sources.uri import SourceUri, user_path
from edge_sdk.sources.video_file import VideoFile

__all__ = ["VIDEO_OPTIONS", "VideoSource"]

VIDEO_OPTIONS = ("thermal", "unit", "registration", "partial", *ORIENTATION_OPTIONS)

_ADVICE = "Check that it plays; if it does, convert it: ffmpeg -i IN -c:v mjpeg -q:v 2 OUT.avi"

_RATE_TOLERANCE = 0.05
"""Mean rates that differ by more than this share are those of unlike cameras; a phone's varies by less."""

_SAME_RATE = 0.001
"""Rates this close are one rate. Between the two, equal counts show that the cameras ran in step."""

_COUNT_TOLERANCE = 0.02
"""Containers without a frame index (Matroska) state their length only to within a frame or two."""


_LEAST_FRAME_NS = 1_000_000
"""Times that are closer than this are no frame times."""


class VideoSource(BaseSource):
    """The frames of a colour video with those of a thermal file.

    Two videos are paired by their times, from the first frame of each on, within half a frame time: so a
    variable frame rate or a dropped frame shifts nothing. A stack has no times: there frame n belongs to
    frame n.

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
        partial: `allow`: a frame without a partner of its time, or behind the other file's end, is a pair
            with one frame. By default it is a bad frame.
        orientation, thermal_orientation: `tag` (default: as the file says), `stored`, or degrees clockwise.
        registration_for: `turned` (default) or `stored`: which pictures the registration was made for.

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
        self._turned = TurnedPairs(uri)
        self._video = VideoFile(self._path, _ADVICE)
        self.fps = self._video.fps
        self._thermal: ThermalStream | None = None
        try:
            if thermal_path is not None:
                self._thermal = open_thermal_stream(thermal_path, self._turned.thermal)
            self._notes = self._compare_rates()
        except Exception:
            self._release()
            raise
        self._scratch: NDArray[Any] | None = None
        self._ring = FrameRing()
        self._thermal_read = 0
        self._held: dict[str, tuple[NDArray[Any], int | None]] = {}
        self._last_ns: dict[str, int] = {}
        self._shortest_ns = self._usual_ns()

    @property
    def _pass_length(self) -> int | None:
        counts = [self._video.count] if self._thermal is None else [self._video.count, self._thermal.count]
        known = [count for count in counts if count is not None]
        return max(known) if len(known) == len(counts) else None

    def _read(self, index: int) -> FramePair | None:
        key = f"{index:06d}"
        image, rgb_ns = self._next_rgb()
        thermal_image, thermal_ns = self._next_thermal(key, index)
        if image is None and thermal_image is None:
            self._refuse_short(key, index)
            return None
        apart = self._apart_ns(image, rgb_ns, thermal_image, thermal_ns)
        if apart > 0:  # the thermal frame is one of later
            assert thermal_image is not None
            self._held["thermal"], thermal_image = (thermal_image.copy(), thermal_ns), None
        elif apart < 0:
            assert image is not None
            self._held["rgb"], image = (image.copy(), rgb_ns), None
        if self._thermal is not None and not self._allow_partial:
            self._refuse_single(key, image is None, thermal_image is None, apart != 0)
        rgb = RgbFrame(image) if image is not None else None
        try:
            thermal = ThermalFrame(thermal_image, self.unit) if thermal_image is not None else None
        except ConfigError as error:
            raise FrameError(key, str(error), self._path) from None
        if thermal is not None:
            self._units.add(thermal.unit.value)
        pair = self._rule.pair(key, rgb, thermal, notes=self._notes, still=False)
        turn = self._turned.rgb.turn(self._video.turn)
        return self._turned.finish(pair, turn, self._thermal.turn if self._thermal else UPRIGHT)

    def _apart_ns(
        self,
        rgb: NDArray[Any] | None,
        rgb_ns: int | None,
        thermal: NDArray[Any] | None,
        thermal_ns: int | None,
    ) -> int:
        """How much later the thermal frame is, where that is too much for one moment; else 0."""
        if not self._by_time or rgb is None or thermal is None or rgb_ns is None or thermal_ns is None:
            return 0
        apart_ns = thermal_ns - rgb_ns
        return apart_ns if abs(apart_ns) > self._shortest_ns // 2 else 0

    def _next_rgb(self) -> tuple[NDArray[np.uint8] | None, int | None]:
        """The colour frame that waits, else the next one, with its time."""
        if "rgb" in self._held:
            return self._held.pop("rgb")
        bgr = self._video.read(self._scratch)
        if bgr is None:
            return None, None
        self._scratch = bgr
        self._note_time("rgb", self._video.time_ns)
        if bgr.ndim != 3 or bgr.dtype != np.uint8:
            raise SourceError(
                f"{self._path}: expected 8-bit colour, OpenCV gives {bgr.dtype} {list(bgr.shape)}"
            )
        bgr = self._turned.rgb.turn(self._video.turn).apply(bgr)
        image = self._targets.take(bgr.shape, np.uint8)
        if image is None:
            image = self._ring.take(bgr.shape, np.uint8)
        cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB, dst=image)
        return image, self._video.time_ns

    def _next_thermal(self, key: str, index: int) -> tuple[NDArray[Any] | None, int | None]:
        if self._thermal is None:
            return None, None
        if "thermal" in self._held:
            return self._held.pop("thermal")
        image = self._thermal.read(key, index, self._targets)
        self._thermal_read += image is not None
        if image is not None:
            self._note_time("thermal", self._thermal.time_ns)
        return image, self._thermal.time_ns

    def _usual_ns(self) -> int:
        """The frame time that both files state, as far as they do."""
        rates = [rate for rate in (self.fps, self._thermal.fps if self._thermal else None) if rate]
        return round(1e9 / max(rates)) if rates else 1_000_000_000

    def _note_time(self, camera: str, time_ns: int | None) -> None:
        """Two frames are of one moment within half the shortest frame time that was ever seen."""
        if time_ns is None:
            self._by_time = False
            return
        last_ns = self._last_ns.get(camera)
        self._last_ns[camera] = time_ns
        if last_ns is not None:
            self._shortest_ns = min(self._shortest_ns, max(_LEAST_FRAME_NS, time_ns - last_ns))

    def _refuse_short(self, key: str, index: int) -> None:
        """Past the last frame: what a file's header promised and the file did not hold is bad frames."""
        if index == 0:
            raise FrameError(key, "the video opens, but OpenCV finds no frame in it: truncated?", self._path)
        read = [(self._path, self._video.cut_short, self._video.frames_read, self._video.count)]
        if self._thermal is not None:
            read.append(
                (self._thermal.path, self._thermal.cut_short, self._thermal_read, self._thermal.count)
            )
        for path, problem, found, stated in read:
            # One bad frame for each that is missing; a damaged header may state billions.
            until = found + 1 if stated is None else min(stated, found + KEPT_SKIPS)
            if problem and index < until:
                raise FrameError(key, problem, path)

    def _refuse_single(self, key: str, no_rgb: bool, no_thermal: bool, apart: bool) -> None:
        ended, other = ("colour", "thermal") if no_rgb else ("thermal", "colour")
        if apart:
            at_s, limit_ms = self._last_ns["thermal" if no_rgb else "rgb"] / 1e9, self._shortest_ns / 2e6
            raise FrameError(
                key,
                f"no {ended} frame within {limit_ms:.0f} ms of the {other} frame at {at_s:.3f} s",
                self._path,
                "Pass ?partial=allow to get each frame alone.",
            )
        if no_rgb or no_thermal:
            count = self._video.frames_read if no_rgb else self._thermal_read
            raise FrameError(
                key,
                f"the {ended} file ended after {count} frames, the {other} file goes on",
                self._path,
                "Pass ?partial=allow to go on with one camera.",
            )

    def _compare_rates(self) -> tuple[str, ...]:
        """Chooses between pairing by time and by number; refuses rates that neither can hold together."""
        thermal = self._thermal
        self._by_time = thermal is not None and bool(self.fps) and bool(thermal.fps)
        if thermal is None or not self.fps or not thermal.fps or _alike(self.fps, thermal.fps, _SAME_RATE):
            return ()
        rates = f"colour {self.fps:g} fps, thermal {thermal.fps:g} fps"
        count = self._video.count
        if count and thermal.count and _alike(count, thermal.count, _COUNT_TOLERANCE):
            self._by_time = False
            return (f"paired by frame number: equal counts, but {rates}",)
        if _alike(self.fps, thermal.fps, _RATE_TOLERANCE):
            return ()
        raise ConfigError(
            f"{self.uri}: {rates}: frames of unlike rates cannot be paired one to one. "
            f"Bring both to one rate: ffmpeg -i IN -r {min(self.fps, thermal.fps):g} OUT. Or let each slow "
            f"frame choose its nearest: camera:?rgb=file:{self._path}&thermal=file:{thermal.path}"
        )

    def _rewind(self) -> None:
        self._video.rewind()
        self._thermal_read = 0
        self._held.clear()
        self._last_ns.clear()
        if self._thermal is not None:
            self._thermal.rewind()

    def _release(self) -> None:
        self._video.close()
        if self._thermal is not None:
            self._thermal.close()

    @property
    def _stated_unit(self) -> str:
        return str((ThermalUnit.CENTIKELVIN if self.unit.absolute else ThermalUnit.COUNTS).value)

    def _describe(self) -> dict[str, Any]:
        return {
            "kind": "video",
            "fps": self.fps,
            "rgb_frames": self._video.count,
            "thermal_frames": self._thermal.count if self._thermal else None,
            "thermal_unit": ("; ".join(sorted(self._units)) or self._stated_unit) if self._thermal else None,
            "registration": self._rule.origin,
            "licences": [],
            "still": False,
            "conditions": self._turned.conditions,
        }


def _alike(a: float, b: float, tolerance: float) -> bool:
    return abs(a - b) <= tolerance * max(a, b)


def _places(video: Path, name: str) -> tuple[Path, ...]:
    path = user_path(name)
    return (path,) if path.is_absolute() else (path, video.parent / path)


def _existing(uri: SourceUri, what: str, *places: Path) -> Path:
    for place in places:
        if place.is_file():
            if place.suffix.lower() in RJPEG_SUFFIXES and is_radiometric_jpeg(place):
                raise ConfigError(
                    f"{uri.text}: {what}: {str(place)!r} is a radiometric JPEG and no video; read it with "
                    f"file:{place}"
                )
            return place
    folder = next((place for place in places if place.is_dir()), None)
    if folder is not None:
        raise ConfigError(f"{uri.text}: {what}: {str(folder)!r} is a folder, expected a file; see 'pairs:'")
    tried = " or ".join(repr(str(place)) for place in dict.fromkeys(places))
    raise ConfigError(f"{uri.text}: {what}: no file {tried}")
