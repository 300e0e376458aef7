"""The headless service: killed at any time its records are whole; systemd hears what it must."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import test_rtsp as rtsp
from frames_on_disk import write_pairs
from live_runs import eventually
from pairs import make_pair

from edge_sdk.clock import FakeClock
from edge_sdk.pipeline import load
from edge_sdk.recording import Recording, RecordingPlan
from edge_sdk.recording.layout import RecordedPair
from edge_sdk.runs import open_recording, run_source
from edge_sdk.sources import MemorySource

SERVICE = Path(__file__).parents[2] / "apps" / "service"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "site", keys=[str(index) for index in range(16)])


@contextmanager
def service(
    site: Path, engine: Path, state: Path, *options: str
) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """Runs the service under a fake service manager; yields the process and what the manager has heard."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        address = state.parent / f"notify-{state.name}"
        address.unlink(missing_ok=True)
        channel.bind(str(address))
        channel.setblocking(False)
        messages: list[str] = []

        def heard() -> list[str]:
            while True:
                try:
                    messages.append(channel.recv(4096).decode())
                except BlockingIOError:
                    return messages

        environment = {
            **os.environ,
            "PYTHONPATH": str(SERVICE.parents[1]),
            "NOTIFY_SOCKET": str(address),
            "WATCHDOG_USEC": "400000",
        }
        program = subprocess.Popen(
            [
                sys.executable, "-u", "-W", "error", str(SERVICE / "edge_service.py"), "--state", str(state),
                "--source", f"pairs:{site}?unit=centikelvin", "--engine", str(engine), "--device", "cpu",
                "--pace-hz", "50", *options,
            ],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            yield program, heard
        finally:
            if program.poll() is None:
                program.kill()
            program.communicate()


def recorded(state: Path) -> list[list[int]]:
    """Sequence numbers of what can be read, a list a file."""
    found = []
    for path in sorted((state / "recordings").glob("*.mcap")):
        recording = Recording(path)
        found.append([entry.sequence for entry in recording if isinstance(entry, RecordedPair)])
        recording.close()
    return found


def test_it_survives_kill_9_with_its_records_intact(site: Path, toy_fusion: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    for start in range(2):
        with service(site, toy_fusion, state) as (program, heard):
            assert eventually(lambda heard=heard: len([m for m in heard() if m == "WATCHDOG=1"]) >= 20, 60)
            program.send_signal(signal.SIGKILL)
            program.wait()
        runs = recorded(state)
        assert len(runs) == start + 1, "each start has its own recording"
        assert len(runs[-1]) >= 50, "at most about the last second is lost"
        assert runs[-1] == list(range(1, len(runs[-1]) + 1))
        lines = (state / "findings.jsonl").read_text().splitlines()
        findings = [json.loads(line) for line in lines]
        assert {"hot"} <= {finding["class"] for finding in findings}
        assert all(finding["heat"]["unit"] == "K" for finding in findings)
        with (state / "findings.jsonl").open("a") as file:
            file.write('{"time": "half a li')  # as a kill in the middle of a write leaves it
    with service(site, toy_fusion, state, "--frames", "20") as (program, heard):
        assert program.wait(60) == 0
    for line in (state / "findings.jsonl").read_text().splitlines():
        json.loads(line)
    names = [path.name for path in sorted((state / "recordings").iterdir())]
    assert names == ["run-000.mcap", "run-001.mcap", "run-002.mcap"], "one ring over all starts"
    assert recorded(state)[-1] == list(range(1, 21))


def test_a_crash_loop_removes_no_recording_of_a_start_that_went_well(
    site: Path, toy_fusion: Path, tmp_path: Path
) -> None:
    """Killed before the first pair, and soon after it."""
    ring = tmp_path / "state" / "recordings"
    source = MemorySource([make_pair(number) for number in range(20)])
    plan = RecordingPlan(ring / "run.mcap", limit_mib=4, when_full="ring")
    clock = FakeClock(step_ns=1_000_000_000)
    with (
        load(str(toy_fusion), device="cpu", threads=1) as detector,
        open_recording(detector, source, plan, clock=clock) as recording,
    ):
        run_source(detector, source, observers=[recording])
    (good,) = ring.iterdir()
    content = good.read_bytes()
    for sign in ("", "WATCHDOG=1"):
        before = len(list(ring.iterdir()))
        with service(site, toy_fusion, tmp_path / "state", "--limit-mib", "4") as (program, heard):
            if sign:
                assert eventually(lambda heard=heard, sign=sign: sign in heard(), 60)
            else:
                assert eventually(lambda before=before: len(list(ring.iterdir())) > before, 60)
            program.send_signal(signal.SIGKILL)
            program.wait()
    assert len(list(ring.iterdir())) == 3
    assert good.read_bytes() == content


@rtsp.pytestmark
def test_live_cameras_are_watched_and_a_signal_ends_it_while_one_is_silent(
    toy_fusion: Path, tmp_path: Path
) -> None:
    server = rtsp.Server()
    try:
        uri = f"{server.uri}?timeout_ms=800"
        with service(tmp_path, toy_fusion, tmp_path / "state", "--source", uri) as (program, heard):
            assert eventually(lambda: heard().count("WATCHDOG=1") >= 3, 60)
            server.kill()
            (numbers,) = recorded(tmp_path / "state")
            program.send_signal(signal.SIGTERM)
            assert program.wait(10) == 0, "it does not wait for a frame that will not come"
            out, err = program.communicate()
    finally:
        server.kill()
    assert "pairs answered" in out
    assert "Traceback" not in err
    (numbers,) = recorded(tmp_path / "state")
    assert len(numbers) >= 3


def test_findings_survive_a_full_disk(
    toy_fusion: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(SERVICE))
    import edge_service

    path, room, write = tmp_path / "findings.jsonl", [400], os.write

    def scarce(descriptor: int, data: bytes) -> int:
        taken = min(len(data), room[0])
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        room[0] -= taken
        return write(descriptor, data[:taken])

    monkeypatch.setattr(edge_service, "MOST_WAITING", 5)
    findings = edge_service.Findings(path)
    with load(str(toy_fusion), device="cpu", threads=1) as detector:
        pair = make_pair(0, hot=True)
        result = detector(pair)
        each = len(result.detections)
        assert each
        monkeypatch.setattr(os, "write", scarce)
        for _ in range(10):
            findings.answered(pair, result)
        kept = path.read_text().splitlines()
        assert all(json.loads(line) for line in kept), "whole lines alone"
        assert findings.lost == 10 * each - len(kept) - 5 > 0
        assert "No space left" in str(findings)
        room[0] = 1 << 20
        findings.answered(pair, result)
        assert len(path.read_text().splitlines()) == len(kept) + 5 + each
        assert str(findings) == f"{findings.lost} findings lost"
    findings.close()


def test_systemd_hears_that_it_is_up_alive_and_stopping(site: Path, toy_fusion: Path, tmp_path: Path) -> None:
    with service(site, toy_fusion, tmp_path / "state") as (program, heard):
        assert eventually(lambda: heard().count("WATCHDOG=1") >= 3, 60)
        program.send_signal(signal.SIGTERM)
        assert program.wait(60) == 0
        messages = heard()
    assert messages[0].startswith("READY=1\nSTATUS=watching pairs:")
    assert any(message.startswith("STATUS=fuse") or message.startswith("STATUS=rgb") for message in messages)
    assert messages[-1] == "STOPPING=1"


def test_the_unit_restarts_watches_and_writes_nowhere_else() -> None:
    unit = (SERVICE / "edge-sdk.service").read_text().splitlines()
    for line in (
        "Type=notify", "Restart=always", "WatchdogSec=10", "ProtectSystem=strict", "StateDirectory=edge-sdk",
        "NoNewPrivileges=true",
    ):  # fmt: skip
        assert line in unit


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_is_one_that_systemd_understands(tmp_path: Path) -> None:
    text = (SERVICE / "edge-sdk.service").read_text()
    script = str(SERVICE / "edge_service.py")
    text = text.replace("/usr/bin/python3", sys.executable).replace(
        "/opt/edge-sdk/apps/service/edge_service.py", script
    )
    unit = tmp_path / "edge-sdk.service"
    unit.write_text(text.replace("/var/lib/edge-sdk", str(tmp_path)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    complaints = [line for line in (done.stdout + done.stderr).splitlines() if "edge-sdk.service" in line]
    assert complaints == []
