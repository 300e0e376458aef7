"""Measures the engine on the rendered test split: per class, light and route, fp32 beside INT8.

    python -m engines.recipe.evaluate --bundle engines/substation-rgbt --data data/test --json evaluation.json

Every object that at least one camera can show counts on every route: what a route's camera cannot
show, it misses. That is the physics the table is there for.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edge_sdk.postprocess import Candidates
from engines.recipe.export import GRAPH_NAMES
from engines.recipe.frames import crops_of, feeds, open_graph
from engines.recipe.metrics import average_precision, match, mean_of
from engines.recipe.routes import ROUTES, Outputs, Runner, candidates, graph_file
from engines.recipe.train.data import Crop, Pair, read_pairs
from engines.recipe.train.net import CLASSES

__all__ = ["evaluate", "print_tables"]

LIGHTS = ("all", "day", "dusk", "night")
PRECISIONS = ("fp32", "int8")
_SPEED_RUNS = 60
_KERNEL_FRAMES = 30

Table = dict[str, dict[str, dict[str, float | None]]]
"""Route -> light -> class (and "mean") -> AP50."""


def evaluate(folder: Path, data: Path) -> dict[str, Any]:
    """Evaluates the graphs in a bundle's or a build's folder.

    Arguments:
        folder: with the graphs.
        data: a rendered split.

    Returns: everything measured, ready for JSON; `accuracy` is what the manifest takes over.
    """
    pairs = read_pairs(data)
    crops = list(crops_of(pairs))
    lights = [pair.light for pair in pairs]
    tables = {
        precision: _tables(list(Runner(folder, precision).run_all(crops)), crops, lights)
        for precision in PRECISIONS
    }
    loss = {
        route: round(
            (tables["fp32"][route]["all"]["mean"] or 0) - (tables["int8"][route]["all"]["mean"] or 0), 4
        )
        for route in ROUTES
    }
    counts = {light: sum(light in ("all", own) for own in lights) for light in LIGHTS}
    figures = {
        precision: {route: tables[precision][route]["all"]["mean"] for route in ROUTES}
        for precision in PRECISIONS
    }
    by_class = {route: {name: tables["int8"][route]["all"][name] for name in CLASSES} for route in ROUTES}
    what = f"rendered test split, {len(pairs)} pairs, no scene shared with training"
    return {
        "pairs": counts,
        "objects": _objects(crops),
        "ap50": tables,
        "map50_lost_by_int8": loss,
        "screen": _screen(folder, pairs, crops),
        "kernels": _kernel_check(folder, crops[:: max(1, len(crops) // _KERNEL_FRAMES)]),
        "speed_ms": {precision: _speed(folder, precision, crops[0]) for precision in PRECISIONS},
        "nbytes": {
            precision: {name: graph_file(folder, name, precision).stat().st_size for name in GRAPH_NAMES}
            for precision in PRECISIONS
        },
        "accuracy": [
            {"data": what, "metric": "mAP50", "figures": figures},
            {"data": what, "metric": "AP50 per class, INT8", "figures": by_class},
        ],
    }


def _tables(outputs: Sequence[Mapping[str, Outputs]], crops: Sequence[Crop], lights: Sequence[str]) -> Table:
    table: Table = {}
    for route in ROUTES:
        found = [candidates(frame[route]) for frame in outputs]
        table[route] = {}
        for light in LIGHTS:
            picked = [place for place, own in enumerate(lights) if light in ("all", own)]
            table[route][light] = _row([found[place] for place in picked], [crops[place] for place in picked])
    return table


def _row(found: Sequence[Candidates], crops: Sequence[Crop]) -> dict[str, float | None]:
    row: dict[str, float | None] = {}
    for class_id, name in enumerate(CLASSES):
        precision = average_precision(match(found, [crop.labels for crop in crops], class_id))
        row[name] = None if precision is None else round(precision, 4)
    return row | {"mean": round(mean_of(row), 4)}


def _objects(crops: Sequence[Crop]) -> dict[str, int]:
    counts = np.zeros(len(CLASSES), int)
    for crop in crops:
        seen = crop.labels.in_rgb | crop.labels.in_thermal
        counts += np.bincount(crop.labels.class_ids[seen], minlength=len(CLASSES))
    return dict(zip(CLASSES, counts.tolist(), strict=True))


def _screen(folder: Path, pairs: Sequence[Pair], crops: Sequence[Crop]) -> dict[str, float]:
    """How the screen does at the gate's threshold; nothing where the gate is not calibrated yet."""
    file = folder / "gate.json"
    if not file.exists():
        return {}
    least = float(json.loads(file.read_text(encoding="utf-8"))["gate"]["screen_score_min"])
    runner = Runner(folder, "fp32")
    fires = np.array([1 / (1 + np.exp(-runner.screen(crop))) >= least for crop in crops])
    rise_k = np.array([pair.hottest_delta_k for pair in pairs])
    return {
        "threshold": least,
        "frames_with_5_k_or_more": int((rise_k >= 5).sum()),
        "recall_of_5_k_or_more": round(float(fires[rise_k >= 5].mean()), 4),
        "recall_of_all": round(float(fires[rise_k > 0].mean()), 4),
        "fires_without_hot_spot": round(float(fires[rise_k == 0].mean()), 4),
    }


