"""From raw outputs to boxes and temperatures, against slow references."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from edge_sdk.box_heat import temperatures
from edge_sdk.detections import box_iou
from edge_sdk.errors import ConfigError, ShapeError
from edge_sdk.frames import ThermalFrame, ThermalPlane, ThermalUnit
from edge_sdk.postprocess import Candidates, DecodeSpec, decode, decode_grid, suppress

CLASSES = ("a", "b", "c")


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def candidates(rows: list[tuple[Any, ...]]) -> Candidates:
    """Rows of (left, top, right, bottom, score, class)."""
    table = np.array(rows, np.float64).reshape(-1, 6)
    return Candidates(
        table[:, :4].astype(np.float32), table[:, 4].astype(np.float32), table[:, 5].astype(np.int64)
    )


# Grid


def slow_grid(
    scores: NDArray[Any],
    boxes: NDArray[Any],
    stride: int,
    score_min: float,
    encoding: str,
    calibration: list[tuple[float, float]] | None,
) -> list[tuple[float, ...]]:
    found = []
    for index in range(scores.shape[1]):
        a, b = calibration[index] if calibration else (1.0, 0.0)
        for row in range(scores.shape[2]):
            for column in range(scores.shape[3]):
                probability = sigmoid(a * float(scores[0, index, row, column]) + b)
                if probability < score_min:
                    continue
                reach = [float(boxes[0, side, row, column]) for side in range(4)]
                reach = [math.exp(d) if encoding == "exp" else max(d, 0.0) for d in reach]
                x, y = column + 0.5, row + 0.5
                box = (x - reach[0], y - reach[1], x + reach[2], y + reach[3])
                found.append((*(edge * stride for edge in box), probability, index))
    return found


@settings(deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["linear", "exp"]),
    st.sampled_from([4, 8, 16]),
    st.floats(0.05, 0.95),
    st.booleans(),
)
def test_the_grid_against_a_slow_reference(
    seed: int, encoding: str, stride: int, score_min: float, calibrated: bool
) -> None:
    random = np.random.default_rng(seed)
    scores = random.normal(0, 2, (1, 3, 4, 5)).astype(np.float32)
    boxes = random.normal(0, 1.5, (1, 4, 4, 5)).astype(np.float32)
    calibration = [(1.5, -0.5), (0.5, 0.25), (1.0, 0.0)] if calibrated else None
    found = decode_grid(
        scores, boxes, stride=stride, score_min=score_min, box_encoding=encoding, calibration=calibration
    )
    expected = slow_grid(scores, boxes, stride, score_min, encoding, calibration)
    assert len(found.scores) == len(expected)
    rows = zip(found.xyxy, found.scores, found.class_ids, strict=True)
    for (box, score, index), row in zip(rows, expected, strict=True):
        np.testing.assert_allclose([*box, score, index], row, rtol=1e-4, atol=1e-4)
    assert [array.dtype for array in found] == [np.float32, np.float32, np.int64]


def test_calibration_is_taken_by_graph_and_class() -> None:
    scores = np.zeros((1, 3, 1, 1), np.float32)
    outputs = {"scores": scores, "boxes": np.ones((1, 4, 1, 1), np.float32)}
    spec = DecodeSpec(score_calibration={"fuse": {"b": (2.0, 1.0)}}, score_min=0.1)
    fused = decode(spec, "fuse", CLASSES, outputs)
    assert dict(zip(fused.class_ids.tolist(), fused.scores.tolist(), strict=True)) == pytest.approx(
        {1: sigmoid(1.0), 0: 0.5, 2: 0.5}
    )
    assert decode(spec, "rgb", CLASSES, outputs).scores.tolist() == [0.5] * 3


def test_half_precision_outputs_decode_in_single() -> None:
    scores = np.full((1, 1, 1, 1), 3, np.float16)
    found = decode_grid(
        scores, np.full((1, 4, 1, 1), 12, np.float16), stride=8, score_min=0.3, box_encoding="exp"
    )
    assert found.scores.dtype == np.float32
    assert np.isfinite(found.xyxy).all()


def test_huge_distances_neither_warn_nor_overflow() -> None:
    boxes = np.full((1, 4, 1, 1), 1e6, np.float32)
    found = decode_grid(np.ones((1, 1, 1, 1), np.float32), boxes, stride=8, score_min=0.3, box_encoding="exp")
    assert np.isfinite(found.xyxy).all()
    assert found.xyxy[0, 2] > 100_000


def test_scores_that_are_no_number_are_no_detections() -> None:
    scores = np.full((1, 1, 1, 2), np.nan, np.float32)
    scores[..., 1] = -np.inf
    assert len(decode_grid(scores, np.ones((1, 4, 1, 2), np.float32), stride=8, score_min=0.3).scores) == 0


@pytest.mark.parametrize(
    ("scores", "boxes"),
    [((1, 2, 4, 5), (1, 4, 5, 4)), ((2, 4, 5), (1, 4, 4, 5)), ((1, 2, 4, 5), (1, 5, 4, 5))],
)
def test_a_grid_of_wrong_shapes_is_refused(scores: tuple[int, ...], boxes: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="grid outputs") as caught:
        decode_grid(np.zeros(scores, np.float32), np.zeros(boxes, np.float32), stride=8, score_min=0.3)
    assert str(list(scores)) in caught.value.found


# Suppression


def slow_nms(rows: list[tuple[Any, ...]], limit: float, most: int) -> list[tuple[Any, ...]]:
    left = sorted(rows, key=lambda row: -row[4])  # sorted() is stable: ties keep their order
    kept: list[tuple[Any, ...]] = []
    for row in left:
        box = np.array([row[:4]], np.float32)
        rivals = [k for k in kept if k[5] == row[5]]
        if all(box_iou(np.array([k[:4]], np.float32), box)[0, 0] <= np.float32(limit) for k in rivals):
            kept.append(row)
    return kept[:most]


ROWS = st.lists(
    st.tuples(
        st.integers(0, 20),
        st.integers(0, 20),
        st.integers(1, 20),
        st.integers(1, 20),
        st.sampled_from([0.3, 0.5, 0.5, 0.75, 0.9]),
        st.integers(0, 2),
    ).map(lambda r: (r[0], r[1], r[0] + r[2], r[1] + r[3], r[4], r[5])),
    max_size=25,
)


@given(ROWS, st.sampled_from([0.1, 0.3, 0.5, 1.0]), st.integers(1, 30))
def test_suppression_against_a_slow_reference(rows: list[tuple[Any, ...]], limit: float, most: int) -> None:
    found = suppress(candidates(rows), limit, most)
    expected = candidates(slow_nms(rows, limit, most))
    for fast, slow in zip(found, expected, strict=True):
        np.testing.assert_array_equal(fast, slow)


def test_boxes_beyond_the_edge_do_not_suppress_another_class() -> None:
    found = candidates([(-40, -40, 10, 10, 0.9, 0), (-40, -40, 10, 10, 0.8, 1), (-40, -40, 9, 10, 0.7, 1)])
    assert suppress(found, 0.5, 10).class_ids.tolist() == [0, 1]


def test_classes_do_not_suppress_each_other() -> None:
    found = suppress(candidates([(0, 0, 9, 9, 0.9, 0), (0, 0, 9, 9, 0.8, 1), (0, 0, 9, 9, 0.7, 0)]), 0.5, 100)
    assert found.class_ids.tolist() == [0, 1]


def test_ties_keep_their_order_and_the_best_come_first() -> None:
    rows = [(i * 20, 0, i * 20 + 10, 10, 0.5, 0) for i in range(5)]
    rows[3] = (*rows[3][:4], 0.75, 0)
    found = suppress(candidates(rows), 0.5, 3)
    assert found.xyxy[:, 0].tolist() == [60, 0, 20]


def test_exactly_the_limit_is_not_more_than_the_limit() -> None:
    half = [(0, 0, 10, 10, 0.9, 0), (0, 0, 10, 5, 0.8, 0)]
    assert len(suppress(candidates(half), 0.5, 100).scores) == 2
    assert len(suppress(candidates(half), 0.49, 100).scores) == 1


# The other kinds


@pytest.mark.parametrize("transposed", [False, True])
def test_yolo_in_both_layouts(transposed: bool) -> None:
    rows = np.zeros((1, 9, 7), np.float32)
    rows[0, 2] = (50, 40, 20, 10, 0.1, 0.8, 0.2)
    rows[0, 5] = (10, 10, 4, 4, 0.29, 0.1, 0.1)
    rows[0, 7] = (100, 100, 10, 10, 0.3, 0.1, 0.1)
    outputs = {"predictions": np.ascontiguousarray(rows.transpose(0, 2, 1)) if transposed else rows}
    found = decode(DecodeSpec(kind="yolo", score_min=0.3), "x", CLASSES, outputs)
    np.testing.assert_allclose(found.xyxy, [[40, 35, 60, 45], [95, 95, 105, 105]])
    np.testing.assert_allclose(found.scores, [0.8, 0.3])
    assert found.class_ids.tolist() == [1, 0]
    assert not np.shares_memory(found.xyxy, outputs["predictions"])


def test_boxes_come_as_they_are() -> None:
    outputs = {
        "boxes": np.array([[[0, 0, 9, 9], [20, 20, 30, 30], [1, 1, 2, 2], [3, 3, 4, 4]]], np.float32),
        "scores": np.array([[0.5, 0.9, 0.1, 0.9]], np.float32),
        "labels": np.array([[2, 0, 1, 3]], np.int64),
    }
    found = decode(DecodeSpec(kind="boxes"), "x", CLASSES, outputs)
    assert found.scores.tolist() == pytest.approx([0.9, 0.5])
    assert found.class_ids.tolist() == [0, 2]
    np.testing.assert_array_equal(found.xyxy, [[20, 20, 30, 30], [0, 0, 9, 9]])


@pytest.mark.parametrize(
    ("kind", "outputs", "message"),
    [
        ("grid", {"scores": (1, 3, 2, 2)}, "'boxes'"),
        ("yolo", {"scores": (1, 3, 2, 2)}, "'predictions'"),
        ("yolo", {"predictions": (1, 6, 20)}, r"\[1, 7, n\] or \[1, n, 7\], found \[1, 6, 20\]"),
        ("yolo", {"predictions": (2, 7, 20)}, r"found \[2, 7, 20\]"),
        ("yolo", {"predictions": (7, 20)}, r"found \[7, 20\]"),
        ("boxes", {"boxes": (1, 5, 4), "scores": (1, 5)}, "'labels'"),
        ("boxes", {"boxes": (1, 5, 4), "scores": (1, 4), "labels": (1, 5)}, "boxes"),
    ],
)
def test_outputs_that_do_not_fit_are_refused(
    kind: str, outputs: dict[str, tuple[int, ...]], message: str
) -> None:
    arrays = {name: np.zeros(shape, np.float32) for name, shape in outputs.items()}
    with pytest.raises(ShapeError, match=message):
        decode(DecodeSpec(kind=kind), "x", CLASSES, arrays)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kind", "detr"),
        ("box_encoding", "log"),
        ("stride", 0),
        ("score_min", 0.0),
        ("score_min", 1.0),
        ("score_min", math.nan),
        ("nms_iou", 0.0),
        ("nms_iou", 1.1),
        ("max_detections", 0),
    ],
)
def test_a_decode_spec_out_of_range_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"decode\.{name}: expected .* found {value!r}"):
        DecodeSpec(**{name: value})


# Temperatures


def plane(scale: float = 1.0, x: float = 0.0, y: float = 0.0) -> ThermalPlane:
    return ThermalPlane(29500, 0.01, np.array([[scale, 0, x], [0, scale, y], [0, 0, 1.0]]))


def hot_frame(unit: ThermalUnit = ThermalUnit.CENTIKELVIN) -> ThermalFrame:
    image = np.full((48, 64), 29500, np.uint16)
    image[20:24, 30:40] = 31000
    image[21, 35] = 31500
    return ThermalFrame(image, unit)


def boxes(*rows: tuple[float, float, float, float]) -> NDArray[np.float32]:
    return np.array(rows, np.float32).reshape(-1, 4)


@pytest.mark.parametrize("scale", [1.0, 0.5, 4.0])
def test_a_box_reads_its_own_pixels_in_kelvin(scale: float) -> None:
    box = boxes((30, 20, 40, 24)) * np.float32(scale) + np.float32(8)
    (heat,) = temperatures(hot_frame(), plane(scale, 8, 8), box)
    assert heat is not None
    assert heat.unit == "K"
    assert (heat.min, heat.max, heat.delta) == pytest.approx((310.0, 315.0, 20.0))
    assert heat.mean == pytest.approx(310.0 + 5.0 / 40)


def test_counts_stay_counts() -> None:
    (heat,) = temperatures(hot_frame(ThermalUnit.COUNTS), plane(), boxes((30, 20, 40, 24)))
    assert heat is not None
    assert heat.unit == "counts"
    assert (heat.min, heat.max, heat.delta) == (31000.0, 31500.0, 2000.0)


def test_a_box_partly_outside_reads_what_is_inside() -> None:
    frame = hot_frame()
    frame.image[:4, :4] = 30000
    (heat,) = temperatures(frame, plane(), boxes((-10, -10, 4, 4)))
    assert heat is not None
    assert (heat.min, heat.mean, heat.max, heat.delta) == pytest.approx((300.0, 300.0, 300.0, 5.0))


def test_boxes_wholly_outside_or_empty_have_no_temperature() -> None:
    outside = boxes((-20, -20, -1, -1), (64, 0, 80, 10), (0, 48, 10, 60), (5, 5, 5, 9))
    assert temperatures(hot_frame(), plane(), outside) == (None,) * 4
    assert temperatures(hot_frame(), plane(), boxes()) == ()


def test_a_box_over_the_whole_frame_has_no_surroundings() -> None:
    (heat,) = temperatures(hot_frame(), plane(), boxes((-5, -5, 100, 100)))
    assert heat is not None
    assert heat.delta is None
    assert heat.max == pytest.approx(315.0)


def test_a_box_smaller_than_a_thermal_pixel_reads_that_pixel() -> None:
    (heat,) = temperatures(hot_frame(), plane(10.0), boxes((352, 212, 355, 216)))
    assert heat is not None
    assert heat.min == heat.max == pytest.approx(315.0)
    assert heat.delta is not None


@settings(deadline=None)
@given(*[st.integers(0, 63)] * 2, *[st.integers(1, 40)] * 2)
def test_temperatures_against_a_slow_reference(left: int, top: int, width: int, height: int) -> None:
    image = np.random.default_rng(0).integers(0, 65536, (48, 64), np.uint16)
    (heat,) = temperatures(
        ThermalFrame(image, ThermalUnit.COUNTS), plane(), boxes((left, top, left + width, top + height))
    )
    inside = image[top : top + height, left : left + width]
    if inside.size == 0:
        assert heat is None
        return
    assert heat is not None
    assert (heat.min, heat.max) == (inside.min(), inside.max())
    assert heat.mean == pytest.approx(inside.mean())
    around = np.zeros(image.shape, bool)
    wide, high = (max(3, side // 2) for side in reversed(inside.shape))
    bottom, right = min(top + height, 48), min(left + width, 64)
    around[max(top - high, 0) : bottom + high, max(left - wide, 0) : right + wide] = True
    around[top:bottom, left:right] = False
    ring = np.sort(image[around])
    assert (heat.delta is None) == (ring.size == 0)
    if heat.delta is not None and ring.size <= 1024:
        assert heat.delta == float(inside.max()) - float(ring[ring.size // 2])


def test_a_large_ring_is_sampled_evenly() -> None:
    image = np.full((512, 640), 29500, np.uint16)
    image[:, :200] = 29000
    image[200:300, 300:400] = 33000
    (heat,) = temperatures(ThermalFrame(image, ThermalUnit.CENTIKELVIN), plane(), boxes((300, 200, 400, 300)))
    assert heat is not None
    assert heat.delta == pytest.approx(35.0)


@pytest.mark.parametrize("box", [(1, 1, 639, 511), (0, 0, 639, 511), (0, 1, 640, 511), (0, 0, 639, 512)])
def test_a_ring_of_one_pixel_is_not_stepped_over(box: tuple[float, ...]) -> None:
    left, top, right, bottom = map(int, box)
    image = np.full((512, 640), 29000, np.uint16)
    image[top:bottom, left:right] = 31000
    (heat,) = temperatures(ThermalFrame(image, ThermalUnit.CENTIKELVIN), plane(), boxes(box))
    assert heat is not None
    assert heat.delta == pytest.approx(20.0)


def test_far_boxes_and_horizons_neither_warn_nor_wrap() -> None:
    tilted = ThermalPlane(29500, 0.01, np.linalg.inv(np.array([[1, 0, 0], [0, 1, 0], [-0.02, 0, 1.0]])))
    far = boxes((0, 0, 10, 10), (40, 0, 60, 10), (1e30, 1e30, 3e38, 3e38))
    near, across, beyond = temperatures(hot_frame(), tilted, far)
    assert near is not None
    assert across is None
    assert beyond is None


def test_a_homography_of_negative_scale_is_the_same_homography() -> None:
    one = temperatures(hot_frame(), plane(), boxes((30, 20, 40, 24)))
    other = temperatures(hot_frame(), ThermalPlane(29500, 0.01, -np.eye(3)), boxes((30, 20, 40, 24)))
    assert one == other


@pytest.mark.parametrize("pair", [(0.0, 1.0), (-1.0, 0.0), (float("nan"), 0.0), (1.0, float("inf"))])
def test_a_calibration_that_turns_scores_round_is_refused(pair: tuple[float, float]) -> None:
    with pytest.raises(ConfigError, match=r"score_calibration\.fuse\.a: expected a finite slope above 0"):
        DecodeSpec(score_calibration={"fuse": {"a": pair}})


def turned(degrees: float) -> ThermalPlane:
    """A thermal camera turned against the network's input about the middle of a 64x48 frame."""
    angle = np.radians(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
    to_middle, back = np.eye(3), np.eye(3)
    to_middle[:2, 2], back[:2, 2] = (-32, -24), (32, 24)
    return ThermalPlane(29500, 0.01, back @ turn @ to_middle)


def test_a_box_of_a_turned_camera_does_not_see_the_heat_beside_it() -> None:
    """At 5 degrees a hot spot lies in the upright rectangle around the box, and 3 pixels clear of the box."""
    image = np.full((48, 64), 29500, np.uint16)
    where = turned(5)
    _, y, _ = where.to_input @ np.stack(
        [g.reshape(-1) for g in (*np.mgrid[0:48, 0:64][::-1] + 0.5, np.ones((48, 64)))]
    )
    box = (4, 20, 60, 28)
    clear = ((y < box[1] - 1) | (y > box[3] + 1)).reshape(48, 64)
    corners = np.linalg.inv(where.to_input) @ [[4, 60, 60, 4], [20, 20, 28, 28], [1, 1, 1, 1]]
    around = np.zeros((48, 64), bool)
    around[
        int(corners[1].min()) : int(corners[1].max()) + 1, int(corners[0].min()) : int(corners[0].max()) + 1
    ] = True
    beside = clear & around
    assert beside.sum() > 30
    image[beside] = 34000
    (heat,) = temperatures(ThermalFrame(image, ThermalUnit.CENTIKELVIN), where, boxes(box))
    assert heat is not None
    assert heat.max == 295.0


@given(st.floats(-60, 60), st.floats(6, 30), st.floats(6, 20))
def test_a_slanted_box_reads_the_pixels_that_it_covers(degrees: float, width: float, height: float) -> None:
    image = np.random.default_rng(0).integers(28000, 31000, (48, 64), np.uint16)
    where = turned(degrees)
    box = (32 - width / 2, 24 - height / 2, 32 + width / 2, 24 + height / 2)
    (heat,) = temperatures(ThermalFrame(image, ThermalUnit.CENTIKELVIN), where, boxes(box))
    assert heat is not None
    rows, columns = np.mgrid[0:48, 0:64]
    x, y, _ = where.to_input @ np.stack([columns + 0.5, rows + 0.5, np.ones(rows.shape)]).reshape(3, -1)
    left, top, right, bottom = box

    def covered(margin: float) -> NDArray[np.uint16]:
        inside = (x > left - margin) & (x < right + margin) & (y > top - margin) & (y < bottom + margin)
        return image.reshape(-1)[inside]

    least, most = covered(-1.1), covered(1.6)
    assert least.max() - 0.01 <= heat.max * 100 <= most.max() + 0.01
    assert most.min() - 0.01 <= heat.min * 100 <= least.min() + 0.01


@pytest.mark.parametrize("dead", [0, 65535])
def test_dead_pixels_are_in_no_temperature(dead: int) -> None:
    image = hot_frame().image.copy()
    box = boxes((30, 20, 40, 24))
    (sound,) = temperatures(ThermalFrame(image, ThermalUnit.CENTIKELVIN), plane(), box)
    image[23, 30] = image[10, 35] = dead  # one in the box, one beside it
    frame = ThermalFrame(image, ThermalUnit.CENTIKELVIN)
    assert frame.dead is not None
    (heat,) = temperatures(frame, plane(), box)
    assert sound is not None
    assert heat is not None
    assert (heat.min, heat.max) == (sound.min, sound.max)
    assert heat.mean == pytest.approx(sound.mean, abs=2)


def test_a_box_of_dead_pixels_alone_has_no_temperature() -> None:
    kelvin = np.full((48, 64), 295.0, np.float32)
    kelvin[10:20, 10:20] = np.nan
    assert temperatures(ThermalFrame(kelvin, "kelvin"), plane(), boxes((12, 12, 18, 18))) == (None,)


def test_a_box_as_large_as_the_frame_has_no_surroundings() -> None:
    (heat,) = temperatures(hot_frame(), plane(), boxes((0, 0, 64, 48)))
    assert heat is not None
    assert heat.delta is None
    kelvin = np.full((48, 64), 295.0, np.float32)
    kelvin[0, 0] = np.nan
    (heat,) = temperatures(ThermalFrame(kelvin, "kelvin"), plane(), boxes((0, 0, 64, 48)))
    assert heat is not None
    assert heat.delta is None
