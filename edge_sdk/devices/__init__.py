"""The only place that knows which machine this is: what can run a bundle here, and what is missing."""

from edge_sdk.devices.choose import DEVICES, DeviceChoice, open_runner
from edge_sdk.devices.machine import machine_facts, usable_cores
from edge_sdk.devices.meters import METERS, open_meter, power_of_run
from edge_sdk.devices.plans import PlanOptions

__all__ = [
    "DEVICES",
    "METERS",
    "DeviceChoice",
    "PlanOptions",
    "machine_facts",
    "open_meter",
    "open_runner",
    "power_of_run",
    "usable_cores",
]
