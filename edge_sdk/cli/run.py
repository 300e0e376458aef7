"""`edge-sdk run`: an engine over a source of pairs, with pictures, a table and a record."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from edge_sdk.cli.cameras import chosen_source, is_live, print_camera_status
from edge_sdk.cli.frame_outputs import FrameOutputs, video_rate
from edge_sdk.cli.live import live_options_from
from edge_sdk.cli.options import (
    CUDA_GRAPHS,
    DLA,
    ENGINE_PANEL,
    IDLE_S,
    METER,
    OFFSET_S,
    OVERLAP_UPLOAD,
    PLANS,
    REGISTRATION,
    ROOT,
    SOURCE_PANEL,
    TRUST_PLAN,
)
from edge_sdk.cli.outputs import Results, refuse_suffix, refuse_unwritable
from edge_sdk.cli.progress import run_progress
from edge_sdk.cli.reports import REPORT_SUFFIXES, report_text
from edge_sdk.cli.streams import tables
from edge_sdk.ending import Ending
from edge_sdk.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from edge_sdk.frames import FramePair
    from edge_sdk.live.session import LiveSession
    from edge_sdk.measurements import FrameResult
    from edge_sdk.report.record import RunRecord
    from edge_sdk.sources import Source

__all__ = ["EXAMPLES", "run"]

VIDEO_SUFFIXES = (".mp4", ".avi")

EXAMPLES = """Examples:

edge-sdk run

edge-sdk run --source pairs:FOLDER --out annotated --report run.html

edge-sdk run --source video:FILE.mp4 --video out.mp4 --json run.json

edge-sdk run --rgb v4l2:///dev/video0 --serve

