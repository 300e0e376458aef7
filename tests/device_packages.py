"""Installs what `make test-device` needs into the environment that runs this file, hiding nothing of JetPack.

The environment sees the system's packages: TensorRT always, OpenCV where JetPack's is installed. That one
is built for one major version of NumPy, which is kept; what cannot be imported comes from pip.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys


def main() -> None:
    """Installs, in the order in which one could hide another."""
    opencv = _imports("cv2")
    major = importlib.metadata.version("numpy").split(".")[0] if opencv else ""
    numpy = [f"numpy>=1.26,<{int(major) + 1}"] if opencv else []
    _install("pytest", "hypothesis", "-e", ".[jetson]", *numpy)
    if not _imports("onnxruntime"):
        _install("onnxruntime", *numpy)
    if not _imports("cv2"):
        _install("opencv-python-headless", *numpy)
    for module in ("numpy", "cv2", "onnxruntime"):
        if not _imports(module):
            sys.exit(f"{module} cannot be imported; run: {sys.executable} -c 'import {module}'")


def _install(*what: str) -> None:
    status = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", *what], check=False
    ).returncode
    if status:
        sys.exit(status)


def _imports(module: str) -> bool:
    return (
        subprocess.run(
            [sys.executable, "-c", f"import {module}"], check=False, capture_output=True
        ).returncode
        == 0
    )


if __name__ == "__main__":
    main()
