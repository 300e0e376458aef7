"""Toy bundles for tests: real ONNX files whose answers a test controls by brightness.

The pictures are cut into cells of `STRIDE` pixels. A cell of mean brightness v gives a detection of
probability `toy_score(v)` whose box is that cell. In the fusion bundle

- class "bright" follows the RGB picture: graphs `rgb` and `fuse` see it, `thermal` does not;
- class "hot" follows the 8-bit thermal picture (its median is `MEDIAN_VALUE`): graphs `fuse` and
  `thermal` see it, `rgb` does not;
- the optional graph `screen` gives the logit of the hottest cell.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edge_sdk.engine.author import describe_graph, new_single_bundle, write_manifest

STRIDE = 8
MEDIAN_VALUE = 90.0
_MIDDLE, _SLOPE = 128.0, 1 / 16
_NEVER = -20.0
_OPSET = 17


def toy_score(brightness: float) -> float:
    """Probability that a cell of this mean brightness (0 - 255) gets from a toy graph."""
    return float(1 / (1 + np.exp(-(brightness - _MIDDLE) * _SLOPE)))


def write_toy_fusion_bundle(
    path: Path,
    size_wh: tuple[int, int] = (64, 48),
    *,
    screen: bool = False,
    twin: bool = True,
    gate: dict[str, Any] | None = None,
    registration: dict[str, Any] | None = None,
) -> Path:
    """Writes a fusion bundle of graphs `rgb`, `fuse`, `thermal` and perhaps `screen`; returns its folder.

    Its files claim int8 and have fp32 twins that answer alike (unless `twin` is false: then fp32 alone).
    """
    path.mkdir(parents=True, exist_ok=True)
    meanings = {"rgb": "rgb", "thermal": "thermal", "features": "features"}
    meanings |= {"scores": "scores", "boxes": "boxes", "hot": "screen"}
    graphs = {}
    for name in ("rgb", "fuse", "thermal", *(["screen"] if screen else [])):
        model = _screen_graph(size_wh) if name == "screen" else _detector_graph(name, size_wh)
        edges = [edge.name for edge in (*model.graph.input, *model.graph.output)]
        save_model(model, path / f"{name}.onnx")
        if twin:
            model.doc_string = "the fp32 twin"
            save_model(model, path / f"{name}.fp32.onnx")
        graphs[name] = describe_graph(
            path,
            f"{name}.onnx",
            {edge: meanings[edge] for edge in edges},
            precision="int8" if twin else "fp32",
            twin=f"{name}.fp32.onnx" if twin else None,
        )
    tables: dict[str, Any] = {
        "bundle": {
            "name": path.name,
            "version": "0.0.1",
            "description": "a toy: finds bright cells",
            "kind": "fusion",
            "licence": "Apache-2.0",
        },
        "classes": [
            {"name": "bright", "visible_in": ["rgb"]},
            {"name": "hot", "visible_in": ["thermal"]},
        ],
        "images": {"rgb_size_wh": list(size_wh), "thermal_size_wh": list(size_wh)},
        "radiometry": {"offset": MEDIAN_VALUE, "gain": 38.0, "scale_k": 2.0, "netd_k": 0.05},
        "decode": {"kind": "grid", "stride": STRIDE, "score_min": 0.3},
        "gate": gate or {},
        "graphs": graphs,
        "provenance": {"data": "none", "weights": "written by hand", "seed": 0},
    }
    if registration is not None:
        tables["registration"] = registration
    write_manifest(path, tables)
    return path


def write_toy_single_bundle(
    path: Path,
    reads: str = "rgb",
    size_wh: tuple[int, int] = (64, 48),
    *,
    dtype: str = "uint8",
    layout: str = "nhwc",
) -> Path:
    """Writes a bundle of one grid graph over "rgb", "thermal" or "rgb+thermal"; returns its folder.

    Its class "bright" follows the mean brightness of all channels. A float graph wants pixels / 255.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    model = single_graph(reads, size_wh, dtype=dtype, layout=layout)
    exported = save_model(model, path.with_name(f"{path.name}.exported.onnx"))
    return new_single_bundle(exported, path, name=path.name, classes=["bright"], reads=reads, decode="grid")


def single_graph(
    reads: str, size_wh: tuple[int, int], *, dtype: str = "uint8", layout: str = "nhwc"
) -> onnx.ModelProto:
    """Makes the graph of `write_toy_single_bundle`."""
    channels = {"rgb": 3, "thermal": 1, "rgb+thermal": 4}[reads]
    width, height = size_wh
    shape = [1, height, width, channels] if layout == "nhwc" else [1, channels, height, width]
    nodes = _brightness("image", "mean", layout, 1.0 if dtype == "uint8" else 255.0)
    nodes += _logits("mean", "scores") + _unit_boxes("mean")
    rows, columns = height // STRIDE, width // STRIDE
    return _model(
        nodes,
        [_edge("image", dtype, shape)],
        [_edge("scores", "float32", [1, 1, rows, columns]), _edge("boxes", "float32", [1, 4, rows, columns])],
    )


def save_model(model: onnx.ModelProto, path: Path) -> Path:
    """Writes a model after checking it."""
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    return path


