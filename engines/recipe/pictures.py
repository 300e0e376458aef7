"""Picture files of the recipe, under any name: OpenCV decodes and encodes in memory, Python opens files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

__all__ = ["read_picture", "write_picture"]


def read_picture(path: Path, flags: int) -> NDArray[Any] | None:
    """Decodes a file as OpenCV's `imread` would (colour: blue first); None where it cannot be read."""
    data = path.read_bytes() if path.is_file() else b""
    return cv2.imdecode(np.frombuffer(data, np.uint8), flags) if data else None


def write_picture(path: Path, image: NDArray[Any], options: Sequence[int] = ()) -> None:
    """Writes an array (colour: blue first) in the format of the path's suffix.

    Raises:
        OSError: it cannot be encoded or written.
    """
    done, encoded = cv2.imencode(path.suffix, image, list(options))
    if not done:
        raise OSError(f"could not encode {path}")
    path.write_bytes(encoded.tobytes())
