"""Writing a bundle: from ONNX files to a manifest that loads."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edge_sdk.engine.bundle import load_bundle
from edge_sdk.engine.manifest import IMAGE_MEANINGS, MANIFEST_NAME, SCHEMA, GraphFile
from edge_sdk.engine.onnx_runner import OnnxRunner, graph_edges
from edge_sdk.engine.onnx_scan import scan_onnx
from edge_sdk.engine.output_checks import run_and_check
from edge_sdk.engine.parse import MAX_FILE_NBYTES, parse_manifest
from edge_sdk.engine.verify import read_inside, sha256_of
from edge_sdk.errors import ConfigError
from edge_sdk.tensors import TensorSpec

__all__ = ["describe_graph", "new_single_bundle", "to_toml", "write_manifest"]

_QUANTISED = frozenset({"QuantizeLinear", "DequantizeLinear", "QLinearConv", "ConvInteger"})
_CHANNELS = {3: "rgb", 1: "thermal", 4: "rgb+thermal"}


def describe_graph(
    folder: Path,
    file: str,
    meanings: Mapping[str, str],
    *,
    precision: str | None = None,
    twin: str | None = None,
    normalisation: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Makes the manifest's table of one graph from its ONNX file, for `write_manifest`.

    Arguments:
        folder: the bundle's folder.
        file: the ONNX file, from there.
        meanings: tensor name -> meaning, for every input and output.
        precision: None to tell it from the operators and dtypes.
        twin: file of the same graph in fp32, from `folder`.
        normalisation: `scale`, `mean`, `std` of its float images.

    Raises:
        ConfigError: a tensor without a meaning, or a meaning without a tensor.
        EngineIntegrityError, EngineMismatchError: the file is no graph that can run.
    """
    data = read_inside(folder, file, MAX_FILE_NBYTES)
    table = _graph_table(data, folder / file, file, meanings, precision, normalisation)
    if twin is not None:
        table["fp32"] = _file_table(twin, read_inside(folder, twin, MAX_FILE_NBYTES))
    return table


def write_manifest(folder: Path, tables: Mapping[str, Any]) -> Path:
    """Writes `bundle.toml` after checking it as a loader would.

    Arguments:
        folder: the bundle's folder, with its ONNX files.
        tables: the manifest, laid out as in `edge_sdk.engine.manifest`.

    Returns: the file written.

    Raises:
        ManifestError: the manifest would not load. Nothing was written.
    """
    path = folder / MANIFEST_NAME
    path.write_bytes(_checked_text(tables, path))
    return path


