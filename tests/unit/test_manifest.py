"""Manifests: what is read, and that every fault names its key, what stands there and what is wanted."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sdk.engine.author import to_toml
from edge_sdk.engine.manifest import Manifest
from edge_sdk.engine.parse import MAX_FILE_NBYTES, parse_manifest
from edge_sdk.errors import ConfigError, ManifestError
from edge_sdk.postprocess import DecodeSpec
from edge_sdk.routing import GateConfig

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PATH = Path("bundle.toml")


@pytest.fixture(scope="module")
def fusion(toy_fusion: Path) -> dict[str, Any]:
    """The tables of a sound fusion manifest with everything optional in it."""
    tables = tomllib.loads((toy_fusion / "bundle.toml").read_text("utf-8"))
    tables["registration"] = {
        "homography": [[1, 0, 2], [0, 1, 0], [0, 0, 1]],
        "rgb_size_wh": [64, 48],
        "thermal_size_wh": [64, 48],
        "depth_m": 10,
    }
    tables["accuracy"] = [{"data": "d", "metric": "AP50", "figures": {"int8": {"fuse": 0.5}}}]
    tables["decode"]["score_calibration"] = {"rgb": {"bright": [1.5, -0.25]}}
    tables["gate"] = {"rgb_confidence_min": 0.7, "calibrated_how": "by hand"}
    return tables


@pytest.fixture(scope="module")
def single(toy_single: Path) -> dict[str, Any]:
    """The tables of a sound single-graph manifest."""
    return tomllib.loads((toy_single / "bundle.toml").read_text("utf-8"))


def parse(tables: dict[str, Any]) -> Manifest:
    return parse_manifest(to_toml(tables).encode(), PATH)


def test_everything_is_read(fusion: dict[str, Any]) -> None:
    manifest = parse(fusion)
    assert manifest.class_names == ("bright", "hot")
    assert manifest.classes[1].visible_in == ("thermal",)
    assert tuple(manifest.graphs) == ("rgb", "fuse", "thermal", "screen")
    assert manifest.graphs["fuse"].reads == {"thermal"}
    assert manifest.graphs["rgb"].precisions == ("int8", "fp32")
    assert manifest.producers == {"features": "rgb"}
    assert len(manifest.files) == 8
    assert manifest.radiometry.offset == 90.0
    assert manifest.registration is not None
    assert manifest.registration.origin == "bundle"
    assert manifest.registration.depth_m == 10.0
    assert manifest.decode == DecodeSpec(stride=8, score_calibration={"rgb": {"bright": (1.5, -0.25)}})
    assert manifest.gate == GateConfig(rgb_confidence_min=0.7, calibrated_how="by hand")
    assert manifest.accuracy[0].figures == {"int8": {"fuse": 0.5}}
    assert manifest.provenance["seed"] == 0


def test_precisions_are_found_by_name(fusion: dict[str, Any], single: dict[str, Any]) -> None:
    graph = parse(fusion).graphs["rgb"]
    assert graph.file_for() == graph.file_for("int8") == graph.source
    assert graph.file_for("fp32") == graph.twin
    with pytest.raises(ConfigError, match="'fp16'; choose int8 or fp32"):
        graph.file_for("fp16")
    with pytest.raises(ConfigError, match="choose fp32"):
        parse(single).graphs["detector"].file_for("int8")


def test_the_example_in_the_documentation_is_sound() -> None:
    import edge_sdk.engine.manifest as module

    blocks = [line[4:] for line in (module.__doc__ or "").splitlines() if line.startswith("    ")]
    example = "\n".join(blocks).replace("9f86d0...", "9f86d0".ljust(64, "0"))
    manifest = parse_manifest(example.encode(), PATH)
    assert manifest.name == "my-detector"
    assert manifest.registration is not None
    assert manifest.accuracy[0].figures["int8"] == {"fuse": 0.81}


def _set(*keys: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(tables: Any) -> None:
        for key in keys[:-1]:
            tables = tables[key]
        tables[keys[-1]] = to

    return change


def _drop(*keys: str | int) -> Callable[[dict[str, Any]], None]:
    def change(tables: Any) -> None:
        for key in keys[:-1]:
            tables = tables[key]
        del tables[keys[-1]]

    return change


RGB_INPUT = ("graphs", "rgb", "inputs", 0)

FUSION_FAULTS = {
    "newer schema": (_set("schema", to=2), "schema", "expected 1, found 2"),
    "no schema": (_drop("schema"), "schema", "found nothing"),
    "schema as text": (_set("schema", to="1"), "schema", "a whole number"),
    "unknown top key": (_set("gates", to={}), "gates", "Did you mean 'gate'?"),
    "unknown key in gate": (
        _set("gate", "rgb_confidence", to=0.5),
        "gate.rgb_confidence",
        "Did you mean 'rgb_confidence_min'?",
    ),
    "unknown key in decode": (_set("decode", "nms", to=0.5), "decode.nms", "nms_iou"),
    "unknown key in provenance": (_set("provenance", "licence", to="x"), "provenance.licence", "licences"),
    "gate out of range": (_set("gate", "rgb_confidence_min", to=1.5), "gate", "found 1.5"),
    "gate of wrong type": (_set("gate", "hot_hold_frames", to=2.5), "gate.hot_hold_frames", "whole number"),
    "gate as boolean": (_set("gate", "dark_below", to=True), "gate.dark_below", "found True"),
    "decode kind": (_set("decode", "kind", to="ssd"), "decode", "one of grid, yolo, boxes"),
    "calibration of unknown graph": (
        _set("decode", "score_calibration", to={"rgbb": {"bright": [1, 0]}}),
        "decode.score_calibration.rgbb",
        "Did you mean 'rgb'?",
    ),
    "calibration of unknown class": (
        _set("decode", "score_calibration", to={"rgb": {"brigth": [1, 0]}}),
        "decode.score_calibration.rgb.brigth",
        "Did you mean 'bright'?",
    ),
    "calibration too short": (
        _set("decode", "score_calibration", to={"rgb": {"bright": [1]}}),
        "decode.score_calibration.rgb.bright",
        "expected 2 numbers",
    ),
    "bad name": (_set("bundle", "name", to="../x"), "bundle.name", "'../x'"),
    "bad kind": (_set("bundle", "kind", to="fused"), "bundle.kind", "Did you mean 'fusion'?"),
    "missing licence": (_drop("bundle", "licence"), "bundle.licence", "Add bundle.licence"),
    "misspelt licence": (
        lambda tables: tables["bundle"].update(license=tables["bundle"].pop("licence")),
        "bundle.licence",
        "Was 'license' meant to be it?",
    ),
    "no classes": (_set("classes", to=[]), "classes", "1 - 1000 classes"),
    "class twice": (_set("classes", 1, "name", to="bright"), "classes[1].name", "no other class"),
    "class nobody sees": (_set("classes", 0, "visible_in", to=["radar"]), "classes[0].visible_in", "radar"),
    "too few classes": (_drop("classes", 1), "graphs.rgb.outputs", "for 1 classes"),
    "size of one number": (_set("images", "rgb_size_wh", to=[64]), "images.rgb_size_wh", "[width, height]"),
    "negative size": (_set("images", "rgb_size_wh", to=[-64, 48]), "images.rgb_size_wh", "1 - 16384"),
    "sizes that differ": (
        _set("images", "thermal_size_wh", to=[32, 48]),
        "images.thermal_size_wh",
        "(32, 48)",
    ),
    "size not the graph's": (
        lambda tables: tables["images"].update(rgb_size_wh=[48, 64], thermal_size_wh=[48, 64]),
        "images.rgb_size_wh",
        "[64, 48], as graph 'rgb' reads it",
    ),
    "no radiometry": (_drop("radiometry"), "radiometry", "a table"),
    "radiometry without noise": (_set("radiometry", "netd_k", to=0), "radiometry.netd_k", "above 0"),
    "infinite gain": (_set("radiometry", "gain", to=10**30), "radiometry.gain", "finite"),
    "flat homography": (
        _set("registration", "homography", to=[[0, 0, 0]] * 3),
        "registration.homography",
        "invertible",
    ),
    "short homography": (
        _set("registration", "homography", to=[[1, 0], [0, 1]]),
        "registration.homography",
        "3 rows",
    ),
    "depth of zero": (_set("registration", "depth_m", to=0), "registration.depth_m", "above 0"),
    "missing graph": (_drop("graphs", "thermal"), "graphs.thermal", "Add it, or set bundle.kind to 'single'"),
    "misspelt graph": (
        lambda tables: tables["graphs"].update(screens=tables["graphs"].pop("screen")),
        "graphs.screens",
        "Did you mean 'screen'?",
    ),
    "graph name": (
        lambda tables: tables["graphs"].update({"a/b": tables["graphs"].pop("screen")}),
        "graphs.a/b",
        "letters",
    ),
    "absolute path": (
        _set("graphs", "rgb", "file", to="/etc/passwd"),
        "graphs.rgb.file",
        "inside the bundle",
    ),
    "path to parent": (
        _set("graphs", "rgb", "file", to="../rgb.onnx"),
        "graphs.rgb.file",
        "inside the bundle",
    ),
    "parent in the middle": (
        _set("graphs", "rgb", "file", to="a/../../rgb.onnx"),
        "graphs.rgb.file",
        "inside the bundle",
    ),
    "windows path": (
        _set("graphs", "rgb", "file", to="C:\\rgb.onnx"),
        "graphs.rgb.file",
        "inside the bundle",
    ),
    "null in path": (_set("graphs", "rgb", "file", to="rgb\0.onnx"), "graphs.rgb.file", "inside the bundle"),
    "folder as path": (_set("graphs", "rgb", "file", to="."), "graphs.rgb.file", "inside the bundle"),
    "short hash": (_set("graphs", "rgb", "sha256", to="abc"), "graphs.rgb.sha256", "64 hexadecimal digits"),
    "oversize": (_set("graphs", "rgb", "nbytes", to=MAX_FILE_NBYTES + 1), "graphs.rgb.nbytes", "536870912"),
    "empty file": (_set("graphs", "rgb", "nbytes", to=0), "graphs.rgb.nbytes", "1 - 536870912"),
    "too much together": (
        lambda tables: [graph.update(nbytes=MAX_FILE_NBYTES) for graph in tables["graphs"].values()],
        "graphs",
        "at most 1073741824 bytes together",
    ),
    "one file, two hashes": (
        lambda tables: tables["graphs"]["fuse"].update(file="rgb.onnx"),
        "graphs.rgb",
        "one size and SHA-256 for rgb.onnx",
    ),
    "precision": (_set("graphs", "rgb", "precision", to="int4"), "graphs.rgb.precision", "int8, fp16, fp32"),
    "twin beside fp32": (_set("graphs", "rgb", "precision", to="fp32"), "graphs.rgb.fp32", "no fp32 twin"),
    "dtype": (_set(*RGB_INPUT, "dtype", to="uint9"), "graphs.rgb.inputs[0].dtype", "Did you mean 'uint8'?"),
    "float in a fusion bundle": (
        _set(*RGB_INPUT, "dtype", to="float32"),
        "graphs.rgb.inputs",
        "Put conversion, normalisation and layout inside",
    ),
    "integer dtype of an image": (
        _set(*RGB_INPUT, "dtype", to="int64"),
        "graphs.rgb.inputs[0].dtype",
        "uint8 (fast)",
    ),
    "scale of a uint8 image": (
        _set(*RGB_INPUT, "scale", to=0.5),
        "graphs.rgb.inputs[0].scale",
        "no such key",
    ),
    "layout": (_set(*RGB_INPUT, "layout", to="hwc"), "graphs.rgb.inputs[0].layout", '"nhwc" (fast)'),
    "meaning": (_set(*RGB_INPUT, "meaning", to="therml"), "graphs.rgb.inputs[0].meaning", "'thermal'"),
    "wrong camera": (_set(*RGB_INPUT, "meaning", to="thermal"), "graphs.rgb.inputs", "one rgb image"),
    "channels": (
        _set(*RGB_INPUT, "shape", to=[1, 48, 64, 4]),
        "graphs.rgb.inputs[0].shape",
        "[1, height, width, 3]",
    ),
    "batch": (_set(*RGB_INPUT, "shape", to=[2, 48, 64, 3]), "graphs.rgb.inputs[0].shape", "[1, height"),
    "dynamic shape": (_set(*RGB_INPUT, "shape", to=[1, -1, 64, 3]), "graphs.rgb.inputs[0].shape", "whole"),
    "huge tensor": (
        _set("graphs", "rgb", "outputs", 0, "shape", to=[1, 1 << 20, 1 << 20]),
        "graphs.rgb.outputs[0].shape",
        "at most 268435456 bytes",
    ),
    "tensor twice": (
        _set("graphs", "rgb", "outputs", 1, "name", to="boxes"),
        "graphs.rgb",
        "2 named 'boxes'",
    ),
    "no inputs": (_set("graphs", "rgb", "inputs", to=[]), "graphs.rgb.inputs", "1 - 64 tensors"),
    "features nobody writes": (
        _set("graphs", "fuse", "inputs", 1, "name", to="feature"),
        "graphs.fuse.inputs",
        "features of graph 'rgb'",
    ),
    "features of another shape": (
        _set("graphs", "fuse", "inputs", 1, "shape", to=[1, 1, 6, 9]),
        "graphs.fuse.inputs",
        "one name, one memory",
    ),
    "scores of another shape": (
        _set("graphs", "rgb", "outputs", 1, "shape", to=[1, 3, 6, 8]),
        "graphs.rgb.outputs",
        "scores [1, 2, rows, columns]",
    ),
    "no scores": (
        _set("graphs", "rgb", "outputs", 1, "meaning", to="labels"),
        "graphs.rgb.outputs",
        "'scores'",
    ),
    "screen of many numbers": (
        _set("graphs", "screen", "outputs", 0, "shape", to=[1, 2]),
        "graphs.screen.outputs",
        "one number",
    ),
    "accuracy as text": (_set("accuracy", 0, "figures", "int8", to="0.5"), "accuracy[0].figures", "finite"),
    "provenance seed": (_set("provenance", "seed", to="x"), "provenance.seed", "whole number"),
    "classes no tables": (_set("classes", to=["a"]), "classes", "tables [[classes]]"),
    "graphs no table": (_set("graphs", "rgb", to=1), "graphs.rgb", "a table [graphs.rgb]"),
}


@pytest.mark.parametrize("fault", FUSION_FAULTS, ids=str)
def test_faults_of_a_fusion_manifest(fusion: dict[str, Any], fault: str) -> None:
    change, key, message = FUSION_FAULTS[fault]
    tables = copy.deepcopy(fusion)
    change(tables)
    with pytest.raises(ManifestError) as caught:
        parse(tables)
    assert caught.value.key == key
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"bundle.toml: {key}: expected ")
    assert caught.value.path == PATH


INPUT = ("graphs", "detector", "inputs", 0)

SINGLE_FAULTS = {
    "two graphs": (
        lambda tables: tables["graphs"].update(other=copy.deepcopy(tables["graphs"]["detector"])),
        "graphs",
        "one graph",
    ),
    "features": (_set(*INPUT, "meaning", to="features"), "graphs.detector.inputs", "images only"),
    "no size": (_drop("images", "rgb_size_wh"), "images.rgb_size_wh", "found nothing"),
    "mean of two": (
        lambda tables: tables["graphs"]["detector"]["inputs"][0].update(dtype="float32", mean=[0, 0]),
        "graphs.detector.inputs[0].mean",
        "1 or 3 numbers",
    ),
    "std of zero": (
        lambda tables: tables["graphs"]["detector"]["inputs"][0].update(dtype="float32", std=[0]),
        "graphs.detector.inputs[0].std",
        "above 0",
    ),
    "yolo without predictions": (
        _set("decode", "kind", to="yolo"),
        "graphs.detector.outputs",
        "'predictions'",
    ),
    "boxes without labels": (_set("decode", "kind", to="boxes"), "graphs.detector.outputs", "'labels'"),
}


@pytest.mark.parametrize("fault", SINGLE_FAULTS, ids=str)
def test_faults_of_a_single_manifest(single: dict[str, Any], fault: str) -> None:
    change, key, message = SINGLE_FAULTS[fault]
    tables = copy.deepcopy(single)
    change(tables)
    with pytest.raises(ManifestError) as caught:
        parse(tables)
    assert caught.value.key == key
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "outputs", "sound"),
    [
        ("yolo", {"predictions": [1, 5, 84]}, True),
        ("yolo", {"predictions": [1, 84, 5]}, True),
        ("yolo", {"predictions": [1, 6, 84]}, False),
        ("boxes", {"boxes": [1, 9, 4], "scores": [1, 9], "labels": [1, 9]}, True),
        ("boxes", {"boxes": [1, 9, 4], "scores": [1, 8], "labels": [1, 9]}, False),
    ],
)
def test_outputs_fit_the_decode_kind(
    single: dict[str, Any], kind: str, outputs: dict[str, list[int]], sound: bool
) -> None:
    tables = copy.deepcopy(single)
    tables["decode"] = {"kind": kind}
    tables["graphs"]["detector"]["outputs"] = [
        {"name": meaning, "dtype": "float32", "shape": shape, "layout": "free", "meaning": meaning}
        for meaning, shape in outputs.items()
    ]
    if sound:
        assert parse(tables).decode.kind == kind
    else:
        with pytest.raises(ManifestError, match=r"graphs\.detector\.outputs"):
            parse(tables)


@pytest.mark.parametrize("number", ["inf", "nan"])
def test_numbers_are_finite(fusion: dict[str, Any], number: str) -> None:
    text = to_toml(fusion).replace("gain = 38.0", f"gain = {number}")
    with pytest.raises(ManifestError, match=r"radiometry\.gain: expected a finite number"):
        parse_manifest(text.encode(), PATH)


@pytest.mark.parametrize(
    "data",
    [
        b"schema = ",
        b"\xff\xfe",
        b"schema = 1\nschema = 1",
        b"a = " + b"[" * 100_000,
        b"a = " + b"9" * 5000,
        b"",
    ],
)
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(ManifestError, match=r"^bundle\.toml: "):
        parse_manifest(data, PATH)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_crash(data: bytes) -> None:
    with pytest.raises(ManifestError):
        parse_manifest(data, PATH)


_VALUES = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    # Control characters are escaped; surrogates are no text.
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab.- \"'é", max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text("abc-. ", min_size=1, max_size=4), _VALUES, max_size=4))
def test_toml_that_is_written_reads_back(values: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(values)) == values


def test_toml_has_no_form_for_none() -> None:
    with pytest.raises(TypeError, match="no form for None"):
        to_toml({"a": None})
