"""From a network to a bundle that the runtime loads, with random weights."""

from __future__ import annotations

# ruff: noqa: E402  (torch is looked for first)
from pathlib import Path

import numpy as np
import onnx
import pytest

torch = pytest.importorskip("torch", reason="needs the training extra: pip install '.[train]'")
pytest.importorskip("onnxscript", reason="needs the training extra: pip install '.[train]'")

from calibration.int8 import quantise
from edge_sdk.engine.bundle import load_bundle
from engines.recipe.bundle import write_bundle
from engines.recipe.export import FEATURES, GRAPH_NAMES, export_graphs
from engines.recipe.quantise import INT8_GRAPHS
from engines.recipe.routes import Runner
from engines.recipe.train.data import Crop, Labels
from engines.recipe.train.net import CLASSES, GRID_HW, Detector, fold_norms
from engines.recipe.train.screen import ScreenNet


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build folder with all graphs in fp32 and INT8."""
    folder = tmp_path_factory.mktemp("build")
    torch.manual_seed(0)
    detector = Detector()
    fold_norms(detector.rgb_trunk)
    torch.save({"averaged": detector.state_dict()}, folder / "checkpoint.pt")
    torch.save(ScreenNet().state_dict(), folder / "screen.pt")
    export_graphs(folder, folder / "fp32")
    random = np.random.default_rng(0)
    feeds = {
        "rgb": {"rgb": random.integers(0, 255, (1, 256, 320, 3)).astype(np.uint8)},
        "thermal": {"thermal": random.integers(60, 200, (1, 256, 320, 1)).astype(np.uint8)},
    }
    features = random.uniform(-3, 3, (1, 64, *GRID_HW)).astype(np.float32)
    feeds["fuse"] = {FEATURES: features, **feeds["thermal"]}
    for name in INT8_GRAPHS:
        quantise(folder / "fp32" / f"{name}.onnx", folder / "int8" / f"{name}.onnx", [feeds[name]])
    return folder


def _crop() -> Crop:
    random = np.random.default_rng(1)
    none = Labels(np.zeros((0, 4), np.float32), np.zeros(0, np.int64), np.zeros(0, bool), np.zeros(0, bool))
    return Crop(
        random.integers(0, 255, (256, 320, 3)).astype(np.uint8),
        random.integers(60, 200, (256, 320)).astype(np.uint8),
        none,
    )


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_every_route_gives_a_grid_of_logits_and_edges(build: Path, precision: str) -> None:
    runner = Runner(build, precision, threads=1)
    for outputs in runner.run(_crop()).values():
        assert outputs.scores.shape == (1, len(CLASSES), *GRID_HW)
        assert outputs.boxes.shape == (1, 4, *GRID_HW)
    assert np.isfinite(runner.screen(_crop()))


def test_int8_is_at_most_three_tenths_of_fp32(build: Path) -> None:
    for name in INT8_GRAPHS:
        share = (build / "int8" / f"{name}.onnx").stat().st_size / (
            build / "fp32" / f"{name}.onnx"
        ).stat().st_size
        assert share <= 0.30, name


def test_int8_kernels_do_what_the_graph_says(build: Path) -> None:
    fast, literal = (Runner(build, "int8", 1, literal=way).run(_crop()) for way in (False, True))
    for route, outputs in fast.items():
        assert np.abs(outputs.scores - literal[route].scores).max() < 0.1


def test_no_file_tells_where_it_was_made(build: Path) -> None:
    for name in GRAPH_NAMES:
        model = onnx.load(build / "fp32" / f"{name}.onnx")
        assert not model.doc_string
        assert not any(node.metadata_props or node.doc_string for node in model.graph.node)
        assert str(Path(__file__).parents[2]).encode() not in model.SerializeToString()


def test_the_bundle_loads_and_is_a_fusion_bundle(build: Path, tmp_path: Path) -> None:
    write_bundle(build, tmp_path / "substation-test", "0.0.1")
    manifest = load_bundle(tmp_path / "substation-test").manifest
    assert manifest.kind == "fusion"
    assert manifest.class_names == CLASSES
    assert manifest.producers == {FEATURES: "rgb"}
    assert manifest.registration is not None
