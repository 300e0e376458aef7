"""A plain install, used from a folder that has nothing to do with the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)],
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("edge_sdk_rgbt-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel; what it depends on comes from the environment of the tests."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def python(installed: Path, cwd: Path, code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_wheel_holds_the_engine_and_the_clip_and_not_the_recipe(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    assert "edge_sdk_engines/substation-rgbt/bundle.toml" in names
    assert "edge_sdk/sources/clips/substation/clip.json" in names
    assert sum(name.startswith("edge_sdk/sources/clips/substation/thermal/") for name in names) == 150
    assert "edge_sdk/py.typed" in names
    assert not [name for name in names if "recipe" in name or name.startswith("tests/")]
    tops = {name.split("/")[0] for name in names if not name.startswith("edge_sdk_rgbt-")}
    assert tops == {"edge_sdk", "edge_sdk_apps", "edge_sdk_calibration", "edge_sdk_engines"}


def test_the_engine_is_found_by_name_from_any_folder(installed: Path, tmp_path: Path) -> None:
    shown = python(
        installed,
        tmp_path,
        "import edge_sdk; detector = edge_sdk.load('substation-rgbt'); print(detector.bundle.folder)",
    )

    assert Path(shown).is_relative_to(installed)


def test_a_result_comes_from_the_shipped_clip(installed: Path, tmp_path: Path) -> None:
    shown = python(
        installed,
        tmp_path,
        "import edge_sdk\n"
        "with edge_sdk.load('substation-rgbt') as detector:\n"
        "    with edge_sdk.open_source('clip:substation') as source:\n"
        "        print(len(source), detector(next(source)).route.value)",
    )

    assert shown.split()[0] == "150"
    assert shown.split()[1] in ("rgb", "fuse")


def test_the_jetson_extra_brings_no_opencv_and_the_others_do(wheel: Path) -> None:
    """A Jetson has an OpenCV of its own, with GStreamer, which one from pip would hide."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = archive.read(name).decode()
    wanted = [line for line in metadata.splitlines() if line.startswith("Requires-Dist: opencv")]
    extras = {line.split("extra == ")[1].strip("\"'") for line in wanted}
    assert extras == {"cpu", "gpu", "test", "train"}
    assert all("extra ==" in line for line in wanted)
    assert "Requires-Dist: pycuda" in metadata


@pytest.mark.parametrize(
    "code",
    [
        "import edge_sdk; edge_sdk.load",
        "from edge_sdk.cli.main import main; sys.argv = ['edge-sdk', 'run']; main()",
    ],
)
def test_without_opencv_it_says_which_to_install(tmp_path: Path, code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules['cv2'] = None; {code}"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (1, 3)
    assert "`pip install 'opencv-python>=4.8.0.74'`. On a Jetson use its own" in done.stderr


PROGRAMS = ("async_consumer", "camera_demo", "inspect_folder", "sla_validate", "service.edge_service")


def test_the_programs_to_copy_from_are_installed_and_run(installed: Path, tmp_path: Path) -> None:
    for name in PROGRAMS:
        said = python(
            installed,
            tmp_path,
            f"import runpy, sys; sys.argv = ['x', '--help']\n"
            f"try: runpy.run_module('edge_sdk_apps.{name}', run_name='__main__')\n"
            "except SystemExit as end: assert not end.code, end.code",
        )
        assert "usage:" in said, name
    shown = python(
        installed,
        tmp_path,
        "from importlib.resources import files; from edge_sdk.sla import load_sla\n"
        "here = files('edge_sdk_apps')\n"
        "for name in ('demo_sla', 'live_sla'): print(load_sla(here / f'{name}.yaml').name)\n"
        "print((files('edge_sdk_apps.service') / 'edge-sdk.service').read_text().count('[Service]'))",
    )
    assert shown.splitlines()[-1] == "1"


def test_calibration_is_installed_and_quantises_a_score(installed: Path, tmp_path: Path) -> None:
    code = (
        "import numpy as np, edge_sdk_calibration.int8, edge_sdk_calibration.gate as gate\n"
        "print(gate.__file__, gate.area_under_curve(np.array([.1, .9]), np.array([False, True])))"
    )
    file, area = python(installed, tmp_path, code).split()
    assert Path(file).is_relative_to(installed)
    assert float(area) == 1.0
