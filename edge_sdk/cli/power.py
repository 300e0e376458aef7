"""`edge-sdk power`: read the rails once, log them, or condense a recording."""

from __future__ import annotations

import datetime
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from edge_sdk.cli.options import METER, ROOT
from edge_sdk.cli.outputs import put_json, refuse_unwritable, say_where
from edge_sdk.cli.streams import tables
from edge_sdk.ending import Ending, StoppedBySignal
from edge_sdk.errors import ConfigError, MeterError, MeterNotFoundError
from edge_sdk.report.rounding import rounded

if TYPE_CHECKING:
    from edge_sdk.power import MeterFacts
    from edge_sdk.stats import Energy

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True)

_JSON = typer.Option(None, "--json", metavar="FILE", help="Write the figures here too.")


@app.command("read")
def read_once(root: Path = ROOT, meter: str = METER, json_file: Path | None = _JSON) -> None:
    """Reads every rail once, adds up the module's power by board, and says what was not read and why."""
    from edge_sdk.clock import MonotonicClock
    from edge_sdk.devices.meters import find_meter
    from edge_sdk.meter.base import RailReading
    from edge_sdk.meter.files import Tree

    refuse_unwritable(json_file)
    if not root.is_dir():
        raise ConfigError(f"--root {root}: expected a folder, found none")
    tree = Tree(root)
    try:
        opened = find_meter(meter, tree, MonotonicClock())
    except MeterNotFoundError as error:
        put_json(json_file, _nothing_read(error, tree))
        raise
    try:
        facts = opened.facts
        if any(rail.sensor.startswith("rapl") for rail in facts.rails):
            MonotonicClock().sleep_until_ns(
                MonotonicClock().now_ns() + 200_000_000
            )  # a counter needs two looks
        reading = opened.read()
    finally:
        opened.close()
    total_w = reading.sum_w(facts.total_rails)
    skipped = (*facts.skipped, *reading.skipped)
    put_json(
        json_file,
        rounded(
            {
                "board": facts.board,
                "meter": facts.meter,
                "scope": facts.scope,
                "rails": {
                    rail.label: {"v": values.v, "a": values.a, "w": values.w}
                    for rail in facts.rails
                    for values in [reading.rails.get(rail.label, RailReading())]
                },
                "module_w": total_w if facts.scope == "module" else None,
                "module_rails": list(facts.total_rails) if facts.scope == "module" else [],
                "total_w": total_w,
                "total_rails": list(facts.total_rails),
                "skipped": [{"channel": item.channel, "why": item.why} for item in skipped],
                "origin": facts.origin,
                "notes": [text for text in (facts.caveat, facts.note) if text],
                "tried": [list(pair) for pair in facts.tried],
                "read_ms": reading.read_ns / 1e6,
            }
        ),
    )
    table = Table("Rail", "V", "A", "W", "In the total", "Sensor", title=_title(facts))
    for rail in facts.rails:
        values = reading.rails.get(rail.label)
        cells = [_number(value) for value in (values.v, values.a, values.w)] if values else ["-"] * 3
        table.add_row(escape(rail.label), *cells, "yes" if rail.in_total else "", escape(rail.sensor))
    console = tables(json_file)
    console.print(table)
    total = "unknown" if total_w is None else f"{total_w:.3f} W ({' + '.join(facts.total_rails)})"
    console.print(f"{facts.scope}: {total}", markup=False)
    _print_notes(console, facts, [f"read in {reading.read_ns / 1e6:.2f} ms"])
    for item in skipped:
        console.print(f"not read: {item.channel}: {item.why}", markup=False, soft_wrap=True)


