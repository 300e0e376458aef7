"""Each fault of a fake camera: detected, shown, routed around, recovered from; no stale frame is fused."""

from __future__ import annotations

import json
from itertools import islice, pairwise
from pathlib import Path

import pytest
from fake_cameras import MS, START_NS, FakeCamera, FakeDevice, S, Trouble, make_rig

from edge_sdk.clock import FakeClock
from edge_sdk.errors import CameraError, CamerasSilentError, ConfigError, StateError
from edge_sdk.frames import Calibration, FfcState, FramePair, ThermalUnit
from edge_sdk.pipeline import load
from edge_sdk.report.record_file import load_record, write_record
from edge_sdk.routing import GateConfig, RouterState, look_at_rgb, measure_health
from edge_sdk.runs import RunPlan, record_run
from edge_sdk.sources import MemorySource
from edge_sdk.sources.cameras import CameraSource, HealthLimits
from edge_sdk.sources.cameras.settings import CameraAddress

BEGIN_S, END_S = 2.0, 5.0
FAULTS = {
    "lost": {"lost"},
    "silent": {"late", "lost"},
    "frozen": {"late", "frozen"},
    "black": {"black"},
    "saturated": {"saturated"},
    "covered": {"covered"},
    "wrong-size": {"wrong-size"},
    "backwards": {"time-backwards"},
    "undecodable": {"bad-frames"},
    "stale": {"late", "lost", "stale"},
}
SIZE = {"size_wh": (160, 120)}
CASES = [(side, kind) for side in ("rgb", "thermal") for kind in FAULTS] + [("thermal", "ffc")]


@pytest.mark.parametrize(("side", "kind"), CASES)
def test_a_fault_is_detected_routed_around_and_recovered_from(side: str, kind: str) -> None:
    rig = make_rig(**{side: [Trouble(kind, BEGIN_S, END_S)]})
    other = "thermal" if side == "rgb" else "rgb"
    seen: list[tuple[float, FramePair]] = []
    rig.run(13.0, lambda pair, now_ns: seen.append(((now_ns - START_NS) / S, pair)))
    alone = [(at, pair) for at, pair in seen if getattr(pair, side) is None]
    events = list(rig.source.hub.watch(side).events)
    names = {event.fault.value for event in events if event.fault is not None}

    assert names == FAULTS.get(kind, {kind}), "detected, and by its right name"
    if kind not in ("stale", "covered"):
        first_s = next((event.at_ns - START_NS) / S for event in events if event.fault is not None)
        assert BEGIN_S <= first_s <= BEGIN_S + 0.5, "shown within half a second"
    assert rig.source.hub.watch(side).fault is None, "recovered from, without a restart"
    if kind != "backwards":
        assert alone, "routed around: the other camera goes on alone"
        assert {getattr(pair, f"{side}_fault") for _, pair in alone} <= names
        assert all(BEGIN_S <= at <= END_S + 3 for at, _ in alone)
    assert all(getattr(pair, other) is not None for _, pair in alone)
    last = seen[-1][1]
    assert last.rgb is not None
    assert last.thermal is not None
    in_fault = [at for at, _ in seen if BEGIN_S + 0.6 < at < END_S]
    assert len(in_fault) > (60 if side == "thermal" and kind != "backwards" else 15), "pairs go on meanwhile"


@pytest.mark.parametrize(("side", "kind"), CASES)
def test_no_old_frame_is_paired_or_given(side: str, kind: str) -> None:
    rig = make_rig(**{side: [Trouble(kind, BEGIN_S, END_S), Trouble("silent", 8.0, 9.0)]})
    for pair in rig.run(13.0):
        if pair.rgb is not None and pair.thermal is not None:
            assert pair.rgb.timestamp_ns is not None
            assert pair.thermal.timestamp_ns is not None
            assert pair.skew_ms is not None
            assert abs(pair.skew_ms) <= 60
            assert pair.skew_ms == (pair.thermal.timestamp_ns - pair.rgb.timestamp_ns) / MS
    assert max(rig.ages_ms) < 400, "no pair holds a frame older than the wait for its partner"


