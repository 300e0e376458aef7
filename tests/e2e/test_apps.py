"""The apps, run as a user runs them: as programs, on a toy engine and a folder of synthetic pairs."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import cv2
import numpy as np
import pytest
from frames_on_disk import write_image

APPS = Path(__file__).parents[2] / "apps"
FRAMES = 6
SIZE_WH = (64, 48)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six pairs with a bright cell each; the last three have a hot one too, and one file is broken."""
    folder = tmp_path_factory.mktemp("site 7")
    for name in ("rgb", "ir16"):
        (folder / name).mkdir()
    noise = np.random.default_rng(0)
    for index in range(FRAMES):
        rgb = np.full((*SIZE_WH[::-1], 3), 100, np.uint8) + noise.integers(
            0, 20, (*SIZE_WH[::-1], 3), np.uint8
        )
        rgb[8:16, 8:16] = 250
        thermal = noise.normal(29500, 5, SIZE_WH[::-1]).astype(np.uint16)
        if index >= 3:
            thermal[24:32, 40:48] = 33500
        write_image(folder / "rgb" / f"{index}.png", rgb)
        write_image(folder / "ir16" / f"{index}.png", thermal)
    (folder / "rgb" / "1.png").write_bytes(b"")
    return folder


def run_app(name: str, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    command = [sys.executable, "-W", "error", str(APPS / name), *map(str, arguments)]
    path = os.pathsep.join(filter(None, (str(APPS.parent), environment.get("PYTHONPATH"))))
    return subprocess.run(
        command, cwd=cwd, env={**environment, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )


def test_inspect_folder_writes_findings_and_pictures(site: Path, toy_fusion: Path, tmp_path: Path) -> None:
    done = run_app(
        "inspect_folder.py", site, "--thermal", "ir16", "--unit", "centikelvin", "--engine", toy_fusion,
        "--device", "cpu", "--hot", "hot", "--out", "report", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "report" / "summary.json").read_text())
    assert summary["frames"] == FRAMES - 1
    assert [bad["key"] for bad in summary["bad"]] == ["1"]
    assert "0 bytes" in summary["bad"][0]["why"]
    with (tmp_path / "report" / "findings.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sum(summary["findings"].values()) == len(rows)
    hot = [row for row in rows if row["class"] == "hot"]
    assert {row["key"] for row in hot} == {"3", "4", "5"}
    for row in hot:
        assert row["unit"] == "degC"
        assert 55 < float(row["max"]) < 65
        picture = cv2.imread(str(tmp_path / "report" / "pictures" / row["picture"]))
        assert picture is not None
        assert picture.shape[0] > 600


def test_inspect_folder_claims_no_degrees_from_counts(site: Path, toy_fusion: Path, tmp_path: Path) -> None:
    done = run_app(
        "inspect_folder.py",
        site,
        "--thermal",
        "ir16",
        "--engine",
        toy_fusion,
        "--device",
        "cpu",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "inspection" / "findings.csv").read_text()
    assert "counts" in text
    assert "degC" not in text


def test_camera_demo_writes_a_video_without_a_display(site: Path, toy_fusion: Path, tmp_path: Path) -> None:
    uri = f"pairs:{site}?thermal=ir16"
    done = run_app(
        "camera_demo.py", uri, "--engine", toy_fusion, "--device", "cpu", "--frames", 8,
        "--out", "camera-demo.avi", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "camera-demo.avi" in done.stdout
    assert "because" in done.stdout
    assert "8 frames shown, 2 bad ones skipped" in done.stdout
    video = cv2.VideoCapture(str(tmp_path / "camera-demo.avi"))
    assert video.get(cv2.CAP_PROP_FRAME_COUNT) == 8
    video.release()


def test_camera_demo_serves_its_page(site: Path, toy_fusion: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-u",
        "-W",
        "error",
        str(APPS / "camera_demo.py"),
        f"pairs:{site}?thermal=ir16",
    ]
    command += ["--engine", str(toy_fusion), "--device", "cpu", "--serve", "127.0.0.1:0", "--pace-hz", "20"]
    environment = {**os.environ, "PYTHONPATH": str(APPS.parent)}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        url = program.stdout.readline().split()[2]
        with urllib.request.urlopen(f"{url}api/state", timeout=30) as answer:
            assert json.load(answer)["facts"]["engine"].startswith("toy-fusion")
        program.send_signal(signal.SIGINT)
        rest = program.communicate(timeout=60)[0]
    assert program.returncode == 0, rest
    assert "frames shown" in rest


def test_async_consumer_leaves_the_event_loop_free(site: Path, toy_fusion: Path, tmp_path: Path) -> None:
    uri = f"pairs:{site}?thermal=ir16"
    done = run_app("async_consumer.py", uri, "--engine", toy_fusion, "--device", "cpu", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    seen, dropped = (int(number) for number in re.findall(r"(\d+) (?:results seen|dropped)", last))
    assert seen + dropped == FRAMES - 1
    assert seen >= 1
    assert "because" in done.stdout
    assert "event loop free: True" in last


def test_async_consumer_drops_the_oldest_for_a_slow_consumer(
    site: Path, toy_fusion: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(APPS))
    import async_consumer

    async def slow() -> tuple[list[str], int]:
        uri = f"pairs:{site}?thermal=ir16"
        async with async_consumer.Results(str(toy_fusion), uri, device="cpu") as results:
            await asyncio.to_thread(results._thread.join)  # everything was answered before anybody looked
            return [result.key async for result in results], results.dropped

    keys, dropped = asyncio.run(slow())
    assert dropped == FRAMES - 1 - len(keys) + 0
    assert keys == ["3", "4", "5"]


def test_async_consumer_ends_an_endless_source_when_cancelled(
    toy_fusion: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(APPS))
    import async_consumer
    from pairs import make_pair

    from edge_sdk.sources import MemorySource

    endless = MemorySource([make_pair(index) for index in range(3)], loop=0)
    monkeypatch.setattr(async_consumer.edge_sdk, "open_source", lambda *_, **__: endless)

    async def three() -> list[str]:
        keys: list[str] = []
        async with async_consumer.Results(str(toy_fusion), "memory:endless", device="cpu") as results:
            async for result in results:
                keys.append(result.key)
                if len(keys) == 3:
                    break
        return keys

    assert len(asyncio.run(asyncio.wait_for(three(), 60))) == 3


def test_async_consumer_hands_errors_on(toy_fusion: Path, tmp_path: Path) -> None:
    done = run_app("async_consumer.py", "pairs:nowhere", "--engine", toy_fusion, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")


def test_sla_validate_ends_with_the_verdict(site: Path, toy_fusion: Path, tmp_path: Path) -> None:
    sla = tmp_path / "sla.yaml"
    text = (
        f"name: toy\nengine: {toy_fusion}\nsource: 'pairs:{site}?thermal=ir16&partial=allow'\n"
        "latency: {{p50_ms: {limit}}}\nframes: {{max_dropped_share: 0.5}}\n"
        "run: {{frames: 200}}\ndevice: cpu\n"
    )
    sla.write_text(text.format(limit=10_000))
    kept = run_app("sla_validate.py", sla, "--record", "record.json", cwd=tmp_path)
    assert kept.returncode == 0, kept.stdout + kept.stderr
    assert "SLA toy: PASS" in kept.stdout
    assert json.loads((tmp_path / "record.json").read_text())
    sla.write_text(text.format(limit=0.001))
    missed = run_app("sla_validate.py", sla, cwd=tmp_path)
    assert missed.returncode == 1, missed.stdout + missed.stderr
    assert "SLA toy: FAIL" in missed.stdout


@pytest.mark.parametrize(
    ("app", "arguments", "status"),
    [
        ("camera_demo.py", ["--engine", "no-such-engine"], 1),
        ("inspect_folder.py", ["nowhere", "--engine", "no-such-engine"], 1),
        ("sla_validate.py", ["nowhere.yaml"], 3),
    ],
)
def test_errors_are_one_line(app: str, arguments: list[str], status: int, tmp_path: Path) -> None:
    done = run_app(app, *arguments, cwd=tmp_path)
    assert done.returncode == status
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
