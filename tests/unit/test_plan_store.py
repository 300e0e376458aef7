"""Plans on disk: written whole or not at all, read only when every byte is known and the key fits."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edge_sdk.engine import plan_store as module
from edge_sdk.engine.plan_key import SIDECAR_NAME, PlanFile, PlanKey, Sidecar, parse_sidecar
from edge_sdk.engine.plan_store import LoadedPlans, PlanStore, read_plans
from edge_sdk.engine.verify import sha256_of
from edge_sdk.errors import EngineError, EngineIntegrityError, PlanMismatchError

KEY = PlanKey(
    "toy", "a" * 64, "int8", "10.3.0", "Orin", "8.7", "NVIDIA Jetson AGX Orin Developer Kit", "none"
)
PLANS = {"rgb": b"the rgb plan" * 100, "fuse": b"the fuse plan" * 100}


def write(store: PlanStore, key: PlanKey = KEY, plans: dict[str, bytes] | None = None) -> LoadedPlans:
    plans = PLANS if plans is None else plans
    record = {
        name: PlanFile(f"{name}-{sha256_of(data)[:12]}.plan", len(data), sha256_of(data), 0, 3)
        for name, data in plans.items()
    }
    sidecar = Sidecar(key, record, {"remainder": "fp16"}, {"frames": 15}, {"rgb": 1.25})
    return store.write(key, plans, record, sidecar)


@pytest.fixture
def store(tmp_path: Path) -> PlanStore:
    return PlanStore(tmp_path / "cache")


def plan_file(store: PlanStore, graph: str) -> Path:
    (path,) = store.folder(KEY).glob(f"{graph}-*.plan")
    return path


def test_what_was_written_is_found(store: PlanStore) -> None:
    written = write(store)
    found = store.find(KEY)
    assert found.plans == PLANS
    assert found.sidecar == written.sidecar
    assert found.sha256 == written.sha256
    assert found.sidecar.baseline_ms == {"rgb": 1.25}
    assert store.has(KEY)
    assert oct(store.folder(KEY).stat().st_mode)[-3:] == "700"


def test_no_plans_says_how_to_build_them(store: PlanStore) -> None:
    with pytest.raises(EngineError, match=r"no plans of 'toy'.*: edge-sdk engines build toy"):
        store.find(KEY)
    assert not store.has(KEY)


@pytest.mark.parametrize(
    ("field", "here", "words"),
    [
        ("tensorrt", "10.16.2", "built for TensorRT 10.3.0, found TensorRT 10.16.2"),
        ("gpu", "Thor", "built for GPU Orin, found GPU Thor"),
        ("compute_capability", "8.9", "built for compute capability 8.7, found compute capability 8.9"),
        ("module", "NVIDIA Jetson Orin NX", "found module NVIDIA Jetson Orin NX"),
        ("bundle_sha256", "b" * 64, f"built for bundle contents {'a' * 64}"),
        ("precision", "fp32", "built for precision int8, found precision fp32"),
        ("dla", "thermal", "built for DLA none, found DLA thermal"),
    ],
)
def test_plans_for_something_else_are_named_in_our_words(
    store: PlanStore, field: str, here: str, words: str
) -> None:
    write(store)
    with pytest.raises(PlanMismatchError) as caught:
        store.find(replace(KEY, **{field: here}))
    assert words in str(caught.value)
    assert "Run on this machine: edge-sdk engines build toy" in str(caught.value)
    assert here in caught.value.found


def test_of_several_sets_the_nearest_is_named(store: PlanStore) -> None:
    write(store, replace(KEY, tensorrt="9.0", gpu="Other", module="none"))
    write(store)
    with pytest.raises(PlanMismatchError) as caught:
        store.find(replace(KEY, tensorrt="10.16.2"))
    assert caught.value.built_for == "TensorRT 10.3.0"


DAMAGE = {
    "zero-length": lambda data: b"",
    "truncated": lambda data: data[:-1],
    "longer": lambda data: data + b"x",
    "bit-flipped": lambda data: bytes([data[0] ^ 1]) + data[1:],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_plan_is_refused(store: PlanStore, damage: str) -> None:
    write(store)
    path = plan_file(store, "rgb")
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    with pytest.raises(EngineIntegrityError, match=r"rgb-.*\.plan: (size|SHA-256): expected") as caught:
        store.find(KEY)
    assert "edge-sdk engines build toy --force" in str(caught.value) or damage == "longer"


def test_a_missing_plan_and_a_link_are_refused(store: PlanStore, tmp_path: Path) -> None:
    write(store)
    path = plan_file(store, "rgb")
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    with pytest.raises(EngineIntegrityError, match="expected present, found missing"):
        store.find(KEY)
    path.symlink_to(elsewhere)
    with pytest.raises(EngineIntegrityError, match="a link"):
        store.find(KEY)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"schema": 2}', b"null", b'{"schema": 1, "plans": {"rgb": {"file": "../x"}}}'],
)
def test_a_record_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(EngineIntegrityError, match="a record of plans, schema 1"):
        parse_sidecar(content, tmp_path / SIDECAR_NAME)


def test_a_record_cannot_name_a_file_outside(store: PlanStore) -> None:
    write(store)
    path = store.folder(KEY) / SIDECAR_NAME
    found = json.loads(path.read_text())
    found["plans"]["rgb"]["file"] = "../secret"
    path.write_text(json.dumps(found))
    with pytest.raises(EngineIntegrityError, match=r"\.\./secret"):
        store.find(KEY)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs users of a Unix")
def test_plans_that_others_could_have_written_are_not_ours(store: PlanStore) -> None:
    write(store)
    plan_file(store, "rgb").chmod(0o666)
    with pytest.raises(EngineIntegrityError, match=r"writable by no one else.*--trust-plan"):
        store.find(KEY)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs users of a Unix")
def test_nothing_is_written_or_locked_in_a_folder_of_somebody_else(
    store: PlanStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root in a user's cache would follow links that wait there under the names of locks."""
    write(store)
    store.keep_timing_cache(KEY, b"learned")
    assert store.timing_cache(KEY) == b"learned"
    victim = tmp_path / "victim"
    victim.write_text("of the system")
    lock = store.root / f".{store.folder(KEY).name}.lock"
    lock.unlink(missing_ok=True)
    lock.symlink_to(victim)
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    for act in (lambda: write(store), lambda: store.find(KEY), lambda: store.remove(KEY)):
        with pytest.raises(EngineError, match=rf"belongs to user {mine}, and this is user {mine + 1}"):
            act()
    assert store.timing_cache(KEY) == b"", "what others learned is not read"
    assert victim.read_text() == "of the system"


