"""A clip held in memory with its ground truth, so that no benchmark times a disk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge_sdk.accuracy import Truth, mean_average_precision
from edge_sdk.detections import Detections
from edge_sdk.errors import ConfigError
from edge_sdk.frames import FramePair
from edge_sdk.sources import open_source
from edge_sdk.sources.labels import GroundTruth

__all__ = ["LabelledClip", "load_clip"]


@dataclass(frozen=True, eq=False)
class LabelledClip:
    """Pairs and what is truly in each.

    Attributes:
        uri: where they come from.
        pairs: in order.
        truth: one tuple a pair.
    """

    uri: str
    pairs: tuple[FramePair, ...]
    truth: tuple[tuple[GroundTruth, ...], ...]

    def mean_ap50(
        self, found: list[Detections], class_names: tuple[str, ...]
    ) -> tuple[float, dict[str, float | None]]:
        """Returns mAP50 over the classes that occur, and AP50 a class.

        An object that neither camera shows need not be found.

        Raises:
            ConfigError: no object of these classes is in the clip.
        """
        truth = [_truth(objects, class_names) for objects in self.truth]
        mean, by_class = mean_average_precision(found, truth, class_names)
        if mean is None:
            raise ConfigError(f"{self.uri}: no object of the classes {', '.join(class_names)} is labelled")
        return mean, by_class


def load_clip(uri: str) -> LabelledClip:
    """Reads a labelled source wholly into memory.

    Raises:
        ConfigError: the source has no labels.
    """
    with open_source(uri) as source:
        labels = getattr(source, "labels", None)
        if labels is None:
            raise ConfigError(f"{uri}: a benchmark of accuracy needs a source with labels, a clip or pairs")
        pairs = tuple(pair.copied() for pair in source)
        truth = tuple(tuple(labels(pair.key)) for pair in pairs)
    return LabelledClip(uri, pairs, truth)


def _truth(objects: tuple[GroundTruth, ...], class_names: tuple[str, ...]) -> Truth:
    known = [item for item in objects if item.class_name in class_names]
    return Truth(
        np.array([item.box_xyxy for item in known], np.float32).reshape(-1, 4),
        np.array([class_names.index(item.class_name) for item in known], np.int64),
        np.array([not (item.rgb_visible or item.thermal_visible) for item in known], bool),
    )