def _kernel_check(folder: Path, crops: Sequence[Crop]) -> dict[str, Any]:
    """Compares the INT8 kernels with the same graphs computed literally: Q/DQ in floating point.

    Where they differ by more than rounding, the kernels add wrongly (see edge_sdk/engine/int8_sums.py).
    """
    fast, literal = Runner(folder, "int8"), Runner(folder, "int8", literal=True)
    rows: dict[str, dict[str, float]] = {}
    kernel, exact = [fast.run(crop) for crop in crops], [literal.run(crop) for crop in crops]
    for route in ROUTES:
        differences = np.stack(
            [np.abs(a[route].scores - b[route].scores) for a, b in zip(kernel, exact, strict=True)]
        )
        sizes = [
            _row([candidates(frame[route]) for frame in frames], crops)["mean"] for frames in (kernel, exact)
        ]
        rows[route] = {
            "logit_difference_max": round(float(differences.max()), 4),
            "logit_difference_mean": round(float(differences.mean()), 5),
            "map50_kernels": sizes[0] or 0.0,
            "map50_literal": sizes[1] or 0.0,
        }
    return {"frames": len(crops), "cpu_flags": _cpu_flags(), "routes": rows}


def _cpu_flags() -> list[str]:
    info = Path("/proc/cpuinfo")
    words = set(info.read_text(encoding="utf-8").split()) if info.exists() else set()
    return sorted(words & {"avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm"})


def _speed(folder: Path, precision: str, crop: Crop) -> dict[str, float]:
    """Median milliseconds of each graph on two threads, on one frame over and over."""
    result = {}
    for name in GRAPH_NAMES:
        graph = open_graph(graph_file(folder, name, precision), 2)
        feed = next(iter(feeds([crop], name, graph_file(folder, "rgb", precision))))
        times_ns = []
        for _ in range(_SPEED_RUNS):
            begun_ns = time.perf_counter_ns()
            graph.run(None, feed)
            times_ns.append(time.perf_counter_ns() - begun_ns)
        result[name] = round(float(np.median(times_ns)) / 1e6, 3)
    return result


def print_tables(report: Mapping[str, Any]) -> None:
    """Prints an evaluation for people: fp32 / INT8 in each cell."""
    tables = report["ap50"]
    print(f"AP50, fp32 / INT8; pairs {report['pairs']}, objects {report['objects']}")
    print(f"{'route':8} {'light':6} " + " ".join(f"{name:>13}" for name in (*CLASSES, "mean")))
    for route in ROUTES:
        for light in LIGHTS:
            cells = []
            for name in (*CLASSES, "mean"):
                pair = [tables[precision][route][light][name] for precision in PRECISIONS]
                cells.append(" / ".join("  -  " if value is None else f"{value:.3f}" for value in pair))
            print(f"{route:8} {light:6} " + " ".join(f"{cell:>13}" for cell in cells))
    print("mAP50 lost by INT8:", report["map50_lost_by_int8"])
    print("screen:", report["screen"])
    print("INT8 kernels against literal Q/DQ:", json.dumps(report["kernels"]))
    print("median ms a graph, 2 threads:", report["speed_ms"])


def main(arguments: list[str] | None = None) -> None:
    """Reads the command line, evaluates, prints and writes."""
    parser = argparse.ArgumentParser(prog="python -m engines.recipe.evaluate", description=__doc__)
    parser.add_argument("--bundle", type=Path, required=True, help="a bundle's folder, or a build's")
    parser.add_argument("--data", type=Path, required=True, help="a rendered split")
    parser.add_argument("--json", type=Path, help="where the report goes")
    options = parser.parse_args(arguments)
    report = evaluate(options.bundle, options.data)
    print_tables(report)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
