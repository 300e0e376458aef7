"""Writes the trained network as four fp32 ONNX graphs: `rgb`, `fuse`, `thermal`, `screen`.

    python -m engines.recipe.export --training runs/substation-rgbt --out build/fp32

Every shape is fixed, images come in as uint8 NHWC, and conversion, normalisation and layout are
inside (a cast first: TensorRT takes 8-bit images at its edge only). Decode and suppression stay outside.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn

from engines.recipe.train.fit import load_checkpoint
from engines.recipe.train.net import FEATURE_CHANNELS, GRID_HW, INPUT_WH, Detector, fold_norms
from engines.recipe.train.screen import load_screen

__all__ = ["FEATURES", "GRAPH_NAMES", "OPSET", "export_graphs"]

OPSET = 18
FEATURES = "rgb_features"
GRAPH_NAMES = ("rgb", "fuse", "thermal", "screen")


class _Rgb(nn.Module):
    def __init__(self, detector: Detector) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, rgb: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        grid = self.detector.rgb_features(rgb)
        scores, boxes = self.detector.head(grid)
        return scores, boxes, grid


class _Fuse(nn.Module):
    def __init__(self, detector: Detector) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, rgb_features: Tensor, thermal: Tensor) -> tuple[Tensor, Tensor]:
        grid = self.detector.fusion(rgb_features, self.detector.thermal_features(thermal))
        scores, boxes = self.detector.head(grid)
        return scores, boxes


class _Thermal(nn.Module):
    def __init__(self, detector: Detector) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, thermal: Tensor) -> tuple[Tensor, Tensor]:
        scores, boxes = self.detector.head(self.detector.thermal_features(thermal))
        return scores, boxes


@dataclass(frozen=True, eq=False)
class _Graph:
    module: nn.Module
    inputs: dict[str, Tensor]
    outputs: tuple[str, ...]


def export_graphs(training: Path, out: Path) -> None:
    """Writes `out/rgb.onnx`, `fuse.onnx`, `thermal.onnx` and `screen.onnx`, checked by ONNX itself.

    Arguments:
        training: folder with `checkpoint.pt` (its averaged weights are used) and `screen.pt`.
        out: folder, made where it is missing.
    """
    detector = load_checkpoint(training / "checkpoint.pt")
    screen = load_screen(training / "screen.pt")
    fold_norms(detector)
    fold_norms(screen)
    width, height = INPUT_WH
    rgb = torch.zeros((1, height, width, 3), dtype=torch.uint8)
    thermal = torch.zeros((1, height, width, 1), dtype=torch.uint8)
    features = torch.zeros((1, FEATURE_CHANNELS, *GRID_HW))
    graphs = {
        "rgb": _Graph(_Rgb(detector), {"rgb": rgb}, ("scores", "boxes", FEATURES)),
        "fuse": _Graph(_Fuse(detector), {FEATURES: features, "thermal": thermal}, ("scores", "boxes")),
        "thermal": _Graph(_Thermal(detector), {"thermal": thermal}, ("scores", "boxes")),
        "screen": _Graph(screen, {"thermal": thermal}, ("score",)),
    }
    out.mkdir(parents=True, exist_ok=True)
    for name in GRAPH_NAMES:
        _export(graphs[name], out / f"{name}.onnx")


def _export(graph: _Graph, path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            graph.module.eval(),
            tuple(graph.inputs.values()),
            path,
            input_names=list(graph.inputs),
            output_names=list(graph.outputs),
            opset_version=OPSET,
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    model = onnx.load(path)
    _forget_origin(model)
    _shorten_names(model)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def _forget_origin(model: onnx.ModelProto) -> None:
    """Drops what the exporter notes of this machine: source lines, paths, stack traces."""
    del model.metadata_props[:]
    del model.graph.metadata_props[:]
    model.doc_string = model.graph.doc_string = ""
    for node in model.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info, *model.graph.initializer):
        value.doc_string = ""
        del value.metadata_props[:]


def _shorten_names(model: onnx.ModelProto) -> None:
    """Drops what every weight's name has in common: names are a tenth of a small INT8 file."""
    short = {
        item.name: item.name.removeprefix("detector.").replace(".0.weight", ".w").replace(".0.bias", ".b")
        for item in model.graph.initializer
    }
    for item in model.graph.initializer:
        item.name = short[item.name]
    for node in model.graph.node:
        for place, name in enumerate(node.input):
            node.input[place] = short.get(name, name)


def main(arguments: list[str] | None = None) -> None:
    """Reads the command line and exports."""
    parser = argparse.ArgumentParser(prog="python -m engines.recipe.export", description=__doc__)
    parser.add_argument("--training", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    export_graphs(options.training, options.out)


if __name__ == "__main__":
    main()
