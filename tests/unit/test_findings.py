"""What doctor finds on machines of several kinds, none of them this one."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from edge_sdk.cli.doctor import doctor, print_findings
from edge_sdk.devices.findings import STATES, Finding, ask_child, examine
from edge_sdk.devices.host import Host
from edge_sdk.devices.library_findings import onnxruntime_findings
from edge_sdk.engine.onnx_runner import CPU
from edge_sdk.errors import DeviceNotFoundError
from edge_sdk.requirements import EXTRAS, install_command

ROOT = Path(__file__).resolve().parents[2]

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
    assert found["ONNX Runtime on CUDA"].advice == "Only for an NVIDIA GPU; this machine shows none."
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
    assert "`pip install 'onnxruntime>=1.20'`" in found["ONNX Runtime"].advice
    assert "opencv" not in found["ONNX Runtime"].advice
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
    assert found.advice == "It hides JetPack's own, which has GStreamer: `pip uninstall opencv-python`"
    assert look(tmp_path, opencv_file=lambda: SYSTEMS_FILE)["OpenCV"].advice == ""


def test_no_opencv_is_a_fault() -> None:
    def missing() -> tuple[str, str]:
        raise ImportError("libGL.so.1: cannot open shared object file")

    found = look(opencv=missing)
    assert found["OpenCV"].state == "fault"
    assert "libGL" in found["OpenCV"].found
    assert "`pip install 'opencv-python-headless>=4.8.0.74'`" in found["OpenCV"].advice
    assert "libgl1" in found["OpenCV"].advice


def test_an_opencv_for_another_numpy_is_told_apart() -> None:
    def unfit() -> tuple[str, str]:
        raise ImportError("numpy.core.multiarray failed to import")

    assert "`pip install 'numpy<2'`" in look(opencv=unfit)["OpenCV"].advice


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


def machine(tmp_path: Path, *, jetson: bool = False, card: bool = False, toolkit: str = "") -> Path:
    if jetson:
        (tmp_path / "etc").mkdir()
        (tmp_path / "etc/nv_tegra_release").touch()
    if card:
        folder = tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text("Model: \t\t NVIDIA RTX A2000\n", "utf-8")
    if toolkit:
        (tmp_path / "usr/local/cuda").mkdir(parents=True)
        text = json.dumps({"cuda": {"name": "CUDA SDK", "version": toolkit}})
        (tmp_path / "usr/local/cuda/version.json").write_text(text, "utf-8")
    return tmp_path


def driver(version: str) -> Any:
    return lambda code: (True, version) if "cuDriverGetVersion" in code else (False, "no module")


def test_bindings_for_a_newer_cuda_than_the_drivers_are_a_fault(tmp_path: Path) -> None:
    """What pip takes of itself on JetPack 6."""
    root = machine(tmp_path, jetson=True, toolkit="12.6.11")
    found = look(root, installed={"cuda-bindings": "13.5.0"}, child=driver("12.6"))
    assert found["CUDA"].found == "driver 12.6, toolkit 12.6.11"
    assert found["cuda-bindings"].state == "fault"
    assert found["cuda-bindings"].found == "13.5.0, made for CUDA 13; this machine has CUDA 12.6"
    assert found["cuda-bindings"].advice == "`pip install 'cuda-bindings>=12.8,<13'`"


@pytest.mark.parametrize(("cuda", "wanted"), [("12.6", ">=12.8,<13"), ("13.0", ">=13,<14")])
def test_the_bindings_advised_are_those_of_the_cuda_found(tmp_path: Path, cuda: str, wanted: str) -> None:
    found = look(machine(tmp_path, card=True), child=driver(cuda))["cuda-bindings"]
    assert found.advice == f"CUDA graphs need it: `pip install 'cuda-bindings{wanted}'`"


def test_older_bindings_on_a_newer_driver_are_no_fault(tmp_path: Path) -> None:
    found = look(machine(tmp_path, card=True), installed={"cuda-bindings": "12.9.1"}, child=driver("13.0"))
    assert found["cuda-bindings"].state == "absent"  # this child finds no device


@pytest.mark.parametrize(
    ("cuda", "tensorrt", "runtime"),
    [("12.8", "tensorrt-cu12>=10.3", ">=1.21,<1.27"), ("13.0", "tensorrt-cu13>=10.13", ">=1.27")],
)
def test_a_card_gets_the_packages_of_its_cuda(tmp_path: Path, cuda: str, tensorrt: str, runtime: str) -> None:
    found = look(machine(tmp_path, card=True), child=driver(cuda))
    assert found["TensorRT"].advice == f"`pip install '{tensorrt}'`"
    wanted = f"`pip uninstall onnxruntime`, then `pip install 'onnxruntime-gpu[cuda,cudnn]{runtime}'`."
    assert found["ONNX Runtime on CUDA"].advice == wanted


def test_advice_on_a_jetson_is_by_jetpack(tmp_path: Path) -> None:
    six = Host(jetson=True, card=False, driver="12.6", toolkit="", minor=10)
    seven = Host(jetson=True, card=False, driver="13.0", toolkit="", minor=12)
    ways: list[Any] = [
        lambda: SimpleNamespace(__version__="1"),
        lambda _: "no",
        lambda: "exact",
        lambda _: "",
    ]
    on = [{item.what: item for item in onnxruntime_findings(*ways, host)} for host in (six, seven)]
    assert "Jetson AI Lab" in on[0]["ONNX Runtime on CUDA"].advice
    assert "'onnxruntime-gpu>=1.27'" in on[1]["ONNX Runtime on CUDA"].advice


def test_a_jetson_without_jetpacks_components_is_told_how_to_get_them(tmp_path: Path) -> None:
    found = look(machine(tmp_path, jetson=True))
    assert found["CUDA"].state == "absent"
    assert "`sudo apt-get install nvidia-jetpack`" in found["CUDA"].advice
    assert "`--runtime nvidia`" in found["CUDA"].advice
    assert "JetPack 6.1 to 6.2.2" in found["TensorRT"].advice


def test_the_tensorrt_of_jetpack_6_0_is_too_old() -> None:
    found = look(child=lambda code: (True, "8.6.2") if "tensorrt" in code else (False, ""))["TensorRT"]
    assert (found.state, found.found) == ("absent", "8.6.2")
    assert "JetPack 6.1 and later" in found.advice


def test_every_extra_is_listed_with_the_way_to_get_it() -> None:
    found = look(installed={"onnxruntime": "1.32", "av": "18.1", "mcap": "1.1.0", "flyr": "5.1"})
    assert {name.removeprefix("Extra ") for name in found if name.startswith("Extra ")} == set(EXTRAS)
    assert found["Extra gpu"].found == "cpu is there"
    assert found["Extra gpu"].advice == "Only one of the two."
    assert found["Extra serve"].state == "absent"
    assert f"`{install_command('serve')}`" in found["Extra serve"].advice
    assert found["Extra camera"].found == "av 18.1; not installed: cptv"
    assert found["Extra camera"].advice.endswith("`pip install 'cptv>=1.5.5'`")
    assert (found["Extra record"].state, found["Extra record"].found) == (
        "fault",
        "mcap 1.1.0; needs mcap>=1.5",
    )
    assert found["Extra flir"].state == "fault"  # this child imports nothing
    assert look(installed={"flyr": "5.1"}, child=lambda _: (True, ""))["Extra flir"].state == "ok"


@pytest.mark.parametrize("width", [66, 80, 200])
def test_no_word_and_no_command_is_broken(width: int) -> None:
    path = "/usr/lib/python3.10/dist-packages/cv2/a-very-long-name-of-a-folder-indeed/__init__.py"
    command = "pip install 'aiohttp>=3.10' 'prometheus_client>=0.20'"
    items = [Finding("A thing with a very long name", "fault", path, f"The page needs it: `{command}`.")]
    out = io.StringIO()
    print_findings(Console(file=out, width=width), items, "This machine")
    lines = out.getvalue().splitlines()
    assert sum(path in line for line in lines) == 1
    assert sum(f"`{command}`" in line for line in lines) == 1
    assert "\0" not in out.getvalue()
    assert all(len(line) <= width or "/usr" in line or "pip" in line for line in lines)


@pytest.fixture
def broken_opencv(tmp_path: Path) -> dict[str, str]:
    """An environment whose OpenCV lacks libraries for windows, as the wheel's does on a bare machine."""
    folder = tmp_path / "broken"
    folder.mkdir()
    said = "libGL.so.1: cannot open shared object file: No such file or directory"
    (folder / "cv2.py").write_text(f"raise ImportError({said!r})\n", "utf-8")
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}


def test_doctor_survives_an_opencv_that_does_not_load(broken_opencv: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "edge_sdk.cli.main", "doctor"],
        env={**broken_opencv, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^fault +OpenCV +libGL\.so\.1", done.stdout, re.MULTILINE)
    assert "`pip install 'opencv-python-headless>=4.8.0.74'`" in done.stdout
    assert re.search(r"^ok +ONNX Runtime on CPU", done.stdout, re.MULTILINE)
    assert re.search(r"^ok +Engine bundles", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    "code",
    [
        "from edge_sdk.cli.main import main; sys.argv = ['edge-sdk', 'run']; main()",
        "import edge_sdk; edge_sdk.load",
    ],
)
def test_running_with_it_says_what_to_install(broken_opencv: dict[str, str], code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}"],
        env=broken_opencv,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (1, 3)
    assert "libGL.so.1" in done.stderr
    assert "`pip install 'opencv-python-headless>=4.8.0.74'`" in done.stderr
    assert "sudo apt-get install libgl1 libglib2.0-0" in done.stderr
