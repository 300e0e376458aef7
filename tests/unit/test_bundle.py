"""Bundles on disk: found by name or path, verified whole, and refused when anything was changed."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import onnx
import pytest
from bundles import single_graph

from edge_sdk.engine.bundle import ENGINES_VARIABLE, find_bundle, list_bundles, load_bundle
from edge_sdk.engine.verify import sha256_of
from edge_sdk.errors import ConfigError, EngineIntegrityError, EngineMismatchError, ManifestError


@pytest.fixture
def fusion(toy_fusion: Path, tmp_path: Path) -> Path:
    """A copy that may be changed."""
    return Path(shutil.copytree(toy_fusion, tmp_path / "toy-fusion"))


def _replace(folder: Path, file: str, data: bytes) -> None:
    """Puts other bytes into a file and makes the manifest vouch for them."""
    old = (folder / file).read_bytes()
    (folder / file).write_bytes(data)
    manifest = folder / "bundle.toml"
    text = manifest.read_text("utf-8")
    text = text.replace(sha256_of(old), sha256_of(data))
    manifest.write_text(text.replace(f"nbytes = {len(old)}\n", f"nbytes = {len(data)}\n"), "utf-8")


def test_a_bundle_is_verified_and_has_a_hash_of_all(fusion: Path, toy_fusion: Path) -> None:
    bundle = load_bundle(fusion)
    assert bundle.name == "toy-fusion"
    assert bundle.folder == fusion.resolve()
    assert bundle.sha256 == load_bundle(str(toy_fusion)).sha256
    assert bundle.sha256 == load_bundle(fusion / "bundle.toml").sha256
    with (fusion / "bundle.toml").open("a") as stream:
        stream.write("# a comment\n")
    assert load_bundle(fusion).sha256 != bundle.sha256


@pytest.mark.parametrize("file", ["rgb.onnx", "fuse.fp32.onnx", "screen.onnx"])
def test_every_file_is_verified_at_loading(fusion: Path, file: str) -> None:
    data = bytearray((fusion / file).read_bytes())
    data[-1] ^= 1
    (fusion / file).write_bytes(bytes(data))
    with pytest.raises(EngineIntegrityError, match="SHA-256"):
        load_bundle(fusion)


def test_a_file_changed_after_loading_is_refused(fusion: Path) -> None:
    bundle = load_bundle(fusion)
    assert sha256_of(bundle.read_graph("rgb")) == bundle.manifest.graphs["rgb"].source.sha256
    (fusion / "rgb.onnx").write_bytes(b"x" * bundle.manifest.graphs["rgb"].source.nbytes)
    with pytest.raises(EngineIntegrityError, match="SHA-256"):
        bundle.read_graph("rgb")


def test_a_link_in_place_of_a_graph_is_refused(fusion: Path, toy_fusion: Path) -> None:
    (fusion / "rgb.onnx").unlink()
    (fusion / "rgb.onnx").symlink_to(toy_fusion / "rgb.onnx")
    with pytest.raises(EngineIntegrityError, match="found a link"):
        load_bundle(fusion)


def test_a_linked_manifest_is_refused(fusion: Path, toy_fusion: Path) -> None:
    (fusion / "bundle.toml").unlink()
    (fusion / "bundle.toml").symlink_to(toy_fusion / "bundle.toml")
    with pytest.raises(EngineIntegrityError, match="found a link"):
        load_bundle(fusion)


def test_an_oversize_manifest_is_refused_unread(fusion: Path) -> None:
    os.truncate(fusion / "bundle.toml", 1 << 40)
    with pytest.raises(EngineIntegrityError, match="at most 1048576 bytes"):
        load_bundle(fusion)


def test_truncated_onnx_that_the_manifest_vouches_for(fusion: Path) -> None:
    data = (fusion / "rgb.onnx").read_bytes()
    _replace(fusion, "rgb.onnx", data[: len(data) // 2])
    with pytest.raises(EngineIntegrityError, match="a whole ONNX model"):
        load_bundle(fusion)


def test_another_opset_than_stated(fusion: Path) -> None:
    model = onnx.load_from_string((fusion / "rgb.onnx").read_bytes())
    model.opset_import[0].version = 16
    _replace(fusion, "rgb.onnx", model.SerializeToString())
    with pytest.raises(
        EngineMismatchError, match=r"opset: expected 17, found 16. Correct graphs\.rgb\.opset"
    ):
        load_bundle(fusion)


def test_external_data_that_the_manifest_vouches_for(fusion: Path) -> None:
    model = single_graph("rgb", (64, 48))
    tensor = model.graph.initializer.add(name="w", data_type=1, dims=[1], data_location=1)
    entry = tensor.external_data.add()
    # ONNX Runtime reads this location as an address in its own memory.
    entry.key, entry.value = "location", "*/_ORT_MEM_ADDR_/*"
    _replace(fusion, "rgb.onnx", model.SerializeToString())
    with pytest.raises(EngineIntegrityError, match="external data"):
        load_bundle(fusion)


def test_unknown_graphs_are_refused_with_the_known_ones(toy_fusion: Path) -> None:
    with pytest.raises(ConfigError, match="no graph 'rgbt'; it has rgb, fuse, thermal, screen"):
        load_bundle(toy_fusion).read_graph("rgbt")


class TestFinding:
    """Names and paths."""

    def test_by_name_from_the_environment(
        self, fusion: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(ENGINES_VARIABLE, os.pathsep.join([str(tmp_path / "nothing"), str(tmp_path)]))
        monkeypatch.chdir("/")
        assert find_bundle("toy-fusion") == fusion
        assert list_bundles()["toy-fusion"] == fusion

    def test_the_first_folder_counts(
        self, fusion: Path, toy_fusion: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(ENGINES_VARIABLE, os.pathsep.join([str(fusion.parent), str(toy_fusion.parent)]))
        assert find_bundle("toy-fusion") == fusion

    def test_by_name_from_the_installed_package(
        self, fusion: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        package = tmp_path / "site" / "edge_sdk_engines"
        shutil.copytree(fusion, package / "toy-installed")
        (package / "__init__.py").touch()
        monkeypatch.delitem(sys.modules, "edge_sdk_engines", raising=False)
        monkeypatch.syspath_prepend(package.parent)
        monkeypatch.delenv(ENGINES_VARIABLE, raising=False)
        monkeypatch.chdir("/")
        assert find_bundle("toy-installed") == package / "toy-installed"
        monkeypatch.delitem(sys.modules, "edge_sdk_engines", raising=False)

    def test_by_relative_path(self, fusion: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(fusion.parent)
        assert find_bundle("./toy-fusion") == fusion.resolve()

    def test_an_unknown_name_says_what_there_is(self, fusion: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(ENGINES_VARIABLE, str(fusion.parent))
        with pytest.raises(ConfigError) as caught:
            find_bundle("toy-fussion")
        message = str(caught.value)
        assert "engine 'toy-fussion': no such bundle" in message
        assert f"Searched {fusion.parent}" in message
        assert "toy-fusion" in message
        assert message.endswith("Did you mean 'toy-fusion'?")

    @pytest.mark.parametrize("text", ["", "no/such/folder", "\0", "~nobody-of-this-name/x"])
    def test_what_is_nowhere_is_refused(self, text: str) -> None:
        with pytest.raises(ConfigError, match="no such bundle"):
            find_bundle(text)

    def test_a_folder_without_manifest_is_told_apart(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"a folder without bundle\.toml"):
            find_bundle(tmp_path)

    def test_a_manifest_of_another_kind_is_refused_at_loading(self, tmp_path: Path) -> None:
        (tmp_path / "bundle.toml").write_text("[tool]\nname = 'x'\n", "utf-8")
        with pytest.raises(ManifestError, match="schema"):
            load_bundle(tmp_path)
