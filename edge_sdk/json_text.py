"""JSON of other people, read safely: bounded in size, depth and digits, without NaN and without doubles."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

__all__ = ["JsonProblem", "json_object", "json_value", "read_json_object"]

MOST_BYTES = 16 * 1024 * 1024
"""Of a sidecar, a registration, a note: thousands of times what one needs."""

MOST_DEPTH = 64
_MOST_DIGITS = 40


class JsonProblem(ValueError):
    """What is wrong with a text that should be JSON, for whoever makes an error of it."""


def json_value(text: str | bytes, *, most_bytes: int = MOST_BYTES) -> Any:
    """Reads a JSON text.

    Arguments:
        text: UTF-8, with or without a byte order mark.
        most_bytes: longer texts are refused.

    Raises:
        JsonProblem: no JSON; too long or too deep; a number that is not finite or has over 40 digits; a name
            that stands twice in one object, for nobody could say which one holds.
    """
    if len(text) > most_bytes:
        raise JsonProblem(f"{len(text)} bytes of JSON; at most {most_bytes} are read")
    try:
        if not isinstance(text, str):
            text = text.decode("utf-8-sig")
        value = json.loads(
            text,
            parse_int=_whole,
            parse_float=_number,
            parse_constant=_no_number,
            object_pairs_hook=_object,
        )
    except RecursionError:
        raise JsonProblem(f"not JSON that can be read: nested over {MOST_DEPTH} levels deep") from None
    except UnicodeDecodeError as error:
        raise JsonProblem(
            f"not JSON that can be read: no UTF-8 text ({error.reason} at byte {error.start})"
        ) from None
    except JsonProblem:
        raise
    except ValueError as error:
        raise JsonProblem(f"not JSON that can be read: {error}") from None
    _check_depth(value)
    return value


def json_object(text: str | bytes, *, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """Reads a JSON text that must be an object; otherwise as `json_value`."""
    value = json_value(text, most_bytes=most_bytes)
    if not isinstance(value, dict):
        raise JsonProblem(f"expected a JSON object, found {type(value).__name__}")
    return value


def read_json_object(path: Path, *, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """Reads a file that must hold a JSON object; otherwise as `json_value`.

    Raises:
        JsonProblem: likewise, or the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise JsonProblem(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return json_object(data, most_bytes=most_bytes)


def _check_depth(value: Any) -> None:
    """Without recursion: what comes in here may be as deep as the parser can go."""
    level = [value]
    for _ in range(MOST_DEPTH):
        level = [inner for outer in level for inner in _parts(outer)]
        if not level:
            return
    raise JsonProblem(f"not JSON that can be read: nested over {MOST_DEPTH} levels deep")


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _whole(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise JsonProblem(f"a number of {len(text)} digits ({text[:8]}...); at most {_MOST_DIGITS} are read")
    return int(text)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise JsonProblem(f"a number that is not finite ({text[:16]})")
    return value


def _no_number(text: str) -> None:
    raise JsonProblem(f"{text}, which is no number of JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise JsonProblem(f"{twice[:60]!r} stands twice in one object")
    return found
