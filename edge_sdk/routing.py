"""Which graphs a frame needs: RGB alone, RGB fused with thermal, or thermal alone.

The rule that comes before every saving: a confident RGB picture cannot hide heat. RGB alone
answers only when the thermal frame of the same moment was looked at and showed nothing hot.

Everything here is a pure function. `decide` is asked with the signals known so far; it answers
with a `Decision`, or with the `Need` for one more signal, dearest last. `advance` makes the next
frame's state. The same sequence of signals gives the same sequence of routes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from enum import Enum
from math import isfinite
from numbers import Integral, Real
from typing import Any
from zlib import crc32

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import ConfigError, SensorsUnusableError
from edge_sdk.frames import middle_value, thinned
from edge_sdk.measurements import Reason, Route, Signals

__all__ = [
    "Decision",
    "GateConfig",
    "Need",
    "RgbLook",
    "RouterMemory",
    "RouterState",
    "ThermalLook",
    "advance",
    "decide",
    "frame_confidence",
    "hot_delta_counts",
    "look_at_rgb",
    "look_at_thermal",
    "measure_health",
]

CONFIDENCE_RULES = ("max", "mean", "min")
HEAT_UNITS = ("any", "kelvin")

_RGB_FULL_SCALE = 250

_GLANCE_WH = (40, 32)
"""Evenly spaced pixels that a glance takes. Each costs a fetch from main memory."""

_SCREEN_WH = (80, 64)
"""Size at which the radiometric pre-screen looks for hot regions."""
_NEIGHBOURHOOD_PX = 15
"""Side of the neighbourhood a region is compared with, in pixels of the screened picture."""


@dataclass(frozen=True)
class GateConfig:
    """Thresholds of the router. A bundle's manifest sets them; a caller may override each.

    Attributes:
        rgb_confidence_min: RGB confidence below which a frame is fused, 0 - 1.
        confidence_rule: how a frame's confidence follows from its detections: "max", "mean" or "min".
        confidence_hysteresis: added to `rgb_confidence_min` after a frame of low confidence.
        dark_below, dark_above: mean luminance (0 - 255) at which a frame becomes dark, and at
            which it stops being dark.
        dim_below: mean luminance below which RGB alone is not trusted.
        contrast_min: standard deviation of luminance below which RGB alone is not trusted.
        dim_hysteresis: share by which both must exceed `dim_below` and `contrast_min` before RGB
            alone is trusted again after a dim frame.
        hot_delta_k: rise of a region over its neighbourhood, in kelvin (noise-equivalent kelvin
            for frames in counts), from which the frame is fused.
        screen_score_min: output of the screening graph from which the frame is fused, 0 - 1.
        hot_hold_frames: frames that stay fused after the last hot one.
        audit_every: every so many frames one that RGB alone would have answered is fused as a
            check; 0 for never.
        frozen_after: identical frames in a row from which a camera counts as frozen.
        stale_after_ms: age of one frame against its partner from which it counts as stale.
        saturated_share: share of pixels at full scale, or all alike, from which a frame is useless.
        heat_unit: "kelvin" where only a radiometric thermal frame may clear a frame for RGB alone,
            since the screen was proven on such frames alone; "any" otherwise.
        calibrated_how: how the thresholds were found, for people.
    """

    rgb_confidence_min: float = 0.65
    confidence_rule: str = "max"
    confidence_hysteresis: float = 0.05
    dark_below: float = 12.0
    dark_above: float = 18.0
    dim_below: float = 35.0
    contrast_min: float = 8.0
    dim_hysteresis: float = 0.15
    hot_delta_k: float = 8.0
    screen_score_min: float = 0.5
    hot_hold_frames: int = 3
    audit_every: int = 50
    frozen_after: int = 5
    stale_after_ms: float = 250.0
    saturated_share: float = 0.6
    heat_unit: str = "any"
    calibrated_how: str = "defaults, not calibrated"

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            value = getattr(self, name)
            sound = isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)
            self._require(name, sound, "a finite number")
        for name in _WHOLE_NUMBERS:
            value = getattr(self, name)
            sound = isinstance(value, Integral) and not isinstance(value, bool)
            self._require(name, sound, "a whole number")
        for name in _TEXTS:
            self._require(name, isinstance(getattr(self, name), str), "text")
        for name in ("rgb_confidence_min", "screen_score_min"):
            self._require(name, 0.0 <= getattr(self, name) <= 1.0, "0 - 1")
        for name in ("dark_below", "dark_above", "dim_below", "contrast_min"):
            self._require(name, 0.0 <= getattr(self, name) <= 255.0, "0 - 255")
        self._require("saturated_share", 0.0 < self.saturated_share <= 1.0, "above 0, at most 1")
        for name in ("confidence_hysteresis", "dim_hysteresis", "hot_delta_k", "stale_after_ms"):
            self._require(name, getattr(self, name) >= 0.0, "0 or more")
        for name in ("hot_hold_frames", "audit_every"):
            self._require(name, getattr(self, name) >= 0, "a whole number, 0 or more")
        self._require("frozen_after", self.frozen_after >= 2, "a whole number, 2 or more")
        self._require("dark_above", self.dark_above >= self.dark_below, f"at least {self.dark_below}")
        self._require(
            "confidence_rule",
            self.confidence_rule in CONFIDENCE_RULES,
            f"one of {', '.join(CONFIDENCE_RULES)}",
        )
        self._require("heat_unit", self.heat_unit in HEAT_UNITS, f"one of {', '.join(HEAT_UNITS)}")

    def override(self, **thresholds: float | int | str) -> GateConfig:
        """Returns a copy with some thresholds replaced.

        Raises:
            ConfigError: an unknown threshold, or a value out of range.
        """
        known = {field.name for field in fields(self)}
        for name in thresholds:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                raise ConfigError(f"gate: no threshold {name!r}; known are {', '.join(sorted(known))}.{hint}")
        return replace(self, **thresholds)  # type: ignore[arg-type]

    def _require(self, name: str, sound: bool, expected: str) -> None:
        if not sound:
            raise ConfigError(f"gate.{name}: expected {expected}, found {getattr(self, name)!r}")


_TEXTS = ("confidence_rule", "heat_unit", "calibrated_how")
_WHOLE_NUMBERS = ("hot_hold_frames", "audit_every", "frozen_after")
_NUMBERS = tuple(item.name for item in fields(GateConfig) if item.name not in (*_WHOLE_NUMBERS, *_TEXTS))


@dataclass(frozen=True)
class RgbLook:
    """A glance at an RGB frame: mean and spread of luminance, share at full scale, fingerprint."""

    luminance: float
    contrast: float
    saturated_share: float
    fingerprint: int


@dataclass(frozen=True)
class ThermalLook:
    """A glance at a thermal frame: share of pixels that are all alike, fingerprint."""

    uniform_share: float
    fingerprint: int


@dataclass(frozen=True)
class RouterState:
    """What the router remembers from one frame to the next.

    Attributes:
        frames: frames routed so far.
        dark: the last RGB frame was dark.
        dim: the last RGB frame was too dim or too flat for RGB alone.
        low_confidence: the last RGB confidence was too low.
        hot_frames_left: frames that stay fused because something hot was seen.
        rgb_fingerprint, thermal_fingerprint: of the last frame of each camera.
        rgb_repeats, thermal_repeats: how often in a row that very frame has come.
    """

    frames: int = 0
    dark: bool = False
    dim: bool = False
    low_confidence: bool = False
    hot_frames_left: int = 0
    rgb_fingerprint: int | None = None
    thermal_fingerprint: int | None = None
    rgb_repeats: int = 1
    thermal_repeats: int = 1

    def for_still(self) -> RouterState:
        """Returns what matters for a picture by itself: its number, by which frames are audited."""
        return RouterState(frames=self.frames)

    def after_still(self) -> RouterState:
        """Returns the state behind a picture by itself: one more was routed, and nothing else is known."""
        return replace(self, frames=self.frames + 1)


@dataclass(frozen=True)
class RouterMemory:
    """Everything that one answer hands on to the next.

    Attributes:
        state: the router's.
        rgb_size_wh: size of the last RGB frame in pixels, in which boxes stay while that camera is lost.
    """

    state: RouterState = RouterState()
    rgb_size_wh: tuple[int, int] | None = None


@dataclass(frozen=True)
class Decision:
    """A route and why it was taken."""

    route: Route
    reason: Reason


class Need(Enum):
    """A signal that must be measured before a route can be chosen."""

    HEAT = "heat"
    """`hot_delta_k`, and `screen_score` where the bundle has a screening graph."""
    CONFIDENCE = "confidence"
    """`rgb_confidence`: run the RGB graph."""


def look_at_rgb(image: NDArray[np.uint8]) -> RgbLook:
    """Glances at an RGB frame (uint8 [height, width, 3]): 40x32 evenly spaced pixels of it."""
    few = cv2.resize(image, _GLANCE_WH, interpolation=cv2.INTER_NEAREST)
    luma = cv2.cvtColor(few, cv2.COLOR_RGB2GRAY)
    mean, sigma = cv2.meanStdDev(luma)
    saturated = np.count_nonzero(luma >= _RGB_FULL_SCALE) / luma.size
    return RgbLook(mean.item(), sigma.item(), saturated, crc32(few.data))


def look_at_thermal(image: NDArray[np.uint16]) -> ThermalLook:
    """Glances at a thermal frame (uint16 [height, width]): about 40x32 of its pixels."""
    few = np.ascontiguousarray(thinned(image, _GLANCE_WH))
    alike = few == np.uint16(middle_value(few))
    return ThermalLook(float(np.count_nonzero(alike)) / few.size, crc32(few.data))


def hot_delta_counts(image: NDArray[np.uint16]) -> float:
    """Measures how far the hottest region of a raw thermal frame stands over its neighbourhood.

    Regions are averages over about 4x4 pixels of a 320x256 camera, so one noisy pixel is no region.

    Arguments:
        image: uint16 [height, width], raw counts, not resampled.

    Returns: the largest rise in counts.
    """
    small = _shrunk(image)
    around = cv2.blur(small, (_NEIGHBOURHOOD_PX, _NEIGHBOURHOOD_PX), borderType=cv2.BORDER_REFLECT)
    return cv2.minMaxLoc(cv2.subtract(small, around, dst=around))[1]


def _shrunk(image: NDArray[np.uint16]) -> NDArray[Any]:
    """Averages regions down to the screened size.

    Two exact halvings take a third of the time of area sampling; larger frames would need a large copy.
    """
    width, height = _SCREEN_WH
    if image.shape == (4 * height, 4 * width):
        half = cv2.resize(image, (2 * width, 2 * height), interpolation=cv2.INTER_LINEAR)
        return cv2.resize(half, _SCREEN_WH, interpolation=cv2.INTER_LINEAR)
    return cv2.resize(image, _SCREEN_WH, interpolation=cv2.INTER_AREA)


def frame_confidence(scores: NDArray[np.float32], rule: str) -> float:
    """Condenses the scores [n] of the reported RGB detections to one confidence, 0 when there are none."""
    if len(scores) == 0:
        return 0.0
    if rule == "max":
        return float(scores.max())
    return float(scores.sum() / len(scores) if rule == "mean" else scores.min())


def measure_health(
    gate: GateConfig,
    state: RouterState,
    rgb: RgbLook | None,
    thermal: ThermalLook | None,
    skew_ms: float | None,
    rgb_fault: str | None = None,
    thermal_fault: str | None = None,
) -> tuple[str, str]:
    """Judges both cameras from one glance each, and from what their source knows of them.

    Arguments:
        rgb, thermal: the glances, or None where the frame is missing.
        skew_ms: thermal minus RGB capture time, or None where unknown.
        rgb_fault, thermal_fault: why the source gives no frame of that camera, or None where unknown.

    Returns: health of RGB and of thermal: "ok", "missing" (or "missing (lost)", with the fault in
        brackets), "frozen", "stale" or "saturated".
    """
    rgb_health = thermal_health = "ok"
    if rgb is None:
        rgb_health = _missing(rgb_fault)
    elif _repeats(rgb.fingerprint, state.rgb_fingerprint, state.rgb_repeats) >= gate.frozen_after:
        rgb_health = "frozen"
    elif rgb.saturated_share >= gate.saturated_share:
        rgb_health = "saturated"
    if thermal is None:
        thermal_health = _missing(thermal_fault)
    elif _repeats(thermal.fingerprint, state.thermal_fingerprint, state.thermal_repeats) >= gate.frozen_after:
        thermal_health = "frozen"
    elif thermal.uniform_share >= gate.saturated_share:
        thermal_health = "saturated"
    if skew_ms is not None and rgb_health == thermal_health == "ok":
        if skew_ms > gate.stale_after_ms:
            rgb_health = "stale"
        elif skew_ms < -gate.stale_after_ms:
            thermal_health = "stale"
    return rgb_health, thermal_health


def decide(
    gate: GateConfig,
    state: RouterState,
    signals: Signals,
    *,
    key: str = "",
    force: Route | None = None,
) -> Decision | Need:
    """Chooses the route of one frame from the signals known so far.

    Arguments:
        gate: thresholds.
        state: what the last frames left behind.
        signals: health, luminance and contrast are measured; the others may still be None. A
            signal that is no number (NaN) never speaks for RGB alone.
        key: the pair's key, for errors.
        force: the caller's own choice.

    Returns: the decision, or the signal that is needed first.

    Raises:
        SensorsUnusableError: neither camera is healthy.
        ConfigError: `force` asks for a frame that is missing. (A frozen, stale or saturated frame
            is the caller's own choice.)
    """
    rgb_ok, thermal_ok = signals.rgb_health == "ok", signals.thermal_health == "ok"
    if force is not None:
        _check_force(force, signals, key)
        return Decision(force, Reason.FORCED)
    if not rgb_ok and not thermal_ok:
        raise SensorsUnusableError(key, signals.rgb_health, signals.thermal_health)
    if not rgb_ok:
        return Decision(Route.THERMAL, Reason.RGB_LOST)
    if not thermal_ok:
        return Decision(Route.RGB, Reason.THERMAL_LOST)
    if _is_dark(gate, state, signals):
        return Decision(Route.THERMAL, Reason.DARK)
    if signals.hot_delta_k is None:
        return Need.HEAT
    if _is_hot(gate, signals):
        return Decision(Route.FUSE, Reason.HOT_REGION)
    if state.hot_frames_left > 0:
        return Decision(Route.FUSE, Reason.HOT_HOLD)
    if _is_dim(gate, state, signals):
        return Decision(Route.FUSE, Reason.DIM)
    if gate.heat_unit == "kelvin" and signals.heat_unit != "kelvin":
        return Decision(Route.FUSE, Reason.UNCALIBRATED)
    if signals.rgb_confidence is None:
        return Need.CONFIDENCE
    if _is_unsure(gate, state, signals.rgb_confidence):
        return Decision(Route.FUSE, Reason.LOW_CONFIDENCE)
    if gate.audit_every and (state.frames + 1) % gate.audit_every == 0:
        return Decision(Route.FUSE, Reason.AUDIT)
    return Decision(Route.RGB, Reason.CONFIDENT)


def advance(
    gate: GateConfig,
    state: RouterState,
    signals: Signals,
    rgb: RgbLook | None,
    thermal: ThermalLook | None,
) -> RouterState:
    """Returns the state for the next frame, from what was measured of this one."""
    low_confidence = state.low_confidence
    if signals.rgb_confidence is not None:
        low_confidence = _is_unsure(gate, state, signals.rgb_confidence)
    hot_frames_left = max(0, state.hot_frames_left - 1)
    if _is_hot(gate, signals):
        hot_frames_left = gate.hot_hold_frames
    # Written out: `replace` costs more than all the rest.
    return RouterState(
        frames=state.frames + 1,
        dark=state.dark if rgb is None else _is_dark(gate, state, signals),
        dim=state.dim if rgb is None else _is_dim(gate, state, signals),
        low_confidence=low_confidence,
        hot_frames_left=hot_frames_left,
        rgb_fingerprint=state.rgb_fingerprint if rgb is None else rgb.fingerprint,
        thermal_fingerprint=state.thermal_fingerprint if thermal is None else thermal.fingerprint,
        rgb_repeats=state.rgb_repeats
        if rgb is None
        else _repeats(rgb.fingerprint, state.rgb_fingerprint, state.rgb_repeats),
        thermal_repeats=state.thermal_repeats
        if thermal is None
        else _repeats(thermal.fingerprint, state.thermal_fingerprint, state.thermal_repeats),
    )


def _missing(fault: str | None) -> str:
    return "missing" if fault is None else f"missing ({fault})"


def _repeats(fingerprint: int, last: int | None, repeats: int) -> int:
    return repeats + 1 if fingerprint == last else 1


def _is_dark(gate: GateConfig, state: RouterState, signals: Signals) -> bool:
    if signals.luminance is None:
        return False
    return signals.luminance < (gate.dark_above if state.dark else gate.dark_below)


def _is_dim(gate: GateConfig, state: RouterState, signals: Signals) -> bool:
    factor = 1.0 + gate.dim_hysteresis if state.dim else 1.0
    if signals.luminance is None or signals.contrast is None:
        return True
    bright = signals.luminance >= min(gate.dim_below * factor, 255.0)
    contrasty = signals.contrast >= min(gate.contrast_min * factor, 255.0)
    return not (bright and contrasty)  # NaN counts as dim.


def _is_hot(gate: GateConfig, signals: Signals) -> bool:
    # Written so that NaN counts as hot.
    by_kelvin = signals.hot_delta_k is not None and not signals.hot_delta_k < gate.hot_delta_k
    by_screen = signals.screen_score is not None and not signals.screen_score < gate.screen_score_min
    return by_kelvin or by_screen


def _is_unsure(gate: GateConfig, state: RouterState, confidence: float) -> bool:
    extra = gate.confidence_hysteresis if state.low_confidence else 0.0
    return not (isfinite(confidence) and confidence >= min(gate.rgb_confidence_min + extra, 1.0))


def _check_force(force: Route, signals: Signals, key: str) -> None:
    needs_rgb = force in (Route.RGB, Route.FUSE)
    needs_thermal = force in (Route.THERMAL, Route.FUSE)
    for needed, camera, health in (
        (needs_rgb, "RGB", signals.rgb_health),
        (needs_thermal, "thermal", signals.thermal_health),
    ):
        if needed and health.startswith("missing"):
            raise ConfigError(
                f"pair {key!r}: route {force.value!r} was forced, but the {camera} frame is missing. "
                "Drop force=, or give both frames."
            )
