"""What every source of frame pairs can do, and the passes, counting and closing that all share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.errors import ConfigError, FrameError, SourceError, StateError
from edge_sdk.frames import FramePair
from edge_sdk.sources.targets import NO_TARGETS, FrameTargets
from edge_sdk.sources.uri import printable, user_path

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["KEPT_SKIPS", "BaseSource", "OnBad", "ReadsInto", "SkippedFrame", "Source"]

OnBad: TypeAlias = str
"""What happens to a bad frame: "raise" raises `FrameError`, "skip" counts it and goes on."""

KEPT_SKIPS = 10_000
"""Skipped frames remembered one by one; beyond them only the count goes on, so that memory is bounded."""


@dataclass(frozen=True)
class SkippedFrame:
    """A pair that was passed over.

    Attributes:
        key: the pair's key in its source.
        why: what was wrong, with file and figures.
    """

    key: str
    why: str


@runtime_checkable
class ReadsInto(Protocol):
    """The part of a source that a detector needs."""

    def read_into(self, rgb: NDArray[np.uint8] | None = None) -> FramePair | None:
        """See `Source.read_into`."""
        ...


@runtime_checkable
class Source(Protocol):
    """Frame pairs, one after the other, from files, memory or cameras.

    A source is open when it is made, is its own iterator, and is closed by `with` or `close()`.
    """

    @property
    def uri(self) -> str:
        """What the source was opened as, for people and for the record."""
        ...

    @property
    def length(self) -> int | None:
        """Pairs the source will try in all, bad ones included; None where nobody can know."""
        ...

    @property
    def skipped(self) -> list[SkippedFrame]:
        """Pairs passed over so far, at most `KEPT_SKIPS` of them. Copies: yes."""
        ...

    @property
    def skipped_count(self) -> int:
        """Number of pairs passed over so far, all of them."""
        ...

    def __iter__(self) -> Iterator[FramePair]:
        """Returns the source itself: a second `for` goes on where the first one stopped."""
        ...

    def __next__(self) -> FramePair:
        """Reads the next pair; `StopIteration` after the last one."""
        ...

    def read_into(
        self, rgb: NDArray[np.uint8] | None = None, thermal: NDArray[np.uint16] | None = None
    ) -> FramePair | None:
        """Reads the next pair into the caller's memory; None after the last one.

        A picture of the size of its array is written there, and the pair's frame is that array. One of
        another size lies in the source's own memory, as `next` gives it.

        Arguments:
            rgb: uint8 [height, width, 3], written; None for the source's own memory.
            thermal: uint16 [height, width], likewise.

        Copies: none where the source decodes into given memory, else one. The frame is good until the
        array is written again. After an error the arrays hold anything.

        Raises:
            ShapeError: an array that no frame can have, or that cannot be written.
            What `next` raises, but for `StopIteration`.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Returns what a run's record says of its source."""
        ...

    def close(self) -> None:
        """Gives back files and devices. Closing twice is fine."""
        ...


