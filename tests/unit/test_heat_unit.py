"""Only a thermal frame in kelvin may clear a frame for RGB alone, where the engine says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

import edge_sdk
from edge_sdk.errors import ConfigError
from edge_sdk.frames import ThermalUnit
from edge_sdk.measurements import Reason, Route, Signals
from edge_sdk.pipeline import SCORES_ARE_RANKS
from edge_sdk.routing import Decision, GateConfig, RouterState, decide


def clear(heat_unit: str | None) -> Signals:
    return Signals("ok", "ok", 120.0, 40.0, 0.1, 0.0, 0.99, heat_unit)


@pytest.mark.parametrize("unit", ["noise", None])
def test_counts_do_not_clear_a_frame(unit: str | None) -> None:
    gate = GateConfig(heat_unit="kelvin")

    assert decide(gate, RouterState(), clear(unit)) == Decision(Route.FUSE, Reason.UNCALIBRATED)


def test_kelvin_clears_a_frame() -> None:
    gate = GateConfig(heat_unit="kelvin")

    assert decide(gate, RouterState(), clear("kelvin")) == Decision(Route.RGB, Reason.CONFIDENT)


def test_any_unit_clears_where_the_engine_does_not_ask() -> None:
    assert decide(GateConfig(), RouterState(), clear("noise")) == Decision(Route.RGB, Reason.CONFIDENT)


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"gate\.heat_unit: expected one of any, kelvin"):
        GateConfig(heat_unit="celsius")


def test_scores_of_a_frame_in_counts_are_called_ranks() -> None:
    """The reference engine's scores were calibrated on radiometric frames; nothing is known of others."""
    with (
        edge_sdk.load("substation-rgbt", device="cpu") as detector,
        edge_sdk.open_source("clip:substation") as clip,
    ):
        pair = next(clip)
        assert pair.thermal is not None
        counts = replace(pair, thermal=replace(pair.thermal, unit=ThermalUnit.COUNTS))
        assert SCORES_ARE_RANKS not in detector(pair, force="fuse").notes
        assert SCORES_ARE_RANKS in detector(counts, force="fuse").notes
        assert SCORES_ARE_RANKS not in detector(counts, force="rgb").notes
