"""The image inputs of one graph: where 8-bit pictures are laid, and what a float input still needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.engine.manifest import GraphSpec, Normalisation
from edge_sdk.errors import ShapeError
from edge_sdk.tensors import TensorSpec

__all__ = ["IMAGE_CHANNELS", "GraphInputs"]

IMAGE_CHANNELS: dict[str, tuple[int, ...]] = {"rgb": (3,), "thermal": (1, 3), "rgb+thermal": (4,)}
"""Meaning of an image input -> its channels. In "rgb+thermal" the fourth channel is thermal; a
thermal picture of three channels has the same value in each."""


class GraphInputs:
    """Lays pictures into a graph's bound image inputs.

    A uint8 NHWC picture is written straight into the bound memory. A float or NCHW input, thermal in
    three channels and RGB with thermal in four have a staging picture, allocated once, which
    `commit` converts: slower.

    Arguments:
        graph: the graph; inputs that are no images are left alone.
        array_of: input name -> its bound array.

    Raises:
        ShapeError: an image input is not [1, h, w, channels] or [1, channels, h, w].
    """

    def __init__(self, graph: GraphSpec, array_of: Callable[[str], NDArray[Any]]) -> None:
        self._pictures: dict[str, NDArray[np.uint8]] = {}
        self._commits: list[Callable[[], None]] = []
        for spec in graph.inputs:
            if spec.meaning in IMAGE_CHANNELS:
                self._add(spec, array_of(spec.name), graph.normalisations.get(spec.name, Normalisation()))

    @property
    def meanings(self) -> tuple[str, ...]:
        """The pictures that this graph reads: "rgb", "thermal" or both."""
        return tuple(self._pictures)

    def picture(self, meaning: str) -> NDArray[np.uint8]:
        """Returns the memory of one picture: uint8 [h, w, 3] for "rgb", [h, w] for "thermal".

        Copies: no; valid while the runner is open.
        """
        return self._pictures[meaning]

    def commit(self) -> None:
        """Converts what was laid into the graph's own dtype and layout; nothing for uint8 NHWC."""
        for convert in self._commits:
            convert()

    def _add(self, spec: TensorSpec, bound: NDArray[Any], wanted: Normalisation) -> None:
        chw = spec.layout == "nchw"
        channels = spec.shape[1 if chw else -1]
        if channels not in IMAGE_CHANNELS[spec.meaning]:
            channels = IMAGE_CHANNELS[spec.meaning][0]
        height, width = (spec.shape[2], spec.shape[3]) if chw else (spec.shape[1], spec.shape[2])
        expected = (1, channels, height, width) if chw else (1, height, width, channels)
        if spec.shape != expected:
            raise ShapeError(
                f"input {spec.name!r}", f"{list(expected)} ({spec.layout})", f"{list(spec.shape)}"
            )
        if spec.dtype == "uint8" and not chw and (spec.meaning, channels) in (("rgb", 3), ("thermal", 1)):
            self._pictures[spec.meaning] = bound[0] if channels == 3 else bound[0, :, :, 0]
            return
        # Planes of the bound tensor, one a channel, whatever its layout.
        planes = [bound[0, index] if chw else bound[0, :, :, index] for index in range(channels)]
        if spec.meaning != "thermal":
            rgb = np.zeros((height, width, 3), np.uint8)
            self._stage("rgb", rgb, planes[:3], _factors(wanted, range(3)))
        if spec.meaning != "rgb":
            first = 3 if channels == 4 else 0
            thermal = np.zeros((height, width, 1), np.uint8)
            self._stage("thermal", thermal, planes[first:], _factors(wanted, range(first, channels)))

    def _stage(
        self,
        meaning: str,
        picture: NDArray[np.uint8],
        planes: list[NDArray[Any]],
        factors: list[tuple[np.float32, np.float32]],
    ) -> None:
        self._pictures[meaning] = picture if picture.shape[2] == 3 else picture[:, :, 0]

        def convert() -> None:
            for index, (plane, (slope, shift)) in enumerate(zip(planes, factors, strict=True)):
                pixels = picture[:, :, min(index, picture.shape[2] - 1)]
                if plane.dtype == np.uint8:
                    np.copyto(plane, pixels)
                else:
                    np.multiply(pixels, slope, out=plane, casting="unsafe")
                    np.add(plane, shift, out=plane, casting="unsafe")

        self._commits.append(convert)


def _factors(wanted: Normalisation, channels: range) -> list[tuple[np.float32, np.float32]]:
    """(value * scale - mean) / std of each channel, as slope and shift."""
    factors = []
    for channel in channels:
        mean = wanted.mean[channel if len(wanted.mean) > 1 else 0]
        std = wanted.std[channel if len(wanted.std) > 1 else 0]
        factors.append((np.float32(wanted.scale / std), np.float32(-mean / std)))
    return factors
