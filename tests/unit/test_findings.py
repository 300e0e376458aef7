"""What doctor finds on machines of several kinds, none of them this one."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from edge_sdk.cli.doctor import doctor
from edge_sdk.devices.findings import STATES, Finding, ask_child, examine
from edge_sdk.engine.onnx_runner import CPU
from edge_sdk.errors import DeviceNotFoundError

WITH = "  Video I/O:\n    FFMPEG:                      YES\n    GStreamer:                   YES (1.20.3)\n"
WITHOUT = "  Video I/O:\n    FFMPEG:                      YES\n    GStreamer:                   NO\n"


def look(root: Path = Path("/nowhere"), **ways: Any) -> dict[str, Finding]:
    """Examines a machine on which everything is there, but for what is given."""
    installed = ways.pop("installed", {"numpy": "2.0", "onnxruntime": "1.32"})
    defaults: dict[str, Any] = {
        "version_of": lambda name: installed.get(name, ""),
        "child": lambda _: (False, "no module"),
        "opencv": lambda: ("4.10", WITH),
        "opencv_file": lambda: Path("/venv/lib/python3.10/site-packages/cv2/__init__.py"),
        "onnxruntime": lambda: SimpleNamespace(__version__="1.32.0"),
        "loads": lambda provider: "" if provider == CPU else "this build has CPUExecutionProvider",
        "bundles": lambda: ["toy"],
    }
    return {item.what: item for item in examine(root, **{**defaults, **ways})}


def test_a_plain_machine_has_no_fault() -> None:
    found = look()
    assert {item.state for item in found.values()} <= set(STATES)
    assert not [item for item in found.values() if item.state == "fault"]
    assert all(item.advice for item in found.values() if item.state == "absent")
    assert found["ONNX Runtime on CPU"].found == "CPUExecutionProvider ran a graph"
    assert "edge-sdk[gpu] in place of edge-sdk[cpu]" in found["ONNX Runtime on CUDA"].advice
    assert found["Engine bundles"].found == "toy"


def test_both_wheels_of_onnx_runtime_are_a_fault() -> None:
    found = look(installed={"onnxruntime": "1.32", "onnxruntime-gpu": "1.31"})["ONNX Runtime"]
    assert found.state == "fault"
    assert "pip uninstall onnxruntime onnxruntime-gpu" in found.advice


def test_no_onnx_runtime_is_a_fault_with_the_cure() -> None:
    def missing() -> Any:
        raise DeviceNotFoundError("onnxruntime", [("import onnxruntime", "No module named 'onnxruntime'")])

    found = look(onnxruntime=missing)
    assert found["ONNX Runtime"].state == "fault"
    assert "pip install edge-sdk[cpu]" in found["ONNX Runtime"].advice
    assert "ONNX Runtime on CPU" not in found


def test_a_cpu_provider_that_does_not_load_is_a_fault() -> None:
    assert look(loads=lambda _: "broken")["ONNX Runtime on CPU"].state == "fault"


def test_cuda_that_ran_is_reported() -> None:
    found = look(loads=lambda _: "")["ONNX Runtime on CUDA"]
    assert (found.state, found.found) == ("ok", "CUDAExecutionProvider ran a graph")


def test_a_jetson_gets_the_advice_for_a_jetson(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nv_tegra_release").touch()
    (tmp_path / "usr/lib/python3.10/dist-packages/tensorrt").mkdir(parents=True)
    found = look(tmp_path)
    assert "Jetson AI Lab" in found["ONNX Runtime on CUDA"].advice
    assert "installed for python3.10 of the system" in found["TensorRT"].found
    assert "--system-site-packages" in found["TensorRT"].advice


def test_tensorrt_that_imports_gives_its_version() -> None:
    found = look(child=lambda code: (True, "10.3.0") if "tensorrt" in code else (False, ""))["TensorRT"]
    assert (found.state, found.found) == ("ok", "10.3.0")
    assert "edge-sdk engines build" in found.advice


@pytest.mark.parametrize("name", ["pycuda", "cuda-bindings"])
def test_driver_packages_are_asked_for_devices(name: str) -> None:
    installed = {name: "2026.1"}
    assert look(installed=installed, child=lambda _: (True, "1"))[name].found == "2026.1, 1 CUDA device(s)"
    found = look(installed=installed, child=lambda _: (False, "cuInit failed: no device"))[name]
    assert (found.state, found.found) == ("absent", "2026.1, no CUDA device: cuInit failed: no device")


def test_gstreamer_is_read_from_the_build_information() -> None:
    assert look()["OpenCV GStreamer"].state == "ok"
    found = look(opencv=lambda: ("5.0", WITHOUT))["OpenCV GStreamer"]
    assert found.state == "absent"
    assert "JetPack's own OpenCV" in found.advice


def test_two_wheels_of_opencv_are_a_fault() -> None:
    found = look(installed={"opencv-python": "5", "opencv-python-headless": "5"})["OpenCV"]
    assert found.state == "fault"


SYSTEMS_FILE = Path("/usr/lib/python3.10/dist-packages/cv2/__init__.py")


def test_it_says_which_opencv_is_loaded() -> None:
    assert look(opencv_file=lambda: SYSTEMS_FILE)["OpenCV"].found == "4.10, the system's own"
    assert look(installed={"opencv-python": "5"})["OpenCV"].found == "4.10, from pip"
    assert look()["OpenCV"].found == "4.10, built by hand"


def test_a_wheel_that_hides_jetpacks_opencv_is_named(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nv_tegra_release").touch()
    (tmp_path / "usr/lib/python3.10/dist-packages/cv2").mkdir(parents=True)
    found = look(tmp_path, installed={"opencv-python": "5"})["OpenCV"]
    assert found.found == "4.10, from pip"
    assert found.advice == "It hides JetPack's own, which has GStreamer: pip uninstall opencv-python"
    assert look(tmp_path, opencv_file=lambda: SYSTEMS_FILE)["OpenCV"].advice == ""


def test_no_opencv_is_a_fault() -> None:
    def missing() -> tuple[str, str]:
        raise ImportError("libGL.so.1: cannot open shared object file")

    found = look(opencv=missing)
    assert found["OpenCV"].state == "fault"
    assert "libGL" in found["OpenCV"].found


def test_no_bundles_is_told() -> None:
    assert "EDGE_SDK_ENGINES" in look(bundles=lambda: [])["Engine bundles"].advice


def test_a_child_may_fail_without_harm() -> None:
    assert ask_child("print('hello')") == (True, "hello")
    well, answer = ask_child("import no_such_module")
    assert not well
    assert "no_such_module" in answer
    assert ask_child("import os; os._exit(3)")[0] is False


def test_the_command_reports_this_machine(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(doctor)
    file = tmp_path / "doctor.json"
    result = CliRunner().invoke(app, ["--json", str(file)], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "ONNX Runtime on CPU" in result.output
    report = json.loads(file.read_text("utf-8"))
    assert report["schema"] == 1
    assert report["machine"]["python"]
    assert {"what", "state", "found", "advice"} == set(report["findings"][0])
