"""Which registration a pair gets: what the caller says, else what the files say, else what can be assumed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_sdk.errors import ConfigError
from edge_sdk.frames import Registration, ThermalUnit
from edge_sdk.sources.labels import FrameLabels, load_json, registration_from, size_in
from edge_sdk.sources.uri import SourceUri, user_path

__all__ = ["RegistrationRule", "Sidecar", "load_sidecar"]

ASSUMED = "assumed: equal frame sizes"
BUNDLE = "the engine bundle's default"

Size = tuple[int, int]


@dataclass(frozen=True)
class Sidecar:
    """What `pairs.json` or `clip.json` says of the frames beside it; every entry may be absent.

    Attributes:
        path: the file, or None where there is none.
        content: all of it.
        unit: what a thermal count means (`thermal_unit`), or None.
        registration: of all pairs (`homography_thermal_to_rgb` with both sizes), or None.
        licences: of the frames (`licence`, text or list).
        sizes: frame sizes stated for "rgb" and "thermal", (width, height) in pixels.
    """

    path: Path | None = None
    content: dict[str, Any] | None = None
    unit: ThermalUnit | None = None
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
            licence = content.get("licence", [])
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


class RegistrationRule:
    """Chooses the registration of each pair of one source.

    In this order: the caller's `registration=` (`identity`, `bundle` or a JSON file), the pair's label
    file, the sidecar, frames of equal size taken as registered, and at last the bundle's default.

    Arguments:
        uri: the source's, with or without a `registration` option.
        folder: where a relative JSON file is looked for before the working directory.
        sidecar: that of the source.

    Raises:
        ConfigError: the option's file is missing or malformed.
    """

    def __init__(self, uri: SourceUri, folder: Path, sidecar: Sidecar | None = None) -> None:
        self._given = uri.options.get("registration")
        self._fixed: Registration | None = None
        if self._given not in (None, "identity", "bundle"):
            path = _find(uri, folder, str(self._given))
            self._fixed = registration_from(load_json(path), path, f"file {path.name}")
            if self._fixed is None:
                raise ConfigError(f"{path}: add homography_thermal_to_rgb, a 3x3 matrix")
        self._sidecar = sidecar.registration if sidecar is not None and self._given is None else None
        self._sizes = dict(sidecar.sizes) if sidecar is not None else {}
        self._origins: set[str] = set()

    @property
    def wants_labels(self) -> bool:
        """Whether a pair's label file has a say."""
        return self._given is None

    @property
    def origin(self) -> str:
        """Where the registrations given so far come from, for the record."""
        return "; ".join(sorted(self._origins)) or self._given or "not yet known"

    def choose(
        self,
        rgb_size_wh: Size | None,
        thermal_size_wh: Size | None,
        labels: Callable[[], FrameLabels | None] = lambda: None,
    ) -> tuple[Registration | None, tuple[str, ...]]:
        """Returns a pair's registration and what has to be noted of it.

        A missing frame counts as having the size of its camera's frames so far.

        Arguments:
            rgb_size_wh, thermal_size_wh: (width, height) in pixels, None for a missing frame.
            labels: reads the pair's label file; called only if it has a say.
        """
        rgb_wh, thermal_wh = self._known("rgb", rgb_size_wh), self._known("thermal", thermal_size_wh)
        chosen: Registration | None = self._fixed
        notes: tuple[str, ...] = ()
        if self._given == "identity" and (size := rgb_wh or thermal_wh):
            chosen = Registration.identity(size, "given: identity")
        elif self._given is None:
            found = labels() if rgb_wh and thermal_wh else None
            if found is not None and found.homography is not None and rgb_wh and thermal_wh:
                chosen = Registration(found.homography, rgb_wh, thermal_wh, found.depth_m, "label file")
            elif self._sidecar is not None:
                chosen = self._sidecar
            elif rgb_wh is not None and rgb_wh == thermal_wh:
                chosen = Registration.identity(rgb_wh, ASSUMED)
                notes = (f"registration {ASSUMED}",)
        self._origins.add(chosen.origin if chosen else BUNDLE)
        return chosen, notes

    def _known(self, camera: str, size_wh: Size | None) -> Size | None:
        if size_wh is not None:
            self._sizes[camera] = size_wh
        return self._sizes.get(camera)


def _find(uri: SourceUri, folder: Path, name: str) -> Path:
    tried = [folder / user_path(name), user_path(name)]
    for path in tried:
        if path.is_file():
            return path
    raise ConfigError(
        f"{uri.text}: registration: expected identity, bundle or a JSON file; "
        f"no file {' or '.join(str(path) for path in dict.fromkeys(tried))}"
    )


def _unit(content: dict[str, Any], path: Path) -> ThermalUnit | None:
    name = content.get("thermal_unit")
    try:
        return None if name is None else ThermalUnit(name)
    except ValueError:
        words = " or ".join(repr(unit.value) for unit in ThermalUnit)
        raise ConfigError(f"{path}: thermal_unit: expected {words}, found {name!r}") from None
