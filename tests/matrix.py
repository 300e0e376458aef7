"""Runs the checks, and says at the end what ran, what did not, and why.

    python3 tests/matrix.py          this Python: format, lint, types and all tests
    python3 tests/matrix.py others   Python 3.10 and 3.12 where they are here, the lowest versions, aarch64

Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from lowest import pins

ROOT = Path(__file__).resolve().parent.parent
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"

OTHERS = ("3.10", "3.12")
"""JetPack 6 and JetPack 7."""

LOWEST_ON = "3.10"

RTSP = "gir1.2-gst-rtsp-server-1.0+python3-gi+gstreamer1.0-plugins-good"
PROGRAMS = (
    "g++=g++",
    f"{sysconfig.get_paths()['include']}/Python.h=python3-dev",
    "chromium=chromium",
    "mosquitto=mosquitto",
    "haproxy=haproxy",
    "openssl=openssl",
    f"/usr/lib/python3/dist-packages/gi={RTSP}",
)
"""From Debian: what compiles pycuda, and what tests/browser, e2e/test_mqtt.py, e2e/test_live_proxy_tls.py
and e2e/test_rtsp.py run."""

HERE_OPTIONS = (
    *(word for program in PROGRAMS for word in ("--debian", program)),
    "--pycuda",
    "--tensorrt-rtx",
)

SIDE_BY_SIDE = ("tests/unit", "tests/contract", "tests/recipe")
"""Rooms whose tests may share the machine with each other."""
ALONE = ("tests/e2e", "tests/browser", "tests/device")
"""Rooms whose tests watch processes, browsers and times."""
AARCH64 = ROOT / "tests" / "aarch64"

STAMPED = (
    "setup.py",
    "pyproject.toml",
    "edge_sdk/requirements.py",
    "tests/setup_venv.py",
    "tests/pycuda_wheel.py",
)
"""What an environment is made from."""


@dataclass
class Outcome:
    """What one environment has shown.

    Attributes:
        name: of the environment, for people.
        failures: steps that failed.
        passed, failed: numbers of tests.
        skipped: reason to the number of tests.
        note: why nothing ran, or "".
    """

    name: str
    failures: list[str] = field(default_factory=list)
    passed: int = 0
    failed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    note: str = ""

    def lines(self) -> Iterator[str]:
        """A line for the environment, and one a reason for skipping."""
        if self.note:
            yield f"{self.name}: {self.note}"
            return
        verdict = f"FAILED: {', '.join(self.failures)}" if self.failures else "passed"
        counts = f"{self.passed} passed, {self.failed} failed, {self.skipped.total()} skipped"
        tests = f"; tests: {counts}" if self.passed + self.failed else ""
        yield f"{self.name}: {verdict}{tests}; {self.seconds:.0f} s"
        for reason, number in sorted(self.skipped.items()):
            yield f"    skipped {number}: {reason}"


def main(arguments: list[str]) -> int:
    """Returns the exit status: 0 when all that could run has passed."""
    os.chdir(ROOT)
    if arguments not in ([], ["others"]):
        sys.exit(__doc__)
    outcomes = list(others() if arguments else [here()])
    print("\nWhat ran, and what did not:")
    for outcome in outcomes:
        print("\n".join(outcome.lines()))
    total = Counter[str]()
    for outcome in outcomes:
        total.update(passed=outcome.passed, failed=outcome.failed, skipped=outcome.skipped.total())
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped", flush=True)
    return int(any(outcome.failures for outcome in outcomes))


def here() -> Outcome:
    """Checks everything on the Python that runs this file."""
    outcome = Outcome(f"Python {HERE}, newest versions")
    with timed(outcome):
        step(outcome, "environment", lambda: set_up(sys.executable, HERE, HERE_OPTIONS))
        tools = Path(f".venv-{HERE}", "bin")
        if not outcome.failures:
            run(outcome, "format", [tools / "ruff", "format", "--check", "--quiet", "."])
            run(outcome, "lint", [tools / "ruff", "check", "--quiet", "."])
            run(outcome, "types", [tools / "mypy"])
            test(outcome, HERE, SIDE_BY_SIDE, ALONE)
    return outcome


def others() -> Iterator[Outcome]:
    """Checks the other Pythons, the lowest versions and aarch64, each where it can be."""
    found = {version: find(version) for version in (*OTHERS, LOWEST_ON)}
    wanted = {version: python for version, python in found.items() if python and version != HERE}
    with ThreadPoolExecutor() as pool:  # one core a compilation of pycuda
        statuses = dict(zip(wanted, pool.map(set_up, wanted.values(), wanted), strict=True))
    for version in OTHERS:
        outcome = Outcome(f"Python {version}, newest versions for it")
        if version == HERE:
            continue
        if version not in wanted:
            outcome.note = "not on this machine: not tested"
        else:
            with timed(outcome):
                step(outcome, "environment", partial(statuses.__getitem__, version))
                # What the lowest versions on the same Python go through is not gone through twice.
                test(outcome, version, SIDE_BY_SIDE, () if version == LOWEST_ON else ("tests/e2e",))
        yield outcome
    yield lowest(found[LOWEST_ON])
    yield fresh_install()
    yield aarch64()


def lowest(python: str | None) -> Outcome:
    """Checks the lowest versions that packaging allows."""
    outcome = Outcome(f"Python {LOWEST_ON}, lowest versions")
    if python is None:
        outcome.note = f"Python {LOWEST_ON} is not on this machine: not tested"
        return outcome
    file = ROOT / ".venv-lowest.txt"
    file.write_text("\n".join(pins(int(LOWEST_ON.split(".")[1]))) + "\n", "utf-8")
    with timed(outcome):
        step(outcome, "environment", lambda: set_up(python, "lowest", ["--pycuda", "-c", str(file)]))
        test(outcome, "lowest", SIDE_BY_SIDE, ("tests/e2e",))
    return outcome


def fresh_install() -> Outcome:
    """Installs as docker/Dockerfile.x86 does, into an environment of its own, with this Python."""
    outcome = Outcome(f"Python {HERE}, installed as docker/Dockerfile.x86 does")
    with timed(outcome):
        step(outcome, "environment", lambda: set_up(sys.executable, HERE, HERE_OPTIONS))
        with environment(EDGE_SDK_FRESH_INSTALL="1"):
            test(outcome, HERE, (), ("tests/e2e/test_dockerfiles.py",))
    return outcome


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Sets variables for the commands of a block."""
    os.environ.update(variables)
    yield
    for name in variables:
        del os.environ[name]


