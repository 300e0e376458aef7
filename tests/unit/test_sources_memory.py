"""Tests of sources of arrays."""

from __future__ import annotations

import numpy as np
import pytest
from frames_on_disk import rgb_image, thermal_image

from edge_sdk.errors import ConfigError, FrameError
from edge_sdk.frames import Registration
from edge_sdk.sources import MemorySource, source_from_arrays

RGB = [rgb_image(index) for index in range(3)]
THERMAL = [thermal_image(index) for index in range(3)]


def test_arrays_are_shared_not_copied() -> None:
    for pair, rgb, thermal in zip(source_from_arrays(RGB, THERMAL), RGB, THERMAL, strict=True):
        assert pair.rgb is not None
        assert pair.thermal is not None
        assert pair.rgb.image is rgb
        assert pair.thermal.image is thermal
        assert pair.notes == ("registration assumed: equal frame sizes",)


def test_stacks_are_sequences_too() -> None:
    pairs = list(source_from_arrays(np.stack(RGB), np.stack(THERMAL), keys=["a", "b", "c"]))
    assert [pair.key for pair in pairs] == ["a", "b", "c"]


def test_one_camera_and_missing_frames() -> None:
    assert all(pair.thermal is None for pair in source_from_arrays(rgb=RGB))
    assert all(pair.rgb is None for pair in source_from_arrays(thermal=THERMAL))
    source = source_from_arrays([RGB[0], None, None], [None, THERMAL[1], None], on_bad="skip")
    assert [(pair.rgb is None, pair.thermal is None) for pair in source] == [(False, True), (True, False)]
    assert "neither an RGB nor a thermal array" in source.skipped[0].why


def test_the_given_registration_is_used() -> None:
    registration = Registration.identity((48, 32), "given")
    source = source_from_arrays(RGB, THERMAL, registration=registration)
    assert all(pair.registration is registration and not pair.notes for pair in source)
    assert source.describe()["registration"] == "given"


def test_a_bad_array_is_a_bad_frame() -> None:
    with pytest.raises(
        FrameError, match=r"frame '000000': thermal frame: expected uint16 .* found uint8 \[32, 48\]"
    ):
        next(source_from_arrays(RGB[:1], [THERMAL[0].astype(np.uint8)]))
    with pytest.raises(FrameError, match=r"found uint8 \[32, 48\]"):
        next(source_from_arrays([RGB[0][..., 0]]))


def test_what_cannot_be_a_source() -> None:
    with pytest.raises(ConfigError, match=r"give rgb=\[...\], thermal=\[...\] or both"):
        source_from_arrays()
    with pytest.raises(ConfigError, match="found rgb 3, thermal 2, keys 1"):
        source_from_arrays(RGB, THERMAL[:2], keys=["a"])
    with pytest.raises(ConfigError, match=r"unit: expected counts, centikelvin, .*found 'celcius'"):
        source_from_arrays(RGB, unit="celcius")


def test_an_empty_source_ends_at_once() -> None:
    assert list(MemorySource([])) == []
    assert list(source_from_arrays(rgb=[])) == []
