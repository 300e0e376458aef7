"""`edge-sdk run`: an engine over a source of pairs, with pictures, a table and a record."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import typer
from rich.console import Console

from edge_sdk.cli.cameras import chosen_source, is_live, print_camera_status
from edge_sdk.cli.live import live_options_from
from edge_sdk.cli.options import (
    CUDA_GRAPHS,
    DLA,
    IDLE_S,
    METER,
    OFFSET_S,
    OVERLAP_UPLOAD,
    PLANS,
    REGISTRATION,
    ROOT,
    TRUST_PLAN,
)
from edge_sdk.cli.progress import run_progress
from edge_sdk.errors import ConfigError

if TYPE_CHECKING:
    from edge_sdk.frames import FramePair
    from edge_sdk.measurements import FrameResult
    from edge_sdk.report.frame_writer import FrameWriter
    from edge_sdk.sources import Source

__all__ = ["frame_line", "run"]


def run(
    source: str | None = typer.Option(
        None,
        help="clip:NAME (clip:substation by default), pairs:DIR, video:FILE, mcap:FILE, file://PATH or "
        "camera:?...",
    ),
    rgb: str | None = typer.Option(None, help="RGB camera: v4l2:///dev/video0, csi://0, rtsp://HOST/PATH."),
    thermal: str | None = typer.Option(None, help="Thermal camera, likewise; see edge-sdk cameras."),
    engine: str = typer.Option("substation-rgbt", help="Name of an installed bundle, or a bundle's folder."),
    device: str = typer.Option("auto", help="auto, cpu, cuda or tensorrt."),
    precision: str | None = typer.Option(None, help="int8, fp16 or fp32; default: what the bundle ships."),
    threads: int | None = typer.Option(None, min=1, help="CPU threads of a graph."),
    frames: int | None = typer.Option(None, min=1, help="Stop after so many frames."),
    pace_hz: float | None = typer.Option(None, help="Frames started a second; default: back to back."),
    loop: int = typer.Option(1, min=0, help="Passes over the source; 0: for ever."),
    force: str | None = typer.Option(None, help="Take this route for every frame: rgb, fuse or thermal."),
    gate: list[str] | None = typer.Option(None, help="A threshold, as rgb_confidence_min=0.8"),
    registration: str | None = REGISTRATION,
    on_bad: str | None = typer.Option(
        None, help="raise, or skip: count bad frames and go on. Default: raise; with live cameras skip."
    ),
    allow_fallback: list[str] | None = typer.Option(None, help="Provider that may step in."),
    plans: Path | None = PLANS,
    trust_plan: str | None = TRUST_PLAN,
    dla: bool = DLA,
    cuda_graphs: str = CUDA_GRAPHS,
    overlap_upload: bool = OVERLAP_UPLOAD,
    out: Path | None = typer.Option(None, help="Annotated frames: a folder, or a .mp4 or .avi."),
    video: Path | None = typer.Option(None, help="Annotated video: a .mp4 or .avi."),
    frames_json: Path | None = typer.Option(None, help="One JSON line a frame."),
    json_file: Path | None = typer.Option(None, "--json", help="The run's record."),
    report: Path | None = typer.Option(None, help="A Markdown report for people."),
    meter: str = METER,
    root: Path = ROOT,
    idle_s: float = IDLE_S,
    offset_s: float | None = OFFSET_S,
    record: Path | None = typer.Option(None, help="Record the run: a new .mcap file, or a folder."),
    record_rgb: str = typer.Option("lossless", help="lossless, or jpeg: the detector then sees the JPEG."),
    record_limit_mib: int = typer.Option(4096, help="Most that the recording may take."),
    record_full: str = typer.Option("stop", help="At the limit: stop, or ring: remove the oldest eighth."),
    serve: str | None = typer.Option(None, help="Live page at HOST:PORT; standing alone at 127.0.0.1:8080."),
    token: str | None = typer.Option(None, help="What viewers must know; made where others can connect."),
    serve_name: list[str] | None = typer.Option(None, help="A further name that browsers call this by."),
    record_dir: Path = typer.Option(Path("recordings"), help="Where the page's record button writes."),
    registration_file: Path = typer.Option(Path("registration.json"), help="Where the page saves one."),
    sla: Path | None = typer.Option(None, help="An SLA file: lamps on the page, verdicts by MQTT."),
    alarm_rise_k: float | None = typer.Option(
        None, help="Alarm too: a part so many kelvin over what is around."
    ),
    alarm_max_c: float | None = typer.Option(None, help="Alarm too: a part this hot, degrees Celsius."),
    mqtt: str | None = typer.Option(
        None, help="mqtt://USER:PASSWORD@HOST:PORT/TOPIC, or mqtts; HOST is enough."
    ),
    mqtt_spool: Path = typer.Option(Path("edge-sdk-mqtt.db"), help="Where messages wait for the broker."),
    mqtt_every: bool = typer.Option(False, help="Publish every pair, not only findings and route changes."),
    progress: bool = typer.Option(True, help="Show a progress bar."),
) -> None:
    """Runs an engine over a source, picks a route for every frame, and says what it found and took."""
    # Late, so that `edge-sdk --help` loads neither NumPy nor an inference runtime.
    import edge_sdk
    from edge_sdk.devices import PlanOptions, power_of_run
    from edge_sdk.live.session import LiveSession
    from edge_sdk.report.markdown import run_markdown
    from edge_sdk.report.record_file import write_record
    from edge_sdk.report.table import print_run
    from edge_sdk.runs import RunPlan, record_run
    from edge_sdk.sources.cameras import CameraSource

    refuse_unwritable(frames_json, json_file, report)
    plan_options = PlanOptions(dla, plans, trust_plan, cuda_graphs, overlap_upload)
    source = chosen_source(source, rgb, thermal)
    on_bad = on_bad or ("skip" if is_live(source) else "raise")
    refuse_other_than_video(video)
    live_options = live_options_from(
        record=record, record_rgb=record_rgb, record_limit_mib=record_limit_mib, record_full=record_full,
        serve=serve, token=token, names=tuple(serve_name or ()), record_dir=record_dir,
        registration_file=registration_file, sla=sla, alarm_rise_k=alarm_rise_k, alarm_max_c=alarm_max_c,
        mqtt=mqtt, mqtt_spool=mqtt_spool, mqtt_every=mqtt_every, force=force,
    )  # fmt: skip
    if live_options is not None and live_options.sla is not None and pace_hz is None:
        pace_hz = live_options.sla.run.pace_hz
    plan = RunPlan(frames=frames, pace_hz=pace_hz, on_bad=on_bad, force=force)
    console = Console()
    live = None
    with ExitStack() as stack:
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
        lines = stack.enter_context(_json_lines(frames_json))
        pictures = _Pictures(stack, out, video, report)
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
            live.stop_on_signals()
            running, plan = live.source, replace(plan, force=live.force)
            for line in live.lines():
                console.print(line, markup=False, soft_wrap=True)
        advance = stack.enter_context(run_progress(frames or opened.length, shown=progress))

        def on_result(pair: FramePair, result: FrameResult) -> None:
            advance(result)
            if lines is not None:
                lines.write(json.dumps(frame_line(result)) + "\n")
            pictures.add(pair, result)

        made = record_run(
            detector,
            running,
            plan,
            asked_engine=engine,
            asked_device=device,
            on_result=on_result,
            power=power,
            observers=live.observers if live is not None else (),
        )
    print_run(made, console)
    for line in live.last_lines() if live is not None else ():
        console.print(line, markup=False, soft_wrap=True)
    if isinstance(opened, CameraSource):
        print_camera_status(opened, console)
    if json_file is not None:
        write_record(made, json_file)
        console.print(f"Record: {json_file}", markup=False, soft_wrap=True)
    if report is not None:
        text = run_markdown(made, pictures=pictures.highlights(report.parent))
        report.write_text(text, encoding="utf-8")
        console.print(f"Report: {report}", markup=False, soft_wrap=True)


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


def refuse_unwritable(*files: Path | None) -> None:
    """Fails before a run of minutes, not after it; makes missing folders.

    Raises:
        ConfigError: a file cannot be written there.
    """
    for file in files:
        if file is None:
            continue
        try:
            file.absolute().parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{file}: cannot be written ({error.strerror or error})") from error
        if file.is_dir():
            raise ConfigError(f"{file}: cannot be written, it is a folder")


def refuse_other_than_video(file: Path | None) -> None:
    """Fails before a run where `--video` names no video.

    Raises:
        ConfigError: another suffix than .mp4 or .avi.
    """
    if file is not None and file.suffix.lower() not in (".mp4", ".avi"):
        raise ConfigError(f"--video {file}: expected a file that ends in .mp4 or .avi")


def frame_line(result: FrameResult) -> dict[str, Any]:
    """Makes the JSON line of one frame: times in milliseconds, boxes in RGB pixels."""
    return {
        "key": result.key,
        "route": result.route.value,
        "reason": result.reason.value,
        "thermal_consulted": result.thermal_consulted,
        "detections": [
            {
                "class": found.class_name,
                "score": round(found.score, 4),
                "box_xyxy": [round(edge, 2) for edge in found.box_xyxy],
                "temperatures": None if found.temperatures is None else vars(found.temperatures),
            }
            for found in result.detections
        ],
        "signals": vars(result.signals),
        "stage_ms": {stage: round(elapsed, 4) for stage, elapsed in result.stage_ms.items()},
        "graph_ms": {graph: round(elapsed / 1e6, 4) for graph, elapsed in result.engine_ns.items()},
        "gpu_ms": {
            graph: {part: round(spent, 4) for part, spent in times.items()}
            for graph, times in result.gpu_ms.items()
        },
        "engine_ms": round(result.engine_ms, 4),
        "notes": list(result.notes),
    }


class _Pictures:
    """Draws frames: all of them into `out` and `video`, and the first of each reason beside the report."""

    def __init__(
        self,
        stack: ExitStack,
        out: Path | None,
        video: Path | None,
        report: Path | None,
    ):
        self._first: dict[str, tuple[str, Path]] = {}
        self._all: list[FrameWriter] = []
        self._highlights = None
        wanted = [place for place in (out, video) if place is not None]
        if wanted or report is not None:
            from edge_sdk.report.draw import annotate
            from edge_sdk.report.frame_writer import FrameWriter

            self._annotate = annotate
            self._all = [stack.enter_context(FrameWriter(place)) for place in wanted]
            if report is not None:
                folder = report.with_name(f"{report.stem}-pictures")
                self._highlights = stack.enter_context(FrameWriter(folder))

    def add(self, pair: FramePair, result: FrameResult) -> None:
        """Draws one frame, outside all timing."""
        new = self._highlights is not None and result.reason.value not in self._first
        if not self._all and not new:
            return
        picture = self._annotate(pair, result)
        for writer in self._all:
            writer.write(result.key, picture)
        if self._highlights is not None and new:
            path = self._highlights.write(f"{result.route.value}-{result.reason.value}", picture)
            title = f"{result.route.value}, because {result.reason.value}: frame {result.key}"
            self._first[result.reason.value] = (title, path)

    def highlights(self, folder: Path) -> list[tuple[str, str]]:
        """Returns (title, path relative to `folder`) of the first frame of each reason."""
        return [(title, os.path.relpath(path, folder)) for title, path in self._first.values()]


@contextmanager
def _json_lines(path: Path | None) -> Iterator[IO[str] | None]:
    if path is None:
        yield None
        return
    with path.open("w", encoding="utf-8") as file:
        yield file
