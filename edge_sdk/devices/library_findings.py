"""What doctor finds of OpenCV, ONNX Runtime and the libraries of the extras."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from edge_sdk.devices.finding import Finding
from edge_sdk.devices.host import Host
from edge_sdk.engine.int8_sums import BY_OPTION, EXACT, EXACT_OPTION
from edge_sdk.engine.onnx_runner import CPU, CUDA
from edge_sdk.errors import DeviceNotFoundError, OpenCvMissingError
from edge_sdk.requirements import EXTRAS, hint_for, install_command, libraries, lowest, name_of

__all__ = ["extra_findings", "onnxruntime_findings", "opencv_findings"]

_SYSTEM_PACKAGES = re.compile(r"/usr/lib/python3[^/]*/dist-packages/")
"""Where Debian, Ubuntu and JetPack put Python packages of their own; pip never does."""

_MODULES = {
    "flyr": "flyr",
    "av": "av",
    "cptv": "cptv",
    "aiohttp": "aiohttp",
    "prometheus_client": "prometheus_client",
    "mcap": "mcap.reader",
    "paho-mqtt": "paho.mqtt.client",
    "nvidia-ml-py": "pynvml",
    "jetson-stats": "jtop",
    "onnx": "onnx",
}
"""Library of an extra to the module that proves it. The others have findings of their own."""

_RUNTIMES = {"cpu": "onnxruntime", "gpu": "onnxruntime-gpu"}
_OTHER = {"cpu": "gpu", "gpu": "cpu"}

_USES = {
    "cpu": "Engines on the CPU",
    "gpu": "ONNX Runtime on an NVIDIA GPU, in place of cpu",
    "jetson": "TensorRT, on a Jetson or beside a card",
    "camera": "Network cameras, videos with times, CPTV clips",
    "flir": "FLIR radiometric JPEG",
    "serve": "The live page",
    "record": "Recordings",
    "mqtt": "Messages to a broker",
    "nvml": "Power of an NVIDIA card",
    "jtop": "Power through jetson-stats",
}


def opencv_findings(
    opencv: Callable[[], tuple[str, str]],
    opencv_file: Callable[[], Path],
    version_of: Callable[[str], str],
    root: Path,
    host: Host,
) -> Iterator[Finding]:
    """Says which OpenCV is loaded, and what it was built with."""
    try:
        version, account = opencv()
    except ImportError as error:
        yield Finding("OpenCV", "fault", str(error), OpenCvMissingError.advice_for(str(error)))
        return
    wheels = [name for name in ("opencv-python", "opencv-python-headless") if version_of(name)]
    system = host.jetson and any(root.glob("usr/lib/python3*/dist-packages/cv2*"))
    if len(wheels) > 1:
        both = " and ".join(wheels)
        yield Finding("OpenCV", "fault", f"{version}, {both}", "They share one module: keep one of them.")
    elif _SYSTEM_PACKAGES.match(str(opencv_file())):
        yield Finding("OpenCV", "ok", f"{version}, the system's own")
    elif system:
        remove = f"pip uninstall {' '.join(wheels)}".rstrip()
        advice = f"It hides JetPack's own, which has GStreamer: `{remove}`"
        yield Finding("OpenCV", "ok", f"{version}, from pip", advice)
    else:
        yield Finding("OpenCV", "ok", f"{version}, {'from pip' if wheels else 'built by hand'}")
    for name, need in (
        ("GStreamer", "Needed for CSI cameras only. JetPack's own OpenCV has it; pip's shadows that one."),
        ("FFMPEG", "Needed to read and write video files."),
    ):
        lines = [line for line in account.splitlines() if line.strip().startswith(f"{name}:")]
        there = any("YES" in line for line in lines)
        yield Finding(f"OpenCV {name}", *(("ok", "built in", "") if there else ("absent", "no", need)))


def onnxruntime_findings(
    onnxruntime: Callable[[], Any],
    loads: Callable[[str], str],
    sums: Callable[[], str],
    version_of: Callable[[str], str],
    host: Host,
) -> Iterator[Finding]:
    """Says which ONNX Runtime is loaded, and which of its providers run a graph."""
    try:
        runtime = onnxruntime()
    except DeviceNotFoundError as error:
        advice = f"Needed, by the check of TensorRT's plans too: `{hint_for('onnxruntime')}`"
        if host.gpu:
            advice += f", or for the GPU in place of it: {_gpu_advice(host)} Never both."
        yield Finding("ONNX Runtime", "fault", error.tried[0][1], advice)
        return
    wheels = [name for name in ("onnxruntime", "onnxruntime-gpu") if version_of(name)]
    found = f"{runtime.__version__} ({' and '.join(wheels) or 'no wheel'})"
    if len(wheels) > 1:
        advice = (
            "They share one module, and one breaks the other: `pip uninstall onnxruntime onnxruntime-gpu`, "
            "then install the one you want."
        )
        yield Finding("ONNX Runtime", "fault", found, advice)
    else:
        yield Finding("ONNX Runtime", "ok", found)
    if problem := loads(CPU):
        yield Finding("ONNX Runtime on CPU", "fault", problem, "Reinstall ONNX Runtime.")
    else:
        yield Finding("ONNX Runtime on CPU", "ok", f"{CPU} ran a graph")
        yield _int8(sums())
    if problem := loads(CUDA):
        advice = (
            f"`pip uninstall onnxruntime`, then {_gpu_advice(host)}"
            if host.gpu
            else "Only for an NVIDIA GPU; this machine shows none."
        )
        yield Finding("ONNX Runtime on CUDA", "absent", problem, advice)
    else:
        yield Finding("ONNX Runtime on CUDA", "ok", f"{CUDA} ran a graph")


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


def _gpu_advice(host: Host) -> str:
    """Which onnxruntime-gpu fits. Source: its wheels' metadata: CUDA 12 up to 1.26, CUDA 13 from 1.27 on."""
    if host.jetson and host.minor == 10:
        return (
            "the onnxruntime-gpu wheel for JetPack 6 (jp6/cu126) of Jetson AI Lab's index; no wheel of the "
            "public index fits."
        )
    twelve = "`pip install 'onnxruntime-gpu[cuda,cudnn]>=1.21,<1.27'`"
    thirteen = "`pip install 'onnxruntime-gpu[cuda,cudnn]>=1.27'`"
    if host.jetson:
        thirteen = "`pip install 'onnxruntime-gpu>=1.27'`"
    if host.cuda_major == 12:
        return f"{twelve}."
    if host.cuda_major == 13:
        return f"{thirteen}."
    return f"{twelve} for CUDA 12 or {thirteen} for CUDA 13."


