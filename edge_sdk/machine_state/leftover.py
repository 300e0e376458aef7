"""What must be put back, on disk before anything is changed, so that even a killed process leaves a trace.

The file is held with a lock of the kernel while its process lives; a lock that is free means that nobody
is going to put the machine back but the next caller.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from edge_sdk.errors import DeviceError
from edge_sdk.json_text import json_object

__all__ = ["STATE_FOLDER", "Leftover", "PutBack", "RestoreFile", "find_leftover"]

STATE_FOLDER = "var/lib/edge-sdk"
"""Survives a reboot, as a power mode does."""

_NAME, _CLOCKS_NAME = "prepared.json", "clocks.conf"


@dataclass(frozen=True)
class PutBack:
    """What the machine was like before.

    Attributes:
        mode_id, mode_name: the power mode to go back to, or None where it is not changed.
        relock: clocks were held and must be held again.
        boot_id: of the boot this was written in; clocks do not survive a reboot, the mode does.
    """

    mode_id: int | None = None
    mode_name: str | None = None
    relock: bool = False
    boot_id: str = ""


@dataclass(frozen=True)
class Leftover:
    """A preparation found on disk.

    Attributes:
        alive: its process still runs, and will put the machine back itself.
        put_back: what it has to put back; None where it had not begun to change anything.
        clocks_stored: it held the clocks, and the file of what they were is there.
    """

    alive: bool
    put_back: PutBack | None
    clocks_stored: bool

    @property
    def text(self) -> str:
        """Says what is prepared, or was left."""
        parts = []
        if self.put_back is not None and self.put_back.mode_name is not None:
            parts.append(f"power mode was {self.put_back.mode_name}")
        if self.clocks_stored:
            parts.append("clocks were not held")
        elif self.put_back is not None and self.put_back.relock:
            parts.append("clocks were held")
        who = "an edge-sdk machine prepare is running" if self.alive else "a killed prepare left its changes"
        return f"{who}: {', '.join(parts) or 'nothing was changed yet'}"


def find_leftover(root: Path | str = "/", folder: Path | None = None) -> Leftover | None:
    """Looks for a preparation that runs, or that was killed; needs no root."""
    folder = folder or Path(root) / STATE_FOLDER
    try:
        descriptor = os.open(folder / _NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        alive = False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            alive = True
        put_back = _parse(os.pread(descriptor, 65536, 0))
    finally:
        os.close(descriptor)
    if put_back is None and not alive:
        return None
    return Leftover(alive, put_back, (folder / _CLOCKS_NAME).exists())


class RestoreFile:
    """The file, held by this process until `close` or its death."""

    def __init__(self, folder: Path) -> None:
        """Opens and holds it; makes the folder.

        Raises:
            DeviceError: it cannot be written, or another process holds it.
        """
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._descriptor = self._hold(folder / _NAME)
        except BlockingIOError:
            raise DeviceError(
                "another edge-sdk machine prepare holds this machine. Wait for it to end; it puts back "
                "what it changed."
            ) from None
        except OSError as error:
            raise DeviceError(
                f"{folder}: what must be put back cannot be noted there ({error.strerror or error}), so "
                "nothing was changed. Run it with sudo."
            ) from error
        self.found = _parse(os.pread(self._descriptor, 65536, 0))
        if self.found is None:
            self.clocks.unlink(missing_ok=True)  # of nobody: clocks are stored after the note

    @property
    def clocks(self) -> Path:
        """Where the clocks as they were are stored; there only when complete."""
        return self.folder / _CLOCKS_NAME

    def write(self, put_back: PutBack) -> None:
        """Notes what must be put back; on disk when it returns."""
        content = json.dumps(asdict(put_back)).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, content, 0)
        os.fsync(self._descriptor)

    def close(self, *, done: bool) -> None:
        """Lets go; `done` when everything was put back, so that nothing is left to note."""
        if done:
            self.clocks.unlink(missing_ok=True)
            (self.folder / _NAME).unlink(missing_ok=True)
        os.close(self._descriptor)

    @staticmethod
    def _hold(path: Path) -> int:
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                raise
            if os.fstat(descriptor).st_nlink:
                return descriptor
            os.close(descriptor)  # its last holder removed it while we waited for nothing


def _parse(content: bytes) -> PutBack | None:
    """Reads the note; one that is not whole was being written, before anything was changed."""
    try:
        entries = json_object(content)
        return PutBack(
            mode_id=None if entries["mode_id"] is None else int(entries["mode_id"]),
            mode_name=None if entries["mode_name"] is None else str(entries["mode_name"]),
            relock=bool(entries["relock"]),
            boot_id=str(entries["boot_id"]),
        )
    except (ValueError, KeyError, TypeError):
        return None
