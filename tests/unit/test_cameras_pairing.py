"""Pairs by capture time: nearest within a limit, each frame once, every frame accounted for."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sdk.errors import ConfigError
from edge_sdk.sources.cameras.device import CameraFrame
from edge_sdk.sources.cameras.pairing import Paired, Pairing, default_limit_ns

MS = 1_000_000
PICTURE = np.zeros((2, 2), np.uint16)


def frame(at_ms: float) -> CameraFrame:
    return CameraFrame(PICTURE, round(at_ms * MS), round(at_ms * MS))


def feed(
    pairing: Pairing, rgb: list[float], thermal: list[float], arrive_later_ms: float = 0
) -> list[Paired]:
    """Offers both streams in the order of their arrival and takes what is ready each time."""
    events = [(at, "rgb", at) for at in rgb] + [(at + arrive_later_ms, "thermal", at) for at in thermal]
    taken = []
    for _, camera, at in sorted(events):
        assert pairing.offer(camera, frame(at))
        while (paired := pairing.take()) is not None:
            taken.append(paired)
    return taken


def assert_accounted(pairing: Pairing, camera: str, sent: int) -> None:
    ledger = pairing.ledger(camera)
    assert ledger["offered"] == sent
    assert sent == ledger["given"] + ledger["waiting"] + sum(ledger["dropped"].values()), ledger


def test_nearest_frames_of_unlike_rates_are_paired() -> None:
    pairing = Pairing()
    rgb = [index * 1000 / 30 for index in range(60)]
    thermal = [5 + index * 1000 / 9 for index in range(18)]
    taken = feed(pairing, rgb, thermal)
    assert len(taken) == 18
    for paired in taken:
        assert paired.rgb is not None
        assert paired.thermal is not None
        nearest = min(rgb, key=lambda at, seen=paired.thermal.captured_ns / MS: abs(at - seen))  # type: ignore[misc]
        assert paired.rgb.captured_ns == round(nearest * MS)
    assert pairing.ledger("rgb")["dropped"].keys() == {"rate"}
    assert_accounted(pairing, "rgb", 60)
    assert_accounted(pairing, "thermal", 18)


@pytest.mark.parametrize("later_ms", [0, 40, 150])
def test_a_thermal_camera_that_arrives_late_still_meets_its_moment(later_ms: float) -> None:
    rgb = [index * 1000 / 30 for index in range(90)]
    thermal = [2 + index * 1000 / 9 for index in range(26)]
    taken = feed(Pairing(), rgb, thermal, arrive_later_ms=later_ms)
    assert len(taken) >= 24
    assert all(abs(paired.skew_ns or 0) < 17 * MS for paired in taken)


def test_frames_of_another_moment_are_not_paired() -> None:
    pairing = Pairing(limit_ns=20 * MS)
    assert feed(pairing, [0, 100, 200, 300], [50, 150, 250]) == []
    assert pairing.ledger("thermal")["dropped"] == {"no-partner": 3}
    assert_accounted(pairing, "rgb", 4)


def test_each_frame_is_given_once() -> None:
    pairing = Pairing(limit_ns=60 * MS)
    taken = feed(pairing, [0, 33, 66, 100, 133], [10, 12, 14, 130])
    seen = [id(paired.thermal) for paired in taken] + [id(paired.rgb) for paired in taken]
    assert len(seen) == len(set(seen))


def test_the_skew_has_quantiles() -> None:
    pairing = Pairing(limit_ns=50 * MS)
    assert pairing.skew_quantile_ms(0.5) is None
    feed(pairing, [index * 100.0 for index in range(20)], [index * 100.0 + index for index in range(20)])
    assert pairing.skew_quantile_ms(0.5) == pytest.approx(9, abs=1)
    assert pairing.status()["skew_ms"]["p100"] == pytest.approx(18, abs=1)


@pytest.mark.parametrize(
    ("periods_ms", "limit_ms"),
    [((33.3, 111.1), 25), ((111.1, 111.1), 60), ((16.7, 33.3), 12.5), ((None, None), 40)],
)
def test_the_limit_follows_the_rates(periods_ms: tuple[float | None, ...], limit_ms: float) -> None:
    periods = [None if period is None else round(period * MS) for period in periods_ms]
    assert default_limit_ns(periods) / MS == pytest.approx(limit_ms, abs=0.1)


def test_latest_keeps_only_the_newest_pair() -> None:
    pairing = Pairing(policy="latest", limit_ns=10 * MS)
    for index in range(10):
        pairing.offer("rgb", frame(index * 100))
        pairing.offer("thermal", frame(index * 100 + 1))
    paired = pairing.take()
    assert paired is not None
    assert paired.rgb is not None
    assert paired.rgb.captured_ns == 900 * MS
    assert pairing.take() is None
    assert pairing.ledger("rgb")["dropped"] == {"superseded": 9}
    assert_accounted(pairing, "rgb", 10)
    assert_accounted(pairing, "thermal", 10)


def test_drop_oldest_keeps_a_few() -> None:
    pairing = Pairing(policy="drop-oldest", queue=3, limit_ns=10 * MS)
    for index in range(10):
        pairing.offer("rgb", frame(index * 100))
        pairing.offer("thermal", frame(index * 100))
    times = []
    while (paired := pairing.take()) is not None:
        assert paired.rgb is not None
        times.append(paired.rgb.captured_ns // MS)
    assert times == [700, 800, 900]
    assert_accounted(pairing, "thermal", 10)


def test_block_refuses_and_loses_nothing() -> None:
    pairing = Pairing(policy="block", queue=2, depth=3, limit_ns=10 * MS)
    sent = {"rgb": 0, "thermal": 0}
    taken = 0
    while sent["thermal"] < 50:
        for camera in ("rgb", "thermal"):
            sent[camera] += pairing.offer(camera, frame(sent[camera] * 100))
        if pairing.full:
            taken += pairing.take() is not None
    while pairing.take() is not None:
        taken += 1
    assert taken >= 49
    assert pairing.ledger("rgb")["dropped"] == {}


def test_a_camera_at_fault_lets_the_other_go_on_alone() -> None:
    pairing = Pairing(limit_ns=20 * MS)
    feed(pairing, [0, 100], [0, 100])
    pairing.set_fault("thermal", "ffc")
    pairing.offer("rgb", frame(200))
    paired = pairing.take()
    assert paired is not None
    assert paired.thermal is None
    assert paired.why == "ffc"
    pairing.offer("thermal", frame(300))
    assert pairing.take() is None, "both are well: they wait for each other again"
    pairing.offer("rgb", frame(301))
    paired = pairing.take()
    assert paired is not None
    assert paired.thermal is not None


def test_a_thermal_frame_from_before_a_fault_meets_no_later_rgb_frame() -> None:
    pairing = Pairing(limit_ns=60 * MS)
    pairing.offer("thermal", frame(1000))
    pairing.set_fault("thermal", "lost")
    pairing.offer("rgb", frame(1010))
    paired = pairing.take()
    assert paired is not None
    assert paired.thermal is None
    assert pairing.ledger("thermal")["dropped"] == {"no-partner": 1}


def test_one_camera_alone_needs_no_partner() -> None:
    pairing = Pairing(cameras=("thermal",))
    pairing.offer("thermal", frame(1))
    paired = pairing.take()
    assert paired is not None
    assert paired.rgb is None
    assert paired.why is None


def test_what_is_at_its_end_is_still_paired() -> None:
    pairing = Pairing(policy="block", queue=100, depth=100, limit_ns=20 * MS)
    for index in range(5):
        pairing.offer("thermal", frame(index * 100))
    pairing.end("thermal")
    for index in range(8):
        pairing.offer("rgb", frame(index * 100))
    taken = []
    while (paired := pairing.take()) is not None:
        taken.append(paired)
    assert [paired.thermal is not None for paired in taken] == [True] * 5 + [False] * 3
    assert taken[-1].why == "ended"


@pytest.mark.parametrize(
    ("options", "words"),
    [({"policy": "lates"}, "Did you mean 'latest'"), ({"queue": 0}, "queue"), ({"depth": 0}, "depth")],
)
def test_options_are_checked(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Pairing(**options)  # type: ignore[arg-type]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["rgb", "thermal", "take", "fault", "drop", "end"]),
            st.sampled_from(["rgb", "thermal"]),
            st.integers(1, 120),
        ),
        max_size=150,
    ),
    st.sampled_from(["latest", "drop-oldest", "block"]),
)
def test_every_frame_is_accounted_for_and_none_grows_old(
    events: list[tuple[str, str, int]], policy: str
) -> None:
    pairing = Pairing(policy=policy, queue=3, depth=5, limit_ns=40 * MS)
    now_ms = {"rgb": 0, "thermal": 0}
    sent = {"rgb": 0, "thermal": 0}
    taken: list[Paired] = []
    for kind, camera, step_ms in events:
        if kind in sent:
            now_ms[kind] += step_ms
            sent[kind] += pairing.offer(kind, frame(now_ms[kind]))
        elif kind == "take":
            paired = pairing.take()
            taken += [] if paired is None else [paired]
        elif kind == "fault":
            pairing.set_fault(camera, "lost" if step_ms % 2 else None)
        elif kind == "drop":
            pairing.drop(camera, "repeat")
            sent[camera] += 1
        for name, count in sent.items():
            assert_accounted(pairing, name, count)
            assert pairing.ledger(name)["waiting"] <= 5 + 3
    for paired in taken:
        assert paired.skew_ns is None or abs(paired.skew_ns) <= 40 * MS
        assert paired.rgb is not None or paired.thermal is not None
    for camera in sent:
        times = [getattr(paired, camera).captured_ns for paired in taken if getattr(paired, camera)]
        assert all(a < b for a, b in pairwise(times)) or policy == "block" or len(times) < 2