def new_single_bundle(
    onnx: Path,
    folder: Path,
    *,
    name: str,
    classes: Sequence[str],
    reads: str = "rgb",
    decode: str = "yolo",
    description: str = "",
    licence: str = "unknown",
    scale: float = 1 / 255,
    mean: Sequence[float] = (0.0,),
    std: Sequence[float] = (1.0,),
    output_meanings: Mapping[str, str] | None = None,
) -> Path:
    """Writes a bundle around a user's own ONNX detector.

    Arguments:
        onnx: the model; copied into the folder.
        folder: created; if it is there it must be empty.
        name, description, licence: of the bundle.
        classes: in the order of the model's outputs.
        reads: "rgb", "thermal" or "rgb+thermal".
        decode: "grid", "yolo" or "boxes", see `edge_sdk.postprocess.DecodeSpec`.
        scale, mean, std: what a float model wants done to 8-bit pixels.
        output_meanings: output name -> meaning; only needed where names and shapes do not tell.

    Returns: the folder.

    Raises:
        ConfigError: the folder is not empty, the file cannot be read, or a meaning cannot be told.
        EngineIntegrityError, EngineMismatchError, ManifestError: the model cannot be used; says why.
        OutputError, ShapeError: run once, its outputs do not mean what `decode` says. Nothing is left.
    """
    if (folder / MANIFEST_NAME).exists():
        raise ConfigError(
            f"{folder}: holds a {MANIFEST_NAME} already. Choose another folder, or remove it first."
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            f"{folder}: there already and not empty; a bundle is a folder of its own. Give one that is not "
            f"there yet, e.g. {folder / name}"
        )
    data = read_inside(onnx.resolve().parent, onnx.resolve().name, MAX_FILE_NBYTES)
    scan_onnx(data, onnx)
    inputs, outputs = graph_edges(data, onnx)
    meanings = {
        **_input_meanings(inputs, reads),
        **_output_meanings(outputs, decode, len(classes), output_meanings or {}),
    }
    file = f"{reads.replace('+', '-')}.onnx"
    normalisation = {"scale": scale, "mean": list(mean), "std": list(std)}
    graph = _graph_table(data, onnx, file, meanings, None, normalisation)
    sizes = {
        f"{camera}_size_wh": _image_size_wh(table)
        for table in graph["inputs"]
        for camera in table["meaning"].split("+")
    }
    cameras = sorted(key.removesuffix("_size_wh") for key in sizes)
    tables = {
        "bundle": {
            "name": name,
            "version": "1.0.0",
            "description": description or f"{onnx.name}, {reads}",
            "kind": "single",
            "licence": licence,
        },
        "classes": [{"name": item, "visible_in": cameras} for item in classes],
        "images": sizes,
        "decode": {"kind": decode},
        "graphs": {"detector": graph},
    }
    _checked_text(tables, folder / MANIFEST_NAME)
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_bytes(data)
    manifest = write_manifest(folder, tables)
    try:
        _try_out(folder)
    except BaseException:
        manifest.unlink()
        (folder / file).unlink()
        if made:
            folder.rmdir()
        raise
    return folder


def _try_out(folder: Path) -> None:
    """Runs the new bundle once: a model laid out otherwise than told is refused now, not in the field."""
    bundle = load_bundle(str(folder))
    with OnnxRunner(bundle) as runner:
        for graph in runner.graphs:
            run_and_check(runner, bundle.manifest, graph)


def to_toml(values: Mapping[str, Any], prefix: str = "") -> str:
    """Writes nested mappings, lists and plain values as TOML; the inverse of reading it.

    Raises:
        TypeError: a value that TOML has no form for (bugs stay plain exceptions).
    """
    plain, inner = [], []
    for key, value in values.items():
        name = _key(key)
        if isinstance(value, Mapping):
            inner.append(f"\n[{prefix}{name}]\n{to_toml(value, f'{prefix}{name}.')}")
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            inner.extend(f"\n[[{prefix}{name}]]\n{to_toml(item, f'{prefix}{name}.')}" for item in value)
        else:
            plain.append(f"{name} = {_value(value)}\n")
    return "".join(plain + inner)


def _checked_text(tables: Mapping[str, Any], path: Path) -> bytes:
    text = to_toml({"schema": SCHEMA, **tables}).encode("utf-8")
    parse_manifest(text, path)
    return text


def _graph_table(
    data: bytes,
    path: Path,
    file: str,
    meanings: Mapping[str, str],
    precision: str | None,
    normalisation: Mapping[str, Any] | None,
) -> dict[str, Any]:
    facts = scan_onnx(data, path)
    inputs, outputs = graph_edges(data, path)
    names = [spec.name for spec in (*inputs, *outputs)]
    if set(names) != set(meanings):
        raise ConfigError(f"{path}: tensors are {', '.join(names)}, meanings given for {', '.join(meanings)}")
    if precision is None:
        half = any(spec.dtype == "float16" for spec in (*inputs, *outputs))
        precision = "int8" if facts.operators & _QUANTISED else "fp16" if half else "fp32"
    return {
        **_file_table(file, data),
        "precision": precision,
        "opset": facts.opset,
        "inputs": [_tensor_table(spec, meanings[spec.name], normalisation) for spec in inputs],
        "outputs": [_tensor_table(spec, meanings[spec.name], None) for spec in outputs],
    }


