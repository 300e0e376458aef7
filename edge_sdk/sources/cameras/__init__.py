"""Cameras: devices, thermal formats, health, pairing by capture time, and the source that joins them."""

from edge_sdk.sources.cameras.device import CameraDevice, CameraFrame, Grab, Setting, ThermalFacts
from edge_sdk.sources.cameras.health import Fault, HealthLimits, Watch
from edge_sdk.sources.cameras.pair_address import camera_uri
from edge_sdk.sources.cameras.pairing import Pairing
from edge_sdk.sources.cameras.source import CameraSource

__all__ = [
    "CameraDevice",
    "CameraFrame",
    "CameraSource",
    "Fault",
    "Grab",
    "HealthLimits",
    "Pairing",
    "Setting",
    "ThermalFacts",
    "Watch",
    "camera_uri",
]
