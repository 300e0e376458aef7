"""Tokens and passwords on the command line, in files and in the environment: what is shown, and to whom."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from frames_on_disk import write_pairs
from live_runs import eventually

CLI = [sys.executable, "-W", "error", "-u", "-m", "edge_sdk.cli.main"]
SECRET = "s3cr3t-horse-battery"
MOSQUITTO = shutil.which("mosquitto") or next(
    (str(path) for path in [Path("/usr/sbin/mosquitto")] if path.is_file()), None
)
needs_broker = pytest.mark.skipif(
    MOSQUITTO is None or shutil.which("mosquitto_passwd") is None,
    reason="needs the broker mosquitto (Debian package mosquitto)",
)


@pytest.fixture
def command(toy_fusion: Path, tmp_path: Path) -> list[str]:
    site = write_pairs(tmp_path / "site", keys=[str(index) for index in range(4)])
    engine = ["--engine", str(toy_fusion), "--device", "cpu", "--threads", "1", "--no-progress"]
    return [*CLI, "run", "--source", f"pairs:{site}?unit=centikelvin", *engine]


@contextmanager
def served(command: list[str], folder: Path, *options: str, **environment: str) -> Iterator[tuple[str, int]]:
    """A run with its page, on a free port; gives the page's address and the process."""
    with (folder / "errors.txt").open("wb") as errors, subprocess.Popen(
        [*command, "--loop", "0", "--pace-hz", "20", "--serve", "127.0.0.1:0", *options],
        cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, **environment},
    ) as program:  # fmt: skip
        assert program.stdout is not None
        first = program.stdout.readline()
        assert first.startswith("Live page: http"), (folder / "errors.txt").read_text()
        try:
            yield first.split()[2], program.pid
        finally:
            program.send_signal(signal.SIGTERM)
            rest = program.stdout.read()  # not communicate(): it would lose what readline has read ahead
            program.wait(timeout=60)
            (folder / "said.txt").write_text(first + rest)
    assert program.returncode == 128 + signal.SIGTERM, (folder / "errors.txt").read_text()


def status(url: str, token: str = "") -> int:
    asked = urllib.request.Request(
        f"{url}api/state", headers={"Authorization": f"Bearer {token}"} if token else {}
    )
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def everything(folder: Path) -> str:
    """All that a run said or wrote, but for the file that holds the secret."""
    files = [
        path
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("token", "password", "passwords")
    ]
    return "".join(path.read_bytes().decode("latin-1") for path in files)


def test_a_token_file_is_made_kept_and_used_again(command: list[str], tmp_path: Path) -> None:
    file, written = tmp_path / "token", ["--json", "r.json", "--report", "r.md"]
    with served(command, tmp_path, "--token-file", "token", *written) as (url, pid):
        token = file.read_text().strip()
        assert token.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert "token" not in url
        assert status(url) == 401
        assert status(url, token) == 200
    assert file.stat().st_mode & 0o777 == 0o600
    assert "Its token is the line in token" in (tmp_path / "said.txt").read_text()
    assert token not in everything(tmp_path)
    with served(command, tmp_path, "--token-file", "token") as (url, _):
        assert status(url, token) == 200, "the same one"


def test_a_token_in_the_environment_is_used_and_not_said(command: list[str], tmp_path: Path) -> None:
    with served(command, tmp_path, "--json", "r.json", EDGE_SDK_TOKEN=SECRET) as (url, pid):
        assert SECRET.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert status(url) == 401
        assert status(url, SECRET) == 200
        with urllib.request.urlopen(
            urllib.request.Request(f"{url}api/state", headers={"Authorization": f"Bearer {SECRET}"}),
            timeout=30,
        ) as answer:
            assert SECRET.encode() not in answer.read()
    assert SECRET not in everything(tmp_path)


