"""The loop: every route for the right reason, nothing run twice, nothing left over from the frame before."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundles import STRIDE, write_toy_fusion_bundle, write_toy_single_bundle
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pairs import make_pair

import edge_sdk
from edge_sdk.cli.frame_outputs import frame_line
from edge_sdk.clock import FakeClock
from edge_sdk.devices import DeviceChoice
from edge_sdk.engine.bundle import load_bundle
from edge_sdk.engine.onnx_runner import OnnxRunner
from edge_sdk.engine.tensorrt_lane import GpuTimes
from edge_sdk.errors import (
    ConfigError,
    FrameError,
    InferenceError,
    SensorsUnusableError,
    SourceError,
    StateError,
)
from edge_sdk.frames import FramePair, Registration, RgbFrame, ThermalFrame, ThermalUnit
from edge_sdk.measurements import FrameResult, Reason, Route
from edge_sdk.pipeline import Detector, load
from edge_sdk.runs import run_source
from edge_sdk.scheduler import Pace
from edge_sdk.sources import MemorySource

SIZE_WH = (64, 48)
NO_AUDIT = {"audit_every": 0}
SHIFT = Registration(((2.0, 0.0, 16.0), (0.0, 2.0, -8.0), (0.0, 0.0, 1.0)), (128, 96), (64, 48), 12.0)
FRAMES = iter(range(10**9))


class SpyRunner(OnnxRunner):
    """Runs graphs for real and keeps the order in which they ran."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.ran: list[str] = []

    def run(self, graph: str) -> None:
        self.ran.append(graph)
        super().run(graph)

    def take(self) -> list[str]:
        ran, self.ran = self.ran, []
        return ran


@pytest.fixture
def spied(toy_fusion: Path) -> Iterator[tuple[Detector, SpyRunner]]:
    """A detector over the toy fusion bundle with its screening graph, and what its runner ran."""
    with spy_on(toy_fusion, **NO_AUDIT) as detector:
        yield detector, detector._stages.runner  # type: ignore[misc]


@pytest.fixture(scope="module")
def toy_plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fusion bundle without a screening graph."""
    return write_toy_fusion_bundle(tmp_path_factory.mktemp("engines") / "toy-plain", SIZE_WH)


def spy_on(folder: Path, clock: FakeClock | None = None, **gate: Any) -> Detector:
    bundle = load_bundle(folder)
    runner = SpyRunner(bundle)
    return Detector(
        bundle,
        runner,
        choice=DeviceChoice("cpu", runner.provider, "int8", 1),
        gate=bundle.manifest.gate.override(**gate),
        clock=clock or FakeClock(step_ns=1000),
    )


def rgb(
    *bright: tuple[int, int],
    level: int = 250,
    size_wh: tuple[int, int] = SIZE_WH,
    light: tuple[int, int] = (40, 100),
) -> RgbFrame:
    """Noise between the two lights, with bright cells (column, row) of the network's 64x48 grid."""
    width, height = size_wh
    image = np.random.default_rng(next(FRAMES)).integers(*light, (height, width, 3), np.uint8)
    for column, row in bright:
        cell = place((column, row), size_wh)
        image[cell] = level
    return RgbFrame(image)


def thermal(
    *hot: tuple[int, int],
    unit: ThermalUnit = ThermalUnit.CENTIKELVIN,
    size_wh: tuple[int, int] = SIZE_WH,
    rise: int = 3000,
) -> ThermalFrame:
    """Noise of 5 counts around 29500, with hot cells (column, row)."""
    width, height = size_wh
    image = np.random.default_rng(next(FRAMES)).normal(29500, 5, (height, width)).astype(np.uint16)
    for column, row in hot:
        image[place((column, row), size_wh)] += np.uint16(rise)
    return ThermalFrame(image, unit)


def place(cell: tuple[int, int], size_wh: tuple[int, int]) -> tuple[slice, slice]:
    step_x, step_y = size_wh[0] * STRIDE // SIZE_WH[0], size_wh[1] * STRIDE // SIZE_WH[1]
    return (
        slice(cell[1] * step_y, (cell[1] + 1) * step_y),
        slice(cell[0] * step_x, (cell[0] + 1) * step_x),
    )


def pair(
    rgb_frame: RgbFrame | None, thermal_frame: ThermalFrame | None, key: str = "k", **more: Any
) -> FramePair:
    return FramePair(key, rgb_frame, thermal_frame, **{"still": False, **more})


DARK = {"light": (0, 6)}
SURE, DOUBTFUL = 250, 130


# Routes


