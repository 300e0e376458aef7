"""What is set once in ONNX Runtime itself: where its log goes, and which CUDA libraries it finds."""

from __future__ import annotations

import contextlib
import io
import logging
from typing import Any

__all__ = ["load_cuda_libraries", "send_log_to_handlers", "severity"]

_LEVELS = (logging.DEBUG, logging.DEBUG, logging.WARNING, logging.ERROR, logging.CRITICAL)
"""By ONNX Runtime's scale: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal."""

_DEFAULT_SEVERITY = 2

_log = logging.getLogger("edge_sdk.onnxruntime")


def severity() -> int:
    """Returns how much a session may say, on ONNX Runtime's scale, from the level of `edge_sdk.onnxruntime`.

    Errors by default, warnings at INFO, everything at DEBUG.
    """
    level = _log.getEffectiveLevel()
    if level <= logging.DEBUG:
        return 0
    if level <= logging.INFO:
        return 2
    return 3 if level <= logging.ERROR else 4


def send_log_to_handlers(module: Any) -> bool:
    """Sends ONNX Runtime's C++ log to the logger `edge_sdk.onnxruntime`, where this version can.

    Arguments:
        module: `onnxruntime`.

    Returns: False for versions without a callback (1.23, the last for Python 3.10, is one), which write their
        lines to standard error. Lines of ONNX Runtime's own worker threads go there in any version.
    """
    register = getattr(module, "set_default_logger_callback", None)
    if register is None:
        return False
    register(_to_handlers, _DEFAULT_SEVERITY)
    return True


def load_cuda_libraries(module: Any) -> None:
    """Lets ONNX Runtime find CUDA and cuDNN in the packages that its own extras `cuda` and `cudnn` install.

    Arguments:
        module: `onnxruntime`. What it prints about libraries that are missing goes to the log, at INFO.
    """
    preload = getattr(module, "preload_dlls", None)
    if preload is None:
        return
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        preload()
    for line in said.getvalue().splitlines():
        _log.info("%s", line)


def _to_handlers(level: int, category: str, logid: str, where: str, message: str) -> None:
    name = _LEVELS[min(level, len(_LEVELS) - 1)]
    _log.log(name, "%s [%s%s: %s]", message, category, f" {logid}" if logid else "", where)
