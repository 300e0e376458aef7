"""Tests of label files and of the two pixel conventions of a homography."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from frames_on_disk import HOMOGRAPHY, write_label

from edge_sdk.errors import ConfigError
from edge_sdk.sources import GroundTruth, load_labels


def test_a_label_file(tmp_path: Path) -> None:
    labels = load_labels(write_label(tmp_path, "0", homography_thermal_to_rgb=HOMOGRAPHY, depth_m=5))
    assert labels.objects == (GroundTruth("hotspot", (3.0, 4.0, 6.0, 7.0), False, True, 38.5),)
    assert (labels.light, labels.depth_m) == ("day", 5.0)
    np.testing.assert_array_equal(labels.homography, HOMOGRAPHY)


def test_the_least_a_label_file_can_say(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"objects": [{"class": "person", "box_xyxy": [0, 0, 2, 2]}]}')
    labels = load_labels(path)
    assert labels.objects == (GroundTruth("person", (0.0, 0.0, 2.0, 2.0), True, True, None),)
    assert (labels.light, labels.homography, labels.depth_m) == ("", None, None)


@pytest.mark.parametrize("word", ["centre", "whole numbers are pixel centres (OpenCV)", "center"])
def test_centre_coordinates_become_corner_coordinates(tmp_path: Path, word: str) -> None:
    path = write_label(
        tmp_path, "0", homography_thermal_to_rgb=[[2, 0, 0], [0, 2, 0], [0, 0, 1]], pixel_convention=word
    )
    homography = np.array(load_labels(path).homography)
    first_centre = homography @ [0.5, 0.5, 1]
    np.testing.assert_allclose(first_centre, [0.5, 0.5, 1], err_msg="the first pixels' centres coincide")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"labels": [{"box_xyxy": [0, 0, 1, 1]}]}, "not a label file"),
        ({"labels": [{"class": "a", "box_xyxy": [0, 0, 1]}]}, "not a label file"),
        ({"labels": 3}, "not a label file"),
        (
            {"homography_thermal_to_rgb": HOMOGRAPHY, "pixel_convention": "edge"},
            "'corner' or 'centre', found 'edge'",
        ),
        ({"homography_thermal_to_rgb": "no"}, "not a label file|expected 3x3"),
    ],
)
def test_malformed_label_files(tmp_path: Path, content: object, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=message):
        load_labels(path)


def test_a_missing_label_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_labels(tmp_path / "a.json")
