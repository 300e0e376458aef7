"""A double of TensorRT's Python module: NVIDIA's names, our ONNX files for plans, and an emulated GPU.

`make_double` returns a module that has, of what it implements, exactly the names that one version of
the bindings has (`tensorrt_api/snapshot.json`); anything else is an AttributeError, as it would be on the
device. A plan holds its ONNX. `execute_async_v3` puts a host function on the emulated stream, which
computes with ONNX Runtime from and to the addresses that were set. It refuses what TensorRT refuses:
addresses that are not set, not aligned or of no allocation, shapes that do not fit, foreign plans.

It proves the calls, their order and the memory. It proves nothing of NVIDIA's kernels, speed or builder.
"""

from __future__ import annotations

import enum
import sys
import types
from pathlib import Path
from typing import Any

from emulator import Emulator

from tensorrt_double import building, running

sys.path.insert(0, str(Path(__file__).parents[1] / "tensorrt_api"))

from names import CLASSES, load_snapshot

__all__ = ["FULL_VERSIONS", "make_double"]

FULL_VERSIONS = {"10.3": "10.3.0", "10.16": "10.16.2", "11.4": "11.4.1"}
"""What `tensorrt.__version__` says on JetPack 6, 7.2 and 7.2.2."""

BUILDING = (
    building.Builder,
    building.Network,
    building.Config,
    building.Parser,
    building.ParserError,
    building.Memory,
    building.TimingCache,
    building.Tensor,
)
RUNNING = (running.Runtime, running.Engine, running.Context, running.Inspector)


def make_double(version: str, emulator: Emulator) -> Any:
    """Makes the module of one version.

    Arguments:
        version: "10.3", "10.16" or "11.4".
        emulator: the driver that its streams and addresses are of.

    Returns: the module. Besides NVIDIA's names it has `double`, for tests: `refuse_enqueues` (how many
        to refuse from now on), `enqueues`, `dla_cores`, `replaces` (bytes -> bytes of a plan's ONNX when
        it is built) and `failures` of host functions.
    """
    names = load_snapshot()[version]
    nv: Any = types.ModuleType("tensorrt")
    nv.__version__ = FULL_VERSIONS[version]
    nv.double = types.SimpleNamespace(
        refuse_enqueues=0, enqueues=0, dla_cores=2, replaces=None, failures=[], emulator=emulator, names=names
    )
    for name in CLASSES:
        members = names.get(name, {})
        values = [member for member, kind in members.items() if kind == name and member != "Severity"]
        if values:
            made = enum.IntEnum(
                name.rpartition(".")[2], {member: index for index, member in enumerate(values)}
            )
            if "." not in name:
                setattr(nv, name, made)
            else:
                nv.ILogger = type("ILogger", (), {"Severity": made, **dict(made.__members__)})
    nv.IProgressMonitor = type("IProgressMonitor", (), {})
    for part in (*BUILDING, *RUNNING):
        setattr(nv, part.real, type(part.real, (part,), {"nv": nv}))
    return nv
