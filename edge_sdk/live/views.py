"""What the page is told of cameras and power, whoever measures them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CameraView", "PowerView"]

NO_SENSOR = "no power sensor"


@dataclass(frozen=True)
class CameraView:
    """One camera, as the page shows it. A source that knows more than the pipeline makes its own.

    Attributes:
        name: "RGB" or "Thermal".
        state: one word: "ok", "missing", "frozen", "stale", "saturated", ..., or "no frames".
        detail: a sentence for people, or "".
        fps: frames a second that came lately; None: not known.
        age_ms: since the last usable frame; None: there was none yet.
        ffc: state of the shutter calibration, in a word; "" where not known.
    """

    name: str
    state: str
    detail: str = ""
    fps: float | None = None
    age_ms: float | None = None
    ffc: str = ""

    @property
    def is_ok(self) -> bool:
        """Whether its frames are used."""
        return self.state == "ok"


@dataclass(frozen=True)
class PowerView:
    """Power and energy, as the page shows them; None is never shown as 0.

    Attributes:
        watts: of the rail that `rail` names, a moving average.
        mj_per_inference: energy of one pair, in millijoules.
        rail: the board's label.
        note: where the figures come from, or why there are none; "emulated" must stand here.
    """

    watts: float | None = None
    mj_per_inference: float | None = None
    rail: str = ""
    note: str = NO_SENSOR
