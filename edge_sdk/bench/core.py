"""The benchmark of the main job: what the SDK costs beside its engine, and what routing saves.

Everything compared is measured in one run, a few frames of one side and then the same frames of the
other, and given as a ratio: the machine's own noise falls on both sides.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

from edge_sdk.bench.clip import LabelledClip
from edge_sdk.devices import machine_facts
from edge_sdk.engine.plain import PlainSessions
from edge_sdk.frames import FramePair
from edge_sdk.measurements import FrameResult, Route
from edge_sdk.pipeline import Detector, load

__all__ = ["BenchReport", "run_core"]

_START_RUNS = 5

_BLOCK_FRAMES = 10
"""Frames after which the sides of a comparison change: noise comes in phases of seconds."""


@dataclass
class BenchReport:
    """Figures by name, and the conditions of each."""

    figures: dict[str, float] = field(default_factory=dict)
    conditions: dict[str, str] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, figure: float, conditions: str) -> None:
        """Adds one figure."""
        self.figures[name] = figure
        self.conditions[name] = conditions

    def to_json(self) -> dict[str, Any]:
        """Figures at the top level, conditions under the same names in `conditions`."""
        return {
            "schema": "edge-sdk/bench",
            "schema_version": 1,
            **{name: round(figure, 5) for name, figure in self.figures.items()},
            "conditions": self.conditions,
            "details": self.details,
            "machine": machine_facts(),
        }


def run_core(
    engine: str,
    clip: LabelledClip,
    *,
    threads: int | None = None,
    repeats: int = 3,
    step: Callable[[str], None] = lambda name: None,
) -> BenchReport:
    """Measures all figures of the main job.

    Arguments:
        engine: a fusion bundle with an fp32 twin.
        clip: what it runs on.
        threads: CPU threads of a graph.
        repeats: turns of each side of a comparison.
        step: called with the name of each part as it begins.
    """
    report = BenchReport()
    with (
        load(engine, device="cpu", threads=threads) as detector,
        load(engine, device="cpu", threads=threads) as fused,
        load(engine, device="cpu", precision="fp32", threads=threads) as fp32,
    ):
        where = (
            f"{detector.provider}, {detector.choice.threads} threads, {clip.uri}, "
            f"{len(clip.pairs)} frames x {repeats} turns, sides changing every {_BLOCK_FRAMES} frames"
        )
        step("start-up")
        _start_up(report, engine, clip.uri)
        step("harness")
        _harness(report, engine, clip)
        step("gated against always fused")
        _gated(report, detector, fused, clip, repeats, where)
        step("pipeline against bare session.run")
        _bare(report, detector, clip, repeats, where)
        step("int8 against fp32")
        _precision(report, fused, fp32, clip, repeats, where)
    return report


def _blocks(clip: LabelledClip) -> Iterator[tuple[FramePair, ...]]:
    for start in range(0, len(clip.pairs), _BLOCK_FRAMES):
        yield clip.pairs[start : start + _BLOCK_FRAMES]


def _engine_ns(results: Iterable[FrameResult]) -> int:
    return sum(sum(result.engine_ns.values()) for result in results)


def _start_up(report: BenchReport, engine: str, uri: str) -> None:
    """Fresh interpreters, since an import happens once a process."""
    bare = "import time; start = time.perf_counter(); import edge_sdk; print(time.perf_counter() - start)"
    report.add(
        "import_s",
        _median_of_processes(bare),
        f"import edge_sdk in a fresh interpreter, median of {_START_RUNS}, files cached by the system",
    )
    first = (
        "import time; start = time.perf_counter(); import edge_sdk\n"
        f"with edge_sdk.load({engine!r}, device='cpu') as detector:\n"
        f"    with edge_sdk.open_source({uri!r}) as source:\n"
        "        detector(next(source)); print(time.perf_counter() - start)"
    )
    report.add(
        "first_result_s",
        _median_of_processes(first),
        "import, load with every hash checked, and first result in a fresh interpreter on the CPU, "
        f"median of {_START_RUNS}",
    )


def _median_of_processes(code: str) -> float:
    times = []
    for _ in range(_START_RUNS):
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        times.append(float(done.stdout.split()[-1]))
    return statistics.median(times)


def _harness(report: BenchReport, engine: str, clip: LabelledClip) -> None:
    with load(engine, device="null") as detector:
        for pair in clip.pairs:
            detector(pair)
        detector.reset()
        outside_ns = [
            result.latency_ns - result.stage_ns.get("preprocess", 0) - result.stage_ns.get("engine", 0)
            for result in map(detector, clip.pairs)
        ]
    report.add(
        "harness_overhead_ms_p50",
        statistics.median(outside_ns) / 1e6,
        f"null engine, everything outside preprocess and engine, median of {len(outside_ns)} frames",
    )


def _gated(
    report: BenchReport, detector: Detector, fused: Detector, clip: LabelledClip, repeats: int, where: str
) -> None:
    ratios = []
    for _ in range(repeats):
        detector.reset()
        results: dict[str, list[FrameResult]] = {"gated": [], "always_fused": []}
        for pairs in _blocks(clip):
            results["gated"] += [detector(pair) for pair in pairs]
            results["always_fused"] += [fused(pair, force=Route.FUSE) for pair in pairs]
        ratios.append(_engine_ns(results["gated"]) / _engine_ns(results["always_fused"]))
    report.add(
        "gated_over_always_fused",
        statistics.median(ratios),
        f"time inside all graphs, gated over always fused, screening included; {where}",
    )
    for name, answers in results.items():
        mean, by_class = clip.mean_ap50([result.detections for result in answers], detector.class_names)
        report.add(f"map50_{name}", mean, f"mean AP at IoU 0.5 over the classes that occur; {where}")
        report.details[f"ap50_{name}"] = by_class
    routes = [result.route.value for result in results["gated"]]
    report.details["gated_routes"] = {name: routes.count(name) for name in sorted(set(routes))}
    reasons = [result.reason.value for result in results["gated"]]
    report.details["gated_reasons"] = {name: reasons.count(name) for name in sorted(set(reasons))}


def _bare(report: BenchReport, detector: Detector, clip: LabelledClip, repeats: int, where: str) -> None:
    """The same graphs in the same order through plain `session.run`, inputs ready made."""
    sessions = PlainSessions(detector.bundle, detector.choice.threads)
    ratios, frames_per_s = [], []
    for _ in range(repeats):
        detector.reset()
        pipeline_ns = bare_ns = 0
        for pairs in _blocks(clip):
            start_ns = perf_counter_ns()
            results = [detector(pair) for pair in pairs]
            turn_ns = perf_counter_ns()
            for result in results:
                for graph in result.engine_ns:
                    sessions.run(graph)
            bare_ns += perf_counter_ns() - turn_ns
            pipeline_ns += turn_ns - start_ns
        ratios.append(bare_ns / pipeline_ns)
        frames_per_s.append(len(clip.pairs) / (pipeline_ns / 1e9))
    report.add(
        "pipeline_over_bare",
        statistics.median(ratios),
        "frame rate of the whole pipeline (preprocess, routing, postprocess, temperatures) over that of a "
        f"bare loop of session.run on ready-made inputs with the same graphs and routes; {where}",
    )
    report.details["pipeline_fps"] = statistics.median(frames_per_s)


def _precision(
    report: BenchReport,
    int8: Detector,
    fp32: Detector,
    clip: LabelledClip,
    repeats: int,
    where: str,
) -> None:
    ratios = []
    for _ in range(repeats):
        int8_ns = fp32_ns = 0
        for pairs in _blocks(clip):
            int8_ns += _engine_ns(int8(pair, force=Route.FUSE) for pair in pairs)
            fp32_ns += _engine_ns(fp32(pair, force=Route.FUSE) for pair in pairs)
        ratios.append(int8_ns / fp32_ns)
    report.add(
        "int8_over_fp32_time",
        statistics.median(ratios),
        f"time inside the rgb and fuse graphs, INT8 over fp32; {where}",
    )
