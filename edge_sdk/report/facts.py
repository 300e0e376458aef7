"""What a run record says beside its frames: engine, provider, source, plan, cold start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edge_sdk.stats import USUAL_WARM_UP, WarmUpBudget

__all__ = [
    "ColdStart",
    "Dropped",
    "EndedEarly",
    "EngineFacts",
    "ProviderFacts",
    "RunFacts",
    "SlaFacts",
    "SourceFacts",
]


@dataclass(frozen=True)
class EngineFacts:
    """The bundle that ran.

    Attributes:
        asked: the name or path the caller gave.
        name, version, precision: from its manifest.
        bundle_sha256: over the whole bundle.
    """

    asked: str
    name: str
    version: str
    bundle_sha256: str
    precision: str


@dataclass(frozen=True)
class ProviderFacts:
    """What the graphs ran on.

    Attributes:
        asked: "auto", "cpu", "cuda", "tensorrt".
        loaded: what really ran.
        tried: pairs of (what was tried, why it did not serve).
        fallback: a slower provider ran than the one asked for.
        int8_sums: how INT8 products were added on the CPU: "exact", "exact by option" (the CPU's fast kernels
            saturate, and slower ones ran), "saturating", or "" where that is not known or nothing was INT8.
    """

    asked: str
    loaded: str
    tried: tuple[tuple[str, str], ...] = ()
    fallback: bool = False
    int8_sums: str = ""


@dataclass(frozen=True)
class SourceFacts:
    """Where the frames came from.

    Attributes:
        uri: as the caller gave it.
        frames_expected: pairs in one pass, or None where the source cannot know.
        ended_early: it gave fewer pairs than the run asked for.
        passes: how often a clip or folder was gone through, begun passes included.
        registration: origin of the registration in use.
        thermal_unit: "centikelvin", "counts" or "none".
        cameras: of live cameras: health, faults, settings and rates of each, skews, and what became of
            every frame, in JSON types; None for other sources.
        pairs_lost: cause -> pairs that live cameras gave during the run and nobody answered.
    """

    uri: str
    frames_expected: int | None = None
    ended_early: bool = False
    passes: int = 1
    registration: str = "unknown"
    thermal_unit: str = "unknown"
    cameras: Mapping[str, Any] | None = None
    pairs_lost: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class EndedEarly:
    """What ended a run before the end it was to have; what was measured until then is in the record.

    Attributes:
        cause: "signal", "error" or "disk full".
        detail: the signal's name, "SIGTERM", or the error's text.
    """

    cause: str
    detail: str

    def __str__(self) -> str:
        return self.detail if self.cause == "signal" else f"{self.cause}: {self.detail}"


@dataclass(frozen=True)
class RunFacts:
    """How the run was made.

    Attributes:
        frames_asked, duration_s_asked: how long it was to be; None where not limited so.
        pace_hz: frames started a second, or None for back to back.
        seed: of whatever was drawn at random.
        threads: of the engine, or None for its default.
        late_frames: frames that started after their turn.
        missed_turns: turns of the pace at which no frame could start: a camera's frame would be lost.
        pauses_left_out: the run's clock stood still while something else was done after each frame.
        ended_early: what ended it before its time, or None.
        warm_up: what a run may take to settle.
    """

    frames_asked: int | None = None
    duration_s_asked: float | None = None
    pace_hz: float | None = None
    seed: int = 0
    threads: int | None = None
    late_frames: int = 0
    missed_turns: int = 0
    pauses_left_out: bool = True
    ended_early: EndedEarly | None = None
    warm_up: WarmUpBudget = USUAL_WARM_UP


@dataclass(frozen=True)
class ColdStart:
    """Times before the run is warm; reported, never judged. None: not measured.

    Attributes:
        import_ms: importing the SDK.
        load_ms: loading and checking the bundle, building the engine.
        first_result_ms: the first frame's latency.
    """

    import_ms: float | None = None
    load_ms: float | None = None
    first_result_ms: float | None = None


@dataclass(frozen=True)
class SlaFacts:
    """The SLA a run was made for.

    Attributes:
        name: from the file.
        sha256: of the file's bytes.
    """

    name: str
    sha256: str


@dataclass(frozen=True)
class Dropped:
    """A pair that gave no result.

    Attributes:
        key: the pair's key.
        why: the cause, as text.
    """

    key: str
    why: str
