"""What this machine has for the SDK, found by using it, and what to do about what it lacks."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from edge_sdk.devices.finding import STATES, Finding
from edge_sdk.devices.machine import installed_version, is_jetson
from edge_sdk.devices.state_findings import state_findings
from edge_sdk.engine.bundle import list_bundles
from edge_sdk.engine.int8_sums import BY_OPTION, EXACT, EXACT_OPTION
from edge_sdk.engine.onnx_runner import CPU, CUDA, cpu_sums, import_onnxruntime, provider_loads
from edge_sdk.errors import DeviceNotFoundError, OpenCvMissingError
from edge_sdk.machine_state.leftover import find_leftover
from edge_sdk.machine_state.reader import MachineReader

__all__ = ["STATES", "Finding", "ask_child", "build_information", "examine"]

_CHILD_LIMIT_S = 30
_NEWEST_TESTED_PYTHON = (3, 13)
_SYSTEM_PACKAGES = re.compile(r"/usr/lib/python3[^/]*/dist-packages/")
"""Where Debian, Ubuntu and JetPack put Python packages of their own; pip never does."""

_JETPACK_PYTHON = "JetPack 6: Python 3.10, TensorRT 10.3; JetPack 7.2: Python 3.12, TensorRT 10.16"


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

    return cv2.__version__, cv2.getBuildInformation()


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
    return (
        _python(),
        Finding("NumPy", "ok", version_of("numpy")),
        *_opencv(opencv, opencv_file, version_of, root),
        *_onnxruntime(onnxruntime, loads, sums, version_of, is_jetson(root)),
        _tensorrt(root, child),
        _driver_package("pycuda", "pycuda.driver as d; d.init(); print(d.Device.count())", child, version_of),
        _driver_package(
            "cuda-bindings",
            "cuda.bindings.driver as d; assert d.cuInit(0)[0] == 0, 'cuInit'; print(d.cuDeviceGetCount()[1])",
            child,
            version_of,
        ),
        _bundles(tuple(bundles())),
        *state_findings(MachineReader(root).snapshot(), find_leftover(root)),
    )


def _python() -> Finding:
    if sys.version_info[:2] > _NEWEST_TESTED_PYTHON:
        newest = ".".join(map(str, _NEWEST_TESTED_PYTHON))
        return Finding("Python", "ok", platform.python_version(), f"Not tested above {newest}.")
    return Finding("Python", "ok", platform.python_version())


def _opencv(
    opencv: Callable[[], tuple[str, str]],
    opencv_file: Callable[[], Path],
    version_of: Callable[[str], str],
    root: Path,
) -> list[Finding]:
    try:
        version, account = opencv()
    except ImportError as error:
        return [Finding("OpenCV", "fault", str(error), OpenCvMissingError.ADVICE)]
    wheels = [name for name in ("opencv-python", "opencv-python-headless") if version_of(name)]
    system = is_jetson(root) and any(root.glob("usr/lib/python3*/dist-packages/cv2*"))
    if _SYSTEM_PACKAGES.match(str(opencv_file())):
        found = [Finding("OpenCV", "ok", f"{version}, the system's own")]
    elif system:
        advice = f"It hides JetPack's own, which has GStreamer: pip uninstall {' '.join(wheels)}".rstrip()
        found = [Finding("OpenCV", "ok", f"{version}, from pip", advice)]
    else:
        found = [Finding("OpenCV", "ok", f"{version}, from pip" if wheels else f"{version}, built by hand")]
    if len(wheels) > 1:
        both = " and ".join(wheels)
        found = [Finding("OpenCV", "fault", f"{version}, {both}", "They share one module: keep one of them.")]
    for name, need in (
        ("GStreamer", "Needed for CSI cameras only. JetPack's own OpenCV has it; pip's shadows that one."),
        ("FFMPEG", "Needed to read and write video files."),
    ):
        lines = [line for line in account.splitlines() if line.strip().startswith(f"{name}:")]
        there = any("YES" in line for line in lines)
        found.append(
            Finding(f"OpenCV {name}", "ok", "built in")
            if there
            else Finding(f"OpenCV {name}", "absent", "no", need)
        )
    return found


def _onnxruntime(
    onnxruntime: Callable[[], Any],
    loads: Callable[[str], str],
    sums: Callable[[], str],
    version_of: Callable[[str], str],
    jetson: bool,
) -> list[Finding]:
    try:
        runtime = onnxruntime()
    except DeviceNotFoundError as error:
        advice = "Needed: pip install edge-sdk[cpu], or edge-sdk[gpu] for a CUDA GPU. Never both."
        return [Finding("ONNX Runtime", "fault", error.tried[0][1], advice)]
    wheels = [name for name in ("onnxruntime", "onnxruntime-gpu") if version_of(name)]
    found = [Finding("ONNX Runtime", "ok", f"{runtime.__version__} ({' and '.join(wheels) or 'no wheel'})")]
    if len(wheels) > 1:
        advice = (
            "They share one module, and one breaks the other: pip uninstall onnxruntime onnxruntime-gpu, "
            "then install the one you want."
        )
        found = [Finding("ONNX Runtime", "fault", f"{runtime.__version__} ({' and '.join(wheels)})", advice)]
    for name, provider in (("CPU", CPU), ("CUDA", CUDA)):
        problem = loads(provider)
        if not problem:
            found.append(Finding(f"ONNX Runtime on {name}", "ok", f"{provider} ran a graph"))
            found += [_int8(sums())] if name == "CPU" else []
        elif name == "CPU":
            found.append(Finding(f"ONNX Runtime on {name}", "fault", problem, "Reinstall ONNX Runtime."))
        else:
            advice = "Only for an NVIDIA GPU: pip install edge-sdk[gpu] in place of edge-sdk[cpu]."
            if jetson:
                advice = (
                    "On JetPack 6 no wheel of the package index fits: install onnxruntime-gpu from "
                    "Jetson AI Lab's index (jp6/cu126), in place of onnxruntime."
                )
            found.append(Finding(f"ONNX Runtime on {name}", "absent", problem, advice))
    return found


def _int8(sums: str) -> Finding:
    if sums == EXACT:
        return Finding("INT8 on the CPU", "ok", "sums are exact")
    if sums == BY_OPTION:
        advice = "This CPU's fast INT8 kernels saturate, and slower ones run: precision='fp32' may be faster."
        return Finding(
            "INT8 on the CPU", "ok", f"sums are exact with {EXACT_OPTION[0]}, which is used", advice
        )
    advice = "Detections of INT8 engines are off here. Use precision='fp32', or a newer ONNX Runtime."
    return Finding("INT8 on the CPU", "fault", "sums saturate at 16 bits", advice)


def _tensorrt(root: Path, child: Callable[[str], tuple[bool, str]]) -> Finding:
    """TensorRT's bindings load libraries of the driver and may crash without one: a child imports them."""
    well, answer = child("import tensorrt; print(tensorrt.__version__)")
    if well:
        return Finding("TensorRT", "ok", answer, "Build plans with: edge-sdk engines build NAME.")
    elsewhere = sorted(root.glob("usr/lib/python3*/dist-packages/tensorrt"))
    if elsewhere:
        return Finding(
            "TensorRT",
            "absent",
            f"installed for {elsewhere[0].parts[-3]} of the system, not seen by this Python",
            "Make the environment with the system's Python and --system-site-packages.",
        )
    return Finding("TensorRT", "absent", answer, f"It comes with JetPack, not from pip ({_JETPACK_PYTHON}).")


def _driver_package(
    name: str, code: str, child: Callable[[str], tuple[bool, str]], version_of: Callable[[str], str]
) -> Finding:
    version = version_of(name)
    if not version:
        return Finding(name, "absent", "not installed", "Only for a Jetson: pip install edge-sdk[jetson].")
    well, answer = child(f"import {code}")
    if well:
        return Finding(name, "ok", f"{version}, {answer} CUDA device(s)")
    return Finding(name, "absent", f"{version}, no CUDA device: {answer}", "Needs an NVIDIA driver and GPU.")


def _bundles(names: tuple[str, ...]) -> Finding:
    if names:
        return Finding("Engine bundles", "ok", ", ".join(sorted(names)), "")
    return Finding(
        "Engine bundles",
        "absent",
        "none installed",
        "Give --engine a bundle's folder, or set EDGE_SDK_ENGINES.",
    )
