"""The tree of errors: its picture is true, and every message carries what was found and expected."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edge_sdk import errors

PATH = Path("engines/x/bundle.toml")
CASES: list[tuple[errors.EdgeSdkError, list[str], dict[str, object]]] = [
    (
        errors.ShapeError("RGB frame", "uint8 [h, w, 3]", "uint16 [2, 2]", "Convert it."),
        ["RGB frame", "expected uint8 [h, w, 3]", "found uint16 [2, 2]", "Convert it."],
        {"name": "RGB frame", "expected": "uint8 [h, w, 3]", "found": "uint16 [2, 2]"},
    ),
    (
        errors.ManifestError(PATH, "decode.kind", "grid", "grit", "Correct it."),
        [str(PATH), "decode.kind", "expected grid", "found grit", "Correct it."],
        {"path": PATH, "key": "decode.kind", "expected": "grid", "found": "grit"},
    ),
    (
        errors.ManifestError(PATH, "", "a table", "nothing"),
        [f"{PATH}: expected a table, found nothing"],
        {"key": ""},
    ),
    (
        errors.SlaFileError(PATH, "latency.p50", "unknown key", "Did you mean p50_ms?"),
        [str(PATH), "latency.p50", "unknown key", "p50_ms"],
        {"path": PATH, "key": "latency.p50"},
    ),
    (errors.SlaFileError(None, "", "no limit to judge"), ["no limit to judge"], {"path": None}),
    (
        errors.DeviceNotFoundError("cuda", [("cuda", "no driver"), ("cpu", "not asked for")], "Use cpu."),
        ["'cuda'", "cuda: no driver", "cpu: not asked for", "Use cpu."],
        {"wanted": "cuda", "tried": (("cuda", "no driver"), ("cpu", "not asked for"))},
    ),
    (errors.DeviceNotFoundError("x", []), ["nothing to try"], {"tried": ()}),
    (
        errors.CudaError("cuMemAlloc", "out of memory", "Close what else uses it."),
        ["cuMemAlloc failed: out of memory. Close what"],
        {"call": "cuMemAlloc", "problem": "out of memory"},
    ),
    (
        errors.OpenCvMissingError("No module named 'cv2'"),
        [
            "No module named 'cv2'",
            "pip install 'opencv-python>=4.8.0.74'",
            "apt-get install libopencv-python",
        ],
        {"wanted": "OpenCV"},
    ),
    (
        errors.FrameError("007", "truncated", Path("rgb/007.png"), "Copy it again."),
        ["'007'", "rgb/007.png", "truncated", "Copy it again."],
        {"key": "007", "path": Path("rgb/007.png"), "problem": "truncated"},
    ),
    (errors.FrameError("007", "truncated"), ["frame '007': truncated"], {"path": None}),
    (
        errors.SensorsUnusableError("007", "frozen", "missing"),
        ["'007'", "RGB frozen", "thermal missing", "on_bad='skip'"],
        {"key": "007", "rgb": "frozen", "thermal": "missing"},
    ),
    (
        errors.EngineMismatchError(PATH, "opset", "17", "21", "Export again."),
        [str(PATH), "opset", "expected 17", "found 21", "Export again."],
        {"path": PATH, "expected": "17", "found": "21"},
    ),
    (
        errors.EngineIntegrityError(PATH, "SHA-256", "aa", "bb"),
        [str(PATH), "SHA-256", "expected aa", "found bb"],
        {"path": PATH, "expected": "aa", "found": "bb"},
    ),
    (
        errors.ProviderFallbackError("CUDAExecutionProvider", ["CPUExecutionProvider"], "Run doctor."),
        ["CUDAExecutionProvider", "loaded CPUExecutionProvider", "Run doctor."],
        {"wanted": "CUDAExecutionProvider", "loaded": ("CPUExecutionProvider",)},
    ),
    (errors.ProviderFallbackError("X", []), ["loaded nothing"], {"loaded": ()}),
    (
        errors.MeterNotFoundError("auto", [("rapl", "no zones")], "Use a wall meter."),
        ["no power sensor", "rapl: no zones", "Use a wall meter."],
        {"wanted": "auto", "tried": (("rapl", "no zones"),)},
    ),
    (
        errors.InferenceError("fuse", "CPUExecutionProvider", "NaN"),
        ["'fuse'", "CPUExecutionProvider", "NaN"],
        {"graph": "fuse", "provider": "CPUExecutionProvider"},
    ),
]


@pytest.mark.parametrize(("error", "parts", "facts"), CASES, ids=lambda case: type(case).__name__)
def test_a_message_and_the_attributes_say_the_same(
    error: errors.EdgeSdkError, parts: list[str], facts: dict[str, object]
) -> None:
    for part in parts:
        assert part in str(error)
    for name, value in facts.items():
        assert getattr(error, name) == value


def drawn_tree() -> dict[str, tuple[str, str]]:
    """Reads the picture in the module's docstring: class -> (parent, builtin it also is)."""
    assert errors.__doc__ is not None
    tree: dict[str, tuple[str, str]] = {}
    above: list[tuple[int, str]] = []
    for line in errors.__doc__.splitlines():
        found = re.match(r"( +)(\w+Error)(?:\((\w+)\))?", line)
        if not found:
            continue
        depth, name, builtin = len(found[1]), found[2], found[3] or ""
        above = [entry for entry in above if entry[0] < depth]
        tree[name] = (above[-1][1] if above else "", builtin)
        above.append((depth, name))
    return tree


def test_the_picture_of_the_tree_is_the_tree() -> None:
    real = {}
    for name in errors.__all__:
        bases = getattr(errors, name).__bases__
        ours = [base.__name__ for base in bases if issubclass(base, errors.EdgeSdkError)]
        builtin = [base.__name__ for base in bases if not issubclass(base, errors.EdgeSdkError)]
        real[name] = (ours[0], "".join(builtin)) if ours else ("", "")
    assert drawn_tree() == real


def test_every_error_of_the_module_is_exported() -> None:
    here = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.EdgeSdkError)
    }
    assert here == set(errors.__all__)
    assert errors.__all__ == sorted(errors.__all__)
