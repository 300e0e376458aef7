"""The one rule by which a pair gets its registration, and every door that keeps to it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from bundles import write_toy_fusion_bundle, write_toy_single_bundle
from hypothesis import given
from hypothesis import strategies as st

import edge_sdk
from edge_sdk.errors import ConfigError, ShapeError
from edge_sdk.frames import FramePair, Registration, RegistrationBy, RgbFrame, ThermalFrame
from edge_sdk.measurements import FrameResult
from edge_sdk.pipeline import load
from edge_sdk.registration import Chosen, Given, RegistrationWord, choose_registration
from edge_sdk.sources import BaseSource, MemorySource, open_source, source_from_arrays

RGB_WH, THERMAL_WH = (128, 96), (64, 48)
RIG = ((2.0, 0.0, 16.0), (0.0, 2.0, -16.0), (0.0, 0.0, 1.0))
OWN, CALLERS, STATED, BUNDLE = (
    Registration(RIG, RGB_WH, THERMAL_WH, None, origin)
    for origin in ("own", "the caller's", "stated", "bundle")
)
SAME, CENTRED, ASKED = RegistrationWord.SAME_VIEW, RegistrationWord.CENTRED, RegistrationWord.BUNDLE


def said(chosen: Chosen) -> tuple[str | None, RegistrationBy | None]:
    return chosen.registration and chosen.registration.origin, chosen.by


@pytest.mark.parametrize(
    ("own", "given", "stated", "origin", "by"),
    [
        (OWN, CALLERS, STATED, "own", RegistrationBy.PAIR),
        (OWN, ASKED, None, "own", RegistrationBy.PAIR),
        (None, CALLERS, STATED, "the caller's", RegistrationBy.CALLER),
        (None, ASKED, STATED, "bundle", RegistrationBy.BUNDLE),
        (None, SAME, STATED, "assumed: same view, only scaled, as asked", RegistrationBy.CALLER),
        (None, CENTRED, STATED, "assumed: thermal centred in RGB, as asked", RegistrationBy.CALLER),
        (None, None, STATED, "stated", RegistrationBy.SOURCE),
        (None, None, None, None, None),
    ],
)
def test_who_is_heard_first(
    own: Registration | None,
    given: Given | None,
    stated: Registration | None,
    origin: str | None,
    by: RegistrationBy | None,
) -> None:
    chosen = choose_registration(
        RGB_WH, THERMAL_WH, own=own, given=given, stated=stated, bundle=replace(BUNDLE, depth_m=6.0)
    )
    assert said(chosen) == (origin, by)
    noted = origin is not None and (origin.startswith("assumed") or by is RegistrationBy.BUNDLE)
    assert bool(chosen.notes) == noted, "what nobody measured, or was asked for, is noted"


def test_equal_sizes_are_assumed_to_share_their_pixels_and_the_bundle_is_never_taken_unasked() -> None:
    chosen = choose_registration(RGB_WH, RGB_WH, bundle=BUNDLE)
    assert chosen.notes == ("registration assumed: equal frame sizes",)
    assert chosen.by is RegistrationBy.ASSUMED
    assert choose_registration(RGB_WH, THERMAL_WH, bundle=BUNDLE) == Chosen(None, None)
    assert choose_registration(RGB_WH, THERMAL_WH, given=ASKED) == Chosen(None, RegistrationBy.BUNDLE)


@given(st.integers(8, 2000), st.integers(8, 2000), st.integers(8, 2000), st.integers(8, 2000))
def test_centred_keeps_pixels_square_and_lies_in_the_middle(a: int, b: int, c: int, d: int) -> None:
    matrix = np.array(Registration.centred((a, b), (c, d), "test").homography)
    assert matrix[0, 0] == matrix[1, 1]
    np.testing.assert_allclose(matrix @ [c / 2, d / 2, 1], [a / 2, b / 2, 1])
    corner = matrix @ [c, d, 1]
    assert corner[0] <= a + 1e-6
    assert corner[1] <= b + 1e-6
    assert math.isclose(corner[0], a, abs_tol=1e-6) or math.isclose(corner[1], b, abs_tol=1e-6)


def test_same_view_of_unlike_aspect_ratios_is_refused() -> None:
    assert Registration.same_view((1920, 1088), (160, 90), "x").homography[0][0] == 12
    with pytest.raises(ConfigError, match="RGB 1280x720 and thermal 160x120 pixels have unlike aspect"):
        Registration.same_view((1280, 720), (160, 120), "x")


@pytest.mark.parametrize(("rgb_wh", "thermal_wh"), [((640, 480), (64, 48)), ((128, 96), (64, 51))])
def test_a_cropped_frame_is_refused_not_stretched(
    rgb_wh: tuple[int, int], thermal_wh: tuple[int, int]
) -> None:
    registration = Registration(RIG, (128, 72) if rgb_wh[0] == 640 else RGB_WH, THERMAL_WH)
    with pytest.raises(ShapeError, match=r"frame for the registration.*Another aspect ratio.*cropped"):
        registration.matrix_for(rgb_wh, thermal_wh)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_horizon_in_the_frame_is_refused(sign: float) -> None:
    def tilted(slope: float) -> Registration:
        rows = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (slope, 0.0, 1.0))
        return Registration(tuple(tuple(sign * v for v in row) for row in rows), RGB_WH, THERMAL_WH)

    tilted(0.01)
    with pytest.raises(ShapeError, match="horizon crosses it"):
        tilted(-1 / 40)


def test_members_are_converted() -> None:
    made = Registration(np.eye(3).tolist(), [np.int64(128), 96], np.array([64, 48]), np.float32(2))  # type: ignore[arg-type]
    assert made == Registration(((1, 0, 0), (0, 1, 0), (0, 0, 1)), RGB_WH, THERMAL_WH, 2.0)
    assert hash(made) == hash(replace(made))
    json.dumps([made.homography, made.rgb_size_wh, made.depth_m])
    for wrong in ({"depth_m": -1.0}, {"depth_m": "6"}, {"origin": None}, {"depth_m": math.nan}):
        with pytest.raises(ConfigError):
            replace(made, **wrong)  # type: ignore[arg-type]
    for size in ("ab", 64, [64], [64.5, 48], [True, 48], [0, 48], [10**9, 48]):
        with pytest.raises(ShapeError, match="rgb_size_wh"):
            replace(made, rgb_size_wh=size)  # type: ignore[arg-type]


# Every door


Door = Callable[..., BaseSource]


def frames(sizes: tuple[tuple[int, int], tuple[int, int]]) -> tuple[Any, Any]:
    """Noise with one cell of 8x8 RGB pixels bright, and heat under it by the rig and elsewhere."""
    noise = np.random.default_rng(1)
    (rgb_w, rgb_h), (thermal_w, thermal_h) = sizes
    rgb = noise.integers(40, 100, (rgb_h, rgb_w, 3), np.uint8)
    thermal = noise.normal(29500, 5, (thermal_h, thermal_w)).astype(np.uint16)
    thermal[24:32, 24:32] += np.uint16(3000)
    return rgb, thermal


def by_program(folder: Path, sizes: Any, registration: Any) -> BaseSource:
    rgb, thermal = frames(sizes)
    pair = FramePair("0", RgbFrame(rgb), ThermalFrame(thermal, "centikelvin"))
    return MemorySource([pair], registration=registration)


def by_arrays(folder: Path, sizes: Any, registration: Any) -> BaseSource:
    rgb, thermal = frames(sizes)
    return source_from_arrays([rgb], [thermal], unit="centikelvin", registration=registration)


def by_pairs(folder: Path, sizes: Any, registration: Any, *, option: bool = False) -> BaseSource:
    rgb, thermal = frames(sizes)
    for name, image in (("rgb", rgb[..., ::-1]), ("thermal", thermal)):
        (folder / name).mkdir()
        cv2.imwrite(str(folder / name / "0.png"), image)
    address = f"pairs:{folder}?unit=centikelvin"
    if option and registration is not None:
        return open_source(f"{address}&registration={registration}")
    return open_source(address, registration=registration)


def by_pairs_address(folder: Path, sizes: Any, registration: Any) -> BaseSource:
    return by_pairs(folder, sizes, registration, option=True)


def by_video(folder: Path, sizes: Any, registration: Any) -> BaseSource:
    rgb, thermal = frames(sizes)
    fourcc = cv2.VideoWriter.fourcc(*"FFV1")
    writer = cv2.VideoWriter(str(folder / "rgb.avi"), cv2.CAP_FFMPEG, fourcc, 10, sizes[0])
    writer.write(np.ascontiguousarray(rgb[..., ::-1]))
    writer.release()
    np.save(folder / "thermal.npy", thermal[None])
    return open_source(
        f"video:{folder}/rgb.avi?thermal=thermal.npy&unit=centikelvin", registration=registration
    )


DOORS = [by_program, by_arrays, by_pairs, by_pairs_address, by_video]


@pytest.fixture(scope="module")
def rigged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toy engine whose bundle states a camera rig."""
    rig = {"homography": [list(row) for row in RIG], "rgb_size_wh": list(RGB_WH), "depth_m": 12.0}
    folder = tmp_path_factory.mktemp("engines") / "rigged"
    return write_toy_fusion_bundle(
        folder, THERMAL_WH, registration={**rig, "thermal_size_wh": list(THERMAL_WH)}
    )


