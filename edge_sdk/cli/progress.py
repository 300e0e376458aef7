"""The progress bar of a run: frames done, and which route the last one took."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from edge_sdk.measurements import FrameResult

__all__ = ["run_progress"]


@contextmanager
def run_progress(total: int | None, *, shown: bool) -> Iterator[Callable[[FrameResult], None]]:
    """Shows a bar on standard error while a run goes on.

    Arguments:
        total: frames to come, or None where unknown.
        shown: False for no bar; none is drawn either where standard error is no terminal.

    Yields: a function to call with each result.
    """
    console = Console(stderr=True)
    if not shown or not console.is_terminal:
        yield lambda result: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[state]}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("frames", total=total, state="")

        def advance(result: FrameResult) -> None:
            state = f"{result.route.value}: {result.reason.value}, {result.latency_ms:.1f} ms"
            progress.update(task, advance=1, state=state)

        yield advance
