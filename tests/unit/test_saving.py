"""Files of results: whole or not at all, also where the disk is full or the place is odd."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from edge_sdk.errors import ConfigError, DeviceError, SaveError
from edge_sdk.saving import LineFile, check_target, save_bytes, save_json, save_text

FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_full_disk_leaves_the_good_file_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    save_text(tmp_path / "record.json", "good")

    def full(*arguments: object) -> int:
        raise FULL

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(SaveError, match=r"record\.json: cannot be written \(No space left") as caught:
            save_text(tmp_path / "record.json", "half")
    assert isinstance(caught.value, DeviceError)
    assert (caught.value.path, caught.value.problem) == (tmp_path / "record.json", FULL.strerror)
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]
    assert (tmp_path / "record.json").read_text() == "good"


def test_a_file_appears_in_one_step_and_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    real = tmp_path / "elsewhere" / "real.json"
    real.parent.mkdir()
    real.write_text("old")
    real.chmod(0o640)
    (tmp_path / "link.json").symlink_to(real)
    before = real.stat().st_ino
    save_json(tmp_path / "link.json", {"a": 1})
    assert (tmp_path / "link.json").is_symlink()
    assert real.read_text() == '{\n  "a": 1\n}\n'
    assert real.stat().st_ino != before
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    save_bytes(tmp_path / "secret", b"x", mode=0o600)
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


def test_names_as_long_as_names_can_be_and_text_that_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    check_target(path)
    save_text(path, "key \udcff")
    assert path.read_bytes() == b"key \\udcff"


def test_devices_and_pipes_are_written_to_as_they_are(tmp_path: Path) -> None:
    save_text("/dev/null", "x")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(SaveError, match="No space left on device"):
        save_text("/dev/full", "x")
    os.mkfifo(tmp_path / "pipe")
    check_target(tmp_path / "pipe")  # nobody reads it yet
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_text()))
    reader.start()
    save_text(tmp_path / "pipe", "through")
    reader.join()
    assert found == ["through"]


def test_a_target_is_tried_before_the_work(tmp_path: Path) -> None:
    check_target(tmp_path / "new" / "folder" / "r.json")
    assert list((tmp_path / "new" / "folder").iterdir()) == []
    with pytest.raises(ConfigError, match="it is a folder"):
        check_target(tmp_path)
    with pytest.raises(ConfigError, match="cannot be written"):
        check_target("/proc/none/r.json")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        check_target(tmp_path / "file" / "r.json")
    with pytest.raises(ConfigError, match="cannot be written"):
        check_target(tmp_path / "nul\0")


@pytest.mark.parametrize("place", ["folder/r.json", "readonly.json"])
def test_a_place_that_is_read_only_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """As an ordinary user would find it: root may write everywhere."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "readonly.json").write_text("{}")
    real_open, denied = os.open, PermissionError(errno.EACCES, "Permission denied")

    def guarded(path: object, flags: int, *rest: int, **more: int) -> int:
        if flags & os.O_CREAT and "folder" in str(path):
            raise denied
        return real_open(path, flags, *rest, **more)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(os, "open", guarded)
    monkeypatch.setattr(os, "access", lambda path, mode: "readonly" not in str(path))
    with pytest.raises(ConfigError, match="cannot be written"):
        check_target(tmp_path / place)


def test_lines_are_there_at_once_and_a_full_disk_leaves_whole_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = LineFile(tmp_path / "frames.jsonl")
    lines.write("one")
    assert (tmp_path / "frames.jsonl").read_text() == "one\n"
    real = os.write
    left = [5]

    def nearly_full(descriptor: int, content: bytes) -> int:
        if not left[0]:
            raise FULL
        taken = real(descriptor, bytes(content)[: left[0]])
        left[0] -= taken
        return taken

    monkeypatch.setattr(os, "write", nearly_full)
    with pytest.raises(SaveError, match=r"cannot be written after 1 lines \(No space left on device\)"):
        lines.write("a second line")
    assert (tmp_path / "frames.jsonl").read_text() == "one\n"
    lines.close()
    with pytest.raises(SaveError):
        LineFile(tmp_path / "none" / "frames.jsonl")


def test_lines_of_an_earlier_run_stay_until_the_first_new_one(tmp_path: Path) -> None:
    path = tmp_path / "frames.jsonl"
    path.write_text("an old line that is long\n")
    LineFile(path).close()
    assert path.read_text() == "an old line that is long\n"
    with LineFile(path) as lines:
        lines.write("new")
    assert path.read_text() == "new\n"
