"""Names and signatures of NVIDIA's Python bindings, read from the bindings themselves.

    python names.py FOLDER_OF_BINDINGS STUB_LIBRARIES      # prints them as JSON

`snapshot.json` beside this file was written by it from the packages named in `BINDINGS`, imported
over stub libraries (`real.py`), so no line of it was copied out of a document. It keeps the
classes that a program which builds and runs plans can reach; of a signature, what is returned.
Standard library only, since it also runs in the environment of the bindings.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import re
import sys
import types
from pathlib import Path
from typing import Any

BINDINGS = {
    "10.3": "tensorrt-cu12-bindings==10.3.0",
    "10.16": "tensorrt-cu12-bindings==10.16.1.11",
    "11.4": "tensorrt-cu13-bindings==11.4.0.106",
}
"""Version of TensorRT -> the package on the registry that holds its bindings: JetPack 6, JetPack 7.2,
and what JetPack 7.2.2 offers."""

CLASSES = (
    "Builder",
    "BuilderFlag",
    "DataType",
    "DeviceType",
    "Dims",
    "EngineInspector",
    "ExecutionContextAllocationStrategy",
    "HardwareCompatibilityLevel",
    "IBuilderConfig",
    "ICudaEngine",
    "IExecutionContext",
    "IHostMemory",
    "ILayer",
    "ILogger",
    "ILogger.Severity",
    "INetworkDefinition",
    "IOptimizationProfile",
    "IProgressMonitor",
    "ITensor",
    "ITimingCache",
    "LayerInformationFormat",
    "MemoryPoolType",
    "NetworkDefinitionCreationFlag",
    "OnnxParser",
    "OnnxParserFlag",
    "ParserError",
    "ProfilingVerbosity",
    "Runtime",
    "TensorFormat",
    "TensorIOMode",
    "TensorLocation",
)

SNAPSHOT = Path(__file__).with_name("snapshot.json")


def load_snapshot() -> dict[str, dict[str, dict[str, str]]]:
    """Returns version -> class -> member -> class that it returns or holds, "" where not said."""
    loaded: dict[str, dict[str, dict[str, str]]] = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    return loaded


def read_names(module: types.ModuleType) -> dict[str, dict[str, str]]:
    """Reads the members of `CLASSES`, and under "" every name of the module itself."""
    names: dict[str, dict[str, str]] = {
        "": {name: "" for name in sorted(vars(module)) if not name.startswith("_")}
    }
    for name in CLASSES:
        owner: Any = module
        for part in name.split("."):
            owner = getattr(owner, part, None)
        if owner is None:
            continue
        members: dict[str, str] = {}
        for member in sorted(dir(owner)):
            if not member.startswith("_"):
                members[member] = _held(member, getattr(owner, member), owner)
        names[name] = members
    return names


def _held(member: str, value: Any, owner: type) -> str:
    if isinstance(value, type):
        return value.__qualname__
    if type(value).__qualname__.startswith(f"{owner.__qualname__}."):  # such as ILogger.WARNING
        return type(value).__qualname__
    if isinstance(value, owner):  # a member of an enumeration
        return owner.__qualname__
    text = getattr(getattr(value, "fget", value), "__doc__", None) or ""
    found = re.search(r"-> (?:[\w.]*\.)?(I?[A-Z]\w*)", text.strip().split("\n")[0])
    return found[1] if found else ""


def import_bindings(folder: str, stubs: str) -> types.ModuleType:
    """Imports the bindings from a folder, over a folder of stub libraries for NVIDIA's own.

    The binding's package imports a wrapper which looks for libraries to load; the extension module is
    loaded without it, as `tensorrt_bindings.tensorrt`.
    """
    for stub in sorted(Path(stubs).iterdir()):
        ctypes.CDLL(str(stub), mode=ctypes.RTLD_GLOBAL)
    package = types.ModuleType("tensorrt_bindings")
    package.__path__ = [str(Path(folder) / "tensorrt_bindings")]
    sys.modules["tensorrt_bindings"] = package
    return importlib.import_module("tensorrt_bindings.tensorrt")


if __name__ == "__main__":
    print(json.dumps(read_names(import_bindings(sys.argv[1], sys.argv[2]))))
