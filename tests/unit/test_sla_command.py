"""`edge-sdk sla`: real runs of a toy engine, and what the process ends with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from frames_on_disk import write_pairs
from records import record_of
from typer.testing import CliRunner, Result

import edge_sdk.pipeline
import edge_sdk.sources
from edge_sdk.cli import sla as command
from edge_sdk.devices import PlanOptions
from edge_sdk.errors import (
    ConfigError,
    InferenceError,
    ProviderFallbackError,
    RecordError,
    SlaFileError,
    SourceError,
)
from edge_sdk.frames import FramePair
from edge_sdk.report.record_file import load_record, write_record
from edge_sdk.sla_check import check_sla

LIMITS = "latency: {p50_ms: 5000}\nframes: {max_dropped_share: 0.5}\nrun: {frames: 30}"


@pytest.fixture
def bench(tmp_path: Path, toy_fusion: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with pairs and an SLA, as working directory."""
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path / "frames", [str(index) for index in range(8)])
    write_sla(tmp_path, toy_fusion, LIMITS)
    return tmp_path


def write_sla(folder: Path, engine: Path, limits: str, name: str = "sla.yaml") -> None:
    (folder / name).write_text(f"name: toy\nengine: {engine}\nsource: pairs:frames\n{limits}\n")


def call(*arguments: str) -> Result:
    return CliRunner().invoke(command.app, list(arguments))


def check(*arguments: str) -> Result:
    return call("check", "sla.yaml", "--threads", "1", "--meter", "none", *arguments)


def test_a_kept_sla_ends_with_0_and_its_record_is_whole(bench: Path) -> None:
    result = check("--json", "r.json", "--markdown", "r.md", "--no-progress")
    assert result.exit_code == 0, result.output
    assert "SLA toy: PASS" in result.output
    document = json.loads((bench / "r.json").read_text())
    assert document["verdict"]["overall"] == "PASS"
    assert [clause["verdict"] for clause in document["verdict"]["clauses"]] == ["PASS", "PASS"]
    assert document["engine"]["name"] == "toy-fusion"
    assert len(document["engine"]["bundle_sha256"]) == 64
    assert document["provider"]["asked"] == "auto"
    assert document["provider"]["loaded"] == "CPUExecutionProvider"
    assert document["run"]["frames"] == document["run"]["frames_asked"] == 30
    assert document["run"]["threads"] == 1
    assert (document["source"]["frames_expected"], document["source"]["passes"]) == (8, 4)
    assert document["cold_start"]["load_ms"] > 0
    assert document["cold_start"]["first_result_ms"] > 0
    assert document["power"] == "no power sensor read"
    assert "## Verdict: PASS" in (bench / "r.md").read_text()


def test_judging_the_record_again_gives_the_same_file(bench: Path) -> None:
    first = check("--json", "r.json", "--markdown", "r.md")
    again = call("judge", "r.json", "sla.yaml", "--json", "r2.json", "--markdown", "r2.md")
    assert again.exit_code == first.exit_code == 0
    assert (bench / "r.json").read_bytes() == (bench / "r2.json").read_bytes()
    assert (bench / "r.md").read_bytes() == (bench / "r2.md").read_bytes()


@pytest.mark.parametrize(
    ("limits", "exit_status"),
    [
        ("latency: {p50_ms: 5000}\nrun: {frames: 30}", 0),
        ("latency: {p50_ms: 0.0001}\nrun: {frames: 30}", 1),
        ("latency: {p99_ms: 5000}\nrun: {frames: 30}", 2),
        ("latency: {p50_ms: 5000}\nrun: {frames: 30, pace_hz: 100}", 2),
    ],
)
def test_exit_status_follows_the_verdict(
    bench: Path, toy_fusion: Path, limits: str, exit_status: int
) -> None:
    assert check("--json", "r.json").exit_code == 0
    write_sla(bench, toy_fusion, limits, "other.yaml")
    assert call("judge", "r.json", "other.yaml").exit_code == exit_status


def test_a_run_can_be_limited_by_time_and_paced(bench: Path, toy_fusion: Path) -> None:
    write_sla(bench, toy_fusion, "latency: {p50_ms: 5000}\nrun: {duration_s: 0.3, pace_hz: 50}")
    assert check("--json", "r.json").exit_code in (0, 2)
    record = load_record(bench / "r.json")
    assert record.run.duration_s_asked == 0.3
    assert 2 <= len(record.frames) <= 16
    assert not record.source.ended_early


def test_bad_pairs_are_dropped_frames_with_their_cause(bench: Path) -> None:
    (bench / "frames" / "rgb" / "3.png").write_bytes(b"no picture")
    result = check("--json", "r.json")
    assert result.exit_code in (0, 2), result.output
    record = load_record(bench / "r.json")
    assert len(record.frames) == 30
    assert {entry.key for entry in record.dropped} == {"3"}
    assert "dropped" in result.output