def test_a_token_on_the_command_line_works_with_a_warning(command: list[str], tmp_path: Path) -> None:
    with served(command, tmp_path, "--token", SECRET, "--json", "r.json") as (url, _):
        assert status(url, SECRET) == 200
    assert SECRET not in everything(tmp_path)
    warned = (tmp_path / "errors.txt").read_text()
    assert "warning: a secret on the command line (--token) can be read by every user" in warned
    assert "--token-file FILE" in warned


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--token-file", "token"], "--token-file: of no use alone; add --serve"),
        (["--behind-proxy", "https://a"], "--behind-proxy: of no use alone; add --serve"),
        (["--serve", "127.0.0.1:0", "--proxy-address", "::1"], "of no use alone; add --behind-proxy"),
        (["--mqtt-password-file", "password"], "--mqtt-password-file: of no use alone; add --mqtt"),
        (
            ["--serve", "127.0.0.1:0", "--token-file", "none/token"],
            "a token cannot be kept there: No such file",
        ),
        (
            ["--serve", "127.0.0.1:0", "--token", SECRET, "--token-file", "t"],
            "a secret from both; leave one out",
        ),
        (["--serve", "127.0.0.1:0", "--behind-proxy", "site"], "expected what browsers open"),
        (
            ["--mqtt", "mqtt://h", "--mqtt-password-file", "password"],
            "a password needs a user: --mqtt mqtt://USER@h",
        ),
        (["--mqtt", f"mqtt://u:{SECRET}@h", "--mqtt-password-file", "password"], "a secret from both"),
        (
            ["--mqtt", "mqtt://u@h", "--mqtt-password-file", "none"],
            "--mqtt-password-file none: cannot be read",
        ),
        (["--mqtt", f"mqtt://u:1/{SECRET}@h"], "a / stands before the @"),
    ],
)
def test_errors_come_before_the_run(
    command: list[str], tmp_path: Path, options: list[str], message: str
) -> None:
    (tmp_path / "password").write_text(f"{SECRET}\n")
    done = subprocess.run(
        [*command, *options], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert message in done.stderr
    assert SECRET not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[int]:
    """A Mosquitto that asks for a password."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    passwords, config = tmp_path / "passwords", tmp_path / "mosquitto.conf"
    subprocess.run(
        ["mosquitto_passwd", "-b", "-c", passwords, "yard7", SECRET], check=True, capture_output=True
    )
    passwords.chmod(0o644)
    config.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous false\npassword_file {passwords}\npersistence false\n"
    )
    if os.geteuid() == 0:
        config.write_text(config.read_text() + "user root\n")
    assert MOSQUITTO is not None
    with subprocess.Popen(
        [MOSQUITTO, "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:

        def answers() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        assert eventually(answers), "mosquitto does not start"
        yield port
        process.kill()


@needs_broker
@pytest.mark.parametrize("way", ["file", "environment", "url"])
def test_a_brokers_password(command: list[str], tmp_path: Path, broker: int, way: str) -> None:
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    file.chmod(0o600)
    user = f"yard7:{SECRET}" if way == "url" else "yard7"
    options = ["--mqtt", f"mqtt://{user}@127.0.0.1:{broker}/site/7", "--mqtt-every", "--json", "r.json"]
    options += ["--report", "r.md"]
    options += ["--mqtt-password-file", str(file)] if way == "file" else []
    given = {"EDGE_SDK_MQTT_PASSWORD": SECRET} if way == "environment" else {}
    done = subprocess.run(
        [*command, *options, "--loop", "30"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "COLUMNS": "200", **given},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "120 confirmed, 0 waiting on disk" in done.stdout
    assert ("warning: a secret on the command line (--mqtt)" in done.stderr) is (way == "url")
    assert SECRET not in done.stdout + done.stderr + everything(tmp_path)
    assert json.loads((tmp_path / "r.json").read_text())


@needs_broker
def test_a_wrong_password_is_said_and_not_shown(command: list[str], tmp_path: Path, broker: int) -> None:
    done = subprocess.run(
        [*command, "--mqtt", f"mqtt://yard7@127.0.0.1:{broker}/site/7", "--loop", "30"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "COLUMNS": "200", "EDGE_SDK_MQTT_PASSWORD": "wrong-and-secret"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "0 confirmed, 120 waiting on disk" in done.stdout
    assert "wrong-and-secret" not in done.stdout + done.stderr
