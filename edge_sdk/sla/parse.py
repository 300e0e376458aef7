"""From the text of an SLA file to a checked `Sla`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

from edge_sdk.errors import SlaFileError
from edge_sdk.measurements import STAGES, Route
from edge_sdk.sla.power import power_limits
from edge_sdk.sla.section import Section, load_yaml
from edge_sdk.sla.terms import LatencyLimit, MachineLimits, MemoryLimits, RunPlan, Sla
from edge_sdk.stats import CONFIDENCE, USUAL_WARM_UP, WarmUpBudget

__all__ = ["load_sla", "parse_sla"]

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
    "machine",
    "memory",
    "energy",
    "power",
    "run",
    "confidence",
)
_PERCENTILE_KEY = re.compile(r"p(\d{1,2})(?:_(\d{1,4}))?_ms")


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
    top = Section(path, "", load_yaml(raw, path))
    top.refuse_unknown(_TOP_KEYS)
    latency = tuple(_latency_limits(top.section("latency")))
    throughput, frames = top.section("throughput"), top.section("frames")
    throughput.refuse_unknown(["min_fps"])
    frames.refuse_unknown(["max_dropped_share"])
    min_fps = throughput.number("min_fps", above=0, most=100_000, unit="frames/s")
    max_dropped_share = frames.number("max_dropped_share", least=0, below=1)
    machine, memory = _machine_limits(top.section("machine")), _memory_limits(top.section("memory"))
    power = power_limits(top)
    run = _run_plan(top.section("run"))
    some = power or machine != MachineLimits() or memory != MemoryLimits()
    if not latency and min_fps is None and max_dropped_share is None and not some:
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
        machine=machine,
        memory=memory,
        power=power,
    )


def _latency_limits(section: Section) -> Iterable[LatencyLimit]:
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
    section: Section, stage: str | None, route: Route | None, also_known: tuple[str, ...] = ()
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


def _machine_limits(section: Section) -> MachineLimits:
    section.refuse_unknown(("power_mode", "clocks_locked", "throttled"))
    mode = section.entries.get("power_mode")
    if isinstance(mode, int) and not isinstance(mode, bool):
        raise SlaFileError(
            section.path,
            "machine.power_mode",
            f"expected the mode's name, found {mode}",
            "Ids mean another mode on another board: write the name that `nvpmodel -q` prints.",
        )
    if section.flag("throttled"):
        raise SlaFileError(
            section.path, "machine.throttled", "expected false, found true", "No SLA asks for throttling."
        )
    return MachineLimits(
        power_mode=section.text("power_mode"),
        clocks_locked=section.flag("clocks_locked"),
        unthrottled="throttled" in section.entries,
    )


def _memory_limits(section: Section) -> MemoryLimits:
    section.refuse_unknown(("peak_mb", "rss_slope_mb_per_h"))
    return MemoryLimits(
        peak_mb=section.number("peak_mb", above=0, most=1e7, unit="MB"),
        rss_slope_mb_per_h=section.number("rss_slope_mb_per_h", least=0, most=1e7, unit="MB/h"),
    )


def _run_plan(section: Section) -> RunPlan:
    section.refuse_unknown(("duration_s", "frames", "pace_hz", "seed", "warm_up_s", "warm_up_frames"))
    if "duration_s" in section.entries and "frames" in section.entries:
        raise SlaFileError(section.path, "run", "duration_s and frames are both given", "Give one of them.")
    frames = section.whole("frames", 1, 10_000_000)
    duration_s = section.number("duration_s", above=0, most=7 * 86_400, unit="seconds")
    stated = frames is not None or duration_s is not None
    if not stated:
        duration_s = 30.0
    seconds = section.number("warm_up_s", least=0, most=3600, unit="seconds")
    leading = section.whole("warm_up_frames", 1, 100_000)
    usual = USUAL_WARM_UP
    return RunPlan(
        frames=frames,
        duration_s=duration_s,
        pace_hz=section.number("pace_hz", above=0, most=10_000, unit="frames/s"),
        seed=section.whole("seed", 0, 2**32 - 1) or 0,
        length_stated=stated,
        warm_up=WarmUpBudget(
            seconds=usual.seconds if seconds is None else seconds,
            frames=usual.frames if leading is None else leading,
        ),
    )
