"""Compares fresh plans with the ONNX graphs that they were built from, on known frames.

The reference computes the graphs as they are written, in floating point between Q and DQ, with no integer
kernel and nothing fused (`OnnxRunner(literal=True)`): it is right on every CPU, and no CPU's rounding is the
yardstick of a GPU. TensorRT rounds otherwise, so that outputs agree within a tolerance and not to the bit.
What must agree is what the user sees: the detections.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.detections import box_iou
from edge_sdk.engine.inputs import GraphInputs
from edge_sdk.engine.manifest import FEATURES, SCREEN_GRAPH, Manifest
from edge_sdk.engine.runner import Runner
from edge_sdk.errors import PlanRejectedError
from edge_sdk.frames import FramePair, Registration
from edge_sdk.postprocess import Candidates, decode
from edge_sdk.preprocess import Letterbox, rgb_into, thermal_into
from edge_sdk.sources import open_source

__all__ = ["AGREE_MIN", "IOU_MIN", "OUTPUT_RMS_MAX", "SCORE_MAX", "canary_frames", "compare"]

OUTPUT_RMS_MAX = 0.08
"""An output may differ by so much of its own standard deviation over all frames, root mean square.

Measured on the reference engine: ONNX Runtime differs from itself by at most 0.04 when its own fusions are
turned off, half precision besides included; the fp32 twin differs from INT8 by 0.09 to 0.19."""

SCORE_MAX = 0.1
"""A detection's probability may differ by so much. One that lies no further above the bundle's threshold
may be missing on the other side."""

IOU_MIN = 0.7
"""The two boxes of a detection must overlap by so much."""

AGREE_MIN = 0.97
"""Share of the detections of either side that must be found on the other.

