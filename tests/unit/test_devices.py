"""The choice of a device, and what is known of a machine."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import onnxruntime
import pytest

import edge_sdk.devices.choose as module
from edge_sdk.devices import DeviceChoice, machine_facts, open_runner, usable_cores
from edge_sdk.devices.machine import is_jetson
from edge_sdk.engine import Bundle, NullRunner, load_bundle
from edge_sdk.engine.null_runner import NULL_PROVIDER
from edge_sdk.engine.onnx_runner import CPU, CUDA
from edge_sdk.errors import ConfigError, DeviceNotFoundError, ProviderFallbackError

no_cuda = pytest.mark.skipif(
    CUDA in onnxruntime.get_available_providers(), reason="this build of ONNX Runtime has CUDA"
)


@pytest.fixture
def bundle(toy_fusion: Path) -> Bundle:
    """The toy fusion bundle."""
    return load_bundle(toy_fusion)


@pytest.fixture(autouse=True)
def no_tensorrt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without TensorRT, whatever this one has; with it: `test_plans.py`."""

    def refuse(*_: object, **__: object) -> None:
        raise DeviceNotFoundError("tensorrt", [("import tensorrt", "not here")])

    monkeypatch.setattr(module, "open_tensorrt", refuse)


class TestChoice:
    """Nothing is chosen in silence."""

    def test_cpu_when_asked(self, bundle: Bundle) -> None:
        runner, choice = open_runner(bundle, "cpu", threads=1, precision="fp32")
        with runner:
            assert choice == DeviceChoice("cpu", CPU, "fp32", 1, ())

    @no_cuda
    def test_auto_keeps_what_it_tried(self, bundle: Bundle) -> None:
        runner, choice = open_runner(bundle)
        with runner:
            assert (choice.device, choice.provider, choice.precision) == ("cpu", CPU, "int8")
            assert choice.threads == usable_cores()
            assert [name for name, _ in choice.tried] == ["tensorrt", "cuda"]
            assert choice.tried[0][1].startswith("no device for 'tensorrt' (import tensorrt: not here)")
            assert "asked for CUDAExecutionProvider" in choice.tried[1][1]

    @no_cuda
    def test_auto_never_takes_a_fallback_for_cuda(self, bundle: Bundle) -> None:
        runner, choice = open_runner(bundle, "auto", allow_fallback=(CPU,))
        with runner:
            assert choice.device == "cpu"
            assert "asked for CUDAExecutionProvider" in choice.tried[1][1]

    @no_cuda
    def test_cuda_that_does_not_load_is_an_error(self, bundle: Bundle) -> None:
        with pytest.raises(ProviderFallbackError):
            open_runner(bundle, "cuda")

    @no_cuda
    def test_an_allowed_fallback_is_told(self, bundle: Bundle) -> None:
        runner, choice = open_runner(bundle, "cuda", allow_fallback=(CPU,))
        with runner:
            assert (choice.device, choice.provider) == ("cpu", CPU)
            assert choice.tried == (
                ("cuda", "CUDAExecutionProvider did not load; CPUExecutionProvider was allowed by name"),
            )

    def test_cuda_is_taken_where_it_loads(self, bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = []

        def loads(_: Bundle, *, provider: str, **__: object) -> object:
            asked.append(provider)
            return SimpleNamespace(provider=provider, int8_sums="")

        monkeypatch.setattr(module, "OnnxRunner", loads)
        _, choice = open_runner(bundle)
        assert (choice.device, choice.provider, asked) == ("cuda", CUDA, [CUDA])

    def test_tensorrt_never_falls_back(self, bundle: Bundle) -> None:
        with pytest.raises(DeviceNotFoundError, match="import tensorrt: not here"):
            open_runner(bundle, "tensorrt", allow_fallback=(CPU,))

    def test_null_runs_nothing_and_says_so(self, bundle: Bundle) -> None:
        runner, choice = open_runner(bundle, "null")
        with runner:
            assert isinstance(runner, NullRunner)
            assert choice.provider == runner.provider == NULL_PROVIDER

    def test_an_unknown_device(self, bundle: Bundle) -> None:
        with pytest.raises(ConfigError, match=r"Did you mean 'cuda'\?"):
            open_runner(bundle, "cud")

    @pytest.mark.parametrize(("word", "meant"), [("gpu", "cuda"), ("GPU:0", "cuda"), ("trt", "tensorrt")])
    def test_a_device_by_another_name(self, bundle: Bundle, word: str, meant: str) -> None:
        with pytest.raises(ConfigError, match=rf"Did you mean '{meant}'\?"):
            open_runner(bundle, word)


class TestMachine:
    """Facts for records, read from a tree that a test can write."""

    def _write(self, root: Path, **files: str) -> Path:
        for name, text in files.items():
            path = root / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        return root

    def test_facts_of_this_machine(self) -> None:
        facts = machine_facts()
        assert {"system", "kernel", "architecture", "cpu_model", "cpu_cores_usable", "python"} <= set(facts)
        assert facts["onnxruntime"] == onnxruntime.__version__
        text = str(facts)
        assert str(Path.home()) not in text
        assert os.uname().nodename not in text or len(os.uname().nodename) < 4

    def test_a_jetson_is_named(self, tmp_path: Path) -> None:
        root = self._write(tmp_path)
        (root / "proc/device-tree").mkdir(parents=True)
        (root / "proc/device-tree/model").write_bytes(b"NVIDIA Jetson Orin NX\0")
        assert machine_facts(root)["board"] == "NVIDIA Jetson Orin NX"
        assert is_jetson(root)
        assert not is_jetson(tmp_path / "elsewhere")

    def test_cpu_and_gpu_are_named(self, tmp_path: Path) -> None:
        root = self._write(tmp_path, proc__cpuinfo="processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n")
        gpu = root / "proc/driver/nvidia/gpus/0000:01:00.0"
        gpu.mkdir(parents=True)
        (gpu / "information").write_text("Model: \t\t NVIDIA T4\nIRQ: 1\n", "utf-8")
        facts = machine_facts(root)
        assert facts["cpu_model"] == "Some CPU @ 2 GHz"
        assert facts["gpu"] == "NVIDIA T4"

    @pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no CPU affinity on this system")
    def test_cores_honour_affinity_threads_and_limits(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
        assert usable_cores(tmp_path / "nothing") == 8
        for index in range(8):
            folder = tmp_path / f"sys/devices/system/cpu/cpu{index}/topology"
            folder.mkdir(parents=True)
            (folder / "thread_siblings_list").write_text(f"{index % 4},{index % 4 + 4}\n", "utf-8")
        assert usable_cores(tmp_path) == 4
        group = tmp_path / "sys/fs/cgroup"
        group.mkdir(parents=True)
        for text, cores in (("max 100000", 4), ("250000 100000", 2), ("50000 100000", 1)):
            (group / "cpu.max").write_text(text, "utf-8")
            assert usable_cores(tmp_path) == cores
        (group / "cpu.max").unlink()
        self._write(group, cpu__cfs="")
        (group / "cpu/cpu.cfs_quota_us").write_text("300000", "utf-8")
        (group / "cpu/cpu.cfs_period_us").write_text("100000", "utf-8")
        assert usable_cores(tmp_path) == 3
