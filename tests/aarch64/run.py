"""Runs the SDK on aarch64, emulated: behaviour, no times.

    python tests/aarch64/run.py

Installs every extra's wheels for aarch64 (and says which have none), runs known frames of the shipped clip
there and here, compares routes, detections and the canary's reference, and runs the tests of the CUDA layer
there: the emulated driver cross-compiled, with pycuda and cuda-bindings on it. Where the machine cannot be
made, it says why and ends well; in CI that is an error.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from emulated_driver import Unavailable  # noqa: E402
from pycuda_wheel import Machine, build_wheel  # noqa: E402
from wheels import LOOKED_FOR, install_wheel, look_for  # noqa: E402
from world import World, make_world  # noqa: E402

from edge_sdk.detections import box_iou  # noqa: E402
from edge_sdk.devices.canary import AGREE_MIN, IOU_MIN, SCORE_MAX  # noqa: E402

ROOT = Path(__file__).parents[2]
MODULES = (
    "numpy", "cv2", "onnxruntime", "onnx", "yaml", "rich", "typer", "av", "cptv", "flyr", "jtop", "pynvml",
    "cuda.bindings.driver", "aiohttp", "prometheus_client", "mcap.reader", "paho.mqtt.client",
)  # fmt: skip
TESTS = (
    "tests/unit/test_int8_sums.py",
    "tests/unit/test_onnx_constants.py",
    "tests/unit/test_emulator.py",
    "tests/unit/test_cuda.py",
    "tests/unit/test_cuda_graphs.py",
    "tests/unit/test_buffers.py",
)
SCORE_MIN = 0.3
"""Of the bundle: what is no further above it than scores may differ can be missing on the other side."""
LITERAL_MAX = 0.03
"""Graphs computed as written differ by so much of an output's standard deviation: sums in another order."""


def main() -> int:
    """Returns the exit status."""
    began = time.monotonic()
    try:
        world = make_world()
    except Unavailable as reason:
        print(f"aarch64: not tested: {reason}")
        return int(bool(os.environ.get("CI")))
    _say(began, f"made: Python {world.target.python}, glibc 2.{world.target.glibc}")
    print(f"wheels for aarch64: {', '.join(world.installed)}")
    for name, instead in world.without_wheel.items():
        print(f"no wheel for aarch64: {name}: {instead}")
    for name, there in look_for(LOOKED_FOR, world.target).items():
        print(f"not fetched: {name}, which has {'a' if there else 'no'} wheel for aarch64")
    _say(began, "frames of the clip; beside them pycuda is compiled")
    with ThreadPoolExecutor() as pool:
        pycuda = pool.submit(_compile_pycuda, world)
        faults = [*_compare_answers(world), *filter(None, [pycuda.result()])]
    _say(began, "tests of INT8 and of the CUDA layer")
    if _inside(world, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *TESTS):
        faults.append("tests failed on aarch64, see above")
    _say(began, "edge-sdk doctor")
    if _inside(world, "-c", "from edge_sdk.cli.main import main; main()", "doctor"):
        faults.append("edge-sdk doctor failed on aarch64")
    for fault in faults:
        print(f"aarch64: {fault}")
    print(f"aarch64, emulated: {'FAILED' if faults else 'passed'} in {time.monotonic() - began:.0f} s")
    return int(bool(faults))