edge-sdk run --frames 100 --frames-json - | jq .route
"""

_SOURCE, _OUTPUT = SOURCE_PANEL, "Output"
_LENGTH, _RECORD, _LIVE = "Length and routes", "Recording", "Live page, alarms and MQTT"


def run(
    source: str | None = typer.Option(
        None,
        rich_help_panel=_SOURCE,
        help="clip:NAME (clip:substation by default), pairs:DIR, video:FILE, mcap:FILE, file://PATH or "
        "camera:?...",
    ),
    rgb: str | None = typer.Option(
        None, rich_help_panel=_SOURCE, help="RGB camera: v4l2:///dev/video0, csi://0, rtsp://HOST/PATH."
    ),
    thermal: str | None = typer.Option(
        None, rich_help_panel=_SOURCE, help="Thermal camera, likewise; see edge-sdk cameras."
    ),
    registration: str | None = REGISTRATION,
    on_bad: str | None = typer.Option(
        None,
        rich_help_panel=_SOURCE,
        help="raise, or skip: count bad frames and go on. Default: raise; with live cameras skip.",
    ),
    engine: str = typer.Option(
        "substation-rgbt",
        rich_help_panel=ENGINE_PANEL,
        help="Name of an installed bundle, or a bundle's folder.",
    ),
    device: str = typer.Option("auto", rich_help_panel=ENGINE_PANEL, help="auto, cpu, cuda or tensorrt."),
    precision: str | None = typer.Option(
        None, rich_help_panel=ENGINE_PANEL, help="int8, fp16 or fp32; default: what the bundle ships."
    ),
    threads: int | None = typer.Option(
        None, min=1, rich_help_panel=ENGINE_PANEL, help="CPU threads of a graph."
    ),
    allow_fallback: list[str] | None = typer.Option(
        None, rich_help_panel=ENGINE_PANEL, help="Provider that may step in."
    ),
    plans: Path | None = PLANS,
    trust_plan: str | None = TRUST_PLAN,
    dla: bool = DLA,
    cuda_graphs: str = CUDA_GRAPHS,
    overlap_upload: bool = OVERLAP_UPLOAD,
    frames: int | None = typer.Option(
        None, min=1, rich_help_panel=_LENGTH, help="Stop after so many frames."
    ),
    pace_hz: float | None = typer.Option(
        None, rich_help_panel=_LENGTH, help="Frames started a second; default: back to back."
    ),
    loop: int = typer.Option(
        1, min=0, rich_help_panel=_LENGTH, help="Passes over the source; 0: for ever. Cameras have no passes."
    ),
    force: str | None = typer.Option(
        None, rich_help_panel=_LENGTH, help="Take this route for every frame: rgb, fuse or thermal."
    ),
    gate: list[str] | None = typer.Option(
        None, rich_help_panel=_LENGTH, help="A threshold, as rgb_confidence_min=0.8"
    ),
    out: Path | None = typer.Option(
        None, rich_help_panel=_OUTPUT, help="Annotated frames: a folder, or a .mp4 or .avi."
    ),
    video: Path | None = typer.Option(
        None, rich_help_panel=_OUTPUT, help="Annotated video: a .mp4 or .avi, at the frames' own rate."
    ),
    frames_json: Path | None = typer.Option(
        None, rich_help_panel=_OUTPUT, help="One JSON line a frame; - for standard output."
    ),
    json_file: Path | None = typer.Option(
        None, "--json", rich_help_panel=_OUTPUT, help="The run's record; - for standard output."
    ),
    report: Path | None = typer.Option(
        None, rich_help_panel=_OUTPUT, help="A report for people: .html (one file) or .md."
    ),
    progress: bool = typer.Option(True, rich_help_panel=_OUTPUT, help="Show a progress bar."),
    meter: str = METER,
    root: Path = ROOT,
    idle_s: float = IDLE_S,
    offset_s: float | None = OFFSET_S,
    record: Path | None = typer.Option(
        None, rich_help_panel=_RECORD, help="Record the run: a new .mcap file, or a folder."
    ),
    record_rgb: str = typer.Option(
        "lossless", rich_help_panel=_RECORD, help="lossless, or jpeg: the detector then sees the JPEG."
    ),
    record_limit_mib: int = typer.Option(
        4096, rich_help_panel=_RECORD, help="Most that the recording may take."
    ),
    record_full: str = typer.Option(
        "stop", rich_help_panel=_RECORD, help="At the limit: stop, or ring: the oldest goes."
    ),
    serve: str | None = typer.Option(
        None, rich_help_panel=_LIVE, help="Live page at HOST:PORT; standing alone at 127.0.0.1:8080."
    ),
    token: str | None = typer.Option(
        None,
        rich_help_panel=_LIVE,
        help="What viewers must know; made where others can connect. Others see it here: use a file.",
    ),
    token_file: Path | None = typer.Option(
        None,
        rich_help_panel=_LIVE,
        help="Holds the token; made, with a new one, where it is not there. Or EDGE_SDK_TOKEN.",
    ),
    behind_proxy: str | None = typer.Option(
        None,
        rich_help_panel=_LIVE,
        help="What browsers open where a reverse proxy serves the page, as https://site.example",
    ),
    proxy_address: str | None = typer.Option(
        None, rich_help_panel=_LIVE, help="The proxy's address, if it is another machine."
    ),
    serve_name: list[str] | None = typer.Option(
        None, rich_help_panel=_LIVE, help="A further name that browsers call this by."
    ),
    record_dir: Path = typer.Option(
        Path("recordings"), rich_help_panel=_LIVE, help="Where the page's record button writes."
    ),
    registration_file: Path = typer.Option(
        Path("registration.json"), rich_help_panel=_LIVE, help="Where the page saves one."
    ),
    sla: Path | None = typer.Option(
        None, rich_help_panel=_LIVE, help="An SLA file: lamps on the page, verdicts by MQTT."
    ),
    alarm_rise_k: float | None = typer.Option(
        None, rich_help_panel=_LIVE, help="Alarm too: a part so many kelvin over what is around."
    ),
    alarm_max_c: float | None = typer.Option(
        None, rich_help_panel=_LIVE, help="Alarm too: a part this hot, degrees Celsius."
    ),
    mqtt: str | None = typer.Option(
        None, rich_help_panel=_LIVE, help="mqtt://USER@HOST:PORT/TOPIC, or mqtts; mqtt://HOST is enough."
    ),
    mqtt_password_file: Path | None = typer.Option(
        None, rich_help_panel=_LIVE, help="Holds the broker's password. Or EDGE_SDK_MQTT_PASSWORD."
    ),
    mqtt_spool: Path = typer.Option(
        Path("edge-sdk-mqtt.db"), rich_help_panel=_LIVE, help="Where messages wait for the broker."
    ),
    mqtt_every: bool = typer.Option(
        False,
        "--mqtt-every",
        rich_help_panel=_LIVE,
        help="Publish every pair, not only findings and route changes.",
    ),
) -> None:
    """Runs an engine over a source, picks a route for every frame, and says what it found and took.

    A signal or an error ends it; what was measured until then is saved.

    Exit: 0 done, 3 failed or an output is incomplete, 128 + n after signal n.
    """
    # Late, so that `edge-sdk --help` loads neither NumPy nor an inference runtime.
    import edge_sdk
    from edge_sdk.devices import PlanOptions, power_of_run
    from edge_sdk.live.session import LiveSession
    from edge_sdk.report.record_file import record_text
    from edge_sdk.runs import RunPlan, record_run

    refuse_suffix("--video", video, VIDEO_SUFFIXES)
    refuse_suffix("--report", report, REPORT_SUFFIXES)
    spool = mqtt_spool if mqtt is not None else None
    refuse_unwritable(frames_json, json_file, report, video, *map(_tried, (out, record)), spool)
    plan_options = PlanOptions(dla, plans, trust_plan, cuda_graphs, overlap_upload)
    source = chosen_source(source, rgb, thermal)
    on_bad = on_bad or ("skip" if is_live(source) else "raise")
    live_options = live_options_from(
        record=record, record_rgb=record_rgb, record_limit_mib=record_limit_mib, record_full=record_full,
        serve=serve, token=token, token_file=token_file, behind_proxy=behind_proxy,
        proxy_address=proxy_address, mqtt_password_file=mqtt_password_file,
        names=tuple(serve_name or ()), record_dir=record_dir,
        registration_file=registration_file, sla=sla, alarm_rise_k=alarm_rise_k, alarm_max_c=alarm_max_c,
        mqtt=mqtt, mqtt_spool=mqtt_spool, mqtt_every=mqtt_every, force=force,
    )  # fmt: skip
    if live_options is not None and live_options.sla is not None and pace_hz is None:
        pace_hz = live_options.sla.run.pace_hz
    plan = RunPlan(frames=frames, pace_hz=pace_hz, on_bad=on_bad, force=force)
    console, live, ending, results = tables(frames_json, json_file), None, Ending(), Results()
    with ending.listening(), ExitStack() as stack:
        opened = stack.enter_context(
            edge_sdk.open_source(source, registration=registration, on_bad=on_bad, loop=loop)
        )
        detector = stack.enter_context(
            edge_sdk.load(
                engine,
                device=device,
                precision=precision,
                threads=threads,
                allow_fallback=allow_fallback or (),
                gate=parse_gate(gate or []),
                plan_options=plan_options,
            )
        )
        written = FrameOutputs(
            results,
            frames_json=frames_json,
            out=out,
            video=video,
            report=report,
            fps=video_rate(opened, pace_hz),
        )
        stack.callback(written.discard)
        stack.callback(written.close)
        power = stack.enter_context(power_of_run(meter, root=root, idle_s=idle_s, offset_s=offset_s))
        running: Source = opened
        if live_options is not None:
            live = stack.enter_context(
                LiveSession(
                    detector,
                    opened,
                    live_options,
                    asked_engine=engine,
                    asked_device=device,
                    pace_hz=pace_hz,
                    power=power,
                )
            )
            running, plan = live.source, replace(plan, force=live.force)
            # In one write: a signal behind the first line must not swallow the others.
            if said := live.lines():
                console.print("\n".join(said), markup=False, soft_wrap=True)
        advance = stack.enter_context(run_progress(frames or opened.length, shown=progress))

        def on_result(pair: FramePair, result: FrameResult) -> None:
            advance(result)
            written.add(pair, result)

        made = record_run(
            detector,
            running,
            plan,
            asked_engine=engine,
            asked_device=device,
            on_result=on_result,
            power=power,
            observers=live.observers if live is not None else (),
            ending=ending,
        )
        written.close()
        made = replace(made, conditions=(*made.conditions, *results.problems))
        results.put("Record", json_file, lambda: record_text(made))
        if report is not None:
            results.put("Report", report, lambda: report_text(report, made, None, written.highlights()))
        ending.saved()
    if live is not None and live.control.recording_problem:
        results.ended(f"the recording ended, the run went on: {live.control.recording_problem}")
    _say(made, opened, live, console)
    results.say(console)
    if ending.error is not None:
        raise ending.error
    raise typer.Exit(ending.exit_status or (3 if results.problems else 0))


def _say(made: RunRecord, source: Source, live: LiveSession | None, console: Console) -> None:
    """Says for people what came of a run."""
    from edge_sdk.report.table import print_run
    from edge_sdk.sources.cameras import CameraSource

    print_run(made, console)
    for line in live.last_lines() if live is not None else ():
        console.print(line, markup=False, soft_wrap=True)
    if isinstance(source, CameraSource):
        print_camera_status(source, console)


def parse_gate(settings: list[str]) -> dict[str, float | int | str]:
    """Reads `name=value` settings of the gate.

    Raises:
        ConfigError: a setting has no `=`.
    """
    parsed: dict[str, float | int | str] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ConfigError(f"--gate {setting}: expected NAME=VALUE, for example rgb_confidence_min=0.8")
        try:
            number = float(text)
            parsed[name.strip()] = int(number) if number.is_integer() else number
        except ValueError:
            parsed[name.strip()] = text.strip()
    return parsed


def _tried(place: Path | None) -> Path | None:
    """The file whose writing shows whether a folder, or a file of its own, can be written."""
    if place is None or (place.suffix and not place.is_dir()):
        return place
    return place / "edge-sdk"