def test_plans_from_elsewhere_need_the_hash_of_their_record(store: PlanStore) -> None:
    written = write(store)
    folder = store.folder(KEY)
    plan_file(store, "rgb").chmod(0o666)
    assert read_plans(folder, KEY, written.sha256.upper()).plans == PLANS
    with pytest.raises(EngineIntegrityError, match="not the plans that you trust"):
        read_plans(folder, KEY, "0" * 64)
    with pytest.raises(PlanMismatchError):
        read_plans(folder, replace(KEY, gpu="Thor"), written.sha256)
    path = plan_file(store, "rgb")
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(EngineIntegrityError, match="SHA-256"):
        read_plans(folder, KEY, written.sha256)


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), SystemExit(1)]
)
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_full_disk_or_ctrl_c_leaves_the_old_set_or_none(
    store: PlanStore, monkeypatch: pytest.MonkeyPatch, error: BaseException, nth: int
) -> None:
    calls = []
    real = os.fsync

    def fails(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == nth:
            raise error
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "fsync", fails)
        with pytest.raises((EngineError, KeyboardInterrupt, SystemExit)) as caught:
            write(store)
    if isinstance(error, OSError):
        assert "No space left on device" in str(caught.value)
        assert "they take 0.0 MiB" in str(caught.value)
    assert not store.folder(KEY).exists()
    write(store)
    calls.clear()
    other = {"rgb": b"newer" * 10, "fuse": b"newer fuse" * 10}
    with monkeypatch.context() as patch:
        patch.setattr(module.os, "fsync", fails)
        with pytest.raises((EngineError, KeyboardInterrupt, SystemExit)):
            write(store, plans=other)
    assert store.find(KEY).plans == PLANS
    assert sorted(path.suffix for path in store.folder(KEY).iterdir()) == [".json", ".plan", ".plan"]


def test_a_new_set_takes_the_old_ones_place(store: PlanStore) -> None:
    write(store)
    write(store, plans={"rgb": b"newer"})
    assert store.find(KEY).plans == {"rgb": b"newer"}
    assert len(list(store.folder(KEY).iterdir())) == 2


def test_a_folder_that_cannot_be_made_is_an_error_with_advice(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EngineError, match=r"cannot be made.*EDGE_SDK_PLANS"):
        write(PlanStore(tmp_path / "file" / "plans"))


def test_two_processes_do_not_build_the_same_set_at_once(store: PlanStore) -> None:
    """The second waits for the first, which tells by its output when it holds the lock and lets go."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from test_plan_store import KEY, PlanStore\n"
        "with PlanStore(Path(sys.argv[1])).building(KEY):\n"
        "    print('holds', flush=True)\n"
        "    sys.stdin.readline()\n"
    )
    command = [sys.executable, "-c", code, str(store.root), str(Path(__file__).parent)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as first:  # type: ignore[call-overload]
        assert first.stdout.readline() == "holds\n"
        lock = module.filelock.FileLock(store.root / f".{store.folder(KEY).name}.build.lock", timeout=0)
        with pytest.raises(module.filelock.Timeout):
            lock.acquire()
        first.communicate("\n")
    with store.building(KEY):
        pass


def test_the_timing_cache_is_kept_for_this_gpu_and_version(store: PlanStore) -> None:
    assert store.timing_cache(KEY) == b""
    store.keep_timing_cache(KEY, b"learned")
    assert store.timing_cache(replace(KEY, bundle="other", precision="fp32")) == b"learned"
    assert store.timing_cache(replace(KEY, tensorrt="11.4.1")) == b""


def test_the_folder_is_the_users_cache_unless_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(module.PLANS_VARIABLE, str(tmp_path))
    assert PlanStore().root == tmp_path
    monkeypatch.delenv(module.PLANS_VARIABLE)
    assert PlanStore().root.parts[-2:] == ("edge-sdk", "plans")
