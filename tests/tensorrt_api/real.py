"""NVIDIA's real Python bindings over stub libraries: installs them, and reads their names in a process apart.

    python tests/tensorrt_api/real.py      # writes snapshot.json anew

The bindings are about 1 MB; the libraries they wrap are not needed to read names and are not installed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from names import BINDINGS, SNAPSHOT  # noqa: E402

Names = dict[str, dict[str, str]]

LIBRARIES = ("libnvinfer", "libnvinfer_plugin", "libnvonnxparser")


class UnreachableError(Exception):
    """The bindings cannot be had here; says why."""


def read_real(version: str, folder: Path) -> Names:
    """Returns the names of one version's real bindings.

    Raises:
        UnreachableError: no compiler, or the package cannot be installed here.
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise UnreachableError("no C compiler, which the stub libraries need")
    major = version.partition(".")[0]
    stubs, target = folder / "stubs", folder / "bindings"
    stubs.mkdir(parents=True)
    for library in LIBRARIES:
        name = f"{library}.so.{major}"
        command = [compiler, "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", str(stubs / name)]
        subprocess.run([*command, str(HERE / "stub.c")], check=True)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run(
        [*install, "--target", str(target), BINDINGS[version]],
        env={**os.environ, "NVIDIA_TENSORRT_DISABLE_INTERNAL_PIP": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["pip gave no reason"]
        raise UnreachableError(f"{BINDINGS[version]} cannot be installed: {lines[-1]}")
    read = subprocess.run(
        [sys.executable, str(HERE / "names.py"), str(target), str(stubs)],
        capture_output=True,
        text=True,
        check=False,
    )
    if read.returncode:
        raise UnreachableError(f"{BINDINGS[version]} does not import: {read.stderr.strip().splitlines()[-1]}")
    names: Names = json.loads(read.stdout)
    return names


def main() -> None:
    """Writes the snapshot, one class a line, so that a change reads well in a diff."""
    lines = []
    for version in BINDINGS:
        with tempfile.TemporaryDirectory() as folder:
            names = read_real(version, Path(folder))
        classes = [f"  {json.dumps(name)}: {json.dumps(members)}" for name, members in names.items()]
        lines.append(f" {json.dumps(version)}: {{\n" + ",\n".join(classes) + "\n }")
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    SNAPSHOT.write_text(re.sub(r"[ \t]+\n", "\n", text), encoding="utf-8")


if __name__ == "__main__":
    main()
