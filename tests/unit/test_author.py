"""Writing bundles: one call from a user's ONNX file to a bundle that loads and runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from bundles import save_model, single_graph, toy_score
from onnx import TensorProto, helper

from edge_sdk.devices import open_runner
from edge_sdk.engine.author import describe_graph, new_single_bundle, write_manifest
from edge_sdk.engine.bundle import load_bundle
from edge_sdk.engine.inputs import GraphInputs
from edge_sdk.errors import ConfigError, EngineIntegrityError, EngineMismatchError, ManifestError

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def outputs_only(tmp_path: Path, outputs: dict[str, tuple[int, list[int]]], inputs: int = 1) -> Path:
    """A model that gives zeros of these dtypes and shapes whatever it reads."""
    edges = [
        helper.make_tensor_value_info(f"image{index}", TensorProto.FLOAT, [1, 3 - 2 * index, 32, 32])
        for index in range(inputs)
    ]
    nodes = [helper.make_node("ReduceMean", [edge.name], [f"mean{edge.name}"], keepdims=0) for edge in edges]
    constants, declared = [helper.make_tensor("nothing", FLOAT, [], [0.0])], []
    nodes.append(helper.make_node("Mul", ["meanimage0", "nothing"], ["zero"]))
    for name, (kind, shape) in outputs.items():
        constants.append(helper.make_tensor(f"{name}_shape", TensorProto.INT64, [len(shape)], shape))
        nodes.append(helper.make_node("Expand", ["zero", f"{name}_shape"], [f"{name}_real"]))
        nodes.append(helper.make_node("Cast", [f"{name}_real"], [name], to=kind))
        declared.append(helper.make_tensor_value_info(name, kind, shape))
    graph = helper.make_graph(nodes, "outputs", edges, declared, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return save_model(model, tmp_path / "model.onnx")


@pytest.mark.parametrize("reads", ["rgb", "thermal", "rgb+thermal"])
@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_users_model_runs_in_one_call(tmp_path: Path, reads: str, layout: str, dtype: str) -> None:
    model = save_model(single_graph(reads, (64, 48), dtype=dtype, layout=layout), tmp_path / "mine.onnx")
    folder = new_single_bundle(model, tmp_path / "b", name="mine", classes=["x"], reads=reads, decode="grid")
    bundle = load_bundle(folder)
    assert bundle.manifest.class_names == ("x",)
    graph = bundle.manifest.graphs["detector"]
    assert graph.inputs[0].layout == layout
    assert graph.reads == set(reads.split("+"))
    runner, _ = open_runner(bundle, "cpu", threads=1)
    with runner:
        inputs = GraphInputs(graph, lambda name: runner.array("detector", name))
        for camera in inputs.meanings:
            inputs.picture(camera).fill(160)
        inputs.commit()
        runner.run("detector")
        logits = runner.array("detector", "scores")
        np.testing.assert_allclose(1 / (1 + np.exp(-logits)), toy_score(160), atol=1e-4)


@pytest.mark.parametrize(
    ("decode", "outputs", "meanings"),
    [
        ("yolo", {"output0": (FLOAT, [1, 6, 84])}, ["predictions"]),
        (
            "boxes",
            {"a": (FLOAT, [1, 9, 4]), "b": (FLOAT, [1, 9]), "c": (INT64, [1, 9])},
            ["boxes", "scores", "labels"],
        ),
        ("grid", {"a": (FLOAT, [1, 2, 4, 4]), "b": (FLOAT, [1, 4, 4, 4])}, ["scores", "boxes"]),
        ("grid", {"box": (FLOAT, [1, 4, 4, 4]), "conf": (FLOAT, [1, 2, 4, 4])}, ["boxes", "scores"]),
    ],
)
def test_outputs_are_told_apart(
    tmp_path: Path, decode: str, outputs: dict[str, tuple[int, list[int]]], meanings: list[str]
) -> None:
    model = outputs_only(tmp_path, outputs)
    folder = new_single_bundle(model, tmp_path / "b", name="n", classes=["x", "y"], decode=decode)
    specs = load_bundle(folder).manifest.graphs["detector"].outputs
    assert [spec.meaning for spec in specs] == meanings


def test_outputs_that_cannot_be_told_are_asked_for(tmp_path: Path) -> None:
    model = outputs_only(tmp_path, {"a": (FLOAT, [1, 4, 4, 4]), "b": (FLOAT, [1, 4, 4, 4])})
    classes = ["w", "x", "y", "z"]
    with pytest.raises(ConfigError, match="Say it: --output NAME=MEANING"):
        new_single_bundle(model, tmp_path / "b", name="n", classes=classes, decode="grid")
    folder = new_single_bundle(
        model,
        tmp_path / "b",
        name="n",
        classes=classes,
        decode="grid",
        output_meanings={"a": "boxes", "b": "scores"},
    )
    assert load_bundle(folder).manifest.graphs["detector"].outputs[0].meaning == "boxes"


def test_two_images_are_told_by_their_channels(tmp_path: Path) -> None:
    model = outputs_only(tmp_path, {"output0": (FLOAT, [1, 6, 84])}, inputs=2)
    folder = new_single_bundle(model, tmp_path / "b", name="n", classes=["x", "y"], reads="rgb+thermal")
    meanings = [spec.meaning for spec in load_bundle(folder).manifest.graphs["detector"].inputs]
    assert meanings == ["rgb", "thermal"]
    with pytest.raises(ConfigError, match="expected one image"):
        new_single_bundle(model, tmp_path / "c", name="n", classes=["x", "y"], reads="rgb")


def test_nothing_is_overwritten(tmp_path: Path, toy_single: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds a bundle\.toml already"):
        new_single_bundle(toy_single / "rgb.onnx", toy_single, name="n", classes=["x"])


def test_a_model_that_cannot_be_used_writes_no_manifest(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(EngineIntegrityError, match="a whole ONNX model"):
        new_single_bundle(tmp_path / "bad.onnx", tmp_path / "b", name="n", classes=["x"])
    dynamic = single_graph("rgb", (64, 48))
    dynamic.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    (tmp_path / "dynamic.onnx").write_bytes(dynamic.SerializeToString())
    with pytest.raises(EngineMismatchError, match="no dynamic axes"):
        new_single_bundle(tmp_path / "dynamic.onnx", tmp_path / "b", name="n", classes=["x"])
    with pytest.raises(EngineIntegrityError, match="missing"):
        new_single_bundle(tmp_path / "none.onnx", tmp_path / "b", name="n", classes=["x"])
    sound = save_model(single_graph("rgb", (64, 48)), tmp_path / "rgb.onnx")
    for wrong in ({"classes": ["x", "y"]}, {"classes": ["x"], "reads": "rgb+thermal"}, {"classes": []}):
        with pytest.raises(ManifestError):
            new_single_bundle(sound, tmp_path / "b", name="n", decode="grid", **wrong)
    assert not (tmp_path / "b").exists()


def test_an_input_that_is_no_image_is_refused(tmp_path: Path) -> None:
    edges = [helper.make_tensor_value_info(name, FLOAT, [1, 6, 8]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "flat", edges[:1], edges[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(ConfigError, match=r"an image of 4 dimensions, found \[1, 6, 8\]"):
        new_single_bundle(
            save_model(model, tmp_path / "m.onnx"), tmp_path / "b", name="n", classes=["a", "b"]
        )


def test_a_manifest_that_would_not_load_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="bundle"):
        write_manifest(tmp_path, {"classes": []})
    assert not (tmp_path / "bundle.toml").exists()


def test_meanings_must_cover_the_tensors(toy_single: Path) -> None:
    with pytest.raises(ConfigError, match="tensors are image, scores, boxes, meanings given for image"):
        describe_graph(toy_single, "rgb.onnx", {"image": "rgb"})


def test_precision_is_told_from_the_file(tmp_path: Path) -> None:
    meanings = {"image": "rgb", "scores": "scores", "boxes": "boxes"}
    for dtype, precision in (("uint8", "fp32"), ("float16", "fp16")):
        save_model(single_graph("rgb", (64, 48), dtype=dtype), tmp_path / "a.onnx")
        assert describe_graph(tmp_path, "a.onnx", meanings)["precision"] == precision
    model = single_graph("rgb", (64, 48))
    model.graph.initializer.extend(
        [helper.make_tensor("s", FLOAT, [], [1.0]), helper.make_tensor("z", TensorProto.INT8, [], [0])]
    )
    model.graph.node.extend(
        [
            helper.make_node("QuantizeLinear", ["boxes", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["dq"]),
        ]
    )
    (tmp_path / "q.onnx").write_bytes(onnx.ModelProto.SerializeToString(model))
    assert describe_graph(tmp_path, "q.onnx", meanings)["precision"] == "int8"


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path, toy_single: Path) -> None:
    (tmp_path / "engines").mkdir()
    (tmp_path / "engines" / "__init__.py").touch()
    with pytest.raises(ConfigError, match=r"not empty; .*e\.g\. .*engines/mine"):
        new_single_bundle(toy_single / "rgb.onnx", tmp_path / "engines", name="mine", classes=["bright"])
    assert [path.name for path in (tmp_path / "engines").iterdir()] == ["__init__.py"]
