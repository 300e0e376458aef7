"""What this machine has for the SDK, found by using it, and what to do about what it lacks."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from edge_sdk.devices.finding import STATES, Finding
from edge_sdk.devices.gpu_findings import bindings_finding, pycuda_finding, tensorrt_finding
from edge_sdk.devices.host import cuda_finding, find_host
from edge_sdk.devices.library_findings import extra_findings, onnxruntime_findings, opencv_findings
from edge_sdk.devices.machine import installed_version
from edge_sdk.devices.state_findings import state_findings
from edge_sdk.engine.bundle import list_bundles
from edge_sdk.engine.onnx_runner import cpu_sums, import_onnxruntime, provider_loads
from edge_sdk.machine_state.leftover import find_leftover
from edge_sdk.machine_state.reader import MachineReader

__all__ = ["STATES", "Finding", "ask_child", "build_information", "examine"]

_CHILD_LIMIT_S = 30
_NEWEST_TESTED_PYTHON = (3, 13)


def ask_child(code: str) -> tuple[bool, str]:
    """Runs a line of Python in a process of its own, which a crashing driver library cannot take along.

    Returns: whether it ended well, and the last line that it wrote.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=_CHILD_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False, f"no answer within {_CHILD_LIMIT_S} s"
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return done.returncode == 0, lines[-1] if lines else f"exit status {done.returncode}"


def build_information() -> tuple[str, str]:
    """Returns OpenCV's version and its own account of how it was built."""
    import cv2

    account: str = cv2.getBuildInformation()
    return cv2.__version__, account


def module_file() -> Path:
    """Returns the file that `import cv2` loads."""
    import cv2

    return Path(cv2.__file__)


def examine(
    root: Path = Path("/"),
    *,
    version_of: Callable[[str], str] = installed_version,
    child: Callable[[str], tuple[bool, str]] = ask_child,
    opencv: Callable[[], tuple[str, str]] = build_information,
    opencv_file: Callable[[], Path] = module_file,
    onnxruntime: Callable[[], Any] = import_onnxruntime,
    loads: Callable[[str], str] = provider_loads,
    sums: Callable[[], str] = cpu_sums,
    bundles: Callable[[], Iterable[str]] = list_bundles,
) -> tuple[Finding, ...]:
    """Looks for everything the SDK can use here.

    Arguments:
        root: of the file system, so that another machine's tree can be examined.
        version_of: distribution -> its version or "".
        child, opencv, opencv_file, onnxruntime, loads, sums, bundles: how to ask; tests pass their own.
    """
    host = find_host(root, child)
    return (
        _python(),
        Finding("NumPy", "ok", version_of("numpy")),
        *opencv_findings(opencv, opencv_file, version_of, root, host),
        *onnxruntime_findings(onnxruntime, loads, sums, version_of, host),
        cuda_finding(host),
        tensorrt_finding(root, child, host),
        pycuda_finding(child, version_of, host),
        bindings_finding(child, version_of, host),
        *extra_findings(child, version_of),
        _bundles(tuple(bundles())),
        *state_findings(MachineReader(root).snapshot(), find_leftover(root)),
    )


def _python() -> Finding:
    if sys.version_info[:2] > _NEWEST_TESTED_PYTHON:
        newest = ".".join(map(str, _NEWEST_TESTED_PYTHON))
        return Finding("Python", "ok", platform.python_version(), f"Not tested above {newest}.")
    return Finding("Python", "ok", platform.python_version())


def _bundles(names: tuple[str, ...]) -> Finding:
    if names:
        return Finding("Engine bundles", "ok", ", ".join(sorted(names)), "")
    return Finding(
        "Engine bundles",
        "absent",
        "none installed",
        "Give --engine a bundle's folder, or set EDGE_SDK_ENGINES.",
    )
