"""The clips that come with the package: `clip:substation`, found from any working directory."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from edge_sdk.clock import Clock
from edge_sdk.errors import ConfigError
from edge_sdk.members import number, texts
from edge_sdk.sources.base import OnBad
from edge_sdk.sources.pairs import PairsSource
from edge_sdk.sources.registration import RegistrationArgument
from edge_sdk.sources.uri import SourceUri, nearest

__all__ = ["CLIP_OPTIONS", "ClipSource", "known_clips"]

CLIP_OPTIONS = ("registration",)


class ClipSource(PairsSource):
    """A shipped clip: a folder of pairs with `clip.json`, label files and a known licence.

    Arguments:
        uri: `clip:NAME`, taken apart.
        clips: the folder that holds the clips; by default that of the package.
        registration: instead of the clip's own.
        on_bad, loop, clock: see `BaseSource`.

    Raises:
        ConfigError: no clip of this name; the known ones are listed.
    """

    _stills = False

    def __init__(
        self,
        uri: SourceUri,
        *,
        clips: Path | None = None,
        registration: RegistrationArgument = None,
        on_bad: OnBad = "raise",
        loop: int = 1,
        clock: Clock | None = None,
    ) -> None:
        known = known_clips(clips)
        if uri.path not in known:
            raise ConfigError(
                f"{uri.text}: no clip {uri.path!r}{nearest(uri.path, known)} "
                f"Known: {', '.join(known) or 'none; this installation has no clips'}"
            )
        super().__init__(
            uri, folder=known[uri.path], registration=registration, on_bad=on_bad, loop=loop, clock=clock
        )
        content = self.sidecar.content or {}
        try:
            self.fps: float | None = number(content["fps"], "fps") if content.get("fps") else None
            self.classes: tuple[str, ...] = texts(content.get("classes") or (), "classes")
        except ConfigError as error:
            raise ConfigError(f"{self.sidecar.path}: {error}") from None
        stated = content.get("frames")
        if stated is not None and stated != len(self.keys):
            raise ConfigError(
                f"{uri.text}: {len(self.keys)} pairs found, clip.json states {stated}. "
                "Install the package again"
            )

    def _describe(self) -> dict[str, Any]:
        seed = (self.sidecar.content or {}).get("seed")
        return {**super()._describe(), "kind": "clip", "fps": self.fps, "seed": seed}


def known_clips(clips: Path | None = None) -> dict[str, Path]:
    """Returns the clips of this installation, name to folder.

    Arguments:
        clips: the folder that holds them; by default that of the package.
    """
    folder = clips or Path(str(resources.files("edge_sdk.sources"))) / "clips"
    if not folder.is_dir():
        return {}
    return {entry.name: entry for entry in sorted(folder.iterdir()) if (entry / "clip.json").is_file()}
