"""What a detector found in one frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import ConfigError, ShapeError
from edge_sdk.members import number, put, text, texts, whole

if TYPE_CHECKING:
    import supervision

__all__ = ["BoxTemperatures", "Detection", "Detections", "box_iou"]


@dataclass(frozen=True)
class BoxTemperatures:
    """The raw thermal frame under one box.

    Attributes:
        unit: "K" (absolute kelvin) or "counts" (relative; no degree may be claimed).
        min, mean, max: over the box, in `unit`.
        delta: hottest part of the box minus the median of its surroundings, in `unit`
            (a difference, so kelvin and degrees Celsius are the same), or None where the
            surroundings are outside the thermal frame: a box as large as the frame has none.

    Raises:
        ConfigError: another unit, or a member that is no number.
    """

    unit: str
    min: float
    mean: float
    max: float
    delta: float | None

    def __post_init__(self) -> None:
        if self.unit not in ("K", "counts"):
            raise ConfigError(f"BoxTemperatures unit: expected 'K' or 'counts', found {self.unit!r}")
        put(
            self,
            unit=str(self.unit),
            min=number(self.min, "BoxTemperatures min", finite=False),
            mean=number(self.mean, "BoxTemperatures mean", finite=False),
            max=number(self.max, "BoxTemperatures max", finite=False),
            delta=None if self.delta is None else number(self.delta, "BoxTemperatures delta", finite=False),
        )


@dataclass(frozen=True)
class Detection:
    """One found object.

    Attributes:
        class_name: one of the engine's classes.
        score: 0 - 1; a probability only on frames like those it was calibrated on, elsewhere a rank.
        box_xyxy: left, top, right, bottom in pixels of the RGB frame.
        temperatures: the heat under the box, or None where no thermal frame could be read there.

    Raises:
        ConfigError: a member is of another type.
    """

    class_name: str
    score: float
    box_xyxy: tuple[float, float, float, float]
    temperatures: BoxTemperatures | None = None

    def __post_init__(self) -> None:
        try:
            left, top, right, bottom = self.box_xyxy
        except (TypeError, ValueError):
            raise ConfigError(
                f"Detection box_xyxy: expected left, top, right, bottom, found {self.box_xyxy!r}"
            ) from None
        edges = (left, top, right, bottom)
        heat = self.temperatures
        if heat is not None and not isinstance(heat, BoxTemperatures):
            raise ConfigError(f"Detection temperatures: expected BoxTemperatures or None, found {heat!r}")
        put(
            self,
            class_name=text(self.class_name, "Detection class_name"),
            score=number(self.score, "Detection score", finite=False),
            box_xyxy=tuple(number(edge, "Detection box_xyxy", finite=False) for edge in edges),
        )


@dataclass(frozen=True, eq=False)
class Detections:
    """All objects found in one frame, best score first.

    Attributes:
        xyxy: float32 [n, 4], left, top, right, bottom in pixels of the RGB frame.
        scores: float32 [n], 0 - 1.
        class_ids: int64 [n], indices into `class_names`.
        class_names: the engine's classes, in the order of its outputs.
        temperatures: one entry a box, or empty where no thermal frame was read.

    Copies: where an array is of another dtype; otherwise they are shared.

    Raises:
        ShapeError: arrays that do not fit each other, or labels that are no whole numbers.
        ConfigError: another member is of the wrong type.
    """

    xyxy: NDArray[np.float32]
    scores: NDArray[np.float32]
    class_ids: NDArray[np.int64]
    class_names: tuple[str, ...]
    temperatures: tuple[BoxTemperatures | None, ...] = ()

    def __post_init__(self) -> None:
        put(
            self,
            xyxy=_array(self.xyxy, np.float32, "xyxy"),
            scores=_array(self.scores, np.float32, "scores"),
            class_ids=_array(self.class_ids, np.int64, "class_ids"),
            class_names=texts(self.class_names, "Detections class_names"),
            temperatures=_heat(self.temperatures),
        )
        count = len(self.xyxy)
        if self.xyxy.shape != (count, 4):
            raise ShapeError("Detections.xyxy", "[n, 4]", f"{list(self.xyxy.shape)}")
        for name, array in (("scores", self.scores), ("class_ids", self.class_ids)):
            if array.shape != (count,):
                raise ShapeError(f"Detections.{name}", f"[{count}]", f"{list(array.shape)}")
        if self.temperatures and len(self.temperatures) != count:
            raise ShapeError(
                "Detections.temperatures", f"{count} entries or none", f"{len(self.temperatures)}"
            )
        if count and not (self.class_ids.min() >= 0 and self.class_ids.max() < len(self.class_names)):
            raise ShapeError(
                "Detections.class_ids",
                f"0 - {len(self.class_names) - 1}",
                f"{self.class_ids.min()} - {self.class_ids.max()}",
            )

    @classmethod
    def empty(cls, class_names: Sequence[str]) -> Detections:
        """Makes the result of a frame in which nothing was found."""
        return cls(
            np.zeros((0, 4), np.float32),
            np.zeros(0, np.float32),
            np.zeros(0, np.int64),
            tuple(class_names),
        )

    def __len__(self) -> int:
        return len(self.xyxy)

    def __iter__(self) -> Iterator[Detection]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Detection:
        left, top, right, bottom = (float(edge) for edge in self.xyxy[index])
        return Detection(
            self.class_names[int(self.class_ids[index])],
            float(self.scores[index]),
            (left, top, right, bottom),
            self.temperatures[index] if self.temperatures else None,
        )

    def __repr__(self) -> str:
        return ", ".join(f"{d.class_name} {d.score:.2f}" for d in self) or "nothing"

    def to_supervision(self) -> supervision.Detections:
        """Converts to `supervision.Detections` (package `supervision`, not installed by this SDK).

        Copies: yes. Temperatures travel in `data["temperatures"]`, names in `data["class_name"]`.
        """
        import supervision

        data: dict[str, Any] = {
            "class_name": np.array([self.class_names[i] for i in self.class_ids], dtype=str)
        }
        if self.temperatures:
            data["temperatures"] = np.array(self.temperatures, dtype=object)
        return supervision.Detections(
            xyxy=self.xyxy.copy(),
            confidence=self.scores.copy(),
            class_id=self.class_ids.astype(int),
            data=data,
        )

    @classmethod
    def from_supervision(cls, detections: supervision.Detections, class_names: Sequence[str]) -> Detections:
        """Converts from `supervision.Detections`.

        Copies: yes. A missing confidence becomes 1.0. Order is kept.

        Raises:
            ConfigError: the detections carry no class ids.
        """
        if len(detections) and detections.class_id is None:
            raise ConfigError("supervision.Detections without class_id: set class_id first")
        count = len(detections)
        scores = np.ones(count) if detections.confidence is None else detections.confidence
        temperatures = detections.data.get("temperatures", ()) if detections.data else ()
        return cls(
            np.asarray(detections.xyxy, dtype=np.float32).reshape(count, 4).copy(),
            np.asarray(scores, dtype=np.float32).copy(),
            np.asarray(detections.class_id if count else [], dtype=np.int64),
            tuple(class_names),
            tuple(temperatures),
        )

    def to_coco(self, image_id: int, category_ids: Mapping[str, int] | None = None) -> list[dict[str, Any]]:
        """Converts to entries of a COCO results file.

        Arguments:
            image_id: the COCO id of this frame; NumPy's integers become Python's, so that JSON takes them.
            category_ids: class name to COCO category id; without it, class index + 1.

        Returns: one dict a box with `image_id, category_id, bbox [x, y, width, height], score`.
            COCO has no place for temperatures: they are left out.

        Raises:
            ConfigError: `category_ids` lacks a class that was found.
        """
        ids = (
            category_ids
            if category_ids is not None
            else {name: index + 1 for index, name in enumerate(self.class_names)}
        )
        image_id = whole(image_id, "to_coco: image_id")
        entries = []
        for found in self:
            if found.class_name not in ids:
                raise ConfigError(f"category_ids lack class {found.class_name!r}: they have {sorted(ids)}")
            left, top, right, bottom = found.box_xyxy
            entries.append(
                {
                    "image_id": image_id,
                    "category_id": whole(ids[found.class_name], f"category_ids: {found.class_name}"),
                    "bbox": [left, top, right - left, bottom - top],
                    "score": found.score,
                }
            )
        return entries

    @classmethod
    def from_coco(
        cls,
        entries: Sequence[Mapping[str, Any]],
        class_names: Sequence[str],
        category_ids: Mapping[str, int] | None = None,
    ) -> Detections:
        """Converts from the COCO results entries of one image; the inverse of `to_coco`.

        Raises:
            ConfigError: an entry without `bbox` or `category_id`, or a category id that no class has.
        """
        ids = (
            category_ids
            if category_ids is not None
            else {name: index + 1 for index, name in enumerate(class_names)}
        )
        index_of = {ids[name]: index for index, name in enumerate(class_names) if name in ids}
        boxes, scores, class_ids = [], [], []
        for entry in entries:
            missing = {"bbox", "category_id"} - entry.keys()
            if missing:
                raise ConfigError(f"COCO entry without {', '.join(sorted(missing))}: it has {sorted(entry)}")
            if entry["category_id"] not in index_of:
                raise ConfigError(
                    f"COCO category_id {entry['category_id']}: known ids are {sorted(index_of)}"
                )
            left, top, width, height = entry["bbox"]
            boxes.append((left, top, left + width, top + height))
            scores.append(entry.get("score", 1.0))
            class_ids.append(index_of[entry["category_id"]])
        return cls(
            np.asarray(boxes, np.float32).reshape(-1, 4),
            np.asarray(scores, np.float32),
            np.asarray(class_ids, np.int64),
            tuple(class_names),
        )


def _array(values: Any, dtype: type[np.generic], name: str) -> NDArray[Any]:
    """Returns an array of this dtype: the same where it is one, so that nothing is copied each frame."""
    if isinstance(values, np.ndarray) and values.dtype == dtype:
        return values
    try:
        array = np.asarray(values)
        whole_numbers = array.dtype.kind in "iu" or not array.size
        if array.dtype.kind not in "iuf" or (dtype is np.int64 and not whole_numbers):
            raise TypeError
        return array.astype(dtype)
    except (TypeError, ValueError):
        kind = "whole numbers" if dtype is np.int64 else "numbers"
        found = getattr(values, "dtype", type(values).__name__)
        raise ShapeError(f"Detections.{name}", f"an array of {kind}", str(found)) from None


def _heat(values: Any) -> tuple[BoxTemperatures | None, ...]:
    try:
        heat = tuple(values)
    except TypeError:
        raise ConfigError(f"Detections temperatures: expected one entry a box, found {values!r}") from None
    for item in heat:
        if item is not None and not isinstance(item, BoxTemperatures):
            raise ConfigError(f"Detections temperatures: expected BoxTemperatures or None, found {item!r}")
    return heat


def box_iou(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float32]:
    """Intersection over union of boxes [n, 4] with boxes [m, 4] (xyxy): [n, m], 0 - 1."""
    left, top, right, bottom = first.T[:, :, None]
    other_left, other_top, other_right, other_bottom = second.T[:, None, :]
    width = np.maximum(np.minimum(right, other_right) - np.maximum(left, other_left), 0.0)
    height = np.maximum(np.minimum(bottom, other_bottom) - np.maximum(top, other_top), 0.0)
    overlap = width * height
    area = np.maximum(right - left, 0.0) * np.maximum(bottom - top, 0.0)
    other_area = np.maximum(other_right - other_left, 0.0) * np.maximum(other_bottom - other_top, 0.0)
    union = area + other_area - overlap
    # Where the union is empty the overlap is 0 too.
    iou: NDArray[np.float32] = overlap / np.maximum(union, np.finfo(np.float32).tiny)
    return iou


def _coco_ids(class_names: Sequence[str]) -> dict[str, int]:
    return {name: index + 1 for index, name in enumerate(class_names)}
