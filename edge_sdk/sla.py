"""The SLA file: what a run must keep to, read from YAML and checked to the last key.

    name: substation-line-7
    engine: substation-rgbt
    source: clip:substation          # any URI that `edge-sdk run` takes
    device: auto
    latency:
      p50_ms: 40
      p99_ms: 60
      stages: {engine: {p95_ms: 45}}
      routes: {thermal: {p50_ms: 20}}
    throughput: {min_fps: 20}
    frames: {max_dropped_share: 0.01}
    run: {duration_s: 60, pace_hz: 25, seed: 1}

Paths in `engine` and `source` are relative to the working directory. A key that is not known is refused
by name: a limit with a typing error in it would otherwise never be judged. Anchors, aliases and duplicate
keys are refused too.
"""

from __future__ import annotations

import difflib
import hashlib
import math
import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from edge_sdk.errors import SlaFileError
from edge_sdk.measurements import STAGES, Route
from edge_sdk.stats import CONFIDENCE

__all__ = ["LatencyLimit", "RunPlan", "Sla", "load_sla", "parse_sla"]

MAX_FILE_NBYTES = 64 * 1024
"""A larger file is no SLA."""

_TOP_KEYS = (
    "name",
    "engine",
    "source",
    "device",
    "latency",
    "throughput",
    "frames",
    "run",
    "confidence",
)
_LATER_KEYS = {
    "energy": "energy per inference",
    "power": "power",
    "memory": "memory",
    "machine": "the machine's state",
}
_PERCENTILE_KEY = re.compile(r"p(\d{1,2})(?:_(\d{1,4}))?_ms")


@dataclass(frozen=True)
class LatencyLimit:
    """One latency clause.

    Attributes:
        clause: its dotted key in the file, `latency.routes.rgb.p99_ms`.
        share: the percentile as a share (0.99), or None for the largest single frame.
        limit_ms: milliseconds that it may reach, inclusive.
        stage, route: what it is restricted to, or None for end to end and all routes.
    """

    clause: str
    share: float | None
    limit_ms: float
    stage: str | None = None
    route: Route | None = None


@dataclass(frozen=True)
class RunPlan:
    """How long and how fast to run.

    Attributes:
        frames: frames to judge, or None when the time decides.
        duration_s: seconds to run, or None when the frames decide.
        pace_hz: frames started a second, or None for back to back.
        seed: of whatever is drawn at random in the run.
    """

    frames: int | None = None
    duration_s: float | None = None
    pace_hz: float | None = None
    seed: int = 0


@dataclass(frozen=True)
class Sla:
    """A checked SLA.

    Attributes:
        name: of the SLA, for reports.
        engine: bundle name or path.
        source: URI of the frames.
        device: "auto" or what the run must be on.
        latency: its latency clauses in the order of the file.
        min_fps: frames a second to be reached, or None.
        max_dropped_share: share of frames that may be lost, 0 - 1, or None. 0 means none in this run.
        run: how to measure.
        confidence: of each one-sided bound.
        sha256: of the file's bytes.
        path: the file, or None when it came as text.
    """

    name: str
    engine: str
    source: str
    device: str
    latency: tuple[LatencyLimit, ...]
    min_fps: float | None
    max_dropped_share: float | None
    run: RunPlan
    confidence: float
    sha256: str
    path: Path | None = None


