"""Power from a running `tegrastats`, where sysfs cannot be read but the tool may be run."""

from __future__ import annotations

import shutil
from dataclasses import replace

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.errors import MeterError
from edge_sdk.meter.base import RailReading, Reading, Unavailable
from edge_sdk.meter.boards import Board, board_of_labels, identify
from edge_sdk.meter.child import LineChild
from edge_sdk.meter.files import Tree
from edge_sdk.meter.ina3221 import L4T_TAU_S, ina3221_rail
from edge_sdk.meter.tegrastats_line import parse_line
from edge_sdk.power import MeterFacts, RailFacts

__all__ = ["TegrastatsMeter", "rails_behind_tegrastats"]

_TAU_SHARE = 0.3  # tegrastats does not tell how its sensors average, nor when it read them
_FIRST_LINE_S = 5.0
_STALE_NS = 5_000_000_000


class TegrastatsMeter:
    """Starts tegrastats and takes the power now of each rail from each of its lines."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        program: str = "tegrastats",
        interval_ms: int = 100,
        tree: Tree | None = None,
        first_line_s: float = _FIRST_LINE_S,
    ) -> None:
        """Starts the program and waits for its first line.

        Arguments:
            program: name or path of tegrastats.
            interval_ms: between lines.
            tree: where the board is looked up.

        Raises:
            Unavailable: no such program, no line from it, or no rail in the line.
        """
        self._clock = clock or MonotonicClock()
        found = shutil.which(program)
        if found is None:
            raise Unavailable(f"{program} is not in PATH")
        self._child = LineChild([found, "--interval", str(interval_ms)], self._clock)
        _, line = self._child.wait_for_line(first_line_s)
        rails_mw = parse_line(line).rails_mw
        if not rails_mw:
            self._child.close()
            raise Unavailable("its lines hold no rails: JetPack 5 shows them to root only")
        board = identify(tree or Tree())
        rails, note = rails_behind_tegrastats(dict(rails_mw), board)
        self._facts = MeterFacts(
            meter="tegrastats",
            board=board.model,
            scope="module" if any(rail.in_total for rail in rails) else "rails",
            rails=rails,
            note=note,
        )

    @property
    def facts(self) -> MeterFacts:
        """See `Meter.facts`."""
        return self._facts

    def read(self) -> Reading:
        """Returns the latest line at the moment it came; it does not wait for a new one."""
        latest = self._child.latest
        if latest is None or self._clock.now_ns() - latest[0] > _STALE_NS:
            raise MeterError("tegrastats prints no more lines")
        at_ns, line = latest
        rails = {label: RailReading(w=mw / 1e3) for label, mw in parse_line(line).rails_mw.items()}
        return Reading(at_ns, at_ns, rails)

    def close(self) -> None:
        """Ends tegrastats."""
        self._child.close()


def rails_behind_tegrastats(rails_mw: dict[str, float], board: Board) -> tuple[tuple[RailFacts, ...], str]:
    """Describes rails that tegrastats printed: the INA3221's errors, at voltages that it does not print.

    Arguments:
        rails_mw: power of each rail, for the size of a step.
        board: whose rails they are; one without a family is guessed from the labels.
    """
    if not board.family:
        board = replace(board_of_labels(set(rails_mw)), model=board.model)
    total, note = board.total_of(set(rails_mw))
    rails = []
    for label, milliwatts in rails_mw.items():
        volts = 20.0 if label in ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN") else 5.0
        facts = ina3221_rail(
            label, "ina3221 by tegrastats", volts, milliwatts / 1e3 / volts, board.shunt_uohm,
            L4T_TAU_S, _TAU_SHARE,
        )  # fmt: skip
        rails.append(replace(facts, in_total=label in total))
    return tuple(rails), note
