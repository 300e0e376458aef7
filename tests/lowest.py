"""The lowest versions that packaging allows, as exact pins: what an old machine, JetPack 6 above all, has.

    python3 tests/lowest.py > lowest.txt      # for pip install -c

Read from the table that packaging itself reads. Standard library only.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parents[1] / "edge_sdk" / "requirements.py"

LEFT_OUT = ("gpu", "jtop")
"""onnxruntime-gpu is the same module as onnxruntime; jetson-stats is a service of a Jetson."""


def pins(minor: int = sys.version_info.minor) -> Iterator[str]:
    """Gives a line a library, for a Python 3 of this minor version."""
    table = runpy.run_path(str(REQUIREMENTS))
    core = [text.partition(";")[0] for text in table["CORE"]]
    extras = [extra for extra in table["EXTRAS"] if extra not in LEFT_OUT]
    wanted = [*core, *(text for extra in extras for text in table["libraries"](extra, minor))]
    for text in dict.fromkeys(wanted):
        yield f"{table['name_of'](text)}=={table['lowest'](text)}"


if __name__ == "__main__":
    print("\n".join(pins()))
