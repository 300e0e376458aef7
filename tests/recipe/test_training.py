"""The network, its targets and its crops: what must hold before an hour of training is spent."""

from __future__ import annotations

# ruff: noqa: E402  (torch is looked for first)
import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the training extra: pip install '.[train]'")

from edge_sdk.frames import Registration
from edge_sdk.radiometry import Radiometry
from engines.recipe.train.data import Labels, Pair, crop_pair, epoch_batches, network_input
from engines.recipe.train.loss import assign, detection_loss, stack_targets
from engines.recipe.train.net import (
    CLASSES,
    CUT,
    GRID_HW,
    INPUT_WH,
    STRIDE_PX,
    Detector,
    InvertedResidual,
    fold_norms,
)
from engines.recipe.train.net import _move_norm as move_norm
from engines.recipe.train.screen import BLOCK_PX, ScreenNet, screen_loss

INSULATOR, HOTSPOT, CORROSION = 0, 1, 2


def _labels(rows: list[tuple[int, tuple[float, float, float, float], bool, bool]]) -> Labels:
    return Labels(
        np.array([row[1] for row in rows], np.float32).reshape(-1, 4),
        np.array([row[0] for row in rows], np.int64),
        np.array([row[2] for row in rows], bool),
        np.array([row[3] for row in rows], bool),
    )


def _pair(labels: Labels) -> Pair:
    random = np.random.default_rng(3)
    rgb = random.integers(0, 255, (384, 480, 3), np.uint8)
    thermal = random.integers(29000, 29100, (256, 320)).astype(np.uint16)
    homography = ((1.5, 0.0, 0.0), (0.0, 1.5, 0.0), (0.0, 0.0, 1.0))
    registration = Registration(homography, (480, 384), (320, 256))
    return Pair("a", "day", rgb, thermal, registration, labels, 0.0)


def test_outputs_have_the_grids_shape_and_a_hot_cell_is_enough_for_the_screen() -> None:
    detector, screen = Detector().eval(), ScreenNet().eval()
    width, height = INPUT_WH
    rgb = torch.zeros((1, height, width, 3), dtype=torch.uint8)
    thermal = torch.zeros((1, height, width, 1), dtype=torch.uint8)
    with torch.no_grad():
        scores, boxes = detector.head(
            detector.fusion(detector.rgb_features(rgb), detector.thermal_features(thermal))
        )
        heat = screen.heat_map(thermal)
        logit = screen(thermal)
    assert scores.shape == (1, len(CLASSES), *GRID_HW)
    assert boxes.shape == (1, 4, *GRID_HW)
    assert logit.shape == (1, 1)
    assert float(logit) == float(heat.max())


def test_published_relu6_weights_mean_the_same_under_the_lowered_activation() -> None:
    torch.manual_seed(0)
    lowered = InvertedResidual(3, 1, 6, 8, 8).eval()
    for norm in (lowered.expand[1], lowered.depthwise[1], lowered.project[1]):
        norm.running_mean.normal_()
        norm.bias.data.normal_()
    published = copy.deepcopy(lowered)
    published.activation = torch.nn.ReLU6()
    move_norm(lowered.expand, cut_before=False, cut_after=True)
    move_norm(lowered.depthwise, cut_before=True, cut_after=True)
    move_norm(lowered.project, cut_before=True, cut_after=False)
    x = torch.randn(1, 8, 12, 12) * 4
    with torch.no_grad():
        inner = (published(x) - lowered(x))[:, :, 1:-1, 1:-1]
    assert float(inner.abs().max()) < 1e-4
    assert (lowered.activation.min_val, lowered.activation.max_val) == (-CUT, CUT)


def test_folding_normalisation_changes_nothing_in_evaluation() -> None:
    detector = Detector().eval()
    for module in detector.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(std=0.1)
    thermal = torch.randint(0, 255, (1, 64, 64, 1), dtype=torch.uint8)
    folded = copy.deepcopy(detector)
    fold_norms(folded)
    assert not any(isinstance(module, torch.nn.BatchNorm2d) for module in folded.modules())
    with torch.no_grad():
        assert torch.allclose(detector.thermal_features(thermal), folded.thermal_features(thermal), atol=1e-4)


