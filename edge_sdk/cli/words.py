"""What the SDK advises in words of its API, in words of the command line."""

from __future__ import annotations

import re

__all__ = ["in_cli_words"]

_OPTIONS = "allow_fallback|device|force|idle_s|loop|offset_s|on_bad|pace_hz|precision|threads|trust_plan"
_GIVEN = re.compile(
    rf"(?<![?&\w.-])(?P<name>{_OPTIONS})="
    r"(?P<value>\(\s*'[^']*',?\s*\)|'[^']*'|\"[^\"]*\"|-?\d+(?:\.\d+)?|(?=[ ,;.)\"]|$))"
)
_NAMED = re.compile(rf"^(?P<name>{_OPTIONS}): (?=expected)")


def in_cli_words(text: str) -> str:
    """Rewrites `on_bad='skip'` as `--on-bad skip`, and so on for each argument that is an option.

    Options within an address (`?loop=1`) are left as they are.
    """
    text = _GIVEN.sub(lambda found: f"{_option(found['name'])} {_bare(found['value'])}".rstrip(), text)
    return _NAMED.sub(lambda found: f"{_option(found['name'])}: ", text)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _bare(value: str) -> str:
    return value.strip("()\"', ")