def _compile_pycuda(world: World) -> str:
    """Compiles it with the cross compiler, the only one there; returns why it could not be, or ""."""
    ask = "from emulated_driver import build_driver; print(build_driver().parent)"
    driver = subprocess.run(
        [world.python, "-c", ask],
        env=world.environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    machine = Machine(
        "aarch64",
        Path(sys.executable),
        world.environment,
        Path(driver.stdout.strip()),
        ("--no-build-isolation",),  # setuptools and NumPy are there
    )
    try:
        install_wheel(build_wheel(world.python, machine=machine), world.site, world.target)
    except Unavailable as reason:
        return f"pycuda: {reason}"
    return ""


def _compare_answers(world: World) -> list[str]:
    with tempfile.TemporaryDirectory() as scratch:
        here, there = Path(scratch, "here.json"), Path(scratch, "there.json")
        script = str(Path(__file__).with_name("answers.py"))
        emulated = subprocess.Popen([world.python, script, there, *MODULES], env=world.environment, cwd=ROOT)
        subprocess.run([sys.executable, script, here], check=True, cwd=ROOT)
        if emulated.wait():
            return [f"answers.py ended with status {emulated.returncode} on aarch64"]
        return _differences(json.loads(here.read_text()), json.loads(there.read_text()))


def _differences(here: dict[str, Any], there: dict[str, Any]) -> list[str]:
    faults = [f"import {name}: {why}" for name, why in there["imports"].items() if why]
    if there["machine"] != "aarch64":
        faults.append(f"the emulated machine calls itself {there['machine']}")
    if there["int8_sums"] != ["exact", "exact"]:
        faults.append(f"INT8 sums are {there['int8_sums']}, expected exact")
    largest, sure, lost = 0.0, 0, 0
    for mine, other in zip(here["frames"], there["frames"], strict=True):
        for key in ("key", "route", "reason"):
            if mine[key] != other[key]:
                faults.append(f"frame {mine['key']}: {key} {other[key]}, on x86-64 {mine[key]}")
        off, found, lacking = _unlike(mine, other)
        largest, sure, lost = max(largest, off), sure + found, lost + lacking
    if lost > (1 - AGREE_MIN) * sure:
        faults.append(f"{lost} of {sure} detections of both machines are not found by the other")
    for side, said in (("x86-64", here), ("aarch64", there)):
        if "rejected" in said["canary"]:
            faults.append(f"canary on {side}: {said['canary']['rejected']}")
    if not faults:
        shares = {
            name: _share(
                np.array(here["canary"]["outputs"][name]), np.array(there["canary"]["outputs"][name])
            )
            for name in here["canary"]["outputs"]
        }
        faults += [
            f"{name}, computed as written, differs by {x:.3f}"
            for name, x in shares.items()
            if not x <= LITERAL_MAX
        ]
        routes = sorted({frame["route"] for frame in there["frames"]})
        print(
            f"{len(there['frames'])} frames, routes {', '.join(routes)}, {sure} detections of both, {lost} not found by the other; "
            f"scores within {largest:.4f}; reference graphs within "
            f"{max(shares.values()):.4f} of a standard deviation"
        )
        print(f"canary on aarch64: {json.dumps(there['canary']['graphs'])}")
        if routes != ["fuse", "rgb", "thermal"]:
            faults.append(f"routes taken: {', '.join(routes)}; expected all three")
    return faults


def _unlike(mine: dict[str, Any], other: dict[str, Any]) -> tuple[float, int, int]:
    """The largest difference of scores, the sure detections of both sides, and those that the other lacks."""
    largest, sure, lost = 0.0, 0, 0
    for one, two in ((mine, other), (other, mine)):
        boxes, theirs = (np.asarray(side["xyxy"], np.float32).reshape(-1, 4) for side in (one, two))
        overlap = box_iou(boxes, theirs)
        for index, score in enumerate(one["scores"]):
            fits = (overlap[index] >= IOU_MIN) & (np.array(two["class_ids"]) == one["class_ids"][index])
            off = float(np.abs(np.array(two["scores"])[fits] - score).min(initial=1.0))
            if score <= SCORE_MIN + SCORE_MAX:
                continue
            sure += 1
            if off <= SCORE_MAX:
                largest = max(largest, off)
            else:
                lost += 1
    return largest, sure, lost


def _share(wanted: Any, got: Any) -> float:
    return float(np.sqrt(np.mean((got - wanted) ** 2)) / wanted.std())


def _inside(world: World, *arguments: str) -> int:
    return subprocess.run([world.python, *arguments], env=world.environment, cwd=ROOT, check=False).returncode


def _say(began: float, what: str) -> None:
    print(f"== aarch64, {time.monotonic() - began:.0f} s: {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
