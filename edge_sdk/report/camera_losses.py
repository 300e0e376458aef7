"""Pairs that live cameras gave and nobody answered: they are lost frames, whoever dropped them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

__all__ = ["LOST_CAUSES", "pairs_lost"]

LOST_CAUSES = ("superseded", "no-partner", "overflow")
"""What a live camera drops and a run should have answered. A faster camera's surplus frames ("rate"), repeats
and frames of a camera at fault are none of these."""


def pairs_lost(described: Mapping[str, Any]) -> Counter[str]:
    """Counts the pairs that were lost until now, by cause.

    Arguments:
        described: what a camera source says of itself (`describe()` or `status()`); others lose nothing.

    Returns: cause -> pairs. A pair that is lost is lost to both cameras and counts once.
    """
    ledgers = described.get("pairing", {}).get("frames", {}).values()
    return Counter(
        {
            cause: max((int(ledger["dropped"].get(cause, 0)) for ledger in ledgers), default=0)
            for cause in LOST_CAUSES
        }
    )
