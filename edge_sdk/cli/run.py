"""`edge-sdk run`: an engine over a source of pairs, with pictures, a table and a record."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import typer
from rich.console import Console

from edge_sdk.cli.cameras import chosen_source, is_live, print_camera_status
from edge_sdk.cli.options import IDLE_S, METER, OFFSET_S, ROOT
from edge_sdk.cli.progress import run_progress
from edge_sdk.errors import ConfigError

if TYPE_CHECKING:
    from edge_sdk.frames import FramePair, Registration
    from edge_sdk.measurements import FrameResult

__all__ = ["frame_line", "run"]


def run(
    source: str | None = typer.Option(
        None, help="clip:NAME (clip:substation by default), pairs:DIR, video:FILE, file://PATH or camera:?..."
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
    on_bad: str | None = typer.Option(
        None, help="raise, or skip: count bad frames and go on. Default: raise; with live cameras skip."
    ),
    allow_fallback: list[str] | None = typer.Option(None, help="Provider that may step in."),
    plans: Path | None = typer.Option(None, help="TensorRT plans from elsewhere; needs --trust-plan."),
    trust_plan: str | None = typer.Option(None, help="SHA-256 of their record. A plan is code."),
    dla: bool = typer.Option(False, help="TensorRT: the plans with the thermal graph on a DLA."),
    cuda_graphs: str = typer.Option("auto", help="TensorRT: auto (where faster), on or off."),
    overlap_upload: bool = typer.Option(False, help="TensorRT: copy thermal beside the RGB graph."),
    out: Path | None = typer.Option(None, help="Annotated frames: a folder, or a .mp4 or .avi."),
    frames_json: Path | None = typer.Option(None, help="One JSON line a frame."),
    json_file: Path | None = typer.Option(None, "--json", help="The run's record."),
    report: Path | None = typer.Option(None, help="A Markdown report for people."),
    meter: str = METER,
    root: Path = ROOT,
    idle_s: float = IDLE_S,
    offset_s: float | None = OFFSET_S,
    progress: bool = typer.Option(True, help="Show a progress bar."),
) -> None:
    """Runs an engine over a source, picks a route for every frame, and says what it found and took."""
    # Late, so that `edge-sdk --help` loads neither NumPy nor an inference runtime.
    import edge_sdk
    from edge_sdk.devices import PlanOptions, power_of_run
    from edge_sdk.report.markdown import run_markdown
    from edge_sdk.report.record_file import write_record
    from edge_sdk.report.table import print_run
    from edge_sdk.runs import RunPlan, record_run
    from edge_sdk.sources.cameras import CameraSource

    refuse_unwritable(frames_json, json_file, report)
    plan_options = PlanOptions(dla, plans, trust_plan, cuda_graphs, overlap_upload)
    source = chosen_source(source, rgb, thermal)
    on_bad = on_bad or ("skip" if is_live(source) else "raise")
    plan = RunPlan(frames=frames, pace_hz=pace_hz, on_bad=on_bad, force=force)
    with ExitStack() as stack:
        opened = stack.enter_context(edge_sdk.open_source(source, on_bad=on_bad, loop=loop))
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
        pictures = _Pictures(stack, detector.bundle.manifest.registration, out, report)
        power = stack.enter_context(power_of_run(meter, root=root, idle_s=idle_s, offset_s=offset_s))
        advance = stack.enter_context(run_progress(frames or opened.length, shown=progress))

        def on_result(pair: FramePair, result: FrameResult) -> None:
            advance(result)
            if lines is not None:
                lines.write(json.dumps(frame_line(result)) + "\n")
            pictures.add(pair, result)

        record = record_run(
            detector,
            opened,
            plan,
            asked_engine=engine,
            asked_device=device,
            on_result=on_result,
            power=power,
        )
    console = Console()
    print_run(record, console)
    if isinstance(opened, CameraSource):
        print_camera_status(opened, console)
    if json_file is not None:
        write_record(record, json_file)
        console.print(f"Record: {json_file}", markup=False, soft_wrap=True)
    if report is not None:
        text = run_markdown(record, pictures=pictures.highlights(report.parent))
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
        "engine_ms": round(result.engine_ms, 4),
        "notes": list(result.notes),
    }


class _Pictures:
    """Draws frames: all of them into `out`, and the first of each reason beside the report."""

    def __init__(
        self, stack: ExitStack, registration: Registration | None, out: Path | None, report: Path | None
    ):
        self._registration = registration
        self._first: dict[str, tuple[str, Path]] = {}
        self._all = self._highlights = None
        if out is not None or report is not None:
            from edge_sdk.report.draw import annotate
            from edge_sdk.report.frame_writer import FrameWriter

            self._annotate = annotate
            if out is not None:
                self._all = stack.enter_context(FrameWriter(out))
            if report is not None:
                folder = report.with_name(f"{report.stem}-pictures")
                self._highlights = stack.enter_context(FrameWriter(folder))

    def add(self, pair: FramePair, result: FrameResult) -> None:
        """Draws one frame, outside all timing."""
        new = self._highlights is not None and result.reason.value not in self._first
        if self._all is None and not new:
            return
        picture = self._annotate(pair, result, self._registration)
        if self._all is not None:
            self._all.write(result.key, picture)
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