def load_sla(path: Path | str) -> Sla:
    """Reads and checks an SLA file.

    Raises:
        SlaFileError: the file cannot be read, or something in it is wrong.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_NBYTES + 1)
    except OSError as error:
        raise SlaFileError(path, "", f"cannot be read ({error.strerror or error})") from error
    return parse_sla(content, path)


def parse_sla(content: bytes | str, path: Path | None = None) -> Sla:
    """Checks an SLA that is already in memory.

    Arguments:
        content: the YAML.
        path: where it came from, for messages.

    Raises:
        SlaFileError: something in it is wrong; `key` says where.
    """
    raw = content.encode() if isinstance(content, str) else content
    if len(raw) > MAX_FILE_NBYTES:
        raise SlaFileError(
            path, "", f"larger than {MAX_FILE_NBYTES // 1024} KiB", "An SLA is a page of YAML at most."
        )
    top = _Section(path, "", _load_yaml(raw, path))
    for key, what in _LATER_KEYS.items():
        if key in top.entries:
            raise SlaFileError(
                path,
                key,
                f"{what} is not judged by this version",
                "Remove the section or use a later version.",
            )
    top.refuse_unknown(_TOP_KEYS)
    latency = tuple(_latency_limits(top.section("latency")))
    throughput, frames = top.section("throughput"), top.section("frames")
    throughput.refuse_unknown(["min_fps"])
    frames.refuse_unknown(["max_dropped_share"])
    min_fps = throughput.number("min_fps", above=0, most=100_000, unit="frames/s")
    max_dropped_share = frames.number("max_dropped_share", least=0, below=1)
    run = _run_plan(top.section("run"))
    if not latency and min_fps is None and max_dropped_share is None:
        raise SlaFileError(
            path,
            "",
            "no limit to judge",
            "Add one under latency, throughput or frames, e.g. latency: {p99_ms: 60}.",
        )
    return Sla(
        name=top.text("name") or (path.stem if path else "unnamed"),
        engine=top.text("engine", required=True) or "",
        source=top.text("source") or "clip:substation",
        device=top.text("device") or "auto",
        latency=latency,
        min_fps=min_fps,
        max_dropped_share=max_dropped_share,
        run=run,
        confidence=top.number("confidence", least=0.5, below=1) or CONFIDENCE,
        sha256=hashlib.sha256(raw).hexdigest(),
        path=path,
    )


def _latency_limits(section: _Section) -> Iterable[LatencyLimit]:
    yield from _limits_of(section, None, None, ("stages", "routes"))
    stages = section.section("stages")
    stages.refuse_unknown(STAGES)
    for stage in stages.entries:
        yield from _limits_of(stages.section(stage), stage, None)
    routes = section.section("routes")
    routes.refuse_unknown([route.value for route in Route])
    for name in routes.entries:
        yield from _limits_of(routes.section(name), None, Route(name))


def _limits_of(
    section: _Section, stage: str | None, route: Route | None, also_known: tuple[str, ...] = ()
) -> Iterable[LatencyLimit]:
    seen: dict[float | None, str] = {}
    for key in section.entries:
        if key in also_known:
            continue
        match = _PERCENTILE_KEY.fullmatch(key)
        if not match and key != "max_ms":
            usual = ("p50_ms", "p90_ms", "p95_ms", "p99_ms", "p99_9_ms", "p99_99_ms", "max_ms")
            raise section.unknown(key, (*usual, *also_known))
        share = _share_of(match) if match else None
        if share == 0.0:
            raise SlaFileError(section.path, section.dotted(key), "percentile 0 cannot be judged")
        if share in seen:
            raise SlaFileError(
                section.path, section.dotted(key), f"says the same percentile as {seen[share]}"
            )
        seen[share] = key
        limit_ms = section.number(key, above=0, most=86_400_000, unit="milliseconds")
        assert limit_ms is not None
        yield LatencyLimit(section.dotted(key), share, limit_ms, stage, route)
    if not section.entries and (stage or route):
        raise SlaFileError(section.path, section.key, "no limit in it", "Give one, e.g. p95_ms: 40.")


def _share_of(match: re.Match[str]) -> float:
    digits = match[2] or ""
    # Through a fraction: 99.9 / 100 in floating point is not 0.999.
    return float(Fraction(int(match[1] + digits), 100 * 10 ** len(digits)))


def _run_plan(section: _Section) -> RunPlan:
    section.refuse_unknown(("duration_s", "frames", "pace_hz", "seed"))
    if "duration_s" in section.entries and "frames" in section.entries:
        raise SlaFileError(section.path, "run", "duration_s and frames are both given", "Give one of them.")
    frames = section.whole("frames", 1, 10_000_000)
    duration_s = section.number("duration_s", above=0, most=7 * 86_400, unit="seconds")
    if frames is None and duration_s is None:
        duration_s = 30.0
    return RunPlan(
        frames=frames,
        duration_s=duration_s,
        pace_hz=section.number("pace_hz", above=0, most=10_000, unit="frames/s"),
        seed=section.whole("seed", 0, 2**32 - 1) or 0,
    )


@dataclass(frozen=True)
class _Section:
    """One mapping of the file, with where it stands."""

    path: Path | None
    key: str
    entries: Mapping[str, Any]

    def dotted(self, key: str) -> str:
        return f"{self.key}.{key}" if self.key else key

    def unknown(self, key: str, known: Iterable[str]) -> SlaFileError:
        names = list(known)
        near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
        fix = f"Did you mean {near[0]}?" if near else f"Known keys: {', '.join(names)}."
        return SlaFileError(self.path, self.dotted(key), "unknown key", fix)

    def refuse_unknown(self, known: Iterable[str]) -> None:
        names = list(known)
        for key in self.entries:
            if key not in names:
                raise self.unknown(key, names)

    def section(self, key: str) -> _Section:
        value = self.entries.get(key, {})
        if not isinstance(value, dict):
            raise self._wrong(key, "a section with keys of its own", value)
        return _Section(self.path, self.dotted(key), value)

    def text(self, key: str, *, required: bool = False) -> str | None:
        if key not in self.entries:
            if required:
                raise SlaFileError(self.path, self.dotted(key), "missing", "Every SLA names it.")
            return None
        value = self.entries[key]
        if not isinstance(value, str) or not value.strip():
            raise self._wrong(key, "text", value)
        return value

    def whole(self, key: str, least: int, most: int) -> int | None:
        if key not in self.entries:
            return None
        value = self.entries[key]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._wrong(key, f"a whole number, {least} - {most}", value)
        return value

    def number(
        self,
        key: str,
        *,
        least: float | None = None,
        above: float | None = None,
        below: float | None = None,
        most: float | None = None,
        unit: str = "",
    ) -> float | None:
        if key not in self.entries:
            return None
        value = self.entries[key]
        # An int may be too large for a float, so only a float is asked whether it is finite.
        sound = type(value) is int or (isinstance(value, float) and math.isfinite(value))
        if (
            not sound
            or (least is not None and value < least)
            or (above is not None and value <= above)
            or (below is not None and value >= below)
            or (most is not None and value > most)
        ):
            words = (("at least", least), ("more than", above), ("less than", below), ("at most", most))
            limits = " and ".join(f"{word} {bound:g}" for word, bound in words if bound is not None)
            raise self._wrong(key, " ".join(part for part in ("a number", limits, unit) if part), value)
        return float(value)

    def _wrong(self, key: str, expected: str, value: Any) -> SlaFileError:
        kinds = {bool: "yes/no", str: "text", dict: "section", list: "list", type(None): "nothing"}
        kind = kinds.get(type(value))
        shown = str(value) if len(str(value)) <= 40 else str(value)[:37] + "..."
        found = kind if kind == "nothing" else f"{shown} ({kind})" if kind else shown
        return SlaFileError(self.path, self.dotted(key), f"expected {expected}, found {found}")


def _load_yaml(raw: bytes, path: Path | None) -> dict[str, Any]:
    import yaml

    class StrictLoader(yaml.SafeLoader):
        """YAML's safe loader without the parts that hide or multiply content."""

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
            if getattr(event, "anchor", None):  # an alias has one too
                line = event.start_mark.line + 1 if event.start_mark else "?"
                raise SlaFileError(
                    path, "", f"line {line}: anchors and aliases are not taken", "Write the value out."
                )
            return super().compose_node(parent, index)

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
            seen: set[str] = set()
            for key_node, _ in node.value:
                key, line = key_node.value, key_node.start_mark.line + 1
                if key_node.tag != "tag:yaml.org,2002:str":
                    raise SlaFileError(path, "", f"line {line}: expected a name as key, found {key!r}")
                if key in seen:
                    raise SlaFileError(path, key, f"line {line}: given twice", "Keep one.")
                seen.add(key)
            return super().construct_mapping(node, deep=True)

    try:
        document = yaml.load(raw, StrictLoader)
    except RecursionError:
        raise SlaFileError(path, "", "nested too deeply") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        if isinstance(error, SlaFileError):
            raise
        what = " ".join(str(error).split())
        raise SlaFileError(path, "", f"not YAML that can be read: {what}") from error
    if not isinstance(document, dict):
        found = "nothing" if document is None else type(document).__name__
        raise SlaFileError(path, "", f"expected keys such as engine and latency, found {found}")
    return document
