"""How stored pictures are turned: by their own tag, or as the caller says; and what that means for a pair.

A registration holds for pictures as they are given out, turned ones included, unless
`registration_for=stored` (or that key in `pairs.json`) says that it was made for the stored ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import ConfigError
from edge_sdk.frames import FramePair, Registration
from edge_sdk.sources.uri import SourceUri, nearest

__all__ = [
    "AS_TAGGED",
    "ORIENTATION_OPTIONS",
    "UPRIGHT",
    "Orientation",
    "Turn",
    "orientation_of",
    "turn_of_exif",
]

ORIENTATION_OPTIONS = ("orientation", "thermal_orientation", "registration_for")

_WORDS = ("tag", "stored", "90", "180", "270")


@dataclass(frozen=True)
class Turn:
    """From a stored picture to the one that is given out.

    Attributes:
        quarters: quarter turns clockwise, 0 - 3.
        mirrored: left and right are swapped before turning.
    """

    quarters: int = 0
    mirrored: bool = False

    def __str__(self) -> str:
        parts = ["mirrored"] * self.mirrored + [f"turned by {90 * self.quarters} degrees"] * bool(
            self.quarters
        )
        return " and ".join(parts) or "as stored"

    def size(self, stored_wh: tuple[int, int]) -> tuple[int, int]:
        """Returns width and height after turning."""
        return (stored_wh[1], stored_wh[0]) if self.quarters % 2 else stored_wh

    def apply(self, image: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Turns a picture [height, width, ...].

        Copies: into `out` or a fresh array; a picture that stays as it is is returned itself.
        """
        if self == UPRIGHT:
            return image
        if not self.mirrored:
            return cv2.rotate(image, _ROTATIONS[self.quarters], dst=out)
        if self.quarters in (0, 2):
            return cv2.flip(image, 0 if self.quarters else 1, dst=out)
        if self.quarters == 3:
            return cv2.transpose(image, dst=out)
        return cv2.rotate(cv2.transpose(image), cv2.ROTATE_180, dst=out)

    def matrix(self, stored_wh: tuple[int, int]) -> NDArray[np.float64]:
        """Returns the 3x3 from stored to turned pixel coordinates (corner of the first pixel at 0)."""
        width, height = stored_wh
        matrix = np.diag([-1.0 if self.mirrored else 1.0, 1.0, 1.0])
        matrix[0, 2] = width if self.mirrored else 0.0
        for _ in range(self.quarters):
            matrix = np.array([[0.0, -1.0, height], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]) @ matrix
            width, height = height, width
        return matrix


UPRIGHT = Turn()

_ROTATIONS = {1: cv2.ROTATE_90_CLOCKWISE, 2: cv2.ROTATE_180, 3: cv2.ROTATE_90_COUNTERCLOCKWISE}

_EXIF = {
    2: Turn(0, True),
    3: Turn(2),
    4: Turn(2, True),
    5: Turn(3, True),
    6: Turn(1),
    7: Turn(1, True),
    8: Turn(3),
}
"""Source: Exif 2.32, tag 274; TIFF 6.0 has the same."""


def turn_of_exif(value: int) -> Turn:
    """Returns what the tag's value asks for; values that the standard does not know ask for nothing."""
    return _EXIF.get(value, UPRIGHT)


@dataclass(frozen=True)
class Orientation:
    """How one camera's pictures are turned: None follows the tag of each picture."""

    given: Turn | None = None
    stated: bool = False

    def turn(self, tag: Turn) -> Turn:
        """Returns how a picture with this tag is turned."""
        return tag if self.given is None else self.given


AS_TAGGED = Orientation()


def orientation_of(uri: SourceUri, name: str = "orientation") -> Orientation:
    """Reads an option: `tag` (default), `stored`, or degrees clockwise from the stored picture.

    Raises:
        ConfigError: another word.
    """
    word = uri.options.get(name)
    if word is None:
        return AS_TAGGED
    if word not in _WORDS:
        raise ConfigError(
            f"{uri.text}: {name}: expected {' or '.join(_WORDS)}, found {word!r}{nearest(word, _WORDS)}"
        )
    if word == "tag":
        return Orientation(None, True)
    return Orientation(UPRIGHT if word == "stored" else Turn(int(word) // 90), True)


class TurnedPairs:
    """What turning means for the pairs of one source.

    Arguments:
        uri: with the options `orientation`, `thermal_orientation` and `registration_for`.
        content: the source's sidecar, which may state `registration_for`.
        rgb, thermal: what the two cameras' own addresses say, where they have some.

    Raises:
        ConfigError: an option is another word.
    """

    def __init__(
        self,
        uri: SourceUri,
        content: Mapping[str, Any] | None = None,
        *,
        rgb: Orientation | None = None,
        thermal: Orientation | None = None,
    ) -> None:
        self.rgb = rgb or orientation_of(uri)
        self.thermal = thermal or orientation_of(uri, "thermal_orientation")
        made_for = uri.choice("registration_for", ("turned", "stored")) or (content or {}).get(
            "registration_for"
        )
        if made_for not in (None, "turned", "stored"):
            raise ConfigError(f"{uri.text}: registration_for: expected turned or stored, found {made_for!r}")
        self._for_stored = made_for == "stored"
        self._alone = ""

    def finish(
        self, pair: FramePair, rgb: Turn, thermal: Turn, *, for_stored: bool | None = None
    ) -> FramePair:
        """Returns the pair with a note where only one frame was turned, and its registration turned along.

        Arguments:
            pair: as it was read.
            rgb, thermal: how its frames were turned.
            for_stored: whether its registration is of the stored pictures; as the options say by default.
        """
        if pair.rgb is None or pair.thermal is None or rgb == thermal == UPRIGHT:
            return pair
        registration = pair.registration
        if registration is not None and (self._for_stored if for_stored is None else for_stored):
            pair = replace(pair, registration=turned_registration(registration, rgb, thermal))
        if rgb != thermal and not (self.rgb.stated or self.thermal.stated):
            self._alone = alone_note(rgb, thermal)
            pair = replace(pair, notes=(*pair.notes, self._alone))
        return pair

    @property
    def conditions(self) -> list[str]:
        """What a record must say of it."""
        return [self._alone] if self._alone else []


def alone_note(rgb: Turn, thermal: Turn) -> str:
    """Names the condition that the two frames of a pair were turned differently by their own tags."""
    return (
        f"turned unlike: the colour frame is {rgb}, the thermal frame {thermal}, as their files say. "
        "Say which holds with orientation= and thermal_orientation= (tag, stored, 90, 180, 270)"
    )


def turned_registration(registration: Registration, rgb: Turn, thermal: Turn) -> Registration:
    """Returns a registration of the stored pictures as one of the turned ones."""
    to_rgb = rgb.matrix(registration.rgb_size_wh)
    to_thermal = thermal.matrix(registration.thermal_size_wh)
    matrix = to_rgb @ np.asarray(registration.homography, np.float64) @ np.linalg.inv(to_thermal)
    first, second, third = ((float(a), float(b), float(c)) for a, b, c in matrix)
    return replace(
        registration,
        homography=(first, second, third),
        rgb_size_wh=rgb.size(registration.rgb_size_wh),
        thermal_size_wh=thermal.size(registration.thermal_size_wh),
    )
