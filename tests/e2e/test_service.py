"""The headless service: killed at any time its records are whole; systemd hears what it must."""

from __future__ import annotations

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
from frames_on_disk import write_pairs
from live_runs import eventually

from edge_sdk.recording import Recording
from edge_sdk.recording.layout import RecordedPair

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
    for path in sorted((state / "recordings").glob("*/*.mcap")):
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
    with service(site, toy_fusion, state, "--frames", "20", "--keep", "2") as (program, heard):
        assert program.wait(60) == 0
    for line in (state / "findings.jsonl").read_text().splitlines():
        json.loads(line)
    assert len(list((state / "recordings").iterdir())) == 2, "the oldest start's recordings are removed"
    assert recorded(state)[-1] == list(range(1, 21))


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
