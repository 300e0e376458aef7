"""Check an SLA from a program: run, judge, print, exit.

    python apps/sla_validate.py apps/demo_sla.yaml --record record.json

Exit status: 0 kept, 1 violated, 2 inconclusive or invalid, 3 the run could not be made, 128 + n where signal
n ended it; it is then judged, and recorded, for what it was until then. `edge-sdk sla check` does the same
with a progress bar; this is the way to do it inside a test rig or a service.
"""

from __future__ import annotations

import argparse
import sys

import edge_sdk
from edge_sdk.cli.streams import safe_streams
from edge_sdk.devices import power_of_run
from edge_sdk.ending import Ending, StoppedBySignal
from edge_sdk.errors import EdgeSdkError
from edge_sdk.report.record_file import write_record
from edge_sdk.report.verdict import Outcome, Verdicts

COULD_NOT_RUN = 3


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sla", help="the SLA file")
    parser.add_argument("--record", help="write the run's record as JSON")
    options = parser.parse_args()
    safe_streams()  # `| head` changes no exit status
    ending = Ending()
    try:
        with ending.listening():
            with power_of_run() as power:
                checked = edge_sdk.check_sla(options.sla, power=power, ending=ending)
            verdicts = checked.verdicts
            if options.record:
                write_record(checked.record, options.record, verdicts.as_json())
            ending.saved()
    except StoppedBySignal as stopped:
        return 128 + stopped.number
    except EdgeSdkError as error:
        print(f"error: {error}", file=sys.stderr)
        return COULD_NOT_RUN
    show(verdicts)
    return ending.exit_status or verdicts.exit_status


def show(verdicts: Verdicts) -> None:
    """Prints a line a clause, and why where it is not kept."""
    for clause in verdicts.clauses:
        print(f"{clause.verdict.value:13} {clause.clause}")
        if clause.verdict is not Outcome.PASS:
            print(f"{'':13} {clause.reason}")
    for fault in verdicts.unsound:
        print(f"unsound: {fault}")
    for note in verdicts.notes:
        print(f"note: {note}")
    print(f"SLA {verdicts.sla}: {verdicts.overall.value}")


if __name__ == "__main__":
    sys.exit(main())
