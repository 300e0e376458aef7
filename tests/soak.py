"""Soak: an hour's worth of camera frames at full speed, with faults at random, and what it left behind.

    python tests/soak.py --hours 1 --seed 1 --json soak.json

Part one, on a fake clock: 30 Hz RGB and 9 Hz thermal (each frame sent three times), faults of every kind
drawn from the seed. Part two, with the real threads of the source and no pace at all: devices that hold a
file handle and are lost about every 300 frames. Nothing here measures a camera: the devices are fakes.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fake_cameras import FakeCamera, FakeDevice, Rig, Trouble, make_rig

from edge_sdk.clock import FakeClock
from edge_sdk.errors import CameraError
from edge_sdk.frames import FramePair
from edge_sdk.sources.cameras import CameraSource, Grab
from edge_sdk.sources.cameras.reader import Backoff
from edge_sdk.sources.cameras.settings import CameraAddress

KINDS = (
    "lost",
    "silent",
    "frozen",
    "black",
    "saturated",
    "covered",
    "wrong-size",
    "backwards",
    "undecodable",
    "stale",
)
QUARTERS = 4
LIMIT_MS = 60.0


def troubles(rng: np.random.Generator, seconds: float, thermal: bool) -> list[Trouble]:
    """Draws faults: one about every 12 s, each 0.1 to 6 s long; two of one camera never overlap."""
    found: list[Trouble] = []
    at_s = 3.0
    kinds = (*KINDS, "ffc", "ffc") if thermal else KINDS
    while True:
        at_s += float(rng.exponential(12.0))
        length_s = float(rng.uniform(0.1, 6.0))
        if at_s + length_s > seconds - 10:
            return found
        found.append(Trouble(str(rng.choice(kinds)), at_s, at_s + length_s))
        at_s += length_s


def resident_mib() -> float:
    """Memory of this process that is in RAM. Source: /proc/self/statm, in pages."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def handles() -> int:
    """Open file handles of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))


def snapshot() -> dict[str, float]:
    """What must not grow."""
    gc.collect()
    return {
        "resident_mib": round(resident_mib(), 1),
        "threads": threading.active_count(),
        "handles": handles(),
    }


def unaccounted(source: CameraSource, sent: dict[str, int]) -> dict[str, int]:
    """Frames that a camera sent and nobody knows of; 0 is right."""
    lost = {}
    for camera, ledger in source.status()["pairing"]["frames"].items():
        known = ledger["given"] + ledger["waiting"] + sum(ledger["dropped"].values())
        lost[camera] = sent[camera] - known
    return lost


def on_a_fake_clock(seed: int, seconds: float) -> dict[str, Any]:
    """Part one."""
    rng = np.random.default_rng(seed)
    rig: Rig = make_rig(
        troubles(rng, seconds, thermal=False),
        troubles(rng, seconds, thermal=True),
        engine_ms=20.0,
        thermal_extra={"repeats": 3, "offset_ns": 12_345_678_901, "jitter_ms": 10.0},
    )
    rig.ages_ms = _Largest()  # type: ignore[assignment]
    worst = {"skew_ms": 0.0, "fused_in_fault": 0}

    def look(pair: FramePair, now_ns: int) -> None:
        if pair.skew_ms is not None:
            worst["skew_ms"] = max(worst["skew_ms"], abs(pair.skew_ms))
            worst["fused_in_fault"] += pair.rgb_fault is not None or pair.thermal_fault is not None

    snapshots = []
    for quarter in range(1, QUARTERS + 1):
        rig.run(seconds * quarter / QUARTERS, look)
        snapshots.append(snapshot())
    status = rig.source.status()
    return {
        "seconds_of_frames": seconds,
        "sent": {side: camera.sent for side, camera in rig.cameras.items()},
        "unaccounted": unaccounted(rig.source, {side: camera.sent for side, camera in rig.cameras.items()}),
        "pairs": status["pairing"]["pairs"],
        "singles": status["pairing"]["singles"],
        "dropped": {side: ledger["dropped"] for side, ledger in status["pairing"]["frames"].items()},
        "faults": {side: camera["faults"] for side, camera in status["cameras"].items()},
        "reconnects": {side: camera["reconnects"] for side, camera in status["cameras"].items()},
        "well_at_the_end": {side: camera["health"] == "ok" for side, camera in status["cameras"].items()},
        "open_devices": {side: camera.open_devices for side, camera in rig.cameras.items()},
        "largest_skew_ms": round(worst["skew_ms"], 2),
        "pairs_of_a_camera_at_fault": worst["fused_in_fault"],
        "oldest_frame_given_ms": round(rig.ages_ms.most, 1),  # type: ignore[attr-defined]
        "snapshots": snapshots,
    }


class _Largest:
    """A list that only keeps its largest entry."""

    most = 0.0

    def append(self, value: float) -> None:
        """Takes one more."""
        self.most = max(self.most, value)


class BusyCamera(FakeCamera):
    """A camera without any pace; each open device holds a file handle, and is lost at random."""

    def __init__(self, role: str, seed: int, count: int) -> None:
        super().__init__(role, 30, FakeClock(10**12), seed=seed)
        self.draw = np.random.default_rng(seed)
        self.count = count


class BusyDevice(FakeDevice):
    """See `BusyCamera`."""

    def __init__(self, camera: BusyCamera) -> None:
        self._busy = camera
        self._handle = os.open(os.devnull, os.O_RDONLY)
        super().__init__(camera)
        self.clock = "none"

    def grab(self) -> Grab:
        """Gives the next picture, or loses the camera about every 300."""
        if self._busy.draw.random() < 1 / 300 or self._busy.sent >= self._busy.count:
            raise CameraError(self._busy.role, "the cable was pulled")
        grab, _ = self._busy.picture()
        self._busy.sent += 1
        return Grab(grab.image, None, grab.facts)

    def close(self) -> None:
        """Gives the handle back."""
        if self._open:
            os.close(self._handle)
        super().close()


def with_threads(seed: int, frames: int) -> dict[str, Any]:
    """Part two."""
    before = snapshot()
    cameras = {role: BusyCamera(role, seed + index, frames) for index, role in enumerate(("rgb", "thermal"))}

    def opener(address: CameraAddress) -> BusyDevice:
        return BusyDevice(cameras[address.role])

    taken = 0
    during = []
    with CameraSource(
        "camera:?rgb=v4l2://0&thermal=v4l2://1&limit_ms=1000&patience_s=600",
        opener=opener,
        backoff=Backoff(first_ms=1, most_ms=5),
    ) as source:
        source.start()
        while any(camera.sent < frames for camera in cameras.values()):
            taken += source.hub.wait(0.05) is not None
            if len(during) < QUARTERS and cameras["rgb"].sent > frames * len(during) / QUARTERS:
                during.append(snapshot())
        reconnects = {side: reader.reconnects for side, reader in source.readers.items()}
    sent = {side: camera.sent for side, camera in cameras.items()}
    return {
        "sent": sent,
        "taken": taken,
        "unaccounted": unaccounted(source, sent),
        "reconnects": reconnects,
        "open_devices": {side: camera.open_devices for side, camera in cameras.items()},
        "before": before,
        "during": during,
        "after": snapshot(),
    }


def problems(result: dict[str, Any], growth_mib: float = 8.0) -> list[str]:
    """Says what is wrong with a result; nothing where the soak was passed."""
    found = []
    fake, busy = result["fake_clock"], result["threads"]
    for name, part in (("fake clock", fake), ("threads", busy)):
        found += [
            f"{name}: {side}: {lost} frames unaccounted" for side, lost in part["unaccounted"].items() if lost
        ]
    first, last = fake["snapshots"][0], fake["snapshots"][-1]
    if last["resident_mib"] - first["resident_mib"] > growth_mib:
        found.append(f"memory grew from {first['resident_mib']} to {last['resident_mib']} MiB")
    found += [f"{name} grew" for name in ("threads", "handles") if last[name] > first[name]]
    found += [
        f"{name} grew with threads"
        for name in ("threads", "handles")
        if busy["after"][name] > busy["before"][name]
    ]
    if busy["during"] and busy["after"]["resident_mib"] - busy["during"][0]["resident_mib"] > growth_mib:
        found.append("memory grew with threads")
    found += [f"{side} was not well at the end" for side, well in fake["well_at_the_end"].items() if not well]
    if fake["largest_skew_ms"] > LIMIT_MS or fake["pairs_of_a_camera_at_fault"]:
        found.append("frames of different moments were paired")
    if any(busy["open_devices"].values()) or any(count != 1 for count in fake["open_devices"].values()):
        found.append("devices were left open")
    return found


def soak(seed: int, hours: float) -> dict[str, Any]:
    """Runs both parts."""
    result: dict[str, Any] = {
        "recipe": f"python tests/soak.py --hours {hours:g} --seed {seed}",
        "seed": seed,
        "devices": "fakes; nothing here is a camera's time or a device's power",
        "fake_clock": on_a_fake_clock(seed, hours * 3600),
        "threads": with_threads(seed, max(1500, round(hours * 30000))),
    }
    result["problems"] = problems(result)
    return result


def main() -> None:
    """Reads the arguments, runs, writes the result; exit status 1 where the soak was not passed."""
    parser = argparse.ArgumentParser(description="Soak test of the camera sources.")
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    result = soak(arguments.seed, arguments.hours)
    text = json.dumps(result, indent=1)
    if arguments.json:
        arguments.json.write_text(text + "\n", encoding="utf-8")
    print(text)
    sys.exit(1 if result["problems"] else 0)


if __name__ == "__main__":
    main()
