"""Plans on disk, in the user's cache: written whole or not at all, read only when every byte is known.

A plan is code that TensorRT runs. Plans of this cache are trusted because this user wrote them, which
is checked; plans from elsewhere are read only with the hash of their record, given by a person.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import filelock
import platformdirs

from edge_sdk.buffers.choice import PLANS_VARIABLE
from edge_sdk.engine.plan_key import (
    MAX_SIDECAR_NBYTES,
    SIDECAR_NAME,
    PlanFile,
    PlanKey,
    Sidecar,
    parse_sidecar,
)
from edge_sdk.engine.verify import read_inside, sha256_of
from edge_sdk.errors import EngineError, EngineIntegrityError, PlanMismatchError, SaveError
from edge_sdk.saving import save_bytes

__all__ = ["PLANS_VARIABLE", "LoadedPlans", "PlanStore", "read_plans"]

_READ_WAIT_S = 30.0


@dataclass(frozen=True)
class LoadedPlans:
    """A set of plans, read and verified.

    Attributes:
        folder: where it lies.
        sidecar: the record beside it.
        sha256: of that record, which holds the hash of each plan: it stands for the whole set.
        plans: graph -> the plan's bytes.
    """

    folder: Path
    sidecar: Sidecar
    sha256: str
    plans: Mapping[str, bytes]


class PlanStore:
    """A folder of plan sets and timing caches.

    Arguments:
        root: the folder; by default `PLANS_VARIABLE`, or the user's cache.
    """

    def __init__(self, root: Path | None = None) -> None:
        given = os.environ.get(PLANS_VARIABLE, "")
        self.root = root or (Path(given) if given else platformdirs.user_cache_path("edge-sdk") / "plans")

    def folder(self, key: PlanKey) -> Path:
        """Returns the folder of a key's set, present or not."""
        return self.root / f"{key.bundle}-{key.digest}"

    def has(self, key: PlanKey) -> bool:
        """Says whether there is a set for a key that can be read."""
        try:
            self.find(key)
        except EngineError:
            return False
        return True

    def find(self, key: PlanKey) -> LoadedPlans:
        """Reads the set for a key.

        Raises:
            PlanMismatchError: there are plans of this bundle, for another machine, version or contents.
            EngineError: there are none.
            EngineIntegrityError: a file is not what was written, or not this user's.
        """
        folder = self.folder(key)
        if (folder / SIDECAR_NAME).exists():
            with self._lock(folder.name):
                return read_plans(folder, key)
        others = [found for found in self._others(key.bundle) if found.key.bundle == key.bundle]
        if others:
            nearest = min(others, key=lambda found: len(found.key.differences(key)))
            raise _mismatch(self.folder(nearest.key), nearest.key, key)
        raise EngineError(f"no plans of {key.bundle!r} for this machine in {self.root}. {_build(key.bundle)}")

    @contextmanager
    def building(self, key: PlanKey) -> Iterator[None]:
        """Keeps other processes from building the same set; waits while one does."""
        self._make(self.root)
        with filelock.FileLock(self.root / f".{self.folder(key).name}.build.lock"):
            yield

    def write(
        self, key: PlanKey, plans: Mapping[str, bytes], record: Mapping[str, PlanFile], sidecar: Sidecar
    ) -> LoadedPlans:
        """Writes a set. Until the last step readers see the old set, and after it the new one.

        Arguments:
            plans: graph -> bytes.
            record: graph -> what the sidecar says of that plan, as `plan_file` makes it.
            sidecar: names exactly these plans.

        Raises:
            EngineError: the disk is full or the folder cannot be written; nothing half is left.
        """
        folder = self.folder(key)
        self._make(self.root)
        with self._lock(folder.name):
            before = set(folder.glob("*")) if folder.exists() else set()
            try:
                self._make(folder)
                for graph, data in plans.items():
                    save_bytes(folder / record[graph].file, data, mode=0o600)
                content = sidecar.to_json()
                save_bytes(folder / SIDECAR_NAME, content, mode=0o600)
            except BaseException as error:
                for path in set(folder.glob("*")) - before:
                    path.unlink(missing_ok=True)
                if not before:
                    _remove_folder(folder)
                if isinstance(error, (OSError, SaveError)):
                    needed = sum(map(len, plans.values())) / 2**20
                    why = error.problem if isinstance(error, SaveError) else error.strerror or error
                    raise EngineError(
                        f"{folder}: the plans cannot be written ({why}); they take "
                        f"{needed:.1f} MiB. Free some space, or set {PLANS_VARIABLE} to another folder."
                    ) from error
                raise
            kept = {SIDECAR_NAME, *(item.file for item in record.values())}
            for path in folder.iterdir():
                if path.name not in kept:
                    path.unlink(missing_ok=True)
            return LoadedPlans(folder, sidecar, sha256_of(content), dict(plans))

    def remove(self, key: PlanKey) -> None:
        """Throws a set away, if it is there."""
        folder = self.folder(key)
        if folder.exists():
            with self._lock(folder.name):
                (folder / SIDECAR_NAME).unlink(missing_ok=True)
                for path in folder.iterdir():
                    path.unlink()
                _remove_folder(folder)

    def timing_cache(self, key: PlanKey) -> bytes:
        """Returns what earlier builds of this user learned on this GPU, or nothing."""
        file = self._timing_file(key)
        try:
            _refuse_strangers(self.root, file.name)
            return file.read_bytes()
        except (OSError, EngineIntegrityError):
            return b""

    def keep_timing_cache(self, key: PlanKey, data: bytes) -> None:
        """Keeps it for the next build; that it cannot be kept is no reason to fail."""
        if data:
            self._make(self.root)
            with contextlib.suppress(SaveError):
                save_bytes(self._timing_file(key), data, mode=0o600)

    def _timing_file(self, key: PlanKey) -> Path:
        text = f"{key.tensorrt} {key.gpu} {key.compute_capability} {key.module}"
        return self.root / f"timing-{hashlib.sha256(text.encode()).hexdigest()[:16]}.cache"

    def _others(self, bundle: str) -> list[Sidecar]:
        found = []
        for path in sorted(self.root.glob(f"*/{SIDECAR_NAME}")):
            with contextlib.suppress(EngineIntegrityError):
                data = read_inside(path.parent, SIDECAR_NAME, MAX_SIDECAR_NBYTES)
                found.append(parse_sidecar(data, path))
        return found

    @contextmanager
    def _lock(self, name: str) -> Iterator[None]:
        self._refuse_others_folder(self.root)
        try:
            with filelock.FileLock(self.root / f".{name}.lock", timeout=_READ_WAIT_S):
                yield
        except filelock.Timeout as error:
            raise EngineError(
                f"{self.root / name}: another process has held it for {_READ_WAIT_S:g} s. Try again."
            ) from error

    def _make(self, folder: Path) -> None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise EngineError(
                f"{folder}: cannot be made ({error.strerror}). Set {PLANS_VARIABLE} to a folder of yours."
            ) from error
        self._refuse_others_folder(folder)

    @staticmethod
    def _refuse_others_folder(folder: Path) -> None:
        """In a folder of somebody else (root in a user's cache, say) links may wait for what is written."""
        if not hasattr(os, "getuid"):
            return
        owner = folder.stat().st_uid if folder.is_dir() else os.getuid()
        if owner != os.getuid():
            raise EngineError(
                f"{folder}: belongs to user {owner}, and this is user {os.getuid()}. Run as that user, or "
                f"set {PLANS_VARIABLE} to a folder of yours."
            )


