"""`import edge_sdk`: what it gives, and what it does not load."""

from __future__ import annotations

import ast
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import edge_sdk
from edge_sdk.requirements import DISTRIBUTION

HEAVY = ("onnxruntime", "tensorrt", "pycuda", "cuda", "cv2", "numpy", "rich", "typer", "supervision", "yaml")
SOURCE = Path(edge_sdk.__file__).read_text("utf-8")


def loaded_after(statement: str) -> set[str]:
    """Names what a statement loads; some packages load themselves when Python starts, whatever is run."""
    code = (
        f"import sys; before = set(sys.modules); {statement}; "
        "print(' '.join(name.partition('.')[0] for name in set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_bare_import_loads_nothing_heavy() -> None:
    loaded = loaded_after("import edge_sdk")
    assert "edge_sdk" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_values_load_numpy_but_no_vendor_library() -> None:
    """Shows that the test above can see what is loaded."""
    loaded = loaded_after("import edge_sdk; edge_sdk.Detections")
    assert "numpy" in loaded
    assert loaded.isdisjoint({"onnxruntime", "tensorrt", "pycuda", "cuda", "supervision"})


def test_the_pipeline_loads_no_engine_until_one_is_asked_for() -> None:
    loaded = loaded_after("import edge_sdk; edge_sdk.load")
    assert loaded.isdisjoint({"onnxruntime", "tensorrt", "pycuda", "cuda", "rich", "typer"})


def test_all_is_sorted_short_and_true() -> None:
    assert edge_sdk.__all__ == sorted(edge_sdk.__all__)
    assert len(edge_sdk.__all__) <= 30
    assert len(set(edge_sdk.__all__)) == len(edge_sdk.__all__)
    for name in edge_sdk.__all__:
        assert getattr(edge_sdk, name) is not None
    assert dir(edge_sdk) == sorted(edge_sdk.__all__)


def test_late_names_are_those_of_all_and_come_from_where_type_checkers_think() -> None:
    assert set(edge_sdk._HOMES) | {"__version__"} == set(edge_sdk.__all__)
    typed = {
        alias.name: (node.module or "").removeprefix("edge_sdk.")
        for node in ast.walk(ast.parse(SOURCE))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("edge_sdk.")
        for alias in node.names
    }
    assert typed == dict(edge_sdk._HOMES)


@pytest.mark.parametrize("name", sorted(edge_sdk._HOMES))
def test_a_late_name_is_its_modules_own(name: str) -> None:
    value = getattr(edge_sdk, name)
    assert value.__name__ == name
    assert value.__module__.startswith(f"edge_sdk.{edge_sdk._HOMES[name].partition('.')[0]}")
    assert value.__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Detectr'"):
        _ = edge_sdk.Detectr


def test_the_version_is_that_of_the_installed_package() -> None:
    try:
        installed = importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("needs this project installed: pip install -e .")
    assert installed == edge_sdk.__version__