def _key(key: str) -> str:
    bare = key and all(char.isascii() and (char.isalnum() or char in "-_") for char in key)
    return key if bare else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)) and math.isfinite(value):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + " }"
    raise TypeError(f"TOML has no form for {value!r}")


def _file_table(file: str, data: bytes) -> dict[str, Any]:
    item = GraphFile(file, sha256_of(data), len(data))
    return {"file": item.file, "sha256": item.sha256, "nbytes": item.nbytes}


def _tensor_table(spec: TensorSpec, meaning: str, normalisation: Mapping[str, Any] | None) -> dict[str, Any]:
    image = meaning in IMAGE_MEANINGS
    plain = "nchw" if len(spec.shape) == 4 else "n" + "x" * (len(spec.shape) - 1)
    table: dict[str, Any] = {
        "name": spec.name,
        "dtype": spec.dtype,
        "shape": list(spec.shape),
        "layout": _image_layout(spec) if image else plain,
        "meaning": meaning,
    }
    if image and spec.dtype.startswith("float") and normalisation is not None:
        table.update(normalisation)
    return table


def _image_layout(spec: TensorSpec) -> str:
    last = len(spec.shape) == 4 and spec.shape[3] in _CHANNELS and spec.shape[1] not in _CHANNELS
    return "nhwc" if last else "nchw"


def _image_size_wh(table: Mapping[str, Any]) -> list[int]:
    shape = table["shape"]
    if len(shape) != 4:
        raise ConfigError(f"input {table['name']!r}: expected an image of 4 dimensions, found {shape}")
    height, width = shape[1:3] if table["layout"] == "nhwc" else shape[2:4]
    return [width, height]


def _input_meanings(inputs: Sequence[TensorSpec], reads: str) -> dict[str, str]:
    if len(inputs) == 1:
        return {inputs[0].name: reads}
    if reads == "rgb+thermal" and len(inputs) == 2:
        meanings = {}
        for spec in inputs:
            at = 3 if _image_layout(spec) == "nhwc" else 1
            meanings[spec.name] = _CHANNELS.get(spec.shape[at] if len(spec.shape) == 4 else 0, "")
        if sorted(meanings.values()) == ["rgb", "thermal"]:
            return meanings
    found = "; ".join(map(str, inputs))
    raise ConfigError(
        f"the model's inputs are {found}: expected one image, or for rgb+thermal one image of 4 channels "
        "or two of 3 and 1 channels"
    )


def _output_meanings(
    outputs: Sequence[TensorSpec], decode: str, classes: int, given: Mapping[str, str]
) -> dict[str, str]:
    """Tells outputs apart by what the caller says, then by name, then by shape and dtype."""
    if given:
        return dict(given)
    if decode == "yolo" and len(outputs) == 1:
        return {outputs[0].name: "predictions"}
    meanings: dict[str, str] = {}
    for spec in outputs:
        name = spec.name.lower()
        if "score" in name or "conf" in name:
            meaning = "scores"
        elif "box" in name:
            meaning = "boxes"
        elif "label" in name or "class" in name:
            meaning = "labels"
        elif decode == "grid":
            meaning = "boxes" if spec.shape[1:2] == (4,) and classes != 4 else "scores"
        elif len(spec.shape) == 3:
            meaning = "boxes"
        else:
            meaning = "labels" if spec.dtype.startswith("int") else "scores"
        meanings[spec.name] = meaning
    wanted = {"grid": 2, "boxes": 3}.get(decode, 1)
    if len(outputs) != wanted or len(set(meanings.values())) != wanted:
        raise ConfigError(
            f"the meaning of the outputs cannot be told for decode {decode!r} from "
            f"{'; '.join(map(str, outputs))}. Say it: --output NAME=MEANING, once an output."
        )
    return meanings
