"""What CUDA graphs save on this machine, graph by graph."""

from __future__ import annotations

from edge_sdk.devices.plans import PlanOptions, open_tensorrt
from edge_sdk.engine.bundle import load_bundle
from edge_sdk.engine.tensorrt_graphs import GraphTrial
from edge_sdk.errors import DeviceError

__all__ = ["measure_graphs"]


def measure_graphs(engine: str, precision: str | None = None) -> tuple[str, tuple[GraphTrial, ...]]:
    """Captures each graph of a bundle, checks the replay, and measures it against ordinary launches.

    Arguments:
        engine: name of a bundle with plans for this machine.
        precision: of the graphs that the plans were built from.

    Returns: what ran them, and what was found of each graph.

    Raises:
        DeviceNotFoundError, EngineError: no GPU, no TensorRT or no plans.
        DeviceError: the driver is emulated, so that times would mean nothing.
    """
    options = PlanOptions(cuda_graphs="auto")
    with open_tensorrt(load_bundle(engine), precision=precision, options=options) as runner:
        if runner.emulated:
            raise DeviceError(
                f"{runner.provider}: an emulated driver has no times to measure. "
                "Run this on a machine with a GPU."
            )
        return runner.provider, runner.graph_trials