def answer(engine: Path, source: BaseSource, **options: Any) -> FrameResult:
    with source, load(str(engine), device="cpu", threads=1, **options) as detector:
        result = detector(next(source), force="fuse")
        origin = result.registration.origin if result.registration else ""
        assert detector.registrations == (origin,)
        return result


def hot_boxes(result: FrameResult) -> list[tuple[float, ...]]:
    return [found.box_xyxy for found in result.detections if found.class_name == "hot"]


@pytest.mark.parametrize("door", DOORS)
def test_equal_sizes_share_their_pixels_at_every_door(door: Door, rigged: Path, tmp_path: Path) -> None:
    result = answer(rigged, door(tmp_path, (THERMAL_WH, THERMAL_WH), None))
    assert "registration assumed: equal frame sizes" in result.notes
    assert hot_boxes(result) == [(24, 24, 32, 32)]


@pytest.mark.parametrize("door", DOORS)
def test_unlike_sizes_without_a_word_are_refused_at_every_door(
    door: Door, rigged: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="no registration of thermal 64x48 to RGB 128x96 pixels") as caught:
        answer(rigged, door(tmp_path, (RGB_WH, THERMAL_WH), None))
    for remedy in ("registration file", "'same-view'", "'bundle'", "--registration", "?registration="):
        assert remedy in str(caught.value)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("registration", "box"),
    [("bundle", (64, 32, 80, 48)), ("same-view", (48, 48, 64, 64)), ("file", (64, 32, 80, 48))],
)
@pytest.mark.parametrize("to_the_detector", [False, True])
def test_what_the_caller_gives_holds_at_every_door(
    door: Door, registration: str, box: Any, to_the_detector: bool, rigged: Path, tmp_path: Path
) -> None:
    if registration == "file":
        path = tmp_path / "rig.json"
        path.write_text(
            json.dumps(
                {"homography_thermal_to_rgb": RIG, "rgb_size_wh": RGB_WH, "thermal_size_wh": THERMAL_WH}
            )
        )
        registration = str(path)
    if to_the_detector:
        result = answer(rigged, door(tmp_path, (RGB_WH, THERMAL_WH), None), registration=registration)
    else:
        result = answer(rigged, door(tmp_path, (RGB_WH, THERMAL_WH), registration))
    assert hot_boxes(result) == [box]
    (heat,) = [found.temperatures for found in result.detections if found.class_name == "hot"]
    assert heat is not None
    assert heat.max == pytest.approx(325, abs=0.5)


