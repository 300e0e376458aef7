"""Real pairs of real substations: heat must not hide behind a colour picture.

They may not be shipped, so the tests skip where the folder beside the repository is absent. No
threshold was set on them: they only measure.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "substation-real"

pytestmark = pytest.mark.skipif(
    not REAL.is_dir(), reason="shared/data/substation-real is not beside the repository"
)


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The command's JSON lines over all pairs, by key."""
    lines = tmp_path_factory.mktemp("real") / "frames.jsonl"
    subprocess.run(
        [
            sys.executable, "-m", "edge_sdk.cli.main", "run", "--no-progress",
            "--source", f"pairs:{REAL}?rgb=rgb&thermal=ir16",
            "--engine", "substation-rgbt",
            "--frames-json", str(lines),
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return {frame["key"]: frame for frame in map(json.loads, lines.read_text().splitlines())}


@pytest.fixture(scope="module")
def index() -> list[dict[str, Any]]:
    pairs: list[dict[str, Any]] = json.loads((REAL / "index.json").read_text())
    return pairs


def test_every_pair_is_answered(frames: dict[str, dict[str, Any]], index: list[dict[str, Any]]) -> None:
    assert set(frames) == {pair["key"] for pair in index}


def test_thermal_is_consulted_where_a_hot_spot_is_labelled(
    frames: dict[str, dict[str, Any]], index: list[dict[str, Any]]
) -> None:
    hot = [frames[pair["key"]] for pair in index if pair["labelled"]]
    consulted = [frame for frame in hot if frame["thermal_consulted"]]

    assert len(hot) > 100
    assert len(consulted) / len(hot) >= 0.99


def test_no_degree_is_claimed_of_raw_counts(frames: dict[str, dict[str, Any]]) -> None:
    units = {
        found["temperatures"]["unit"]
        for frame in frames.values()
        for found in frame["detections"]
        if found["temperatures"]
    }

    assert units <= {"counts"}


def test_dark_pictures_are_left_to_thermal(
    frames: dict[str, dict[str, Any]], index: list[dict[str, Any]]
) -> None:
    dark = [frames[pair["key"]] for pair in index if pair["dark"]]

    assert all(frame["thermal_consulted"] for frame in dark)
