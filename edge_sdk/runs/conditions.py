"""What a reader must know before trusting the figures of a run."""

from __future__ import annotations

from dataclasses import fields

from edge_sdk.devices import machine_facts
from edge_sdk.engine.int8_sums import SATURATING
from edge_sdk.pipeline import Detector

__all__ = ["live_conditions", "run_conditions"]

NOT_ON_JETSON = "Not measured on Jetson: these times hold for the machine named here alone."
NULL_ENGINE = "The null engine ran: nothing was inferred; times are those of the harness alone."
EMULATED_DRIVER = "The CUDA driver is emulated: no time here is that of a GPU."
INT8_SATURATES = (
    "INT8 sums saturate on this CPU, and ONNX Runtime cannot open this engine with its exact kernels: "
    "detections differ from those of other machines."
)
NO_THERMAL_DEGREES = "Thermal frames are in counts of unknown unit: no degree is claimed."


def live_conditions(detector: Detector) -> list[str]:
    """Returns what a viewer must know before trusting live figures."""
    return run_conditions(detector, "")


def run_conditions(detector: Detector, thermal_unit: str) -> list[str]:
    """Returns what a reader of the record must know.

    Arguments:
        detector: of the run.
        thermal_unit: of its thermal frames, "" where nobody can know yet.
    """
    conditions = []
    if "jetson" not in str(machine_facts().get("board", "")).lower():
        conditions.append(NOT_ON_JETSON)
    if detector.choice.device == "null":
        conditions.append(NULL_ENGINE)
    if "(emulated)" in detector.provider:
        conditions.append(EMULATED_DRIVER)
    if detector.choice.int8_sums == SATURATING:
        conditions.append(INT8_SATURATES)
    if thermal_unit == "counts":
        conditions.append(NO_THERMAL_DEGREES)
    shipped = detector.bundle.manifest.gate
    changed = [
        f"{item.name}={getattr(detector.gate, item.name)}"
        for item in fields(shipped)
        if getattr(detector.gate, item.name) != getattr(shipped, item.name)
    ]
    if changed:
        conditions.append(f"Thresholds of the gate were overridden: {', '.join(changed)}.")
    return conditions
