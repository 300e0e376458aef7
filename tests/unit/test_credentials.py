"""Secrets come from files and the environment, and are shown nowhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edge_sdk.credentials import (
    Credential,
    fill_in,
    find_credential,
    holds_password,
    make_token,
    read_secret_file,
    without_password,
)
from edge_sdk.errors import ConfigError
from edge_sdk.live.guard import Address
from edge_sdk.live.session import LiveOptions
from edge_sdk.publish.mqtt import parse_broker
from edge_sdk.sources import open_source
from edge_sdk.sources.cameras.settings import camera_address

SECRET = "s3cr3t/w@rd"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o600)
    return path


def find(given: str | None = None, file: Path | None = None, **environment: str) -> Credential | None:
    return find_credential("--token", given, file, "EDGE_SDK_TOKEN", environment=environment)


def test_where_secrets_come_from(file: Path) -> None:
    assert find() is None
    assert find(EDGE_SDK_TOKEN="") is None
    assert find(EDGE_SDK_TOKEN=SECRET) == Credential(SECRET, "EDGE_SDK_TOKEN")
    assert find(file=file, EDGE_SDK_TOKEN="other") == Credential(SECRET, str(file))
    given = find("on the line", EDGE_SDK_TOKEN="other")
    assert given is not None
    assert given.value == "on the line"
    assert "can be read by every user of this machine" in given.warning
    assert "--token-file FILE" in given.warning
    assert "EDGE_SDK_TOKEN" in given.warning
    with pytest.raises(ConfigError, match="--token and --token-file: a secret from both"):
        find("a", file)


def test_secrets_are_in_no_text(file: Path) -> None:
    assert SECRET not in repr(find(file=file))
    assert SECRET not in repr(parse_broker("mqtt://u:s3cr3t%2Fw%40rd@h"))
    assert SECRET not in str(parse_broker("mqtt://u:s3cr3t%2Fw%40rd@h"))
    assert SECRET not in repr(LiveOptions(serve=Address("127.0.0.1", 0), token=SECRET))
    assert "s3cr3t" not in repr(camera_address("rtsp://u:s3cr3t@h/x"))


def test_a_file_that_all_can_read_is_warned_of(file: Path) -> None:
    file.chmod(0o644)
    found = find(file=file)
    assert found is not None
    assert found.warning == f"{file} can be read by every user of this machine: chmod o-r {file}"


@pytest.mark.parametrize("content", [b"", b"\n", b"a\nb", b"a\0b", b"\xff\xfe", b"x" * 5000])
def test_files_that_hold_no_secret(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "secret"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="expected one line") as error:
        read_secret_file(path, "--token-file")
    assert "xxx" not in str(error.value)


def test_line_ends_are_no_part_of_a_secret(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b" a b \r\n")
    assert read_secret_file(path) == " a b "


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--token-file .*none: cannot be read: No such file"):
        find(file=tmp_path / "none")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        find(file=tmp_path)


def test_a_made_token_is_kept_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = make_token(path)
    assert read_secret_file(path) == token
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(token) >= 20
    with pytest.raises(ConfigError, match="a token cannot be kept there: File exists"):
        make_token(path)
    planted = tmp_path / "link"
    planted.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="cannot be kept there"):
        make_token(planted)
    assert not (tmp_path / "elsewhere").exists()


def test_addresses_refer_to_secrets(file: Path) -> None:
    environment = {"CAM_PASSWORD": SECRET}
    assert fill_in("rtsp://u:${CAM_PASSWORD}@h/x", environment) == "rtsp://u:s3cr3t%2Fw%40rd@h/x"
    assert fill_in(f"rtsp://u:${{file:{file}}}@h/x", {}) == "rtsp://u:s3cr3t%2Fw%40rd@h/x"
    assert fill_in("rtsp://u@h/$x{y}", environment) == "rtsp://u@h/$x{y}"
    with pytest.raises(ConfigError, match="the environment variable 'NONE' is not set"):
        fill_in("rtsp://u:${NONE}@h", environment)


def test_a_camera_takes_its_password_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    monkeypatch.setitem(os.environ, "CAM_PASSWORD", SECRET)
    for reference in ("${CAM_PASSWORD}", f"${{file:{file}}}"):
        address = camera_address(f"rtsp://u:{reference}@h:554/x?fps=5")
        assert address.path == "rtsp://u:s3cr3t%2Fw%40rd@h:554/x"
        assert address.text == "rtsp://u:***@h:554/x?fps=5"
        assert address.fps == 5.0


@pytest.mark.parametrize(
    "uri",
    [
        "rtsp://u:s3cr3t@h/x?fps=none",
        "rtsp://u:s3cr3t@h/x?fps=1&fps=2",
        "camera:?rgb=rtsp://u:s3cr3t@h/x&bogus=1",
        "camera:?rgb=rtsp://u:s3cr3t@h/x&rgb=rtsp://u:s3cr3t@h/x",
        "camera:?rgb=rtsp://u:s3cr3t@h/x&thermal=rtsp://u:s3cr3t@h/x",
        "camera:x?rgb=rtsp://u:s3cr3t@h/x",
        "ctsp://u:s3cr3t@h/x",
        "rtsp://u:s3cr3t@h/x?as=both",
    ],
)
def test_errors_name_addresses_without_passwords(uri: str) -> None:
    with pytest.raises(ConfigError) as error:
        open_source(uri)
    assert "s3cr3t" not in str(error.value)


@pytest.mark.parametrize(
    "url",
    ["mqtt://u:s3cr3t/x@h", "mqtt://u:12/s3cr3t@h", "mqtt://u:s3cr3t@h/#x", "mqtt://u:s3cr3t@h:port",
     "mqtt://u:s3cr3t@[::1", "http://u:s3cr3t@h", "mqtt://u:s3cr3t@h?x", "mqtt:u:s3cr3t@h"],
)  # fmt: skip
def test_errors_name_brokers_without_passwords(url: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_broker(url)
    assert "s3cr3t" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "camera:?rgb=rtsp://u:p@h/a&thermal=rtsp://u:q@h/b",
            "camera:?rgb=rtsp://u:***@h/a&thermal=rtsp://u:***@h/b",
        ),
        ("rtsp://u:p&q@h/x", "rtsp://u:***@h/x"),
        ("rtsp://u:p?q@h/x", "rtsp://u:***@h/x"),
        ("pairs:a&b", "pairs:a&b"),
    ],
)
def test_passwords_are_hidden(text: str, shown: str) -> None:
    assert without_password(text) == shown


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("rtsp://u:p@h/x", True),
        ("rtsp://u:${NAME}@h/x", False),
        ("rtsp://u:${file:/run/secret}@h/x", False),
        ("rtsp://u:p${NAME}@h/x", True),
        ("camera:?rgb=rtsp://u:${NAME}@h/a&thermal=rtsp://u:q@h/b", True),
        ("camera:?rgb=rtsp://u:${NAME}@h/a&thermal=rtsp://u:${NAME}@h/b", False),
        ("rtsp://u@h/x", False),
        ("clip:substation", False),
    ],
)
def test_passwords_that_are_written_out(text: str, held: bool) -> None:
    assert holds_password(text) is held
