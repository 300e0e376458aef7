"""Quantises the exported graphs on frames of the training split.

    python -m engines.recipe.quantise --build build --data data

`fuse` is calibrated on the features that the INT8 `rgb` graph gives, as it meets them at run time.
The first convolution of each graph stays in fp32 (with one or three channels to read, integers
save nothing), and so does the screen: it is 30 kB and guards safety.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import onnx

from calibration.int8 import quantise
from engines.recipe.frames import crops_of, feeds
from engines.recipe.train.data import read_pairs

__all__ = ["INT8_GRAPHS", "quantise_graphs"]

_STEM_WEIGHT = "_trunk.stem.0.w"

INT8_GRAPHS = ("rgb", "fuse", "thermal")


def quantise_graphs(build: Path, data: Path, frames: int = 64) -> None:
    """Writes `build/int8/*.onnx` from `build/fp32/*.onnx`, and `build/int8.json` with what was done.

    Arguments:
        build: folder of the export.
        data: rendered data; `train/` is used.
        frames: how many frames, spread over the split.
    """
    pairs = read_pairs(data / "train")
    crops = list(crops_of(pairs[:: max(1, len(pairs) // frames)][:frames]))
    reports = {}
    for name in INT8_GRAPHS:
        fp32, int8 = build / "fp32" / f"{name}.onnx", build / "int8" / f"{name}.onnx"
        stems = [
            node.name
            for node in onnx.load(fp32).graph.node
            if node.op_type == "Conv" and node.input[1].endswith(_STEM_WEIGHT)
        ]
        report = quantise(fp32, int8, feeds(crops, name, build / "int8" / "rgb.onnx"), stems)
        reports[name] = {
            "frames": len(crops),
            "quantised_convolutions": len(report.quantised),
            "kept_convolutions": list(report.kept),
            "nbytes_fp32": report.nbytes_fp32,
            "nbytes_int8": report.nbytes_int8,
        }
        print(name, reports[name], flush=True)
    (build / "int8.json").write_text(json.dumps(reports, indent=1) + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    """Reads the command line and quantises."""
    parser = argparse.ArgumentParser(prog="python -m engines.recipe.quantise", description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--frames", type=int, default=64)
    options = parser.parse_args(arguments)
    quantise_graphs(options.build, options.data, options.frames)


if __name__ == "__main__":
    main()
