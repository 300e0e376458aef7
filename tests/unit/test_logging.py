"""The SDK's own messages: under `edge_sdk`, at INFO, silent unless asked for, and without secrets."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from frames_on_disk import write_pairs

import edge_sdk
from edge_sdk.recording.writer import SegmentedFile
from edge_sdk.sources import opening
from edge_sdk.sources.cameras.pair_address import take_apart


def test_the_device_taken_and_those_not_taken_are_said(
    toy_fusion: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "edge_sdk"), edge_sdk.load(str(toy_fusion)):
        pass
    said = [record.getMessage() for record in caplog.records if record.name == "edge_sdk.devices.choose"]
    assert said[0].startswith("toy-fusion runs on cpu (CPUExecutionProvider, ")
    assert [line.split(" was not taken: ")[0] for line in said[1:]] == ["tensorrt", "cuda"]
    assert {record.levelno for record in caplog.records} <= {logging.INFO, logging.WARNING}


def test_a_source_and_a_recording_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_pairs(tmp_path / "site")
    with caplog.at_level(logging.INFO, "edge_sdk"):
        edge_sdk.open_source(f"pairs:{tmp_path}/site").close()
        SegmentedFile(tmp_path / "run.mcap", {}, limit_bytes=1 << 24, ring=False).close()
    assert caplog.messages == [f"opened pairs:{tmp_path}/site", f"recording to {tmp_path}/run.mcap"]


def test_no_password_of_a_camera_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def camera(uri: str, **_: object) -> SimpleNamespace:
        return SimpleNamespace(uri=take_apart(uri)[1].text)

    monkeypatch.setattr(opening, "CameraSource", camera)
    with caplog.at_level(logging.DEBUG, "edge_sdk"):
        edge_sdk.open_source("camera:?rgb=rtsp://user:hush@host/a&thermal=rtsp://user:hush@host/b")
    assert caplog.messages == ["opened camera:?rgb=rtsp://user:***@host/a&thermal=rtsp://user:***@host/b"]


@pytest.mark.parametrize(("options", "seen"), [(["--log", "info"], True), ([], False)])
def test_the_command_line_shows_them_when_asked(
    toy_single: Path, tmp_path: Path, options: list[str], seen: bool
) -> None:
    write_pairs(tmp_path / "site")
    run = ["run", "--engine", str(toy_single), "--source", f"pairs:{tmp_path}/site"]
    done = subprocess.run(
        [sys.executable, "-m", "edge_sdk.cli.main", *options, *run],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert ("INFO edge_sdk.sources.opening: opened pairs:" in done.stderr) is seen


def test_a_level_that_is_none_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "edge_sdk.cli.main", "--log", "loud", "doctor"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "--log loud: expected error, warning, info, debug" in done.stderr
