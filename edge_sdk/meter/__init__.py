"""Power meters, each in one file, and the sampler that turns their readings into energy.

`base` says what a meter is; `devices.open_meter` chooses one.
"""

from edge_sdk.meter.base import Meter, RailReading, Reading
from edge_sdk.meter.sampler import DEFAULT_HZ, EnergyMeter, EnergyWindow

__all__ = ["DEFAULT_HZ", "EnergyMeter", "EnergyWindow", "Meter", "RailReading", "Reading"]
