"""`edge-sdk replay`: a recorded run again, and whether it answers the same."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from edge_sdk.cli.outputs import Results, refuse_unwritable
from edge_sdk.cli.streams import tables
from edge_sdk.ending import Ending

__all__ = ["replay"]

_DIFFERENT = 1


def replay(
    file: Path = typer.Argument(..., help="A recording (.mcap)."),
    engine: str | None = typer.Option(None, help="Another bundle than the recorded one."),
    device: str = typer.Option("auto", help="auto, cpu, cuda or tensorrt."),
    registration: str | None = typer.Option(
        None, help="Instead of the recorded ones: a JSON file, same-view, centred or bundle."
    ),
    threads: int | None = typer.Option(None, min=1, help="CPU threads of a graph."),
    pace: str = typer.Option("fast", help="fast: back to back; recorded: when the pairs once arrived."),
    speed: float = typer.Option(1.0, help="With --pace recorded: so many times as fast, for a load test."),
    loop: int = typer.Option(1, min=1, help="Passes over the recording."),
    json_file: Path | None = typer.Option(None, "--json", help="The new run's record."),
    comparison_file: Path | None = typer.Option(None, "--comparison", help="What was the same, as JSON."),
) -> None:
    """Feeds a recorded run again. Exit status 1 where routes or boxes differ that must be the same."""
    from edge_sdk.replay import replay as run_again
    from edge_sdk.report.record_file import record_text
    from edge_sdk.report.table import print_run

    refuse_unwritable(json_file, comparison_file)
    ending, results = Ending(), Results()
    with ending.listening():
        done = run_again(
            file,
            engine=engine,
            device=device,
            registration=registration,
            threads=threads,
            pace=pace,
            speed=speed,
            loop=loop,
            ending=ending,
        )
        results.put("Record", json_file, lambda: record_text(done.record))
        results.put(
            "Comparison", comparison_file, lambda: json.dumps(done.comparison.as_json(), indent=2) + "\n"
        )
        ending.saved()
    console = tables(json_file, comparison_file)
    print_run(done.record, console)

    def say(text: str, style: str = "") -> None:
        console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    found = done.comparison
    if done.problem:
        say(f"The recording is {done.problem}", "yellow")
    if pace == "recorded":
        late = done.record.run.late_frames
        say(
            f"At {speed:g} times the recorded pace: {late} of {found.pairs} pairs started late, "
            f"at most {done.furthest_behind_ms:.1f} ms"
        )
    say(
        f"Same as recorded: routes {found.same_routes} of {found.pairs}, "
        f"boxes and temperatures, bit for bit, {found.same_boxes} of {found.pairs}"
    )
    for why in found.not_promised:
        say(f"Not promised to be the same: {why}", "yellow")
    for difference in found.differences:
        say(f"  differs: {difference}")
    results.say(console)
    if ending.error is not None:
        raise ending.error
    if ending.signal:
        raise typer.Exit(ending.exit_status)
    if not found.same and not found.not_promised:
        raise typer.Exit(_DIFFERENT)
    raise typer.Exit(3 if results.problems else 0)