Not all: where two boxes of a class overlap by just as much as suppression allows, rounding decides which
of them stays. ONNX Runtime with its fusions off agrees with itself on 98.4 to 100 %."""

_FIX = (
    "Nothing was kept. Try --remainder fp32 or another --optimisation-level; if it stays, the graph does not "
    "suit this TensorRT."
)


def canary_frames(uri: str = "clip:substation", every: int = 10) -> tuple[FramePair, ...]:
    """Reads known pairs: one in ten of the shipped clip, by day, dusk and night.

    Copies: yes; no source writes to them again.
    """
    frames = []
    with open_source(uri) as source:
        for index, pair in enumerate(source):
            if index % every == 0 and pair.rgb is not None and pair.thermal is not None:
                frames.append(pair.copied())
    return tuple(frames)


def compare(
    manifest: Manifest, reference: Runner, candidate: Runner, frames: Sequence[FramePair]
) -> Mapping[str, Any]:
    """Runs all graphs on known frames in both runners.

    Arguments:
        manifest: of the bundle.
        reference: runs the ONNX graphs literally.
        candidate: runs the plans.
        frames: RGB and thermal pairs of any size.

    Returns: tolerances and figures, for the sidecar.

    Raises:
        PlanRejectedError: outputs or detections differ by more than the tolerance, or are not numbers.
    """
    figures: dict[str, Any] = {
        "frames": len(frames),
        "output_rms_max": OUTPUT_RMS_MAX,
        "score_max": SCORE_MAX,
        "iou_min": IOU_MIN,
        "agree_min": AGREE_MIN,
        "graphs": {},
    }
    outputs: dict[tuple[str, str], tuple[list[NDArray[Any]], list[NDArray[Any]]]] = {}
    tallies = {name: _Tally() for name in manifest.graphs if name != SCREEN_GRAPH}
    for pair in frames:
        for runner in (reference, candidate):
            _lay(manifest, runner, pair)
        for name, graph in manifest.graphs.items():
            found: list[dict[str, NDArray[Any]]] = []
            for runner in (reference, candidate):
                runner.run(name)
                found.append(
                    {
                        spec.meaning: runner.array(name, spec.name).copy()
                        for spec in graph.outputs
                        if spec.meaning != FEATURES
                    }
                )
            for meaning in found[0]:
                kept = outputs.setdefault((name, meaning), ([], []))
                for side, answer in zip(kept, found, strict=True):
                    side.append(answer[meaning].astype(np.float64))
            if name == SCREEN_GRAPH:
                continue
            wanted, got = (decode(manifest.decode, name, manifest.class_names, answer) for answer in found)
            tallies[name].add(wanted, got, manifest.decode.score_min + SCORE_MAX)
    for (name, meaning), (expected, answered) in outputs.items():
        share = _rms_share(np.stack(expected), np.stack(answered))
        if not share <= OUTPUT_RMS_MAX:  # NaN is refused too
            raise PlanRejectedError(
                name,
                f"output {meaning!r} differs from the ONNX graph by {share:.3f} of its standard deviation "
                f"over {len(frames)} frames; the tolerance is {OUTPUT_RMS_MAX:g}",
                _FIX,
            )
        graph_figures = figures["graphs"].setdefault(name, {"output_rms": {}})
        graph_figures["output_rms"][meaning] = round(share, 6)
    for name, tally in tallies.items():
        if tally.agreed < AGREE_MIN * tally.sure:
            raise PlanRejectedError(
                name,
                f"of {tally.sure} detections of plan and ONNX graph {tally.agreed} are found by the other "
                f"within IoU {IOU_MIN:g} and score {SCORE_MAX:g}, over {len(frames)} frames; at least "
                f"{AGREE_MIN:.0%} must be",
                _FIX,
            )
        figures["graphs"][name] |= {
            "detections": tally.sure,
            "agreed": tally.agreed,
            "score_difference": round(tally.score_difference, 6),
        }
    return figures


@dataclass
class _Tally:
    """Detections of both sides that are sure, and how many of them the other side has too."""

    sure: int = 0
    agreed: int = 0
    score_difference: float = 0.0

    def add(self, wanted: Candidates, got: Candidates, sure_above: float) -> None:
        for here, there in ((wanted, got), (got, wanted)):
            overlap = box_iou(here.xyxy, there.xyxy)
            for index in np.flatnonzero(here.scores > sure_above):
                fits = (overlap[index] >= IOU_MIN) & (there.class_ids == here.class_ids[index])
                off = float(np.abs(there.scores[fits] - here.scores[index]).min(initial=1.0))
                self.sure += 1
                if off <= SCORE_MAX:
                    self.agreed += 1
                    self.score_difference = max(self.score_difference, off)


def _lay(manifest: Manifest, runner: Runner, pair: FramePair) -> None:
    """Lays a pair into every graph's inputs, with the runtime's own preprocessing."""
    assert pair.rgb is not None
    assert pair.thermal is not None
    for name, graph in manifest.graphs.items():
        inputs = GraphInputs(graph, partial(runner.array, name))
        alone = all(item.reads == {"thermal"} for item in manifest.graphs.values())
        frame_wh = pair.thermal.size_wh if alone else pair.rgb.size_wh
        for meaning in inputs.meanings:
            picture = inputs.picture(meaning)
            letterbox = Letterbox.fit(frame_wh, (picture.shape[1], picture.shape[0]))
            if meaning == "rgb":
                rgb_into(pair.rgb.image, letterbox, picture)
                continue
            registration = pair.registration
            if alone or registration is None:
                registration = Registration.identity(pair.thermal.size_wh, "canary")
            raw = np.empty(picture.shape, np.uint16)
            thermal_into(pair.thermal, registration, letterbox, manifest.radiometry, raw, picture)
        inputs.commit()


def _rms_share(wanted: NDArray[Any], got: NDArray[Any]) -> float:
    spread = float(wanted.std())
    return float(np.sqrt(np.mean((got - wanted) ** 2))) / max(spread, 1e-6)
