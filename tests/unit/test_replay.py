"""Replay: the same routes bit for bit, from anywhere in a run, at any pace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bundles import write_toy_fusion_bundle
from pairs import make_day

from edge_sdk.clock import FakeClock
from edge_sdk.errors import ConfigError
from edge_sdk.frames import FramePair, RegistrationBy
from edge_sdk.measurements import FrameResult, Route
from edge_sdk.pipeline import load
from edge_sdk.recording import RecordingPlan, SeenThroughJpeg
from edge_sdk.replay import RecordedPace, replay
from edge_sdk.runs import open_recording, run_source
from edge_sdk.sources import MemorySource, RecordedSource, open_source


class From:
    """Begins to observe at a pair, as a record button does."""

    def __init__(self, observer: Any, first: int) -> None:
        self._observer, self._first, self._count = observer, first, 0

    def arrived(self, pair: FramePair) -> None:
        self._count += 1
        if self._count > self._first:
            self._observer.arrived(pair)

    def answered(self, pair: FramePair, result: FrameResult) -> None:
        self._observer.answered(pair, result)

    def unanswered(self, pair: FramePair | None, key: str, why: str) -> None:
        self._observer.unanswered(pair, key, why)


def make(engine: Path, path: Path, *, first: int = 0, force: Any = None, rgb: str = "lossless") -> list[str]:
    """Records a day; returns the routes."""
    routes: list[str] = []
    source: Any = MemorySource(make_day(36))
    seen = SeenThroughJpeg(source, 70) if rgb == "jpeg" else None
    with load(str(engine), device="cpu", threads=1, gate={"rgb_confidence_min": 0.7}) as detector:
        plan = RecordingPlan(path, rgb=rgb)
        with open_recording(detector, source, plan, jpeg_of=seen.jpeg_of if seen else None) as recording:
            run_source(
                detector,
                seen or source,
                on_bad="skip",
                force=force,
                observers=[From(recording, first)],
                on_result=lambda pair, result: routes.append(f"{result.route} {result.reason}"),
            )
    return routes


@pytest.mark.parametrize("rgb", ["lossless", "jpeg"])
@pytest.mark.parametrize("first", [0, 5, 9])
def test_the_same_run_gives_the_same_answers(toy_fusion: Path, tmp_path: Path, first: int, rgb: str) -> None:
    routes = make(toy_fusion, tmp_path / "run.mcap", first=first, rgb=rgb)
    assert len(set(routes)) >= 5, "the day holds many kinds of frame"
    again: list[str] = []
    done = replay(
        tmp_path / "run.mcap",
        engine=str(toy_fusion),
        device="cpu",
        threads=1,
        on_result=lambda pair, result: again.append(f"{result.route} {result.reason}"),
    )
    assert again == routes[len(routes) - len(again) :]
    found = done.comparison
    assert found.same, found.differences
    assert found.not_promised == ()
    assert found.pairs == 36 - first
    assert done.problem == ""


def test_forced_routes_are_forced_again(toy_fusion: Path, tmp_path: Path) -> None:
    def now_and_then(pair: FramePair) -> Route | None:
        return Route.FUSE if int(pair.key) % 12 in (0, 1) else None

    routes = make(toy_fusion, tmp_path / "run.mcap", force=now_and_then)
    assert routes.count("fuse forced") == 6
    found = replay(tmp_path / "run.mcap", engine=str(toy_fusion), device="cpu", threads=1).comparison
    assert found.same, found.differences


def test_memory_is_what_makes_it_the_same(
    toy_fusion: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the recorded memory a recording begun behind a hot frame gives other routes."""
    from edge_sdk.pipeline import Detector

    make(toy_fusion, tmp_path / "run.mcap", first=5)
    monkeypatch.setattr(Detector, "resume", lambda self, memory: None)
    found = replay(tmp_path / "run.mcap", engine=str(toy_fusion), device="cpu", threads=1).comparison
    assert not found.same
    assert found.same_routes < found.pairs
    assert "hot-hold" in found.differences[0]


def test_another_engine_is_said_to_be_another(toy_fusion: Path, tmp_path: Path) -> None:
    make(toy_fusion, tmp_path / "run.mcap")
    other = write_toy_fusion_bundle(tmp_path / "other-toy", screen=False)
    found = replay(tmp_path / "run.mcap", engine=str(other), device="cpu", threads=1).comparison
    assert "another engine: recorded with toy-fusion" in found.not_promised[0]


