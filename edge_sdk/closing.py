"""What a `with` block closes: written once for everything that has `close`."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ClosedByWith"]


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
