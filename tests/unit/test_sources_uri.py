"""Tests of reading a source's URI."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sdk.errors import ConfigError
from edge_sdk.sources import open_source
from edge_sdk.sources.uri import nearest, parse_uri, user_path

SCHEMES = {"pairs": ("rgb", "thermal", "unit"), "clip": (), "memory": ()}


def test_takes_a_uri_apart() -> None:
    uri = parse_uri("pairs:my site/day 1?rgb=left+right&thermal=ir%2616", SCHEMES)
    assert (uri.scheme, uri.path) == ("pairs", "my site/day 1")
    assert uri.options == {"rgb": "left+right", "thermal": "ir&16"}
    assert uri.option("rgb", "rgb") == "left+right"
    assert uri.option("unit", "counts") == "counts"
    assert uri.choice("unit", ("counts",)) is None


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("pairs:a", "a"),
        ("pairs:/a/b", "/a/b"),
        ("pairs:///a/b", "/a/b"),
        ("pairs://a/b", "a/b"),
        ("PAIRS:../a", "../a"),
        ("pairs:a%3Fb%25c#d:e", "a?b%c#d:e"),
    ],
)
def test_paths(text: str, path: str) -> None:
    assert parse_uri(text, SCHEMES).path == path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pears:x", r"unknown scheme 'pears'\. Did you mean 'pairs'\? Known: clip, memory, pairs"),
        ("qqq:x", r"unknown scheme 'qqq'\. Known"),
        ("pairs:x?termal=y", r"unknown option 'termal'\. Did you mean 'thermal'\? Known: rgb, thermal, unit"),
        ("clip:x?speed=2", "unknown option 'speed'. This scheme has none"),
        ("pairs:x?rgb=a&rgb=b", "option 'rgb' is given twice"),
        ("pairs:x?rgb=", "option 'rgb' has no value"),
        ("pairs:x?rgb", "write rgb=..."),
        ("pairs:", "nothing stands after 'pairs:'"),
        ("pairs:?rgb=a", "nothing stands after 'pairs:'"),
        ("substation", "has no scheme. Write 'clip:substation' or 'pairs:FOLDER'"),
        ("", "has no scheme"),
        ("pairs:a%00b", "NUL"),
    ],
)
def test_refusals_name_the_nearest_known_word(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_uri(text, SCHEMES)


def test_a_path_without_scheme_is_told_its_uri(tmp_path: Path) -> None:
    file = tmp_path / "clip.avi"
    file.touch()
    with pytest.raises(ConfigError, match=f"It is a folder: write 'pairs:{tmp_path}'"):
        parse_uri(str(tmp_path), SCHEMES)
    with pytest.raises(ConfigError, match=r"It is a file: write 'video:.*clip\.avi\?thermal=FILE'"):
        parse_uri(str(file), SCHEMES)


def test_something_else_than_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="named by a URI like 'clip:substation', found 0"):
        open_source(0)  # type: ignore[arg-type]


def test_memory_has_no_address() -> None:
    with pytest.raises(ConfigError, match="use source_from_arrays"):
        open_source("memory:")


def test_a_choice_is_checked() -> None:
    uri = parse_uri("pairs:x?unit=kelvin", SCHEMES)
    with pytest.raises(
        ConfigError, match=r"unit: expected centikelvin or counts, found 'kelvin'\. Did you mean"
    ):
        uri.choice("unit", ("centikelvin", "counts"))


def test_home_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert parse_uri("pairs:~/site", SCHEMES).path == "/home/ann/site"
    assert user_path("~/x") == Path("/home/ann/x")
    assert user_path("~nobody-of-this-name/x") == Path("~nobody-of-this-name/x")


def test_nearest() -> None:
    assert nearest("Thermel", ("rgb", "thermal")) == ". Did you mean 'thermal'?"
    assert nearest("zzz", ("rgb", "thermal")) == "."


NAME = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=30)


@given(path=NAME, folder=NAME)
def test_percent_encoding_carries_any_name(path: str, folder: str) -> None:
    uri = parse_uri(f"pairs:a{quote(path)}?rgb={quote(folder)}", SCHEMES)
    assert uri.path == "a" + path
    assert uri.options["rgb"] == folder


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ConfigError):
        assert parse_uri(text, SCHEMES).text == text