@pytest.mark.parametrize(
    "wrong", ["bundel", "no-such.json", "", 3, b"bundle", ["bundle"], "x" * 5000, "a\0b"]
)
@pytest.mark.parametrize("door", [by_program, by_arrays, by_pairs, by_video])
def test_what_is_no_registration_is_refused_at_every_door(door: Door, wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="registration"):
        door(tmp_path, (RGB_WH, THERMAL_WH), wrong)


@pytest.mark.parametrize("wrong", ["bundel", 3, ""])
def test_load_refuses_what_is_no_registration(wrong: Any, rigged: Path) -> None:
    with pytest.raises(ConfigError, match="load: registration: expected"):
        load(str(rigged), device="cpu", registration=wrong)


@pytest.mark.parametrize(
    "content",
    [
        "null", "[]", '"text"', "{}", "{", '{"homography_thermal_to_rgb": "text"}',
        '{"homography_thermal_to_rgb": {"a": 1}}', '{"homography_thermal_to_rgb": [[1,0],[0,1]]}',
        '{"homography_thermal_to_rgb": [[1,0,0],[0,1,0],[0,0,"x"]], "rgb_size_wh": [4,4]}',
        '{"homography_thermal_to_rgb": [[1,0,0],[0,1,0],[0,0,1]]}',
        '{"homography_thermal_to_rgb": [[1,0,0],[0,1,0],[0,0,1]], "rgb_size_wh": null}',
        '{"homography_thermal_to_rgb": [[1,0,0],[0,1,0],[0,0,1]], "rgb_size_wh": [4,4], '
        '"thermal_size_wh": [4,4], "depth_m": "far"}',
        '{"homography_thermal_to_rgb": [[1,0,0],[0,1,0],[0,0,1]], "rgb_size_wh": [4,4], '
        '"thermal_size_wh": [4,4], "depth_m": -2}',
        '{"homography_thermal_to_rgb": [[1,0,0],[0,1,0],[-1,0,1]], "rgb_size_wh": [4,4], '
        '"thermal_size_wh": [4,4]}',
        '{"homography_thermal_to_rgb": [[1,0,0],[0,1,0],[0,0,1]], "rgb_size_wh": [4,4], '
        '"thermal_size_wh": [4,4], "pixel_convention": 3}',
    ],
)  # fmt: skip
def test_a_file_that_holds_none_is_an_error_of_ours(content: str, rigged: Path, tmp_path: Path) -> None:
    path = tmp_path / "registration.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"registration\.json"):
        load(str(rigged), device="cpu", registration=path)


