"""Advice of the SDK in words of the command line."""

from __future__ import annotations

import pytest

from edge_sdk.cli.words import in_cli_words


@pytest.mark.parametrize(
    ("api", "cli"),
    [
        ("Pass on_bad='skip' to wait longer.", "Pass --on-bad skip to wait longer."),
        ("Name it: allow_fallback=('CPUProvider',).", "Name it: --allow-fallback CPUProvider."),
        ("Elsewhere use device='cpu'.", "Elsewhere use --device cpu."),
        ("drop loop=3", "drop --loop 3"),
        ("Drop force=, or give both frames.", "Drop --force, or give both frames."),
        ("on_bad: expected 'raise' or 'skip', found 'x'", "--on-bad: expected 'raise' or 'skip', found 'x'"),
        ("camera:?rgb=v4l2:///dev/video0&loop=1: no", "camera:?rgb=v4l2:///dev/video0&loop=1: no"),
        ("v4l2src device=/dev/video0 ! sink", "v4l2src device=/dev/video0 ! sink"),
        ("nothing of the kind", "nothing of the kind"),
    ],
)
def test_arguments_become_options_and_addresses_stay(api: str, cli: str) -> None:
    assert in_cli_words(api) == cli
