"""`run --record`, `replay`, `--video`, `--serve` and `mcap:`, as a user types them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import cv2
import pytest
from frames_on_disk import write_pairs
from live_runs import eventually

from edge_sdk.recording import Recording

CLI = [sys.executable, "-W", "error", "-m", "edge_sdk.cli.main"]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "site", keys=[str(index) for index in range(20)])


def cli(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CLI, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False,
        env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip


def common(site: Path, engine: Path) -> list[str]:
    source = f"pairs:{site}?unit=centikelvin"
    return [
        "run",
        "--source",
        source,
        "--engine",
        str(engine),
        "--device",
        "cpu",
        "--threads",
        "1",
        "--no-progress",
    ]


@pytest.mark.parametrize("rgb", ["lossless", "jpeg"])
def test_a_recorded_run_is_replayed_and_the_same(
    site: Path, toy_fusion: Path, tmp_path: Path, rgb: str
) -> None:
    done = cli(
        *common(site, toy_fusion),
        "--record",
        "run.mcap",
        "--record-rgb",
        rgb,
        "--video",
        "run.avi",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "Recording: run.mcap: 20 pairs" in done.stdout
    video = cv2.VideoCapture(str(tmp_path / "run.avi"))
    assert video.get(cv2.CAP_PROP_FRAME_COUNT) == 20
    video.release()
    replayed = ("replay", "run.mcap", "--engine", toy_fusion, "--device", "cpu", "--threads", "1")
    again = cli(*replayed, "--comparison", "same.json", "--json", "record.json", cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "Same as recorded: routes 20 of 20, boxes and temperatures, bit for bit, 20 of 20" in again.stdout
    comparison = json.loads((tmp_path / "same.json").read_text())
    assert comparison["same"] is True
    assert json.loads((tmp_path / "record.json").read_text())["source"]["uri"].startswith("mcap:")
    paced = cli(*replayed, "--pace", "recorded", "--speed", "8", cwd=tmp_path)
    assert "At 8 times the recorded pace" in paced.stdout
    as_source = cli(
        "run",
        "--source",
        "mcap:run.mcap",
        "--engine",
        toy_fusion,
        "--device",
        "cpu",
        "--no-progress",
        cwd=tmp_path,
    )
    assert as_source.returncode == 0, as_source.stderr


def test_a_tampered_answer_is_found(site: Path, toy_fusion: Path, tmp_path: Path) -> None:
    """Exit status 1, and the pair by name: a comparison that cannot fail proves nothing."""
    from edge_sdk.recording.writer import SegmentedFile

    assert cli(*common(site, toy_fusion), "--record", "run.mcap", cwd=tmp_path).returncode == 0
    recording = Recording(tmp_path / "run.mcap")
    forged = SegmentedFile(
        tmp_path / "forged.mcap",
        {name: value if isinstance(value, str) else json.dumps(value) for name, value in {
            "version": "1", **recording.facts.as_json()}.items()},
        limit_bytes=1 << 24,
        ring=False,
    )  # fmt: skip
    from mcap.reader import make_reader

    with (tmp_path / "run.mcap").open("rb") as file:
        parts: dict[int, dict[str, bytes]] = {}
        for _, channel, message in make_reader(file).iter_messages():
            parts.setdefault(message.sequence, {})[channel.topic] = message.data
    for sequence, topics in parts.items():
        entry = json.loads(topics["/pair"])
        if sequence == 7:
            entry["result"]["route"], entry["result"]["reason"] = "rgb", "confident"
        forged.write(sequence, sequence, topics["/rgb"], topics["/thermal"], json.dumps(entry).encode())
    forged.close()
    recording.close()
    again = cli(
        "replay", "forged.mcap", "--engine", toy_fusion, "--device", "cpu", "--threads", "1", cwd=tmp_path
    )
    assert again.returncode == 1, again.stdout
    assert "routes 19 of 20" in again.stdout
    assert "differs: 6: was rgb (confident), now" in again.stdout


def test_a_kill_leaves_a_recording_that_can_be_read(site: Path, toy_fusion: Path, tmp_path: Path) -> None:
    command = [*common(site, toy_fusion), "--record", "run.mcap", "--loop", "0", "--pace-hz", "60"]
    with subprocess.Popen([*CLI, *command], cwd=tmp_path, stdout=subprocess.DEVNULL) as program:
        path = tmp_path / "run.mcap"
        assert eventually(lambda: path.is_file() and path.stat().st_size > 60_000, 60)
        program.send_signal(signal.SIGKILL)
    again = cli(
        "replay", "run.mcap", "--engine", toy_fusion, "--device", "cpu", "--threads", "1", cwd=tmp_path
    )
    assert again.returncode == 0, again.stdout + again.stderr
    assert "cut short" in again.stdout


def test_ctrl_c_ends_a_served_run_in_good_order(site: Path, toy_fusion: Path, tmp_path: Path) -> None:
    command = [
        *common(site, toy_fusion),
        "--loop",
        "0",
        "--pace-hz",
        "20",
        "--serve",
        "127.0.0.1:0",
        "--json",
        "r.json",
    ]
    with subprocess.Popen(
        [*CLI, *command],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as program:
        assert program.stdout is not None
        url = program.stdout.readline().split()[-1]
        assert url.startswith("http://127.0.0.1:")

        def frames() -> int:
            with urllib.request.urlopen(f"{url}api/state", timeout=30) as answer:
                return int(json.load(answer)["frames"])

        assert eventually(lambda: frames() > 5)
        program.send_signal(signal.SIGTERM)
        program.communicate(timeout=60)
    assert program.returncode == 128 + signal.SIGTERM
    assert len(json.loads((tmp_path / "r.json").read_text())["frames"]["key"]) > 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--token", "long-enough"], "--token: of no use alone; add --serve"),
        (["--serve", "nonsense:port"], "expected HOST:PORT"),
        (["--serve", "127.0.0.1:0", "--token", "short"], "8 or more printable"),
        (["--sla", "x.yaml"], "nothing shows it"),
        (["--record", "run.mcap", "--record-rgb", "png"], "expected lossless or jpeg"),
        (["--record", "run.mcap", "--record-limit-mib", "1"], "4 MiB or more"),
        (["--mqtt", "broker"], "expected mqtt://HOST"),
        (["--video", "run.gif"], r"ends in .mp4 or .avi"),
        (["--serve", "127.0.0.1:0", "--force", "all"], "expected rgb, fuse or thermal"),
    ],
)
def test_errors_come_before_the_run(
    site: Path, toy_fusion: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    done = cli(*common(site, toy_fusion), *options, cwd=tmp_path)
    assert done.returncode == 3
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site"]


def test_a_bare_serve_means_the_default_address() -> None:
    import typer

    from edge_sdk.cli.live import RunCommand

    for arguments in (["--serve"], ["--serve", "--loop", "0"], ["--loop", "0", "--serve"]):
        command = typer.main.get_command(_app(RunCommand))
        context = command.make_context("run", list(arguments))
        assert context.params["serve"] == "127.0.0.1:8080"
    assert (
        typer.main.get_command(_app(RunCommand)).make_context("run", ["--serve", ":9"]).params["serve"]
        == ":9"
    )


def _app(command: type) -> object:
    import typer

    from edge_sdk.cli.run import run

    app = typer.Typer()
    app.command("run", cls=command)(run)
    return app