def test_given_twice_is_refused(tmp_path: Path) -> None:
    by_pairs(tmp_path, (RGB_WH, THERMAL_WH), None).close()
    with pytest.raises(ConfigError, match="given twice"):
        open_source(f"pairs:{tmp_path}?registration=bundle", registration="same-view")


def test_the_callers_word_goes_before_the_sources_and_the_pairs_own_before_both(
    rigged: Path, tmp_path: Path
) -> None:
    rgb, thermal = frames((RGB_WH, THERMAL_WH))
    by_pairs(tmp_path, (RGB_WH, THERMAL_WH), None).close()
    stated = {"homography_thermal_to_rgb": RIG, "rgb_size_wh": RGB_WH, "thermal_size_wh": THERMAL_WH}
    (tmp_path / "pairs.json").write_text(json.dumps({**stated, "thermal_unit": "centikelvin"}))
    address = f"pairs:{tmp_path}"
    assert hot_boxes(answer(rigged, open_source(address))) == [(64, 32, 80, 48)]
    for source, options in (
        (open_source(address, registration="same-view"), {}),
        (open_source(address), {"registration": "same-view"}),
        (open_source(address, registration="same-view"), {"registration": "bundle"}),
    ):
        assert hot_boxes(answer(rigged, source, **options)) == [(48, 48, 64, 64)]
    own = FramePair(
        "0", RgbFrame(rgb), ThermalFrame(thermal, "centikelvin"), Registration(RIG, RGB_WH, THERMAL_WH)
    )
    result = answer(rigged, MemorySource([own], registration="same-view"), registration="same-view")
    assert hot_boxes(result) == [(64, 32, 80, 48)]
    assert not any("registration" in note for note in result.notes)


def test_an_engine_without_a_rig_cannot_be_asked_for_one(tmp_path: Path) -> None:
    folder = write_toy_fusion_bundle(tmp_path / "plain", THERMAL_WH)
    with pytest.raises(ConfigError, match="'plain' states no camera rig"):
        load(str(folder), device="cpu", registration="bundle")
    with pytest.raises(ConfigError, match="'plain' states no camera rig"):
        answer(folder, by_arrays(tmp_path, (RGB_WH, THERMAL_WH), "bundle"))


# Engines that read RGB alone


def test_an_rgb_engine_reads_the_heat_under_its_boxes_too(tmp_path: Path) -> None:
    engine = write_toy_single_bundle(tmp_path / "one", "rgb", THERMAL_WH)
    rgb, thermal = frames((THERMAL_WH, THERMAL_WH))
    rgb[24:32, 24:32] = 250
    pair = FramePair("0", RgbFrame(rgb), ThermalFrame(thermal, "centikelvin"))
    with load(str(engine), device="cpu", threads=1) as detector:
        (found,) = detector(pair).detections
        assert found.temperatures is not None
        assert found.temperatures.max == pytest.approx(325, abs=0.5)
        assert found.temperatures.delta == pytest.approx(30, abs=0.5)
        assert detector(pair).thermal_consulted is False


@pytest.mark.parametrize(
    ("rgb_wh", "registration", "why"),
    [
        ((128, 96), None, "no registration of thermal 64x48 to RGB 128x96"),
        ((160, 96), Registration(RIG, RGB_WH, THERMAL_WH), "Another aspect ratio"),
        ((160, 96), "same-view", "unlike aspect ratios"),
    ],
)
def test_an_rgb_engine_says_why_it_gives_no_temperatures(
    rgb_wh: tuple[int, int], registration: Any, why: str, tmp_path: Path
) -> None:
    engine = write_toy_single_bundle(tmp_path / "one", "rgb", THERMAL_WH)
    rgb, thermal = frames((rgb_wh, THERMAL_WH))
    rgb[:] = 250
    pair = FramePair("0", RgbFrame(rgb), ThermalFrame(thermal, "centikelvin"))
    with load(str(engine), device="cpu", threads=1, registration=registration) as detector:
        result = detector(pair)
    assert len(result.detections)
    assert all(found.temperatures is None for found in result.detections)
    (note,) = result.notes
    assert note.startswith("no temperatures under the boxes: ")
    assert why in note
    assert edge_sdk.annotate(pair, result).ndim == 3, "and it can be drawn"
