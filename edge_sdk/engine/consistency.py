"""Whether the parts of a manifest agree with each other."""

from __future__ import annotations

from pathlib import Path

from edge_sdk.engine.manifest import FEATURES, FUSION_GRAPHS, SCREEN_GRAPH, GraphSpec, Manifest
from edge_sdk.engine.tables import nearest
from edge_sdk.errors import ManifestError

__all__ = ["MAX_BUNDLE_NBYTES", "check"]

MAX_BUNDLE_NBYTES = 1 << 30
"""Largest sum of a bundle's files: 1 GiB."""
_DECODED = {"grid": ("scores", "boxes"), "yolo": ("predictions",), "boxes": ("boxes", "scores", "labels")}
"""Outputs that each decode kind reads. Source: `edge_sdk.postprocess.DecodeSpec.kind`."""


def check(manifest: Manifest, path: Path) -> None:
    """Checks what no single key can tell: graphs, sizes, classes and tensors that belong together.

    Raises:
        ManifestError: two parts contradict each other; the key of one is named.
    """
    _check_graphs(manifest, path)
    for graph in manifest.graphs.values():
        _check_image_sizes(manifest, graph, path)
        _check_outputs(manifest, graph, path)
    _check_shared_tensors(manifest, path)
    _check_files(manifest, path)
    for name, by_class in manifest.decode.score_calibration.items():
        key = f"decode.score_calibration.{name}"
        if name not in manifest.graphs:
            raise _unknown(path, key, "a graph", name, tuple(manifest.graphs))
        for class_name in by_class:
            if class_name not in manifest.class_names:
                raise _unknown(path, f"{key}.{class_name}", "a class", class_name, manifest.class_names)


def _check_graphs(manifest: Manifest, path: Path) -> None:
    names = tuple(manifest.graphs)
    if manifest.kind == "single":
        if len(names) != 1:
            raise ManifestError(path, "graphs", "one graph in a bundle of kind 'single'", ", ".join(names))
        graph = manifest.graphs[names[0]]
        if not graph.reads or any(spec.meaning == FEATURES for spec in graph.inputs):
            raise ManifestError(
                path,
                f"graphs.{names[0]}.inputs",
                "images only (rgb, thermal or rgb+thermal)",
                _meanings(graph),
            )
        return
    for name in FUSION_GRAPHS:
        if name not in names:
            raise ManifestError(
                path,
                f"graphs.{name}",
                f"graphs {', '.join(FUSION_GRAPHS)} in a bundle of kind 'fusion'",
                ", ".join(names),
                "Add it, or set bundle.kind to 'single'.",
            )
    for name, graph in manifest.graphs.items():
        if name not in (*FUSION_GRAPHS, SCREEN_GRAPH):
            raise _unknown(path, f"graphs.{name}", "a graph", name, (*FUSION_GRAPHS, SCREEN_GRAPH))
        camera = "rgb" if name == "rgb" else "thermal"
        if graph.reads != {camera} or len(graph.images) != 1:
            raise ManifestError(path, f"graphs.{name}.inputs", f"one {camera} image", _meanings(graph))
        for spec in graph.images:
            if spec.dtype != "uint8" or spec.layout != "nhwc":
                raise ManifestError(
                    path,
                    f"graphs.{name}.inputs",
                    "uint8 nhwc images in a bundle of kind 'fusion'",
                    f"{spec.dtype} {spec.layout}",
                    "Put conversion, normalisation and layout inside the graph.",
                )
        for spec in graph.inputs:
            if spec.meaning == FEATURES and (name != "fuse" or manifest.producers.get(spec.name) != "rgb"):
                raise ManifestError(
                    path, f"graphs.{name}.inputs", "features of graph 'rgb', read by 'fuse' alone", str(spec)
                )


def _check_image_sizes(manifest: Manifest, graph: GraphSpec, path: Path) -> None:
    if manifest.kind == "fusion" and manifest.rgb_size_wh != manifest.thermal_size_wh:
        raise ManifestError(
            path,
            "images.thermal_size_wh",
            f"the RGB size {manifest.rgb_size_wh}: thermal is laid onto the RGB frame's grid",
            str(manifest.thermal_size_wh),
        )
    sizes = {"rgb": manifest.rgb_size_wh, "thermal": manifest.thermal_size_wh}
    for spec in graph.images:
        height, width = spec.shape[1:3] if spec.layout == "nhwc" else spec.shape[2:4]
        for camera in spec.meaning.split("+"):
            if sizes[camera] != (width, height):
                raise ManifestError(
                    path,
                    f"images.{camera}_size_wh",
                    f"[{width}, {height}], as graph {graph.name!r} reads it",
                    "nothing" if sizes[camera] is None else str(list(sizes[camera] or ())),
                )


