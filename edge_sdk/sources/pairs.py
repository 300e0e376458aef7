"""A folder of pairs: `pairs:DIR?rgb=rgb&thermal=ir16`, files matched by stem."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_sdk.clock import Clock
from edge_sdk.errors import ConfigError, FrameError
from edge_sdk.frames import FramePair, RgbFrame, ThermalFrame, ThermalUnit
from edge_sdk.heat_units import heat_unit
from edge_sdk.sources.base import BaseSource, OnBad
from edge_sdk.sources.decode import IMAGE_SUFFIXES, ImageReader
from edge_sdk.sources.folder_files import files_in, natural_key
from edge_sdk.sources.labels import FrameLabels, GroundTruth, load_labels
from edge_sdk.sources.orientation import ORIENTATION_OPTIONS, UPRIGHT, TurnedPairs
from edge_sdk.sources.registration import RegistrationArgument, RegistrationRule, load_sidecar
from edge_sdk.sources.uri import SourceUri, holds_radiometric_jpegs, printable

__all__ = ["PAIRS_OPTIONS", "PairsSource"]

PAIRS_OPTIONS = (
    "rgb",
    "thermal",
    "unit",
    "registration",
    "partial",
    "sort",
    "sequence",
    *ORIENTATION_OPTIONS,
)

_ABSENT = "none"


class PairsSource(BaseSource):
    """RGB and thermal image files of equal names in two sub-folders, in natural order of the names.

    Sub-folders of the two are read too: the key of a pair is its path in them, without suffix. Names that
    differ only in how their accents are composed (NFC, NFD) are equal.

    Options of the URI:
        rgb, thermal: the sub-folders, `rgb` and `thermal` by default; `none` for a camera there is not.
        unit: what a count is, see `edge_sdk.heat_units`; default: `thermal_unit` of `pairs.json`, else
            counts.
        registration: a JSON file, `same-view`, `centred` or `bundle`; default: the label files,
            `pairs.json`, else frames of equal size are taken to share their pixels.
        partial: `allow` gives a pair whose partner file is missing with that side None; by default
            (`refuse`) it is a bad frame.
        sort: `natural` (2 before 10) or `name`.
        sequence: `1` says that the files follow each other like a video; by default (`0`) each is a still,
            and says nothing of the next.
        orientation, thermal_orientation: `tag` (default: as each file says), `stored`, or degrees clockwise.
        registration_for: `turned` (default) or `stored`: which pictures registrations were made for.

    `pairs.json` in the folder may state `thermal_unit`, `rgb_size_wh`, `thermal_size_wh`,
    `homography_thermal_to_rgb`, `depth_m`, `pixel_convention`, `registration_for` and `licence`.
    `labels/KEY.json` may state the same homography for one pair, and ground truth.

    Each image lies in a buffer that is written again once nobody holds it: keep a pair as long as you like.

    Arguments:
        uri: the URI, taken apart.
        folder: the folder; by default the path of the URI.
        registration: instead of the URI's; an object too.
        on_bad, loop, clock: see `BaseSource`.

    Raises:
        ConfigError: a folder is missing, no pair matches, a stem has two files, a malformed sidecar.
    """

    _stills = True

    def __init__(
        self,
        uri: SourceUri,
        *,
        folder: Path | None = None,
        registration: RegistrationArgument = None,
        on_bad: OnBad = "raise",
        loop: int = 1,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(uri.text, on_bad=on_bad, loop=loop, clock=clock)
        self.folder = folder or Path(uri.path)
        if not self.folder.is_dir():
            raise ConfigError(f"{uri.text}: no folder {str(self.folder)!r}{_hint(uri)}")
        self.sidecar = load_sidecar(self.folder)
        unit = uri.options.get("unit")
        self.unit = (heat_unit(unit, uri.text) if unit else self.sidecar.unit) or heat_unit("counts")
        self._units: set[str] = set()
        self._allow_partial = uri.choice("partial", ("allow", "refuse")) == "allow"
        self._rule = RegistrationRule.of(uri, registration, self.folder, self.sidecar)
        by_name = uri.choice("sort", ("natural", "name")) == "name"
        self._rgb, self._thermal = (_scan(uri, self.folder, camera, by_name) for camera in ("rgb", "thermal"))
        stated = uri.choice("sequence", ("0", "1"))
        self.still = self._stills if stated is None else stated == "0"
        self._turned = TurnedPairs(uri, self.sidecar.content)
        stems = self._rgb.files.keys() | self._thermal.files.keys()
        self.keys: tuple[str, ...] = tuple(sorted(stems, key=None if by_name else natural_key))
        self._refuse_no_pair(uri)
        self._rgb_reader, self._thermal_reader = (
            ImageReader(
                camera,
                size,
                self.sidecar.path.name if size and self.sidecar.path else "the first frame",
                turning,
            )
            for camera, turning in (("rgb", self._turned.rgb), ("thermal", self._turned.thermal))
            for size in (self.sidecar.sizes.get(camera),)
        )
        self._labels: dict[str, FrameLabels | None] = {}

    def labels(self, key: str) -> tuple[GroundTruth, ...]:
        """Returns the ground truth of a pair, from `labels/KEY.json`; nothing where it has none.

        Raises:
            ConfigError: no pair has this key, or its label file is malformed.
        """
        found = self.frame_labels(key)
        return found.objects if found else ()

    def frame_labels(self, key: str) -> FrameLabels | None:
        """Returns all that `labels/KEY.json` says, or None where there is no such file."""
        if key not in self._labels:
            if key not in self._rgb.files and key not in self._thermal.files:
                raise ConfigError(f"{self.uri}: no pair {key!r}")
            path = self.folder / "labels" / f"{key}.json"
            self._labels[key] = load_labels(path) if path.is_file() else None
        return self._labels[key]

    @property
    def _pass_length(self) -> int:
        return len(self.keys)

    def _read(self, index: int) -> FramePair | None:
        if index >= len(self.keys):
            return None
        key = self.keys[index]
        rgb_path, thermal_path = self._partner(key, self._rgb), self._partner(key, self._thermal)
        rgb = RgbFrame(self._rgb_reader.read(key, rgb_path, self._targets)) if rgb_path else None
        thermal = self._thermal_frame(key, thermal_path) if thermal_path else None
        pair = self._rule.pair(key, rgb, thermal, lambda: self._labels_of(key), still=self.still)
        turns = (
            reader.turn if frame else UPRIGHT
            for reader, frame in ((self._rgb_reader, rgb), (self._thermal_reader, thermal))
        )
        return self._turned.finish(pair, *turns)

    def _labels_of(self, key: str) -> FrameLabels | None:
        try:
            return self.frame_labels(key)
        except ConfigError as error:
            raise FrameError(key, str(error), fix="Or give ?registration=.") from None

    def _thermal_frame(self, key: str, path: Path) -> ThermalFrame:
        try:
            frame = ThermalFrame(self._thermal_reader.read(key, path, self._targets), self.unit)
        except ConfigError as error:
            raise FrameError(key, str(error), path) from None
        self._units.add(frame.unit.value)
        return frame

    def _partner(self, key: str, side: _Side) -> Path | None:
        path = side.files.get(key)
        if path is None and side.folder is not None and not self._allow_partial:
            raise FrameError(
                key,
                f"no {side.camera} file of this name in {str(side.folder)!r}",
                fix="Pass ?partial=allow to get such pairs with that side missing.",
            )
        return path

    def _describe(self) -> dict[str, Any]:
        return {
            "kind": "pairs",
            "rgb_files": len(self._rgb.files),
            "thermal_files": len(self._thermal.files),
            "ignored_files": self._rgb.ignored + self._thermal.ignored,
            "rgb_size_wh": _as_list(self._rgb_reader.size_wh),
            "thermal_size_wh": _as_list(self._thermal_reader.size_wh),
            "thermal_unit": self._thermal_unit() if self._thermal.files else None,
            "registration": self._rule.origin,
            "licences": list(self.sidecar.licences),
            "still": self.still,
            "conditions": self._turned.conditions,
        }

    def _thermal_unit(self) -> str:
        asked = ThermalUnit.CENTIKELVIN if self.unit.absolute else ThermalUnit.COUNTS
        return "; ".join(sorted(self._units)) or asked.value

    def _refuse_no_pair(self, uri: SourceUri) -> None:
        rgb, thermal = self._rgb, self._thermal
        if not self.keys:
            places = " and ".join(f"{str(side.folder)!r}" for side in (rgb, thermal) if side.folder)
            raise ConfigError(
                f"{uri.text}: no image file in {places}. Read are: {', '.join(sorted(IMAGE_SUFFIXES))}"
            )
        both = rgb.folder is not None and thermal.folder is not None
        if both and not self._allow_partial and not rgb.files.keys() & thermal.files.keys():
            examples = [
                next(iter(side.files.values())).name if side.files else "none" for side in (rgb, thermal)
            ]
            raise ConfigError(
                f"{uri.text}: no file name occurs in both folders: {len(rgb.files)} RGB files (like "
                f"{examples[0]!r}), {len(thermal.files)} thermal files (like {examples[1]!r}). "
                "Files of a pair have the same name up to the suffix; ?thermal=none reads RGB alone"
            )


@dataclass(frozen=True)
class _Side:
    """The files of one camera, by stem; `folder` is None for a camera that is not there."""

    camera: str
    folder: Path | None
    files: dict[str, Path] = field(default_factory=dict)
    ignored: int = 0


def _scan(uri: SourceUri, root: Path, camera: str, by_name: bool) -> _Side:
    name = uri.option(camera, camera)
    if name == _ABSENT:
        return _Side(camera, None)
    folder = root / name
    if not folder.is_dir():
        there = sorted(printable(entry.name) for entry in root.iterdir() if entry.is_dir())[:8]
        if holds_radiometric_jpegs(root):
            raise ConfigError(
                f"{uri.text}: no {camera} folder {str(folder)!r}. The folder holds radiometric JPEGs: "
                f"write file:{uri.path}"
            )
        raise ConfigError(
            f"{uri.text}: no {camera} folder {str(folder)!r}. Sub-folders there: "
            f"{', '.join(there) or 'none'}; name one with ?{camera}=NAME (. for the folder itself), "
            f"or ?{camera}=none if there is no such camera"
        )
    other = "thermal" if camera == "rgb" else "rgb"
    skip = [root / "labels", root / uri.option(other, other)]
    listed = files_in(
        folder, IMAGE_SUFFIXES, skip=[place for place in skip if place != folder], by_name=by_name
    )
    files: dict[str, Path] = {}
    for key, path in listed.files:
        if key in files:
            raise ConfigError(
                f"{uri.text}: two {camera} files for pair {key!r}: {printable(files[key].name)} "
                f"and {printable(path.name)}. Remove one"
            )
        files[key] = path
    return _Side(camera, folder, files, listed.ignored)


def _hint(uri: SourceUri) -> str:
    raw = uri.text.partition(":")[2].partition("?")[0]
    return f" (the URI's {raw!r} decoded; write % as %25)" if raw != uri.path and "%" in raw else ""


def _as_list(size_wh: tuple[int, int] | None) -> list[int] | None:
    return None if size_wh is None else list(size_wh)