def test_a_frame_in_ffc_is_never_given() -> None:
    rig = make_rig(thermal=[Trouble("ffc", 2, 3)])
    pairs = rig.run(6)
    assert {pair.thermal.ffc for pair in pairs if pair.thermal} == {FfcState.COMPLETE}
    ffc = [pair for pair in pairs if pair.thermal_fault == "ffc"]
    assert len(ffc) > 20
    rgb = ffc[0].rgb
    assert rgb is not None
    health = measure_health(GateConfig(), RouterState(), look_at_rgb(rgb.image), None, None, None, "ffc")
    assert health == ("ok", "missing (ffc)")


def test_frames_carry_what_is_known_of_them() -> None:
    pair = make_rig().run(2)[-1]
    assert pair.thermal is not None
    assert pair.thermal.unit is ThermalUnit.CENTIKELVIN
    assert pair.thermal.calibration is Calibration.RADIOMETRIC
    assert pair.thermal.sequence is not None
    assert pair.rgb is not None
    assert pair.rgb.timestamp_ns is not None
    assert pair.rgb_fault is pair.thermal_fault is None


@pytest.mark.parametrize("policy", ["latest", "drop-oldest&queue=3"])
@pytest.mark.parametrize("engine_ms", [5.0, 120.0, 700.0])
def test_a_slow_engine_drops_frames_and_does_not_queue_them(engine_ms: float, policy: str) -> None:
    rig = make_rig(engine_ms=engine_ms, options=f"&policy={policy}")
    rig.run(40)
    half = len(rig.ages_ms) // 2
    assert max(rig.ages_ms[half:]) <= max(rig.ages_ms[:half]) + 40, "latency does not grow"
    kept = 1 if policy == "latest" else 3
    assert max(rig.ages_ms) < (kept + 1) * max(engine_ms, 112) + 60
    for side, camera in rig.cameras.items():
        ledger = rig.source.status()["pairing"]["frames"][side]
        assert ledger["offered"] == camera.sent
        assert camera.sent == ledger["given"] + ledger["waiting"] + sum(ledger["dropped"].values())
        if engine_ms > 112:
            assert ledger["dropped"]["superseded"] >= 10


@pytest.mark.parametrize("repeats", [1, 3])
def test_repeated_frames_are_removed(repeats: int) -> None:
    rig = make_rig(thermal_extra={"repeats": repeats})
    pairs = rig.run(10)
    sequences = [pair.thermal.sequence for pair in pairs if pair.thermal]
    assert len(sequences) == len(set(sequences)) == pytest.approx(90, abs=2)
    dropped = rig.source.status()["pairing"]["frames"]["thermal"]["dropped"]
    assert dropped.get("repeat", 0) == pytest.approx(90 * (repeats - 1), abs=4)


@pytest.mark.parametrize("offset_s", [-86400, -3, 7, 1e6])
def test_the_clock_of_a_device_is_brought_to_the_hosts(offset_s: float) -> None:
    """Its way takes 8 ms at least, which nobody can see: the estimate is that much off, and no more."""
    rig = make_rig(thermal_extra={"offset_ns": round(offset_s * S), "jitter_ms": 20.0})
    pairs = rig.run(20)
    skews = [abs(pair.skew_ms) for pair in pairs if pair.skew_ms is not None]
    assert len(skews) > 170
    assert max(skews) < 26
    offset_ms = rig.source.status()["cameras"]["thermal"]["clock_offset_ms"]
    assert offset_ms == pytest.approx(-offset_s * 1000 + 8, abs=2)


