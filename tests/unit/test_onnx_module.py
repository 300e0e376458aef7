"""ONNX Runtime's log goes to Python's handlers, and its CUDA libraries are looked for."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edge_sdk.engine.onnx_module import load_cuda_libraries, send_log_to_handlers, severity


@pytest.mark.parametrize(
    ("level", "wanted"),
    [(logging.DEBUG, 0), (logging.INFO, 2), (logging.WARNING, 3), (logging.CRITICAL, 4)],
)
def test_what_a_session_may_say_follows_pythons_level(level: int, wanted: int) -> None:
    log = logging.getLogger("edge_sdk.onnxruntime")
    log.setLevel(level)
    try:
        assert severity() == wanted
    finally:
        log.setLevel(logging.NOTSET)


def test_its_lines_reach_the_handlers_with_their_level(caplog: pytest.LogCaptureFixture) -> None:
    registered: list[Any] = []
    module = SimpleNamespace(set_default_logger_callback=lambda say, severity: registered.append(say))
    assert send_log_to_handlers(module)
    (say,) = registered
    with caplog.at_level(logging.DEBUG, "edge_sdk.onnxruntime"):
        say(3, "onnxruntime", "graph rgb", "session.cc:7 Run", "out of memory")
        say(1, "onnxruntime", "", "graph.cc:1 Clean", "removed")
    first, second = caplog.records
    assert (first.name, first.levelno) == ("edge_sdk.onnxruntime", logging.ERROR)
    assert first.getMessage() == "out of memory [onnxruntime graph rgb: session.cc:7 Run]"
    assert second.levelno == logging.DEBUG


def test_a_version_without_a_callback_is_left_alone() -> None:
    assert not send_log_to_handlers(SimpleNamespace())


def test_what_the_real_one_says_arrives(toy_single: Path) -> None:
    """In a process of its own: the callback is set once a process, and writes to a file handle of it."""
    import onnxruntime

    if not hasattr(onnxruntime, "set_default_logger_callback"):
        pytest.skip(f"needs an ONNX Runtime with a log callback; this is {onnxruntime.__version__}")
    code = (
        "import logging, sys; logging.basicConfig(level=logging.DEBUG, stream=sys.stdout, "
        "format='%(name)s %(levelname)s'); import edge_sdk; edge_sdk.load(sys.argv[1], device='cpu').close()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(toy_single)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines.count("edge_sdk.onnxruntime DEBUG") > 10
    assert "InferenceSession" not in done.stderr


def test_libraries_of_the_wheels_extras_are_loaded_quietly(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    module = SimpleNamespace(preload_dlls=lambda: print("Failed to load libcublas.so.12"))
    with caplog.at_level(logging.INFO, "edge_sdk.onnxruntime"):
        load_cuda_libraries(module)
    assert capsys.readouterr().out == ""
    assert caplog.messages == ["Failed to load libcublas.so.12"]
    load_cuda_libraries(SimpleNamespace())
