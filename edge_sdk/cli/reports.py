"""Which kinds of report there are, and the text of each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edge_sdk.report.record import RunRecord
    from edge_sdk.report.verdict import Verdicts

__all__ = ["REPORT_SUFFIXES", "is_html", "report_text"]

_HTML = (".html", ".htm")
REPORT_SUFFIXES = (".md", ".markdown", *_HTML)


def is_html(path: Path) -> bool:
    """Whether a report of this name is one file, with its pictures inside."""
    return path.suffix.lower() in _HTML


def report_text(
    path: Path,
    record: RunRecord,
    verdicts: Verdicts | None = None,
    pictures: list[tuple[str, Path]] | None = None,
) -> str:
    """Makes the report that the file's ending asks for: Markdown, or HTML with the pictures inside."""
    if is_html(path):
        from edge_sdk.report.html import run_html

        return run_html(record, verdicts, pictures or ())
    from edge_sdk.report.markdown import run_markdown

    beside = [(title, os.path.relpath(picture, path.parent)) for title, picture in pictures or ()]
    return run_markdown(record, verdicts, beside)
