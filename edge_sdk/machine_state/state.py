"""What was read of a machine at one moment, and over a run: frozen values that a record can hold.

Nothing here names an owner: no host name, user, address or path. None always means "could not be read".
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "Board",
    "ClockDomain",
    "Clocks",
    "CoolingDevice",
    "Fan",
    "MachineSnapshot",
    "Memory",
    "PowerMode",
    "RunState",
    "ThermalZone",
    "ThrottleCounter",
    "WatchColumns",
    "same_mode",
]


@dataclass(frozen=True)
class Board:
    """Which machine and which release.

    Attributes:
        model: as the device tree says it.
        module: the part number of the module, "p3767-0000".
        chip: "tegra234" and the like.
        jetson: it is an NVIDIA Jetson.
        l4t: Jetson Linux release, "36.4.3".
        jetpack: its JetPack; None where the table does not know the release.
        container: the reader itself runs in a container.
    """

    model: str | None = None
    module: str | None = None
    chip: str | None = None
    jetson: bool = False
    l4t: str | None = None
    jetpack: str | None = None
    container: bool = False


@dataclass(frozen=True)
class PowerMode:
    """The power mode of nvpmodel. Ids mean different modes on different boards, so the name counts.

    Attributes:
        name, id: of the mode in force.
        conf: name of the file that defines the modes.
        source: "nvpmodel", "status file" (what nvpmodel last stored; a mode that waits for a reboot
            stands there too), or "" where nothing was found.
        modes: pairs of (id, name) that the file defines.
        default_id: the mode after flashing.
        warnings: what nvpmodel complained of.
    """

    name: str | None = None
    id: int | None = None
    conf: str | None = None
    source: str = ""
    modes: tuple[tuple[int, str], ...] = ()
    default_id: int | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClockDomain:
    """One clock that is scaled as a whole.

    Attributes:
        name: "cpu0-3", "gpu", "emc".
        kind: "cpu", "gpu" or "emc".
        governor: that picks the frequency.
        min_hz, max_hz: the limits in force.
        request_hz: what is asked of the hardware now.
        actual_hz: what the hardware was measured to do; root only.
        lowest_hz, highest_hz: the hardware's own range.
        cap_hz: the power mode's cap.
        override: EMC alone: held at one frequency; root only.
    """

    name: str
    kind: str
    governor: str | None = None
    min_hz: int | None = None
    max_hz: int | None = None
    request_hz: int | None = None
    actual_hz: int | None = None
    lowest_hz: int | None = None
    highest_hz: int | None = None
    cap_hz: int | None = None
    override: bool | None = None

    @property
    def pinned(self) -> bool | None:
        """Whether the clock is held at one frequency."""
        if self.kind == "emc":
            return self.override
        if self.min_hz is None or self.max_hz is None:
            return None
        return self.min_hz == self.max_hz


@dataclass(frozen=True)
class Clocks:
    """All clocks.

    Attributes:
        domains: CPU clusters, then GPU, then EMC; only what was found.
        deep_idle: some CPU may sleep deeper than waiting for an interrupt, which costs time to wake from.
        cpus_online: as the kernel lists them, "0-5".
    """

    domains: tuple[ClockDomain, ...] = ()
    deep_idle: bool | None = None
    cpus_online: str | None = None

    def locked(self, jetson: bool) -> bool | None:
        """Says whether clocks are held as `jetson_clocks` holds them: all that there is, and no deep idle.

        Returns: False when anything known moves, True when everything is known and held, else None.

        Arguments:
            jetson: a Jetson has a GPU and an EMC clock and idle states, so not finding one is not knowing.
        """
        parts = [domain.pinned for domain in self.domains]
        if jetson:
            parts.append(None if self.deep_idle is None else not self.deep_idle)
            kinds = {domain.kind for domain in self.domains}
            parts += [None for kind in ("cpu", "gpu", "emc") if kind not in kinds]
        if False in parts:
            return False
        return None if None in parts or not parts else True


@dataclass(frozen=True)
class ThermalZone:
    """One thermal zone.

    Attributes:
        name: its type.
        temp_c: degrees Celsius, None where it gives none.
        state: "ok", "offline" (powered down: the kernel says "try again", or a value no chip has), or why
            it cannot be read.
        passive_c: where the kernel starts to slow the chip down.
    """

    name: str
    temp_c: float | None = None
    state: str = "ok"
    passive_c: float | None = None


@dataclass(frozen=True)
class CoolingDevice:
    """One thing that can cool: a fan, or a clock that is held back.

    Attributes:
        name: its type.
        state: 0 at rest.
        max_state: the most it can do.
    """

    name: str
    state: int | None = None
    max_state: int | None = None


@dataclass(frozen=True)
class ThrottleCounter:
    """Events since boot that slow the chip down.

    Attributes:
        name: "oc1" (under-voltage), "oc2" (average over-current), "oc3" (instantaneous over-current), or
            "cpu thermal".
        count: since boot; only differences mean something.
        slows: the event is set to throttle; None where not said.
    """

    name: str
    count: int | None = None
    slows: bool | None = None


@dataclass(frozen=True)
class Fan:
    """One fan.

    Attributes:
        name: of its driver.
        pwm: drive, 0 - 255.
        rpm: turns a minute.
    """

    name: str
    pwm: int | None = None
    rpm: int | None = None


@dataclass(frozen=True)
class Memory:
    """Memory in kB, of the machine and of this process.

    Attributes:
        total_kb, available_kb, swap_used_kb: of the machine.
        rss_kb, peak_rss_kb: resident in this process, now and at most since it began.
    """

    total_kb: int | None = None
    available_kb: int | None = None
    swap_used_kb: int | None = None
    rss_kb: int | None = None
    peak_rss_kb: int | None = None


@dataclass(frozen=True)
class MachineSnapshot:
    """Everything read at one moment.

    Attributes:
        at_ns: monotonic clock.
        board, power_mode, clocks, zones, cooling, counters, fans, memory: see their types.
        needs_root: what could not be read without root.
        unreadable: pairs of (what, why) for whatever else is there and gave no value.
    """

    at_ns: int = 0
    board: Board = Board()
    power_mode: PowerMode = PowerMode()
    clocks: Clocks = Clocks()
    zones: tuple[ThermalZone, ...] = ()
    cooling: tuple[CoolingDevice, ...] = ()
    counters: tuple[ThrottleCounter, ...] = ()
    fans: tuple[Fan, ...] = ()
    memory: Memory = Memory()
    needs_root: tuple[str, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()

    @property
    def locked(self) -> bool | None:
        """See `Clocks.locked`."""
        return self.clocks.locked(self.board.jetson)


@dataclass(frozen=True)
class WatchColumns:
    """What a watch saw during a run, one entry a sample in each column.

    Attributes:
        period_s: seconds between samples.
        at_ms: from the first sample, in milliseconds.
        rss_kb: resident memory of this process.
        used_kb: memory of the machine that is not available.
        hottest_c: the hottest zone.
        cooling_peak: each cooling device at its highest state.
        shortfalls: the worst clock below its request, by domain.
        read_ms: the longest time one sample took.
    """

    period_s: float = 1.0
    at_ms: tuple[int, ...] = ()
    rss_kb: tuple[int | None, ...] = ()
    used_kb: tuple[int | None, ...] = ()
    hottest_c: tuple[float | None, ...] = ()
    cooling_peak: tuple[CoolingDevice, ...] = ()
    shortfalls: tuple[ClockDomain, ...] = ()
    read_ms: float = 0.0


@dataclass(frozen=True)
class RunState:
    """The machine before, during and after a run.

    Attributes:
        before, after: snapshots around the run.
        watch: what was seen in between.
    """

    before: MachineSnapshot
    after: MachineSnapshot
    watch: WatchColumns = WatchColumns()


def same_mode(one: str, other: str) -> bool:
    """Says whether two names mean one power mode: `30W`, `30w` and `MODE_30W` do."""
    return one.upper().removeprefix("MODE_") == other.upper().removeprefix("MODE_")
