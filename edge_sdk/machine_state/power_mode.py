"""The power mode: asked of nvpmodel, which may warn, fail or be absent, and read from its files."""

from __future__ import annotations

import re

from edge_sdk.machine_state.commands import Answer, Runner
from edge_sdk.machine_state.state import PowerMode
from edge_sdk.machine_state.tree import Tree

__all__ = ["STATUS_FILE", "parse_conf", "parse_query", "power_mode_of"]

CONF_FILE = "etc/nvpmodel.conf"
STATUS_FILE = "var/lib/nvpmodel/status"

_NAME = re.compile(r"^\s*NV Power Mode\s*:\s*(\S.*?)\s*$", re.MULTILINE)
_COMPLAINT = re.compile(r"^\s*(NVPM (?:WARN|ERROR)\b.*?)\s*$", re.MULTILINE)
_MODEL = re.compile(r"^\s*<\s*POWER_MODEL\s+ID=(\d+)\s+NAME=(\S+?)\s*>", re.MULTILINE)
_DEFAULT = re.compile(r"^\s*<\s*PM_CONFIG\s+DEFAULT=(\d+)", re.MULTILINE)
_STATUS = re.compile(r"\bpmode:(\d+)")


def power_mode_of(tree: Tree, run: Runner) -> PowerMode:
    """Reads the power mode, without root.

    Source: `nvpmodel -q`; `/etc/nvpmodel.conf`, a link to the board's own file under `/etc/nvpmodel/`;
    `/var/lib/nvpmodel/status`.
    """
    text = tree.text(CONF_FILE, "nvpmodel.conf")
    conf = None if text is None else _conf_name(tree)
    modes, default_id = parse_conf(text or "")
    answer = run(["nvpmodel", "-q"])
    name, number, warnings = parse_query(answer)
    source = "nvpmodel" if name is not None else ""
    if name is None and (stored := _STATUS.search(tree.text(STATUS_FILE, "nvpmodel status") or "")):
        number, source = int(stored[1]), "status file"
    if name is None and number is not None:
        name = dict(modes).get(number)
    if name is not None and number is None:
        number = next((known for known, listed in modes if listed == name), None)
    return PowerMode(name, number, conf, source, modes, default_id, warnings)


def parse_query(answer: Answer) -> tuple[str | None, int | None, tuple[str, ...]]:
    """Reads (name, id, complaints) from what `nvpmodel -q` said; complaints come before or after."""
    if not answer.there:
        return None, None, ()
    said = f"{answer.out}\n{answer.err}"
    warnings = [" ".join(line.split()) for line in _COMPLAINT.findall(said)]
    if answer.status != 0:
        warnings = warnings or [f"nvpmodel -q failed: {answer.why}"]
    found = _NAME.search(answer.out)
    if found is None:
        return None, None, tuple(warnings)
    after = re.search(r"^\s*(\d+)\s*$", answer.out[found.end() :], re.MULTILINE)
    return found[1], int(after[1]) if after else None, tuple(warnings)


def parse_conf(text: str) -> tuple[tuple[tuple[int, str], ...], int | None]:
    """Reads the modes, pairs of (id, name), and the id of the default mode from a configuration."""
    modes = tuple((int(number), name) for number, name in _MODEL.findall(text))
    default = _DEFAULT.search(text)
    return modes, int(default[1]) if default else None


def _conf_name(tree: Tree) -> str:
    """Names the file that the link leads to: that name tells the board."""
    return tree.inside(CONF_FILE).resolve().name
