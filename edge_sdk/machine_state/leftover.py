"""What must be put back, on disk before anything is changed, so that even a killed process leaves a trace.

The note lies in a folder of root's own (`TrustedFolder`): what is read there is done as root. The file is
held with a lock of the kernel while its process lives; a lock that is free means that nobody is going to
put the machine back but the next caller.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from edge_sdk.errors import DeviceError
from edge_sdk.json_text import json_object
from edge_sdk.machine_state.stored_clocks import sort_lines
from edge_sdk.machine_state.trusted_folder import TrustedFolder

__all__ = ["STATE_FOLDER", "Leftover", "PutBack", "RestoreFile", "find_leftover", "old_notes"]

STATE_FOLDER = "var/lib/edge-sdk-machine"
"""Survives a reboot, as a power mode does. No service's state lies in it."""

_OLD_FOLDER = "var/lib/edge-sdk"
"""Where notes once went; the user of the service owns it, so nothing in it is ever used."""

_NAME, _CLOCKS_NAME, _FRESH_NAME = "prepared.json", "clocks.conf", "clocks.new"
_MOST_NBYTES = 65536
_MOST_CLOCKS_NBYTES = 1 << 20


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
        problem: why what was found is not used, or "".
    """

    alive: bool
    put_back: PutBack | None
    clocks_stored: bool
    problem: str = ""

    @property
    def text(self) -> str:
        """Says what is prepared, or was left."""
        if self.problem:
            return self.problem
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
    try:
        with TrustedFolder(folder or Path(root) / STATE_FOLDER) as place:
            found = _look(place)
    except OSError:
        found = None
    except DeviceError as error:
        return Leftover(False, None, False, str(error))
    if found is None and (old := old_notes(root)):
        return Leftover(False, None, False, old)
    return found


def old_notes(root: Path | str = "/") -> str:
    """Says that notes of an earlier version are there, which are not used; "" where there are none."""
    folder = Path(root) / _OLD_FOLDER
    there = [name for name in (_NAME, _CLOCKS_NAME) if os.path.lexists(folder / name)]
    if not there:
        return ""
    return (
        f"{folder} holds {' and '.join(there)} of an earlier version of edge-sdk; they are not used, for "
        "others than root can write there. If a prepare of that version was killed: set the power mode with "
        "nvpmodel and reboot, which frees the clocks. Then remove them"
    )


def _look(place: TrustedFolder) -> Leftover | None:
    descriptor = place.open(_NAME, os.O_RDONLY)
    try:
        alive = False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            alive = True
        put_back = _parse(os.pread(descriptor, _MOST_NBYTES, 0))
    finally:
        os.close(descriptor)
    if put_back is None and not alive:
        return None
    return Leftover(alive, put_back, place.has(_CLOCKS_NAME))


class RestoreFile:
    """The file, held by this process until `close` or its death."""

    def __init__(self, folder: Path, root: Path = Path("/")) -> None:
        """Opens and holds it; makes the folder.

        Arguments:
            folder: where it lies; see `TrustedFolder`.
            root: of the tree whose clocks are stored.

        Raises:
            DeviceError: it cannot be written, others could exchange it, or another process holds it.
        """
        self._root = root
        try:
            self._folder = TrustedFolder(folder, make=True)
            try:
                self._descriptor = self._hold()
            except BaseException:
                self._folder.close()
                raise
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
        self.found = _parse(os.pread(self._descriptor, _MOST_NBYTES, 0))
        if self.found is None:
            self._folder.remove(_CLOCKS_NAME)  # of nobody: clocks are stored after the note

    @property
    def has_clocks(self) -> bool:
        """Whether the clocks as they were are stored; they are only when complete."""
        return self._folder.has(_CLOCKS_NAME)

    def fresh_clocks(self) -> Path:
        """Returns where `jetson_clocks --store` is to write; nothing is there."""
        self._folder.remove(_FRESH_NAME)  # jetson_clocks asks before it writes over a file
        return self._folder.path / _FRESH_NAME

    def keep_clocks(self) -> list[str]:
        """Keeps what was stored, as far as it is known; returns the lines that were left out.

        Raises:
            DeviceError: nothing was stored that could be put back.
        """
        try:
            text = self._folder.read(_FRESH_NAME, _MOST_CLOCKS_NBYTES).decode("utf-8", "replace")
        except OSError as error:
            raise DeviceError(
                f"jetson_clocks --store wrote no file ({error.strerror or error}); the clocks were left alone"
            ) from error
        known, unknown = sort_lines(text, self._root)
        if not known:
            raise DeviceError(
                f"jetson_clocks --store: expected lines PATH:VALUE of known clocks, found "
                f"{unknown[0] if unknown else 'an empty file'!r}; the clocks were left alone"
            )
        self._folder.write(_CLOCKS_NAME, "".join(f"{line}\n" for line in known).encode())
        self._folder.remove(_FRESH_NAME)
        return unknown

    def checked_clocks(self) -> Path:
        """Returns the file for `jetson_clocks --restore`.

        Raises:
            DeviceError: it holds anything but settings of known clocks.
        """
        path = self._folder.path / _CLOCKS_NAME
        try:
            text = self._folder.read(_CLOCKS_NAME, _MOST_CLOCKS_NBYTES).decode("utf-8", "replace")
        except OSError as error:
            raise DeviceError(f"{path}: cannot be read ({error.strerror or error})") from error
        _, unknown = sort_lines(text, self._root)
        if unknown:
            raise DeviceError(
                f"{path}: {unknown[0]!r} sets no known clock, so nothing of it is put back. A reboot frees "
                "the clocks; then remove the file"
            )
        return path

    def forget_clocks(self) -> None:
        """Removes them: they were put back, or hold for another boot."""
        self._folder.remove(_CLOCKS_NAME)

    def write(self, put_back: PutBack) -> None:
        """Notes what must be put back; on disk when it returns."""
        content = json.dumps(asdict(put_back)).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, content, 0)
        os.fsync(self._descriptor)
        self._folder.sync()

    def close(self, *, done: bool) -> None:
        """Lets go; `done` when everything was put back, so that nothing is left to note."""
        if done:
            for name in (_FRESH_NAME, _CLOCKS_NAME, _NAME):
                self._folder.remove(name)
        os.close(self._descriptor)
        self._folder.close()

    def _hold(self) -> int:
        while True:
            descriptor = self._folder.open(_NAME, os.O_RDWR | os.O_CREAT)
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
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