def test_an_engine_that_is_not_installed_can_be_named(toy_fusion: Path, tmp_path: Path) -> None:
    make(toy_fusion, tmp_path / "run.mcap")
    with pytest.raises(ConfigError, match="--engine FOLDER"):
        replay(tmp_path / "run.mcap")


def test_a_cut_recording_is_replayed_as_far_as_it_goes(toy_fusion: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    make(toy_fusion, path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 6 // 10])
    done = replay(path, engine=str(toy_fusion), device="cpu", threads=1)
    assert "cut short" in done.problem
    assert 0 < done.comparison.pairs < 36
    assert done.comparison.same


def test_the_recorded_pace_is_kept_and_made_faster() -> None:
    arrivals = [0, 100_000_000, 200_000_000, 500_000_000]
    clock = FakeClock(start_ns=7)
    now = iter(arrivals)
    current = 0

    def arrival() -> int:
        return current

    pace = RecordedPace(arrival, 2.0, clock)
    started = []
    for current in now:
        pace.wait()
        started.append(clock.now_ns() - 7)
        if current == 100_000_000:
            clock.advance_ns(80_000_000)  # one frame takes 80 ms where 50 ms are left
    assert started == [0, 50_000_000, 130_000_000, 250_000_000]
    assert pace.late_frames == 1
    assert pace.furthest_behind_ns == 30_000_000


@pytest.mark.parametrize("wrong", [{"pace": "slow"}, {"loop": 0}, {"pace": "recorded", "speed": 0.0}])
def test_arguments_are_checked(toy_fusion: Path, tmp_path: Path, wrong: dict[str, Any]) -> None:
    make(toy_fusion, tmp_path / "run.mcap")
    with pytest.raises(ConfigError, match=next(reversed(wrong))):
        replay(tmp_path / "run.mcap", engine=str(toy_fusion), device="cpu", **wrong)


# Registrations


def unregistered_day() -> list[FramePair]:
    """Pairs whose colour frame is twice as large as their thermal one, and which do not say how they lie."""
    pairs = []
    for pair in make_day(12):
        rgb = pair.rgb and replace(pair.rgb, image=pair.rgb.image.repeat(2, axis=0).repeat(2, axis=1))
        pairs.append(replace(pair, rgb=rgb, registration=None))
    return pairs


def record_with(engine: Path, path: Path, registration: Any) -> None:
    source = MemorySource(unregistered_day())
    with (
        load(str(engine), device="cpu", threads=1, registration=registration) as detector,
        open_recording(detector, source, RecordingPlan(path)) as recording,
    ):
        run_source(detector, source, on_bad="skip", observers=[recording])


def test_the_registration_in_force_is_recorded_and_replayed(toy_fusion: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    record_with(toy_fusion, path, "same-view")
    done = replay(path, engine=str(toy_fusion), device="cpu")
    assert done.comparison.same
    assert not done.comparison.not_promised
    assert done.record.source.registration == "assumed: same view, only scaled, as asked"
    other = replay(path, engine=str(toy_fusion), device="cpu", registration="centred")
    assert other.record.source.registration == "assumed: thermal centred in RGB, as asked"
    assert "another registration" in other.comparison.not_promised[0]


def test_a_recording_takes_a_registration_like_any_source(toy_fusion: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    record_with(toy_fusion, path, "same-view")
    with open_source(f"mcap:{path}?registration=centred") as source:
        pair = next(pair for pair in source if pair.rgb and pair.thermal)
    assert pair.registration is not None
    assert (pair.registration.origin, pair.registration_by) == (
        "assumed: thermal centred in RGB, as asked",
        RegistrationBy.CALLER,
    )


def test_an_old_recording_that_used_the_bundles_default_asks_for_it(toy_fusion: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    pairs = [replace(pair, rgb=None) for pair in unregistered_day()]
    with (
        load(str(toy_fusion), device="cpu", threads=1) as detector,
        open_recording(detector, MemorySource(pairs), RecordingPlan(path)) as recording,
    ):
        for pair in pairs:
            recording.arrived(pair)
            recording.unanswered(pair, pair.key, "as of old: nothing says how it lies")
    for facts, by in (
        ("the engine bundle's default", RegistrationBy.BUNDLE),
        ("none given", RegistrationBy.ASSUMED),
    ):
        with open_source(f"mcap:{path}") as source:
            assert isinstance(source, RecordedSource)
            source.facts = replace(source.facts, registration=facts)
            assert {pair.registration_by for pair in source} == {by}
