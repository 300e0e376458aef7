"""From the text of a manifest to a `Manifest`: every key by type, then each part against the others."""

from __future__ import annotations

import re
import sys
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from edge_sdk.engine.consistency import check
from edge_sdk.engine.inputs import IMAGE_CHANNELS
from edge_sdk.engine.manifest import (
    CAMERAS,
    FEATURES,
    IMAGE_MEANINGS,
    OUTPUT_MEANINGS,
    PRECISIONS,
    SCHEMA,
    Accuracy,
    GraphFile,
    GraphSpec,
    Manifest,
    Normalisation,
    ObjectClass,
)
from edge_sdk.engine.tables import Table
from edge_sdk.errors import ManifestError, ShapeError
from edge_sdk.frames import Registration
from edge_sdk.postprocess import DecodeSpec
from edge_sdk.radiometry import Radiometry
from edge_sdk.routing import GateConfig
from edge_sdk.tensors import DTYPES, TensorSpec

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["MAX_FILE_NBYTES", "MAX_MANIFEST_NBYTES", "parse_manifest"]

MAX_MANIFEST_NBYTES = 1 << 20
"""Largest manifest that is read: 1 MiB."""
MAX_FILE_NBYTES = 512 << 20
"""Largest ONNX file that is read: 512 MiB."""
_MAX_GRAPHS = 8
_MAX_TENSORS = 64
_MAX_TENSOR_NBYTES = 256 << 20
_MAX_DIMENSION = 1 << 24
_MAX_CLASSES = 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_WINDOWS_PATH = re.compile(r"[\\:]")


def parse_manifest(data: bytes, path: Path) -> Manifest:
    """Reads a manifest's bytes.

    Arguments:
        data: the whole file.
        path: where it came from, for messages.

    Raises:
        ManifestError: it is not TOML, a key is missing, unknown or of the wrong type or range, or
            two parts of it contradict each other.
    """
    try:
        values: dict[str, Any] = tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ManifestError(path, "", "a TOML file in UTF-8", f"{error or type(error).__name__}") from error
    top = Table(path, "", values)
    schema = top.whole("schema")
    if schema != SCHEMA:
        raise top.fault("schema", str(SCHEMA), schema, "Use the SDK version that the bundle was made for.")
    about = top.table("bundle")
    name = about.text("name")
    if not _NAME.fullmatch(name):
        raise about.fault("name", "up to 64 letters, digits, '-', '_' and '.'", name)
    version, description = about.text("version"), about.text("description")
    licence, kind = about.text("licence"), about.text("kind", choices=("fusion", "single"))
    about.finish()
    classes = _classes(top)
    rgb_size_wh, thermal_size_wh = _images(top)
    manifest = Manifest(
        name=name,
        version=version,
        description=description,
        licence=licence,
        kind=kind,
        classes=classes,
        graphs=_graphs(top),
        rgb_size_wh=rgb_size_wh,
        thermal_size_wh=thermal_size_wh,
        radiometry=_radiometry(top, kind),
        registration=_registration(top),
        decode=_decode(top),
        gate=top.table("gate").into(GateConfig) if "gate" in top else GateConfig(),
        accuracy=tuple(_accuracy(table) for table in top.tables("accuracy", default=())),
        provenance=_provenance(top),
    )
    top.finish()
    check(manifest, path)
    return manifest


def _classes(top: Table) -> tuple[ObjectClass, ...]:
    found: list[ObjectClass] = []
    for table in top.tables("classes"):
        name = table.text("name")
        visible_in = table.texts("visible_in", default=CAMERAS)
        if not visible_in or not set(visible_in) <= set(CAMERAS):
            raise table.fault("visible_in", 'a list of "rgb" and "thermal"', list(visible_in))
        if any(item.name == name for item in found):
            raise table.fault("name", "a name no other class has", name)
        table.finish()
        found.append(ObjectClass(name, visible_in))
    if not 1 <= len(found) <= _MAX_CLASSES:
        raise top.fault("classes", f"1 - {_MAX_CLASSES} classes", len(found))
    return tuple(found)


