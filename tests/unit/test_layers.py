"""The layers of ARCHITECTURE.md, held by import-linter; and proof that a wrong import is caught."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = "The path of a frame: a module imports only lower layers"
VENDORS = "Vendor libraries are known to one room each"

pytest.importorskip("importlinter", reason="needs the package import-linter")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the package and its contracts, free to be spoilt."""
    shutil.copytree(
        ROOT / "edge_sdk",
        tmp_path / "edge_sdk",
        ignore=lambda folder, names: [
            name for name in names if not name.endswith(".py") and not (Path(folder) / name).is_dir()
        ],
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-cache",
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    # import-linter up to 2.6, the last for Python 3.10, writes colours into a pipe.
    return done.returncode, re.sub(r"\x1b\[\d*m", "", done.stdout + done.stderr)


def test_the_contracts_are_kept() -> None:
    status, report = lint(ROOT)
    assert status == 0, report
    assert f"{LAYERS} KEPT" in report
    assert f"{VENDORS} KEPT" in report
    assert "0 broken" in report


@pytest.mark.parametrize(
    ("room", "line", "contract"),
    [
        ("frames.py", "from edge_sdk.pipeline import load", LAYERS),
        ("routing.py", "from edge_sdk.preprocess import Letterbox", LAYERS),
        ("routing.py", "import tensorrt", VENDORS),
    ],
)
def test_a_wrong_import_is_reported(checkout: Path, room: str, line: str, contract: str) -> None:
    path = checkout / "edge_sdk" / room
    path.write_text(path.read_text("utf-8") + f"\n\ndef late() -> None:\n    {line}\n", "utf-8")
    status, report = lint(checkout)
    assert status == 1, report
    assert f"{contract} BROKEN" in report
    importer = f"edge_sdk.{room.removesuffix('.py')}"
    assert f"{importer} -> {line.split()[1]}" in report


def test_a_room_outside_the_picture_is_reported(checkout: Path) -> None:
    (checkout / "edge_sdk" / "utils.py").write_text("")
    status, report = lint(checkout)
    assert status == 1, report
    assert "utils" in report


def test_every_folder_of_modules_is_a_package() -> None:
    """A folder without `__init__.py` would be left out of the installed package."""
    folders = {path.parent for path in (ROOT / "edge_sdk").rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []
