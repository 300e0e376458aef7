"""Preparing a machine and putting it back: after success, failure, Ctrl-C, and kill -9."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from pwd import getpwnam

import pytest
from machine_trees import KINDS, MachineTree, write_tools

from edge_sdk.errors import ConfigError, DeviceError
from edge_sdk.machine_state.commands import Answer, Runner, runner_for, runner_in
from edge_sdk.machine_state.leftover import STATE_FOLDER, find_leftover
from edge_sdk.machine_state.prepare import Preparation, restore_leftover
from edge_sdk.machine_state.reader import MachineReader

STATUS = "var/lib/nvpmodel/status"


class Jetson:
    """An AGX Orin in MODE_30W with free clocks, and tools that obey."""

    def __init__(self, folder: Path, **tools: object) -> None:
        self.tree: MachineTree = KINDS["agx-orin-jp6"](folder / "root")
        self.root = self.tree.root
        self.tree.write("proc/sys/kernel/random/boot_id", "boot-1")
        self.tools = write_tools(folder / "tools", self.root, **tools)  # type: ignore[arg-type]
        self.run: Runner = runner_in(str(self.tools))
        self.reader = MachineReader(self.root, run=self.run)
        self.said: list[str] = []

    def prepare(self, mode: str | None = "50W", lock: bool = True, run: Runner | None = None) -> Preparation:
        return Preparation(self.reader, run or self.run, mode=mode, lock_clocks=lock, say=self.said.append)

    def state(self) -> tuple[str | None, bool | None]:
        snapshot = self.reader.snapshot()
        return snapshot.power_mode.name, snapshot.locked

    def calls(self) -> list[str]:
        log = self.root / "calls"
        lines = log.read_text("utf-8").splitlines() if log.exists() else []
        return [line.strip() for line in lines if not line.endswith(("-q", "--show"))]


@pytest.fixture
def jetson(tmp_path: Path) -> Jetson:
    return Jetson(tmp_path)


FREE = ("MODE_30W", False)
HELD = ("MODE_30W", True)
PREPARED = ("MODE_50W", True)


def test_a_plan_changes_nothing(jetson: Jetson) -> None:
    plan = jetson.prepare().plan()
    assert plan[0] == "nvpmodel -m 3    # MODE_30W (id 2, nvpmodel_p3701_0000.conf) to MODE_50W"
    assert [step.split()[0] for step in plan] == ["nvpmodel", "jetson_clocks", "jetson_clocks"]
    assert jetson.state() == FREE
    assert jetson.calls() == []
    assert not (jetson.root / STATE_FOLDER).exists()


def test_what_is_there_already_is_left_alone(jetson: Jetson) -> None:
    jetson.tree.lock()
    plan = jetson.prepare("MODE_30W").plan()
    assert plan == ("# power mode is MODE_30W already", "# clocks are held already")
    with jetson.prepare("MODE_30W"):
        assert jetson.state() == HELD
    assert jetson.calls() == []
    assert jetson.state() == HELD


def test_the_state_holds_inside_and_is_put_back_after(jetson: Jetson) -> None:
    with jetson.prepare():
        assert jetson.state() == PREPARED
    assert jetson.state() == FREE
    assert jetson.calls() == [
        "nvpmodel -m 3",
        "jetson_clocks --store clocks.new",
        "jetson_clocks",
        "jetson_clocks --restore clocks.conf",
        "nvpmodel -m 2",
    ]
    assert jetson.said[:2] == ["power mode is MODE_50W (id 3, nvpmodel_p3701_0000.conf)", "clocks are held"]
    assert list((jetson.root / STATE_FOLDER).iterdir()) == []


def test_clocks_that_were_held_are_held_again_though_the_mode_freed_them(jetson: Jetson) -> None:
    jetson.tree.lock()
    preparation = jetson.prepare(lock=False)
    assert "held again afterwards" in preparation.plan()[1]
    with preparation:
        assert jetson.state() == ("MODE_50W", False)
    assert jetson.state() == HELD


def test_an_error_or_ctrl_c_inside_puts_back_too(jetson: Jetson) -> None:
    with pytest.raises(KeyboardInterrupt), jetson.prepare():
        raise KeyboardInterrupt
    assert jetson.state() == FREE


@pytest.mark.parametrize(
    ("mode", "lock", "words"),
    [
        ("55W", False, "nvpmodel_p3701_0000.conf has MAXN, MODE_15W, MODE_30W, MODE_50W"),
        (None, False, "nothing to prepare"),
    ],
)
def test_a_request_that_cannot_be_met_touches_nothing(
    mode: str | None, lock: bool, words: str, jetson: Jetson
) -> None:
    """Issue 21: modes are picked by name, from this board's own file."""
    with pytest.raises(ConfigError, match=words):
        jetson.prepare(mode, lock)
    assert jetson.calls() == []


def test_a_machine_without_modes_says_so(tmp_path: Path) -> None:
    KINDS["desktop"](tmp_path)
    with pytest.raises(ConfigError, match="this machine is no Jetson"):
        Preparation(MachineReader(tmp_path), runner_in(""), mode="MAXN")


def test_a_mode_that_silently_did_not_come_is_an_error_and_all_is_put_back(tmp_path: Path) -> None:
    """Issue 20: nvpmodel asks for a reboot, takes "no", ends with 0, and the old mode stays."""
    jetson = Jetson(tmp_path, reboot_modes=(3,))
    with pytest.raises(
        DeviceError, match=r"asked for power mode MODE_50W \(id 3\), nvpmodel still says MODE_30W"
    ):
        jetson.prepare().__enter__()
    assert jetson.state() == FREE
    assert not (jetson.root / "rebooted").exists()
    assert find_leftover(jetson.root) is None


def test_a_tool_that_fails_is_an_error_and_all_is_put_back(jetson: Jetson) -> None:
    def run(command: object) -> Answer:
        words = list(command)  # type: ignore[call-overload]
        return Answer(1, "", "must be root") if words == ["jetson_clocks"] else jetson.run(words)

    with pytest.raises(DeviceError, match=r"jetson_clocks failed: must be root\. Run it with sudo\."):
        jetson.prepare(run=run).__enter__()
    assert jetson.state() == FREE
    assert find_leftover(jetson.root) is None


def test_clocks_that_are_not_held_afterwards_are_an_error(jetson: Jetson) -> None:
    def run(command: object) -> Answer:
        words = list(command)  # type: ignore[call-overload]
        return Answer(0) if words == ["jetson_clocks"] else jetson.run(words)

    with pytest.raises(DeviceError, match="yet these are not held: cpu0-3, cpu4-7, cpu8-11, gpu, emc"):
        jetson.prepare(None, run=run).__enter__()


def test_a_mode_that_could_not_be_put_back_is_not_changed(tmp_path: Path) -> None:
    jetson = Jetson(tmp_path, query="NVPM ERROR: no mode")
    (jetson.root / STATUS).write_text("nothing\n")
    calls = Jetson.calls
    with pytest.raises(DeviceError, match="could not be put back; nothing was changed"):
        jetson.prepare().__enter__()
    assert calls(jetson) == []


def test_without_a_place_for_the_note_nothing_is_changed(jetson: Jetson) -> None:
    jetson.tree.write(STATE_FOLDER, "a file where the folder should be")
    with pytest.raises(DeviceError, match="nothing was changed"):
        jetson.prepare().__enter__()
    assert jetson.calls() == []


def test_two_preparations_do_not_meet(jetson: Jetson) -> None:
    with jetson.prepare():
        leftover = find_leftover(jetson.root)
        assert leftover is not None
        assert leftover.alive
        with pytest.raises(DeviceError, match="another edge-sdk machine prepare holds this machine"):
            jetson.prepare("MAXN").__enter__()
        with pytest.raises(DeviceError, match="another edge-sdk"):
            restore_leftover(jetson.reader, jetson.run)
        assert jetson.state() == PREPARED
    assert jetson.state() == FREE


def leave(jetson: Jetson, **noted: object) -> None:
    """Leaves the machine as a killed preparation does."""
    jetson.prepare().__enter__()._file.close(done=False)  # type: ignore[union-attr]
    assert jetson.state() == PREPARED
    file = jetson.root / STATE_FOLDER / "prepared.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **noted}))


def test_what_a_killed_preparation_left_is_put_back_by_restore(jetson: Jetson) -> None:
    leave(jetson)
    leftover = find_leftover(jetson.root)
    assert leftover is not None
    assert not leftover.alive
    assert leftover.text == (
        "a killed prepare left its changes: power mode was MODE_30W, clocks were not held"
    )
    assert restore_leftover(jetson.reader, jetson.run)
    assert jetson.state() == FREE
    assert find_leftover(jetson.root) is None
    assert not restore_leftover(jetson.reader, jetson.run)


def test_the_next_preparation_works_off_what_was_left_first(jetson: Jetson) -> None:
    leave(jetson)
    with jetson.prepare("MAXN"):
        assert jetson.said[-5:][0] == "putting back what a killed prepare left"
        assert jetson.state() == ("MAXN", True)
    assert jetson.state() == FREE


def test_after_a_reboot_the_mode_is_put_back_and_clocks_are_left(jetson: Jetson) -> None:
    leave(jetson)
    jetson.tree.write("proc/sys/kernel/random/boot_id", "boot-2")
    count = len(jetson.calls())
    restore_leftover(jetson.reader, jetson.run)
    assert jetson.calls()[count:] == ["nvpmodel -m 2"]
    assert not (jetson.root / STATE_FOLDER / "clocks.conf").exists()


def test_a_restore_that_fails_keeps_the_note(jetson: Jetson) -> None:
    leave(jetson)

    def broken(command: object) -> Answer:
        return Answer(1, "", "busy")

    with pytest.raises(DeviceError, match="jetson_clocks --restore failed: busy"):
        restore_leftover(jetson.reader, broken)
    with pytest.raises(DeviceError, match="busy"):
        jetson.prepare("MAXN", run=broken).__enter__()
    leftover = find_leftover(jetson.root)
    assert leftover is not None
    assert not leftover.alive
    restore_leftover(jetson.reader, jetson.run)
    assert jetson.state() == FREE


@pytest.mark.parametrize("content", ["", "{", "[]", '{"mode_id": "x"}', '{"mode_id": 1}'])
def test_a_note_that_is_not_whole_was_written_before_any_change(content: str, jetson: Jetson) -> None:
    jetson.tree.write(f"{STATE_FOLDER}/prepared.json", content)
    jetson.tree.write(f"{STATE_FOLDER}/clocks.conf", "of nobody")
    assert find_leftover(jetson.root) is None
    assert not restore_leftover(jetson.reader, jetson.run)
    assert jetson.calls() == []


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a file somebody else's: given away where that is allowed, else by being somebody else."""
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
    else:
        mine = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)


@pytest.mark.parametrize("name", ["prepared.json", "clocks.new"])
def test_a_planted_link_is_not_followed(name: str, jetson: Jetson, tmp_path: Path) -> None:
    target = tmp_path / "passwd"
    target.write_text("of the system")
    (jetson.root / STATE_FOLDER).mkdir()
    (jetson.root / STATE_FOLDER / name).symlink_to(target)
    if name == "prepared.json":
        with pytest.raises(DeviceError, match=r"prepared\.json: is a link"):
            jetson.prepare().__enter__()
        leftover = find_leftover(jetson.root)
        assert leftover is not None
        assert "is a link" in leftover.text
        assert jetson.state() == FREE
    else:
        with jetson.prepare():
            assert jetson.state() == PREPARED
    assert target.read_text() == "of the system"


def test_a_folder_that_is_a_link_or_open_to_others_is_refused(jetson: Jetson, tmp_path: Path) -> None:
    folder = jetson.root / STATE_FOLDER
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DeviceError, match="is a link; the folder itself was expected"):
        jetson.prepare().__enter__()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    folder.unlink()
    for path in (folder, folder.parent):
        folder.mkdir(exist_ok=True)
        path.chmod(0o777)
        with pytest.raises(DeviceError, match=r"may be written to by others \(mode 777\)"):
            jetson.prepare().__enter__()
        path.chmod(0o755)
    jetson.tree.write("etc/shadow", "x")
    os.link(jetson.root / "etc/shadow", folder / "prepared.json")
    with pytest.raises(DeviceError, match="has 2 names"):
        jetson.prepare().__enter__()
    assert jetson.calls() == []


def test_a_link_of_ones_own_on_the_way_is_followed(jetson: Jetson, tmp_path: Path) -> None:
    """As where /var lies on another disk."""
    (jetson.root / "var/lib").rename(tmp_path / "data")
    (jetson.root / "var/lib").symlink_to("../../data")
    with jetson.prepare(None):
        assert (tmp_path / "data" / Path(STATE_FOLDER).name / "prepared.json").is_file()
    assert jetson.state() == FREE


@pytest.mark.parametrize("part", ["", "prepared.json", "clocks.conf"])
def test_what_belongs_to_others_is_neither_written_nor_restored(
    part: str, jetson: Jetson, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(jetson)
    calls = jetson.calls()
    give_away(jetson.root / STATE_FOLDER / part, monkeypatch)
    with pytest.raises(DeviceError, match=r"belongs to user \d+, not to root"):
        restore_leftover(jetson.reader, jetson.run)
    with pytest.raises(DeviceError, match="could be exchanged"):
        jetson.prepare("MAXN").__enter__()
    assert jetson.calls() == calls
    assert jetson.state() == PREPARED
    if part != "clocks.conf":
        leftover = find_leftover(jetson.root)
        assert leftover is not None
        assert "belongs to user" in leftover.text


@pytest.mark.parametrize(
    "line",
    [
        "/etc/passwd:x",
        "{root}/sys/devices/system/cpu/../../../../etc/passwd:1",
        "{root}/sys/kernel/uevent_helper:/tmp/x",
        "{root}/sys/devices/system/cpu/cpu0/online:1;reboot",
        "/sys/devices/system/cpu/cpu0/online:1",
        "no path at all",
    ],
)
def test_only_known_clocks_are_put_back(line: str, jetson: Jetson) -> None:
    leave(jetson)
    calls = jetson.calls()
    with (jetson.root / STATE_FOLDER / "clocks.conf").open("a") as file:
        file.write(line.format(root=jetson.root) + "\n")
    with pytest.raises(DeviceError, match="sets no known clock, so nothing of it is put back"):
        restore_leftover(jetson.reader, jetson.run)
    assert jetson.calls() == calls
    assert find_leftover(jetson.root) is not None, "the note stays"


def test_what_the_tool_stores_and_is_not_known_is_said_and_left_out(jetson: Jetson) -> None:
    def run(command: object) -> Answer:
        words = list(command)  # type: ignore[call-overload]
        answer = jetson.run(words)
        if words[1:2] == ["--store"]:
            with Path(words[2]).open("a") as file:
                file.write(f"{jetson.root}/proc/sys/kernel/core_pattern:|x\n")
        return answer

    with jetson.prepare(run=run):
        said = [line for line in jetson.said if "not known as a clock" in line]
        assert len(said) == 1
        assert "core_pattern" in said[0]
    assert jetson.state() == FREE
    with pytest.raises(DeviceError, match="expected lines PATH:VALUE of known clocks, found 'an empty file'"):
        jetson.prepare(run=lambda words: _stores_nothing(jetson, list(words))).__enter__()
    assert jetson.state() == FREE


def _stores_nothing(jetson: Jetson, words: list[str]) -> Answer:
    if words[1:2] == ["--store"]:
        Path(words[2]).touch()
        return Answer(0)
    return jetson.run(words)


@pytest.mark.parametrize(("mode_id", "mode_name"), [(99, "MODE_30W"), (2, "MAXN")])
def test_a_mode_that_is_not_this_machines_is_not_set(mode_id: int, mode_name: str, jetson: Jetson) -> None:
    leave(jetson, mode_id=mode_id, mode_name=mode_name)
    with pytest.raises(DeviceError, match=rf"asks for power mode {mode_name} \(id {mode_id}\)"):
        restore_leftover(jetson.reader, jetson.run)
    assert not any("-m 99" in call for call in jetson.calls())


def test_notes_of_earlier_versions_are_told_and_not_used(jetson: Jetson) -> None:
    jetson.tree.write("var/lib/edge-sdk/prepared.json", json.dumps({"mode_id": 0, "mode_name": "MAXN"}))
    leftover = find_leftover(jetson.root)
    assert leftover is not None
    assert "prepared.json of an earlier version of edge-sdk; they are not used" in leftover.text
    with pytest.raises(DeviceError, match="not used"):
        restore_leftover(jetson.reader, jetson.run)
    assert jetson.calls() == []
    with jetson.prepare():
        assert any("not used" in line for line in jetson.said)
    assert jetson.state() == FREE


def test_a_lock_on_a_removed_note_does_not_count(jetson: Jetson) -> None:
    folder = jetson.root / STATE_FOLDER
    folder.mkdir()
    stale = os.open(folder / "prepared.json", os.O_RDWR | os.O_CREAT)
    fcntl.flock(stale, fcntl.LOCK_EX)
    (folder / "prepared.json").unlink()
    with jetson.prepare(None):
        assert jetson.state() == HELD
    os.close(stale)


def _command(jetson: Jetson, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Runs the command line in a session of its own, without a terminal."""
    return subprocess.Popen(
        [
            sys.executable, "-m", "edge_sdk.cli.main", "machine", arguments[0],
            "--root", str(jetson.root), "--tools", str(jetson.tools), *arguments[1:],
        ],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env={**os.environ, "COLUMNS": "200", **environment},
    )  # fmt: skip


WAIT = (
    "import signal, sys; print('ready', flush=True)\n"
    "try: signal.pause()\n"
    "except KeyboardInterrupt: print('interrupted', flush=True); sys.exit(5)"
)
PREPARE = ("prepare", "--mode", "50W", "--lock-clocks", "--apply", "--", sys.executable, "-c", WAIT)


def _ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()[1]


def test_the_command_lines_status_is_that_of_the_command(jetson: Jetson) -> None:
    code = f"import sys; sys.exit(7 if open({str(jetson.root / STATUS)!r}).read() == 'pmode:0003\\n' else 8)"
    process = _command(jetson, *PREPARE[:-1], code)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 7, said
    assert "clocks are as they were" in said
    assert jetson.state() == FREE


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: only root can run a command as somebody else")
@pytest.mark.parametrize(("option", "user"), [([], "nobody"), (["--as-root"], "root")])
def test_under_sudo_the_command_runs_as_who_called(option: list[str], user: str, jetson: Jetson) -> None:
    nobody = getpwnam("nobody")
    call = ("--mode", "50W", "--apply", *option, "--", "sh", "-c", 'id -un; id -Gn; echo "$HOME"')
    process = _command(jetson, "prepare", *call, SUDO_UID=str(nobody.pw_uid), SUDO_GID=str(nobody.pw_gid))
    out, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    name, groups, home = out.splitlines()
    assert name == user
    assert "power mode is MODE_50W" in said
    assert ("root" in groups.split()) == (user == "root")
    assert (home == nobody.pw_dir) == (user == "nobody")
    assert jetson.state() == FREE
    missing = _command(jetson, "prepare", *call, SUDO_UID="54321")
    _, said = missing.communicate(timeout=120)
    assert (missing.returncode, "has no user 54321" in said) == ((0, False) if option else (3, True))


def test_root_runs_the_systems_tools_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "edge-sdk-test-tool"
    tool.write_text("#!/bin/sh\necho planted\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for user, found in ((1000, "planted\n"), (0, "")):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert runner_for(Path("/"))([tool.name]).out == found


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_reaches_the_command_and_the_machine_is_put_back(
    number: signal.Signals, status: int, jetson: Jetson
) -> None:
    process = _command(jetson, *PREPARE)
    _ready(process)
    assert jetson.state() == PREPARED
    process.send_signal(number)
    out, said = process.communicate(timeout=120)
    assert process.returncode == status, said
    assert ("interrupted" in out) == (number == signal.SIGINT)
    assert jetson.state() == FREE
    assert find_leftover(jetson.root) is None


def test_kill_9_leaves_a_note_that_the_next_call_works_off(jetson: Jetson) -> None:
    process = _command(jetson, *PREPARE)
    _ready(process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    os.killpg(process.pid, signal.SIGTERM)  # the command, which nobody ended
    process.communicate(timeout=60)
    assert jetson.state() == PREPARED
    leftover = find_leftover(jetson.root)
    assert leftover is not None
    assert not leftover.alive
    shown = _command(jetson, "show")
    assert "Put it back: `sudo edge-sdk machine restore`." in shown.communicate(timeout=120)[0]
    restored = _command(jetson, "restore")
    out, _ = restored.communicate(timeout=120)
    assert restored.returncode == 0
    assert "power mode is MODE_30W" in out
    assert jetson.state() == FREE
    again = _command(jetson, "restore")
    assert again.communicate(timeout=120)[0] == "Nothing is left to put back.\n"
