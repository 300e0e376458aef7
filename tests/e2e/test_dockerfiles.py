"""The Dockerfiles, as far as they can be tried without a container engine: read, held against the repository,
and for x86-64 the steps of pip run in an environment of their own."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from edge_sdk.requirements import EXTRAS, hint_for, lowest

dockerfile_parse = pytest.importorskip("dockerfile_parse", reason="needs the package dockerfile-parse")

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "docker").glob("Dockerfile.*"))
FRESH = "EDGE_SDK_FRESH_INSTALL"


def steps(path: Path) -> list[tuple[str, str]]:
    parser: Any = dockerfile_parse.DockerfileParser(fileobj=BytesIO(path.read_bytes()))
    return [
        (step["instruction"], step["value"]) for step in parser.structure if step["instruction"] != "COMMENT"
    ]


def values(path: Path, instruction: str) -> list[str]:
    return [value for name, value in steps(path) if name == instruction]


def test_there_are_three() -> None:
    assert [path.suffix for path in FILES] == [".jetpack6", ".jetpack7", ".x86"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_is_well_formed_and_starts_doctor(path: Path) -> None:
    names = [name for name, _ in steps(path)]
    assert set(names) <= {"ARG", "FROM", "RUN", "COPY", "USER", "WORKDIR", "ENV", "ENTRYPOINT", "CMD"}
    assert names.count("FROM") == 1
    assert set(names[: names.index("FROM")]) <= {"ARG"}
    assert json.loads(values(path, "ENTRYPOINT")[0]) == ["edge-sdk"]
    assert json.loads(values(path, "CMD")[0]) == ["doctor"]
    assert values(path, "ENV") == ["PATH=/opt/edge/bin:$PATH"]
    for value in values(path, "COPY"):
        assert (ROOT / value.split()[0]).exists()
    for value in values(path, "RUN"):
        checked = subprocess.run(["bash", "-n", "-c", value], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_installs_extras_that_are_there_in_versions_that_are_allowed(path: Path) -> None:
    (line,) = [value for value in values(path, "RUN") if " pip install " in value]
    words = shlex.split(line)
    (project,) = [word for word in words if word.startswith("/src[")]
    extras = set(project.removeprefix("/src[").removesuffix("]").split(","))
    assert extras <= set(EXTRAS)
    assert not {"cpu", "gpu"} <= extras
    for word in words:
        found = re.fullmatch(r"([a-z-]+)>=([\d.]+)", word)
        if found:
            of = found[1].removesuffix("-headless")
            assert lowest(hint_for(of).split("'")[1]) == found[2], word
    if ".jetpack" in path.name:
        assert "jetson" in extras
        assert any(word.startswith("onnxruntime>=") for word in words), "plans are checked with it"
        assert "--system-site-packages" in path.read_text("utf-8")  # TensorRT is the system's


def test_what_is_copied_holds_what_packaging_reads() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    for needed in ("setup.py", "pyproject.toml", "README.md", "edge_sdk", "engines", "apps", "calibration"):
        assert needed not in ignored


def test_the_pip_steps_for_x86_give_a_working_sdk(tmp_path: Path) -> None:
    """Its Python is the one at hand, and the system is this one; the image's apt step is not run."""
    if not os.environ.get(FRESH):
        pytest.skip(f"takes minutes of downloads: make test-all runs it, and {FRESH}=1 asks for it")
    foreign = ("PYTHON", "VIRTUAL_ENV")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}

    def call(*command: str | Path) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    installs = [value for value in values(ROOT / "docker" / "Dockerfile.x86", "RUN") if "/opt/edge" in value]
    assert len(installs) == 2
    for value in installs:
        line = value.replace("/opt/edge", str(tmp_path / "edge")).replace("/src", str(ROOT))
        line = re.sub(r"^python ", f"{shlex.quote(sys.executable)} ", line).replace(f"&& rm -rf {ROOT}", "")
        assert "rm -rf" not in line
        call("bash", "-c", line)
    program = tmp_path / "edge" / "bin" / "edge-sdk"
    said = call(program, "doctor").splitlines()
    assert not [line for line in said if line.startswith("fault") and "Extra" in line]
    call(program, "run", "--json", "record.json")
    assert json.loads((tmp_path / "record.json").read_text("utf-8"))
