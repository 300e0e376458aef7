"""What the README says is run as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"


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
    done = subprocess.run(
        [sys.executable, "-m", "edge_sdk.cli.main", *command.split(), "--help"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "Usage:" in done.stdout


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
