"""A verdict as JUnit XML: a clause is a test, so that a CI job fails as one with a failing test does."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from edge_sdk.report.clauses import ClauseVerdict, Outcome
from edge_sdk.report.record import RunRecord
from edge_sdk.report.summary import limit_text, printable, shown_figures, summarise
from edge_sdk.report.verdict import Verdicts

__all__ = ["junit_xml"]


def junit_xml(record: RunRecord, verdicts: Verdicts) -> str:
    """Writes a judged run as JUnit XML.

    FAIL is a failure; INVALID and INCONCLUSIVE are errors: nothing was shown, which is no pass either.

    Arguments:
        record: the run.
        verdicts: what was judged of it.
    """
    name = printable(f"SLA {verdicts.sla}")
    wrong = [clause.verdict for clause in verdicts.clauses]
    counts = {
        "tests": str(len(wrong)),
        "failures": str(wrong.count(Outcome.FAIL)),
        "errors": str(wrong.count(Outcome.INVALID) + wrong.count(Outcome.INCONCLUSIVE)),
        "time": f"{record.duration_ns / 1e9:.3f}",
    }
    suites = ET.Element("testsuites", {"name": "edge-sdk", **counts})
    suite = ET.SubElement(
        suites, "testsuite", {"name": name, **counts, "skipped": "0", "timestamp": record.created[:19]}
    )
    properties = ET.SubElement(suite, "properties")
    for heading, sentence in (("Verdict", verdicts.overall.value), *summarise(record).facts):
        ET.SubElement(properties, "property", {"name": heading, "value": printable(sentence)})
    for clause in verdicts.clauses:
        case = ET.SubElement(
            suite, "testcase", {"name": printable(clause.clause), "classname": name, "time": "0"}
        )
        _outcome(case, clause)
    ET.SubElement(suite, "system-out").text = "\n".join(map(printable, verdicts.notes))
    ET.indent(suites, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def _outcome(case: ET.Element, clause: ClauseVerdict) -> None:
    measured, lower, upper = shown_figures(clause)
    said = f"limit {limit_text(clause)}, measured {measured} (bounds {lower} to {upper}, n {clause.samples})"
    if clause.verdict is Outcome.PASS:
        ET.SubElement(case, "system-out").text = printable(f"{said}: {clause.reason}")
        return
    kind = "failure" if clause.verdict is Outcome.FAIL else "error"
    message = printable(f"{clause.verdict.value}: {clause.reason}")
    ET.SubElement(case, kind, {"type": clause.verdict.value, "message": message}).text = printable(said)
