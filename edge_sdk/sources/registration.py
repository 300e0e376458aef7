"""A source's part in the registration of its pairs: what its caller gave, and what its files state."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from edge_sdk.errors import ConfigError
from edge_sdk.frames import FramePair, HeatUnit, RgbFrame, ThermalFrame
from edge_sdk.heat_units import heat_unit
from edge_sdk.registration import (
    BUNDLE_ASKED,
    WORDS,
    Chosen,
    Given,
    Registration,
    RegistrationBy,
    RegistrationWord,
    choose_registration,
    registration_word,
)
from edge_sdk.sources.labels import FrameLabels, load_json, registration_from, size_in
from edge_sdk.sources.uri import SourceUri, nearest, user_path

__all__ = ["RegistrationArgument", "RegistrationRule", "Sidecar", "load_sidecar", "read_registration"]

NOT_GIVEN = "none given"
_SPELLINGS = ("identity", *(word.value for word in RegistrationWord))

Size: TypeAlias = tuple[int, int]
RegistrationArgument: TypeAlias = "Registration | str | os.PathLike[str] | None"
"""What `registration=` takes; see `read_registration`."""


@dataclass(frozen=True)
class Sidecar:
    """What `pairs.json` or `clip.json` says of the frames beside it; every entry may be absent.

    Attributes:
        path: the file, or None where there is none.
        content: all of it.
        unit: what a thermal count is (`thermal_unit`, any word of `unit=`), or None.
        registration: of all pairs (`homography_thermal_to_rgb` with both sizes), or None.
        licences: of the frames (`licence`, text or list).
        sizes: frame sizes stated for "rgb" and "thermal", (width, height) in pixels.
    """

    path: Path | None = None
    content: dict[str, Any] | None = None
    unit: HeatUnit | None = None
    registration: Registration | None = None
    licences: tuple[str, ...] = ()
    sizes: dict[str, Size] = field(default_factory=dict)


def load_sidecar(folder: Path, names: tuple[str, ...] = ("pairs.json", "clip.json")) -> Sidecar:
    """Reads the first of these files that the folder has.

    Raises:
        ConfigError: it is malformed.
    """
    for name in names:
        path = folder / name
        if path.is_file():
            content = load_json(path)
            licence = content.get("licence") or []
            if not isinstance(licence, (str, list)):
                raise ConfigError(f"{path}: licence: expected text or a list, found {str(licence)[:80]}")
            return Sidecar(
                path,
                content,
                _unit(content, path),
                registration_from(content, path, name),
                (licence,) if isinstance(licence, str) else tuple(str(entry) for entry in licence),
                {
                    camera: size
                    for camera in ("rgb", "thermal")
                    if (size := size_in(content, path, f"{camera}_size_wh")) is not None
                },
            )
    return Sidecar()


def read_registration(
    value: Registration | str | os.PathLike[str] | None, where: str, *folders: Path
) -> Given | None:
    """Reads what a caller gives as `registration=`: an object, a word, or a JSON file.

    Arguments:
        value: a `Registration`, one of the words of `RegistrationWord` or "identity", the path of a file as
            the live page saves it, or None.
        where: whose it is, for messages.
        folders: where a relative file is looked for before the working directory.

    Raises:
        ConfigError: no such file or word, or a file that holds none.
    """
    if value is None or isinstance(value, (Registration, RegistrationWord)):
        return value
    if not isinstance(value, (str, os.PathLike)) or not str(value) or "\0" in str(value):
        raise ConfigError(
            f"{where}: registration: expected a Registration, {WORDS} or the path of a JSON file, "
            f"found {value!r}"
        )
    name = os.fspath(value)
    word = registration_word(name)
    if word is not None:
        return word
    tried = [folder / user_path(name) for folder in folders] + [user_path(name)]
    path = next((place for place in tried if _is_file(place)), None)
    if path is None:
        raise ConfigError(
            f"{where}: registration: expected {WORDS} or a JSON file{nearest(name, _SPELLINGS)} "
            f"No file {' or '.join(str(place) for place in dict.fromkeys(tried))}"
        )
    found = registration_from(load_json(path), path, f"file {path.name}")
    if found is None:
        raise ConfigError(f"{path}: add homography_thermal_to_rgb, a 3x3 matrix")
    return found


class RegistrationRule:
    """A source's part in the rule of `choose_registration`: what its caller gave, what its files state.

    Arguments:
        given: what the caller gave, or None; see `read_registration`.
        sidecar: that of the source.
    """

    def __init__(self, given: Given | None = None, sidecar: Sidecar | None = None) -> None:
        self._given = given
        self._stated = sidecar.registration if sidecar is not None else None
        self._sizes = dict(sidecar.sizes) if sidecar is not None else {}
        self._origins: set[str] = set()

    @classmethod
    def of(
        cls,
        uri: SourceUri,
        registration: RegistrationArgument,
        folder: Path,
        sidecar: Sidecar | None = None,
    ) -> RegistrationRule:
        """Makes the rule of a source from its address and from the argument of `open_source`.

        Arguments:
            uri: with or without a `registration` option.
            registration: the argument, or None.
            folder: where a relative JSON file of the address is looked for before the working directory.
            sidecar: that of the source.

        Raises:
            ConfigError: both say it, or see `read_registration`.
        """
        option = uri.options.get("registration")
        if option is not None and registration is not None:
            raise ConfigError(
                f"{uri.text}: the registration is given twice: in the address, and as an argument"
            )
        if option is not None:
            return cls(read_registration(option, uri.text, folder), sidecar)
        return cls(read_registration(registration, uri.text), sidecar)

    @property
    def origin(self) -> str:
        """Where the registrations given so far come from, for the record."""
        asked = BUNDLE_ASKED if self._given is RegistrationWord.BUNDLE else None
        return "; ".join(sorted(self._origins)) or asked or "not yet known"

    def pair(
        self,
        key: str,
        rgb: RgbFrame | None,
        thermal: ThermalFrame | None,
        labels: Callable[[], FrameLabels | None] = lambda: None,
        *,
        stated: Registration | None = None,
        notes: tuple[str, ...] = (),
        **more: Any,
    ) -> FramePair:
        """Makes a pair with the registration that the rule gives it.

        A missing frame counts as having the size of its camera's frames so far.

        Arguments:
            key, rgb, thermal, notes, more: of the pair.
            labels: reads the pair's label file; called only if it has a say.
            stated: what the source states of this very pair.

        Raises:
            ConfigError: "same-view" of unlike aspect ratios, or a malformed label file.
        """
        rgb_wh = self._known("rgb", rgb.size_wh if rgb else None)
        thermal_wh = self._known("thermal", thermal.size_wh if thermal else None)
        if self._given is None and stated is None and rgb_wh and thermal_wh:
            found = labels()
            if found is not None and found.homography is not None:
                stated = Registration(found.homography, rgb_wh, thermal_wh, found.depth_m, "label file")
        if rgb_wh is None:  # nothing to lie on yet: only what somebody says
            chosen = Chosen(None, None)
            if self._given is not None or stated or self._stated:
                chosen = choose_registration(
                    None, thermal_wh, given=self._given, stated=stated or self._stated
                )
        else:
            chosen = choose_registration(rgb_wh, thermal_wh, given=self._given, stated=stated or self._stated)
        if chosen.registration is not None:
            self._origins.add(chosen.registration.origin)
        elif rgb_wh and thermal_wh:
            self._origins.add(BUNDLE_ASKED if chosen.by else NOT_GIVEN)
        return FramePair(
            key,
            rgb,
            thermal,
            chosen.registration,
            notes=(*notes, *chosen.notes),
            registration_by=chosen.by or RegistrationBy.ASSUMED,
            **more,
        )

    def _known(self, camera: str, size_wh: Size | None) -> Size | None:
        if size_wh is not None:
            self._sizes[camera] = size_wh
        return self._sizes.get(camera)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name longer than any, or one that no path can have
        return False


def _unit(content: dict[str, Any], path: Path) -> HeatUnit | None:
    name = content.get("thermal_unit")
    return None if name is None else heat_unit(name, f"{path}: thermal_unit")
