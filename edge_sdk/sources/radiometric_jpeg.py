"""Radiometric JPEGs: one file of a FLIR camera is a pair, one of a DJI camera a thermal frame."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.clock import Clock
from edge_sdk.errors import ConfigError, FrameError, FrameTooLargeError
from edge_sdk.frames import Calibration, FramePair, Registration, RgbFrame, ThermalFrame
from edge_sdk.picture_size import check_bytes, check_size
from edge_sdk.requirements import install_hint
from edge_sdk.sources.base import BaseSource, OnBad
from edge_sdk.sources.dirp import Dirp
from edge_sdk.sources.flir_file import FlirFile, canonical, flir_file
from edge_sdk.sources.folder_files import files_in
from edge_sdk.sources.orientation import ORIENTATION_OPTIONS, TurnedPairs
from edge_sdk.sources.picture_facts import PictureFacts, picture_facts
from edge_sdk.sources.registration import RegistrationArgument, RegistrationRule
from edge_sdk.sources.rjpeg_marks import RJPEG_SUFFIXES, is_radiometric_jpeg, radiometric_maker
from edge_sdk.sources.uri import SourceUri, printable

__all__ = ["RJPEG_OPTIONS", "RadiometricJpegSource"]

RJPEG_OPTIONS = ("registration", "dirp", "sequence", *ORIENTATION_OPTIONS)

_DIRP_VARIABLE = "EDGE_SDK_DIRP"


class RadiometricJpegSource(BaseSource):
    """A radiometric JPEG, or those of a folder and its sub-folders in natural order of their names.

    Other pictures in the folder, like a drone's colour photos, are passed over and counted.

    FLIR: the embedded raw frame becomes centikelvin by the file's own constants (library flyr), the
    embedded visible frame the colour frame; the camera's own picture-in-picture figures give the
    registration, which holds at the distance that the camera was set to. DJI: the thermal frame alone,
    by DJI's own library `libdirp.so`, which DJI distributes for x86-64. A FLIR file without the camera's
    constants is read in counts, and says so.

    Both frames are turned as the file's tag says, and the camera's own registration with them.

    Options of the URI:
        registration: a JSON file, `same-view`, `centred` or `bundle`, in place of the camera's own.
        sequence: `1` says that the files follow each other like a video; by default each is a still.
        orientation, thermal_orientation: `tag` (default), `stored`, or degrees clockwise.
        registration_for: `turned` (default) or `stored`: which pictures a given registration was made for.
        dirp: path of `libdirp.so`; by default the environment variable EDGE_SDK_DIRP.

    Arguments:
        uri: the URI, taken apart.
        registration: instead of the URI's; an object too.
        on_bad, loop, clock: see `BaseSource`.

    Raises:
        ConfigError: no file, or the library that reads it is not installed.
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
        root = Path(uri.path)
        self._ignored = 0
        if root.is_dir():
            listed = files_in(root, RJPEG_SUFFIXES)
            self.files = [(key, path) for key, path in listed.files if is_radiometric_jpeg(path)]
            self._ignored = listed.ignored + len(listed.files) - len(self.files)
        else:
            self.files = [(printable(root.stem), root)] if is_radiometric_jpeg(root) else []
        if not self.files:
            raise ConfigError(f"{uri.text}: no radiometric JPEG of FLIR or DJI there")
        self._still = uri.choice("sequence", ("0", "1")) != "1"
        self._turned = TurnedPairs(uri)
        self._given = registration is not None or "registration" in uri.options
        self._rule = RegistrationRule.of(uri, registration, root if root.is_dir() else root.parent)
        self._dirp_path = uri.options.get("dirp") or os.environ.get(_DIRP_VARIABLE)
        self._dirp: Dirp | None = None
        self._units: set[str] = set()

    @property
    def _pass_length(self) -> int:
        return len(self.files)

    def _read(self, index: int) -> FramePair | None:
        if index >= len(self.files):
            return None
        key, path = self.files[index]
        try:
            size = path.stat().st_size
            check_bytes(key, size, path)
            data = path.read_bytes()
        except OSError as error:
            raise FrameError(key, f"cannot be read: {error.strerror or error}", path) from None
        try:
            facts = picture_facts(data)
        except ValueError as problem:
            raise FrameError(key, str(problem), path) from None
        flir = radiometric_maker(data) == "FLIR"
        pair = self._read_flir(key, path, data, facts) if flir else self._read_dji(key, path, data, facts)
        assert pair.thermal is not None
        self._units.add(pair.thermal.unit.value)
        turns = self._turned.rgb.turn(facts.turn), self._turned.thermal.turn(facts.turn)
        return self._turned.finish(pair, *turns, for_stored=None if self._given else True)

    def _read_flir(self, key: str, path: Path, data: bytes, facts: PictureFacts) -> FramePair:
        _require_flyr(self.uri)
        thermal, visible, pip, notes = _flir_frames(key, path, data, facts)
        rgb = None
        if visible is not None:
            rgb = RgbFrame(self._turned.rgb.turn(facts.turn).apply(visible))
        else:
            notes += ("the file holds no visible frame",)
        stated = None
        if visible is not None and pip is not None:
            stored_wh = (visible.shape[1], visible.shape[0])
            stated = _pip_registration(pip, stored_wh, (thermal.shape[1], thermal.shape[0]))
        turned = self._turned.thermal.turn(facts.turn).apply(thermal)
        try:
            if thermal.dtype == np.uint16:
                frame = ThermalFrame(turned, calibration=Calibration.NONE)
            else:
                frame = ThermalFrame(turned, "kelvin", calibration=Calibration.RADIOMETRIC)
        except ConfigError as error:
            raise FrameError(key, str(error), path) from None
        return self._rule.pair(key, rgb, frame, stated=stated, notes=notes, still=self._still)

    def _read_dji(self, key: str, path: Path, data: bytes, facts: PictureFacts) -> FramePair:
        if self._dirp is None:
            if not self._dirp_path:
                raise FrameError(
                    key,
                    "a DJI R-JPEG, which only DJI's own library decodes",
                    path,
                    "Get the DJI Thermal SDK from DJI and pass ?dirp=/path/of/libdirp.so "
                    f"(or set {_DIRP_VARIABLE}).",
                )
            self._dirp = Dirp(key, path, self._dirp_path)
        measured = self._turned.thermal.turn(facts.turn).apply(self._dirp.measure(key, path, data))
        thermal = ThermalFrame(measured, "celsius", calibration=Calibration.RADIOMETRIC)
        return FramePair(key, None, thermal, still=self._still)

    def _describe(self) -> dict[str, Any]:
        return {
            "kind": "radiometric-jpeg",
            "thermal_unit": "; ".join(sorted(self._units)) or "centikelvin",
            "registration": self._rule.origin,
            "licences": [],
            "ignored_files": self._ignored,
            "still": self._still,
            "conditions": self._turned.conditions,
        }