def _check_outputs(manifest: Manifest, graph: GraphSpec, path: Path) -> None:
    key = f"graphs.{graph.name}.outputs"
    by_meaning = {spec.meaning: spec for spec in graph.outputs if spec.meaning != FEATURES}
    wanted = (
        ("screen",)
        if graph.name == SCREEN_GRAPH and manifest.kind == "fusion"
        else _DECODED[manifest.decode.kind]
    )
    for meaning in wanted:
        count = sum(spec.meaning == meaning for spec in graph.outputs)
        if count != 1:
            raise ManifestError(
                path,
                key,
                f"one output of meaning {meaning!r} (decode.kind {manifest.decode.kind!r})",
                str(count),
            )
    if wanted == ("screen",):
        size = by_meaning["screen"].shape
        if any(side != 1 for side in size):
            raise ManifestError(path, key, "a screen output of one number", f"shape {list(size)}")
        return
    classes = len(manifest.classes)
    shapes = {meaning: by_meaning[meaning].shape for meaning in wanted}
    if manifest.decode.kind == "grid":
        scores, boxes = shapes["scores"], shapes["boxes"]
        grid = scores[2:]
        sound = len(scores) == 4 and scores[:2] == (1, classes) and boxes == (1, 4, *grid)
        expected = f"scores [1, {classes}, rows, columns], boxes [1, 4, rows, columns] for {classes} classes"
    elif manifest.decode.kind == "yolo":
        shape = shapes["predictions"]
        sound = len(shape) == 3 and shape[0] == 1 and 4 + classes in shape[1:]
        expected = f"predictions [1, {4 + classes}, n] or [1, n, {4 + classes}] for {classes} classes"
    else:
        count = shapes["scores"][-1] if shapes["scores"] else 0
        sound = shapes == {"boxes": (1, count, 4), "scores": (1, count), "labels": (1, count)}
        expected = "boxes [1, n, 4], scores [1, n], labels [1, n]"
    if not sound:
        found = ", ".join(f"{meaning} {list(shape)}" for meaning, shape in shapes.items())
        raise ManifestError(path, key, expected, found)


def _check_shared_tensors(manifest: Manifest, path: Path) -> None:
    """Tensors of one name share memory: they must be alike, and a feature has one writer."""
    written: dict[str, str] = {}
    for graph in manifest.graphs.values():
        for spec in graph.outputs:
            if spec.meaning == FEATURES:
                if spec.name in written:
                    raise ManifestError(
                        path,
                        f"graphs.{graph.name}.outputs",
                        f"one graph that writes the features {spec.name!r}",
                        f"{written[spec.name]!r} and {graph.name!r}",
                    )
                written[spec.name] = graph.name
    seen = {
        spec.name: (graph.name, spec)
        for graph in manifest.graphs.values()
        for spec in graph.outputs
        if spec.meaning == FEATURES
    }
    for graph in manifest.graphs.values():
        for spec in graph.inputs:
            key = f"graphs.{graph.name}.inputs"
            if spec.meaning == FEATURES and spec.name not in written:
                raise _unknown(path, key, "features that a graph writes", spec.name, tuple(written))
            other, known = seen.setdefault(spec.name, (graph.name, spec))
            if known != spec:
                raise ManifestError(
                    path, key, f"{known} as in graph {other!r}: one name, one memory", f"{spec} {spec.layout}"
                )


def _check_files(manifest: Manifest, path: Path) -> None:
    total = sum(item.nbytes for item in manifest.files)
    if total > MAX_BUNDLE_NBYTES:
        raise ManifestError(
            path, "graphs", f"files of at most {MAX_BUNDLE_NBYTES} bytes together", f"{total} bytes"
        )
    known = {item.file: item for item in manifest.files}
    for graph in manifest.graphs.values():
        for item in (graph.source, graph.twin):
            if item is not None and known[item.file] != item:
                raise ManifestError(
                    path, f"graphs.{graph.name}", f"one size and SHA-256 for {item.file}", "two that differ"
                )


def _meanings(graph: GraphSpec) -> str:
    return ", ".join(f"{spec.name} ({spec.meaning})" for spec in graph.inputs)


def _unknown(path: Path, key: str, expected: str, found: str, known: tuple[str, ...]) -> ManifestError:
    fix = nearest(found, known) or f"Known: {', '.join(known) or 'none'}."
    return ManifestError(path, key, expected, repr(found), fix)