def test_a_source_that_fails_in_mid_run_is_invalid(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = edge_sdk.sources.PairsSource.__next__

    def failing(self: Any) -> FramePair:
        pair = read(self)
        if self.describe()["loop"] != 1 and pair.key == "6":
            raise SourceError("cable pulled")
        return pair

    monkeypatch.setattr(edge_sdk.sources.PairsSource, "__next__", failing)
    result = check("--json", "r.json")
    assert result.exit_code == 2
    text = " ".join(result.output.split())
    assert "INVALID because the source failed: cable pulled" in text
    assert "the source ended early, after 6 frames" in text
    assert call("judge", "r.json", "sla.yaml").exit_code == 2


def test_a_null_engine_is_invalid(bench: Path) -> None:
    result = check("--device", "null")
    assert result.exit_code == 2
    assert "no real engine ran" in result.output


@pytest.mark.skipif(
    "CUDAExecutionProvider" in onnxruntime.get_available_providers(),
    reason="needs an ONNX Runtime without CUDA to fall back from",
)
def test_an_allowed_fallback_is_invalid_and_another_is_no_run(bench: Path) -> None:
    result = check("--device", "cuda", "--allow-fallback", "CPUExecutionProvider", "--json", "r.json")
    assert result.exit_code == 2, result.output
    assert "provider fell back: cuda was asked for, CPUExecutionProvider ran" in " ".join(
        result.output.split()
    )
    assert isinstance(check("--device", "cuda").exception, ProviderFallbackError)


def test_plans_from_elsewhere_need_their_hash_and_reach_the_engine(
    bench: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = check("--plans", "plans", "--no-progress")
    assert isinstance(refused.exception, ConfigError)
    assert "Both or neither" in str(refused.exception)
    seen: list[PlanOptions] = []
    real = edge_sdk.pipeline.open_runner

    def spy(*arguments: Any, plan_options: PlanOptions, **options: Any) -> Any:
        seen.append(plan_options)
        return real(*arguments, **options)

    monkeypatch.setattr(edge_sdk.pipeline, "open_runner", spy)
    trusted = ["--plans", "plans", "--trust-plan", "ab" * 32, "--dla", "--cuda-graphs", "off"]
    assert check(*trusted, "--device", "cpu", "--no-progress").exit_code == 0
    assert seen == [PlanOptions(True, Path("plans"), "ab" * 32, "off")]


def test_no_pair_with_a_result_is_no_run(bench: Path) -> None:
    for path in (bench / "frames").glob("*/*.png"):
        path.write_bytes(b"no picture")
    assert isinstance(check().exception, SourceError)


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("check", "none.yaml"), SlaFileError),
        (("check", "sla.yaml", "--json", "sla.yaml/r.json"), ConfigError),
        (("check", "sla.yaml", "--markdown", "frames"), ConfigError),
        (("judge", "none.json", "sla.yaml"), RecordError),
        (("judge", "sla.yaml", "sla.yaml"), RecordError),
        (("judge", "good.json", "none.yaml"), SlaFileError),
        (("judge", "good.json", "sla.yaml", "--json", "sla.yaml/r.json"), ConfigError),
    ],
)
def test_what_cannot_be_run_or_judged_is_an_error_of_ours(
    bench: Path, arguments: tuple[str, ...], kind: type[Exception]
) -> None:
    write_record(record_of([5.0] * 20), bench / "good.json")
    assert isinstance(call(*arguments).exception, kind)


@pytest.mark.parametrize(
    "arguments", [("check",), ("check", "a", "b"), ("judge", "a"), ("check", "a", "--nope")]
)
def test_a_wrong_command_line_is_not_taken_for_undecided(arguments: tuple[str, ...]) -> None:
    assert call(*arguments).exit_code == 3


def test_missing_folders_are_made(bench: Path) -> None:
    write_record(record_of([5.0] * 20), bench / "good.json")
    call("judge", "good.json", "sla.yaml", "--json", "new/r.json", "--markdown", "new/r.md")
    assert (bench / "new" / "r.json").exists()
    assert (bench / "new" / "r.md").exists()


def test_help_ends_with_0() -> None:
    assert call("check", "--help").exit_code == 0
    assert call("judge", "--help").exit_code == 0


def test_paths_in_an_sla_are_relative_to_its_file(
    bench: Path, toy_fusion: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bench / "elsewhere").mkdir()
    monkeypatch.chdir(bench / "elsewhere")
    (bench / "toy").symlink_to(toy_fusion)
    write_sla(bench, Path("toy"), LIMITS)
    result = call("check", "../sla.yaml", "--threads", "1", "--meter", "none", "--json", "r.json")
    assert result.exit_code == 0, result.output
    assert call("judge", "r.json", "../sla.yaml").exit_code == 0
    write_sla(bench, Path("toy-fusion"), LIMITS, "other.yaml")  # the same source, said by another file
    assert call("judge", "r.json", "../other.yaml").exit_code == 0


def test_an_error_in_mid_run_is_kept_for_who_gave_an_ending(
    bench: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = edge_sdk.pipeline.Detector.__call__
    asked = []

    def failing(self: Any, pair: FramePair, **how: Any) -> Any:
        asked.append(pair.key)
        if len(asked) > 12:
            raise InferenceError("rgb", "cpu", "out of memory")
        return answer(self, pair, **how)

    monkeypatch.setattr(edge_sdk.pipeline.Detector, "__call__", failing)
    result = check("--json", "r.json", "--junit", "j.xml")
    assert result.exit_code == 2, result.output
    assert "by error: graph 'rgb' failed on cpu: out of memory" in " ".join(result.output.split())
    record = load_record(bench / "r.json")
    assert len(record.frames) == 12
    assert 'errors="2"' in (bench / "j.xml").read_text()
    asked.clear()
    with pytest.raises(InferenceError):  # without one it is raised
        check_sla("sla.yaml", threads=1)


@pytest.mark.parametrize("name", ["r.pdf", "r.txt", "r"])
def test_another_kind_of_report_is_refused_before_the_run(bench: Path, name: str) -> None:
    for option in ("--report", "--markdown"):
        result = check(option, name)
        assert isinstance(result.exception, ConfigError)
        assert "expected a file that ends in .md or .markdown or .html or .htm" in str(result.exception)
