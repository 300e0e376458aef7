"""What a `with` block closes, written once for everything that has `close`; and closing within a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ClosedByWith", "close_within"]


class ClosedByWith:
    """Closes at the end of a `with` block."""

    def close(self) -> None:
        """Gives everything back."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def close_within(limit_s: float, close: Callable[[], None]) -> bool:
    """Closes something that may hang: a disk, a network, another program.

    Arguments:
        limit_s: it is waited for so long, then left to a thread that ends with the program.
        close: what closes it. What it raises within the time is raised here.

    Returns: whether it was closed within the time.
    """
    failed: list[BaseException] = []

    def work() -> None:
        try:
            close()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, name="edge-sdk closing", daemon=True)
    thread.start()
    thread.join(limit_s)
    if failed:
        raise failed[0]
    return not thread.is_alive()