def _images(top: Table) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    table = top.table("images")
    sizes = [table.size_wh(key) if key in table else None for key in ("rgb_size_wh", "thermal_size_wh")]
    table.finish()
    return sizes[0], sizes[1]


def _radiometry(top: Table, kind: str) -> Radiometry:
    if "radiometry" not in top and kind == "single":
        return Radiometry()
    table = top.table("radiometry")
    offset, gain = table.number("offset"), table.number("gain")
    scale_k, netd_k = table.number("scale_k"), table.number("netd_k")
    for key, value in (("gain", gain), ("scale_k", scale_k), ("netd_k", netd_k)):
        if value <= 0:
            raise table.fault(key, "a number above 0", value)
    table.finish()
    return Radiometry(offset, gain, scale_k, netd_k)


def _registration(top: Table) -> Registration | None:
    if "registration" not in top:
        return None
    table = top.table("registration")
    rows = [(row[0], row[1], row[2]) for row in table.matrix("homography", 3)]
    rgb_size_wh, thermal_size_wh = table.size_wh("rgb_size_wh"), table.size_wh("thermal_size_wh")
    depth_m = table.number("depth_m") if "depth_m" in table else None
    if depth_m is not None and depth_m <= 0:
        raise table.fault("depth_m", "metres, above 0", depth_m)
    table.finish()
    try:
        return Registration(tuple(rows), rgb_size_wh, thermal_size_wh, depth_m, "bundle")
    except ShapeError as error:
        raise table.fault("homography", error.expected, [list(row) for row in rows]) from error


def _decode(top: Table) -> DecodeSpec:
    table = top.table("decode")
    calibration: dict[str, dict[str, tuple[float, float]]] = {}
    if "score_calibration" in table:
        by_graph = table.table("score_calibration")
        for graph in by_graph.names():
            by_class = by_graph.table(graph)
            calibration[graph] = {}
            for name in by_class.names():
                slope, shift = by_class.numbers(name, length=2)
                calibration[graph][name] = (slope, shift)
    return table.into(DecodeSpec, score_calibration=calibration)


def _accuracy(table: Table) -> Accuracy:
    measured = Accuracy(
        table.text("data"), table.text("metric"), table.figures("figures"), table.text("notes", default="")
    )
    table.finish()
    return measured


def _provenance(top: Table) -> dict[str, str | int]:
    if "provenance" not in top:
        return {}
    table = top.table("provenance")
    found: dict[str, str | int] = {
        key: table.text(key) for key in ("data", "weights", "recipe", "licences") if key in table
    }
    if "seed" in table:
        found["seed"] = table.whole("seed")
    table.finish()
    return found


def _graphs(top: Table) -> dict[str, GraphSpec]:
    table = top.table("graphs")
    names = table.names()
    if not 1 <= len(names) <= _MAX_GRAPHS:
        raise top.fault("graphs", f"1 - {_MAX_GRAPHS} graphs", list(names))
    return {name: _graph(table.table(name), name) for name in names}


def _graph(table: Table, name: str) -> GraphSpec:
    if not _NAME.fullmatch(name):
        raise ManifestError(table.path, table.key, "letters, digits, '-', '_' and '.'", repr(name))
    source = _file(table)
    precision = table.text("precision", choices=PRECISIONS)
    opset = table.whole("opset", low=1, high=1000)
    twin = None
    if "fp32" in table:
        if precision == "fp32":
            raise table.fault("fp32", "no fp32 twin beside an fp32 graph", "one")
        twin_table = table.table("fp32")
        twin = _file(twin_table)
        twin_table.finish()
    normalisations: dict[str, Normalisation] = {}
    inputs = tuple(_input(item, normalisations) for item in table.tables("inputs"))
    outputs = tuple(_output(item) for item in table.tables("outputs"))
    for key, specs in (("inputs", inputs), ("outputs", outputs)):
        if not 1 <= len(specs) <= _MAX_TENSORS:
            raise table.fault(key, f"1 - {_MAX_TENSORS} tensors", len(specs))
    every = [spec.name for spec in inputs + outputs]
    for tensor in every:
        if every.count(tensor) > 1:
            raise ManifestError(
                table.path, table.key, "tensor names that differ", f"{every.count(tensor)} named {tensor!r}"
            )
    table.finish()
    return GraphSpec(name, source, precision, opset, inputs, outputs, normalisations, twin)


