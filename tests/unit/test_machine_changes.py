"""What happened during a run: each kind of change, what spoils a run, and what is only noted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from machine_trees import KINDS, MachineTree, failing

from edge_sdk.clock import FakeClock
from edge_sdk.machine_state.changes import (
    LIMITS,
    MODE,
    NOTE,
    THROTTLED,
    UNLOCKED,
    StateFinding,
    changes,
    sees_throttling,
)
from edge_sdk.machine_state.reader import MachineReader
from edge_sdk.machine_state.state import MachineSnapshot, PowerMode, RunState
from edge_sdk.machine_state.watch import StateWatch

Change = Callable[[MachineTree], object]
CPU = "sys/devices/system/cpu"


def around(kind: str, root: Path, change: Change, *, locked: bool = False, seconds: float = 10) -> RunState:
    """Builds a machine, reads it, changes it, and reads it again some seconds later."""
    tree = KINDS[kind](root)
    if locked:
        tree.lock()
    clock = FakeClock()
    reader = MachineReader(root, clock=clock)
    before = reader.snapshot()
    change(tree)
    clock.advance_ns(round(seconds * 1e9))
    return RunState(before, reader.snapshot())


def only(state: RunState) -> StateFinding:
    (finding,) = changes(state)
    return finding


def test_a_machine_that_stayed_as_it_was_has_no_finding(tmp_path: Path) -> None:
    for kind in KINDS:
        assert changes(around(kind, tmp_path / kind, lambda tree: None)) == (), kind


def test_a_clock_held_back_by_heat_is_throttling(tmp_path: Path) -> None:
    finding = only(around("orin-nx", tmp_path, lambda tree: tree.cooling(1, "cpufreq-cpu0", 3)))
    assert (finding.kind, finding.spoils) == (THROTTLED, True)
    assert finding.text == "throttled by heat: cooling device cpufreq-cpu0 at 3 of 10."


def test_a_faster_fan_is_nothing_and_an_unknown_device_a_note(tmp_path: Path) -> None:
    assert changes(around("orin-nx", tmp_path / "a", lambda tree: tree.cooling(0, "pwm-fan", 4))) == ()
    finding = only(around("orin-nx", tmp_path / "b", lambda tree: tree.cooling(7, "hot-surface-alert", 1, 0)))
    assert (finding.kind, finding.spoils) == (NOTE, False)
    assert "hot-surface-alert at 1; what it does is not known here" in finding.text


@pytest.mark.parametrize(
    ("counts", "kind", "words"),
    [
        ((1, 4, 120), THROTTLED, "OC1 (under-voltage) rose by 1 during the run"),
        ((0, 9, 120), THROTTLED, "OC2 (average over-current) rose by 5 during the run"),
        ((0, 4, 420), NOTE, "OC3 (instantaneous over-current) rose by 300, 30 a second; noted, not judged"),
        ((0, 4, 3), NOTE, "fell from 120 to 3: it was reset"),
    ],
)
def test_over_current_is_judged_by_what_it_rose(
    counts: tuple[int, ...], kind: str, words: str, tmp_path: Path
) -> None:
    """Issue 19: the counters run since boot, and OC3 rises in normal work."""
    finding = only(around("agx-orin-jp6", tmp_path, lambda tree: tree.over_current(*counts)))
    assert finding.kind == kind
    assert words in finding.text


def test_a_hot_package_of_a_desktop_is_throttling(tmp_path: Path) -> None:
    path = f"{CPU}/cpu2/thermal_throttle/package_throttle_count"
    finding = only(around("desktop", tmp_path, lambda tree: tree.write(path, 9)))
    assert finding.text == "throttled: cpu thermal (CPU too hot) rose by 2 during the run."


def test_a_cpu_slower_than_asked_is_throttling_where_it_is_measured(tmp_path: Path) -> None:
    path = f"{CPU}/cpufreq/policy0/cpuinfo_cur_freq"
    finding = only(around("orin-nx", tmp_path / "a", lambda tree: tree.write(path, 1_000_000)))
    assert finding.text == "throttled: cpu0-3 ran at 1000 MHz, asked for 1344 MHz."
    near = around("orin-nx", tmp_path / "b", lambda tree: tree.write(path, 1_300_000))
    assert changes(near) == ()
    assert changes(around("desktop", tmp_path / "c", lambda tree: tree.write(path, 800_000))) == ()


def test_a_gpu_below_its_lower_limit_is_throttling(tmp_path: Path) -> None:
    path = "sys/class/devfreq/17000000.gpu/cur_freq"
    state = around("orin-nx", tmp_path / "a", lambda tree: tree.write(path, 510_000_000), locked=True)
    assert only(state).text == "throttled: gpu ran at 510 MHz, asked for 918 MHz."
    gated = around("orin-nx", tmp_path / "b", lambda tree: tree.write(path, 0), locked=True)
    assert changes(gated) == ()


def test_another_power_mode_is_a_change_by_name_id_or_file(tmp_path: Path) -> None:
    state = around("orin-nano", tmp_path, lambda tree: tree.write("var/lib/nvpmodel/status", "pmode:0001"))
    finding = only(state)
    assert finding.kind == MODE
    assert "from 15W (id 0, nvpmodel_p3767_0003.conf) to 7W (id 1, nvpmodel_p3767_0003.conf)" in finding.text
    mode = state.before.power_mode
    for other in (replace(mode, conf="nvpmodel_p3767_0003_super.conf"), replace(mode, id=1)):
        changed = RunState(state.before, replace(state.before, power_mode=other))
        assert only(changed).kind == MODE
    renamed = RunState(state.before, replace(state.before, power_mode=replace(mode, name="mode_15w")))
    assert changes(renamed) == ()


def test_a_mode_that_cannot_be_read_afterwards_is_a_note(tmp_path: Path) -> None:
    state = around("orin-nano", tmp_path, lambda tree: None)
    finding = only(RunState(state.before, replace(state.before, power_mode=PowerMode(conf="x"))))
    assert (finding.kind, "could not be read after the run" in finding.text) == (NOTE, True)


def test_a_lost_lock_is_found_clock_by_clock(tmp_path: Path) -> None:
    """nvpmodel and `systemctl isolate` undo jetson_clocks in silence."""
    path = f"{CPU}/cpufreq/policy4/scaling_min_freq"
    finding = only(
        around("agx-orin-jp6", tmp_path / "a", lambda tree: tree.write(path, 729_600), locked=True)
    )
    assert (finding.kind, finding.text) == (UNLOCKED, "the clock lock of cpu4-7 was lost during the run.")
    emc = "sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked"
    finding = only(around("agx-orin-jp6", tmp_path / "b", lambda tree: tree.write(emc, 0), locked=True))
    assert finding.text == "the clock lock of emc was lost during the run."
    idle = f"{CPU}/cpu3/cpuidle/state1/disable"
    finding = only(around("agx-orin-jp6", tmp_path / "c", lambda tree: tree.write(idle, 0), locked=True))
    assert (finding.kind, "deep idle states" in finding.text) == (UNLOCKED, True)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (
            f"{CPU}/cpufreq/policy0/scaling_max_freq",
            1_036_800,
            "cpu0-3 was changed during the run: upper limit from",
        ),
        (f"{CPU}/cpufreq/policy0/scaling_governor", "performance", "governor from schedutil to performance"),
        ("sys/kernel/nvpmodel_clk_cap/emc", 665_600_000, "cap from 2133 MHz to 666 MHz"),
        (f"{CPU}/online", "0-3", "the CPUs online changed during the run, from 0-5 to 0-3"),
    ],
)
def test_limits_that_moved_spoil_a_run(path: str, value: str | int, words: str, tmp_path: Path) -> None:
    finding = only(around("orin-nx", tmp_path, lambda tree: tree.write(path, value)))
    assert (finding.kind, finding.spoils) == (LIMITS, True)
    assert words in finding.text


def test_clocks_locked_in_mid_run_moved(tmp_path: Path) -> None:
    kinds = {finding.kind for finding in changes(around("agx-orin-jp6", tmp_path, MachineTree.lock))}
    assert kinds == {LIMITS}


def test_heat_at_the_passive_trip_is_a_note(tmp_path: Path) -> None:
    zone = "sys/class/thermal/thermal_zone3/temp"
    finding = only(around("orin-nx", tmp_path, lambda tree: tree.write(zone, 95_500)))
    assert (finding.kind, finding.text) == (
        NOTE,
        "hottest zone 95.5 °C; clocks are held back from 95.0 °C on.",
    )


def test_the_worst_comes_first(tmp_path: Path) -> None:
    found = changes(around("agx-orin-jp6", tmp_path, lambda tree: tree.over_current(0, 5, 130)))
    assert [finding.kind for finding in found] == [THROTTLED, NOTE]


def test_a_throttle_between_the_snapshots_is_seen_by_the_watch(tmp_path: Path) -> None:
    tree = KINDS["orin-nx"](tmp_path)
    clock = FakeClock()
    reader = MachineReader(tmp_path, clock=clock)
    watch, before = StateWatch(reader), reader.snapshot()
    for state, khz in ((0, 1_344_000), (4, 700_000), (1, 900_000), (0, 1_344_000)):
        tree.cooling(1, "cpufreq-cpu0", state)
        tree.write(f"{CPU}/cpufreq/policy0/cpuinfo_cur_freq", khz)
        watch.take()
    found = changes(RunState(before, reader.snapshot(), watch.columns()))
    assert [finding.text for finding in found] == [
        "throttled by heat: cooling device cpufreq-cpu0 at 4 of 10.",
        "throttled: cpu0-3 ran at 700 MHz, asked for 1344 MHz.",
    ]


def _blind(snapshot: MachineSnapshot, **changed: object) -> str:
    part = replace(snapshot, **changed)  # type: ignore[arg-type]
    return sees_throttling(RunState(snapshot, part))


def test_throttling_that_cannot_be_seen_is_said(tmp_path: Path) -> None:
    KINDS["orin-nx"](tmp_path / "nx")
    KINDS["desktop"](tmp_path / "desktop")
    snapshot = MachineReader(tmp_path / "nx").snapshot()
    assert _blind(snapshot) == ""
    assert _blind(snapshot, cooling=()) == "cooling devices cannot be read here"
    assert _blind(snapshot, counters=()) == "over-current counters cannot be read here"
    unreadable = MachineReader(tmp_path / "nx", opener=failing({"oc1_event_cnt": 5})).snapshot()
    assert _blind(snapshot, counters=unreadable.counters) == "over-current counters cannot be read here"
    fan = tuple(device for device in snapshot.cooling if device.name == "pwm-fan")
    assert _blind(snapshot, cooling=fan) == "cooling devices cannot be read here"
    desktop = MachineReader(tmp_path / "desktop").snapshot()
    assert _blind(desktop, cooling=()) == ""
    assert "neither cooling devices nor" in _blind(desktop, cooling=(), counters=())
