"""One reader of a machine: whole snapshots, and the small samples of a watch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.machine_state.clocks import clocks_of, cpu_domains, gpu_domain
from edge_sdk.machine_state.commands import Runner, runner_for
from edge_sdk.machine_state.heat import cooling_devices, counters, fans, hottest_c, zones
from edge_sdk.machine_state.identity import board_of
from edge_sdk.machine_state.memory import memory_of
from edge_sdk.machine_state.power_mode import power_mode_of
from edge_sdk.machine_state.state import ClockDomain, CoolingDevice, MachineSnapshot, Memory
from edge_sdk.machine_state.tree import Opener, Tree, read_file

__all__ = ["MachineReader", "Sample"]

_GPU_PATIENCE_NS = 2_000_000_000
_GPU_PERIOD_NS = 250_000_000


@dataclass(frozen=True)
class Sample:
    """What a watch keeps of one moment; see `WatchColumns`."""

    at_ns: int
    read_ns: int
    memory: Memory
    hottest_c: float | None
    cooling: tuple[CoolingDevice, ...]
    domains: tuple[ClockDomain, ...]


class MachineReader:
    """Reads the state of this machine, or of a tree that was taken from another one.

    Nothing is changed and nothing needs root; a snapshot says what root would add. Nothing is kept
    between readings either: devices may appear late or change their numbers.
    """

    def __init__(
        self,
        root: Path | str = "/",
        *,
        run: Runner | None = None,
        opener: Opener = read_file,
        clock: Clock | None = None,
    ) -> None:
        """Prepares to read.

        Arguments:
            root: of the file system.
            run: who is asked for what no file says; by default this machine's tools for its own tree,
                and nobody for another tree.
            opener: reads one file.
            clock: gives snapshots their time, and waits for a GPU that appears late.
        """
        self.root = Path(root)
        self._run = run or runner_for(self.root)
        self._open = opener
        self._clock = clock or MonotonicClock()
        self._gpu_awaited = False

    def snapshot(self) -> MachineSnapshot:
        """Reads everything there is. Never raises: what cannot be read is None, and why is noted."""
        tree = Tree(self.root, self._open)
        board = board_of(tree, self._run)
        if board.jetson:
            self._await_gpu(tree)
        return MachineSnapshot(
            at_ns=self._clock.now_ns(),
            board=board,
            power_mode=power_mode_of(tree, self._run),
            clocks=clocks_of(tree, self._run, board),
            zones=tuple(zones(tree)),
            cooling=tuple(cooling_devices(tree)),
            counters=counters(tree),
            fans=tuple(fans(tree)),
            memory=memory_of(tree),
            needs_root=tuple(tree.needs_root),
            unreadable=tuple(tree.unreadable.items()),
        )

    def sample(self) -> Sample:
        """Reads what may change from second to second, by files alone."""
        at_ns = self._clock.now_ns()
        tree = Tree(self.root, self._open)
        gpu = gpu_domain(tree)
        memory, temp_c = memory_of(tree), hottest_c(tuple(zones(tree, trips=False)))
        cooling, domains = tuple(cooling_devices(tree)), (*cpu_domains(tree), *([gpu] if gpu else []))
        return Sample(at_ns, self._clock.now_ns() - at_ns, memory, temp_c, cooling, domains)

    def _await_gpu(self, tree: Tree) -> None:
        """Gives the GPU's devfreq, which appears some time after boot, two seconds, once."""
        if self._gpu_awaited:
            return
        self._gpu_awaited = True
        deadline_ns = self._clock.now_ns() + _GPU_PATIENCE_NS
        while gpu_domain(tree) is None and (now_ns := self._clock.now_ns()) < deadline_ns:
            self._clock.sleep_until_ns(now_ns + _GPU_PERIOD_NS)