@pytest.mark.parametrize(
    ("name", "make", "route", "reason", "ran"),
    [
        (
            "sure",
            lambda: pair(rgb((2, 1)), thermal()),
            Route.RGB,
            Reason.CONFIDENT,
            ["screen", "rgb"],
        ),
        (
            "nothing found",
            lambda: pair(rgb(), thermal()),
            Route.FUSE,
            Reason.LOW_CONFIDENCE,
            ["screen", "rgb", "fuse"],
        ),
        (
            "doubtful",
            lambda: pair(rgb((2, 1), level=DOUBTFUL), thermal()),
            Route.FUSE,
            Reason.LOW_CONFIDENCE,
            ["screen", "rgb", "fuse"],
        ),
        (
            "hot",
            lambda: pair(rgb((2, 1)), thermal((5, 3))),
            Route.FUSE,
            Reason.HOT_REGION,
            ["screen", "rgb", "fuse"],
        ),
        (
            "dim",
            lambda: pair(rgb((2, 1), light=(15, 40), level=60), thermal()),
            Route.FUSE,
            Reason.DIM,
            ["screen", "rgb", "fuse"],
        ),
        ("dark", lambda: pair(rgb(**DARK), thermal((5, 3))), Route.THERMAL, Reason.DARK, ["thermal"]),
        ("no rgb", lambda: pair(None, thermal((5, 3))), Route.THERMAL, Reason.RGB_LOST, ["thermal"]),
        ("no thermal", lambda: pair(rgb((2, 1)), None), Route.RGB, Reason.THERMAL_LOST, ["rgb"]),
        (
            "white",
            lambda: pair(rgb(light=(252, 256)), thermal()),
            Route.THERMAL,
            Reason.RGB_LOST,
            ["thermal"],
        ),
        (
            "shutter",
            lambda: pair(rgb((2, 1)), ThermalFrame(np.full((48, 64), 30000, np.uint16))),
            Route.RGB,
            Reason.THERMAL_LOST,
            ["rgb"],
        ),
        (
            "old rgb",
            lambda: pair(rgb(), thermal(), skew_ms=900.0),
            Route.THERMAL,
            Reason.RGB_LOST,
            ["thermal"],
        ),
        (
            "old thermal",
            lambda: pair(rgb(), thermal(), skew_ms=-900.0),
            Route.RGB,
            Reason.THERMAL_LOST,
            ["rgb"],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else None,
)
def test_each_route_is_taken_for_its_reason_and_runs_its_graphs_once(
    spied: tuple[Detector, SpyRunner],
    name: str,
    make: Callable[[], FramePair],
    route: Route,
    reason: Reason,
    ran: list[str],
) -> None:
    detector, runner = spied
    result = detector(make())
    assert (result.route, result.reason) == (route, reason), name
    assert runner.take() == ran
    assert list(result.engine_ns) == ran
    assert result.thermal_consulted == (route is not Route.RGB)


def test_every_graph_sees_what_it_should(spied: tuple[Detector, SpyRunner]) -> None:
    detector, _ = spied
    both = {"bright", "hot"}
    for force, expected in ((Route.RGB, {"bright"}), (Route.FUSE, both), ("thermal", {"hot"})):
        result = detector(pair(rgb((2, 1)), thermal((5, 3))), force=force)
        assert result.reason is Reason.FORCED
        assert {found.class_name for found in result.detections} == expected


def test_boxes_are_the_cells(spied: tuple[Detector, SpyRunner]) -> None:
    detector, _ = spied
    result = detector(pair(rgb((2, 1)), thermal((5, 3))))
    boxes = {found.class_name: found.box_xyxy for found in result.detections}
    assert boxes["bright"] == (16, 8, 24, 16)
    assert boxes["hot"] == (40, 24, 48, 32)


def test_heat_hides_behind_no_confidence(spied: tuple[Detector, SpyRunner]) -> None:
    detector, _ = spied
    for _ in range(5):
        assert detector(pair(rgb((2, 1)), thermal((5, 3)))).thermal_consulted
    reasons = [detector(pair(rgb((2, 1)), thermal())).reason for _ in range(4)]
    assert reasons == [Reason.HOT_HOLD] * 3 + [Reason.CONFIDENT]


def test_a_warm_region_only_the_screening_graph_sees_is_fused(spied: tuple[Detector, SpyRunner]) -> None:
    """4.5 K is under the threshold in kelvin, and bright enough for the toy's screening graph."""
    detector, _ = spied
    result = detector(pair(rgb((2, 1)), thermal((5, 3), rise=450)))
    assert result.signals.hot_delta_k is not None
    assert result.signals.screen_score is not None
    assert result.signals.hot_delta_k < detector.gate.hot_delta_k
    assert result.signals.screen_score >= detector.gate.screen_score_min
    assert result.reason is Reason.HOT_REGION


def test_without_a_screening_graph_kelvin_decides(toy_plain: Path) -> None:
    with spy_on(toy_plain, **NO_AUDIT) as detector:
        assert detector(pair(rgb((2, 1)), thermal((5, 3), rise=450))).reason is Reason.CONFIDENT
        result = detector(pair(rgb((2, 1)), thermal((5, 3))))
        assert result.reason is Reason.HOT_REGION
        assert result.signals.screen_score is None


def test_a_frozen_camera_is_left_and_taken_back(spied: tuple[Detector, SpyRunner]) -> None:
    detector, _ = spied
    still = rgb((2, 1))
    reasons = [detector(pair(still, thermal())).reason for _ in range(6)]
    assert reasons == [Reason.CONFIDENT] * 4 + [Reason.RGB_LOST] * 2
    assert detector(pair(rgb((2, 1)), thermal())).reason is Reason.CONFIDENT
    calm = thermal()
    reasons = [detector(pair(rgb((2, 1)), calm)).reason for _ in range(6)]
    assert reasons == [Reason.CONFIDENT] * 4 + [Reason.THERMAL_LOST] * 2


def test_the_same_still_again_and_again_has_the_same_answer(spied: tuple[Detector, SpyRunner]) -> None:
    detector, _ = spied
    sure, hot = pair(rgb((2, 1)), thermal(), still=True), pair(rgb((2, 1)), thermal((5, 3)), still=True)
    reasons = [detector(entry).reason for entry in (*[sure] * 7, hot, *[sure] * 3)]
    assert reasons == [Reason.CONFIDENT] * 7 + [Reason.HOT_REGION] + [Reason.CONFIDENT] * 3
    without_times = FramePair("a", sure.rgb, sure.thermal)
    assert [detector(without_times).reason for _ in range(7)] == [Reason.CONFIDENT] * 7


def test_a_still_between_the_frames_of_a_stream_leaves_the_stream_alone(
    spied: tuple[Detector, SpyRunner],
) -> None:
    detector, _ = spied
    assert detector(pair(rgb((2, 1)), thermal((5, 3)))).reason is Reason.HOT_REGION
    before = detector.memory.state
    assert detector(pair(rgb((2, 1)), thermal(), still=True)).reason is Reason.CONFIDENT
    after = detector.memory.state
    assert after.frames == before.frames + 1
    assert after.hot_frames_left == before.hot_frames_left > 0
    assert detector(pair(rgb((2, 1)), thermal())).reason is Reason.HOT_HOLD


def test_frozen_frames_can_still_be_forced(spied: tuple[Detector, SpyRunner]) -> None:
    detector, _ = spied
    still = pair(rgb((2, 1)), thermal((5, 3)))
    for _ in range(8):
        result = detector(still, force="fuse")
        assert (result.route, len(result.detections)) == (Route.FUSE, 2)
    assert (result.signals.rgb_health, result.signals.thermal_health) == ("frozen", "frozen")
    with pytest.raises(SensorsUnusableError, match="RGB frozen, thermal frozen"):
        detector(still)


def test_with_both_cameras_lost_there_is_no_answer_and_the_next_pair_has_one(
    spied: tuple[Detector, SpyRunner],
) -> None:
    detector, runner = spied
    with pytest.raises(SensorsUnusableError, match=r"pair 'lost': .*RGB missing, thermal missing"):
        detector(pair(None, None, "lost"))
    assert runner.take() == []
    assert detector(pair(rgb((2, 1)), thermal())).reason is Reason.CONFIDENT
    assert detector.stats().frames == 1


def test_a_dark_frame_without_thermal_is_answered_and_says_that_little_can_be_seen(
    spied: tuple[Detector, SpyRunner],
) -> None:
    detector, _ = spied
    result = detector(pair(rgb(**DARK), None))
    assert (result.route, result.reason) == (Route.RGB, Reason.THERMAL_LOST)
    assert result.notes == ("RGB frame dark and thermal frame missing: little can be seen",)
    assert detector(pair(rgb((2, 1)), None)).notes == ()


def test_a_forced_or_lonely_rgb_frame_reports_its_confidence(spied: tuple[Detector, SpyRunner]) -> None:
    detector, _ = spied
    for result in (detector(pair(rgb((2, 1)), thermal()), force="rgb"), detector(pair(rgb((2, 1)), None))):
        assert result.signals.rgb_confidence == pytest.approx(float(result.detections.scores[0]))


@pytest.mark.parametrize("force", ["Rgb", "both", "", 3])
def test_an_unknown_route_cannot_be_forced(spied: tuple[Detector, SpyRunner], force: Any) -> None:
    with pytest.raises(ConfigError, match="expected one of rgb, fuse, thermal, found"):
        spied[0](pair(rgb(), thermal()), force=force)


# Audits


def test_audits_compare_rgb_with_fusion(toy_plain: Path) -> None:
    """4.5 K is no hot region for this bundle, and the fuse graph is sure of it all the same."""
    with spy_on(toy_plain, audit_every=2, rgb_confidence_min=0.5) as detector:
        reasons = [detector(pair(rgb((2, 1)), thermal())).reason for _ in range(4)]
        assert reasons == [Reason.CONFIDENT, Reason.AUDIT] * 2
        stats = detector.stats()
        assert (stats.audits, stats.audit_misses) == (2, 0)
        detector(pair(rgb((2, 1)), thermal((5, 3), rise=450)))
        result = detector(pair(rgb((2, 1)), thermal((5, 3), rise=450)))
        assert (result.route, result.reason) == (Route.FUSE, Reason.AUDIT)
        assert {found.class_name for found in result.detections} == {"bright", "hot"}
        assert result.signals.rgb_confidence is not None
        assert detector._stages.runner.take()[-2:] == ["rgb", "fuse"]  # type: ignore[union-attr]
        stats = detector.stats()
        assert (stats.audits, stats.audit_misses) == (3, 1)


# Nothing leaks from frame to frame


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["rgb", "fuse", "thermal", None]),
            st.sets(st.tuples(st.integers(0, 7), st.integers(0, 5)), max_size=3),
            st.sets(st.tuples(st.integers(0, 7), st.integers(0, 5)), max_size=3),
        ),
        min_size=2,
        max_size=6,
    )
)
def test_a_result_is_that_of_its_own_frame(toy_fusion: Path, frames: list[tuple[Any, Any, Any]]) -> None:
    with spy_on(toy_fusion, **NO_AUDIT) as detector:
        for force, bright, hot in frames:
            result = detector(pair(rgb(*bright), thermal(*hot)), force=force)
            found = {"bright": set(), "hot": set()}  # type: dict[str, set[tuple[int, int]]]
            for item in result.detections:
                left, top, _, _ = item.box_xyxy
                found[item.class_name].add((round(left / STRIDE), round(top / STRIDE)))
            assert found["bright"] == (set() if result.route is Route.THERMAL else bright)
            assert found["hot"] == (set() if result.route is Route.RGB else hot)


