"""The telemetry rows of a FLIR Lepton: what the camera says of the frame they come with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_sdk.frames import FfcState

__all__ = ["TELEMETRY_ROWS", "LeptonTelemetry", "parse_telemetry"]

TELEMETRY_ROWS = {(160, 120): 2, (80, 60): 3}
"""Telemetry rows of each picture size (width, height).
Source: Lepton datasheet 500-0659-00-09: packets of 80 words, four for Lepton 3.x, three for Lepton 2.x."""

_ROW_WORDS = 80
_ROW_C = 2 * _ROW_WORDS
_FFC_STATES = (FfcState.NEVER, FfcState.IMMINENT, FfcState.IN_PROGRESS, FfcState.COMPLETE)
_FPA_CENTIKELVIN = (22000, 38000)
"""A camera's own temperature lies in here (-53 to 107 C); it tells telemetry from picture rows."""


@dataclass(frozen=True)
class LeptonTelemetry:
    """What the rows say. Source: Lepton datasheet 500-0659-00-09, telemetry rows A and C.

    Attributes:
        uptime_ms: time since the camera started.
        ffc: state of the flat-field correction.
        ffc_desired: the camera asks for one.
        agc: counts are stretched for display: they are no temperature.
        overtemp: the camera is about to shut down.
        frame_counter: number of the frame; the camera sends each frame up to three times.
        fpa_centikelvin: temperature of the sensor.
        tlinear: counts are absolute temperatures.
        kelvin_per_count: 0.1 or 0.01, meaningful where `tlinear`.
    """

    uptime_ms: int
    ffc: FfcState
    ffc_desired: bool
    agc: bool
    overtemp: bool
    frame_counter: int
    fpa_centikelvin: int
    tlinear: bool
    kelvin_per_count: float


def parse_telemetry(rows: NDArray[np.uint16]) -> LeptonTelemetry | None:
    """Reads telemetry rows; None where these rows are none.

    Arguments:
        rows: uint16, the two rows of a 160-wide or the three of an 80-wide picture.
    """
    words = rows.reshape(-1)
    if words.size < _ROW_C + 50 or not _FPA_CENTIKELVIN[0] <= int(words[24]) <= _FPA_CENTIKELVIN[1]:
        return None
    if int(words[48 + _ROW_C]) > 1 or int(words[49 + _ROW_C]) > 1:
        return None
    status = _double(words, 3)
    return LeptonTelemetry(
        uptime_ms=_double(words, 1),
        ffc=_FFC_STATES[status >> 4 & 3],
        ffc_desired=bool(status >> 3 & 1),
        agc=bool(status >> 12 & 1),
        overtemp=bool(status >> 20 & 1),
        frame_counter=_double(words, 20),
        fpa_centikelvin=int(words[24]),
        tlinear=bool(words[48 + _ROW_C]),
        kelvin_per_count=0.01 if words[49 + _ROW_C] else 0.1,
    )


def _double(words: NDArray[np.uint16], first: int) -> int:
    """A 32-bit value stands low word first."""
    return int(words[first]) | int(words[first + 1]) << 16
