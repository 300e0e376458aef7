"""Reading a bundle's files: what is refused before any byte of it is used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edge_sdk.engine.manifest import GraphFile
from edge_sdk.engine.verify import read_inside, read_verified, sha256_of
from edge_sdk.errors import EngineIntegrityError

DATA = b"twelve bytes"
ITEM = GraphFile("a.onnx", sha256_of(DATA), len(DATA))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one sound file, and a secret beside it."""
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "a.onnx").write_bytes(DATA)
    (tmp_path / "secret").write_bytes(DATA)
    return tmp_path / "bundle"


def test_sound_bytes_are_returned(folder: Path) -> None:
    assert read_verified(folder, ITEM) == DATA


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"twelve bytez", "SHA-256"), (b"twelve", "size"), (b"twelve bytes and more", "size"), (b"", "size")],
)
def test_changed_bytes_are_refused(folder: Path, content: bytes, what: str) -> None:
    (folder / "a.onnx").write_bytes(content)
    with pytest.raises(
        EngineIntegrityError, match=rf"a\.onnx: {what}: expected .*install or copy it again"
    ) as caught:
        read_verified(folder, ITEM)
    assert caught.value.path == folder / "a.onnx"
    assert caught.value.expected != caught.value.found


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "a.onnx").unlink()
    with pytest.raises(EngineIntegrityError, match=r"a\.onnx: file: expected present, found missing"):
        read_verified(folder, ITEM)


def test_an_oversize_file_is_refused_unread(folder: Path) -> None:
    os.truncate(folder / "a.onnx", 1 << 40)  # sparse: takes no disk, and reading it would take all memory
    with pytest.raises(EngineIntegrityError, match="at most 12 bytes, found 1099511627776 bytes"):
        read_verified(folder, ITEM)


@pytest.mark.parametrize("file", ["/etc/hostname", "../secret", "sub/../../secret", "", ".."])
def test_paths_out_of_the_folder_are_refused(folder: Path, file: str) -> None:
    with pytest.raises(EngineIntegrityError, match="inside the bundle's folder"):
        read_inside(folder, file, 100)


def test_a_link_is_refused_even_to_sound_bytes(folder: Path) -> None:
    (folder / "a.onnx").unlink()
    (folder / "a.onnx").symlink_to(folder.parent / "secret")
    with pytest.raises(EngineIntegrityError, match="expected a regular file, found a link"):
        read_verified(folder, ITEM)


def test_a_linked_folder_below_is_refused(folder: Path) -> None:
    (folder / "sub").symlink_to(folder.parent)
    with pytest.raises(
        EngineIntegrityError, match=r"sub: kind of file: expected a regular file, found a link"
    ):
        read_inside(folder, "sub/secret", 100)


def test_the_folder_itself_may_be_reached_through_a_link(folder: Path) -> None:
    (folder.parent / "link").symlink_to(folder)
    assert read_verified(folder.parent / "link", ITEM) == DATA


def test_a_named_pipe_is_refused_without_waiting(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(EngineIntegrityError, match="expected a regular file, found something else"):
        read_inside(folder, "pipe", 100)


def test_a_folder_is_no_file(folder: Path) -> None:
    (folder / "sub").mkdir()
    with pytest.raises(EngineIntegrityError, match="sub: "):
        read_inside(folder, "sub", 100)