@app.command("log")
def log(
    seconds: float = typer.Option(10.0, min=0.1, help="How long."),
    hz: float = typer.Option(10.0, help="Samples a second."),
    root: Path = ROOT,
    meter: str = METER,
    json_file: Path | None = _JSON,
) -> None:
    """Samples power for some time and gives mean and energy; the file can be replayed."""
    from edge_sdk.clock import MonotonicClock
    from edge_sdk.devices import open_meter
    from edge_sdk.meter.recording import log_json

    refuse_unwritable(json_file)
    if not root.is_dir():
        raise ConfigError(f"--root {root}: expected a folder, found none")
    clock, ending = MonotonicClock(), Ending()
    energy, why = None, ""
    with ending.listening(), open_meter(meter, root=root, hz=hz, clock=clock, keep_s=None) as sampler:
        with sampler.window("log") as window, ending.running(), suppress(StoppedBySignal), ending.waiting:
            clock.sleep_until_ns(clock.now_ns() + round(seconds * 1e9))
        facts, trace, cost = sampler.facts, sampler.trace(), sampler.cpu_share
        created = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        put_json(json_file, log_json(facts, trace, created))
        ending.saved()
    try:
        energy = window.energy
    except MeterError as error:
        why = str(error)
    console = tables(json_file)
    table = Table("Rail", "Mean W", "In the total", title=_title(facts))
    for rail in facts.rails:
        column = trace.watts[rail.label]
        there = column[column == column]  # noqa: PLR0124 - NaN is not itself
        table.add_row(
            escape(rail.label),
            _number(float(there.mean()) if len(there) else None),
            "yes" if rail.in_total else "",
        )
    console.print(table)
    console.print(_energy_line(energy, why), markup=False, soft_wrap=True)
    rate = trace.rate_hz()
    achieved = f"{len(trace)} samples, {rate:.1f} a second" if rate else f"{len(trace)} samples"
    spent = f", {100 * cost:.2f} % of a core" if cost is not None else ""
    _print_notes(console, facts, [achieved + spent])
    say_where(console, "Log", json_file)
    if ending.signal:
        console.print(f"Ended early by {signal.Signals(ending.signal).name}.", style="yellow")
        raise typer.Exit(ending.exit_status)


@app.command("replay")
def replay(
    file: Path = typer.Argument(help="A power log, a run record, a tegrastats log, or a wall meter's CSV."),
    interval_ms: float | None = typer.Option(
        None, min=1, help="Between lines of a tegrastats log; default: its timestamps, or 1000."
    ),
    json_file: Path | None = _JSON,
) -> None:
    """Condenses a recording of power: rails, module total, mean, energy, and lines that were dropped."""
    from edge_sdk.meter.recording import load_recording, replay_json

    refuse_unwritable(json_file)
    recording = load_recording(file, interval_s=None if interval_ms is None else interval_ms / 1e3)
    figures = replay_json(recording)
    put_json(json_file, rounded(figures))
    facts = recording.facts
    table = Table("Rail", "Mean W", "In the total", title=_title(facts))
    for label, means in figures["rails"].items():
        total = "yes" if label in facts.total_rails else ""
        table.add_row(escape(label), _number(means["mean_w"]), total)
    console = tables(json_file)
    console.print(table)
    mean_w = figures["module_mean_w"]
    shown = "unknown" if mean_w is None else f"{mean_w:.3f} W ({' + '.join(facts.total_rails)})"
    console.print(f"{facts.scope}, mean: {shown}", markup=False, soft_wrap=True)
    energy, why = recording.energy()
    console.print(_energy_line(energy, why), markup=False, soft_wrap=True)
    console.print(f"{figures['samples']} samples over {figures['duration_s']:.3f} s", highlight=False)
    for note in figures["notes"]:
        console.print(f"note: {note}", markup=False, soft_wrap=True)
    for item in figures["dropped"]:
        console.print(f"dropped line {item['line']}: {item['why']}", markup=False, soft_wrap=True)


def _title(facts: MeterFacts) -> str:
    caveat = f" - {facts.caveat}" if facts.caveat else ""
    return escape(f"{facts.board}, {facts.meter}{caveat}")


def _energy_line(energy: Energy | None, why: str) -> str:
    if energy is None:
        return f"energy: none ({why})"
    doubt = f"; low confidence: {energy.low_confidence}" if energy.low_confidence else ""
    return (
        f"energy: {energy.corrected_j:.3f} J, standard uncertainty {energy.sigma_j:.3f} J, over "
        f"{energy.duration_s:.3f} s ({energy.uncorrected_j:.3f} J without the correction for lag){doubt}"
    )


def _print_notes(console: Console, facts: MeterFacts, more: list[str]) -> None:
    tried = [f"tried {name}: {why}" for name, why in facts.tried]
    for text in (facts.caveat, facts.note, *tried, *more):
        if text:
            console.print(f"note: {text}", markup=False, soft_wrap=True)


def _nothing_read(error: MeterNotFoundError, tree: Any) -> dict[str, Any]:
    from edge_sdk.meter.boards import identify

    return {
        "board": identify(tree).model,
        "meter": None,
        "scope": None,
        "rails": {},
        "module_w": None,
        "module_rails": [],
        "skipped": [{"channel": name, "why": why} for name, why in error.tried],
        "notes": ["no power sensor"],
    }


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