def test_a_kept_result_does_not_change_with_the_next_frame(spied: tuple[Detector, SpyRunner]) -> None:
    detector, _ = spied
    for force in Route:
        kept = detector(pair(rgb((2, 1)), thermal((5, 3))), force=force)
        before = (kept.detections.xyxy.copy(), kept.detections.scores.copy(), dict(kept.stage_ns))
        detector(pair(rgb((7, 5)), thermal((0, 0))), force=force)
        np.testing.assert_array_equal(kept.detections.xyxy, before[0])
        np.testing.assert_array_equal(kept.detections.scores, before[1])
        assert kept.stage_ns == before[2]


def test_frames_are_not_written_to(spied: tuple[Detector, SpyRunner]) -> None:
    detector, _ = spied
    frames = pair(rgb((2, 1)), thermal((5, 3)))
    assert frames.rgb is not None
    assert frames.thermal is not None
    frames.rgb.image.flags.writeable = frames.thermal.image.flags.writeable = False
    for force in (*Route, None):
        detector(frames, force=force)


# Pixels of the RGB frame


@pytest.mark.parametrize("rgb_wh", [(64, 48), (640, 480), (1280, 960), (128, 64), (48, 64), (641, 333)])
def test_boxes_are_in_pixels_of_rgb_frames_of_any_size(
    spied: tuple[Detector, SpyRunner], rgb_wh: tuple[int, int]
) -> None:
    detector, _ = spied
    width, height = rgb_wh
    frame = rgb(size_wh=rgb_wh)
    side = round(1.6 * STRIDE * max(width / SIZE_WH[0], height / SIZE_WH[1]))
    left, top = width // 3, height // 3
    frame.image[top : top + side, left : left + side] = 255
    full = Registration.identity(rgb_wh, "test")
    result = detector(pair(frame, thermal(size_wh=rgb_wh), registration=full), force="rgb")
    assert len(result.detections) >= 1
    boxes = result.detections.xyxy
    middle = (boxes[:, :2].min(axis=0) + boxes[:, 2:].max(axis=0)) / 2
    cell = STRIDE * max(width / SIZE_WH[0], height / SIZE_WH[1])
    np.testing.assert_allclose(middle, (left + side / 2, top + side / 2), atol=cell)


