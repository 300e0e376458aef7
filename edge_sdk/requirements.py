"""What the SDK needs from other projects, by extra: the one table that packaging and every hint read.

`setup.py` runs this file on its own, so it imports nothing but the standard library.
"""

from __future__ import annotations

import re
import sys

__all__ = [
    "CORE",
    "DISTRIBUTION",
    "EXTRAS",
    "hint_for",
    "install_command",
    "install_hint",
    "libraries",
    "lowest",
    "name_of",
]

DISTRIBUTION = "edge-sdk-rgbt"
"""Name of the installed distribution. It is on no package index; `edge-sdk` there is somebody else's."""

CORE = (
    "numpy>=1.26",
    "typer>=0.26",  # older ones lean on a click that has moved on
    "rich>=13.8",
    "PyYAML>=6",
    "platformdirs>=4",
    "filelock>=3.13",
    "tomli>=2; python_version < '3.11'",
)

_OPENCV = "opencv-python>=4.8.0.74"

EXTRAS = {
    "cpu": ("onnxruntime>=1.20", _OPENCV),
    "gpu": ("onnxruntime-gpu>=1.20", _OPENCV),
    # For TensorRT. Without OpenCV and ONNX Runtime: a Jetson has its own OpenCV, with GStreamer, which one
    # from pip would hide, and a choice of two ONNX Runtimes. Python 3.10 is JetPack 6, whose CUDA is 12.6.
    "jetson": (
        "pycuda>=2026.1",
        "cuda-bindings>=12.8,<13; python_version < '3.11'",
        "cuda-bindings>=12.8; python_version >= '3.11'",
        "onnx>=1.17",
    ),
    "camera": ("av>=12", "cptv>=1.5.5"),
    "flir": ("flyr>=5",),  # EUPL 1.2: never a dependency of the core
    "serve": ("aiohttp>=3.10", "prometheus_client>=0.20"),
    "record": ("mcap>=1.5",),
    "mqtt": ("paho-mqtt>=2.1",),
    "nvml": ("nvidia-ml-py>=12.535.77",),
    "jtop": ("jetson-stats>=4.2",),  # AGPL: an extra of its own, run in a process of its own
}
"""Extra to its requirements, for users. `setup.py` adds those of development."""

_MARKER = re.compile(r"python_version (<|>=) '3\.(\d+)'")


def libraries(extra: str, minor: int = sys.version_info.minor) -> tuple[str, ...]:
    """Returns the requirements of an extra that hold for a Python, without their markers.

    Arguments:
        extra: a key of `EXTRAS`.
        minor: of Python 3.
    """
    found = []
    for requirement in EXTRAS[extra]:
        library, _, marker = (part.strip() for part in requirement.partition(";"))
        match = _MARKER.fullmatch(marker)
        if match is None or (minor < int(match[2])) == (match[1] == "<"):
            found.append(library)
    return tuple(found)


def install_command(extra: str, *only: str) -> str:
    """Returns the command that installs what an extra needs, each library by name, quoted for a shell.

    Arguments:
        extra: a key of `EXTRAS`.
        only: names of libraries, where not all of them are needed.
    """
    wanted = [text for text in libraries(extra) if not only or name_of(text) in only]
    return "pip install " + " ".join(f"'{text}'" for text in wanted)


def install_hint(extra: str, *only: str) -> str:
    """Returns `install_command` and the short way, for messages.

    Arguments:
        extra, only: as for `install_command`.
    """
    short = f"in a checkout of this project: pip install '.[{extra}]'"
    return f"{install_command(extra, *only)} ({short})"


def hint_for(library: str) -> str:
    """Returns the command that installs one library of the extras, in the version that is needed.

    Arguments:
        library: its distribution, e.g. "onnxruntime".

    Raises:
        KeyError: no extra has it.
    """
    for extra in EXTRAS:
        if library in map(name_of, libraries(extra)):
            return install_command(extra, library)
    raise KeyError(library)


def name_of(requirement: str) -> str:
    """Returns the distribution's name of a requirement, e.g. "av" of "av>=12"."""
    return re.split(r"[<>=]", requirement)[0]


def lowest(requirement: str) -> str:
    """Returns the lowest version that a requirement takes, e.g. "12" of "av>=12"."""
    return re.split(r">=|,", requirement)[1]