def _flir_frames(
    key: str, path: Path, data: bytes, facts: PictureFacts
) -> tuple[NDArray[Any], NDArray[np.uint8] | None, Any, tuple[str, ...]]:
    """Reads the thermal frame in kelvin (else in counts, uint16), the visible frame and the camera's figures.

    flyr comes first; what it cannot read is read record by record, and given to it again where the camera's
    constants are there, so that all degrees come from one formula.
    """
    import flyr

    problem = ""
    try:
        found = flir_file(data)
    except ValueError as error:
        found, problem = FlirFile({}), str(error)
    camera = found.camera.strip("* ") or facts.camera or "a camera that does not say its name"
    if found.raw_size_wh is not None:
        check_size(key, found.raw_size_wh, path)
    why = "flyr: not asked, for its directory is laid out in another way"
    with np.errstate(all="ignore"):
        try:
            if found.usual:
                read = flyr.unpack(io.BytesIO(data))
                optical = read.optical
                visible = None if optical is None else np.ascontiguousarray(optical[:, :, :3], np.uint8)
                return read.kelvin, visible, read.pip_info, ()
        except Exception as error:  # flyr raises whatever its parsing meets
            why = f"flyr: {type(error).__name__}: {str(error)[:120]}"
        try:
            raw, visible = found.raw(key), found.visible(key)
        except FrameTooLargeError:
            raise
        except ValueError as error:
            raise FrameError(key, f"a file of {camera}: {problem or error} ({why})", path) from None
        if found.has_constants:
            try:
                read = flyr.unpack(io.BytesIO(canonical(data, found, raw)))
                return read.kelvin, visible, read.pip_info, (f"read record by record ({why})",)
            except Exception as error:  # likewise
                why = f"flyr: {type(error).__name__}: {str(error)[:120]}"
    return (
        raw,
        visible,
        None,
        (f"no degrees: the constants of {camera} cannot be read from the file ({why})",),
    )


def _pip_registration(pip: Any, rgb_wh: tuple[int, int], thermal_wh: tuple[int, int]) -> Registration | None:
    """The thermal view lies in the middle of the visible one, `real_to_ir` times smaller, and shifted.

    Source: FLIR's maker notes as ExifTool documents them: Real2IR, OffsetX and OffsetY in visible pixels.
    """
    try:
        scale = rgb_wh[0] / (pip.real_to_ir * thermal_wh[0])
        left = rgb_wh[0] / 2 + pip.offset_x - scale * thermal_wh[0] / 2
        top = rgb_wh[1] / 2 + pip.offset_y - scale * thermal_wh[1] / 2
        matrix = ((scale, 0.0, left), (0.0, scale, top), (0.0, 0.0, 1.0))
        return Registration(matrix, rgb_wh, thermal_wh, None, "the camera's picture-in-picture figures")
    except (ConfigError, ZeroDivisionError, OverflowError):  # figures that cannot be
        return None


def _require_flyr(text: str) -> None:
    try:
        import flyr  # noqa: F401
    except ImportError:
        raise ConfigError(
            f"{text}: FLIR files need the library flyr (EUPL 1.2, so it is no part of this SDK). "
            f"Install it: {install_hint('flir')}"
        ) from None
