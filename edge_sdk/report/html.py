"""The same report as one HTML file: verdict first, pictures inside, nothing fetched from anywhere."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

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

__all__ = ["run_html"]

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --dim: #777; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.verdict { font-size: 1.6rem; font-weight: 700; padding: .5rem 1rem; border-radius: .4rem; color: #fff; }
.PASS { background: #18794e; } .FAIL { background: #c62a2f; }
.INCONCLUSIVE { background: #8f5e00; } .INVALID { background: #793aaf; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; vertical-align: top; }
th, td { border-bottom: 1px solid var(--line); }
.number { text-align: right; white-space: nowrap; }
td .tag { color: #fff; border-radius: .25rem; padding: .05rem .4rem; font-size: .85rem; font-weight: 600; }
dt { font-weight: 600; } dd { margin: 0 0 .4rem; overflow-wrap: anywhere; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; } figcaption, .dim { color: var(--dim); }
svg { width: 100%; height: 9rem; } .ended { border-left: .3rem solid #c62a2f; padding-left: .8rem; }
@media print { body { margin: 0; max-width: none; } figure, tr { break-inside: avoid; } }
"""


def run_html(
    record: RunRecord,
    verdicts: Verdicts | None = None,
    pictures: Sequence[tuple[str, Path]] = (),
    title: str | None = None,
) -> str:
    """Writes a run, and its verdict where there is one, as one self-contained HTML document.

    Arguments:
        record: the run.
        verdicts: the judged SLA, or None for a plain run.
        pictures: pairs of (caption, JPEG file); they are put into the document.
        title: the first heading; made from the SLA or the engine without one.
    """
    summary = summarise(record)
    heading = title or (f"SLA {verdicts.sla}" if verdicts else f"Run of {record.engine.name}")
    body = [
        f"<h1>{_text(heading)}</h1>",
        *(_verdict(verdicts) if verdicts is not None else ()),
        *_ended(record),
        f'<p class="dim">Made {_text(record.created)} by edge-sdk {_text(record.sdk_version)}.</p>',
        "<h2>Run</h2><dl>",
        *(f"<dt>{_text(name)}</dt><dd>{_text(sentence)}</dd>" for name, sentence in summary.facts),
        "</dl>",
        *_latency(summary),
        *_chart(record),
        *_stages(summary),
        "<h2>Routes and objects</h2><dl>",
        f"<dt>Reasons</dt><dd>{_counts(summary.reasons)}</dd>",
        f"<dt>Detections</dt><dd>{_counts(summary.detections)}</dd></dl>",
        *_pictures(pictures),
    ]
    if summary.caveats:
        body += ["<h2>What these figures do not show</h2><ul>"]
        body += [*(f"<li>{_text(caveat)}</li>" for caveat in summary.caveats), "</ul>"]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">\n"
        f"<title>{_text(heading)}</title>\n<style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _verdict(verdicts: Verdicts) -> Iterator[str]:
    yield f'<p class="verdict {verdicts.overall.value}">{verdicts.overall.value}</p>'
    if verdicts.unsound:
        yield "<p>The measurement cannot be judged:</p><ul>"
        yield from (f"<li>{_text(why)}</li>" for why in verdicts.unsound)
        yield "</ul>"
    rows = []
    for clause in verdicts.clauses:
        word = clause.verdict.value
        rows.append(
            [
                f'<span class="tag {word}">{word}</span>',
                f"<code>{_text(clause.clause)}</code>",
                *map(_text, (limit_text(clause), *shown_figures(clause), str(clause.samples), clause.reason)),
            ]
        )
    yield from _table(
        ("verdict", "clause", "limit", "measured", "lower", "upper", "n", "why"), rows, (3, 4, 5, 6)
    )
    yield f"<p>Lower and upper are one-sided bounds at {100 * verdicts.confidence:g} % confidence.</p><ul>"
    yield from (f"<li>{_text(note)}</li>" for note in verdicts.notes)
    yield "</ul>"


