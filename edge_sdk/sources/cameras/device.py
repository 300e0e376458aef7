"""What a camera, or a file that stands for one, gives: pictures as they come, with their times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edge_sdk.frames import Calibration, FfcState, ThermalUnit
from edge_sdk.sources.orientation import UPRIGHT, Turn

__all__ = ["CAMERAS", "CameraDevice", "CameraFrame", "Grab", "Setting", "ThermalFacts"]

CAMERAS = ("rgb", "thermal")
"""The two cameras of a pair, by name."""


@dataclass(frozen=True)
class ThermalFacts:
    """What is known of one thermal picture beside its pixels; fields as in `ThermalFrame`."""

    unit: ThermalUnit = ThermalUnit.COUNTS
    calibration: Calibration = Calibration.NONE
    ffc: FfcState = FfcState.UNKNOWN
    sequence: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Grab:
    """One picture as a device gave it, not yet decoded.

    Attributes:
        image: the device's array: colour uint8 [height, width, 3] red first, or raw thermal memory.
        device_ns: capture time on the device's clock, or None.
        facts: of a thermal picture, where the device states them itself.
        turn: how the picture was turned already.
        still: whether it is a picture by itself, and no part of a stream.
    """

    image: NDArray[Any]
    device_ns: int | None = None
    facts: ThermalFacts | None = None
    turn: Turn = UPRIGHT
    still: bool = False


@dataclass(frozen=True, eq=False)
class CameraFrame:
    """One decoded picture with its times on the host's clock.

    Attributes:
        image: uint8 [height, width, 3] or uint16 [height, width].
        captured_ns: when it was taken, as far as is known; pairs are made by it.
        arrival_ns: when it reached the host.
        facts: of a thermal picture; of a colour picture only `sequence` and `notes` mean anything.
        turn: how it was turned.
        still: whether it is a picture by itself.
    """

    image: NDArray[np.uint8] | NDArray[np.uint16]
    captured_ns: int
    arrival_ns: int
    facts: ThermalFacts = ThermalFacts()
    turn: Turn = UPRIGHT
    still: bool = False


@dataclass(frozen=True)
class Setting:
    """A setting that was asked of a camera, and what the camera said when it was read back.

    Attributes:
        name: "width", "height", "fps", "fourcc", or a V4L2 control.
        asked, got: as text.
    """

    name: str
    asked: str
    got: str

    @property
    def kept(self) -> bool:
        """Whether the camera does what was asked; frame rates may differ by 1 %."""
        try:
            asked, got = float(self.asked), float(self.got)
        except ValueError:
            return self.asked.strip().lower() == self.got.strip().lower()
        return abs(asked - got) <= 0.01 * max(abs(asked), abs(got))

    @property
    def sentence(self) -> str:
        """Says what was asked and what came, for people."""
        return f"{self.name}: asked {self.asked}, the camera gives {self.got}"


class CameraDevice(Protocol):
    """An open camera or file. Closed by `close`, opened anew after a loss. Used by one thread at a time."""

    @property
    def clock(self) -> str:
        """What `Grab.device_ns` counts on.

        "host": the host's monotonic clock; "device": a clock of its own; "media": a file's own
        time, which is nobody's clock; "none": there is no time.
        """
        ...

    @property
    def size_wh(self) -> tuple[int, int] | None:
        """Width and height of the memory a picture comes in, where the device states it."""
        ...

    @property
    def settings(self) -> tuple[Setting, ...]:
        """What was asked of the camera and what it does."""
        ...

    def grab(self) -> Grab | None:
        """Waits for the next picture; None at the end of a file.

        Copies: into memory that is the caller's.

        Raises:
            FrameTimeoutError: none came in time; asking again may help.
            CameraError: the camera went away.
            FrameError: this picture is bad; the next may be good.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Returns what a record says of it. JSON types only; no password."""
        ...

    def close(self) -> None:
        """Gives the camera back. Closing twice is fine."""
        ...
