"""Reading a frozen dataclass back from decoded JSON, checked field by field against its own types."""

from __future__ import annotations

import math
import types
import typing
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar

from edge_sdk.report.fields import Fields

__all__ = ["json_types", "read_typed"]

_T = TypeVar("_T")
_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def json_types(value: Any) -> Any:
    """Lays dataclasses and tuples out as objects and lists, as they come back from a file. Copies: yes."""
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: json_types(getattr(value, item.name)) for item in fields(value)}
    return [json_types(entry) for entry in value] if isinstance(value, tuple) else value


def read_typed(section: Fields, kind: type[_T]) -> _T:
    """Reads a dataclass of text, numbers, flags, None, tuples and further such dataclasses.

    A key that is missing takes the field's default, so that records stay readable when a field is added;
    keys that are not fields are passed over.

    Raises:
        RecordError: a value is of another type; the message names the key, and what was found.
    """
    hints = typing.get_type_hints(kind)
    values = {}
    for item in fields(kind):  # type: ignore[arg-type]
        if item.name in section.entries:
            values[item.name] = _value(section, item.name, section.entries[item.name], hints[item.name])
        elif item.default is MISSING:
            raise section.wrong(item.name, "a value", None)
    return kind(**values)


def _value(section: Fields, key: str, found: Any, hint: Any) -> Any:
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        (inner,) = (part for part in typing.get_args(hint) if part is not type(None))
        return None if found is None else _value(section, key, found, inner)
    if origin is tuple:
        return _tuple(section, key, found, typing.get_args(hint))
    if is_dataclass(hint):
        where = f"{section.key}.{key}" if section.key else key
        return read_typed(Fields(section.origin, where, found), typing.cast(type[Any], hint))
    if hint is float and type(found) in (int, float) and math.isfinite(found):
        return float(found)
    if type(found) is not hint or (hint is int and abs(found) >= 2**63):
        raise section.wrong(key, _WORDS[hint], found)
    return found


def _tuple(section: Fields, key: str, found: Any, inner: tuple[Any, ...]) -> tuple[Any, ...]:
    if not isinstance(found, list):
        raise section.wrong(key, "a list", found)
    if inner[-1] is not Ellipsis:
        if len(found) != len(inner):
            raise section.wrong(key, f"{len(inner)} entries", f"{len(found)} entries")
        return tuple(
            _value(section, f"{key}[{at}]", entry, hint)
            for at, (entry, hint) in enumerate(zip(found, inner, strict=True))
        )
    return tuple(_value(section, f"{key}[{at}]", entry, inner[0]) for at, entry in enumerate(found))
