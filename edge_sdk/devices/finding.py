"""One thing that doctor looked for."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["STATES", "Finding"]

STATES = ("ok", "absent", "fault")
"""ok: there and working. absent: not there; optional unless the advice says otherwise. fault: broken."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for.

    Attributes:
        what: its name.
        state: one of `STATES`.
        found: version or figures, as found; never guessed.
        advice: what to do, "" where nothing is needed.
    """

    what: str
    state: str
    found: str
    advice: str = ""
