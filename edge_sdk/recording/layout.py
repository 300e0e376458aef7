"""How one pair and its answer lie in a recording.

Three topics. `/rgb` and `/thermal` hold the pictures, `/pair` a JSON object of everything else; the
three messages of a pair have one sequence number and one time, and `/pair` comes last, so that a pair
is there whole or not at all. Pictures are plain arrays (row after row, red first; thermal: 16 bits, low
byte first) or, for RGB, a JPEG file. Numbers are written so that reading gives the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edge_sdk import members
from edge_sdk.errors import FrameError
from edge_sdk.frames import (
    Calibration,
    FfcState,
    FramePair,
    Registration,
    RegistrationBy,
    RgbFrame,
    ThermalFrame,
    ThermalUnit,
)
from edge_sdk.measurements import FrameResult, Reason, Route
from edge_sdk.members import flag, text, whole
from edge_sdk.picture_size import check_size, jpeg_size_wh
from edge_sdk.recording.answers import result_from_json, result_to_json
from edge_sdk.routing import RouterMemory, RouterState

__all__ = [
    "PAIR_SCHEMA",
    "RUN_METADATA",
    "TOPICS",
    "VERSION",
    "RecordedPair",
    "decode_jpeg",
    "pair_from_json",
    "pair_to_json",
]

VERSION = 1
RUN_METADATA = "edge-sdk/run"
TOPICS = ("/pair", "/rgb", "/thermal")
"""In the order of their channel ids, 1 and up."""

PAIR_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "edge-sdk/recording/pair",
    "type": "object",
    "properties": {
        "key": {"type": "string"},
        "arrival_ns": {"type": "integer", "description": "since the recording began, monotonic"},
        "rgb": {
            "type": ["object", "null"],
            "description": "size_wh, timestamp_ns, sequence, encoding (raw or jpeg), seen: whether these "
            "very pixels were given to the detector",
        },
        "thermal": {
            "type": ["object", "null"],
            "description": "size_wh, timestamp_ns, unit, calibration, ffc, sequence",
        },
        "faults": {"type": "object", "description": "why a camera's frame is missing, by camera, or null"},
        "registration": {
            "type": ["object", "null"],
            "description": "homography thermal to RGB, sizes, origin",
        },
        "skew_ms": {"type": ["number", "null"]},
        "still": {
            "type": "boolean",
            "description": "whether the pair stands by itself; where this is missing it does not",
        },
        "memory": {"type": "object", "description": "what the router remembered before this pair"},
        "result": {"type": ["object", "null"], "description": "route, reason, health, boxes, times in ns"},
        "unanswered": {"type": ["string", "null"], "description": "why there is no result"},
    },
    "required": ["key", "arrival_ns", "rgb", "thermal", "memory", "result"],
}


@dataclass(frozen=True, eq=False)
class RecordedPair:
    """One pair as it was recorded.

    Attributes:
        sequence: number of the pair in its run; a gap means that pairs were not recorded.
        arrival_ns: when it came out of its source, since the recording began, on a monotonic clock.
        pair: the frames.
        memory: what the router remembered before this pair.
        result: the answer, or None.
        unanswered: why there is none, or "".
        seen: whether the RGB frame holds the very pixels that the detector was given.
    """

    sequence: int
    arrival_ns: int
    pair: FramePair
    memory: RouterMemory
    result: FrameResult | None
    unanswered: str
    seen: bool

    @property
    def forced(self) -> Route | None:
        """The route that was forced on this pair, or None where the gate chose."""
        if self.result is None or self.result.reason is not Reason.FORCED:
            return None
        return self.result.route


def pair_to_json(
    pair: FramePair,
    arrival_ns: int,
    memory: RouterMemory,
    result: FrameResult | None,
    unanswered: str,
    *,
    jpeg: bool,
    seen: bool,
) -> dict[str, Any]:
    """Lays out everything of a pair but its pixels, in JSON types.

    The registration is the one that was in force, whoever gave it.
    """
    rgb, thermal, registration = pair.rgb, pair.thermal, pair.registration
    if result is not None and result.registration is not None:
        registration = result.registration
    return {
        "key": pair.key,
        "arrival_ns": arrival_ns,
        "rgb": rgb
        and {
            "size_wh": list(rgb.size_wh),
            "timestamp_ns": rgb.timestamp_ns,
            "sequence": rgb.sequence,
            "encoding": "jpeg" if jpeg else "raw",
            "seen": seen,
        },
        "thermal": thermal
        and {
            "size_wh": list(thermal.size_wh),
            "timestamp_ns": thermal.timestamp_ns,
            "unit": thermal.unit.value,
            "calibration": thermal.calibration.value,
            "ffc": thermal.ffc.value,
            "sequence": thermal.sequence,
        },
        "faults": {"rgb": pair.rgb_fault, "thermal": pair.thermal_fault},
        "registration": registration and asdict(registration),
        "skew_ms": pair.skew_ms,
        "read_ns": pair.read_ns,
        "notes": list(pair.notes),
        "still": pair.is_still,
        "memory": asdict(memory),
        "result": None if result is None else result_to_json(result),
        "unanswered": unanswered or None,
    }


def pair_from_json(
    entry: Mapping[str, Any], sequence: int, rgb: bytes | None, thermal: bytes | None
) -> RecordedPair:
    """Makes the pair again.

    Copies: raw pictures are views of the bytes given.

    Raises:
        FrameError: the entry and its pictures do not fit each other.
    """
    if not isinstance(entry, dict):
        raise FrameError(f"#{sequence}", f"its entry: expected an object, found {type(entry).__name__}")
    key = str(entry.get("key", ""))
    try:
        seen, rgb_frame = _rgb(entry["rgb"], rgb, key)
        memory, faults = dict(entry["memory"]), entry["faults"]
        registration = _registration(entry["registration"])
        return RecordedPair(
            sequence,
            whole(entry["arrival_ns"], "arrival_ns"),
            FramePair(
                key,
                rgb_frame,
                _thermal(entry["thermal"], thermal, key),
                registration,
                entry["skew_ms"],
                notes=entry["notes"],
                rgb_fault=faults["rgb"],
                thermal_fault=faults["thermal"],
                registration_by=RegistrationBy.SOURCE,
                still=entry.get("still", False),
            ),
            RouterMemory(_state(memory["state"]), _size(memory["rgb_size_wh"])),
            None if entry["result"] is None else result_from_json(key, entry["result"], registration),
            text(entry["unanswered"] or "", "unanswered"),
            seen,
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        if isinstance(error, FrameError):
            raise
        raise FrameError(key, f"the recording's entry cannot be read: {error!r}") from None


def decode_jpeg(data: bytes) -> NDArray[np.uint8] | None:
    """Decodes a JPEG file to uint8 [height, width, 3], red first, as it is stored; None where it is damaged.

    Raises:
        FrameTooLargeError: its header states more pixels than are read.
    """
    check_size("JPEG", jpeg_size_wh(memoryview(data)))
    bgr = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    return None if bgr is None else np.asarray(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), np.uint8)


def _rgb(entry: Mapping[str, Any] | None, data: bytes | None, key: str) -> tuple[bool, RgbFrame | None]:
    if entry is None:
        return True, None
    width, height = _picture_size(entry["size_wh"], key)
    if data is None:
        raise FrameError(key, "its RGB picture is not in the recording")
    if entry["encoding"] == "jpeg":
        image = decode_jpeg(data)
        if image is None or image.shape != (height, width, 3):
            raise FrameError(key, "its JPEG cannot be decoded")
    else:
        image = np.frombuffer(data, np.uint8).reshape(height, width, 3)
    return flag(entry["seen"], "seen"), RgbFrame(image, entry["timestamp_ns"], entry["sequence"])


def _thermal(entry: Mapping[str, Any] | None, data: bytes | None, key: str) -> ThermalFrame | None:
    if entry is None:
        return None
    width, height = _picture_size(entry["size_wh"], key)
    image = np.frombuffer(data or b"", "<u2").reshape(height, width).astype(np.uint16, copy=False)
    return ThermalFrame(
        image,
        ThermalUnit(entry["unit"]),
        entry["timestamp_ns"],
        Calibration(entry["calibration"]),
        FfcState(entry["ffc"]),
        entry["sequence"],
    )


def _registration(entry: Mapping[str, Any] | None) -> Registration | None:
    if entry is None:
        return None
    first, second, third = ((float(a), float(b), float(c)) for a, b, c in entry["homography"])
    rgb_wh, thermal_wh = _size(entry["rgb_size_wh"]), _size(entry["thermal_size_wh"])
    if rgb_wh is None or thermal_wh is None:
        raise ValueError("a registration without sizes")
    return Registration((first, second, third), rgb_wh, thermal_wh, entry["depth_m"], entry["origin"])


def _size(value: Any) -> tuple[int, int] | None:
    return None if value is None else (whole(value[0], "size_wh"), whole(value[1], "size_wh"))


def _picture_size(value: Any, key: str) -> tuple[int, int]:
    width, height = members.size_wh(value, "size_wh")
    check_size(key, (width, height))
    return width, height


def _state(entry: Mapping[str, Any]) -> RouterState:
    """The router's memory, each member of the type that it has by default."""
    known = vars(RouterState())
    values: dict[str, Any] = {
        name: flag(value, name)
        if isinstance(known[name], bool)
        else value
        if value is None
        else whole(value, name)
        for name, value in entry.items()
    }
    missing = [name for name, value in values.items() if value is None and known[name] is not None]
    if missing:
        raise ValueError(f"{missing[0]} is null")
    return RouterState(**values)
