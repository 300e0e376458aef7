"""Paths in an SLA file, which are relative to that file, as the source and the engine are really opened."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from edge_sdk.sla.terms import Sla

__all__ = ["located_engine", "located_source"]

_FILES = ("pairs", "video", "mcap", "file")
_FILE_OPTIONS = {"video": ("thermal", "registration")}
_WORDS = ("identity", "bundle")


def located_source(sla: Sla) -> str:
    """Returns the SLA's source with its relative paths joined to the folder of the SLA's file."""
    folder = _folder(sla)
    return sla.source if folder is None else _located_uri(sla.source, folder)


def located_engine(sla: Sla) -> str:
    """Returns the SLA's engine: a name as it is, a relative path joined to the folder of the SLA's file.

    A text without "/" is a path where such a folder lies beside the file, and a name otherwise.
    """
    folder, engine = _folder(sla), sla.engine
    if folder is None or not _is_relative(engine):
        return engine
    beside = folder / engine
    return str(beside) if "/" in engine or engine in (".", "..") or beside.is_dir() else engine


def _folder(sla: Sla) -> Path | None:
    """The folder of the file; None where paths need no change."""
    if sla.path is None:
        return None
    folder = (Path.cwd() / sla.path).parent
    return None if folder == Path.cwd() else folder


def _located_uri(uri: str, folder: Path) -> str:
    head, mark, query = uri.partition("?")
    scheme, colon, path = head.partition(":")
    scheme = scheme.strip().lower()
    if scheme in _FILES and colon and _is_relative(path.strip()):
        head = f"{scheme}:{_quoted(folder)}/{path.strip()}"
    options = [_located_option(scheme, part, folder) for part in query.split("&")] if mark else []
    return f"{head}{mark}{'&'.join(options)}"


def _located_option(scheme: str, part: str, folder: Path) -> str:
    name, equals, value = part.partition("=")
    if scheme == "camera" and name in ("rgb", "thermal"):
        inner = _located_uri(unquote(value), folder)
        return f"{name}={inner.replace('%', '%25').replace('&', '%26')}" if inner != unquote(value) else part
    known = _FILE_OPTIONS.get(scheme, ("registration",))
    if name not in known or value in _WORDS or not _is_relative(value):
        return part
    # A registration may also lie beside the frames: then the source finds it by itself.
    if name == "registration" and not (folder / unquote(value)).is_file():
        return part
    return f"{name}{equals}{_quoted(folder)}/{value}"


def _is_relative(path: str) -> bool:
    return bool(path) and not path.startswith(("/", "~"))


def _quoted(folder: Path) -> str:
    """Writes a folder as a URI holds it: the few characters that mean something there are escaped."""
    text = str(folder)
    for special in "%?&":
        text = text.replace(special, f"%{ord(special):02X}")
    return text
