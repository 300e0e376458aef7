"""What a set of plans was built for and how: the record beside it, and what must agree to load it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from edge_sdk.errors import EngineIntegrityError
from edge_sdk.json_text import json_object

__all__ = ["SIDECAR_NAME", "PlanFile", "PlanKey", "Sidecar", "parse_sidecar"]

SIDECAR_NAME = "plans.json"
MAX_SIDECAR_NBYTES = 1 << 20
_SCHEMA = 1

_WORDS = {
    "bundle": "bundle",
    "bundle_sha256": "bundle contents",
    "precision": "precision",
    "tensorrt": "TensorRT",
    "gpu": "GPU",
    "compute_capability": "compute capability",
    "module": "module",
    "dla": "DLA",
}


@dataclass(frozen=True)
class PlanKey:
    """What a plan depends on. TensorRT's plans are for one version and one GPU.

    Attributes:
        bundle, bundle_sha256: name and hash of the engine bundle.
        precision: "int8", "fp16" or "fp32", of the graphs.
        tensorrt: its version.
        gpu, compute_capability: as the driver gives them, "8.7" on Orin.
        module: the Jetson's model as its device tree has it, or "none".
        dla: "none", or the graph that lies on a DLA.
    """

    bundle: str
    bundle_sha256: str
    precision: str
    tensorrt: str
    gpu: str
    compute_capability: str
    module: str = "none"
    dla: str = "none"

    @property
    def digest(self) -> str:
        """A short name for this key, for folders."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def differences(self, here: PlanKey) -> tuple[tuple[str, str, str], ...]:
        """Returns (what, built for, found here) of everything in which two keys differ."""
        return tuple(
            (_WORDS[item.name], getattr(self, item.name), getattr(here, item.name))
            for item in fields(self)
            if getattr(self, item.name) != getattr(here, item.name)
        )


@dataclass(frozen=True)
class PlanFile:
    """One plan of a set.

    Attributes:
        file: its name in the set's folder.
        nbytes, sha256: of its bytes.
        dla_layers, gpu_layers: where the engine inspector found its layers.
    """

    file: str
    nbytes: int
    sha256: str
    dla_layers: int = 0
    gpu_layers: int = 0


@dataclass(frozen=True)
class Sidecar:
    """The record beside a set of plans.

    Attributes:
        key: what it was built for.
        plans: graph -> its plan.
        options: of the build, as `BuildOptions` names them.
        canary: how the plans compared with the ONNX graphs: tolerances and figures.
        baseline_ms: graph -> median GPU time after the build, in milliseconds; empty where the driver is
            emulated.
    """

    key: PlanKey
    plans: Mapping[str, PlanFile]
    options: Mapping[str, Any]
    canary: Mapping[str, Any]
    baseline_ms: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """Returns the file's content."""
        return (json.dumps({"schema": _SCHEMA, **asdict(self)}, indent=1) + "\n").encode()


def parse_sidecar(data: bytes, path: Path) -> Sidecar:
    """Reads a sidecar.

    Raises:
        EngineIntegrityError: it is no sidecar of this version.
    """
    try:
        found = json_object(data)
        if found["schema"] != _SCHEMA:
            raise ValueError(f"schema {found['schema']!r}")
        plans = {str(graph): PlanFile(**item) for graph, item in found["plans"].items()}
        key = PlanKey(**found["key"])
        if not all(isinstance(value, str) for value in asdict(key).values()):
            raise ValueError("a key that is not text")
        for item in plans.values():
            if not isinstance(item.nbytes, int) or Path(item.file).name != item.file:
                raise ValueError(f"plan file {item.file!r}")
        baseline = {str(graph): float(ms) for graph, ms in found["baseline_ms"].items()}
        return Sidecar(key, plans, dict(found["options"]), dict(found["canary"]), baseline)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EngineIntegrityError(
            path,
            "content",
            f"a record of plans, schema {_SCHEMA}",
            f"{len(data)} bytes that are not one ({error})",
            "Build the plans again: edge-sdk engines build NAME --force",
        ) from error