def test_a_stated_delay_is_taken_off() -> None:
    rig = make_rig(options="", thermal_extra={"offset_ns": 5 * S})
    shifted = make_rig(thermal_extra={"offset_ns": 5 * S})
    reader = shifted.source.readers["thermal"]
    assert reader.clock_map is not None
    reader.clock_map._delay_ns = 8 * MS
    plain, corrected = rig.run(4), shifted.run(4)
    assert plain[-1].thermal is not None
    assert corrected[-1].thermal is not None
    assert plain[-1].thermal.timestamp_ns - corrected[-1].thermal.timestamp_ns == 8 * MS  # type: ignore[operator]


def test_reopening_waits_longer_each_time_and_starts_anew_after_a_good_frame() -> None:
    rig = make_rig(thermal=[Trouble("lost", 2, 20), Trouble("lost", 30, 30.2)])
    tries: list[float] = []
    opener = rig.cameras["thermal"].open

    def counted() -> object:
        tries.append((rig.clock.now_ns() - START_NS) / S)
        return opener()

    rig.cameras["thermal"].open = counted  # type: ignore[method-assign,assignment]
    rig.run(40)
    first = [at for at in tries if at < 25]
    waits = [later - at for at, later in pairwise(first)]
    assert waits[:4] == pytest.approx([0.5, 1.0, 2.0, 2.0], abs=0.05)
    again = [at for at in tries if at > 25]
    assert again[0] - 30 < 0.45, "the back-off is short again"
    assert rig.source.readers["thermal"].reconnects == 2
    assert rig.cameras["thermal"].open_devices == 1, "every lost device was closed"


def test_both_cameras_lost_and_back() -> None:
    rig = make_rig(rgb=[Trouble("lost", 3, 8)], thermal=[Trouble("lost", 3, 8)])
    seen: list[float] = []
    rig.run(14, lambda pair, now_ns: seen.append((now_ns - START_NS) / S))
    assert not [at for at in seen if 3.2 < at < 8]
    assert [at for at in seen if at > 10.5]
    assert rig.source.hub.faults() == {"rgb": "ok", "thermal": "ok"}


def test_patience_ends_with_an_error_that_names_both() -> None:
    rig = make_rig(
        rgb=[Trouble("lost", 1, 99)], thermal=[Trouble("lost", 1, 99)], options="&patience_s=0.000001"
    )
    rig.run(2)
    while rig.source.poll() is not None:
        pass
    rig.source.live = True
    rig.source.start = lambda: None  # type: ignore[method-assign]
    rig.source._patience_ns = -1
    with pytest.raises(CamerasSilentError, match=r"rgb: lost.*thermal: lost") as caught:
        next(rig.source)
    assert caught.value.faults.keys() == {"rgb", "thermal"}


def test_a_camera_that_cannot_be_opened_is_an_error_at_the_start() -> None:
    with pytest.raises(CameraError, match="no such device"):
        make_rig(thermal=[Trouble("lost", 0, 9)])
    rig = make_rig(thermal=[Trouble("lost", 0, 3)], options="&start=wait")
    rig.source.readers["rgb"].open()
    pairs = rig.run(8)
    assert pairs[0].thermal_fault == "lost"
    assert pairs[-1].thermal is not None


def test_a_failed_start_closes_what_was_opened() -> None:
    rig = make_rig()
    rig.cameras["thermal"].troubles = [Trouble("lost", 0, 9)]
    with pytest.raises(CameraError):
        CameraSource(
            "camera:?rgb=v4l2:///dev/fake0&thermal=v4l2:///dev/fake1",
            clock=rig.clock,
            opener=lambda address: rig.cameras[address.role].open(),
        )
    assert rig.cameras["rgb"].open_devices == 1, "that of the rig alone"


def test_covered_needs_some_frames_in_a_row() -> None:
    rig = make_rig(rgb=[Trouble("covered", 2, 2.1)], limits=HealthLimits(covered_after=8))
    assert all(pair.rgb is not None for pair in rig.run(4))


