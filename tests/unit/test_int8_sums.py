"""INT8 sums: found by computing, exact wherever ONNX Runtime can, and said where it cannot."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from records import record_of

import edge_sdk
import edge_sdk.engine.onnx_runner as module
from edge_sdk.engine import load_bundle
from edge_sdk.engine.int8_sums import BY_OPTION, EXACT, EXACT_OPTION, SATURATING, probe_sums
from edge_sdk.engine.onnx_runner import CPU, OnnxRunner, cpu_sums, open_session
from edge_sdk.errors import ConfigError
from edge_sdk.report.record import ProviderFacts
from edge_sdk.report.record_file import parse_record, record_json
from edge_sdk.report.summary import summarise
from edge_sdk.runs.conditions import INT8_SATURATES, live_conditions

PATH = Path("a.onnx")
CHANNELS = 16


def large_sums() -> onnx.ModelProto:
    """An INT8 convolution whose products overflow 16 bits two by two, over a picture of any values."""
    random = np.random.default_rng(0)
    weights = random.integers(90, 127, (CHANNELS, CHANNELS, 3, 3)).astype(np.int8)
    stored: dict[str, NDArray[np.generic]] = {
        "w": weights,
        "x_s": np.asarray(1 / 127, np.float32),
        "w_s": np.full(CHANNELS, 1 / 127, np.float32),
        "y_s": np.asarray(1.1, np.float32),
        "z": np.asarray(0, np.int8),
        "w_z": np.zeros(CHANNELS, np.int8),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "x_s", "z"], ["x_q"]),
        helper.make_node("DequantizeLinear", ["x_q", "x_s", "z"], ["x_d"]),
        helper.make_node("DequantizeLinear", ["w", "w_s", "w_z"], ["w_d"], axis=0),
        helper.make_node("Conv", ["x_d", "w_d"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("QuantizeLinear", ["c", "y_s", "z"], ["y_q"]),
        helper.make_node("DequantizeLinear", ["y_q", "y_s", "z"], ["y"]),
    ]
    shape = [1, CHANNELS, 12, 12]
    edges = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    constants = [numpy_helper.from_array(value, name) for name, value in stored.items()]
    graph = helper.make_graph(nodes, "large", edges[:1], edges[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def by_the_book(model: onnx.ModelProto, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Computes a graph with ONNX's own reference, which knows these operators from opset 19 on."""
    later = onnx.ModelProto()
    later.CopyFrom(model)
    later.opset_import[0].version = 19
    out: NDArray[np.float32] = ReferenceEvaluator(later).run(None, {"x": x})[0]
    return out


def picture() -> NDArray[np.float32]:
    return np.random.default_rng(1).uniform(0.6, 1.0, (1, CHANNELS, 12, 12)).astype(np.float32)


class TestProbe:
    """The probe computes; it looks nothing up."""

    def test_its_graph_is_sound_and_one_gives_eight(self) -> None:
        models: list[bytes] = []

        def run(model: bytes, _: bool) -> float:
            models.append(model)
            found = onnx.load_from_string(model)
            onnx.checker.check_model(found, full_check=True)
            out = by_the_book(found, np.ones((1, 8, 4, 4), np.float32))
            assert out.min() == out.max()
            return float(out.flat[0])

        assert probe_sums(run) == EXACT
        assert len(models) == 1

    def test_saturating_sums_are_told_from_those_that_the_option_mends(self) -> None:
        assert probe_sums(lambda _, option: 8.0 if option else 0.06) == BY_OPTION
        assert probe_sums(lambda _, option: 0.06) == SATURATING
        assert probe_sums(lambda _, option: float("nan")) == SATURATING

    def test_this_machine_can_add(self) -> None:
        assert cpu_sums() in (EXACT, BY_OPTION)


def test_int8_is_exact_on_this_cpu_whatever_it_is() -> None:
    model = large_sums()
    wanted = by_the_book(model, picture())
    opened = open_session(model.SerializeToString(), PATH, CPU, 1)
    assert opened.int8_sums == cpu_sums()
    (found,) = opened.session.run(None, {"x": picture()})
    assert (
        np.abs(found - wanted).max() <= 1.1 + 1e-5
    )  # a step of the output's scale, where halves are rounded
    assert np.abs(found - wanted).mean() < 0.01


def test_literally_a_graph_is_computed_as_written() -> None:
    model = large_sums()
    wanted = by_the_book(model, picture())
    opened = open_session(model.SerializeToString(), PATH, CPU, 1, literal=True)
    assert opened.int8_sums == EXACT
    (found,) = opened.session.run(None, {"x": picture()})
    assert np.abs(found - wanted).max() <= 1.1 + 1e-5
    assert np.abs(found - wanted).mean() < 0.01


