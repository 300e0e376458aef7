"""Power of a discrete NVIDIA GPU through its driver (package nvidia-ml-py).

On Orin the library loads and every query answers NotSupported: a meter only where a value comes back.
Source: NVIDIA, NVML API Reference: `nvmlDeviceGetTotalEnergyConsumption` (mJ since the driver was loaded),
`nvmlDeviceGetPowerUsage` (mW, within 5 %).
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

from edge_sdk.clock import Clock, MonotonicClock
from edge_sdk.errors import MeterError
from edge_sdk.meter.base import RailReading, Reading, Unavailable
from edge_sdk.power import MeterFacts, RailFacts, Skipped
from edge_sdk.requirements import install_hint

__all__ = ["NvmlMeter", "import_nvml"]

_GAIN_SHARE = 0.05 / math.sqrt(3.0)
_POWER_TAU_S, _POWER_TAU_SHARE = 0.5, 0.5
"""Newer GPUs average power over a second, older ones less; taken where no energy is counted."""


def import_nvml() -> Any:
    """Imports pynvml.

    Raises:
        Unavailable: it is not installed.
    """
    try:
        import pynvml
    except ImportError:
        raise Unavailable(f"package nvidia-ml-py is not installed: {install_hint('nvml')}") from None
    return pynvml


def _cards(count: int) -> str:
    return "the graphics card" if count == 1 else f"all {count} graphics cards, added up,"


class NvmlMeter:
    """Reads every GPU that gives a value, by its energy counter where it has one."""

    def __init__(self, clock: Clock | None = None, library: Any = None) -> None:
        """Asks every GPU once.

        Arguments:
            library: pynvml, or what stands for it in a test.

        Raises:
            Unavailable: no library, no driver, or no GPU that gives a value.
        """
        self._clock = clock or MonotonicClock()
        self._nvml = library if library is not None else import_nvml()
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            raise Unavailable(f"NVML does not start: {error}") from None
        self._handles: dict[str, tuple[Any, bool]] = {}
        self._last: dict[str, tuple[int, float]] = {}
        skipped: list[Skipped] = []
        for index in range(self._nvml.nvmlDeviceGetCount()):
            handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
            label = f"GPU{index}"
            counted = self._ask(handle, "nvmlDeviceGetTotalEnergyConsumption")
            power = self._ask(handle, "nvmlDeviceGetPowerUsage")
            if isinstance(counted, str) and isinstance(power, str):
                skipped.append(Skipped(label, f"gives no power: {power}"))
                continue
            self._handles[label] = handle, not isinstance(counted, str)
        if not self._handles:
            self.close()
            raise Unavailable("; ".join(f"{item.channel} {item.why}" for item in skipped) or "no GPU")
        self._facts = MeterFacts(
            meter="nvml",
            board=", ".join(self._name(handle) for handle, _ in self._handles.values()),
            scope="gpu",
            rails=tuple(self._rail(label, counts) for label, (_, counts) in self._handles.items()),
            note=f"{_cards(len(self._handles))} alone: no processor, memory or power supply of the machine",
            skipped=tuple(skipped),
        )

    @property
    def facts(self) -> MeterFacts:
        """See `Meter.facts`."""
        return self._facts

    def read(self) -> Reading:
        """See `Meter.read`."""
        before_ns = self._clock.now_ns()
        rails, skipped = {}, []
        for label, (handle, counts) in self._handles.items():
            power = self._ask(handle, "nvmlDeviceGetPowerUsage")
            energy = self._ask(handle, "nvmlDeviceGetTotalEnergyConsumption") if counts else "not counted"
            if isinstance(power, str) and isinstance(energy, str):
                skipped.append(Skipped(label, power))
                continue
            rails[label] = RailReading(
                w=None if isinstance(power, str) else power / 1e3,
                j=None if isinstance(energy, str) else energy / 1e3,
            )
        after_ns = self._clock.now_ns()
        if not rails:
            raise MeterError(f"no GPU answers any more ({skipped[0].channel}: {skipped[0].why})")
        return Reading(before_ns, after_ns, rails, tuple(skipped))

    def close(self) -> None:
        """See `Meter.close`."""
        nvml, self._nvml = self._nvml, None
        if nvml is not None:
            with contextlib.suppress(nvml.NVMLError):
                nvml.nvmlShutdown()

    def _ask(self, handle: Any, query: str) -> float | str:
        if self._nvml is None:
            return "closed"
        try:
            return float(getattr(self._nvml, query)(handle))
        except self._nvml.NVMLError as error:
            return str(error)

    def _name(self, handle: Any) -> str:
        try:
            name = self._nvml.nvmlDeviceGetName(handle)
        except self._nvml.NVMLError:
            return "unknown"
        return name.decode() if isinstance(name, bytes) else str(name)

    def _rail(self, label: str, counts: bool) -> RailFacts:
        if counts:
            return RailFacts(label, "nvml energy counter", in_total=True, gain_share=_GAIN_SHARE)
        return RailFacts(
            label, "nvml power", in_total=True, gain_share=_GAIN_SHARE,
            tau_s=_POWER_TAU_S, tau_share=_POWER_TAU_SHARE, lsb_w=0.001,
        )  # fmt: skip