@pytest.mark.parametrize(
    ("route", "expected"), [("rgb", {CORROSION}), ("thermal", {HOTSPOT}), ("fuse", {HOTSPOT, CORROSION})]
)
def test_a_route_learns_what_its_cameras_show(route: str, expected: set[int]) -> None:
    labels = _labels(
        [
            (HOTSPOT, (16, 16, 32, 32), False, True),
            (CORROSION, (80, 80, 120, 120), True, False),
            (INSULATOR, (160, 60, 180, 120), False, False),
        ]
    )
    targets = assign(labels, route, GRID_HW)
    assert set(np.flatnonzero(targets.positive.any(axis=1))) == expected
    grid = targets.counted.reshape(len(CLASSES), *GRID_HW)
    assert not grid[:, 90 // STRIDE_PX, 170 // STRIDE_PX].any(), "seen by neither camera: ignored"


def test_targets_are_the_distances_from_the_cell_centre_in_strides() -> None:
    labels = _labels([(INSULATOR, (10, 20, 50, 90), True, True)])
    targets = assign(labels, "rgb", GRID_HW)
    cell = int(np.flatnonzero(targets.has_box)[0])
    row, column = divmod(cell, GRID_HW[1])
    centre = np.array([column + 0.5, row + 0.5] * 2) * STRIDE_PX
    corners = centre + np.array([-1, -1, 1, 1]) * targets.boxes[:, cell] * STRIDE_PX
    assert corners == pytest.approx([10, 20, 50, 90], abs=1e-3)


def test_an_object_smaller_than_a_cell_still_has_one_cell() -> None:
    labels = _labels([(HOTSPOT, (16.5, 16.5, 18, 18), False, True)])
    assert assign(labels, "thermal", GRID_HW).has_box.sum() == 1


def test_right_outputs_have_less_loss_than_wrong_ones() -> None:
    labels = _labels([(INSULATOR, (100, 100, 140, 180), True, True)])
    target = assign(labels, "rgb", GRID_HW)
    right = torch.where(torch.from_numpy(target.positive), 8.0, -8.0).reshape(1, len(CLASSES), *GRID_HW)
    boxes = torch.from_numpy(target.boxes).reshape(1, 4, *GRID_HW)
    good = detection_loss(right, boxes, stack_targets([target]))
    bad = detection_loss(-right, boxes + 3, stack_targets([target]))
    assert float(good[0]) < 0.01 < float(bad[0])
    assert float(good[1]) < 1e-3 < float(bad[1])


def test_the_screen_is_taught_the_block_of_the_hot_spot() -> None:
    labels = _labels([(HOTSPOT, (100, 40, 108, 47), False, True), (HOTSPOT, (10, 10, 20, 20), False, False)])
    hot = torch.full((1, 1, 32, 40), -9.0)
    hot[0, 0, 43 // BLOCK_PX, 104 // BLOCK_PX] = 9.0
    assert float(screen_loss(hot, [labels])) < 0.2
    assert float(screen_loss(-hot, [labels])) > 10


def test_a_whole_frame_is_what_the_runtime_makes_of_it() -> None:
    crop = network_input(_pair(_labels([(INSULATOR, (48, 96, 96, 192), True, True)])), Radiometry())
    assert crop.rgb.shape == (256, 320, 3)
    assert crop.thermal.shape == (256, 320)
    assert crop.labels.boxes[0] == pytest.approx([32, 64, 64, 128])
    assert abs(float(np.median(crop.thermal)) - 90) <= 2


def test_crops_are_reproducible_and_their_boxes_inside() -> None:
    pair = _pair(_labels([(INSULATOR, (200, 150, 240, 250), True, True)]))
    crops = [crop_pair(pair, (208, 176), np.random.default_rng(5)) for _ in range(2)]
    assert np.array_equal(crops[0].rgb, crops[1].rgb)
    assert np.array_equal(crops[0].thermal, crops[1].thermal)
    for seed in range(20):
        crop = crop_pair(pair, (208, 176), np.random.default_rng(seed))
        assert crop.rgb.shape == (176, 208, 3)
        assert (crop.labels.boxes >= 0).all()
        assert (crop.labels.boxes <= [208, 176, 208, 176]).all()


def test_a_crop_keeps_both_pictures_and_the_box_together() -> None:
    """A bright, hot square stays under its box in both pictures, whatever the jitter."""
    pair = _pair(_labels([(HOTSPOT, (210, 150, 270, 210), True, True)]))
    pair.rgb[:] = 30
    pair.rgb[150:210, 210:270] = 220
    pair.thermal[:] = 29000
    pair.thermal[100:140, 140:180] = 31000
    for seed in range(12):
        crop = crop_pair(pair, (208, 176), np.random.default_rng(seed))
        if not len(crop.labels.boxes) or not crop.labels.in_rgb[0]:
            continue
        left, top, right, bottom = np.rint(crop.labels.boxes[0]).astype(int)
        inside = slice(top + 3, bottom - 3), slice(left + 3, right - 3)
        assert crop.rgb.mean(axis=2)[inside].mean() > 1.5 * np.median(crop.rgb)
        assert crop.thermal[inside].mean() > np.median(crop.thermal) + 50


def test_an_epoch_is_the_same_for_the_same_seed() -> None:
    pairs = [_pair(_labels([(INSULATOR, (200, 150, 240, 250), True, True)])) for _ in range(5)]
    first, second = (list(epoch_batches(pairs, 2, (64, 64), (7, 0))) for _ in range(2))
    assert len(first) == 2
    for one, other in zip(first, second, strict=True):
        assert all(np.array_equal(a.rgb, b.rgb) for a, b in zip(one, other, strict=True))
