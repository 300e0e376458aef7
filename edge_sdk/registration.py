"""Where a thermal pixel falls in the RGB frame, and the one rule by which a pair gets its registration.

Every door calls `choose_registration`: a pair from a program, a folder, a file and a camera are laid on
each other alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import ConfigError, ShapeError
from edge_sdk.members import number, put, size_wh, text

__all__ = [
    "Chosen",
    "Given",
    "Registration",
    "RegistrationBy",
    "RegistrationWord",
    "choose_registration",
    "registration_word",
    "unregistered",
]

Size: TypeAlias = tuple[int, int]

_ASPECT_TOLERANCE = 0.03
"""Sides that differ by no more than this are one picture scaled; beyond it one of them was cropped."""

ASSUMED_EQUAL = "assumed: equal frame sizes"
ASSUMED_VIEW = "assumed: same view, only scaled, as asked"
ASSUMED_CENTRED = "assumed: thermal centred in RGB, as asked"
NO_RGB_YET = "assumed: no RGB frame was seen yet, boxes are in pixels of the thermal frame"
BUNDLE_ORIGIN = "bundle"
BUNDLE_ASKED = "the engine bundle's own camera rig"


class RegistrationBy(str, Enum):
    """Who says how the two frames of a pair lie on each other; the first that speaks is heard.

    PAIR: the pair brings it: a program made it so, or a viewer picked points.
    CALLER: whoever opened the source gave it (`registration=`).
    BUNDLE: whoever opened the source asked for that of the engine bundle; the pair holds None.
    SOURCE: the source states it: a sidecar, a label file, a recording, the camera's own figures.
    ASSUMED: nobody; frames of equal size are taken to share their pixels.
    """

    PAIR = "pair"
    CALLER = "caller"
    BUNDLE = "bundle"
    SOURCE = "source"
    ASSUMED = "assumed"


class RegistrationWord(str, Enum):
    """What may be asked for in place of a registration.

    SAME_VIEW: both cameras see the same view, one picture is only larger ("identity" means the same).
    CENTRED: the thermal view lies in the middle of the RGB one, as large as fits. Good enough to pick points.
    BUNDLE: the engine bundle's own camera rig.
    """

    SAME_VIEW = "same-view"
    CENTRED = "centred"
    BUNDLE = "bundle"


WORDS = "'same-view' (or 'identity'), 'centred', 'bundle'"


@dataclass(frozen=True)
class Registration:
    """Where a thermal pixel falls in the RGB frame. Exact for one depth only.

    Coordinates are those of boxes: the outer corner of the first pixel is (0, 0), its centre (0.5, 0.5).
    Arrays and lists are taken and kept as tuples.

    Attributes:
        homography: 3x3, maps thermal pixel coordinates to RGB pixel coordinates.
        rgb_size_wh, thermal_size_wh: the frame sizes in pixels it was made for.
        depth_m: the distance at which it holds, in metres, or None where unknown.
        origin: where it comes from, for the record ("bundle", "clip", "assumed: equal frame sizes", ...).

    Raises:
        ShapeError: no invertible 3x3, one whose horizon crosses the thermal frame, or sizes that are none.
        ConfigError: another member is of the wrong type.
    """

    homography: tuple[tuple[float, float, float], ...]
    rgb_size_wh: Size
    thermal_size_wh: Size
    depth_m: float | None = None
    origin: str = "given"

    def __post_init__(self) -> None:
        expected = "an invertible 3x3 matrix of finite numbers"
        try:
            if isinstance(self.homography, (str, bytes)):
                raise TypeError
            matrix = np.asarray(self.homography, dtype=np.float64)
        except (TypeError, ValueError):
            raise ShapeError("registration homography", expected, _short(self.homography)) from None
        if matrix.shape != (3, 3) or not np.isfinite(matrix).all() or abs(np.linalg.det(matrix)) < 1e-12:
            raise ShapeError(
                "registration homography", expected, f"shape {list(matrix.shape)}: {_short(matrix.tolist())}"
            )
        first, second, third = ((float(a), float(b), float(c)) for a, b, c in matrix)
        sizes: dict[str, Size] = {}
        for name in ("rgb_size_wh", "thermal_size_wh"):
            value = getattr(self, name)
            try:
                sizes[name] = size_wh(value, name)
            except ConfigError:
                raise ShapeError(
                    f"registration {name}", "width and height of 1 or more pixels", _short(value)
                ) from None
        depth_m = self.depth_m
        if depth_m is not None:
            depth_m = number(depth_m, "registration depth_m")
            if depth_m <= 0:
                raise ConfigError(f"registration depth_m: expected metres above 0, found {depth_m:g}")
        put(
            self,
            homography=(first, second, third),
            depth_m=depth_m,
            origin=text(self.origin, "registration origin"),
            **sizes,
        )
        self._refuse_horizon(matrix)

    @classmethod
    def identity(cls, size_wh: Size, origin: str) -> Registration:
        """Makes the registration of two frames that already share their pixels."""
        return cls(((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), size_wh, size_wh, None, origin)

    @classmethod
    def same_view(cls, rgb_size_wh: Size, thermal_size_wh: Size, origin: str) -> Registration:
        """Makes the registration of two frames of one view, of which one is only larger.

        Raises:
            ConfigError: their aspect ratios differ by more than 3 %: then one sees more than the other.
        """
        if _changed_aspect(rgb_size_wh, thermal_size_wh):
            raise ConfigError(
                f"registration same-view: RGB {_size(rgb_size_wh)} and thermal {_size(thermal_size_wh)} "
                "pixels have unlike aspect ratios, so they cannot see the same view. Give a registration "
                "file, or 'centred' to pick points on the live page"
            )
        across, down = (rgb / thermal for rgb, thermal in zip(rgb_size_wh, thermal_size_wh, strict=True))
        matrix = ((across, 0.0, 0.0), (0.0, down, 0.0), (0.0, 0.0, 1.0))
        return cls(matrix, rgb_size_wh, thermal_size_wh, None, origin)

    @classmethod
    def centred(cls, rgb_size_wh: Size, thermal_size_wh: Size, origin: str) -> Registration:
        """Makes the one that puts the thermal view in the middle of the RGB one, as large as fits."""
        scale = min(rgb / thermal for rgb, thermal in zip(rgb_size_wh, thermal_size_wh, strict=True))
        left, top = (
            (rgb - scale * thermal) / 2 for rgb, thermal in zip(rgb_size_wh, thermal_size_wh, strict=True)
        )
        matrix = ((scale, 0.0, left), (0.0, scale, top), (0.0, 0.0, 1.0))
        return cls(matrix, rgb_size_wh, thermal_size_wh, None, origin)

    @property
    def assumed(self) -> bool:
        """Whether nobody measured it."""
        return self.origin.startswith("assumed")

    def matrix_for(self, rgb_size_wh: Size, thermal_size_wh: Size) -> NDArray[np.float64]:
        """Returns the homography for frames of other sizes of the same cameras (pure scaling).

        Arguments are (width, height) in pixels. Coordinates as in `Registration`.

        Raises:
            ShapeError: a frame has another aspect ratio than the registration was made for: it was
                cropped, and nobody knows where.
        """
        matrix = np.array(self.homography, dtype=np.float64)
        if rgb_size_wh != self.rgb_size_wh:
            self._refuse_other_aspect("RGB", self.rgb_size_wh, rgb_size_wh)
            matrix = _resize_matrix(self.rgb_size_wh, rgb_size_wh) @ matrix
        if thermal_size_wh != self.thermal_size_wh:
            self._refuse_other_aspect("thermal", self.thermal_size_wh, thermal_size_wh)
            matrix = matrix @ _resize_matrix(thermal_size_wh, self.thermal_size_wh)
        return matrix

    def boxes_to_rgb(
        self, xyxy: NDArray[np.float32], rgb_size_wh: Size, thermal_size_wh: Size
    ) -> NDArray[np.float32]:
        """Maps boxes [n, 4] of thermal pixels to the boxes around them in RGB pixels, clipped to the frame.

        Copies: yes.

        Raises:
            ShapeError: see `matrix_for`.
        """
        matrix = self.matrix_for(rgb_size_wh, thermal_size_wh)
        corners = xyxy[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2).astype(np.float64)
        mapped = corners @ matrix[:2, :2].T + matrix[:2, 2]
        mapped /= (corners @ matrix[2, :2] + matrix[2, 2])[..., None]
        around = np.concatenate([mapped.min(axis=1), mapped.max(axis=1)], axis=1)
        clipped: NDArray[np.float32] = np.clip(around, 0, np.array(rgb_size_wh * 2)).astype(np.float32)
        return clipped

    def _refuse_horizon(self, matrix: NDArray[np.float64]) -> None:
        width, height = self.thermal_size_wh
        depths = np.array([[0, 0, 1], [width, 0, 1], [width, height, 1], [0, height, 1]]) @ matrix[2]
        if not ((depths > 0).all() or (depths < 0).all()):
            raise ShapeError(
                "registration homography",
                "one that maps the whole thermal frame",
                f"one whose horizon crosses it: last row {[round(float(v), 6) for v in matrix[2]]}",
                "Two picked points are probably swapped; pick them again.",
            )

    def _refuse_other_aspect(self, camera: str, made_for: Size, found: Size) -> None:
        if _changed_aspect(made_for, found):
            raise ShapeError(
                f"{camera} frame for the registration ({self.origin})",
                f"{_size(made_for)} pixels or that shape scaled",
                _size(found),
                "Another aspect ratio means a cropped picture: register the cameras at this size.",
            )


Given: TypeAlias = Registration | RegistrationWord
"""What a caller may give, once files are read."""


@dataclass(frozen=True)
class Chosen:
    """What the rule says of a pair.

    Attributes:
        registration: the registration, or None where nobody says and sizes differ, or where the engine
            bundle's was asked for and is not known here.
        by: whose word it is; None where nobody says.
        notes: what was assumed, for the record.
    """

    registration: Registration | None
    by: RegistrationBy | None
    notes: tuple[str, ...] = ()


def choose_registration(
    rgb_size_wh: Size | None,
    thermal_size_wh: Size | None,
    *,
    own: Registration | None = None,
    given: Given | None = None,
    stated: Registration | None = None,
    bundle: Registration | None = None,
) -> Chosen:
    """Chooses the registration of a pair: the one rule of every door.

    In this order: the pair's own, the caller's, what the source states, frames of equal size. Whatever is
    assumed is noted. The engine bundle's own is never taken without being asked for.

    Arguments:
        rgb_size_wh, thermal_size_wh: sizes in pixels, of this pair or of its cameras' last frames; None
            for a camera that gave no frame yet.
        own: the pair's own.
        given: what the caller gave: a registration, or a word.
        stated: what the source states.
        bundle: the engine bundle's, for whoever asks for it.

    Raises:
        ConfigError: "same-view" of unlike aspect ratios.
    """
    if own is not None:
        return _noted(own, RegistrationBy.PAIR)
    if isinstance(given, Registration):
        return _noted(given, RegistrationBy.CALLER)
    if given is RegistrationWord.BUNDLE:
        return _of_bundle(bundle)
    if given is not None and thermal_size_wh is not None:
        return _noted(_by_word(given, rgb_size_wh, thermal_size_wh), RegistrationBy.CALLER)
    if given is None and stated is not None:
        return _noted(stated, RegistrationBy.SOURCE)
    if thermal_size_wh is not None and rgb_size_wh is None and given is None:
        return _noted(Registration.identity(thermal_size_wh, NO_RGB_YET), RegistrationBy.ASSUMED)
    if given is None and rgb_size_wh is not None and rgb_size_wh == thermal_size_wh:
        return _noted(Registration.identity(rgb_size_wh, ASSUMED_EQUAL), RegistrationBy.ASSUMED)
    return Chosen(None, None)


def registration_word(value: str) -> RegistrationWord | None:
    """Returns the word that a text is, in any of its spellings, or None: then it names a file."""
    if value == "identity":
        return RegistrationWord.SAME_VIEW
    return next((word for word in RegistrationWord if word.value == value), None)


def unregistered(
    key: str,
    rgb_size_wh: Size,
    thermal_size_wh: Size,
    bundle: Registration | None,
    notes: tuple[str, ...] = (),
) -> ConfigError:
    """Makes the error of a pair whose frames differ in size and of which nobody says how they lie.

    `notes` are the pair's: one may name the true cause, such as a picture that was turned alone.
    """
    alike = not _changed_aspect(rgb_size_wh, thermal_size_wh)
    ways = ["a registration file (the live page saves one: run --serve --registration "]
    ways[0] += f"{'same-view' if alike else 'centred'}, then Pick points)"
    if alike:
        ways.append("'same-view' where both cameras see the same view")
    fits = bundle is not None and not (
        _changed_aspect(bundle.rgb_size_wh, rgb_size_wh)
        or _changed_aspect(bundle.thermal_size_wh, thermal_size_wh)
    )
    if fits:
        ways.append("'bundle' where your cameras are mounted as those that the engine was made with")
    return ConfigError(
        f"pair {key!r}: no registration of thermal {_size(thermal_size_wh)} to RGB {_size(rgb_size_wh)} "
        "pixels: frames of unlike size say nothing of how they lie on each other. Give registration= (or "
        f"--registration, or ?registration= of the source): {'; '.join(ways)}"
        + (f". Of this pair is known: {'; '.join(notes)}" if notes else "")
    )


def _by_word(word: RegistrationWord, rgb_wh: Size | None, thermal_wh: Size) -> Registration:
    rgb_wh = rgb_wh or thermal_wh
    if word is RegistrationWord.CENTRED:
        return Registration.centred(rgb_wh, thermal_wh, ASSUMED_CENTRED)
    return Registration.same_view(rgb_wh, thermal_wh, ASSUMED_VIEW)


def _of_bundle(bundle: Registration | None) -> Chosen:
    if bundle is None:
        return Chosen(None, RegistrationBy.BUNDLE)
    depth = f", exact at {bundle.depth_m:g} m" if bundle.depth_m else ""
    note = f"registration of {BUNDLE_ASKED}, as asked{depth}"
    return Chosen(replace(bundle, origin=BUNDLE_ORIGIN), RegistrationBy.BUNDLE, (note,))


def _noted(registration: Registration, by: RegistrationBy) -> Chosen:
    notes = (f"registration {registration.origin}",) if registration.assumed else ()
    return Chosen(registration, by, notes)


def _changed_aspect(first_wh: Size, second_wh: Size) -> bool:
    ratio = (first_wh[0] * second_wh[1]) / (first_wh[1] * second_wh[0])
    return not 1 / (1 + _ASPECT_TOLERANCE) <= ratio <= 1 + _ASPECT_TOLERANCE


def _resize_matrix(from_wh: Size, to_wh: Size) -> NDArray[np.float64]:
    return np.diag([to_wh[0] / from_wh[0], to_wh[1] / from_wh[1], 1.0])


def _size(size: Size) -> str:
    return f"{size[0]}x{size[1]}"


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 160 else f"{shown[:150]}..."
