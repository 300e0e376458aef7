"""What is known of one processed frame: its route, its result and its times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from edge_sdk.detections import Detections
from edge_sdk.errors import ConfigError
from edge_sdk.members import number, one_of, put, text, texts
from edge_sdk.registration import Registration

__all__ = ["STAGES", "FrameResult", "Reason", "Route", "Signals"]

STAGES = (
    "source",
    "pairing",
    "preprocess",
    "buffers",
    "routing",
    "engine",
    "postprocess",
)
"""The stages of one frame, in the order in which it passes them."""


class Route(str, Enum):
    """Which graphs a frame's answer comes from."""

    RGB = "rgb"
    FUSE = "fuse"
    THERMAL = "thermal"

    def __str__(self) -> str:
        return self.value


class Reason(str, Enum):
    """Why a frame took its route."""

    CONFIDENT = "confident"
    """RGB: the RGB detector is sure, the light is good and nothing in the thermal frame is hot."""
    LOW_CONFIDENCE = "low-confidence"
    """Fuse: the RGB detector's confidence is under its threshold."""
    HOT_REGION = "hot-region"
    """Fuse: the thermal frame has a region hotter than its surroundings, whatever RGB says."""
    HOT_HOLD = "hot-hold"
    """Fuse: a hot region was seen a few frames ago."""
    DIM = "dim"
    """Fuse: the picture is too dim or too flat for RGB alone, and not dark enough to do without it."""
    UNCALIBRATED = "uncalibrated"
    """Fuse: the thermal frame is in counts, and the engine's screen is proven in kelvin only."""
    AUDIT = "audit"
    """Fuse: the periodic check that RGB alone would have been right."""
    DARK = "dark"
    """Thermal: the RGB frame is dark; its graph is not run."""
    FORCED = "forced"
    """Any route: the caller asked for it."""
    RGB_LOST = "rgb-lost"
    """Thermal: the RGB frame is missing, frozen, stale or saturated."""
    THERMAL_LOST = "thermal-lost"
    """RGB: the thermal frame is missing, frozen, stale or saturated. Heat cannot be seen."""
    ONLY_GRAPH = "only-graph"
    """The engine has one graph."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Signals:
    """The cheap measurements a route is chosen from. None: not measured for this frame.

    Attributes:
        rgb_health, thermal_health: "ok", "missing" or "missing (FAULT)", "frozen", "stale" or "saturated".
        luminance: mean of the RGB frame, 0 - 255.
        contrast: standard deviation of the RGB frame's luminance, 0 - 255.
        hot_delta_k: largest rise of a region over its neighbourhood, in kelvin, or in
            noise-equivalent kelvin where the frame's unit is counts.
        screen_score: output of the bundle's thermal screening graph, 0 - 1.
        rgb_confidence: the RGB detector's confidence, 0 - 1.
        heat_unit: what heat was measured in: "kelvin", or "noise" for frames in counts.
    """

    rgb_health: str = "missing"
    thermal_health: str = "missing"
    luminance: float | None = None
    contrast: float | None = None
    hot_delta_k: float | None = None
    screen_score: float | None = None
    rgb_confidence: float | None = None
    heat_unit: str | None = None

    def __post_init__(self) -> None:
        for name in ("rgb_health", "thermal_health"):
            put(self, **{name: text(getattr(self, name), f"Signals {name}")})
        for name in _MEASURED:
            value = getattr(self, name)
            if value is not None and type(value) is not float:
                put(self, **{name: number(value, f"Signals {name}", finite=False)})
        if self.heat_unit not in (None, "kelvin", "noise"):
            raise ConfigError(f"Signals heat_unit: expected 'kelvin' or 'noise', found {self.heat_unit!r}")

    def as_json(self) -> dict[str, Any]:
        """Lays them out for programs: `hot_delta_k` is there only where it is in kelvin.

        Of frames in counts it is `hot_delta_noise`, in multiples of what noise is worth nominally.
        """
        laid_out = dict(vars(self))
        if self.heat_unit == "noise":
            laid_out["hot_delta_noise"], laid_out["hot_delta_k"] = self.hot_delta_k, None
        return laid_out


_MEASURED = ("luminance", "contrast", "hot_delta_k", "screen_score", "rgb_confidence")


@dataclass(frozen=True, eq=False)
class FrameResult:
    """The answer for one pair.

    Attributes:
        key: the pair's key in its source.
        route, reason: which graphs answered, and why.
        signals: what the router saw.
        detections: boxes in pixels of the RGB frame (of the thermal frame for a bundle
            that knows no RGB frame).
        thermal_consulted: whether a detection graph read the thermal frame of this pair.
        stage_ns: time of each stage in nanoseconds (keys of `STAGES`); a stage that did not run is absent.
        engine_ns: time of each graph that ran, in nanoseconds.
        notes: what was assumed or mended on the way.
        gpu_ms: what each graph took on the GPU by the GPU's own events, in milliseconds: graph -> "upload",
            "engine" and "download". Empty where no such events are, and on an emulated driver.
        registration: the one in force, thermal to RGB pixels; None where none is known, or no frame needs it.
    """

    key: str
    route: Route
    reason: Reason
    signals: Signals
    detections: Detections
    thermal_consulted: bool
    stage_ns: Mapping[str, int]
    engine_ns: Mapping[str, int]
    notes: tuple[str, ...] = field(default=())
    gpu_ms: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    registration: Registration | None = None

    def __post_init__(self) -> None:
        for name, kind in (("signals", Signals), ("detections", Detections)):
            found = getattr(self, name)
            if not isinstance(found, kind):
                raise ConfigError(
                    f"FrameResult {name}: expected {kind.__name__}, found {type(found).__name__}"
                )
        unknown = sorted(set(self.stage_ns) - set(STAGES))
        if unknown:
            raise ConfigError(f"FrameResult stage_ns: expected keys of {STAGES}, found {unknown}")
        put(
            self,
            key=text(self.key, "FrameResult key"),
            route=one_of(Route, self.route, "FrameResult route"),
            reason=one_of(Reason, self.reason, "FrameResult reason"),
            notes=texts(self.notes, "FrameResult notes"),
        )

    @property
    def latency_ns(self) -> int:
        """Time from the pair in memory to the result, in nanoseconds; reading it is not in it."""
        return sum(elapsed for stage, elapsed in self.stage_ns.items() if stage not in ("source", "pairing"))

    @property
    def latency_ms(self) -> float:
        """`latency_ns` in milliseconds."""
        return self.latency_ns / 1e6

    @property
    def engine_ms(self) -> float:
        """Time inside the graphs, in milliseconds."""
        return sum(self.engine_ns.values()) / 1e6

    @property
    def stage_ms(self) -> dict[str, float]:
        """Time of each stage, in milliseconds."""
        return {stage: elapsed / 1e6 for stage, elapsed in self.stage_ns.items()}