def test_thermal_of_another_size_lies_where_its_registration_says(
    spied: tuple[Detector, SpyRunner],
) -> None:
    """RGB 128x96, thermal 64x48: doubled and moved by (16, -8) RGB pixels."""
    detector, _ = spied
    frames = pair(rgb((2, 1), size_wh=(128, 96)), thermal((3, 3)), registration=SHIFT)
    boxes = {found.class_name: found.box_xyxy for found in detector(frames).detections}
    assert boxes["bright"] == (32, 16, 48, 32)
    # Thermal cell (24, 24)-(32, 32) is (64, 40)-(80, 56) in RGB; network cells are 16 RGB pixels.
    left, top, right, bottom = boxes["hot"]
    assert (left, right) == (64, 80)
    assert top in (32, 48)
    assert bottom - top == 16


def test_while_rgb_is_lost_boxes_stay_in_its_pixels(spied: tuple[Detector, SpyRunner]) -> None:
    detector, _ = spied
    # The camera gives twice the size the registration was made for.
    heat = thermal((3, 2))
    with_rgb = detector(pair(rgb(size_wh=(256, 192)), heat, registration=SHIFT), force="thermal")
    without = detector(pair(None, heat, registration=SHIFT))
    assert without.reason is Reason.RGB_LOST
    np.testing.assert_array_equal(without.detections.xyxy, with_rgb.detections.xyxy)
    assert len(without.detections) > 0
    detector.reset()
    fresh = detector(pair(None, heat, registration=SHIFT))
    np.testing.assert_allclose(fresh.detections.xyxy * 2, with_rgb.detections.xyxy)


def test_temperatures_are_those_under_the_box(spied: tuple[Detector, SpyRunner]) -> None:
    detector, _ = spied
    (found,) = [d for d in detector(pair(rgb(), thermal((5, 3)))).detections if d.class_name == "hot"]
    assert found.temperatures is not None
    assert found.temperatures.unit == "K"
    assert found.temperatures.max == pytest.approx(325.0, abs=0.3)
    assert found.temperatures.delta == pytest.approx(30.0, abs=0.3)
    (found,) = detector(pair(rgb((2, 1)), thermal())).detections
    assert found.temperatures is not None
    assert found.temperatures.mean == pytest.approx(295.0, abs=0.1)
    (found,) = detector(pair(rgb((2, 1)), None)).detections
    assert found.temperatures is None


def test_counts_claim_no_degrees(spied: tuple[Detector, SpyRunner]) -> None:
    detector, _ = spied
    result = detector(pair(rgb(), thermal((5, 3), unit=ThermalUnit.COUNTS)))
    assert result.reason is Reason.HOT_REGION
    (found,) = [d for d in result.detections if d.class_name == "hot"]
    assert found.temperatures is not None
    assert found.temperatures.unit == "counts"
    assert found.temperatures.delta == pytest.approx(3000, abs=30)


# Registrations that are assumed


