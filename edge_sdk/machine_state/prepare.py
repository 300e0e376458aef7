"""Putting a machine into a power mode and holding its clocks, for the time of a run, and putting it back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from edge_sdk.errors import ConfigError, DeviceError
from edge_sdk.machine_state.changes import mode_text
from edge_sdk.machine_state.commands import Answer, Runner
from edge_sdk.machine_state.leftover import STATE_FOLDER, PutBack, RestoreFile, old_notes
from edge_sdk.machine_state.reader import MachineReader
from edge_sdk.machine_state.state import MachineSnapshot, same_mode
from edge_sdk.machine_state.tree import Tree

__all__ = ["Preparation", "restore_leftover"]

_REBOOT_HINT = "Modes that switch CPUs on or off need a reboot: set it with nvpmodel, and reboot first."


def _quiet(text: str) -> None:
    """Says nothing."""


class Preparation:
    """Changes mode and clocks on entering, puts back what it changed on leaving, whatever happened inside.

        with Preparation(reader, run, mode="MAXN", lock_clocks=True):
            ...

    What must be put back is on disk before anything changes. A process that is killed leaves that note;
    the next preparation, or `restore_leftover`, works it off first.
    """

    def __init__(
        self,
        reader: MachineReader,
        run: Runner,
        *,
        mode: str | None = None,
        lock_clocks: bool = False,
        folder: Path | None = None,
        say: Callable[[str], None] = _quiet,
    ) -> None:
        """Reads the machine and checks the request; changes nothing.

        Arguments:
            reader, run: of one machine.
            mode: name of a power mode, or None to leave it.
            lock_clocks: hold all clocks at the mode's upper limits.
            folder: where the note goes, one of root's own; `/var/lib/edge-sdk-machine` of the machine by
                default.
            say: told each step as it is taken.

        Raises:
            ConfigError: nothing is asked for, or this machine has no such mode.
        """
        if mode is None and not lock_clocks:
            raise ConfigError("nothing to prepare: give a power mode, or that clocks are to be held")
        self._reader, self._run, self._say = reader, run, say
        self._folder = folder or reader.root / STATE_FOLDER
        self._before = reader.snapshot()
        self._lock = lock_clocks
        self._mode = None if mode is None else _find_mode(self._before, mode)
        self._file: RestoreFile | None = None
        self._noted = PutBack()

    def plan(self) -> tuple[str, ...]:
        """Says what entering would do, one command or remark a line."""
        steps = []
        if self._changes_mode():
            assert self._mode is not None
            steps.append(
                f"nvpmodel -m {self._mode[0]}    # {mode_text(self._before.power_mode)} to {self._mode[1]}"
            )
            if _held(self._before):
                steps.append(
                    "# the new mode frees the clocks, which are held now; they are held again afterwards"
                )
        elif self._mode is not None:
            steps.append(f"# power mode is {self._mode[1]} already")
        if self._locks():
            steps += [f"jetson_clocks --store {self._folder}/clocks.conf", "jetson_clocks"]
        elif self._lock:
            steps.append("# clocks are held already")
        return tuple(steps)

    def __enter__(self) -> Preparation:
        self._file = RestoreFile(self._folder, self._reader.root)
        if old := old_notes(self._reader.root):
            self._say(f"note: {old}")
        if self._file.found is not None:
            self._say("putting back what a killed prepare left")
            self._noted = self._file.found
            try:
                _put_back(self._file, self._noted, self._reader, self._run, self._say)
            except BaseException:
                self._file.close(done=False)
                raise
            self._before = self._reader.snapshot()
        mode = self._before.power_mode
        if self._changes_mode() and mode.id is None:
            self._file.close(done=True)
            raise DeviceError(
                "the power mode in force cannot be read, so it could not be put back; nothing was changed. "
                + ("; ".join(mode.warnings) or "nvpmodel gave no answer")
            )
        self._noted = PutBack(
            mode_id=mode.id if self._changes_mode() else None,
            mode_name=mode.name if self._changes_mode() else None,
            relock=self._changes_mode() and _held(self._before),
            boot_id=_boot_id(self._reader),
        )
        self._file.write(self._noted)
        try:
            self._apply(self._file)
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _apply(self, file: RestoreFile) -> None:
        if self._changes_mode():
            assert self._mode is not None
            _set_mode(*self._mode, self._reader, self._run, self._say)
        if self._locks():
            fresh = file.fresh_clocks()
            _must(self._run(["jetson_clocks", "--store", str(fresh)]), "jetson_clocks --store")
            for line in file.keep_clocks():
                self._say(f"not known as a clock, and not put back afterwards: {line}")
            _hold_clocks(self._reader, self._run, self._say)

    def _leave(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        done = False
        try:
            _put_back(file, self._noted, self._reader, self._run, self._say)
            done = True
        finally:
            file.close(done=done)

    def _changes_mode(self) -> bool:
        mode = self._before.power_mode
        if self._mode is None:
            return False
        return mode.source != "nvpmodel" or mode.name is None or not same_mode(mode.name, self._mode[1])

    def _locks(self) -> bool:
        return self._lock and (self._changes_mode() or not _held(self._before))


def restore_leftover(
    reader: MachineReader, run: Runner, *, folder: Path | None = None, say: Callable[[str], None] = _quiet
) -> bool:
    """Puts back what a killed preparation left.

    Arguments:
        reader, run, folder, say: as for `Preparation`.

    Returns: whether there was anything.

    Raises:
        DeviceError: a preparation still runs, or the machine could not be put back; the note stays.
    """
    file = RestoreFile(folder or reader.root / STATE_FOLDER, reader.root)
    done = False
    try:
        if file.found is None and (old := old_notes(reader.root)):
            raise DeviceError(f"{old}.")
        if file.found is not None:
            _put_back(file, file.found, reader, run, say)
        done = True
    finally:
        file.close(done=done)
    return file.found is not None


def _put_back(
    file: RestoreFile, noted: PutBack, reader: MachineReader, run: Runner, say: Callable[[str], None]
) -> None:
    """Clocks first, for a change of mode would put them anywhere; the file of clocks goes once it is used."""
    same_boot = noted.boot_id == _boot_id(reader)
    if file.has_clocks:
        if same_boot:
            _must(run(["jetson_clocks", "--restore", str(file.checked_clocks())]), "jetson_clocks --restore")
            say("clocks are as they were")
        file.forget_clocks()
    if noted.mode_id is not None:
        _refuse_unknown_mode(noted, reader.snapshot())
        _set_mode(noted.mode_id, noted.mode_name or str(noted.mode_id), reader, run, say)
    if noted.relock and same_boot:
        _hold_clocks(reader, run, say)


def _refuse_unknown_mode(noted: PutBack, snapshot: MachineSnapshot) -> None:
    """A note that names a mode which this machine has not, or has under another name, is not its own."""
    modes = dict(snapshot.power_mode.modes)
    assert noted.mode_id is not None
    listed = modes.get(noted.mode_id)
    if modes and (listed is None or (noted.mode_name is not None and not same_mode(listed, noted.mode_name))):
        raise DeviceError(
            f"the note asks for power mode {noted.mode_name} (id {noted.mode_id}), which "
            f"{snapshot.power_mode.conf} does not have. Set the mode with nvpmodel, and remove the note."
        )


def _set_mode(number: int, name: str, reader: MachineReader, run: Runner, say: Callable[[str], None]) -> None:
    """Sets a power mode and reads it back: nvpmodel may say yes and keep the old one."""
    answer = run(["nvpmodel", "-m", str(number)])
    found = reader.snapshot().power_mode
    if found.source == "nvpmodel" and found.name is not None and same_mode(found.name, name):
        say(f"power mode is {mode_text(found)}")
        return
    if answer.status != 0:
        raise DeviceError(
            f"nvpmodel -m {number} failed: {answer.why}. The power mode is {mode_text(found)}. "
            "Run it with sudo."
        )
    raise DeviceError(
        f"asked for power mode {name} (id {number}), nvpmodel still says {mode_text(found)}. {_REBOOT_HINT}"
    )


def _hold_clocks(reader: MachineReader, run: Runner, say: Callable[[str], None]) -> None:
    """Holds the clocks and reads them back."""
    _must(run(["jetson_clocks"]), "jetson_clocks")
    snapshot = reader.snapshot()
    if snapshot.locked is False or not _held(snapshot):
        free = [domain.name for domain in snapshot.clocks.domains if domain.pinned is False]
        listed = ", ".join(free) or "idle states"
        raise DeviceError(f"jetson_clocks ended well, and yet these are not held: {listed}")
    unsure = "" if snapshot.locked else " (as far as it can be read)"
    say(f"clocks are held{unsure}")


def _find_mode(snapshot: MachineSnapshot, name: str) -> tuple[int, str]:
    modes = snapshot.power_mode.modes
    if not modes:
        where = (
            "this machine is no Jetson" if not snapshot.board.jetson else "/etc/nvpmodel.conf cannot be read"
        )
        raise ConfigError(f"power mode {name}: no modes are known here, {where}")
    for number, listed in modes:
        if same_mode(listed, name):
            return number, listed
    names = ", ".join(listed for _, listed in modes)
    raise ConfigError(f"power mode {name}: {snapshot.power_mode.conf} has {names}. Give one of these names.")


def _held(snapshot: MachineSnapshot) -> bool:
    """Whether clocks are held, as far as that can be read."""
    pinned = [domain.pinned for domain in snapshot.clocks.domains]
    return snapshot.locked is not False and True in pinned


def _must(answer: Answer, what: str) -> None:
    if answer.status != 0:
        raise DeviceError(f"{what} failed: {answer.why}. Run it with sudo.")


def _boot_id(reader: MachineReader) -> str:
    """Source: Linux, Documentation/admin-guide/sysctl/kernel.rst, random/boot_id."""
    return Tree(reader.root).text("proc/sys/kernel/random/boot_id") or ""