class BaseSource(ABC):
    """A source of files or arrays: implement `_read`, get passes, bad frames and times for free.

    Arguments:
        uri: what the source was opened as.
        on_bad: "raise" or "skip".
        loop: number of passes; 0 goes on for ever. Keys repeat from pass to pass.
        clock: read around each `_read`.

    Raises:
        ConfigError: an argument is none of these.
    """

    def __init__(
        self, uri: str, *, on_bad: OnBad = "raise", loop: int = 1, clock: Clock | None = None
    ) -> None:
        if on_bad not in ("raise", "skip"):
            raise ConfigError(f"on_bad: expected 'raise' or 'skip', found {on_bad!r}")
        if not isinstance(loop, int) or isinstance(loop, bool) or loop < 0:
            raise ConfigError(f"loop: expected a number of passes (0: for ever), found {loop!r}")
        self._uri = uri
        self._on_bad = on_bad
        self._loop = loop
        self._clock: Clock = clock or MonotonicClock()
        self._skipped: list[SkippedFrame] = []
        self._skipped_count = 0
        self._pass_index = 0
        self._index = 0
        self._read_in_pass = 0
        self._closed = False
        self._targets = NO_TARGETS

    @abstractmethod
    def _read(self, index: int) -> FramePair | None:
        """Reads pair `index` of this pass, or returns None at its end; FrameError if the pair is bad.

        Decodes into `self._targets.take(shape, dtype)` where that is not None; what lies elsewhere is copied.
        """

    @property
    @abstractmethod
    def _pass_length(self) -> int | None:
        """Pairs of one pass, bad ones included; None where unknown."""

    @abstractmethod
    def _describe(self) -> dict[str, Any]:
        """What `describe` adds for this kind of source."""

    def _rewind(self) -> None:  # noqa: B027  (a hook: most sources have nothing to do)
        """Goes back to the first pair; called before each pass but the first."""

    def _release(self) -> None:  # noqa: B027  (a hook, likewise)
        """Closes files; called once."""

    @property
    def uri(self) -> str:
        """See `Source.uri`. The caller's own words; a home folder in them reads `~`."""
        return printable(_without_home(self._uri))

    @property
    def length(self) -> int | None:
        """See `Source.length`."""
        length = self._pass_length
        return None if length is None or not self._loop else length * self._loop

    @property
    def skipped(self) -> list[SkippedFrame]:
        """See `Source.skipped`."""
        return list(self._skipped)

    @property
    def skipped_count(self) -> int:
        """See `Source.skipped_count`."""
        return self._skipped_count

    def __len__(self) -> int:
        if self.length is None:
            raise TypeError(f"the number of pairs in {self.uri} is not known beforehand")
        return self.length

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Self:
        self._refuse_closed()
        return self

    def __next__(self) -> FramePair:
        self._refuse_closed()
        while not self._loop or self._pass_index < self._loop:
            start_ns = self._clock.now_ns()
            try:
                pair = self._read(self._index)
                if pair is not None:
                    pair = self._targets.settle(pair)
            except FrameError as error:
                self._index += 1
                if self._on_bad == "raise":
                    raise
                self._skip(error)
                continue
            if pair is None:
                self._end_pass()
                continue
            self._index += 1
            self._read_in_pass += 1
            return replace(pair, read_ns=pair.read_ns + self._clock.now_ns() - start_ns)
        raise StopIteration

    def read_into(
        self, rgb: NDArray[np.uint8] | None = None, thermal: NDArray[np.uint16] | None = None
    ) -> FramePair | None:
        """See `Source.read_into`."""
        self._targets = FrameTargets(rgb, thermal)
        try:
            return next(self, None)
        finally:
            self._targets = NO_TARGETS

    def describe(self) -> dict[str, Any]:
        """See `Source.describe`. JSON types only."""
        return {
            "uri": self.uri,
            "frames": self.length,
            "loop": self._loop,
            "on_bad": self._on_bad,
            "skipped": self._skipped_count,
            **self._describe(),
        }

    def close(self) -> None:
        """See `Source.close`."""
        if not self._closed:
            self._closed = True
            self._release()

    def __enter__(self) -> Self:
        self._refuse_closed()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.uri}{' (closed)' if self._closed else ''}>"

    def _skip(self, error: FrameError) -> None:
        self._skipped_count += 1
        if len(self._skipped) < KEPT_SKIPS:
            self._skipped.append(SkippedFrame(error.key, str(error)))

    def _end_pass(self) -> None:
        if not self._read_in_pass and self._loop != 1:
            reason = f" First: {self._skipped[0].why}" if self._skipped else ""
            raise SourceError(
                f"{self.uri}: a whole pass of {self._index} pairs gave no good one; not looping on.{reason}"
            )
        self._pass_index += 1
        self._index = self._read_in_pass = 0
        if not self._loop or self._pass_index < self._loop:
            self._rewind()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StateError(f"source {self.uri} is closed; open it again with open_source")


def _without_home(text: str) -> str:
    home = user_path("~")
    return text.replace(f"{home}/", "~/") if len(home.parts) > 1 else text