def _detector_graph(name: str, size_wh: tuple[int, int]) -> onnx.ModelProto:
    width, height = size_wh
    rows, columns = height // STRIDE, width // STRIDE
    cells = [1, 1, rows, columns]
    inputs, outputs, nodes = [], [], []
    bright = hot = ""
    if name == "rgb":
        inputs.append(_edge("rgb", "uint8", [1, height, width, 3]))
        outputs.append(_edge("features", "float32", cells))
        nodes += _brightness("rgb", "features", "nhwc")
        bright = "features"
    else:
        inputs.append(_edge("thermal", "uint8", [1, height, width, 1]))
        nodes += _brightness("thermal", "heat", "nhwc")
        hot = "heat"
    if name == "fuse":
        inputs.append(_edge("features", "float32", cells))
        bright = "features"
    some = bright or hot
    for source, target in ((bright, "bright_logit"), (hot, "hot_logit")):
        nodes += _logits(source, target) if source else _never(some, target)
    nodes.append(helper.make_node("Concat", ["bright_logit", "hot_logit"], ["scores"], axis=1))
    nodes += _unit_boxes(some)
    outputs.append(_edge("scores", "float32", [1, 2, rows, columns]))
    outputs.append(_edge("boxes", "float32", [1, 4, rows, columns]))
    return _model(nodes, inputs, outputs)


def _screen_graph(size_wh: tuple[int, int]) -> onnx.ModelProto:
    width, height = size_wh
    nodes = _brightness("thermal", "heat", "nhwc") + _logits("heat", "logit")
    nodes.append(helper.make_node("GlobalMaxPool", ["logit"], ["hot"]))
    return _model(
        nodes, [_edge("thermal", "uint8", [1, height, width, 1])], [_edge("hot", "float32", [1, 1, 1, 1])]
    )


def _brightness(source: str, target: str, layout: str, factor: float = 1.0) -> list[onnx.NodeProto]:
    """Mean over all channels of each cell, times `factor`: [1, 1, rows, columns]."""
    nodes = [helper.make_node("Cast", [source], [f"{target}_float"], to=TensorProto.FLOAT)]
    last = f"{target}_float"
    if layout == "nhwc":
        nodes.append(helper.make_node("Transpose", [last], [f"{target}_nchw"], perm=[0, 3, 1, 2]))
        last = f"{target}_nchw"
    nodes += [
        helper.make_node("ReduceMean", [last], [f"{target}_grey"], axes=[1], keepdims=1),
        helper.make_node(
            "AveragePool",
            [f"{target}_grey"],
            [f"{target}_cells"],
            kernel_shape=[STRIDE, STRIDE],
            strides=[STRIDE, STRIDE],
        ),
        _constant(f"{target}_factor", factor),
        helper.make_node("Mul", [f"{target}_cells", f"{target}_factor"], [target]),
    ]
    return nodes


def _logits(source: str, target: str) -> list[onnx.NodeProto]:
    return [
        _constant(f"{target}_middle", _MIDDLE),
        _constant(f"{target}_slope", _SLOPE),
        helper.make_node("Sub", [source, f"{target}_middle"], [f"{target}_shifted"]),
        helper.make_node("Mul", [f"{target}_shifted", f"{target}_slope"], [target]),
    ]


def _never(like: str, target: str) -> list[onnx.NodeProto]:
    return _filled(like, target, _NEVER)


def _unit_boxes(like: str) -> list[onnx.NodeProto]:
    """Half a stride to each side: every box is its cell."""
    nodes = _filled(like, "half", 0.5)
    return [*nodes, helper.make_node("Concat", ["half"] * 4, ["boxes"], axis=1)]


def _filled(like: str, target: str, value: float) -> list[onnx.NodeProto]:
    return [
        _constant(f"{target}_zero", 0.0),
        _constant(f"{target}_value", value),
        helper.make_node("Mul", [like, f"{target}_zero"], [f"{target}_nothing"]),
        helper.make_node("Add", [f"{target}_nothing", f"{target}_value"], [target]),
    ]


def _constant(name: str, value: float) -> onnx.NodeProto:
    return helper.make_node(
        "Constant", [], [name], value=numpy_helper.from_array(np.array(value, dtype=np.float32), name)
    )


def _edge(name: str, dtype: str, shape: list[int]) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, kind, shape)


def _model(
    nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto]
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "toy", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)


def model_giving(folder: Path, **outputs: np.ndarray) -> Path:
    """An RGB model of 64x48 that answers every picture with these arrays."""
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 48, 64])
    nodes = [
        helper.make_node("ReduceMean", ["image"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "nothing"], ["zero"]),
    ]
    constants = [helper.make_tensor("nothing", TensorProto.FLOAT, [], [0.0])]
    declared = []
    for name, array in outputs.items():
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        constants.append(numpy_helper.from_array(array, f"{name}_values"))
        nodes.append(helper.make_node("Cast", ["zero"], [f"{name}_zero"], to=kind))
        nodes.append(helper.make_node("Add", [f"{name}_values", f"{name}_zero"], [name]))
        declared.append(helper.make_tensor_value_info(name, kind, array.shape))
    graph = helper.make_graph(nodes, "fixed", [image], declared, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return save_model(model, folder / "model.onnx")


def yolo(scores: np.ndarray | None = None, boxes: np.ndarray | None = None, rows: int = 63) -> np.ndarray:
    """A plausible head [1, n, 6] for two classes: centres over the picture, small boxes, low scores."""
    random = np.random.default_rng(1)
    found = np.empty((1, rows, 6), np.float32)
    found[0, :, :2] = random.uniform((0, 0), (64, 48), (rows, 2))
    found[0, :, 2:4] = random.uniform(4, 20, (rows, 2))
    found[0, :, 4:] = random.uniform(0, 0.2, (rows, 2))
    if scores is not None:
        found[0, :, 4:] = scores
    if boxes is not None:
        found[0, :, :4] = boxes
    return found
