"""Edge inference on RGB+thermal pairs: load an engine, open a source, ask.

    detector = edge_sdk.load("substation-rgbt")
    with edge_sdk.open_source("clip:substation") as source:
        for pair in source:
            result = detector(pair)

Nothing heavy is imported until it is used: `import edge_sdk` loads no vendor library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from edge_sdk import version

__version__ = version.VERSION

_HOMES = {
    "Detection": "detections",
    "Detections": "detections",
    "Detector": "pipeline",
    "EdgeSdkError": "errors",
    "EnergyMeter": "meter.sampler",
    "FramePair": "frames",
    "FrameResult": "measurements",
    "FrameWriter": "report.frame_writer",
    "GateConfig": "routing",
    "HeatUnit": "heat_units",
    "LiveOptions": "live.session",
    "LiveSession": "live.session",
    "MemorySource": "sources",
    "Reason": "measurements",
    "RecordingPlan": "recording",
    "Registration": "registration",
    "RgbFrame": "frames",
    "Route": "measurements",
    "ThermalFrame": "frames",
    "ThermalUnit": "frames",
    "annotate": "report.draw",
    "check_sla": "sla_check",
    "load": "pipeline",
    "open_meter": "devices.meters",
    "open_recording": "runs",
    "open_source": "sources",
    "run_source": "runs",
}

__all__ = [
    "Detection",
    "Detections",
    "Detector",
    "EdgeSdkError",
    "EnergyMeter",
    "FramePair",
    "FrameResult",
    "FrameWriter",
    "GateConfig",
    "HeatUnit",
    "LiveOptions",
    "LiveSession",
    "MemorySource",
    "Reason",
    "RecordingPlan",
    "Registration",
    "RgbFrame",
    "Route",
    "ThermalFrame",
    "ThermalUnit",
    "__version__",
    "annotate",
    "check_sla",
    "load",
    "open_meter",
    "open_recording",
    "open_source",
    "run_source",
]

if TYPE_CHECKING:
    from edge_sdk.detections import Detection, Detections
    from edge_sdk.devices.meters import open_meter
    from edge_sdk.errors import EdgeSdkError
    from edge_sdk.frames import FramePair, RgbFrame, ThermalFrame, ThermalUnit
    from edge_sdk.heat_units import HeatUnit
    from edge_sdk.live.session import LiveOptions, LiveSession
    from edge_sdk.measurements import FrameResult, Reason, Route
    from edge_sdk.meter.sampler import EnergyMeter
    from edge_sdk.pipeline import Detector, load
    from edge_sdk.recording import RecordingPlan
    from edge_sdk.registration import Registration
    from edge_sdk.report.draw import annotate
    from edge_sdk.report.frame_writer import FrameWriter
    from edge_sdk.routing import GateConfig
    from edge_sdk.runs import open_recording, run_source
    from edge_sdk.sla_check import check_sla
    from edge_sdk.sources import MemorySource, open_source


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'edge_sdk' has no attribute {name!r}")
    try:
        value = getattr(import_module(f"edge_sdk.{_HOMES[name]}"), name)
    except ImportError as error:
        shown = import_module("edge_sdk.errors").OpenCvMissingError.behind(error)
        if shown is None:
            raise
        raise shown from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
