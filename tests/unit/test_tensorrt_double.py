"""The double of TensorRT refuses what TensorRT refuses, and has no name that the bindings lack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from emulator import Emulator
from tensorrt_double import BUILDING, RUNNING, load_snapshot

from edge_sdk.buffers.cuda import CudaDevice
from edge_sdk.engine import load_bundle
from edge_sdk.engine.tensorrt_api import Context, TensorRt
from edge_sdk.engine.tensorrt_build import BuildOptions, build_plan
from edge_sdk.errors import EngineError, InferenceError


@pytest.fixture
def device(emulator: Emulator) -> Iterator[CudaDevice]:
    with CudaDevice.open() as opened, opened.current():
        yield opened


@pytest.fixture
def plan(toy_fusion: Path, tensorrt_11: Any) -> bytes:
    graph = load_bundle(toy_fusion).read_graph("rgb")
    return build_plan(TensorRt(tensorrt_11), graph, "rgb", BuildOptions()).plan


@pytest.fixture
def context(plan: bytes, tensorrt_11: Any, device: CudaDevice) -> Context:
    return TensorRt(tensorrt_11).load(plan, "rgb").new_context()


def test_it_has_no_name_that_no_version_has() -> None:
    snapshot = load_snapshot()
    for part in (*BUILDING, *RUNNING):
        own = {name for name in vars(part) if not name.startswith("_") and name not in ("nv", "real")}
        for version, names in snapshot.items():
            assert own <= set(names[part.real]), version


def test_an_attribute_of_another_version_is_an_error(tensorrt: Any) -> None:
    config = tensorrt.IBuilderConfig()
    with pytest.raises(AttributeError, match="no attribute 'max_workspace_size'"):
        config.max_workspace_size = 1
    with pytest.raises(AttributeError, match="no attribute 'build_engine'"):
        tensorrt.Builder(TensorRt(tensorrt).log).build_engine()
    assert hasattr(tensorrt.BuilderFlag, "FP16") == (not tensorrt.__version__.startswith("11"))


def test_a_runtime_without_a_cuda_context_is_caught(plan: bytes, tensorrt_11: Any) -> None:
    with pytest.raises(AssertionError, match="without a current CUDA context"):
        TensorRt(tensorrt_11).load(plan, "rgb")


def test_a_plan_of_another_version_is_refused(plan: bytes, tensorrt_11: Any, device: CudaDevice) -> None:
    tensorrt_11.__version__ = "11.5.0"
    with pytest.raises(EngineError, match="not compatible with this version of TensorRT"):
        TensorRt(tensorrt_11).load(plan, "rgb")


def test_unset_addresses_and_shapes_are_refused(context: Context, device: CudaDevice) -> None:
    stream = device.new_stream()
    assert context.unready() == ("rgb",)
    with pytest.raises(InferenceError, match="no address or shape of rgb, features, scores, boxes"):
        context.enqueue(stream.handle)
    stream.close()


def test_wrong_shapes_names_alignments_and_pointers_are_refused(
    context: Context, device: CudaDevice, emulator: Emulator
) -> None:
    with pytest.raises(InferenceError, match=r"shape \[1, 8, 8, 3\] of 'rgb' refused"):
        context.set_shape("rgb", (1, 8, 8, 3))
    with pytest.raises(InferenceError, match="no tensor nothing"):
        context.set_address("nothing", 256)
    buffer = device.allocate(1 << 16, "device")
    with pytest.raises(InferenceError, match="not aligned to 256 bytes"):
        context.set_address("rgb", buffer.device_pointer + 8)
    with pytest.raises(InferenceError, match="not within one allocation"):
        context.set_address("rgb", 0x1000)
    small = device.allocate(256, "device")
    with pytest.raises(InferenceError, match="not within one allocation"):
        context.set_address("rgb", small.device_pointer)
    buffer.free()
    with pytest.raises(InferenceError, match="not within one allocation"):
        context.set_address("rgb", 256 * (1 << 20))
    small.free()
