"""A short soak: two minutes' worth of frames with faults at random. `make soak` runs an hour's worth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from soak import problems, soak

COMMITTED = Path(__file__).resolve().parents[1] / "data" / "soak.json"


@pytest.mark.parametrize("seed", [3, 4])
def test_a_short_soak_leaves_nothing_behind(seed: int) -> None:
    result = soak(seed, 120 / 3600)
    assert result["problems"] == []
    assert result["fake_clock"]["pairs"] > 300
    assert sum(result["fake_clock"]["faults"]["thermal"].values()) >= 3
    assert result["threads"]["reconnects"]["rgb"] >= 1


def test_the_soak_notices_what_is_wrong() -> None:
    result = json.loads(COMMITTED.read_text("utf-8"))
    assert problems(result) == []
    result["fake_clock"]["unaccounted"]["rgb"] = 1
    result["fake_clock"]["snapshots"][-1]["resident_mib"] += 50
    result["fake_clock"]["snapshots"][-1]["handles"] += 1
    result["threads"]["after"]["threads"] += 1
    result["fake_clock"]["pairs_of_a_camera_at_fault"] = 1
    assert len(problems(result)) == 5


def test_the_committed_soak_was_an_hour() -> None:
    result = json.loads(COMMITTED.read_text("utf-8"))
    assert result["problems"] == []
    assert result["fake_clock"]["seconds_of_frames"] == 3600
    assert result["fake_clock"]["sent"]["rgb"] > 80_000
