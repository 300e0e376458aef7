"""Runs the whole check on this Python, and the tests on 3.10 and 3.12 where those are present.

    python3 tests/matrix.py

Standard library only. Ends with one line a Python that says what ran, or that it is not here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

WANTED = ("3.10", "3.12")
"""JetPack 6 and JetPack 7."""

RTSP = "gir1.2-gst-rtsp-server-1.0+python3-gi+gstreamer1.0-plugins-good"
PROGRAMS = (
    "--debian",
    "g++=g++",
    "--debian",
    f"{sysconfig.get_paths()['include']}/Python.h=python3-dev",
    "--debian",
    "chromium=chromium",
    "--debian",
    "mosquitto=mosquitto",
    "--debian",
    "haproxy=haproxy",
    "--debian",
    "openssl=openssl",
    "--debian",
    f"/usr/lib/python3/dist-packages/gi={RTSP}",
)
"""From Debian: what compiles pycuda, and what tests/browser, e2e/test_mqtt.py, e2e/test_live_proxy_tls.py
and e2e/test_rtsp.py run."""

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Returns the exit status: 0 when all that could run has passed."""
    os.chdir(ROOT)
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    report: list[tuple[str, str]] = []
    failed = False
    pythons = {
        version: sys.executable if version == here else _find(version)
        for version in dict.fromkeys((here, *WANTED))
    }
    here_now = {version: python for version, python in pythons.items() if python}
    environments = {
        version: _set_up(python, version, PROGRAMS if version == here else ())
        for version, python in here_now.items()
    }
    with ThreadPoolExecutor() as pool:  # one core a compilation
        pycuda = dict(zip(here_now, pool.map(_add_pycuda, here_now.values(), here_now), strict=True))
    for version, python in pythons.items():
        if python is None:
            report.append((version, "not on this machine: not tested"))
            continue
        start = time.monotonic()
        status = environments[version] or pycuda[version] or _check(version, whole=version == here)
        failed |= status != 0
        verdict = "passed" if status == 0 else f"FAILED (status {status})"
        report.append((version, f"{verdict} in {time.monotonic() - start:.0f} s"))
    for version, verdict in report:
        print(f"Python {version}: {verdict}")
    return int(failed)


def _set_up(python: str, version: str, programs: tuple[str, ...]) -> int:
    print(f"== environment for Python {version}", flush=True)
    setup = [python, "tests/setup_venv.py", f".venv-{version}", *programs, "-e", ".[test]"]
    return subprocess.run(setup, check=False).returncode


def _add_pycuda(python: str, version: str) -> int:
    start = time.monotonic()
    status = subprocess.run(
        [python, "tests/setup_venv.py", f".venv-{version}", "--pycuda", "--tensorrt-rtx"], check=False
    ).returncode
    print(f"pycuda for Python {version}: status {status} in {time.monotonic() - start:.0f} s", flush=True)
    return status


def _check(version: str, whole: bool) -> int:
    print(f"== Python {version}", flush=True)
    tools = Path(f".venv-{version}", "bin")
    steps = [[str(tools / "python"), "-m", "pytest", "-q"]]
    if whole:
        steps = [
            [str(tools / "ruff"), "format", "--check", "."],
            [str(tools / "ruff"), "check", "."],
            [str(tools / "mypy")],
            *steps,
        ]
    for step in steps:
        print("-- " + " ".join(step), flush=True)
        if status := subprocess.run(step, check=False).returncode:
            return status
    return 0


def _find(version: str) -> str | None:
    """Looks on PATH and among pyenv's versions for an interpreter that really starts."""
    candidates = [shutil.which(f"python{version}")]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates += [str(path) for path in sorted(pyenv.glob(f"{version}.*/bin/python{version}"))]
    for candidate in candidates:
        if candidate is None:
            continue
        probe = subprocess.run(
            [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            check=False,
            capture_output=True,
            text=True,
        )
        if probe.returncode == 0 and probe.stdout.strip() == version:
            return candidate
    return None


if __name__ == "__main__":
    sys.exit(main())
