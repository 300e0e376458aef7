"""Reading a decoded JSON document key by key, with errors that say where and what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import RecordError
from edge_sdk.report.record import ABSENT

__all__ = ["Fields"]

_T = TypeVar("_T")
_NS = "a whole number of nanoseconds"


class Fields:
    """One object of the document, with where it stands."""

    def __init__(self, origin: str, key: str, value: Any) -> None:
        self.origin, self.key = origin, key
        if not isinstance(value, dict):
            raise self.wrong("", "an object", value)
        self.entries: dict[str, Any] = value

    def wrong(self, key: str, expected: str, found: Any) -> RecordError:
        """Makes the error for a key: what was expected there and what was found."""
        where = ".".join(part for part in (self.key, key) if part)
        shown = "nothing" if found is None else str(found)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        return RecordError(
            f"{self.origin}: {where + ': ' if where else ''}expected {expected}, found {shown}. "
            "The file is broken or was edited; measure again."
        )

    def read(self, key: str, expected: str, sound: Callable[[Any], bool]) -> Any:
        """Reads a value that must be sound."""
        value = self.entries.get(key)
        if not sound(value):
            raise self.wrong(key, expected, value)
        return value

    def text(self, key: str) -> str:
        """Reads text."""
        return str(self.read(key, "text", lambda value: isinstance(value, str)))

    def flag(self, key: str) -> bool:
        """Reads true or false."""
        return bool(self.read(key, "true or false", lambda value: isinstance(value, bool)))

    def whole(self, key: str) -> int:
        """Reads a whole number from 0."""
        return int(self.read(key, "a whole number from 0", lambda v: type(v) is int and v >= 0))

    def number(self, key: str) -> float:
        """Reads a number from 0."""
        return float(self.read(key, "a number from 0", _is_amount))

    def optional(self, key: str, read: Callable[[str], _T]) -> _T | None:
        """Reads a value that may be null or missing."""
        return None if self.entries.get(key) is None else read(key)

    def section(self, key: str) -> Fields:
        """Reads an object."""
        return Fields(self.origin, f"{self.key}.{key}" if self.key else key, self.entries.get(key))

    def sections(self, key: str) -> list[Fields]:
        """Reads a list of objects."""
        entries = self.read(key, "a list", lambda value: isinstance(value, list))
        return [Fields(self.origin, f"{key}[{at}]", entry) for at, entry in enumerate(entries)]

    def texts(self, key: str) -> list[str]:
        """Reads a list of text."""
        return list(self.read(key, "a list of text", _is_texts))

    def counts(self) -> dict[str, int]:
        """Reads an object of counts."""
        return {key: self.whole(key) for key in self.entries}

    def column(self, key: str, count: int, expected: str, sound: Callable[[Any], bool]) -> list[Any]:
        """Reads one entry a frame."""
        values = self.read(key, f"a list of {count}, one a frame", lambda value: isinstance(value, list))
        if len(values) != count:
            raise self.wrong(key, f"{count} entries, one a frame", f"{len(values)} entries")
        for at, value in enumerate(values):
            if not sound(value):
                raise self.wrong(f"{key}[{at}]", expected, value)
        return list(values)

    def times(self, key: str, count: int, absent: bool = False) -> NDArray[np.int64]:
        """Reads one whole number a frame, null where `absent` allows it."""
        values = self.column(key, count, _NS, _is_absent_or_ns if absent else _is_ns)
        return np.array([ABSENT if value is None else value for value in values], dtype=np.int64)


def _is_ns(value: Any) -> bool:
    return type(value) is int and abs(value) < 2**59  # sums of all stages still fit 64 bits


def _is_absent_or_ns(value: Any) -> bool:
    return value is None or _is_ns(value)


def _is_amount(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e300


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)
