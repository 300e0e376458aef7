"""Strict reading of a TOML table: every key by name and type, and none left over."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from edge_sdk.errors import ConfigError, ManifestError

__all__ = ["Table", "nearest"]

_MAX_SIDE = 16384
_Spec = TypeVar("_Spec")
_ABSENT: Any = object()


class Table:
    """One table of a manifest. Each reading method takes its key out; `finish` refuses the rest.

    Attributes:
        path: the manifest, for messages.
        key: dotted name of this table, "" for the whole file.

    Every method raises `ManifestError` with the dotted key, what was expected and what stands there.
    A method without `default` requires its key.
    """

    def __init__(self, path: Path, key: str, values: Mapping[str, Any]) -> None:
        self.path, self.key = path, key
        self._left = dict(values)
        self._known: set[str] = set()

    def __contains__(self, name: str) -> bool:
        self._known.add(name)
        return name in self._left

    def names(self) -> tuple[str, ...]:
        """Returns the keys not yet read."""
        return tuple(self._left)

    def text(self, name: str, default: str = _ABSENT, choices: Sequence[str] = ()) -> str:
        """Reads a non-empty string, one of `choices` where they are given."""
        value = self._take(name, "text", default)
        if not isinstance(value, str) or not (value or value == default):
            raise self.fault(name, "text in quotes", value)
        if choices and value not in choices:
            raise self.fault(name, f"one of {', '.join(choices)}", value, nearest(value, choices))
        return value

    def whole(self, name: str, default: int = _ABSENT, low: int = 0, high: int = 2**63 - 1) -> int:
        """Reads a whole number within [low, high]."""
        value = self._take(name, "a whole number", default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.fault(name, f"a whole number, {low} - {high}", value)
        return value

    def number(self, name: str, default: float = _ABSENT) -> float:
        """Reads a finite number."""
        value = self._take(name, "a number", default)
        if not _is_number(value):
            raise self.fault(name, "a finite number", value)
        return float(value)

    def numbers(self, name: str, length: int = 0, default: tuple[float, ...] = _ABSENT) -> tuple[float, ...]:
        """Reads a list of finite numbers, of `length` where it is not 0."""
        value = self._take(name, "a list of numbers", default)
        if not isinstance(value, (list, tuple)) or not all(map(_is_number, value)):
            raise self.fault(name, "a list of finite numbers", value)
        if length and len(value) != length:
            raise self.fault(name, f"{length} numbers", value)
        return tuple(map(float, value))

    def wholes(self, name: str, high: int) -> tuple[int, ...]:
        """Reads a list of whole numbers within [1, high]; it may be empty."""
        value = self._take(name, "a list of whole numbers", _ABSENT)
        sound = isinstance(value, list) and all(
            isinstance(item, int) and not isinstance(item, bool) and 1 <= item <= high for item in value
        )
        if not sound:
            raise self.fault(name, f"a list of whole numbers, each 1 - {high}", value)
        return tuple(value)

    def matrix(self, name: str, side: int) -> tuple[tuple[float, ...], ...]:
        """Reads rows of finite numbers, `side` by `side`."""
        value = self._take(name, f"{side} rows of {side} numbers", _ABSENT)
        rows = value if isinstance(value, list) else []
        sound = len(rows) == side and all(
            isinstance(row, list) and len(row) == side and all(map(_is_number, row)) for row in rows
        )
        if not sound:
            raise self.fault(name, f"{side} rows of {side} finite numbers", value)
        return tuple(tuple(map(float, row)) for row in rows)

    def size_wh(self, name: str) -> tuple[int, int]:
        """Reads [width, height] in pixels."""
        value = self.wholes(name, _MAX_SIDE)
        if len(value) != 2:
            raise self.fault(name, "[width, height] in pixels", list(value))
        return value[0], value[1]

    def texts(self, name: str, default: tuple[str, ...] = _ABSENT) -> tuple[str, ...]:
        """Reads a list of strings."""
        value = self._take(name, "a list of texts", default)
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
            raise self.fault(name, "a list of texts", value)
        return tuple(value)

    def table(self, name: str) -> Table:
        """Reads a table."""
        value = self._take(name, "a table", _ABSENT)
        if not isinstance(value, dict):
            raise self.fault(name, f"a table [{self._dotted(name)}]", value)
        return Table(self.path, self._dotted(name), value)

    def tables(self, name: str, default: Sequence[Any] = _ABSENT) -> list[Table]:
        """Reads a list of tables."""
        value = self._take(name, f"tables [[{self._dotted(name)}]]", default)
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, dict) for item in value):
            raise self.fault(name, f"tables [[{self._dotted(name)}]]", value)
        return [Table(self.path, f"{self._dotted(name)}[{index}]", item) for index, item in enumerate(value)]

    def figures(self, name: str) -> dict[str, Any]:
        """Reads a table of numbers and of such tables, kept as it is."""
        value = self._take(name, "a table of numbers", _ABSENT)
        if not isinstance(value, dict) or not _is_figures(value):
            raise self.fault(name, "a table of finite numbers, or of such tables", value)
        return value

    def into(self, cls: type[_Spec], **given: Any) -> _Spec:
        """Reads all that is left into a dataclass whose fields are str, int or float, and finishes.

        Keys that are absent keep the field's default. `given` are fields that were read already.
        """
        hints = get_type_hints(cls)
        values = dict(given)
        readers: dict[object, Callable[[str], Any]] = {str: self.text, int: self.whole, float: self.number}
        for item in fields(cls):  # type: ignore[arg-type]
            reader = readers.get(hints[item.name]) if item.init else None
            if reader is None:
                continue
            self._known.add(item.name)
            if item.name in self._left:
                values[item.name] = reader(item.name)
        self.finish()
        try:
            return cls(**values)
        except ConfigError as error:
            raise ManifestError(self.path, self.key, "sound values", str(error)) from error

    def finish(self) -> None:
        """Refuses a key that nobody read, and names the nearest known one."""
        for name in self._left:
            raise ManifestError(
                self.path,
                self._dotted(name),
                "no such key",
                repr(name),
                nearest(name, self._known) or f"Known keys: {', '.join(sorted(self._known))}.",
            )

    def fault(self, name: str, expected: str, found: object, fix: str = "") -> ManifestError:
        """Makes the error for a key of this table."""
        shown = "nothing" if found is _ABSENT else repr(found)
        if len(shown) > 120:
            shown = shown[:117] + "..."
        return ManifestError(self.path, self._dotted(name), expected, shown, fix)

    def _take(self, name: str, expected: str, default: Any) -> Any:
        self._known.add(name)
        if name in self._left:
            return self._left.pop(name)
        if default is _ABSENT:
            meant = nearest(name, self._left, "Was {0!r} meant to be it?")
            raise self.fault(name, expected, _ABSENT, meant or f"Add {self._dotted(name)} to the manifest.")
        return default

    def _dotted(self, name: str) -> str:
        return f"{self.key}.{name}" if self.key else name


def nearest(name: str, known: Iterable[str], question: str = "Did you mean {0!r}?") -> str:
    """Returns a question that offers the known name most like `name`, or "" where none is like it."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return question.format(close[0]) if close else ""


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) < 2**63


def _is_figures(value: Mapping[str, Any]) -> bool:
    return all(_is_figures(item) if isinstance(item, dict) else _is_number(item) for item in value.values())
