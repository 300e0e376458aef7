"""The scripts that set test environments up run on a Python that has nothing installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("script", ["setup_venv", "matrix", "pycuda_wheel"])
def test_it_needs_the_standard_library_alone(script: str) -> None:
    code = f"import sys; sys.path.insert(0, {str(TESTS)!r}); import {script}"
    # -S: without site-packages.
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
