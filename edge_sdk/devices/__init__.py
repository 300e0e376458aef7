"""The only place that knows which machine this is: what can run a bundle here, and what is missing."""

from edge_sdk.devices.choose import DEVICES, DeviceChoice, open_runner
from edge_sdk.devices.machine import machine_facts, usable_cores
from edge_sdk.devices.plans import PlanOptions

__all__ = ["DEVICES", "DeviceChoice", "PlanOptions", "machine_facts", "open_runner", "usable_cores"]
