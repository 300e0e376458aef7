"""Which kinds of report there are, and the text of each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edge_sdk.cli.frame_outputs import relative_to

if TYPE_CHECKING:
    from edge_sdk.report.record import RunRecord
    from edge_sdk.report.verdict import Verdicts

__all__ = ["REPORT_SUFFIXES", "report_text"]

_HTML = (".html", ".htm")
REPORT_SUFFIXES = (".md", ".markdown", *_HTML)


def report_text(
    path: Path,
    record: RunRecord,
    verdicts: Verdicts | None = None,
    pictures: list[tuple[str, Path]] | None = None,
) -> str:
    """Makes the report that the file's ending asks for: Markdown, or HTML with the pictures inside."""
    if path.suffix.lower() in _HTML:
        from edge_sdk.report.html import run_html

        return run_html(record, verdicts, pictures or ())
    from edge_sdk.report.markdown import run_markdown

    return run_markdown(record, verdicts, relative_to(pictures or [], path.parent))