def _file(table: Table) -> GraphFile:
    file = table.text("file")
    parts = PurePosixPath(file).parts
    inside = not (_WINDOWS_PATH.search(file) or file.startswith("/") or ".." in parts or "\0" in file)
    if not inside or not parts:
        raise table.fault(
            "file",
            "a path inside the bundle's folder",
            file,
            "Put the file into the folder and name it from there.",
        )
    sha256 = table.text("sha256").lower()
    if not _SHA256.fullmatch(sha256):
        raise table.fault("sha256", "64 hexadecimal digits", sha256)
    return GraphFile(file, sha256, table.whole("nbytes", low=1, high=MAX_FILE_NBYTES))


def _tensor(table: Table, meanings: tuple[str, ...]) -> TensorSpec:
    name = table.text("name")
    dtype = table.text("dtype", choices=DTYPES)
    shape = table.wholes("shape", _MAX_DIMENSION)
    if prod(shape) * np.dtype(dtype).itemsize > _MAX_TENSOR_NBYTES:
        raise table.fault("shape", f"at most {_MAX_TENSOR_NBYTES} bytes", list(shape))
    return TensorSpec(name, dtype, shape, table.text("layout"), table.text("meaning", choices=meanings))


def _input(table: Table, normalisations: dict[str, Normalisation]) -> TensorSpec:
    spec = _tensor(table, (*IMAGE_MEANINGS, FEATURES))
    if spec.meaning in IMAGE_MEANINGS:
        _check_image(table, spec)
    asked = [key for key in ("scale", "mean", "std") if key in table]
    normalisation = Normalisation(
        table.number("scale", default=1.0),
        table.numbers("mean", default=(0.0,)),
        table.numbers("std", default=(1.0,)),
    )
    table.finish()
    if spec.meaning not in IMAGE_MEANINGS or not spec.dtype.startswith("float"):
        if asked:
            raise table.fault(asked[0], "no such key: the input is not a float image", str(spec))
        return spec
    channels = spec.shape[3] if spec.layout == "nhwc" else spec.shape[1]
    for key, values in (("mean", normalisation.mean), ("std", normalisation.std)):
        if len(values) not in (1, channels):
            raise table.fault(key, f"1 or {channels} numbers", list(values))
    if normalisation.scale <= 0 or min(normalisation.std) <= 0:
        raise table.fault("std", "scale and std above 0", [normalisation.scale, *normalisation.std])
    normalisations[spec.name] = normalisation
    return spec


def _check_image(table: Table, spec: TensorSpec) -> None:
    if spec.dtype not in ("uint8", "float16", "float32"):
        raise table.fault("dtype", "uint8 (fast), float16 or float32 for an image", spec.dtype)
    if spec.layout not in ("nhwc", "nchw"):
        raise table.fault("layout", '"nhwc" (fast) or "nchw" for an image', spec.layout)
    channels = IMAGE_CHANNELS[spec.meaning]
    at = 3 if spec.layout == "nhwc" else 1
    if len(spec.shape) != 4 or spec.shape[0] != 1 or spec.shape[at] not in channels:
        wanted = "[1, height, width, {0}]" if at == 3 else "[1, {0}, height, width]"
        counts = " or ".join(map(str, channels))
        raise table.fault(
            "shape", f"{wanted.format(counts)} for {spec.layout} {spec.meaning}", list(spec.shape)
        )


def _output(table: Table) -> TensorSpec:
    spec = _tensor(table, OUTPUT_MEANINGS)
    table.finish()
    return spec
