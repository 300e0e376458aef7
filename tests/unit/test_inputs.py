"""Image inputs of every dtype and layout: the same picture, whatever the graph reads."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from edge_sdk.engine.inputs import GraphInputs
from edge_sdk.engine.manifest import GraphFile, GraphSpec, Normalisation
from edge_sdk.errors import ShapeError
from edge_sdk.tensors import TensorSpec

HEIGHT, WIDTH = 6, 8


def graph_of(dtype: str, layout: str, meaning: str, channels: int, wanted: Normalisation) -> GraphSpec:
    shape = (1, HEIGHT, WIDTH, channels) if layout == "nhwc" else (1, channels, HEIGHT, WIDTH)
    spec = TensorSpec("image", dtype, shape, layout, meaning)
    return GraphSpec("g", GraphFile("a.onnx", "0" * 64, 1), "fp32", 17, (spec,), (), {"image": wanted})


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize(
    ("meaning", "channels"), [("rgb", 3), ("thermal", 1), ("thermal", 3), ("rgb+thermal", 4)]
)
def test_the_graph_sees_the_normalised_picture(dtype: str, layout: str, meaning: str, channels: int) -> None:
    mean, std = (0.1, 0.2, 0.3, 0.4)[:channels], (0.5, 1.0, 2.0, 4.0)[:channels]
    wanted = Normalisation(1 / 255, mean, std) if dtype != "uint8" else Normalisation()
    graph = graph_of(dtype, layout, meaning, channels, wanted)
    bound = np.zeros(graph.inputs[0].shape, dtype)
    inputs = GraphInputs(graph, lambda _: bound)
    assert inputs.meanings == tuple(meaning.split("+"))
    random = np.random.default_rng(0)
    for camera in inputs.meanings:
        picture = inputs.picture(camera)
        assert picture.shape == ((HEIGHT, WIDTH, 3) if camera == "rgb" else (HEIGHT, WIDTH))
        assert picture.flags.c_contiguous
        picture[:] = random.integers(0, 256, picture.shape)
    inputs.commit()
    parts = [np.atleast_3d(inputs.picture(camera)) for camera in inputs.meanings]
    expected = np.concatenate(parts, axis=2).astype(np.float64)
    expected = np.broadcast_to(expected, (HEIGHT, WIDTH, channels))
    if dtype != "uint8":
        expected = (expected / 255 - np.array(mean)) / np.array(std)
    seen = bound[0] if layout == "nhwc" else bound[0].transpose(1, 2, 0)
    np.testing.assert_allclose(seen.astype(np.float64), expected, atol=2e-3 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize(("meaning", "channels"), [("rgb", 3), ("thermal", 1)])
def test_uint8_nhwc_is_the_graphs_own_memory(meaning: str, channels: int) -> None:
    graph = graph_of("uint8", "nhwc", meaning, channels, Normalisation())
    bound = np.zeros(graph.inputs[0].shape, np.uint8)
    inputs = GraphInputs(graph, lambda _: bound)
    assert np.shares_memory(inputs.picture(meaning), bound)


def test_commit_allocates_nothing_the_size_of_a_picture() -> None:
    spec = TensorSpec("image", "float32", (1, 4, 480, 640), "nchw", "rgb+thermal")
    graph = GraphSpec("g", GraphFile("a.onnx", "0" * 64, 1), "fp32", 17, (spec,), (), {})
    bound = np.zeros(spec.shape, np.float32)
    inputs = GraphInputs(graph, lambda _: bound)
    inputs.commit()
    tracemalloc.start()
    try:
        inputs.commit()
        _, peak_nbytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_nbytes < 480 * 640 / 3


def test_another_number_of_channels_is_refused() -> None:
    graph = graph_of("uint8", "nhwc", "rgb", 4, Normalisation())
    with pytest.raises(ShapeError, match="input 'image'"):
        GraphInputs(graph, lambda _: np.zeros((1, HEIGHT, WIDTH, 4), np.uint8))
