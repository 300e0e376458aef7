"""Runs: the loop over a source, and the record of it.

The command line, the SLA check and the apps all make their runs here, so that a record always
means the same.
"""

from edge_sdk.runs.conditions import live_conditions
from edge_sdk.runs.loop import Force, Observer, run_source
from edge_sdk.runs.record import RunPlan, record_run
from edge_sdk.runs.recordings import open_recording, recording_facts

__all__ = [
    "Force",
    "Observer",
    "RunPlan",
    "live_conditions",
    "open_recording",
    "record_run",
    "recording_facts",
    "run_source",
]
