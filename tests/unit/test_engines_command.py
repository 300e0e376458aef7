"""`edge-sdk engines`: list, show, verify and new."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from bundles import save_model, single_graph
from typer.testing import CliRunner

from edge_sdk.cli.engines import app
from edge_sdk.engine.bundle import ENGINES_VARIABLE, load_bundle
from edge_sdk.errors import ConfigError, EngineIntegrityError

WIDE = {"COLUMNS": "220"}


def call(*arguments: str) -> str:
    """Runs the command; errors of ours come through."""
    result = CliRunner().invoke(app, list(arguments), env=WIDE, catch_exceptions=False)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_list_names_sound_and_broken_bundles(
    toy_fusion: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(toy_fusion, tmp_path / "toy-broken")
    (tmp_path / "toy-broken" / "rgb.onnx").write_bytes(b"x")
    shutil.copytree(toy_fusion, tmp_path / "toy-sound")
    monkeypatch.setenv(ENGINES_VARIABLE, str(tmp_path))
    output = call("list")
    assert "toy-sound" in output
    assert "verified" in output
    assert "toy-broken" in output
    assert "size: expected" in output


def test_list_says_when_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(ENGINES_VARIABLE, str(tmp_path))
    monkeypatch.setattr("edge_sdk.engine.bundle._INSTALLED_PACKAGE", "no_such_package")
    assert f"name their folder in {ENGINES_VARIABLE}" in call("list")


def test_a_file_that_cannot_be_written_is_told_first(toy_fusion: Path, tmp_path: Path) -> None:
    for command in ("show", "verify"):
        with pytest.raises(ConfigError, match="cannot be written"):
            call(command, str(toy_fusion), "--json", str(tmp_path))


def test_show_tells_everything(toy_fusion: Path, tmp_path: Path) -> None:
    file = tmp_path / "shown.json"
    output = call("show", str(toy_fusion), "--json", str(file))
    for text in ("toy-fusion", "bright", "uint8[1, 48, 64, 3]", "rgb_confidence_min", "written by hand"):
        assert text in output
    shown = json.loads(file.read_text("utf-8"))
    assert shown["sha256"] == load_bundle(toy_fusion).sha256
    assert shown["graphs"]["rgb"]["source"]["file"] == "rgb.onnx"
    assert shown["decode"]["stride"] == 8


def test_verify_runs_every_graph_in_every_precision(toy_fusion: Path, tmp_path: Path) -> None:
    file = tmp_path / "verified.json"
    output = call("verify", str(toy_fusion), "--json", str(file))
    assert "rgb.fp32.onnx" in output
    rows = json.loads(file.read_text("utf-8"))["graphs"]
    assert len(rows) == 8
    assert {row["provider"] for row in rows} == {"CPUExecutionProvider"}


def test_verify_refuses_a_changed_bundle(toy_fusion: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(toy_fusion, tmp_path / "b"))
    (folder / "fuse.onnx").write_bytes((folder / "rgb.onnx").read_bytes())
    with pytest.raises(EngineIntegrityError, match=r"fuse\.onnx"):
        call("verify", str(folder))


def test_new_makes_a_bundle_that_verifies(tmp_path: Path) -> None:
    model = save_model(single_graph("rgb", (64, 48), dtype="float32", layout="nchw"), tmp_path / "m.onnx")
    arguments = ["--onnx", str(model), "--name", "mine", "--classes", "a", "--decode", "grid"]
    folder = tmp_path / "mine"
    output = call("new", *arguments, "--out", str(folder), "--mean", "0.4,0.5,0.6", "--std", "0.2")
    assert "edge-sdk engines verify" in output
    graph = load_bundle(folder).manifest.graphs["detector"]
    assert graph.normalisations["image"].mean == (0.4, 0.5, 0.6)
    assert graph.normalisations["image"].std == (0.2,)
    assert "rgb.onnx" in call("verify", str(folder))


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [("--mean", "a", "--mean: expected numbers"), ("--output", "scores", "--output: expected NAME=MEANING")],
)
def test_new_refuses_what_it_cannot_read(tmp_path: Path, option: str, value: str, problem: str) -> None:
    arguments = ["--onnx", "m.onnx", "--name", "n", "--classes", "a", "--out", str(tmp_path / "b")]
    with pytest.raises(ConfigError, match=problem):
        call("new", *arguments, option, value)
