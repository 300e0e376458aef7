"""What a viewer may change, and that no wish can break a run."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pairs import SIZE_WH, make_day, make_pair

from edge_sdk.errors import ConfigError
from edge_sdk.live.alarms import AlarmRule
from edge_sdk.live.control import Control, SteeredSource
from edge_sdk.live.lamps import SlaLamps
from edge_sdk.live.session import LiveOptions, LiveSession
from edge_sdk.measurements import Route
from edge_sdk.pipeline import Detector, load
from edge_sdk.recording import Recording, RecordingPlan
from edge_sdk.registering import RegistrationFit, fit_registration
from edge_sdk.runs import run_source
from edge_sdk.sla import load_sla
from edge_sdk.sources import MemorySource, open_source

CORNERS = [(2.0, 2.0), (60.0, 3.0), (61.0, 45.0), (3.0, 44.0)]


@pytest.fixture
def detector(toy_fusion: Path) -> Iterator[Detector]:
    with load(str(toy_fusion), device="cpu", threads=1) as detector:
        yield detector


def fitted() -> RegistrationFit:
    return fit_registration(CORNERS, [(x + 1, y + 2) for x, y in CORNERS], SIZE_WH, SIZE_WH)


def test_a_forced_route_is_taken_where_its_cameras_are_there(detector: Detector) -> None:
    control = Control()
    control.set_force("fuse")
    routes = []
    run_source(
        detector,
        MemorySource(make_day(12)),
        on_bad="skip",
        force=control.force_for,
        on_result=lambda pair, result: routes.append(f"{pair.key} {result.route} {result.reason}"),
    )
    assert routes[0] == "000 fuse forced"
    assert "009 thermal rgb-lost" in routes
    assert "010 rgb thermal-lost" in routes
    control.set_force(None)
    assert control.force_for(make_pair(0)) is None
    with pytest.raises(ConfigError, match="expected rgb, fuse, thermal or null, found 'both'"):
        control.set_force("both")


def test_an_applied_registration_reaches_the_next_pair_and_can_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "registration.json"
    control = Control(registration_file=path)
    source = SteeredSource(MemorySource(make_day(4)), control)
    assert next(source).registration.origin == "test"  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="apply one first"):
        control.save_registration()
    control.apply_registration(fitted())
    assert next(source).registration.origin.startswith("picked: 4 points")  # type: ignore[union-attr]
    assert control.save_registration() == path
    assert control.as_json()["registration"]["saved"] == "registration.json"
    content = json.loads(path.read_text())
    assert content["homography_thermal_to_rgb"][0][2] == pytest.approx(1.0, abs=1e-6)
    assert not list(path.parent.glob("*.part"))
    control.apply_registration(None)
    assert next(source).registration.origin == "test"  # type: ignore[union-attr]
    control.stopped = True
    with pytest.raises(StopIteration):
        next(source)


def test_a_saved_registration_is_one_that_sources_read(tmp_path: Path) -> None:
    from frames_on_disk import write_pairs

    control = Control(registration_file=tmp_path / "registration.json")
    control.apply_registration(fitted())
    control.save_registration()
    write_pairs(tmp_path / "site")
    with open_source(f"pairs:{tmp_path}/site?registration={tmp_path}/registration.json") as source:
        registration = next(source).registration
    assert registration is not None
    assert registration.homography[1][2] == pytest.approx(2.0, abs=1e-6)


def test_recording_starts_and_ends_in_the_middle_of_a_run(detector: Detector, tmp_path: Path) -> None:
    options = LiveOptions(record_on_demand=RecordingPlan(tmp_path / "recordings", when_behind="wait"))
    with LiveSession(detector, MemorySource(make_day(24)), options) as live:

        def act(pair: Any, result: Any) -> None:
            if pair.key in ("004", "012"):
                live.control.record(pair.key == "004")

        run_source(
            detector, live.source, on_bad="skip", force=live.force, observers=live.observers, on_result=act
        )
        assert not live.control.is_recording
    (path,) = (tmp_path / "recordings").iterdir()
    recording = Recording(path)
    keys = [entry.pair.key for entry in recording if not isinstance(entry, Exception)]
    recording.close()
    assert keys == [f"{index:03d}" for index in range(5, 13)]
    assert "8 pairs" in live.last_lines()[0]


def test_nothing_is_recorded_or_saved_where_it_was_not_allowed() -> None:
    control = Control()
    with pytest.raises(ConfigError, match="without a place for recordings"):
        control.record(True)
    control.record(False)
    control.apply_registration(fitted())
    with pytest.raises(ConfigError, match="without a file for registrations"):
        control.save_registration()


def test_a_failure_while_opening_leaves_nothing_open(detector: Detector, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "spool.db") as other:
        other.execute("CREATE TABLE people (name TEXT)")
    other.close()
    from edge_sdk.publish.mqtt import parse_broker

    options = LiveOptions(
        record=RecordingPlan(tmp_path / "run.mcap"),
        broker=parse_broker("mqtt://127.0.0.1:1"),
        spool=tmp_path / "spool.db",
    )
    with pytest.raises(ConfigError, match="a database of something else"):
        LiveSession(detector, MemorySource(make_day(4)), options)
    assert not (tmp_path / "run.mcap").exists(), "an empty recording is not left in the way of the next start"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"token": "a-long-token"}, "add --serve"), ({"spool": Path("x")}, "MQTT needs both")],
)
def test_options_that_make_no_sense_alone(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LiveOptions(**wrong)


def test_lamps_judge_the_last_pairs(detector: Detector, toy_fusion: Path, tmp_path: Path) -> None:
    text = f"name: yard\nengine: {toy_fusion}\nsource: 'memory:pairs'\ndevice: cpu\n"
    verdicts = {}
    for limit in (10_000, 0.001):
        (tmp_path / "sla.yaml").write_text(f"{text}latency: {{p50_ms: {limit}}}\n")
        source = MemorySource([make_pair(index) for index in range(60)])
        told: list[tuple[str, int]] = []
        lamps = SlaLamps(
            load_sla(tmp_path / "sla.yaml"),
            detector,
            source,
            asked_engine=str(toy_fusion),
            asked_device="cpu",
            on_verdict=lambda verdicts, frames, told=told: told.append((verdicts.overall.value, frames)),  # type: ignore[misc]
        )
        try:
            assert lamps.judge_now().overall.value == "INCONCLUSIVE"
            assert lamps.as_json()["overall"] == "INCONCLUSIVE"
            assert told == []
            run_source(detector, source, observers=[lamps])
            lamps.judge_now()
            verdicts[limit] = lamps.as_json()
            assert told[-1] == (verdicts[limit]["overall"], 60)
        finally:
            lamps.close()
    assert verdicts[10_000]["overall"] == "PASS"
    assert verdicts[0.001]["overall"] == "FAIL"
    assert verdicts[0.001]["clauses"][0]["clause"] == "latency.p50_ms"
    assert json.dumps(verdicts)


def test_alarm_rules_can_be_given() -> None:
    assert LiveOptions(alarms=AlarmRule(rise_k=5.0)).alarms.rise_k == 5.0
    assert Control(force=Route.RGB).as_json()["force"] == "rgb"
