"""What `make test` and `make test-all` count and say, and the lowest versions that they pin."""

from __future__ import annotations

from pathlib import Path

import lowest
import matrix
import pytest

from edge_sdk.requirements import CORE, EXTRAS, name_of

TESTS = Path(__file__).resolve().parents[1]

REPORT = """<testsuites><testsuite>
<testcase name="a"/><testcase name="b"/><testcase name="c"><failure message="no"/></testcase>
<testcase name="d"><error message="no"/></testcase>
<testcase name="e"><skipped message="needs an NVIDIA GPU"/></testcase>
<testcase name="f"><skipped message="Skipped: needs an NVIDIA GPU"/></testcase>
</testsuite></testsuites>"""


def test_tests_are_counted_and_reasons_named(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT, "utf-8")
    outcome = matrix.Outcome("Python 3.11")
    matrix.count(outcome, tmp_path / "report.xml")
    matrix.count(outcome, tmp_path / "none.xml")
    outcome.failures.append("tests of tests/unit")
    assert list(outcome.lines()) == [
        "Python 3.11: FAILED: tests of tests/unit; tests: 2 passed, 2 failed, 2 skipped; 0 s",
        "    skipped 2: needs an NVIDIA GPU",
    ]


def test_what_is_not_here_is_said_not_passed() -> None:
    outcome = matrix.lowest(None)
    assert list(outcome.lines()) == [
        "Python 3.10, lowest versions: Python 3.10 is not on this machine: not tested"
    ]


def test_a_step_that_fails_fails_the_environment(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = matrix.Outcome("here")
    matrix.step(outcome, "lint", lambda: 3)
    matrix.test(outcome, "none", ("tests/unit",), ())
    assert outcome.failures == ["lint"]
    assert "-- lint: FAILED (status 3)" in capsys.readouterr().out


def test_every_room_of_tests_is_run() -> None:
    rooms = {f"tests/{path.parent.relative_to(TESTS).parts[0]}" for path in TESTS.glob("*/**/test_*.py")}
    rooms -= {"tests/aarch64"}  # has a target of its own
    assert rooms == {*matrix.SIDE_BY_SIDE, *matrix.ALONE}


def test_the_lowest_versions_are_pinned_exactly_and_all_of_them() -> None:
    found = dict(line.split("==") for line in lowest.pins(minor=10))
    wanted = {name_of(text.split(";")[0]) for text in CORE}
    wanted |= {
        name_of(text.split(";")[0])
        for extra, texts in EXTRAS.items()
        if extra not in lowest.LEFT_OUT
        for text in texts
    }
    assert set(found) == wanted
    assert (found["numpy"], found["tomli"], found["cuda-bindings"]) == ("1.26", "2", "12.8")
    assert "gpu" in lowest.LEFT_OUT
    assert not set("<>=;, ") & set("".join(found.values()))