def test_a_literal_runner_is_for_the_cpu_alone(toy_fusion: Path) -> None:
    with pytest.raises(ConfigError, match=r"literal: expected CPUExecutionProvider, found CUDA"):
        OnnxRunner(load_bundle(toy_fusion), provider=module.CUDA, literal=True)


def test_the_reference_engine_answers_nearly_as_it_is_written() -> None:
    bundle = load_bundle("substation-rgbt")
    random = np.random.default_rng(0)
    coarse = random.integers(60, 200, (1, 16, 20, 1)).repeat(16, 1).repeat(16, 2).astype(np.uint8)
    found = {}
    for literal in (False, True):
        with OnnxRunner(bundle, literal=literal) as runner:
            assert runner.int8_sums == (EXACT if literal else cpu_sums())
            runner.array("thermal", "thermal")[:] = coarse
            runner.run("thermal")
            found[literal] = runner.array("thermal", "scores").copy()
    off = np.sqrt(np.mean((found[False] - found[True]) ** 2)) / found[True].std()
    assert off < 0.08
    # Old versions fuse nothing in these graphs: there both ways are the same computation.
    major, minor = (int(part) for part in onnxruntime.__version__.split(".")[:2])
    assert off > 0 or (major, minor) < (1, 23)


def test_a_graph_without_integers_says_nothing_of_them(toy_fusion: Path) -> None:
    with OnnxRunner(load_bundle("substation-rgbt"), precision="fp32") as fp32:
        assert fp32.int8_sums == ""
    with OnnxRunner(load_bundle(toy_fusion)) as claims_int8_and_has_none:
        assert claims_int8_and_has_none.int8_sums == ""


class TestWhereTheOptionFails:
    """ONNX Runtime may refuse to open a graph with the option: then it runs without, and that is said."""

    @pytest.fixture(autouse=True)
    def saturating_cpu(self, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
        """A CPU that needs the option, and an ONNX Runtime that fails on it; returns what was asked for."""
        asked: list[bool] = []

        def session(data: bytes, options: Any, **rest: Any) -> Any:
            try:
                asked.append(options.get_session_config_entry(EXACT_OPTION[0]) == EXACT_OPTION[1])
            except RuntimeError:  # no such entry
                asked.append(False)
            if asked[-1]:
                raise RuntimeError("Attempt to replace the existing tensor")
            return onnxruntime.InferenceSession(data, options, **rest)

        real = {name: getattr(onnxruntime, name) for name in ("SessionOptions", "GraphOptimizationLevel")}
        fake = SimpleNamespace(**real, InferenceSession=session, get_available_providers=lambda: [CPU])
        monkeypatch.setattr(module, "import_onnxruntime", lambda: fake)
        monkeypatch.setattr(module, "cpu_sums", lambda: BY_OPTION)
        return asked

    def test_it_runs_without_and_says_so(
        self, saturating_cpu: list[bool], caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.WARNING):
            opened = open_session(large_sums().SerializeToString(), PATH, CPU, 1)
        assert opened.int8_sums == SATURATING
        assert saturating_cpu == [True, False]
        assert "a.onnx: INT8 sums saturate on this CPU" in caplog.text

    def test_the_worst_graph_speaks_for_the_runner(self) -> None:
        with OnnxRunner(load_bundle("substation-rgbt")) as runner:  # its screen is fp32
            assert runner.int8_sums == SATURATING

    def test_a_literal_reference_needs_no_option(self, saturating_cpu: list[bool]) -> None:
        assert open_session(large_sums().SerializeToString(), PATH, CPU, 1, literal=True).int8_sums == EXACT
        assert saturating_cpu == [False]

    def test_a_run_states_it_as_a_condition(self) -> None:
        with edge_sdk.load("substation-rgbt", device="cpu") as detector:
            assert detector.choice.int8_sums == SATURATING
            conditions = live_conditions(detector)
        assert INT8_SATURATES in conditions


def test_the_record_keeps_how_int8_was_added_and_older_ones_do_not_know() -> None:
    record = record_of([5.0] * 3, provider=ProviderFacts("cpu", CPU, int8_sums=BY_OPTION))
    written = record_json(record)
    assert parse_record(written).provider.int8_sums == BY_OPTION
    assert ("Provider", f"{CPU} (asked for cpu); INT8 sums exact by option") in summarise(record).facts
    del written["provider"]["int8_sums"]
    assert parse_record(written).provider.int8_sums == ""
