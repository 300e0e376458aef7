"""What the README says is run as it stands there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from bundles import model_giving, yolo
from frames_on_disk import write_pairs
from typer.testing import CliRunner

from edge_sdk.cli.main import app
from edge_sdk.requirements import EXTRAS
from edge_sdk.sla import parse_sla

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"

NOT_RUN = {
    r"make ": "this test is part of `make test`, and `make demo` takes its minutes",
    r"pip install |PATH=\S+ pip install ": "changes the environment; test_install.py tries packaging",
    r"sudo |/usr/bin/python3 -m venv": "root, or the system of a Jetson",
    r"CUDA": "not a command: settings of pycuda",
    r"docker ": "a container engine",
    r"edge-sdk run --serve --behind-proxy": "a reverse proxy; unit/test_live_proxy.py is behind one",
    r"edge-sdk bench buffers": "an NVIDIA GPU; unit/test_bench_buffers.py runs it on the emulated driver",
    r"edge-sdk engines build": "an NVIDIA GPU; unit/test_plans.py builds on a double of TensorRT",
    r"edge-sdk run --device tensorrt": "an NVIDIA GPU; unit/test_tensorrt_detector.py runs one",
    r"edge-sdk run --rgb": "two cameras; e2e/test_rtsp.py and unit/test_cameras_* have some",
    r"edge-sdk run --mqtt": "a broker of that name; e2e/test_mqtt.py has one",
    r"edge-sdk bench --json": "minutes; unit/test_bench.py measures a little",
    r"edge-sdk bench meter": "minutes; unit/test_bench_meter.py simulates a little",
    r"edge-sdk (engines list|power read|machine show) \| ": "a summary of commands, not one",
    r"edge-sdk machine show --root": "the card of another machine; unit/test_machine_reader.py has trees",
    r"edge-sdk machine prepare": "a Jetson; unit/test_machine_prepare.py has tools of one",
}
"""Start of a line to what it would need. Everything else is run."""

STATUSES = {"edge-sdk sla": (0, 1, 2), "edge-sdk compare": (0, 1, 2)}
"""Start of a line to the exit statuses that are answers. All others must end with 0."""

ENDLESS = "--loop 0"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_embedding_example_has_ten_lines_and_runs_from_any_folder(tmp_path: Path) -> None:
    (example,) = blocks("python")
    assert len([line for line in example.splitlines() if line.strip()]) <= 10

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    frames = [line for line in lines if line.split(" ")[0] in ("rgb", "fuse", "thermal")]
    assert len(frames) == 150
    assert {line.split(" ")[0] for line in frames} == {"rgb", "fuse", "thermal"}
    assert all(line.endswith(" ms") for line in frames)
    assert any(line.startswith("150 frames on ") for line in lines)


def paragraphs() -> list[tuple[str, ...]]:
    """The indented blocks outside of fences, a tuple of lines each."""
    found: list[tuple[str, ...]] = []
    lines: list[str] = []
    fenced = False
    for line in [*README.read_text(encoding="utf-8").splitlines(), ""]:
        fenced ^= line.startswith("```")
        if line.startswith("    ") and not fenced:
            lines.append(line[4:])
        elif lines:
            found.append(tuple(lines))
            lines = []
    return found


def reason(line: str) -> str:
    """Why a line is not run here, or ""."""
    return next((why for start, why in NOT_RUN.items() if re.match(start, line)), "")


SLA_FILES = [lines for lines in paragraphs() if lines[0].startswith("name: ")]
SCRIPTS = [lines for lines in paragraphs() if lines not in SLA_FILES]
RUN = [lines for lines in SCRIPTS if not all(map(reason, lines))]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a reader has: frames, a detector, the repository's apps, and the results of an earlier run."""
    folder = tmp_path_factory.mktemp("desk")
    write_pairs(folder / "DIR", thermal="ir16")
    write_pairs(folder / "my-pairs")
    model_giving(folder, p=yolo()).rename(folder / "detector.onnx")
    (folder / "apps").symlink_to(ROOT / "apps")
    (folder / "bin").mkdir()
    program = folder / "bin" / "edge-sdk"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m edge_sdk.cli.main "$@"\n', "utf-8")
    program.chmod(0o755)
    said = sh("edge-sdk run --source pairs:my-pairs --json record.json --record run.mcap", folder)
    assert said.returncode == 0, said.stderr
    for name in ("A", "B", "before", "after"):
        shutil.copy(folder / "record.json", folder / f"{name}.json")
    return folder