def test_what_is_assumed_of_the_registration_is_noted(toy_plain: Path, tmp_path: Path) -> None:
    with spy_on(toy_plain) as detector:
        result = detector(pair(rgb(), thermal(), notes=("mended",)))
        assert result.notes == (
            "mended",
            "registration assumed: equal frame sizes",
        )
        assert result.registration == Registration.identity(SIZE_WH, "assumed: equal frame sizes")
        assert detector(pair(rgb(), thermal(), registration=SHIFT)).notes == ()
        assumed = Registration.identity(SIZE_WH, "assumed: equal frame sizes")
        assert detector(pair(rgb(), thermal(), registration=assumed)).notes == (
            "registration assumed: equal frame sizes",
        )
        said = "registration assumed: equal frame sizes"
        assert detector(pair(rgb(), thermal(), registration=assumed, notes=(said,))).notes == (said,)
        with pytest.raises(
            ConfigError, match=r"'k': no registration of thermal 64x48 to RGB 128x96 .*'same-view' where"
        ) as caught:
            detector(pair(rgb(size_wh=(128, 96)), thermal()))
        assert "'bundle'" not in str(caught.value), "this engine has no camera rig to ask for"
    folder = write_toy_fusion_bundle(
        tmp_path / "with-default",
        registration={
            "homography": [list(row) for row in SHIFT.homography],
            "rgb_size_wh": [128, 96],
            "thermal_size_wh": [64, 48],
            "depth_m": 12.0,
        },
    )
    with spy_on(folder) as detector, pytest.raises(ConfigError, match="'bundle' where your cameras are"):
        detector(pair(rgb(size_wh=(128, 96)), thermal()))
    with load(str(folder), device="cpu", threads=1, registration="bundle") as detector:
        heat = thermal((3, 2))
        result = detector(pair(rgb(size_wh=(128, 96)), heat))
        assert result.notes == (
            "registration of the engine bundle's own camera rig, as asked, exact at 12 m",
        )
        lost = detector(pair(None, heat))
        np.testing.assert_array_equal(
            lost.detections.xyxy, [d.box_xyxy for d in result.detections if d.class_name == "hot"]
        )


# Times


@pytest.mark.parametrize("force", [None, "rgb", "fuse", "thermal"])
def test_stage_times_add_up_to_the_latency(toy_fusion: Path, force: str | None) -> None:
    clock = FakeClock(step_ns=1000)
    with spy_on(toy_fusion, clock, **NO_AUDIT) as detector:
        start_ns = clock.now_ns()
        result = detector(pair(rgb(), thermal((5, 3)), read_ns=5_000_000), force=force)
        readings = (clock.now_ns() - start_ns) // 1000
    assert result.stage_ns["source"] == 5_000_000
    assert result.latency_ns == sum(ns for stage, ns in result.stage_ns.items() if stage != "source")
    # Every step of the clock between the first reading and the last is booked on some stage.
    assert result.latency_ns == (readings - 2) * 1000
    assert result.stage_ns["engine"] == sum(result.engine_ns.values())
    assert set(result.stage_ns) == {"source", "preprocess", "buffers", "routing", "engine", "postprocess"}


def test_the_gpus_own_times_are_in_the_result_where_there_are_events(
    toy_fusion: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = {"rgb": GpuTimes(0.1, 2.0, 0.05), "fuse": GpuTimes(0.02, 1.0, 0.05)}
    monkeypatch.setattr(SpyRunner, "gpu_times", lambda self, graph: taken.get(graph), raising=False)
    with spy_on(toy_fusion, **NO_AUDIT) as detector:
        result = detector(make_pair(0), force="fuse")
        assert result.gpu_ms == {
            "rgb": {"upload": 0.1, "engine": 2.0, "download": 0.05},
            "fuse": {"upload": 0.02, "engine": 1.0, "download": 0.05},
        }
        assert frame_line(result)["gpu_ms"]["rgb"]["engine"] == 2.0
        assert detector(make_pair(1), force="thermal").gpu_ms == {}, "no events, as on an emulated driver"


def test_without_events_there_are_no_gpu_times(spied: tuple[Detector, SpyRunner]) -> None:
    assert spied[0](make_pair(0)).gpu_ms == {}


def test_a_pair_of_unknown_reading_time_has_no_source_stage(spied: tuple[Detector, SpyRunner]) -> None:
    assert "source" not in spied[0](pair(rgb(), thermal())).stage_ns


# Memory


@pytest.fixture(scope="module")
def big_detector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Detector]:
    folder = write_toy_fusion_bundle(tmp_path_factory.mktemp("engines") / "big", (320, 256), screen=True)
    with load(str(folder), device="cpu", threads=1, gate=NO_AUDIT) as detector:
        yield detector


@pytest.mark.parametrize("unit", list(ThermalUnit))
@pytest.mark.parametrize("rgb_wh", [(320, 256), (640, 480)])
@pytest.mark.parametrize("route", list(Route))
def test_steady_state_allocates_nothing_the_size_of_a_frame(
    big_detector: Detector, route: Route, rgb_wh: tuple[int, int], unit: ThermalUnit
) -> None:
    registration = Registration.identity(rgb_wh, "test")
    frames = []
    for _ in range(4):
        light, heat = rgb(size_wh=rgb_wh, **(DARK if route is Route.THERMAL else {})), thermal(size_wh=rgb_wh)
        if route is not Route.THERMAL:
            light.image[64:96, 96:112] = 255
        if route is Route.FUSE:
            heat.image[160:176, 200:216] += 3000
        frames.append(pair(light, ThermalFrame(heat.image, unit), registration=registration))
    big_detector.reset()
    for frame in frames:
        assert big_detector(frame).route is route
    smallest = 320 * 256 * 2  # the thermal frame: uint16 [256, 320]
    tracemalloc.start()
    try:
        for index in range(50):
            result = big_detector(frames[index % 4])
            assert result.route is route
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < smallest


# Life


