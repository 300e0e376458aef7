"""The apps, run as a user runs them: as programs, on a toy engine and a folder of synthetic pairs."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np
import pytest
import test_rtsp as rtsp
from frames_on_disk import write_image
from live_runs import eventually

APPS = Path(__file__).parents[2] / "apps"
DATA = Path(__file__).parents[1] / "data" / "thermal"
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


@contextmanager
def start_app(name: str, *arguments: object, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """Runs an app beside the test, which ends it."""
    command = [sys.executable, "-u", "-W", "error", str(APPS / name), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(APPS.parent)}
    with subprocess.Popen(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        try:
            yield program
        finally:
            if program.poll() is None and program.stdout is not None and not program.stdout.closed:
                program.kill()


@pytest.fixture(scope="module")
def long_site(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The last three pairs of the site in turn, two thousand."""
    folder = tmp_path_factory.mktemp("long")
    for name in ("rgb", "ir16"):
        (folder / name).mkdir()
        for index in range(2000):
            os.link(site / name / f"{3 + index % 3}.png", folder / name / f"{index:04d}.png")
    return folder


def test_inspect_folder_that_is_stopped_keeps_its_report(
    long_site: Path, toy_fusion: Path, tmp_path: Path
) -> None:
    with start_app(
        "inspect_folder.py", long_site, "--thermal", "ir16", "--unit", "centikelvin", "--engine", toy_fusion,
        "--device", "cpu", "--hot", "hot", "--out", "report", cwd=tmp_path,
    ) as program:  # fmt: skip
        table = tmp_path / "report" / "findings.csv"
        assert eventually(lambda: table.is_file() and table.read_text().count("\n") > 3, 60)
        program.send_signal(signal.SIGTERM)
        out, err = program.communicate(timeout=60)
    assert program.returncode == 128 + signal.SIGTERM, err
    assert "ended early by SIGTERM" in out
    summary = json.loads((tmp_path / "report" / "summary.json").read_text())
    assert summary["ended_early"] == "SIGTERM"
    assert 0 < summary["frames"] < 2000
    with table.open() as file:
        assert len(list(csv.DictReader(file))) == sum(summary["findings"].values())
    pictures = list((tmp_path / "report" / "pictures").iterdir())
    assert len(pictures) == summary["pictures"]
    assert all(path.suffix == ".jpg" for path in pictures)


def test_inspect_folder_lists_every_kind_of_bad_file(site: Path, toy_fusion: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(site, folder)
    (folder / "rgb" / "2.png").write_bytes((folder / "rgb" / "2.png").read_bytes()[:-40])
    (folder / "rgb" / "3.png").write_text("no picture")
    shutil.copy(folder / "rgb" / "0.png", folder / "ir16" / "4.png")
    done = run_app(
        "inspect_folder.py", folder, "--thermal", "ir16", "--unit", "centikelvin", "--engine", toy_fusion,
        "--device", "cpu", "--out", "report", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "report" / "summary.json").read_text())
    assert sorted(bad["key"] for bad in summary["bad"]) == ["1", "2", "3", "4"]
    assert all(bad["why"] for bad in summary["bad"])
    assert (summary["frames"], summary["ended_early"]) == (2, None)
    assert "2 frames, 4 bad" in done.stdout


def test_inspect_folder_takes_the_pictures_of_a_radiometric_camera(toy_fusion: Path, tmp_path: Path) -> None:
    pytest.importorskip("flyr", reason="needs the package flyr")
    folder = tmp_path / "flir"
    folder.mkdir()
    shutil.copy(DATA / "rjpeg-handheld.jpg", folder)
    (folder / "broken.jpg").write_bytes((folder / "rjpeg-handheld.jpg").read_bytes()[:60_000])
    done = run_app("inspect_folder.py", folder, "--engine", toy_fusion, "--device", "cpu", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "inspection" / "summary.json").read_text())
    assert (summary["frames"], len(summary["bad"])) == (1, 1)


