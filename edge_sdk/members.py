"""What a member of a value type may be: checked when the value is made, and converted to its own type.

A value that says "centikelvin" where it holds text, or 7.0 where it holds a number of frames, is compared
wrongly later, in silence. So every value type of the SDK takes its members through these functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from math import isfinite
from numbers import Real
from operator import index
from typing import Any, TypeVar

from edge_sdk.errors import ConfigError

__all__ = ["flag", "number", "one_of", "put", "size_wh", "text", "texts", "whole"]

_Word = TypeVar("_Word", bound=Enum)

_MOST_PIXELS_A_SIDE = 1 << 20


def put(value: object, **members: Any) -> None:
    """Sets members of a frozen dataclass, from its `__post_init__`."""
    for name, member in members.items():
        object.__setattr__(value, name, member)


def one_of(kind: type[_Word], value: object, name: str) -> _Word:
    """Returns the member of an enumeration that a value is, or that its text names.

    Raises:
        ConfigError: none is; the known words are listed.
    """
    if type(value) is kind:
        return value
    try:
        return kind(value)
    except ValueError:
        words = ", ".join(repr(word.value) for word in kind)
        raise ConfigError(f"{name}: expected one of {words}, found {value!r}") from None


def text(value: object, name: str) -> str:
    """Returns text, of the type `str` and no other.

    Raises:
        ConfigError: it is something else.
    """
    if type(value) is str:
        return value
    if isinstance(value, str):
        return str(value.value) if isinstance(value, Enum) else str(value)
    raise ConfigError(f"{name}: expected text, found {_shown(value)}")


def texts(value: object, name: str) -> tuple[str, ...]:
    """Returns a tuple of texts.

    Raises:
        ConfigError: it is a single text, or holds something else.
    """
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ConfigError(f"{name}: expected several texts, found {_shown(value)}")
    return tuple(text(item, name) for item in value)


def flag(value: object, name: str) -> bool:
    """Returns True or False.

    Raises:
        ConfigError: it is something else; 0 and 1 too.
    """
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    raise ConfigError(f"{name}: expected True or False, found {_shown(value)}")


def whole(value: Any, name: str, least: int | None = None) -> int:
    """Returns a whole number as a Python int; NumPy's are taken, floats and booleans are not.

    Raises:
        ConfigError: it is something else, or below `least`.
    """
    if type(value) is not int:
        try:
            if isinstance(value, bool):
                raise TypeError
            value = index(value)
        except TypeError:
            raise ConfigError(f"{name}: expected a whole number, found {_shown(value)}") from None
    if least is not None and value < least:
        raise ConfigError(f"{name}: expected {least} or more, found {value}")
    return int(value)


def number(value: Any, name: str, *, finite: bool = True) -> float:
    """Returns a number as a Python float; NumPy's are taken, booleans and text are not.

    Arguments:
        value: what was given.
        name: of the member, for messages.
        finite: refuse NaN and the infinities.

    Raises:
        ConfigError: it is something else.
    """
    if type(value) is not float:
        if isinstance(value, bool) or not isinstance(value, Real):
            raise ConfigError(f"{name}: expected a number, found {_shown(value)}")
        value = float(value)
    if finite and not isfinite(value):
        raise ConfigError(f"{name}: expected a finite number, found {value}")
    return float(value)


def size_wh(value: Any, name: str) -> tuple[int, int]:
    """Returns (width, height) in pixels as a tuple of Python ints.

    Raises:
        ConfigError: it is no pair of whole numbers of 1 or more.
    """
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        width, height = (whole(side, name, least=1) for side in value)
    except (TypeError, ValueError):  # ConfigError is a ValueError
        raise ConfigError(
            f"{name}: expected width and height of 1 or more pixels, found {_shown(value)}"
        ) from None
    if max(width, height) > _MOST_PIXELS_A_SIDE:
        raise ConfigError(f"{name}: {width}x{height} pixels is no camera's picture")
    return width, height


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{type(value).__name__} {shown[:50]}..."