def test_after_close_nothing_answers(toy_fusion: Path) -> None:
    detector = load(str(toy_fusion), device="cpu", threads=1)
    frames = pair(rgb((2, 1)), thermal())
    result = detector(frames)
    assert detector.provider == "CPUExecutionProvider"
    detector.close()
    detector.close()
    with pytest.raises(StateError, match="detector 'toy-fusion' is closed"):
        detector(frames)
    with pytest.raises(StateError):
        _ = detector.provider
    assert detector.stats().frames == 1
    assert result.detections[0].class_name == "bright"


def test_reset_begins_a_new_sequence(spied: tuple[Detector, SpyRunner]) -> None:
    detector, _ = spied
    detector(pair(rgb((2, 1)), thermal((5, 3))))
    detector.reset()
    assert detector.stats().frames == 0
    assert detector(pair(rgb((2, 1)), thermal())).reason is Reason.CONFIDENT


def test_load_checks_thresholds_before_it_opens_an_engine(
    toy_fusion: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge_sdk.pipeline.open_runner", lambda *_a, **_k: pytest.fail("opened"))
    with pytest.raises(ConfigError, match="Did you mean 'hot_delta_k'"):
        load(str(toy_fusion), gate={"hot_delta": 5})
    with pytest.raises(ConfigError, match=r"gate\.hot_delta_k"):
        load(str(toy_fusion), gate={"hot_delta_k": float("nan")})


def test_a_detector_that_cannot_be_made_leaves_no_engine_open(
    toy_fusion: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []
    real_close = OnnxRunner.close

    def close(runner: OnnxRunner) -> None:
        closed.append(runner)
        real_close(runner)

    def broken(*_arguments: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(OnnxRunner, "close", close)
    monkeypatch.setattr("edge_sdk.stages.HostPool", broken)
    with pytest.raises(MemoryError):
        load(str(toy_fusion), device="cpu", threads=1)
    assert len(closed) == 1


def test_load_takes_its_time_from_the_clock(toy_fusion: Path) -> None:
    with load(str(toy_fusion), device="cpu", threads=1, clock=FakeClock(step_ns=5)) as detector:
        assert detector.load_ns == 5
        assert detector.choice.device == "cpu"
        assert detector.class_names == ("bright", "hot")


def test_the_null_engine_finds_nothing_and_says_so(toy_fusion: Path) -> None:
    with load(str(toy_fusion), device="null") as detector:
        result = detector(pair(rgb((2, 1)), thermal((5, 3))))
        assert len(result.detections) == 0
        assert result.route is Route.FUSE
        assert "null" in detector.stats().provider


def test_outputs_that_are_no_numbers_are_an_error(spied: tuple[Detector, SpyRunner]) -> None:
    detector, runner = spied
    run = runner.run

    def spoil(graph: str) -> None:
        run(graph)
        runner.array(graph, "scores")[0, 0, 0, 0] = np.nan

    runner.run = spoil  # type: ignore[method-assign]
    with pytest.raises(InferenceError, match=r"'thermal' failed on CPUExecutionProvider.*'scores'.*NaN"):
        detector(pair(rgb((2, 1)), thermal()), force="thermal")


# Bundles of one graph


def ask(folder: Path, frames: FramePair) -> FrameResult:
    with load(str(folder), device="cpu", threads=1) as detector:
        return detector(frames)


@pytest.mark.parametrize("dtype_layout", ["uint8 nhwc", "float32 nchw", "float16 nhwc"])
@pytest.mark.parametrize(
    ("reads", "route"), [("rgb", Route.RGB), ("thermal", Route.THERMAL), ("rgb+thermal", Route.FUSE)]
)
def test_single_graphs_of_every_kind_run(tmp_path: Path, reads: str, route: Route, dtype_layout: str) -> None:
    dtype, layout = dtype_layout.split()
    folder = write_toy_single_bundle(tmp_path / "one", reads, SIZE_WH, dtype=dtype, layout=layout)
    result = ask(folder, pair(rgb((2, 1)), thermal((2, 1), rise=30000)))
    assert (result.route, result.reason) == (route, Reason.ONLY_GRAPH)
    assert result.thermal_consulted == (reads != "rgb")
    assert [found.box_xyxy for found in result.detections] == [(16, 8, 24, 16)]
    heat = result.detections[0].temperatures
    assert heat is not None
    assert heat.max == pytest.approx(595, abs=0.5), "under the box, whatever the engine reads"


def test_a_missing_frame_of_a_single_graph_is_a_source_error(tmp_path: Path) -> None:
    folder = write_toy_single_bundle(tmp_path / "one", "thermal")
    with pytest.raises(SourceError, match=r"pair 'k': engine 'one' needs the thermal frame.*on_bad='skip'"):
        ask(folder, pair(rgb(), None))
    with load(str(folder), device="cpu", threads=1) as detector:
        with pytest.raises(ConfigError, match="has one graph; drop force='thermal'"):
            detector(pair(None, thermal()), force="thermal")
        assert detector(pair(None, thermal())).route is Route.THERMAL


def test_a_thermal_engine_sees_the_whole_thermal_frame_and_answers_in_rgb_pixels(tmp_path: Path) -> None:
    folder = write_toy_single_bundle(tmp_path / "one", "thermal")
    hot = thermal((3, 3), rise=30000)
    with load(str(folder), device="cpu", threads=1) as detector:
        alone = detector(pair(rgb(size_wh=(100, 100)), hot))
        assert [d.box_xyxy for d in alone.detections] == [(24, 24, 32, 32)]
        assert alone.notes == ("no registration: boxes are in pixels of the thermal frame",)
        placed = detector(pair(rgb(size_wh=(128, 96)), hot, registration=SHIFT))
        assert [d.box_xyxy for d in placed.detections] == [(64, 40, 80, 56)]
        assert placed.detections[0].temperatures == alone.detections[0].temperatures
        assert placed.notes == ()


# Whole sources


class Recorded:
    """A `Recorder` that keeps everything."""

    def __init__(self) -> None:
        self.results: list[tuple[FrameResult, int]] = []
        self.dropped: list[tuple[str, str]] = []

    def add(self, result: FrameResult, start_ns: int) -> None:
        self.results.append((result, start_ns))

    def drop(self, key: str, why: str) -> None:
        self.dropped.append((key, why))


def some(count: int) -> list[FramePair]:
    return [pair(rgb((2, 1)), thermal(), str(index)) for index in range(count)]


def test_a_source_is_answered_in_order(spied: tuple[Detector, SpyRunner]) -> None:
    recorded, seen = Recorded(), []
    answered = run_source(
        spied[0], some(5), recorder=recorded, on_result=lambda p, r: seen.append((p.key, r.key))
    )
    assert answered == 5
    assert [result.key for result, _ in recorded.results] == list("01234")
    assert seen == [(key, key) for key in "01234"]


def test_bad_pairs_are_raised_or_counted(spied: tuple[Detector, SpyRunner]) -> None:
    detector, _ = spied
    frames = some(3)
    frames.insert(1, pair(None, None, "lost"))
    with pytest.raises(SensorsUnusableError):
        run_source(detector, frames)
    recorded = Recorded()
    assert run_source(detector, frames, recorder=recorded, on_bad="skip") == 3
    ((key, why),) = recorded.dropped
    assert key == "lost"
    assert "neither camera" in why
    assert run_source(detector, frames, on_bad="skip") == 3
    with pytest.raises(ConfigError, match="on_bad: expected 'raise' or 'skip', found 'ignore'"):
        run_source(detector, frames, on_bad="ignore")


def test_pairs_that_cannot_be_read_are_counted_too(spied: tuple[Detector, SpyRunner]) -> None:
    class Source:
        def __init__(self) -> None:
            self.frames: list[FramePair | FrameError] = [*some(2)]
            self.frames.insert(1, FrameError("torn", "truncated"))

        def __iter__(self) -> Source:
            return self

        def __next__(self) -> FramePair:
            if not self.frames:
                raise StopIteration
            item = self.frames.pop(0)
            if isinstance(item, FrameError):
                raise item
            return item

    recorded = Recorded()
    assert run_source(spied[0], Source(), recorder=recorded, on_bad="skip") == 2
    assert recorded.dropped == [("torn", "frame 'torn': truncated")]
    with pytest.raises(FrameError):
        run_source(spied[0], Source())


def test_other_errors_are_never_skipped(toy_plain: Path) -> None:
    frames = [pair(rgb(size_wh=(128, 96)), thermal())]
    with spy_on(toy_plain) as detector, pytest.raises(ConfigError, match="no registration"):
        run_source(detector, frames, on_bad="skip")


def test_a_run_ends_after_its_frames(spied: tuple[Detector, SpyRunner]) -> None:
    source = iter(some(9))
    assert run_source(spied[0], source, frames=4) == 4
    assert next(source).key == "4"
    assert run_source(spied[0], source, frames=0) == 0
    assert next(source).key == "5"


class Slow(Recorded):
    """A recorder during which time goes by."""

    def __init__(self, clock: FakeClock, elapsed_ns: int) -> None:
        super().__init__()
        self.clock, self.elapsed_ns = clock, elapsed_ns

    def add(self, result: FrameResult, start_ns: int) -> None:
        super().add(result, start_ns)
        self.clock.advance_ns(self.elapsed_ns)


def test_a_run_ends_after_its_time_and_drawing_does_not_count(toy_fusion: Path) -> None:
    clock = FakeClock()
    recorded = Slow(clock, 300)
    with spy_on(toy_fusion, clock, **NO_AUDIT) as detector:
        answered = run_source(
            detector,
            some(20),
            recorder=recorded,
            clock=clock,
            duration_ns=1000,
            on_result=lambda *_: clock.advance_ns(5000),
        )
    assert answered == 4
    assert [start for _, start in recorded.results] == [0, 300, 600, 900]


def test_an_endless_source_of_bad_pairs_ends(spied: tuple[Detector, SpyRunner]) -> None:
    endless = iter(lambda: pair(None, None), None)
    with pytest.raises(SourceError, match="in a row gave no answer"):
        run_source(spied[0], endless, frames=1, on_bad="skip")


def test_a_paced_run_starts_on_the_grid_and_not_after_its_time(toy_fusion: Path) -> None:
    clock = FakeClock()
    recorded = Recorded()
    with spy_on(toy_fusion, clock, **NO_AUDIT) as detector:
        answered = run_source(
            detector,
            some(20),
            recorder=recorded,
            clock=clock,
            pace=Pace(10, clock),
            duration_ns=250_000_000,
        )
    assert answered == 3
    assert [start for _, start in recorded.results] == [0, 100_000_000, 200_000_000]


def test_a_forced_run(spied: tuple[Detector, SpyRunner]) -> None:
    recorded = Recorded()
    run_source(spied[0], some(2), recorder=recorded, force="thermal")
    assert {result.route for result, _ in recorded.results} == {Route.THERMAL}


def test_the_ten_lines_work(toy_fusion: Path) -> None:
    detector = edge_sdk.load(str(toy_fusion), device="cpu")
    frame_pairs: list[FramePair] = some(2)
    for frames in frame_pairs:
        result = detector(frames)
        assert (
            f"{result.route.value} {result.reason.value} {result.detections}" == "rgb confident bright 1.00"
        )
        assert result.latency_ms > 0
    assert "2 frames on CPUExecutionProvider" in str(detector.stats())
    detector.close()


def test_a_frame_of_the_engines_size_is_read_into_its_input(toy_fusion: Path) -> None:
    frames = some(2)
    expected = edge_sdk.load(str(toy_fusion), device="cpu")
    answers = [expected(item) for item in frames]
    expected.close()
    with spy_on(toy_fusion) as detector, MemorySource(frames) as source:
        engine_input = detector._stages.runner.array("rgb", "rgb")
        for answer in answers:
            read = detector.read_from(source)
            assert read is not None
            assert read.rgb is not None
            assert np.shares_memory(read.rgb.image, engine_input)
            result = detector(read)
            assert (result.route, str(result.detections)) == (answer.route, str(answer.detections))
        assert detector.read_from(source) is None
    with pytest.raises(StateError, match="is closed"):
        detector.read_from(source)


def test_a_run_reads_into_the_engine_unless_pairs_are_shown(toy_fusion: Path) -> None:
    read: list[bool] = []

    class Watched(MemorySource):
        def __next__(self) -> FramePair:
            item = super().__next__()
            read.append(np.shares_memory(rgb_pixels(item), engine_input))
            return item

    with spy_on(toy_fusion) as detector:
        engine_input = detector._stages.runner.array("rgb", "rgb")
        assert run_source(detector, Watched(some(2))) == 2
        assert read == [True, True]
        assert run_source(detector, Watched(some(2)), on_result=lambda *_: None) == 2
        assert read[2:] == [False, False]


def rgb_pixels(item: FramePair) -> NDArray[np.uint8]:
    assert item.rgb is not None
    return item.rgb.image


# Who may use a detector


class _Held(SpyRunner):
    """Stands still inside a graph until it is let go."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.inside, self.go = threading.Event(), threading.Event()

    def run(self, graph: str) -> None:
        self.inside.set()
        assert self.go.wait(30)
        super().run(graph)


def test_a_second_thread_is_refused_while_the_first_one_is_inside(toy_plain: Path) -> None:
    bundle = load_bundle(toy_plain)
    runner = _Held(bundle)
    choice = DeviceChoice("cpu", runner.provider, "int8", 1)
    detector = Detector(bundle, runner, choice=choice, gate=bundle.manifest.gate, clock=FakeClock())
    frames, found = pair(rgb(), thermal()), []
    first = threading.Thread(target=lambda: found.append(detector(frames)))
    first.start()
    assert runner.inside.wait(30)
    for use in (
        lambda: detector(frames),
        detector.reset,
        detector.close,
        lambda: detector.resume(detector.memory),
        lambda: detector.read_from(MemorySource([frames])),
    ):
        with pytest.raises(StateError, match=r"in use by another thread: results would mix.*queue\.Queue"):
            use()
    assert detector.stats().frames == 0
    runner.go.set()
    first.join()
    assert len(found) == 1
    assert detector(frames).key == "k", "handing it over, one after the other, is fine"
    detector.close()


def test_an_error_frees_the_detector_again(toy_plain: Path) -> None:
    with spy_on(toy_plain) as detector:
        with pytest.raises(ConfigError):
            detector(pair(rgb(size_wh=(128, 96)), thermal()))
        assert detector(pair(rgb(), thermal())).key == "k"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (rgb(), r"found RgbFrame: write detector\(FramePair\(key, rgb_frame\)\)"),
        (thermal(), r"found ThermalFrame: write detector\(FramePair\(key, thermal=thermal_frame\)\)"),
        (rgb().image, r"found ndarray: write detector\(FramePair\(key, RgbFrame\(rgb\), ThermalFrame"),
        ((rgb(), thermal()), "found tuple"),
        (None, "found NoneType"),
    ],
)
def test_what_is_no_pair_is_named(given: Any, words: str, toy_plain: Path) -> None:
    with spy_on(toy_plain) as detector, pytest.raises(ConfigError, match=words):
        detector(given)


def test_dead_pixels_are_noted_and_fool_neither_route_nor_temperature(
    spied: tuple[Detector, SpyRunner],
) -> None:
    image = thermal().image.copy()
    image[20, 30] = 65535
    image[40, 10] = 0
    result = spied[0](pair(rgb((2, 1)), ThermalFrame(image, "centikelvin")))
    assert "2 thermal pixels give no value" in result.notes
    assert result.reason is not Reason.HOT_REGION
    assert result.signals.hot_delta_k is not None
    assert result.signals.hot_delta_k < 1


def test_json_has_kelvin_only_where_there_is_kelvin(spied: tuple[Detector, SpyRunner]) -> None:
    in_kelvin = frame_line(spied[0](pair(rgb(), thermal())))["signals"]
    in_counts = frame_line(spied[0](pair(rgb(), thermal(unit=ThermalUnit.COUNTS))))["signals"]
    assert in_kelvin["hot_delta_k"] is not None
    assert "hot_delta_noise" not in in_kelvin
    assert in_counts["hot_delta_k"] is None
    assert in_counts["hot_delta_noise"] > 0