def read_plans(folder: Path, key: PlanKey, trust_sha256: str | None = None) -> LoadedPlans:
    """Reads a set of plans for a machine.

    Arguments:
        folder: holds a sidecar and the plans it names.
        key: what this machine and bundle are.
        trust_sha256: hash of the sidecar, given by a person who trusts its origin; None for a set of this
            user's own.

    Raises:
        EngineIntegrityError: a file is missing, truncated, changed, or may have been written by others, or
            the hash is another one.
        PlanMismatchError: the set was built for something else.
    """
    path = folder / SIDECAR_NAME
    data = read_inside(folder, SIDECAR_NAME, MAX_SIDECAR_NBYTES)
    found = sha256_of(data)
    if trust_sha256 is None:
        _refuse_strangers(folder, SIDECAR_NAME)
    elif trust_sha256.strip().lower() != found:
        raise EngineIntegrityError(
            path, "SHA-256 of the record", trust_sha256, found, "These are not the plans that you trust."
        )
    sidecar = parse_sidecar(data, path)
    if sidecar.key != key:
        raise _mismatch(folder, sidecar.key, key)
    plans = {}
    for graph, item in sidecar.plans.items():
        plan = read_inside(folder, item.file, max(item.nbytes, 1))
        if trust_sha256 is None:
            _refuse_strangers(folder, item.file)
        fix = _build(key.bundle, force=True)
        if len(plan) != item.nbytes or not plan:
            raise EngineIntegrityError(
                folder / item.file, "size", f"{item.nbytes} bytes", f"{len(plan)} bytes", fix
            )
        if sha256_of(plan) != item.sha256:
            raise EngineIntegrityError(
                folder / item.file, "SHA-256", item.sha256, f"{sha256_of(plan)} (changed on disk)", fix
            )
        plans[graph] = plan
    return LoadedPlans(folder, sidecar, found, plans)


def _mismatch(folder: Path, built: PlanKey, here: PlanKey) -> PlanMismatchError:
    """Says what a set was built for and what this machine is, in what differs."""
    differences = built.differences(here)
    return PlanMismatchError(
        folder,
        ", ".join(f"{what} {built_for}" for what, built_for, _ in differences),
        ", ".join(f"{what} {found}" for what, _, found in differences),
        _build(here.bundle),
    )


def _build(bundle: str, force: bool = False) -> str:
    return f"Run on this machine: edge-sdk engines build {bundle}{' --force' if force else ''}"


def _refuse_strangers(folder: Path, name: str) -> None:
    """A plan that others could have written is not this user's own."""
    if not hasattr(os, "getuid"):
        return
    for path in (folder, folder / name):
        facts = path.stat()
        if facts.st_uid != os.getuid() or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise EngineIntegrityError(
                path,
                "owner",
                "this user, and writable by no one else",
                f"user {facts.st_uid}, mode {stat.S_IMODE(facts.st_mode):o}",
                "A plan is code: build it here, or pass its hash with --trust-plan if you know its origin.",
            )


def _remove_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()
