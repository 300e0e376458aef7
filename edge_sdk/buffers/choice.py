"""The kinds of memory that were measured to be best on a module, kept in the user's cache beside the plans.

Only an aid: a file that is missing, damaged or of another machine means the defaults, never an error.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import platformdirs

from edge_sdk.buffers.cuda import CudaDevice
from edge_sdk.buffers.kinds import KINDS
from edge_sdk.errors import ConfigError, SaveError
from edge_sdk.json_text import json_object
from edge_sdk.saving import save_json

__all__ = ["PLANS_VARIABLE", "BufferChoice", "Module", "choice_path", "load_choice", "save_choice"]

PLANS_VARIABLE = "EDGE_SDK_PLANS"
"""Environment variable: folder of plans, and of these files, instead of the user's cache."""

_SCHEMA = "edge-sdk/buffers"
_SCHEMA_VERSION = 1
_MAX_NBYTES = 1 << 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Module:
    """The machine that a measurement holds for.

    Attributes:
        gpu: its name, as the driver gives it.
        compute_capability: "8.7".
        board: as the device tree gives it, "" on a machine without one.
    """

    gpu: str
    compute_capability: str
    board: str = ""

    @classmethod
    def of(cls, device: CudaDevice, board: str) -> Module:
        """Describes the machine of an open GPU; `board` is what `machine_facts` calls so."""
        return cls(device.name, ".".join(map(str, device.compute_capability)), board)


@dataclass(frozen=True)
class BufferChoice:
    """Tensor -> kind of memory, as measured.

    Attributes:
        bundle, bundle_sha256: the engine bundle whose tensors were measured.
        module: where.
        kinds: tensor -> one of `KINDS`.
        reasons: tensor -> why, with figures, for people.
    """

    bundle: str
    bundle_sha256: str
    module: Module
    kinds: Mapping[str, str]
    reasons: Mapping[str, str]


def choice_path(bundle: str, root: Path | None = None) -> Path:
    """Returns the file of a bundle's choice, present or not.

    Arguments:
        root: the folder of plans; by default that of `PLANS_VARIABLE`, or the user's cache.
    """
    given = os.environ.get(PLANS_VARIABLE, "")
    folder = root or (Path(given) if given else platformdirs.user_cache_path("edge-sdk") / "plans")
    return folder / f"{bundle}.buffers.json"


def save_choice(choice: BufferChoice, root: Path | None = None) -> Path:
    """Writes a choice, whole or not at all, over an older one; returns the file.

    Raises:
        ConfigError: the folder cannot be written.
    """
    path = choice_path(choice.bundle, root)
    content = {"schema": _SCHEMA, "schema_version": _SCHEMA_VERSION, **asdict(choice)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        save_json(path, content)
    except SaveError as error:
        raise ConfigError(f"{path}: the choice of buffers cannot be written: {error.problem}") from error
    except OSError as error:
        raise ConfigError(
            f"{path}: the choice of buffers cannot be written: {error.strerror or error}"
        ) from error
    return path


def load_choice(
    bundle: str, bundle_sha256: str, module: Module, root: Path | None = None
) -> BufferChoice | None:
    """Reads what was measured for this very bundle on this very module; None where nothing was.

    A file of another machine, of another version of the bundle, or a damaged one is passed over and logged.
    """
    path = choice_path(bundle, root)
    try:
        if path.stat().st_size > _MAX_NBYTES:
            raise ValueError(f"more than {_MAX_NBYTES} bytes")
        choice = _parse(json_object(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("%s: passed over: %s. Run `edge-sdk bench buffers` again.", path, error)
        return None
    for what, found, expected in (
        ("bundle", choice.bundle_sha256, bundle_sha256),
        ("module", choice.module, module),
    ):
        if found != expected:
            _log.warning("%s: passed over: measured for %s %s, this is %s", path, what, found, expected)
            return None
    return choice


def _parse(content: dict[str, object]) -> BufferChoice:
    found = (content["schema"], content["schema_version"])
    if found != (_SCHEMA, _SCHEMA_VERSION):
        raise ValueError(f"expected schema {_SCHEMA} {_SCHEMA_VERSION}, found {found[0]} {found[1]}")
    kinds, reasons, module = (_texts(content, key) for key in ("kinds", "reasons", "module"))
    for tensor, kind in kinds.items():
        if kind not in KINDS:
            raise ValueError(f"kinds.{tensor}: expected one of {', '.join(KINDS)}, found {kind!r}")
    return BufferChoice(
        str(content["bundle"]), str(content["bundle_sha256"]), Module(**module), kinds, reasons
    )


def _texts(content: dict[str, object], key: str) -> dict[str, str]:
    found = content[key]
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ValueError(f"{key}: expected a table of texts")
    return found