def extra_findings(
    child: Callable[[str], tuple[bool, str]], version_of: Callable[[str], str]
) -> Iterator[Finding]:
    """Goes through every extra: its libraries, whether they are new enough, and whether they import."""
    for extra in EXTRAS:
        other = _OTHER.get(extra)
        if other is not None and not version_of(_RUNTIMES[extra]):
            if version_of(_RUNTIMES[other]):
                yield Finding(f"Extra {extra}", "absent", f"{other} is there", "Only one of the two.")
            else:
                yield Finding(f"Extra {extra}", "absent", "not installed", "See ONNX Runtime above.")
            continue
        yield _extra(extra, child, version_of)


def _extra(extra: str, child: Callable[[str], tuple[bool, str]], version_of: Callable[[str], str]) -> Finding:
    """OpenCV is left out: it has findings of its own, and need not come from pip."""
    wanted = [text for text in libraries(extra) if name_of(text) != "opencv-python"]
    versions = {name_of(text): version_of(name_of(text)) for text in wanted}
    name, use = f"Extra {extra}", _USES[extra]
    there = ", ".join(f"{library} {version}" for library, version in versions.items() if version)
    missing = [library for library, version in versions.items() if not version]
    if missing:
        found = "; ".join(part for part in (there, f"not installed: {', '.join(missing)}") if part)
        return Finding(name, "absent", found, f"{use}: `{install_command(extra, *missing)}`")
    old = [text for text in wanted if _number(versions[name_of(text)]) < _number(lowest(text))]
    if old:
        needs = f"{there}; needs {', '.join(old)}"
        return Finding(name, "fault", needs, f"{use}: `{install_command(extra, *map(name_of, old))}`")
    modules = [_MODULES[library] for library in versions if library in _MODULES]
    if modules:
        well, answer = child(f"import {', '.join(modules)}")
        if not well:
            return Finding(name, "fault", f"{there}; does not import: {answer}", f"{use}. Install it again.")
    return Finding(name, "ok", there)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.match(r"[\d.]*", version)[0].split(".") if part)  # type: ignore[index]
