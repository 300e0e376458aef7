"""Which device runs a bundle here: chosen once, and never in silence."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from edge_sdk.devices.machine import usable_cores
from edge_sdk.devices.plans import PlanOptions, open_tensorrt
from edge_sdk.engine.bundle import Bundle
from edge_sdk.engine.null_runner import NullRunner
from edge_sdk.engine.onnx_runner import CPU, CUDA, OnnxRunner
from edge_sdk.engine.runner import Runner
from edge_sdk.engine.tables import nearest
from edge_sdk.errors import (
    ConfigError,
    DeviceError,
    DeviceNotFoundError,
    EngineError,
    ProviderFallbackError,
)

__all__ = ["DEVICES", "DeviceChoice", "open_runner"]

DEVICES = ("auto", "cpu", "cuda", "tensorrt", "null")
_OTHER_NAMES = {
    "gpu": "cuda",
    "nvidia": "cuda",
    "trt": "tensorrt",
    "none": "null",
    "x86": "cpu",
}


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DeviceChoice:
    """What was chosen and what was not, for the record.

    Attributes:
        device: "tensorrt", "cuda", "cpu" or "null".
        provider: what really loaded, as the runner reports it.
        precision: of the graphs that run.
        threads: within one graph on the CPU.
        tried: pairs of (device, why it was not taken), in the order of trying.
        int8_sums: how INT8 products are added on the CPU, as `OnnxRunner.int8_sums`.
    """

    device: str
    provider: str
    precision: str
    threads: int
    tried: tuple[tuple[str, str], ...] = ()
    int8_sums: str = ""


def open_runner(
    bundle: Bundle,
    device: str = "auto",
    *,
    precision: str | None = None,
    threads: int | None = None,
    allow_fallback: Sequence[str] = (),
    plan_options: PlanOptions | None = None,
) -> tuple[Runner, DeviceChoice]:
    """Opens what runs a bundle on this machine.

    Arguments:
        bundle: as `load_bundle` returns it.
        device: "tensorrt" (plans built before by `edge-sdk engines build`), "cuda" and "cpu" (ONNX Runtime),
            "null" (runs nothing, to measure the harness), or "auto": the first of tensorrt, cuda and cpu
            that loads. A device is tried by loading the bundle on it.
        precision: "int8", "fp16", "fp32", or None for what the bundle ships to be run.
        threads: within one graph on the CPU; None for the physical cores this process may use.
        allow_fallback: execution providers that may run the graphs where the wanted one does not load.
            "tensorrt" never falls back.
        plan_options: how TensorRT's plans are found and run.

    Returns: the runner, which the caller closes, and the choice.

    Raises:
        ConfigError: no such device or precision.
        DeviceNotFoundError: no device serves; says what was tried.
        ProviderFallbackError: the device asked for does not load.
        EngineError: as `OnnxRunner` and `open_tensorrt` raise it.
    """
    runner, choice = _open(bundle, device, precision, threads, allow_fallback, plan_options)
    _log.info("%s runs on %s (%s, %s)", bundle.name, choice.device, choice.provider, choice.precision)
    for name, why in choice.tried:
        _log.info("%s was not taken: %s", name, why)
    return runner, choice


def _open(
    bundle: Bundle,
    device: str,
    precision: str | None,
    threads: int | None,
    allow_fallback: Sequence[str],
    plan_options: PlanOptions | None,
) -> tuple[Runner, DeviceChoice]:
    if device not in DEVICES:
        raise ConfigError(f"device {device!r}: expected {', '.join(DEVICES)}. {_hint(device)}".rstrip())
    count = usable_cores() if threads is None else threads
    shown = precision or next(iter(bundle.manifest.graphs.values())).precision
    if device == "null":
        null = NullRunner(bundle)
        return null, DeviceChoice("null", null.provider, shown, count)
    tried: list[tuple[str, str]] = []
    if device in ("auto", "tensorrt"):
        try:
            plans = open_tensorrt(bundle, precision=precision, options=plan_options)
        except (DeviceError, EngineError) as error:
            if device == "tensorrt" or _asks_for_plans(plan_options):
                raise
            tried.append(("tensorrt", str(error)))
        else:
            return plans, DeviceChoice("tensorrt", plans.provider, shown, count)
    for name, provider in (("cuda", CUDA), ("cpu", CPU)):
        if device not in ("auto", name):
            continue
        allowed = allow_fallback if device == name else ()
        try:
            runner = OnnxRunner(
                bundle, provider=provider, precision=precision, threads=count, allow_fallback=allowed
            )
        except ProviderFallbackError as error:
            if device == name:
                raise
            tried.append((name, str(error)))
            continue
        taken = "cpu" if runner.provider == CPU else name
        if taken != name:
            tried.append((name, f"{provider} did not load; {runner.provider} was allowed by name"))
        return runner, DeviceChoice(taken, runner.provider, shown, count, tuple(tried), runner.int8_sums)
    raise DeviceNotFoundError(device, tried)


def _hint(device: str) -> str:
    """Offers the device that was meant: by its other names, then by its spelling."""
    word = str(device).strip().lower()
    return nearest(_OTHER_NAMES.get(word.partition(":")[0], word), DEVICES)


def _asks_for_plans(options: PlanOptions | None) -> bool:
    """Whoever names plans or a DLA means TensorRT, also with "auto"."""
    return options is not None and (options.folder is not None or options.dla)