def aarch64() -> Outcome:
    """Runs the layer of tests/aarch64, where there is one."""
    outcome = Outcome("aarch64, emulated")
    if not AARCH64.is_dir():
        outcome.note = "no such layer in this checkout: not tested"
        return outcome
    with timed(outcome):
        run(outcome, "make test-aarch64", ["make", "--no-print-directory", "test-aarch64"])
    return outcome


def set_up(python: str, name: str, options: Sequence[str] = ("--pycuda",)) -> int:
    """Makes an environment, unless it is there for these very requirements. Returns an exit status."""
    state = hashlib.sha256(" ".join([python, *options]).encode())
    for path in STAMPED:
        state.update((ROOT / path).read_bytes())
    stamp = Path(f".venv-{name}", "made-for")
    if stamp.is_file() and stamp.read_text("utf-8") == state.hexdigest():
        return 0
    command = [python, "tests/setup_venv.py", f".venv-{name}", *options, "-e", ".[test]"]
    status = subprocess.run(command, check=False).returncode
    if status == 0:
        stamp.write_text(state.hexdigest(), "utf-8")
    return status


def test(outcome: Outcome, name: str, side_by_side: tuple[str, ...], alone: tuple[str, ...]) -> None:
    """Runs rooms of tests: some on two cores at once, the others one after the other."""
    if outcome.failures:
        return
    workers = min(2, os.cpu_count() or 1)
    together = ["-n", str(workers), "--dist", "loadfile"] if workers > 1 else []
    for rooms, options in ((side_by_side, together), (alone, [])):
        if not rooms:
            continue
        report = Path(f".venv-{name}", "report.xml")
        report.unlink(missing_ok=True)
        python = Path(f".venv-{name}", "bin", "python")
        command = [python, "-m", "pytest", "-q", "-r", "fE", f"--junitxml={report}"]
        run(outcome, f"tests of {', '.join(rooms)}", [*command, *options, *rooms])
        count(outcome, report)


def count(outcome: Outcome, report: Path) -> None:
    """Adds up what pytest wrote. Without a report it was ended, which its exit status says."""
    if not report.is_file():
        return
    for case in ET.parse(report).getroot().iter("testcase"):
        skipped = case.find("skipped")
        if skipped is not None:
            outcome.skipped[(skipped.get("message") or "no reason").removeprefix("Skipped: ")] += 1
        elif case.find("failure") is not None or case.find("error") is not None:
            outcome.failed += 1
        else:
            outcome.passed += 1


def run(outcome: Outcome, name: str, command: list[str | Path]) -> None:
    """Runs a command as a step."""
    step(outcome, name, lambda: subprocess.run(command, check=False).returncode)


def step(outcome: Outcome, name: str, action: Callable[[], int]) -> None:
    """Runs a step, with a line before it and one after it."""
    print(f"== {outcome.name}: {name}", flush=True)
    start = time.monotonic()
    status = action()
    took = f"{time.monotonic() - start:.0f} s"
    print(f"-- {name}: {'ok' if status == 0 else f'FAILED (status {status})'}, {took}", flush=True)
    if status:
        outcome.failures.append(name)


@contextmanager
def timed(outcome: Outcome) -> Iterator[None]:
    """Adds the time of a block to an outcome."""
    start = time.monotonic()
    yield
    outcome.seconds += time.monotonic() - start


def find(version: str) -> str | None:
    """Looks on PATH and among pyenv's versions for an interpreter that really starts."""
    if version == HERE:
        return sys.executable
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
    sys.exit(main(sys.argv[1:]))
