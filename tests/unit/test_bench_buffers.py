"""The measurement of memory kinds: what it does to the driver, what it chooses, and when it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from emulator import Emulator

from edge_sdk.bench.buffers import KindFigure, measure_buffers, run_buffers
from edge_sdk.bench.buffers import _choose as choose
from edge_sdk.buffers.choice import BufferChoice, Module, choice_path, load_choice, save_choice
from edge_sdk.buffers.cuda import CudaDevice
from edge_sdk.clock import FakeClock
from edge_sdk.engine import Bundle, load_bundle
from edge_sdk.errors import ConfigError, DeviceNotFoundError

MODULE = Module("Orin", "8.7", "NVIDIA Jetson Orin Nano")
CHOICE = BufferChoice("toy", "ab" * 32, MODULE, {"rgb": "mapped"}, {"rgb": "the fastest"})


@pytest.fixture
def bundle(toy_fusion: Path) -> Bundle:
    return load_bundle(toy_fusion)


def figure(kind: str, median_us: float, spread_us: float) -> KindFigure:
    return KindFigure("rgb", "image", 100, kind, median_us, spread_us, 10)


def test_without_a_gpu_ordinary_memory_is_measured_and_the_rest_is_named(bundle: Bundle) -> None:
    def absent() -> CudaDevice:
        raise DeviceNotFoundError("CUDA GPU 0", [("cuInit", "no driver")])

    report = run_buffers(bundle, turns=4, open_device=absent, clock=FakeClock(step_ns=2000))
    assert {item.kind for item in report.figures} == {"host"}
    assert {item.tensor for item in report.figures} == {
        "rgb",
        "thermal",
        "features",
        "scores",
        "boxes",
        "hot",
    }
    assert [item.median_us for item in report.figures] == [2.0] * 6
    assert list(report.unmeasured) == ["pinned", "mapped", "managed", "device"]
    assert "no driver" in report.unmeasured["device"]
    assert report.choice is None
    assert json.dumps(report.to_json())


def test_on_the_emulator_it_refuses(emulator: Emulator, bundle: Bundle) -> None:
    with pytest.raises(ConfigError, match=r"Orin \(emulated\): this CUDA driver is the emulator.*no speed"):
        run_buffers(bundle, turns=4)


def test_each_kind_moves_what_it_says(emulator: Emulator, bundle: Bundle) -> None:
    with CudaDevice.open() as device:
        emulator.reset_counts()
        report = measure_buffers(bundle, device, turns=2, clock=FakeClock(step_ns=1000))
    images = [item for item in report.figures if item.use == "image"]
    results = [item for item in report.figures if item.use == "result"]
    assert {item.kind for item in images} == {"pinned", "mapped", "managed"}
    assert "features" not in {item.tensor for item in report.figures}
    turns = 5 + 2
    pinned = [item.nbytes for item in images if item.kind == "pinned"]
    assert emulator.count("host_to_device_bytes") == turns * sum(pinned)
    assert emulator.count("device_to_host_bytes") == turns * sum(
        item.nbytes for item in results if item.kind == "pinned"
    )
    assert emulator.count("device_to_device_bytes") == turns * sum(item.nbytes for item in report.figures)
    assert emulator.count("pageable_copies") == 0


def test_equal_times_leave_the_default(emulator: Emulator, bundle: Bundle) -> None:
    for personality, default in (("integrated", "mapped"), ("discrete", "pinned")):
        emulator.become(personality)
        with CudaDevice.open() as device:
            report = measure_buffers(bundle, device, turns=4, clock=FakeClock(step_ns=1000))
        assert report.choice is not None
        assert set(report.choice.kinds.values()) == {default}
        assert report.choice.bundle_sha256 == bundle.sha256


@pytest.mark.parametrize(
    ("pinned_us", "spread_us", "chosen", "reason"),
    [
        (80.0, 5.0, "pinned", "20.0 us faster than mapped (100.0 us)"),
        (80.0, 15.0, "mapped", "within the noise of 30.0 us: the default stays"),
        (120.0, 5.0, "mapped", "the default and the fastest, 100.0 us"),
    ],
)
def test_another_kind_must_be_faster_by_more_than_the_noise(
    pinned_us: float, spread_us: float, chosen: str, reason: str
) -> None:
    figures = {
        "mapped": figure("mapped", 100.0, spread_us),
        "pinned": figure("pinned", pinned_us, spread_us),
    }
    kind, why = choose(figures, "mapped")
    assert kind == chosen
    assert reason in why


def test_one_turn_is_too_few(bundle: Bundle) -> None:
    with pytest.raises(ConfigError, match="turns: expected 2 or more, found 1"):
        run_buffers(bundle, turns=1)


def test_a_choice_is_read_again_on_the_same_module_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert load_choice("toy", CHOICE.bundle_sha256, MODULE, tmp_path) is None
    path = save_choice(CHOICE, tmp_path)
    assert path == tmp_path / "toy.buffers.json"
    assert [item.name for item in tmp_path.iterdir()] == [path.name]
    assert load_choice("toy", CHOICE.bundle_sha256, MODULE, tmp_path) == CHOICE
    assert caplog.text == ""
    assert load_choice("toy", "cd" * 32, MODULE, tmp_path) is None
    assert load_choice("toy", CHOICE.bundle_sha256, replace(MODULE, board="another"), tmp_path) is None
    assert "measured for bundle" in caplog.text
    assert "measured for module" in caplog.text
    save_choice(replace(CHOICE, kinds={"rgb": "pinned"}), tmp_path)
    again = load_choice("toy", CHOICE.bundle_sha256, MODULE, tmp_path)
    assert again is not None
    assert again.kinds == {"rgb": "pinned"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "Expecting value"),
        ("[]", "expected a JSON object, found list"),
        ('{"schema": "edge-sdk/buffers", "schema_version": 9}', "expected schema"),
        ("x" * 2_000_000, "more than 1048576 bytes"),
    ],
)
def test_a_damaged_choice_is_passed_over_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str, problem: str
) -> None:
    choice_path("toy", tmp_path).write_text(content)
    assert load_choice("toy", CHOICE.bundle_sha256, MODULE, tmp_path) is None
    assert problem in caplog.text
    assert "bench buffers" in caplog.text


def test_a_choice_of_no_known_kind_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save_choice(replace(CHOICE, kinds={"rgb": "fast"}), tmp_path)
    assert load_choice("toy", CHOICE.bundle_sha256, MODULE, tmp_path) is None
    assert "kinds.rgb: expected one of host, pinned" in caplog.text


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"toy\.buffers\.json: the choice of buffers cannot be written"):
        save_choice(CHOICE, tmp_path / "file")


def test_choices_lie_beside_the_plans(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("EDGE_SDK_PLANS", raising=False)
    assert choice_path("toy") == tmp_path / "edge-sdk" / "plans" / "toy.buffers.json"
    monkeypatch.setenv("EDGE_SDK_PLANS", str(tmp_path / "elsewhere"))
    assert choice_path("toy") == tmp_path / "elsewhere" / "toy.buffers.json"


def run_command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "edge_sdk.cli.main", "bench", "buffers", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200", **environment},
    )


def test_the_command_on_a_machine_without_a_gpu(tmp_path: Path, toy_fusion: Path) -> None:
    if Path("/proc/driver/nvidia").exists() or Path("/etc/nv_tegra_release").exists():
        pytest.skip("needs a machine without an NVIDIA driver")
    out = tmp_path / "buffers.json"
    done = run_command("--engine", str(toy_fusion), "--turns", "5", "--json", str(out))
    assert done.returncode == 0, done.stderr
    assert "Not measured: pinned, mapped, managed, device" in done.stdout
    assert "there is one kind of memory" in done.stdout
    assert json.loads(out.read_text())["choice"] is None


def test_the_command_prints_no_time_of_the_emulator(emulator: Emulator, toy_fusion: Path) -> None:
    done = run_command("--engine", str(toy_fusion), "--turns", "5", LD_LIBRARY_PATH=str(emulator.path.parent))
    assert done.returncode == 3
    assert "this CUDA driver is the emulator" in done.stderr
    assert done.stdout == ""
