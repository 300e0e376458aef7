"""The ONNX Runtime runner: right answers, bound memory, providers, and typed faults."""

from __future__ import annotations

import shutil
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from bundles import save_model, single_graph, toy_score, write_toy_single_bundle
from onnx import TensorProto, helper

import edge_sdk.engine.onnx_runner as module
from edge_sdk.engine.author import describe_graph, write_manifest
from edge_sdk.engine.bundle import Bundle, load_bundle
from edge_sdk.engine.onnx_runner import (
    CPU,
    CUDA,
    OnnxRunner,
    graph_edges,
    import_onnxruntime,
    provider_loads,
    session_options,
)
from edge_sdk.errors import (
    ConfigError,
    DeviceNotFoundError,
    EngineMismatchError,
    InferenceError,
    ProviderFallbackError,
)


@pytest.fixture
def bundle(toy_fusion: Path) -> Bundle:
    """The toy fusion bundle."""
    return load_bundle(toy_fusion)


@pytest.fixture
def runner(bundle: Bundle) -> Iterator[OnnxRunner]:
    """An open runner of it."""
    with OnnxRunner(bundle) as opened:
        yield opened


def _score(logits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return 1 / (1 + np.exp(-logits))


@pytest.mark.parametrize("precision", [None, "int8", "fp32"])
def test_fuse_reads_the_features_of_rgb(bundle: Bundle, precision: str | None) -> None:
    with OnnxRunner(bundle, precision=precision, threads=2) as runner:
        runner.array("rgb", "rgb")[0, 8:16, 16:24] = 200
        runner.array("fuse", "thermal")[0, 0:8, 0:8] = 180
        runner.run("rgb")
        runner.run("fuse")
        bright, hot = _score(runner.array("fuse", "scores")[0])
        assert bright[1, 2] == pytest.approx(toy_score(200), abs=1e-5)
        assert hot[0, 0] == pytest.approx(toy_score(180), abs=1e-5)
        assert (_score(runner.array("rgb", "scores")[0, 1]) < 1e-6).all()
        runner.run("thermal")
        assert _score(runner.array("thermal", "scores")[0, 1, 0, 0]) == pytest.approx(
            toy_score(180), abs=1e-5
        )
        assert runner.provider == CPU


def test_the_bound_run_equals_a_plain_one(runner: OnnxRunner, bundle: Bundle) -> None:
    image = np.random.default_rng(0).integers(0, 256, (1, 48, 64, 3), dtype=np.uint8)
    session = onnxruntime.InferenceSession(bundle.read_graph("rgb"), providers=[CPU])
    names = [edge.name for edge in session.get_outputs()]
    expected = dict(zip(names, session.run(None, {"rgb": image}), strict=True))
    runner.array("rgb", "rgb")[:] = image
    runner.run("rgb")
    for name in names:
        np.testing.assert_array_equal(runner.array("rgb", name), expected[name])


def test_a_run_allocates_nothing_the_size_of_a_frame(tmp_path: Path) -> None:
    folder = write_toy_single_bundle(tmp_path / "large", size_wh=(640, 512))
    with OnnxRunner(load_bundle(folder)) as runner:
        frame_nbytes = runner.array("detector", "image").nbytes
        runner.run("detector")
        tracemalloc.start()
        try:
            for _ in range(20):
                runner.run("detector")
            _, peak_nbytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak_nbytes < frame_nbytes / 100


def test_a_failing_run_is_an_inference_error(tmp_path: Path) -> None:
    # The reshape is refused at run time alone: its target comes from the picture.
    nodes = [
        helper.make_node("Cast", ["image"], ["wide"], to=TensorProto.INT64),
        helper.make_node("ReduceMax", ["wide"], ["side"], axes=[1, 2, 3], keepdims=0),
        helper.make_node("Cast", ["image"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["real", "side"], ["flat"]),
        helper.make_node("Slice", ["flat", "zero", "six"], ["cut"]),
        helper.make_node("Reshape", ["cut", "shape"], ["predictions"]),
    ]
    constants = [
        helper.make_tensor("zero", TensorProto.INT64, [1], [0]),
        helper.make_tensor("six", TensorProto.INT64, [1], [6]),
        helper.make_tensor("shape", TensorProto.INT64, [3], [1, 1, 6]),
    ]
    graph = helper.make_graph(
        nodes,
        "fails",
        [helper.make_tensor_value_info("image", TensorProto.UINT8, [1, 8, 8, 3])],
        [helper.make_tensor_value_info("predictions", TensorProto.FLOAT, [1, 1, 6])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save_model(model, tmp_path / "a.onnx")
    described = describe_graph(tmp_path, "a.onnx", {"image": "rgb", "predictions": "predictions"})
    write_manifest(
        tmp_path,
        {
            "bundle": {"name": "f", "version": "1", "description": "f", "kind": "single", "licence": "x"},
            "classes": [{"name": "a"}, {"name": "b"}],
            "images": {"rgb_size_wh": [8, 8]},
            "decode": {"kind": "yolo"},
            "graphs": {"detector": described},
        },
    )
    with OnnxRunner(load_bundle(tmp_path)) as runner:
        runner.array("detector", "image").fill(192)
        runner.run("detector")
        runner.array("detector", "image").fill(7)
        with pytest.raises(InferenceError, match=f"graph 'detector' failed on {CPU}: ") as caught:
            runner.run("detector")
        assert caught.value.provider == CPU
        runner.array("detector", "image").fill(192)
        runner.run("detector")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "scores"', 'name = "score"', r"outputs of graph 'rgb'.*score float32\[1, 2, 6, 8\]"),
        ("shape = [1, 48, 64, 3]", "shape = [1, 40, 64, 3]", r"rgb uint8\[1, 48, 64, 3\]"),
        ('name = "rgb"\ndtype = "uint8"', 'name = "RGB"\ndtype = "uint8"', "expected RGB .*, found rgb "),
        ('name = "boxes"\ndtype = "float32"', 'name = "boxes"\ndtype = "float16"', "found .*boxes float32"),
    ],
)
def test_a_graph_unlike_its_manifest_is_refused(
    toy_fusion: Path, tmp_path: Path, old: str, new: str, message: str
) -> None:
    folder = Path(shutil.copytree(toy_fusion, tmp_path / "bundle"))
    text = (folder / "bundle.toml").read_text("utf-8")
    assert old in text
    text = text.replace(old, new)
    if "40" in new:
        text = text.replace("[1, 48, 64, 1]", "[1, 40, 64, 1]").replace("[64, 48]", "[64, 40]")
    (folder / "bundle.toml").write_text(text, "utf-8")
    with pytest.raises(EngineMismatchError, match=message) as caught:
        OnnxRunner(load_bundle(folder))
    assert caught.value.path == folder / "rgb.onnx"
    assert "Correct graphs.rgb." in str(caught.value)


def test_a_graph_that_onnx_runtime_refuses(tmp_path: Path) -> None:
    model = single_graph("rgb", (64, 48))
    model.graph.node[0].op_type = "NoSuchOperator"
    with pytest.raises(EngineMismatchError, match=r"one that ONNX Runtime .* can run"):
        graph_edges(model.SerializeToString(), tmp_path / "a.onnx")


def test_dynamic_shapes_are_refused_with_the_fix(tmp_path: Path) -> None:
    model = single_graph("rgb", (64, 48))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    with pytest.raises(
        EngineMismatchError, match=r"fixed and positive, found \[batch, 48, 64, 3\].*batch of 1"
    ):
        graph_edges(model.SerializeToString(), tmp_path / "a.onnx")


def test_unsupported_dtypes_are_refused(tmp_path: Path) -> None:
    edges = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, [1]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "d", edges[:1], edges[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(EngineMismatchError, match=r"type of 'x': expected one of tensor\(uint8\)"):
        graph_edges(model.SerializeToString(), tmp_path / "a.onnx")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"threads": 0}, "threads: expected 1 or more, found 0"),
        ({"provider": "TensorrtExecutionProvider"}, "this runner knows"),
        ({"precision": "fp16"}, "not there in precision 'fp16'"),
    ],
)
def test_unsound_requests_are_refused(bundle: Bundle, arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        OnnxRunner(bundle, **arguments)


class TestProviders:
    """A fallback is an error unless it is allowed by name."""

    @pytest.fixture(autouse=True)
    def without_cuda(self) -> None:
        """These need a machine whose ONNX Runtime has no CUDA, or a stand-in for one."""
        if CUDA in onnxruntime.get_available_providers():
            pytest.skip("this build of ONNX Runtime has CUDA")

    def test_a_provider_that_is_not_there_is_an_error(self, bundle: Bundle) -> None:
        with pytest.raises(ProviderFallbackError, match=r"asked for CUDAExecutionProvider.*edge-sdk doctor"):
            OnnxRunner(bundle, provider=CUDA)

    def test_it_may_be_allowed_by_name(self, bundle: Bundle, caplog: pytest.LogCaptureFixture) -> None:
        with OnnxRunner(bundle, provider=CUDA, allow_fallback=(CPU,)) as runner:
            assert runner.provider == CPU
            runner.run("rgb")
        assert "CPUExecutionProvider runs it, as allowed" in caplog.text

    def test_a_silent_fallback_is_found(self, bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
        """ONNX Runtime lists CUDA, logs a line, and loads the CPU: as on a machine without a driver."""
        asked = _stand_in(monkeypatch)
        with pytest.raises(ProviderFallbackError, match="ONNX Runtime loaded CPUExecutionProvider") as caught:
            OnnxRunner(bundle, provider=CUDA)
        assert caught.value.loaded == (CPU,)
        assert asked == [[CUDA, CPU]]

    def test_why_a_provider_does_not_load(self) -> None:
        assert provider_loads(CPU) == ""
        assert provider_loads(CUDA).startswith("this build has ")


def _stand_in(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Makes ONNX Runtime claim CUDA, and fall back as it does without a driver."""
    asked: list[list[str]] = []

    def session(data: bytes, options: Any, providers: list[str], enable_fallback: int) -> Any:
        asked.append(providers)
        return onnxruntime.InferenceSession(data, options, providers=[CPU], enable_fallback=enable_fallback)

    real = {name: getattr(onnxruntime, name) for name in ("SessionOptions", "__version__")}
    fake = SimpleNamespace(**real, InferenceSession=session, get_available_providers=lambda: [CUDA, CPU])
    monkeypatch.setattr(module, "import_onnxruntime", lambda: fake)
    return asked


class FakeBinding:
    """Records what is bound."""

    def __init__(self) -> None:
        self.bound: list[tuple[Any, ...]] = []

    def bind_input(self, name: str, *rest: Any) -> None:
        self.bound.append(("input", name, rest[0]))

    def bind_output(self, name: str, *rest: Any) -> None:
        self.bound.append(("output", name, rest[0]))

    def bind_ortvalue_input(self, name: str, value: Any) -> None:
        self.bound.append(("input", name, value))

    def bind_ortvalue_output(self, name: str, value: Any) -> None:
        self.bound.append(("output", name, value))


def test_on_cuda_features_stay_on_the_device(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of a test that needs a GPU: which calls are made, not what they do."""
    bindings: list[FakeBinding] = []
    uploaded: list[str] = []

    class Session:
        """An ONNX Runtime session that says it is on CUDA."""

        def __init__(self, data: bytes, *_: Any, **__: Any) -> None:
            self._real = onnxruntime.InferenceSession(data, providers=[CPU])
            self.get_inputs, self.get_outputs = self._real.get_inputs, self._real.get_outputs

        def get_providers(self) -> list[str]:
            return [CUDA, CPU]

        def io_binding(self) -> FakeBinding:
            bindings.append(FakeBinding())
            return bindings[-1]

        def run_with_iobinding(self, binding: FakeBinding) -> None:
            uploaded.append(f"run {bindings.index(binding)}")

    class Value:
        """A device tensor."""

        def __init__(self, shape: list[int], device: str) -> None:
            self.shape, self.device = shape, device

        @classmethod
        def ortvalue_from_shape_and_type(cls, shape: list[int], _: Any, device: str, __: int) -> Value:
            return cls(shape, device)

        def update_inplace(self, array: np.ndarray[Any, Any]) -> None:
            assert list(array.shape) == self.shape
            uploaded.append("upload")

    fake = SimpleNamespace(
        SessionOptions=onnxruntime.SessionOptions,
        InferenceSession=Session,
        OrtValue=Value,
        get_available_providers=lambda: [CUDA, CPU],
    )
    monkeypatch.setattr(module, "import_onnxruntime", lambda: fake)
    with OnnxRunner(bundle, provider=CUDA) as runner:
        assert runner.provider == CUDA
        rgb, fuse = bindings[0].bound, bindings[1].bound
        written = next(what for kind, name, what in rgb if (kind, name) == ("output", "features"))
        read = next(what for kind, name, what in fuse if (kind, name) == ("input", "features"))
        assert written is read
        assert written.device == "cuda"
        assert ("output", "scores", "cpu") in rgb
        with pytest.raises(ConfigError, match="rgb/features stays on the device"):
            runner.array("rgb", "features")
        runner.run("rgb")
        runner.run("fuse")
    assert uploaded == ["upload", "run 0", "upload", "run 1"]


@pytest.mark.gpu
@pytest.mark.skipif(CUDA not in onnxruntime.get_available_providers(), reason="no CUDA provider")
def test_cuda_gives_the_answers_of_the_cpu(bundle: Bundle) -> None:
    image = np.random.default_rng(0).integers(0, 256, (1, 48, 64, 3), dtype=np.uint8)
    found = []
    for provider in (CPU, CUDA):
        with OnnxRunner(bundle, provider=provider) as runner:
            runner.array("rgb", "rgb")[:] = image
            runner.run("rgb")
            runner.run("fuse")
            found.append(runner.array("fuse", "scores").copy())
    np.testing.assert_allclose(found[0], found[1], atol=1e-3)


def test_without_onnx_runtime_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(
        DeviceNotFoundError,
        match=r"pip install 'onnxruntime>=1\.20', or for an NVIDIA GPU pip install 'onnxruntime-gpu>=1\.20'",
    ):
        import_onnxruntime()


def test_the_ruin_of_two_wheels_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", SimpleNamespace())  # type: ignore[arg-type]
    with pytest.raises(DeviceNotFoundError, match="reinstall the one kept"):
        import_onnxruntime()


def test_threads_do_not_spin_between_graphs() -> None:
    options = session_options(2)
    assert options.intra_op_num_threads == 2
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert options.get_session_config_entry("session.load_model_format") == "ONNX"


def test_the_probe_is_what_it_says() -> None:
    model = onnx.load_from_string(module._PROBE)
    onnx.checker.check_model(model)
    assert [node.op_type for node in model.graph.node] == ["Relu"]