def _ended(record: RunRecord) -> Iterator[str]:
    if record.run.ended_early is not None:
        yield f'<p class="ended"><b>Ended early</b> by {_text(str(record.run.ended_early))}</p>'


def _latency(summary: RunSummary) -> Iterator[str]:
    yield "<h2>Latency in ms, after warm-up (estimate &le; upper bound at 99 % confidence)</h2>"
    heads = ("route", "frames", "share", *(f"P{100 * share:g}" for share in SHOWN_SHARES), "engine P50")
    rows = [
        [
            _text(route.route),
            str(route.frames),
            f"{100 * route.share:.0f} %",
            *(_text(bounded(bounds)) for bounds in route.latency_ms),
            figure(route.engine_p50_ms),
        ]
        for route in summary.routes
    ]
    yield from _table(heads, rows, range(1, len(heads)))


def _chart(record: RunRecord) -> Iterator[str]:
    """Latency over the run, a thin bar a frame or a group of frames (its slowest)."""
    latency_ms = record.frames.latency_ns / 1e6
    if len(latency_ms) < 2 or latency_ms.max() <= 0:
        return
    size = -(-len(latency_ms) // 600)
    slowest = [float(latency_ms[at : at + size].max()) for at in range(0, len(latency_ms), size)]
    top = max(slowest)
    bars = "".join(f"M{at}.5 100V{100 - 100 * value / top:.1f}" for at, value in enumerate(slowest))
    cold = -(-record.warm_up_frames // size)
    label = f"Latency of {len(latency_ms)} frames over the run, up to {figure(top)} ms; warm-up shaded"
    yield f"<figure><svg viewBox='0 0 {len(slowest)} 100' preserveAspectRatio='none' role='img'"
    yield f" aria-label='{label}'><rect width='{cold}' height='100' fill='#8883'/>"
    yield f"<path d='{bars}' stroke='#2b7de0' stroke-width='1' fill='none'/></svg>"
    yield f"<figcaption>{label}.</figcaption></figure>"


def _stages(summary: RunSummary) -> Iterator[str]:
    yield "<h2>Median time of each stage in ms</h2>"
    rows = []
    for stage in STAGES:
        cells = [route.stage_p50_ms.get(stage) for route in summary.routes]
        if any(cell is not None for cell in cells):
            rows.append([stage, *(figure(cell) for cell in cells)])
    heads = ("stage", *(_text(route.route) for route in summary.routes))
    yield from _table(heads, rows, range(1, len(heads)))


def _pictures(pictures: Sequence[tuple[str, Path]]) -> Iterator[str]:
    if pictures:
        yield "<h2>Pictures</h2>"
    for caption, path in pictures:
        encoded = base64.b64encode(path.read_bytes()).decode("ascii")
        yield (
            f'<figure><img alt="{_text(caption)}" src="data:image/jpeg;base64,{encoded}">'
            f"<figcaption>{_text(caption)}</figcaption></figure>"
        )


def _table(heads: Iterable[str], rows: Iterable[Sequence[str]], numbers: Iterable[int]) -> Iterator[str]:
    right = set(numbers)

    def row(kind: str, cells: Iterable[str]) -> str:
        made = (
            f'<{kind} class="number">{cell}</{kind}>' if at in right else f"<{kind}>{cell}</{kind}>"
            for at, cell in enumerate(cells)
        )
        return f"<tr>{''.join(made)}</tr>"

    yield f'<div class="scroll"><table><thead>{row("th", heads)}</thead><tbody>'
    yield from (row("td", cells) for cells in rows)
    yield "</tbody></table></div>"


def _counts(counts: object) -> str:
    assert isinstance(counts, dict)
    return ", ".join(f"{_text(name)} {count}" for name, count in counts.items()) or "none"


def _text(text: str) -> str:
    return escape(with_signs(printable(text)))
