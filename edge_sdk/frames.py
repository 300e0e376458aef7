"""Frames as a camera or a file gives them, and pairs of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import ConfigError, ShapeError
from edge_sdk.heat_units import HeatUnit, enter, heat_unit, without_dead
from edge_sdk.members import flag, number, one_of, put, text, texts, whole
from edge_sdk.registration import Registration, RegistrationBy

_Pixel = TypeVar("_Pixel", bound=np.generic)

__all__ = [
    "KELVIN_PER_CENTIKELVIN",
    "Calibration",
    "FfcState",
    "FramePair",
    "HeatUnit",
    "Registration",
    "RegistrationBy",
    "RgbFrame",
    "ThermalFrame",
    "ThermalPlane",
    "ThermalUnit",
    "middle_value",
    "thinned",
]

KELVIN_PER_CENTIKELVIN = 0.01


class ThermalUnit(str, Enum):
    """What one count of a thermal frame means inside the SDK; other units are converted where a frame enters.

    CENTIKELVIN: 0.01 K, absolute.
    COUNTS: relative heat only; no degree may be claimed from it.
    """

    CENTIKELVIN = "centikelvin"
    COUNTS = "counts"


class Calibration(str, Enum):
    """Whether degrees may be read from a thermal frame.

    UNSTATED: a file or array whose unit is the caller's word.
    RADIOMETRIC: the camera says so, and the frame lies in its range.
    OUT_OF_RANGE: a radiometric camera, but this frame is beyond what it measures; its unit is counts.
    NONE: the camera gives no absolute temperature.
    """

    UNSTATED = "unstated"
    RADIOMETRIC = "radiometric"
    OUT_OF_RANGE = "out-of-range"
    NONE = "none"


class FfcState(str, Enum):
    """Where a thermal camera stands with its flat-field correction (the shutter that closes now and then)."""

    UNKNOWN = "unknown"
    NEVER = "never"
    IMMINENT = "imminent"
    IN_PROGRESS = "in-progress"
    COMPLETE = "complete"


@dataclass(frozen=True, eq=False)
class RgbFrame:
    """A colour picture.

    Attributes:
        image: uint8 [height, width, 3], red first. Shared, not copied: do not write to it.
        timestamp_ns: capture time on a monotonic clock, or None where the source has none.
        sequence: the camera's own number of the frame, or None where it gives none.

    Raises:
        ShapeError: another dtype or shape; the message says what it looks like and what to do.
        ConfigError: another member is of the wrong type.
    """

    image: NDArray[np.uint8]
    timestamp_ns: int | None = None
    sequence: int | None = None

    def __post_init__(self) -> None:
        _require_array("RGB frame", _RGB_EXPECTED, self.image)
        if self.image.dtype != np.uint8 or self.image.ndim != 3 or self.image.shape[2] != 3:
            raise ShapeError(
                "RGB frame",
                _RGB_EXPECTED,
                f"{self.image.dtype} {list(self.image.shape)}",
                _rgb_remedy(self.image),
            )
        _refuse_empty("RGB frame", self.image)
        put(
            self,
            timestamp_ns=_whole_or_none(self.timestamp_ns, "RGB frame: timestamp_ns"),
            sequence=_whole_or_none(self.sequence, "RGB frame: sequence"),
        )

    @property
    def size_wh(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.image.shape[1], self.image.shape[0]


@dataclass(frozen=True, eq=False)
class ThermalFrame:
    """A raw thermal picture.

    Give the camera's own numbers and say what they are. In a known unit (`HeatUnit`: "centikelvin",
    "decikelvin", "kelvin", "kelvin/64", "celsius", kelvin a count like 0.04, "linear:GAIN:OFFSET") they
    become centikelvin. A frame whose temperatures no scene has stays counts, and `notes` say why.

    Attributes:
        image: uint16 [height, width]: centikelvin, or raw counts.
        unit: what one count of `image` means.
        timestamp_ns: capture time on a monotonic clock, or None where the source has none.
        calibration: whether degrees may be read from it.
        ffc: state of the camera's flat-field correction when the frame was taken.
        sequence: the camera's own number of the frame, or None where it gives none.
        notes: what was found wrong with it: no degrees, dead pixels.
        dead: bool [height, width], True for pixels that give no value and are in no temperature; None
            where all do.

    Copies: where numbers are converted. uint16 centikelvin and counts are shared: do not write to them.

    Raises:
        ShapeError: another dtype or shape, or floating point without a unit.
        ConfigError: an unknown unit, or another member of the wrong type.
    """

    image: NDArray[np.uint16]
    unit: ThermalUnit = ThermalUnit.COUNTS
    timestamp_ns: int | None = None
    calibration: Calibration = Calibration.UNSTATED
    ffc: FfcState = FfcState.UNKNOWN
    sequence: int | None = None
    notes: tuple[str, ...] = ()
    dead: NDArray[np.bool_] | None = field(default=None, init=False, repr=False)

    if TYPE_CHECKING:

        def __init__(
            self,
            image: NDArray[Any],
            unit: ThermalUnit | HeatUnit | str | float = ThermalUnit.COUNTS,
            timestamp_ns: int | None = None,
            calibration: Calibration | str = Calibration.UNSTATED,
            ffc: FfcState | str = FfcState.UNKNOWN,
            sequence: int | None = None,
            notes: tuple[str, ...] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        _require_array("thermal frame", "uint16 [height, width] raw counts", self.image)
        _refuse_empty("thermal frame", self.image)
        entered = enter(self.image, heat_unit(self.unit))
        notes = texts(self.notes, "thermal frame: notes")
        calibration = one_of(Calibration, self.calibration, "thermal frame: calibration")
        if entered.problem:
            calibration = Calibration.OUT_OF_RANGE
            notes = _with(notes, f"no degrees: {entered.problem}")
        if entered.dead is not None:
            count = int(np.count_nonzero(entered.dead))
            notes = _with(notes, f"{count} thermal {'pixel gives' if count == 1 else 'pixels give'} no value")
        put(
            self,
            image=entered.image,
            unit=ThermalUnit.CENTIKELVIN if entered.absolute else ThermalUnit.COUNTS,
            timestamp_ns=_whole_or_none(self.timestamp_ns, "thermal frame: timestamp_ns"),
            calibration=calibration,
            ffc=one_of(FfcState, self.ffc, "thermal frame: ffc"),
            sequence=_whole_or_none(self.sequence, "thermal frame: sequence"),
            notes=notes,
            dead=entered.dead,
        )

    @cached_property
    def filled(self) -> NDArray[np.uint16]:
        """`image` with dead pixels filled from around them: for pictures and networks, not for temperatures.

        Copies: unless no pixel is dead.
        """
        return without_dead(self.image, self.dead)

    @property
    def size_wh(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.image.shape[1], self.image.shape[0]


@dataclass(frozen=True, eq=False)
class ThermalPlane:
    """What is known of a thermal frame after it was laid on the network's input.

    Attributes:
        median: the frame's median in counts.
        kelvin_per_count: what a count is worth (see `Radiometry.kelvin_per_count`).
        to_input: 3x3, thermal coordinates to input coordinates.
    """

    median: int
    kelvin_per_count: float
    to_input: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FramePair:
    """An RGB and a thermal frame of the same moment; either may be missing.

    Attributes:
        key: names the pair within its source.
        rgb, thermal: the frames, or None when that camera gave none.
        registration: how the two lie on each other, or None where the pair does not say.
        skew_ms: thermal minus RGB capture time in milliseconds, or None where unknown.
        read_ns: time spent reading and decoding the pair, in nanoseconds.
        notes: what the source assumed or mended, for the record; those of the thermal frame are added.
        rgb_fault, thermal_fault: why that camera's frame is missing ("lost", "ffc", "covered", ...), or
            None where it is there or nothing is known.
        still: True for a picture by itself (a file of a folder, an array), which says nothing of the next
            pair: the router then remembers nothing from one to the other. False for a part of a stream. None:
            see `is_still`.
        registration_by: who gave `registration`: the pair itself, unless a source says otherwise.

    Raises:
        ConfigError: an argument is of another type; the message names it, and what to write instead.
    """

    key: str
    rgb: RgbFrame | None = None
    thermal: ThermalFrame | None = None
    registration: Registration | None = None
    skew_ms: float | None = None
    read_ns: int = 0
    notes: tuple[str, ...] = field(default=())
    rgb_fault: str | None = None
    thermal_fault: str | None = None
    registration_by: RegistrationBy = RegistrationBy.PAIR
    still: bool | None = None

    def __post_init__(self) -> None:
        key = _key(self.key)
        _check_frames(self.rgb, self.thermal)
        registration = self.registration
        if registration is not None and not isinstance(registration, Registration):
            raise ConfigError(
                f"FramePair registration: expected a Registration, found {type(registration).__name__}. "
                "Words and files go to edge_sdk.load(..., registration=) or open_source(..., registration=)"
            )
        notes = texts(self.notes, "FramePair notes")
        for note in self.thermal.notes if self.thermal is not None else ():
            notes = _with(notes, note)
        put(
            self,
            key=key,
            skew_ms=None if self.skew_ms is None else number(self.skew_ms, "FramePair skew_ms"),
            read_ns=whole(self.read_ns, "FramePair read_ns", least=0),
            notes=notes,
            rgb_fault=None if self.rgb_fault is None else text(self.rgb_fault, "FramePair rgb_fault"),
            thermal_fault=(
                None if self.thermal_fault is None else text(self.thermal_fault, "FramePair thermal_fault")
            ),
            registration_by=one_of(RegistrationBy, self.registration_by, "FramePair registration_by"),
            still=None if self.still is None else flag(self.still, "FramePair still"),
        )

    @property
    def is_still(self) -> bool:
        """Whether the pair stands by itself: as `still` says, else if its frames have no time and number."""
        if self.still is not None:
            return self.still
        frames = [frame for frame in (self.rgb, self.thermal) if frame is not None]
        return all(frame.timestamp_ns is None and frame.sequence is None for frame in frames)

    def copied(self) -> FramePair:
        """Returns the pair with arrays of its own, which no source writes to again. Copies: yes."""
        return replace(
            self,
            rgb=self.rgb and replace(self.rgb, image=self.rgb.image.copy()),
            thermal=self.thermal and replace(self.thermal, image=self.thermal.image.copy()),
            read_ns=0,
        )


def thinned(image: NDArray[_Pixel], about_wh: tuple[int, int] = (80, 64)) -> NDArray[_Pixel]:
    """Returns evenly spaced pixels of a frame, for statistics of the whole.

    Arguments:
        image: [height, width, ...].
        about_wh: at least so many columns and rows, where the frame has them.

    Copies: no; a strided view of `image`.
    """
    step = max(1, min(image.shape[1] // about_wh[0], image.shape[0] // about_wh[1]))
    return image[::step, ::step]


def middle_value(values: NDArray[Any]) -> float:
    """Returns the median of a non-empty array; of an even number of values the upper of the two middle ones.

    Ten times as fast as `numpy.median` on a few thousand values. Copies: yes.
    """
    middle = values.size // 2
    return float(np.partition(values, middle, axis=None)[middle])


_RGB_EXPECTED = "uint8 [height, width, 3]"


def _require_array(name: str, expected: str, image: object) -> None:
    if not isinstance(image, np.ndarray):
        raise ShapeError(name, expected, type(image).__name__, "Give a NumPy array.")


def _rgb_remedy(image: NDArray[Any]) -> str:
    """Says what an array looks like that is no RGB picture, and the one line that makes one of it."""
    kind, shape = image.dtype.kind, image.shape
    if image.ndim == 2 and image.dtype == np.uint16:
        return "This looks like a raw thermal frame. Were RGB and thermal swapped? Give it to ThermalFrame."
    if image.ndim == 2 or (image.ndim == 3 and shape[2] == 1):
        return "This is a grey picture: numpy.dstack([grey] * 3) makes a colour one of 8 bits."
    if image.ndim == 4 and shape[0] >= 1:
        return "This is a batch: give one picture, like batch[0]."
    if image.ndim == 3 and shape[2] == 4:
        return "This has an alpha channel: drop it with image[:, :, :3].copy()."
    if image.ndim == 3 and shape[0] in (1, 3, 4) and shape[2] not in (3, 4):
        return "This has its channels first: image.transpose(1, 2, 0).copy() puts them last."
    if kind == "f":
        return "This is floating point: of 0 - 1, (image * 255).round().astype(numpy.uint8) makes 8 bits."
    if image.dtype == np.uint16:
        return "This has 16 bits a colour: (image >> 8).astype(numpy.uint8) makes 8."
    return "Convert to 8-bit RGB first (cv2.cvtColor(image, cv2.COLOR_BGR2RGB))."


def _check_frames(rgb: object, thermal: object) -> None:
    """Refuses what is no frame, and the two in the wrong places."""
    if isinstance(rgb, ThermalFrame) or isinstance(thermal, RgbFrame):
        raise ConfigError(
            "FramePair: RGB and thermal are swapped: write FramePair(key, rgb_frame, thermal_frame)"
        )
    for name, frame, kind in (("rgb", rgb, RgbFrame), ("thermal", thermal, ThermalFrame)):
        if frame is None or isinstance(frame, kind):
            continue
        found, fix = type(frame).__name__, f"Write {name}={kind.__name__}(array)."
        if isinstance(frame, np.ndarray):
            found = f"an array, {frame.dtype} {list(frame.shape)}"
            unit = ", unit" if kind is ThermalFrame else ""
            fix = f"Wrap it: {name}=edge_sdk.{kind.__name__}(array{unit})."
        raise ConfigError(f"FramePair {name}: expected {kind.__name__} or None, found {found}. {fix}")


def _key(key: object) -> str:
    if isinstance(key, (RgbFrame, ThermalFrame, np.ndarray)):
        raise ConfigError(
            "FramePair key: expected text that names the pair, found a frame: "
            "write FramePair('0001', rgb_frame, thermal_frame)"
        )
    if not isinstance(key, str):
        raise ConfigError(f"FramePair key: expected text, found {key!r}: write str({key!r})")
    return text(key, "FramePair key")


def _whole_or_none(value: object, name: str) -> int | None:
    return None if value is None else whole(value, name)


def _with(notes: tuple[str, ...], note: str) -> tuple[str, ...]:
    return notes if note in notes else (*notes, note)


def _refuse_empty(name: str, image: NDArray[np.generic]) -> None:
    if image.size == 0:
        raise ShapeError(name, "at least one pixel", f"{list(image.shape)}")