def sh(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, env=reader(folder), capture_output=True, text=True, check=False
    )


def reader(folder: Path) -> dict[str, str]:
    path = os.pathsep.join((str(folder / "bin"), os.environ["PATH"]))
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache")}


@pytest.mark.parametrize("lines", RUN, ids=lambda lines: lines[0].split("#")[0].strip())
def test_its_lines_do_what_they_say(lines: tuple[str, ...], desk: Path, tmp_path: Path) -> None:
    folder = tmp_path / "desk"
    shutil.copytree(desk, folder, symlinks=True)
    if any("--record run.mcap" in line for line in lines):
        (folder / "run.mcap").unlink()
    for line in lines:
        if reason(line):
            continue
        if ENDLESS in line:
            serve_and_stop(line, folder)
            continue
        done = sh(line, folder)
        allowed = next((statuses for start, statuses in STATUSES.items() if line.startswith(start)), (0,))
        assert done.returncode in allowed, f"{line}\n{done.stdout}\n{done.stderr}"
        for name in re.findall(r"--(?:json|markdown|report|junit|frames-json|record|out) (\S+)", line):
            assert (folder / name).exists(), line


def serve_and_stop(line: str, folder: Path) -> None:
    """Starts a run that has no end, waits until it says where its page is, and ends it as a person does."""
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 8080)) == 0:
            pytest.skip("needs port 8080 of this machine, where somebody listens")
    command = ["bash", "-c", f"exec {line}"]
    with subprocess.Popen(
        command, cwd=folder, env=reader(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as child:
        assert child.stdout is not None
        said = []
        for text in child.stdout:
            said.append(text)
            if "http://127.0.0.1:8080" in text:
                break
        child.send_signal(signal.SIGINT)
        said.append(child.communicate(timeout=60)[0])
    assert child.returncode in (0, 128 + signal.SIGINT), "".join(said)
    assert "Traceback" not in "".join(said)


def test_what_is_not_run_has_a_reason_that_is_in_use() -> None:
    assert len(RUN) >= 6
    lines = [line for script in SCRIPTS for line in script]
    for start in NOT_RUN:
        assert start == "docker " or any(re.match(start, line) for line in lines), start


def test_installs_name_extras_that_are_there() -> None:
    named = re.findall(r"'\.\[([\w,]+)\]'", README.read_text(encoding="utf-8"))
    assert len(named) >= 5
    for extras in named:
        assert set(extras.split(",")) <= {*EXTRAS, "train", "test"}


@pytest.mark.parametrize("lines", SLA_FILES, ids=lambda lines: lines[0])
def test_its_sla_files_can_be_read(lines: tuple[str, ...]) -> None:
    assert parse_sla("\n".join(lines)).name == yaml.safe_load(lines[0])["name"]


def commands() -> list[str]:
    text = README.read_text(encoding="utf-8")
    found = re.findall(r"^    edge-sdk (.+)$", text, flags=re.MULTILINE)
    names = []
    for line in found:
        words = line.split()
        group = words[0]
        if group in ("sla", "engines", "machine", "power"):
            names += [
                f"{group} {choice}"
                for choice in re.findall(
                    r"\b(check|judge|list|show|verify|new|prepare|restore|read|log|replay)\b", line
                )
            ]
        elif group == "bench" and not words[1].startswith("-"):
            names.append(f"{group} {words[1]}")
        else:
            names.append(group)
    return sorted(set(names))


@pytest.mark.parametrize("command", commands())
def test_each_command_it_names_is_there(command: str) -> None:
    done = CliRunner().invoke(app, [*command.split(), "--help"])

    assert done.exit_code == 0, done.output
    assert "Usage:" in done.output


def test_it_names_commands() -> None:
    assert {
        "run",
        "doctor",
        "bench",
        "compare",
        "sla check",
        "sla judge",
        "engines new",
        "machine prepare",
        "power read",
        "power log",
        "power replay",
        "bench meter",
    } <= set(commands())


def test_the_files_it_shows_are_in_the_repository() -> None:
    text = README.read_text(encoding="utf-8")
    shown = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
    assert shown
    for path in shown:
        assert (README.parent / path).is_file(), path
