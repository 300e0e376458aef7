"""The SLA file: what is taken, and that everything else is refused by name."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sdk.errors import ConfigError, SlaFileError
from edge_sdk.measurements import Route
from edge_sdk.sla import (
    LatencyLimit,
    MachineLimits,
    MemoryLimits,
    RunPlan,
    contradictions,
    load_sla,
    located_engine,
    located_source,
    parse_sla,
)
from edge_sdk.stats import WarmUpBudget

WHOLE = """
name: line 7
engine: substation-rgbt
source: "pairs:frames?rgb=rgb&thermal=ir16"
device: cpu
latency:
  p50_ms: 40
  p99_9_ms: 60.5
  p99_99_ms: 80
  max_ms: 3000
  stages: {engine: {p95_ms: 30}}
  routes: {thermal: {p50_ms: 9}}
throughput: {min_fps: 20}
frames: {max_dropped_share: 0.01}
machine: {power_mode: 30W, clocks_locked: true, throttled: false}
memory: {peak_mb: 900, rss_slope_mb_per_h: 0}
run: {frames: 500, pace_hz: 25, seed: 3}
confidence: 0.95
"""


def test_everything_a_file_may_say_is_read() -> None:
    sla = parse_sla(WHOLE)
    assert (sla.name, sla.engine, sla.device, sla.confidence) == ("line 7", "substation-rgbt", "cpu", 0.95)
    assert sla.source == "pairs:frames?rgb=rgb&thermal=ir16"
    assert sla.latency == (
        LatencyLimit("latency.p50_ms", 0.5, 40),
        LatencyLimit("latency.p99_9_ms", 0.999, 60.5),
        LatencyLimit("latency.p99_99_ms", 0.9999, 80),
        LatencyLimit("latency.max_ms", None, 3000),
        LatencyLimit("latency.stages.engine.p95_ms", 0.95, 30, stage="engine"),
        LatencyLimit("latency.routes.thermal.p50_ms", 0.5, 9, route=Route.THERMAL),
    )
    assert (sla.min_fps, sla.max_dropped_share) == (20, 0.01)
    assert sla.machine == MachineLimits("30W", True, True)
    assert sla.memory == MemoryLimits(900, 0)
    assert sla.run == RunPlan(frames=500, duration_s=None, pace_hz=25, seed=3)
    assert sla.sha256 == hashlib.sha256(WHOLE.encode()).hexdigest()


def test_what_a_file_leaves_out_has_a_default() -> None:
    sla = parse_sla("engine: mine\nthroughput: {min_fps: 1}\n", Path("dir/bay-3.yaml"))
    assert (sla.name, sla.source, sla.device) == ("bay-3", "clip:substation", "auto")
    assert sla.confidence == 0.99
    assert sla.run == RunPlan(duration_s=30.0, length_stated=False)
    assert parse_sla("engine: mine\nthroughput: {min_fps: 1}\n").name == "unnamed"


@pytest.mark.parametrize("limit", ["machine: {throttled: false}", "memory: {peak_mb: 1}"])
def test_a_clause_on_the_machine_alone_is_an_sla(limit: str) -> None:
    assert parse_sla(f"engine: mine\n{limit}\n").latency == ()


def test_a_file_is_read_and_named_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "sla.yaml"
    path.write_text("engine: mine\nlatency: {p50_ms: 1}\n")
    assert load_sla(path).path == path
    path.write_text("engine: mine\nlatency: {p50_ms: -1}\n")
    with pytest.raises(
        SlaFileError, match=r"sla\.yaml: latency\.p50_ms: expected a number more than 0"
    ) as caught:
        load_sla(path)
    assert (caught.value.path, caught.value.key) == (path, "latency.p50_ms")


def test_a_file_that_is_not_there_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(SlaFileError, match="cannot be read"):
        load_sla(tmp_path / "none.yaml")
    with pytest.raises(SlaFileError, match="cannot be read"):
        load_sla(tmp_path)


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ("latncy: {p50_ms: 1}", "latncy", "unknown key. Did you mean latency?"),
        ("latency: {p95: 1}", "latency.p95", "unknown key. Did you mean p95_ms?"),
        ("latency: {p100_ms: 1}", "latency.p100_ms", "unknown key. Did you mean"),
        ("latency: {stage: {engine: {p50_ms: 1}}}", "latency.stage", "Did you mean stages?"),
        ("latency: {stages: {engin: {p50_ms: 1}}}", "latency.stages.engin", "Did you mean engine?"),
        ("latency: {routes: {rbg: {p50_ms: 1}}}", "latency.routes.rbg", "Did you mean rgb?"),
        ("latency: {routes: {rgb: {p50: 1}}}", "latency.routes.rgb.p50", "Did you mean p50_ms?"),
        ("throughput: {fps: 1}", "throughput.fps", "Did you mean min_fps?"),
        ("frames: {dropped: 1}", "frames.dropped", "Did you mean max_dropped_share?"),
        ("run: {frame: 1}", "run.frame", "Did you mean frames?"),
        ("machine: {mode: x}", "machine.mode", "Did you mean power_mode?"),
        ("memory: {peak: 1}", "memory.peak", "Did you mean peak_mb?"),
        ("zzz: 1", "zzz", "Known keys: name, engine"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(text: str, key: str, words: str) -> None:
    with pytest.raises(SlaFileError) as caught:
        parse_sla(f"engine: mine\n{text}\n")
    assert caught.value.key == key
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ("latency: {p50_ms: yes}", "latency.p50_ms", "found True (yes/no)"),
        ("latency: {p50_ms: '40'}", "latency.p50_ms", "found 40 (text)"),
        ("latency: {p50_ms: .nan}", "latency.p50_ms", "found nan"),
        ("latency: {p50_ms: .inf}", "latency.p50_ms", "found inf"),
        ("latency: {p50_ms: 0}", "latency.p50_ms", "found 0"),
        ("latency: {p50_ms: [1]}", "latency.p50_ms", "found [1] (list)"),
        (f"latency: {{p50_ms: 1{'0' * 400}}}", "latency.p50_ms", "expected a number"),
        ("latency: {p50_ms: }", "latency.p50_ms", "found nothing"),
        ("latency: 40", "latency", "expected a section"),
        ("latency: ", "latency", "expected a section with keys of its own, found nothing"),
        ("latency: {routes: {rgb: {}}}", "latency.routes.rgb", "no limit in it"),
        ("latency: {p0_ms: 1}", "latency.p0_ms", "percentile 0"),
        ("latency: {p50_ms: 1, p50_0_ms: 2}", "latency.p50_0_ms", "same percentile as p50_ms"),
        ("throughput: {min_fps: -2}", "throughput.min_fps", "more than 0"),
        ("frames: {max_dropped_share: 1}", "frames.max_dropped_share", "at least 0 and less than 1"),
        ("frames: {max_dropped_share: -0.1}", "frames.max_dropped_share", "at least 0"),
        ("run: {frames: 10, duration_s: 3}\nlatency: {p50_ms: 1}", "run", "both given"),
        ("run: {frames: 1.5}\nlatency: {p50_ms: 1}", "run.frames", "whole number"),
        ("run: {frames: 0}\nlatency: {p50_ms: 1}", "run.frames", "1 - 10000000"),
        ("run: {frames: true}\nlatency: {p50_ms: 1}", "run.frames", "whole number"),
        ("run: {duration_s: 0}\nlatency: {p50_ms: 1}", "run.duration_s", "more than 0"),
        ("run: {pace_hz: 0}\nlatency: {p50_ms: 1}", "run.pace_hz", "more than 0"),
        ("run: {seed: -1}\nlatency: {p50_ms: 1}", "run.seed", "whole number"),
        ("machine: {power_mode: 2}", "machine.power_mode", "Ids mean another mode on another board"),
        ("machine: {power_mode: ''}", "machine.power_mode", "expected text"),
        ("machine: {clocks_locked: 1}", "machine.clocks_locked", "expected true or false, found 1"),
        ("machine: {throttled: true}", "machine.throttled", "No SLA asks for throttling"),
        ("machine: {}", "", "no limit to judge"),
        ("memory: {peak_mb: 0}", "memory.peak_mb", "more than 0"),
        ("memory: {rss_slope_mb_per_h: -1}", "memory.rss_slope_mb_per_h", "at least 0"),
        ("name: 7\nlatency: {p50_ms: 1}", "name", "expected text, found 7"),
        ("name: ''\nlatency: {p50_ms: 1}", "name", "expected text"),
        ("confidence: 1\nlatency: {p50_ms: 1}", "confidence", "less than 1"),
        ("confidence: 0.2\nlatency: {p50_ms: 1}", "confidence", "at least 0.5"),
        ("run: {frames: 10}", "", "no limit to judge"),
        ("latency: {p50_ms: 1, p50_ms: 2}", "p50_ms", "line 2: given twice"),
        ("engine: other\nlatency: {p50_ms: 1}", "engine", "line 2: given twice"),
        ("latency: &a {p50_ms: 1}", "", "line 2: anchors and aliases"),
        ("1: 2", "", "line 2: expected a name as key, found '1'"),
        ("? [a]\n: 2", "", "expected a name as key"),
        ("latency: {p50_ms: 1", "", "not YAML that can be read"),
        ("latency: !!python/object:os.system {}", "", "not YAML that can be read"),
        ("name: 2024-13-45\nlatency: {p50_ms: 1}", "", "not YAML that can be read"),
        ("---\nlatency: {p50_ms: 1}", "", "not YAML that can be read"),
    ],
)
def test_a_wrong_value_is_refused_with_its_key(text: str, key: str, words: str) -> None:
    with pytest.raises(SlaFileError) as caught:
        parse_sla(f"engine: mine\n{text}\n")
    assert caught.value.key == key
    assert words in str(caught.value)
    assert isinstance(caught.value, ConfigError)


@pytest.mark.parametrize("text", ["", "# nothing\n", "- a\n", "text\n", "null\n"])
def test_a_document_without_keys_is_refused(text: str) -> None:
    with pytest.raises(SlaFileError, match="expected keys such as engine"):
        parse_sla(text)


def test_an_engine_must_be_named() -> None:
    with pytest.raises(SlaFileError, match="engine: missing"):
        parse_sla("latency: {p50_ms: 1}\n")


def test_size_and_depth_are_bounded(tmp_path: Path) -> None:
    with pytest.raises(SlaFileError, match="larger than 64 KiB"):
        parse_sla("#" * 70_000)
    path = tmp_path / "large.yaml"
    path.write_bytes(b"#" * 1_000_000)
    with pytest.raises(SlaFileError, match="larger than 64 KiB"):
        load_sla(path)
    with pytest.raises(SlaFileError, match="nested too deeply"):
        parse_sla("[" * 30_000)


def test_an_alias_bomb_is_refused_at_its_first_anchor() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    with pytest.raises(SlaFileError, match="line 1: anchors and aliases are not taken"):
        parse_sla("\n".join(lines))


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail_in_another_way(content: bytes) -> None:
    try:
        parse_sla(content)
    except SlaFileError as error:
        assert str(error)  # noqa: PT017 - most inputs are refused, some may be sound


@given(st.from_regex(r"[a-z0-9_: {}\[\],.&*!?'\"\n-]{0,80}", fullmatch=True))
def test_no_yaml_like_text_makes_it_fail_in_another_way(content: str) -> None:
    try:
        parse_sla("engine: mine\n" + content)
    except SlaFileError as error:
        assert str(error)  # noqa: PT017 - as above


@pytest.mark.parametrize(
    "number", ["010", "0x1F", "0b11", "1_000", "1:30", "1:30.5", "-010", "+0o17", "00.5", "1_0.5"]
)
def test_a_number_that_yaml_reads_otherwise_than_people_is_refused(number: str) -> None:
    with pytest.raises(SlaFileError) as caught:
        parse_sla(f"engine: mine\nlatency: {{p50_ms: {number}}}\n")
    assert number in str(caught.value)


@pytest.mark.parametrize("number", ["10", "0", "10.5", "+10", ".5", "5.", "1.5e+3"])
def test_plain_numbers_are_taken(number: str) -> None:
    sla = parse_sla(f"engine: mine\nmemory: {{rss_slope_mb_per_h: {number}}}\nlatency: {{p50_ms: 1}}\n")
    assert sla.memory.rss_slope_mb_per_h == float(number)


def test_a_text_that_looks_like_such_a_number_is_fine_in_quotes() -> None:
    assert parse_sla('name: "010"\nengine: mine\nlatency: {p50_ms: 1}\n').name == "010"


def test_the_budget_for_warm_up_is_read_and_bounded() -> None:
    sla = parse_sla("engine: mine\nlatency: {p50_ms: 1}\nrun: {warm_up_s: 2.5, warm_up_frames: 7}\n")
    assert sla.run.warm_up == WarmUpBudget(2.5, 7)
    assert not sla.run.length_stated
    for wrong in ("warm_up_s: -1", "warm_up_frames: 0", "warm_up_frames: 1.5"):
        with pytest.raises(SlaFileError, match=r"run\.warm_up"):
            parse_sla(f"engine: mine\nlatency: {{p50_ms: 1}}\nrun: {{{wrong}}}\n")


@pytest.mark.parametrize(
    ("source", "located"),
    [
        ("clip:substation", "clip:substation"),
        ("pairs:frames?unit=counts", "pairs:{here}/frames?unit=counts"),
        ("pairs:/frames", "pairs:/frames"),
        ("pairs:~/frames", "pairs:~/frames"),
        ("video:a.mp4?thermal=b.tiff", "video:{here}/a.mp4?thermal={here}/b.tiff"),
        ("mcap:runs/a.mcap", "mcap:{here}/runs/a.mcap"),
        ("file:///abs/a.jpg", "file:///abs/a.jpg"),
        ("camera:?rgb=v4l2:///dev/video0&policy=latest", "camera:?rgb=v4l2:///dev/video0&policy=latest"),
        ("camera:?rgb=file:a.mp4", "camera:?rgb=file:{here}/a.mp4"),
        ("v4l2:///dev/video0?registration=near.json", "v4l2:///dev/video0?registration={here}/near.json"),
        ("pairs:/x?registration=beside-the-frames.json", "pairs:/x?registration=beside-the-frames.json"),
        ("pairs:/x?registration=identity", "pairs:/x?registration=identity"),
    ],
)
def test_paths_of_a_source_are_relative_to_the_file(tmp_path: Path, source: str, located: str) -> None:
    (tmp_path / "near.json").write_text("{}")
    sla = parse_sla(f"engine: mine\nsource: {source}\nlatency: {{p50_ms: 1}}\n", tmp_path / "sla.yaml")
    assert located_source(sla) == located.replace("{here}", str(tmp_path))
    assert located_source(replace(sla, path=None)) == source


def test_a_folder_with_signs_of_an_address_in_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "50% & more?"
    sla = parse_sla("engine: mine\nsource: pairs:a\nlatency: {p50_ms: 1}\n", folder / "sla.yaml")
    assert located_source(sla) == f"pairs:{tmp_path}/50%25 %26 more%3F/a"


def test_the_path_of_an_engine_is_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    for engine, located in (
        ("substation-rgbt", "substation-rgbt"),
        ("beside", str(tmp_path / "beside")),
        ("./mine", str(tmp_path / "mine")),
        ("bundles/mine", str(tmp_path / "bundles/mine")),
        ("/abs/mine", "/abs/mine"),
    ):
        sla = parse_sla(f"engine: {engine}\nlatency: {{p50_ms: 1}}\n", tmp_path / "sla.yaml")
        assert located_engine(sla) == located


def test_limits_that_contradict_each_other_are_named() -> None:
    sla = parse_sla(
        "engine: mine\nlatency: {p50_ms: 60, p99_ms: 40, max_ms: 40, routes: {rgb: {p50_ms: 90}}}\n"
        "throughput: {min_fps: 15}\nrun: {pace_hz: 10}\n"
    )
    assert list(contradictions(sla)) == [
        "Limits contradict: latency.p50_ms allows 60 ms where latency.p99_ms allows 40 ms, "
        "and no percentile is over a higher one.",
        "Limits contradict: latency.p50_ms allows 60 ms where latency.max_ms allows 40 ms, "
        "and no percentile is over a higher one.",
        "Limits contradict: throughput.min_fps asks for 15 frames/s and run.pace_hz starts 10.",
    ]
    assert not list(contradictions(parse_sla("engine: mine\nlatency: {p50_ms: 40, p99_ms: 40}\n")))
