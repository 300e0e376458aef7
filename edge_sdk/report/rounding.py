"""Floating-point figures as they are written into JSON: no more digits than they are worth."""

from __future__ import annotations

from typing import Any

__all__ = ["rounded"]

_DIGITS = 6


def rounded(value: Any, digits: int = _DIGITS) -> Any:
    """Rounds every float in JSON types to so many significant digits. Copies: yes."""
    if isinstance(value, dict):
        return {key: rounded(entry, digits) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(entry, digits) for entry in value]
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if abs(value) < 10**digits else round(value, 1)
    return value