def test_events_are_bounded() -> None:
    rig = make_rig(rgb=[Trouble("black", at / 5, at / 5 + 0.1) for at in range(2, 250)])
    rig.run(52, lambda pair, now_ns: None)
    watch = rig.source.hub.watch("rgb")
    assert len(watch.events) == 200
    assert watch.counts["black"] > 200


def test_routes_follow_the_faults_and_no_force_can_fuse_what_is_not_there(toy_fusion: Path) -> None:
    rig = make_rig(
        rgb=[Trouble("lost", 6, 8)], thermal=[Trouble("ffc", 2, 4)], rgb_extra=SIZE, thermal_extra=SIZE
    )
    routes: dict[str | None, set[tuple[str, str]]] = {}
    with load(str(toy_fusion), device="null") as detector:

        def answer(pair: FramePair, now_ns: int) -> None:
            result = detector(pair)
            if now_ns < START_NS + S:
                return
            fault = pair.rgb_fault or pair.thermal_fault
            routes.setdefault(fault, set()).add((result.route.value, result.reason.value))
            if fault == "ffc":
                assert result.signals.thermal_health == "missing (ffc)"
                with pytest.raises(ConfigError, match="thermal frame is missing"):
                    detector(pair, force="fuse")

        rig.run(11, answer)
    assert routes["ffc"] == {("rgb", "thermal-lost")}
    assert routes["lost"] == {("thermal", "rgb-lost")}
    assert routes[None].isdisjoint(routes["ffc"] | routes["lost"])


def test_a_closed_source_says_so_and_describes_itself_as_json() -> None:
    rig = make_rig()
    rig.run(1)
    described = json.loads(json.dumps(rig.source.describe()))
    assert described["kind"] == "camera"
    assert described["thermal_unit"] == "centikelvin"
    assert described["cameras"]["rgb"]["health"] == "ok"
    assert described["frames"] is None
    rig.source.close()
    rig.source.close()
    with pytest.raises(StateError, match="closed"):
        next(rig.source)
    with pytest.raises(StateError, match="closed"):
        rig.source.poll()
    assert all(camera.open_devices == 0 for camera in rig.cameras.values())


def test_live_cameras_go_on_for_ever_and_have_no_number_of_passes() -> None:
    opened: list[str] = []

    def opener(address: CameraAddress) -> FakeDevice:
        opened.append(address.text)
        return FakeCamera("rgb", 30, FakeClock(START_NS)).open()

    with pytest.raises(ConfigError, match="goes on until it is closed; expected 0 or 1, found 2"):
        CameraSource("v4l2:///dev/fake0", loop=2, opener=opener)
    assert opened == []
    for loop in (0, 1):
        with CameraSource("v4l2:///dev/fake0", loop=loop, opener=opener) as source:
            assert source.length is None
            assert len(list(islice(source, 30))) == 30


def test_the_record_of_a_run_says_what_became_of_every_frame(
    toy_fusion: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = make_rig(thermal=[Trouble("lost", 1, 2)])
    pairs = rig.run(4)
    source = MemorySource([pair for pair in pairs if pair.rgb is not None and pair.thermal is not None][:3])
    plain = source.describe()
    monkeypatch.setattr(source, "describe", lambda: {**plain, **rig.source.describe(), "loop": 1})
    with load(str(toy_fusion), device="cpu", threads=1) as detector, source:
        record = record_run(detector, source, RunPlan(), asked_engine="toy-fusion")
    write_record(record, tmp_path / "record.json")
    back = load_record(tmp_path / "record.json")
    assert back.source.cameras == record.source.cameras
    assert back.source.cameras is not None
    assert back.source.cameras["cameras"]["thermal"]["faults"] == {"lost": 1}
    ledger = back.source.cameras["pairing"]["frames"]["rgb"]
    assert ledger["offered"] == ledger["given"] + ledger["waiting"] + sum(ledger["dropped"].values())
