"""One table of requirements: packaging and hints say the same, and nobody is sent to a stranger."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import setuptools

from edge_sdk.requirements import (
    CORE,
    DISTRIBUTION,
    EXTRAS,
    hint_for,
    install_command,
    install_hint,
    libraries,
    lowest,
    name_of,
)

ROOT = Path(__file__).resolve().parents[2]
STRANGER = re.compile(r"(?:install|download)\b[^\n]*[\s'\"]edge[-_]sdk(?![-_\w])(?:\[|['\"\s=<>~]|$)")
"""pip commands that name the package of somebody else."""


@pytest.fixture(scope="module")
def packaging() -> dict[str, Any]:
    """What setup.py hands to setuptools."""
    given: dict[str, Any] = {}
    patch = pytest.MonkeyPatch()
    patch.setattr(setuptools, "setup", given.update)
    patch.chdir(ROOT)
    try:
        runpy.run_path(str(ROOT / "setup.py"))
    finally:
        patch.undo()
    return given


def test_setup_says_what_the_hints_say(packaging: dict[str, Any]) -> None:
    assert packaging["name"] == DISTRIBUTION == "edge-sdk-rgbt"
    assert tuple(packaging["install_requires"]) == CORE
    for extra, wanted in EXTRAS.items():
        assert tuple(packaging["extras_require"][extra]) == wanted
    assert set(packaging["extras_require"]) == {*EXTRAS, "train", "test"}
    assert packaging["entry_points"]["console_scripts"] == ["edge-sdk=edge_sdk.cli.main:main"]


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_hint_can_be_typed_and_names_each_library(extra: str) -> None:
    words = shlex.split(install_command(extra))
    assert words[:2] == ["pip", "install"]
    assert tuple(words[2:]) == libraries(extra)
    assert not set(words) & {">", "<", ";"}
    assert install_hint(extra).endswith(f"(in a checkout of this project: pip install '.[{extra}]')")


def test_hints_for_single_libraries() -> None:
    assert hint_for("onnxruntime") == "pip install 'onnxruntime>=1.20'"
    assert install_command("camera", "cptv") == "pip install 'cptv>=1.5.5'"
    with pytest.raises(KeyError):
        hint_for("edge-sdk")


def test_python_3_10_is_jetpack_6_and_gets_the_bindings_of_cuda_12() -> None:
    assert "cuda-bindings>=12.8,<13" in libraries("jetson", minor=10)
    assert "cuda-bindings>=12.8" in libraries("jetson", minor=12)
    assert [name_of(text) for text in libraries("jetson", minor=10)].count("cuda-bindings") == 1
    assert lowest("cuda-bindings>=12.8,<13") == "12.8"


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("needs a git checkout")
    return [path for name in listed.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


def test_nothing_here_advises_the_package_of_a_stranger() -> None:
    """`edge-sdk` on the public index is another project; ours is nowhere on it."""
    kinds = (".py", ".md", ".toml", ".yaml", ".service", ".js", ".html", "")
    texts = [path for path in tracked() if path.suffix in kinds and path != Path(__file__).resolve()]
    assert len(texts) > 200
    for path in texts:
        text = path.read_bytes().decode("utf-8", errors="replace")
        assert "edge-sdk[" not in text, path
        assert not STRANGER.search(text), path


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        ("pip install edge-sdk[cpu]", True),
        ("pip install 'edge-sdk'", True),
        ("pip install edge_sdk", True),
        ("pip install --upgrade edge-sdk>=1", True),
        ("pip install '.[cpu]'", False),
        ("pip install edge-sdk-rgbt", False),
        ("install edge_sdk_engines", False),
        ("RUN pip install /opt/edge-sdk/dist/x.whl", False),
    ],
)
def test_the_search_finds_what_it_should(line: str, bad: bool) -> None:
    assert bool(STRANGER.search(line)) is bad
