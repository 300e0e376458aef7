"""Inspect a folder of pairs: a table of findings with temperatures, and a picture of every hot spot.

    python apps/inspect_folder.py site-7 --thermal ir16 --unit centikelvin --out site-7-report
    python apps/inspect_folder.py flir-pictures          a folder of radiometric JPEGs, as cameras save them

Writes `findings.csv` (a line a finding), `summary.json` (counts, routes, bad files by name) and
`pictures/` (frames with a finding of the class that --hot names, or with a part --min-rise kelvin over
its surroundings). Temperatures are in degrees Celsius where the camera is radiometric; where its counts
have no known unit, they stay counts. A bad file is counted and listed; Ctrl-C and SIGTERM end the inspection
with all of the report that there is until then, which says so.
"""

from __future__ import annotations

import argparse
import csv
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import edge_sdk
from edge_sdk.cli.streams import safe_streams
from edge_sdk.ending import Ending, StoppedBySignal
from edge_sdk.errors import ConfigError, EdgeSdkError, FrameError, SourceError
from edge_sdk.saving import save_json

COLUMNS = (
    "key", "class", "score", "left_px", "top_px", "right_px", "bottom_px",
    "unit", "min", "mean", "max", "rise", "route", "reason", "picture",
)  # fmt: skip
ZERO_C_K = 273.15


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="holds one sub-folder a camera, or radiometric JPEGs")
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
    safe_streams()  # `| head` ends no inspection
    ending = Ending()
    try:
        with ending.listening():
            summary = inspect(options, ending)
    except StoppedBySignal as stopped:
        return 128 + stopped.number
    except (EdgeSdkError, OSError) as error:
        raise SystemExit(f"error: {error}") from None
    print(f"{summary['frames']} frames, {len(summary['bad'])} bad, findings: {summary['findings']}")
    if summary["ended_early"]:
        print(f"ended early by {summary['ended_early']}")
    print(f"report in {options.out}")
    return ending.exit_status


def address(options: argparse.Namespace) -> str:
    """Writes the folder as a source: pairs where it holds one of the sub-folders, else single files."""
    folder = quote(str(options.folder))
    if options.folder.is_dir() and not any(
        (options.folder / sub).is_dir() for sub in (options.rgb, options.thermal)
    ):
        return f"file:{folder}"
    uri = f"pairs:{folder}?rgb={quote(options.rgb)}&thermal={quote(options.thermal)}&partial=allow"
    return uri + (f"&unit={quote(options.unit)}" if options.unit else "")


def inspect(options: argparse.Namespace, ending: Ending) -> dict[str, Any]:
    """Inspects file after file; returns the summary, which is on disk then."""
    routes: Counter[str] = Counter()
    found: Counter[str] = Counter()
    bad: list[dict[str, str]] = []
    with (
        edge_sdk.load(options.engine, device=options.device) as detector,
        edge_sdk.open_source(address(options), registration=options.registration, on_bad="skip") as source,
        edge_sdk.FrameWriter(options.out / "pictures") as pictures,
        (options.out / "findings.csv").open("w", newline="", encoding="utf-8", buffering=1) as file,
        ending.running(),
    ):
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        while True:
            key = ""
            try:
                with ending.waiting:
                    pair = next(source, None)
                if pair is None:
                    break
                key = pair.key
                result = detector(pair)
            except StoppedBySignal:
                break
            except (SourceError, ConfigError) as error:  # of this file alone
                key = error.key if isinstance(error, FrameError) else key
                bad.append({"key": key, "why": str(error)})
                if not key:
                    break  # the source itself failed, not a file of it
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
            "ended_early": signal.Signals(ending.signal).name if ending.signal else None,
        }
    save_json(options.out / "summary.json", summary)
    ending.saved()
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
    sys.exit(main())
