"""The same report as a Markdown file that a person can read, print or commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from edge_sdk.measurements import STAGES
from edge_sdk.report.record import RunRecord
from edge_sdk.report.summary import (
    SHOWN_SHARES,
    RunSummary,
    bounded,
    figure,
    limit_text,
    printable,
    shown_figures,
    summarise,
    with_signs,
)
from edge_sdk.report.verdict import Verdicts

__all__ = ["run_markdown"]


def run_markdown(
    record: RunRecord,
    verdicts: Verdicts | None = None,
    pictures: Sequence[tuple[str, str]] = (),
    title: str | None = None,
) -> str:
    """Writes a run, and its verdict where there is one, as Markdown.

    Arguments:
        record: the run.
        verdicts: the judged SLA, or None for a plain run.
        pictures: pairs of (caption, path as it is to stand in the file).
        title: the first heading; made from the SLA or the engine without one.
    """
    summary = summarise(record)
    heading = title or (f"SLA {verdicts.sla}" if verdicts else f"Run of {record.engine.name}")
    lines = [f"# {_plain(heading)}", ""]
    lines += [f"Made {record.created} by edge-sdk {_plain(record.sdk_version)}.", ""]
    if verdicts is not None:
        lines += [*_verdict(verdicts), ""]
    lines += ["## Run", ""]
    lines += [f"- **{name}**: {_plain(sentence)}" for name, sentence in summary.facts]
    lines += ["", *_latency(summary), "", *_stages(summary), ""]
    lines += ["## Routes and objects", ""]
    for name, counts in (("Reasons", summary.reasons), ("Detections", summary.detections)):
        listed = ", ".join(f"{_plain(key)} {count}" for key, count in counts.items()) or "none"
        lines.append(f"- **{name}**: {listed}")
    if pictures:
        lines += ["", "## Pictures", ""]
        for caption, path in pictures:
            lines += [f"![{_plain(caption)}](<{path}>)", "", _plain(caption), ""]
    if summary.caveats:
        lines += ["", "## What these figures do not show", ""]
        lines += [f"- {_plain(caveat)}" for caveat in summary.caveats]
    return "\n".join(lines).rstrip("\n") + "\n"


def _verdict(verdicts: Verdicts) -> Iterator[str]:
    yield f"## Verdict: {verdicts.overall.value}"
    yield ""
    if verdicts.unsound:
        yield "The measurement cannot be judged:"
        yield ""
        yield from (f"- {_plain(why)}" for why in verdicts.unsound)
        yield ""
    rows = []
    for clause in verdicts.clauses:
        rows.append(
            [
                f"**{clause.verdict.value}**",
                f"`{clause.clause}`",
                limit_text(clause),
                *shown_figures(clause),
                str(clause.samples),
                clause.reason,
            ]
        )
    yield from _table(("verdict", "clause", "limit", "measured", "lower", "upper", "n", "why"), rows)
    yield ""
    yield f"Lower and upper are one-sided bounds at {100 * verdicts.confidence:g} % confidence."
    yield from (_plain(note) for note in verdicts.notes)


def _latency(summary: RunSummary) -> Iterator[str]:
    yield "## Latency in ms, after warm-up (estimate <= upper bound at 99 % confidence)".replace("<=", "≤")
    yield ""
    heads = ("route", "frames", "share", *(f"P{100 * share:g}" for share in SHOWN_SHARES), "engine P50")
    rows = [
        [
            route.route,
            str(route.frames),
            f"{100 * route.share:.0f} %",
            *(bounded(bounds) for bounds in route.latency_ms),
            figure(route.engine_p50_ms),
        ]
        for route in summary.routes
    ]
    yield from _table(heads, rows)


def _stages(summary: RunSummary) -> Iterator[str]:
    yield "## Median time of each stage in ms"
    yield ""
    rows = []
    for stage in STAGES:
        cells = [route.stage_p50_ms.get(stage) for route in summary.routes]
        if any(cell is not None for cell in cells):
            rows.append([stage, *(figure(cell) for cell in cells)])
    yield from _table(("stage", *(route.route for route in summary.routes)), rows)


def _table(heads: Iterable[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    names = list(heads)
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"
    for row in rows:
        yield f"| {' | '.join(_plain(cell) for cell in row)} |"


def _plain(text: str) -> str:
    """Keeps foreign text from becoming Markdown structure or HTML."""
    text = " ".join(printable(text).split())
    return with_signs(text).replace("<", "&lt;").replace("|", "\\|")
