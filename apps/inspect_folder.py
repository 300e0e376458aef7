"""Inspect a folder of pairs: a table of findings with temperatures, and a picture of every hot spot.

    python apps/inspect_folder.py site-7 --thermal ir16 --unit centikelvin --out site-7-report

Writes `findings.csv` (a line a finding), `summary.json` (counts, routes, bad files by name) and
`pictures/` (frames with a finding of the class that --hot names, or with a part --min-rise kelvin over
its surroundings). Temperatures are in degrees Celsius where the camera is radiometric; where its counts
have no known unit, they stay counts.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import edge_sdk
from edge_sdk.errors import EdgeSdkError, SourceError

COLUMNS = (
    "key", "class", "score", "left_px", "top_px", "right_px", "bottom_px",
    "unit", "min", "mean", "max", "rise", "route", "reason", "picture",
)  # fmt: skip
ZERO_C_K = 273.15


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="holds one sub-folder a camera")
    parser.add_argument("--rgb", default="rgb", help="sub-folder of the colour files")
    parser.add_argument("--thermal", default="thermal", help="sub-folder of the raw 16-bit files")
    parser.add_argument(
        "--unit", help="counts, centikelvin, celsius, 0.04, ...; default: what pairs.json says, else counts"
    )
    parser.add_argument(
        "--registration", help="how heat lies on colour: a JSON file, same-view, centred or bundle"
    )
    parser.add_argument("--engine", default="substation-rgbt", help="bundle name or folder")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or tensorrt")
    parser.add_argument("--out", type=Path, default=Path("inspection"), help="folder for the report")
    parser.add_argument("--hot", default="hotspot", help="class whose frames are drawn")
    parser.add_argument(
        "--min-rise", type=float, default=10.0, help="kelvin over the surroundings, drawn too"
    )
    options = parser.parse_args()
    try:
        summary = inspect(options)
    except EdgeSdkError as error:
        raise SystemExit(f"error: {error}") from None
    print(f"{summary['frames']} frames, {len(summary['bad'])} bad, findings: {summary['findings']}")
    print(f"report in {options.out}")


def inspect(options: argparse.Namespace) -> dict[str, Any]:
    uri = f"pairs:{quote(str(options.folder))}?rgb={quote(options.rgb)}&thermal={quote(options.thermal)}"
    uri += "&partial=allow" + (f"&unit={quote(options.unit)}" if options.unit else "")
    routes: Counter[str] = Counter()
    found: Counter[str] = Counter()
    bad: list[dict[str, str]] = []
    with (
        edge_sdk.load(options.engine, device=options.device) as detector,
        edge_sdk.open_source(uri, registration=options.registration, on_bad="skip") as source,
        edge_sdk.FrameWriter(options.out / "pictures") as pictures,
        (options.out / "findings.csv").open("w", newline="", encoding="utf-8") as file,
    ):
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        for pair in source:
            detector.reset()  # the files of a folder are no sequence: no frame speaks for the next
            try:
                result = detector(pair)
            except SourceError as error:
                bad.append({"key": pair.key, "why": str(error)})
                continue
            routes[result.route.value] += 1
            picture = ""
            if any(is_hot(detection, options) for detection in result.detections):
                drawn = edge_sdk.annotate(pair, result)
                picture = pictures.write(pair.key, drawn).name
            for detection in result.detections:
                found[detection.class_name] += 1
                table.writerow(row(detection, result, picture))
        bad += [{"key": skipped.key, "why": skipped.why} for skipped in source.skipped]
        summary = {
            "frames": sum(routes.values()),
            "routes": dict(routes),
            "findings": dict(found),
            "pictures": pictures.count,
            "bad": bad,
            "engine": detector.bundle.manifest.name,
            "source": source.describe(),
        }
    (options.out / "summary.json").write_text(json.dumps(summary, indent=2), encoding="utf-8")
    return summary


def is_hot(detection: edge_sdk.Detection, options: argparse.Namespace) -> bool:
    heat = detection.temperatures
    rises = (
        heat is not None and heat.unit == "K" and heat.delta is not None and heat.delta >= options.min_rise
    )
    return detection.class_name == options.hot or rises


def row(detection: edge_sdk.Detection, result: edge_sdk.FrameResult, picture: str) -> dict[str, object]:
    box = dict(zip(("left_px", "top_px", "right_px", "bottom_px"), detection.box_xyxy, strict=True))
    line: dict[str, object] = {name: round(edge, 1) for name, edge in box.items()}
    heat = detection.temperatures
    if heat is not None:
        zero = ZERO_C_K if heat.unit == "K" else 0.0
        line |= {name: round(getattr(heat, name) - zero, 2) for name in ("min", "mean", "max")}
        line |= {
            "unit": "degC" if heat.unit == "K" else "counts",
            "rise": "" if heat.delta is None else round(heat.delta, 2),
        }
    return line | {
        "key": result.key,
        "class": detection.class_name,
        "score": round(detection.score, 4),
        "route": result.route.value,
        "reason": result.reason.value,
        "picture": picture,
    }


if __name__ == "__main__":
    main()