@pytest.mark.parametrize("app", ["inspect_folder.py", "camera_demo.py", "async_consumer.py"])
def test_a_reader_that_goes_away_ends_nothing(app: str, site: Path, toy_fusion: Path, tmp_path: Path) -> None:
    """As `| head -1` does."""
    uri = f"pairs:{site}?thermal=ir16&unit=centikelvin"
    arguments = {
        "inspect_folder.py": [site, "--thermal", "ir16"],
        "camera_demo.py": [uri, "--out", "demo.avi"],
        "async_consumer.py": [uri],
    }[app]
    with start_app(app, *arguments, "--engine", toy_fusion, "--device", "cpu", cwd=tmp_path) as program:
        assert program.stdout is not None
        program.stdout.close()
        assert program.stderr is not None
        said = program.stderr.read()
    assert (program.returncode, said) == (0, "")
    if app == "inspect_folder.py":
        assert (tmp_path / "inspection" / "summary.json").is_file()
    if app == "camera_demo.py":
        video = cv2.VideoCapture(str(tmp_path / "demo.avi"))
        assert video.get(cv2.CAP_PROP_FRAME_COUNT) == FRAMES - 1, "files are gone through once"
        video.release()


def test_camera_demo_that_is_stopped_keeps_its_video(
    long_site: Path, toy_fusion: Path, tmp_path: Path
) -> None:
    uri = f"pairs:{long_site}?thermal=ir16"
    with start_app(
        "camera_demo.py", uri, "--engine", toy_fusion, "--device", "cpu", "--out", "demo.avi", "--loop", "0",
        cwd=tmp_path,
    ) as program:  # fmt: skip
        assert eventually(lambda: any(file.stat().st_size > 100_000 for file in tmp_path.iterdir()), 60)
        program.send_signal(signal.SIGTERM)
        out, err = program.communicate(timeout=60)
    assert program.returncode == 0, err
    shown = int(re.findall(r"(\d+) frames shown", out)[0])
    video = cv2.VideoCapture(str(tmp_path / "demo.avi"))
    assert video.get(cv2.CAP_PROP_FRAME_COUNT) == shown > 0
    video.release()


@rtsp.pytestmark
@pytest.mark.parametrize("app", ["camera_demo.py", "async_consumer.py"])
def test_live_cameras_are_shown_until_a_signal_comes(app: str, toy_fusion: Path, tmp_path: Path) -> None:
    server = rtsp.Server()
    try:
        arguments = ["--out", "pictures"] if app == "camera_demo.py" else []
        with start_app(
            app, f"{server.uri}?timeout_ms=800", "--engine", toy_fusion, "--device", "cpu", *arguments,
            cwd=tmp_path,
        ) as program:  # fmt: skip
            assert program.stdout is not None
            assert any("because" in line for line in iter(program.stdout.readline, ""))
            server.kill()
            program.send_signal(signal.SIGTERM)
            out, err = program.communicate(timeout=20)
    finally:
        server.kill()
    assert program.returncode == 0, err
    assert "Traceback" not in err
    assert re.search(r"[1-9]\d* (frames shown|results seen)", out), out
    if arguments:
        assert list((tmp_path / "pictures").glob("*.jpg"))


def test_files_that_stand_for_a_camera_are_shown(toy_fusion: Path, tmp_path: Path) -> None:
    noise = np.random.default_rng(0)
    scene = np.linspace(29_000, 31_000, 64) + noise.normal(0, 5, (5, 48, 64))
    np.save(tmp_path / "thermal.npy", scene.astype(np.uint16))
    uri = f"file:{tmp_path}/thermal.npy?unit=centikelvin&fps=9"
    done = run_app(
        "camera_demo.py", uri, "--engine", toy_fusion, "--device", "cpu", "--out", "p", "--loop", "0",
        "--frames", "12", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "12 frames shown" in done.stdout


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
