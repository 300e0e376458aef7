"""Registrations from picked points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sdk.errors import ConfigError
from edge_sdk.registering import fit_registration

THERMAL_WH, RGB_WH = (320, 256), (1280, 960)
TRUE = np.array([[3.6, 0.05, 60.0], [-0.04, 3.5, 30.0], [2e-5, -1e-5, 1.0]])
SPREAD = [(20.0, 20.0), (300.0, 25.0), (290.0, 240.0), (30.0, 230.0), (160.0, 120.0), (90.0, 170.0)]


def through(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    mapped = np.column_stack([points, np.ones(len(points))]) @ TRUE.T
    return [(float(x), float(y)) for x, y in mapped[:, :2] / mapped[:, 2:]]


def test_exact_points_give_the_true_homography() -> None:
    fit = fit_registration(SPREAD, through(SPREAD), THERMAL_WH, RGB_WH)
    np.testing.assert_allclose(fit.registration.homography, TRUE, atol=1e-3)
    assert fit.rms_px < 1e-3
    assert max(fit.left_out_px) < 1e-2
    assert fit.registration.rgb_size_wh == RGB_WH
    assert fit.registration.origin.startswith("picked: 6 points")


def test_a_bad_point_shows_in_the_residual_and_when_left_out() -> None:
    rgb = through(SPREAD)
    rgb[2] = rgb[2][0] + 25, rgb[2][1]
    fit = fit_registration(SPREAD, rgb, THERMAL_WH, RGB_WH)
    assert fit.rms_px > 2
    assert max(fit.left_out_px) > 20
    assert f"{max(fit.left_out_px):.1f} px" in fit.note


def test_four_points_claim_nothing() -> None:
    fit = fit_registration(SPREAD[:4], through(SPREAD[:4]), THERMAL_WH, RGB_WH)
    assert fit.rms_px < 1e-3
    assert fit.left_out_px == ()
    assert "always fit exactly: add a fifth" in fit.note


@given(st.lists(st.floats(-2, 2), min_size=12, max_size=12))
def test_jitter_stays_jitter(jitter: list[float]) -> None:
    rgb = [
        (x + dx, y + dy) for (x, y), dx, dy in zip(through(SPREAD), jitter[::2], jitter[1::2], strict=True)
    ]
    fit = fit_registration(SPREAD, rgb, THERMAL_WH, RGB_WH)
    assert fit.rms_px <= 3.0


@pytest.mark.parametrize(
    ("thermal", "rgb", "message"),
    [
        (SPREAD[:3], SPREAD[:3], "4 - 64 pairs of points are needed, found 3"),
        (SPREAD, SPREAD[:5], "as many points in each picture are needed, found 6 and 5"),
        ([(400.0, 1.0), *SPREAD[1:]], SPREAD, "thermal points: one lies outside the picture of 320x256"),
        (SPREAD, [(-1.0, 1.0), *SPREAD[1:]], "RGB points: one lies outside the picture of 1280x960"),
        ([(float(n), float(n)) for n in range(6)], SPREAD, "thermal points: all near one line"),
        ([(float("nan"), 1.0), *SPREAD[1:]], SPREAD, "finite numbers"),
    ],
)
def test_poor_points_are_refused(thermal: list, rgb: list, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        fit_registration(thermal, rgb, THERMAL_WH, RGB_WH)


def test_swapped_points_are_refused() -> None:
    rgb = through(SPREAD[:4])
    rgb[0], rgb[1] = rgb[1], rgb[0]
    with pytest.raises(ConfigError, match="inside out"):
        fit_registration(SPREAD[:4], rgb, THERMAL_WH, RGB_WH)
