"""The two-stream detector: an RGB trunk, a lighter thermal trunk, one fusion, one shared head.

    rgb [b, 256, 320, 3] uint8 --> trunk (EfficientNet-Lite0 to stride 16) --> neck --+--> head   route rgb
                                                                                  fusion --> head   route fuse
    thermal [b, 256, 320, 1] uint8 --> trunk (short, Lite0 blocks)  --> neck --+--> head   route thermal

All three grids have stride 8. The head gives, for each cell, one logit a class and the
distances from the cell's centre to the four edges of the box, in strides. These are plain linear
outputs: a grid of them quantises well, and an object smaller than a cell may have a slightly
negative one.

The activation is ReLU6 moved down by 3: it cuts at -3 and +3. A symmetric INT8 number with scale
3/127 cuts there by itself, so the quantised graphs need no activation at all, use all 8 bits, and
still have the zero point 0 that TensorRT asks for. Published ReLU6 weights are moved along exactly
(`_move_norm`), but for what zero padding means at the very border.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

__all__ = [
    "CLASSES",
    "CUT",
    "FEATURE_CHANNELS",
    "GRID_HW",
    "INPUT_WH",
    "STRIDE_PX",
    "Detector",
    "conv_bn",
    "fold_norms",
    "one_channel",
]

CLASSES = ("insulator", "hotspot", "corrosion", "person")
INPUT_WH = (320, 256)
STRIDE_PX = 8
GRID_HW = (INPUT_WH[1] // STRIDE_PX, INPUT_WH[0] // STRIDE_PX)
FEATURE_CHANNELS = 64
_HEAD_CHANNELS = 96

_LITE0_BLOCKS = (
    # kernel, stride, expansion, channels in, channels out
    (3, 1, 1, 32, 16),
    (3, 2, 6, 16, 24),
    (3, 1, 6, 24, 24),
    (5, 2, 6, 24, 40),
    (5, 1, 6, 40, 40),
    (3, 2, 6, 40, 80),
    (3, 1, 6, 80, 80),
    (3, 1, 6, 80, 80),
    (5, 1, 6, 80, 112),
    (5, 1, 6, 112, 112),
    (5, 1, 6, 112, 112),
)
"""EfficientNet-Lite0 up to stride 16. Source: tensorflow/tpu, efficientnet/lite."""

_RGB_BLOCKS = tuple(range(len(_LITE0_BLOCKS)))
_THERMAL_BLOCKS = (3, 4, 5, 6)
"""Heat has less texture than colour: a short stem of its own, then few of the blocks."""

CUT = 3.0
"""Where the activation cuts, on both sides."""

_PRIOR = 0.02
"""Share of cells that hold an object, for the classifier's first bias."""


def cut() -> nn.Hardtanh:
    """Makes the activation: ReLU6 moved down by 3."""
    return nn.Hardtanh(-CUT, CUT, inplace=True)


def conv_bn(
    channels_in: int, channels_out: int, kernel: int = 1, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """Makes a convolution without bias and its batch normalisation."""
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(channels_out),
    )


def separable(channels_in: int, channels_out: int, kernel: int = 3) -> nn.Sequential:
    """Makes a depthwise and a pointwise convolution, each with normalisation and activation."""
    return nn.Sequential(
        _lowered(conv_bn(channels_in, channels_in, kernel, groups=channels_in)),
        cut(),
        _lowered(conv_bn(channels_in, channels_out)),
        cut(),
    )


def _lowered(layer: nn.Sequential) -> nn.Sequential:
    """Starts a new layer so that its activation cuts off half of what it gives, as ReLU does."""
    nn.init.constant_(layer[1].bias, -CUT)
    return layer


class InvertedResidual(nn.Module):
    """One block of EfficientNet-Lite: expand, depthwise, project; no squeeze-and-excite."""

    def __init__(self, kernel: int, stride: int, expansion: int, channels_in: int, channels_out: int) -> None:
        super().__init__()
        wide = channels_in * expansion
        self.expand = conv_bn(channels_in, wide) if expansion > 1 else None
        self.depthwise = conv_bn(wide, wide, kernel, stride, groups=wide)
        self.project = conv_bn(wide, channels_out)
        self.activation = cut()
        self.residual = stride == 1 and channels_in == channels_out

    def forward(self, x: Tensor) -> Tensor:
        wide = x if self.expand is None else self.activation(self.expand(x))
        out: Tensor = self.project(self.activation(self.depthwise(wide)))
        return x + out if self.residual else out


class Trunk(nn.Module):
    """Blocks of EfficientNet-Lite0 on a stem; gives its last grids of stride 8 and 16.

    Arguments:
        stem: what comes before the blocks.
        blocks: which of Lite0's blocks follow, by place.
    """

    def __init__(self, stem: nn.Sequential, blocks: tuple[int, ...]) -> None:
        super().__init__()
        self.source_blocks = blocks
        self.stem = stem
        self.blocks = nn.ModuleList(InvertedResidual(*_LITE0_BLOCKS[index]) for index in blocks)
        strides = [_LITE0_BLOCKS[index][1] for index in blocks]
        self._first_of_16 = max(place for place, stride in enumerate(strides) if stride == 2)
        self.channels_8 = _LITE0_BLOCKS[blocks[self._first_of_16 - 1]][4]
        self.channels_16 = _LITE0_BLOCKS[blocks[-1]][4]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.stem(x)
        grid_8 = x
        for place, block in enumerate(self.blocks):
            if place == self._first_of_16:
                grid_8 = x
            x = block(x)
        return grid_8, x

    def load_lite0(self, weights: Path) -> None:
        """Takes over the published ImageNet weights; a stem of one's own keeps its first values."""
        published = torch.load(weights, map_location="cpu", weights_only=True)
        if self.stem[0][0].weight.shape == published["_conv_stem.weight"].shape:
            _fill(self.stem[0], published["_conv_stem.weight"], published, "_bn0")
            _move_norm(self.stem[0], cut_before=False, cut_after=True)
        for block, index in zip(self.blocks, self.source_blocks, strict=True):
            assert isinstance(block, InvertedResidual)
            name = f"_blocks.{index}."
            if block.expand is not None:
                _fill(block.expand, published[name + "_expand_conv.weight"], published, name + "_bn0")
                _move_norm(block.expand, cut_before=False, cut_after=True)
            _fill(block.depthwise, published[name + "_depthwise_conv.weight"], published, name + "_bn1")
            _move_norm(block.depthwise, cut_before=True, cut_after=True)
            _fill(block.project, published[name + "_project_conv.weight"], published, name + "_bn2")
            _move_norm(block.project, cut_before=True, cut_after=False)


def rgb_stem() -> nn.Sequential:
    """Makes Lite0's stem: stride 2, 32 channels."""
    return nn.Sequential(conv_bn(3, 32, 3, 2), cut())


def thermal_stem() -> nn.Sequential:
    """Makes the thermal stem: stride 4 in two plain convolutions, 24 channels as Lite0 has there."""
    return nn.Sequential(_lowered(conv_bn(1, 16, 3, 2)), cut(), conv_bn(16, 24, 3, 2))


def _fill(layer: nn.Sequential, weight: Tensor, published: dict[str, Tensor], norm: str) -> None:
    layer[0].load_state_dict({"weight": weight})
    fields = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    layer[1].load_state_dict({name: published[f"{norm}.{name}"] for name in fields})


@torch.no_grad()
def _move_norm(layer: nn.Sequential, *, cut_before: bool, cut_after: bool) -> None:
    """Moves a ReLU6 layer to the lowered activation: what comes in, and what goes out, is 3 less."""
    if cut_before:
        layer[1].running_mean -= CUT * layer[0].weight.sum(dim=(1, 2, 3))
    if cut_after:
        layer[1].bias -= CUT


class Neck(nn.Module):
    """Brings the context of stride 16 down to one grid of stride 8."""

    def __init__(self, trunk: Trunk) -> None:
        super().__init__()
        self.context = _lowered(conv_bn(trunk.channels_16, FEATURE_CHANNELS))
        self.lateral = conv_bn(trunk.channels_8, FEATURE_CHANNELS)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.activation = cut()
        self.mix = separable(FEATURE_CHANNELS, FEATURE_CHANNELS)

    def forward(self, grid_8: Tensor, grid_16: Tensor) -> Tensor:
        joined = self.up(self.context(grid_16)) + self.lateral(grid_8)
        out: Tensor = self.mix(self.activation(joined))
        return out


class Fusion(nn.Module):
    """Joins the two grids into one of the same size."""

    def __init__(self) -> None:
        super().__init__()
        self.join = _lowered(conv_bn(2 * FEATURE_CHANNELS, FEATURE_CHANNELS))
        self.activation = cut()
        self.mix = separable(FEATURE_CHANNELS, FEATURE_CHANNELS, 5)

    def forward(self, rgb: Tensor, thermal: Tensor) -> Tensor:
        out: Tensor = self.mix(self.activation(self.join(torch.cat((rgb, thermal), dim=1))))
        return out


class Head(nn.Module):
    """Class logits and box edges for each cell of a grid, whichever stream the grid comes from.

    One tower, no branch: each INT8 tensor has one reader, which ONNX Runtime needs on x86 to keep
    its layers in integers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.Sequential(
            separable(FEATURE_CHANNELS, _HEAD_CHANNELS, 5), separable(_HEAD_CHANNELS, _HEAD_CHANNELS)
        )
        self.out = nn.Conv2d(_HEAD_CHANNELS, len(CLASSES) + 4, 1)
        nn.init.normal_(self.out.weight, std=0.01)
        with torch.no_grad():
            self.out.bias[: len(CLASSES)] = -math.log((1 - _PRIOR) / _PRIOR)
            self.out.bias[len(CLASSES) :] = 2.0

    def forward(self, grid: Tensor) -> tuple[Tensor, Tensor]:
        scores, boxes = self.out(self.tower(grid)).split((len(CLASSES), 4), dim=1)
        return scores, boxes


def one_channel(thermal: Tensor) -> Tensor:
    """Thermal images, uint8 [b, h, w, 1], to float [b, 1, h, w]: nothing moves, so no transposition."""
    batch, height, width, _ = thermal.shape
    return thermal.float().reshape(batch, 1, height, width)


class Detector(nn.Module):
    """All streams of the reference detector. The exported graphs are paths through it."""

    def __init__(self) -> None:
        super().__init__()
        self.rgb_trunk = Trunk(rgb_stem(), _RGB_BLOCKS)
        self.thermal_trunk = Trunk(thermal_stem(), _THERMAL_BLOCKS)
        self.rgb_neck = Neck(self.rgb_trunk)
        self.thermal_neck = Neck(self.thermal_trunk)
        self.fusion = Fusion()
        self.head = Head()

    def rgb_features(self, rgb: Tensor) -> Tensor:
        """RGB images, uint8 [b, 256, 320, 3], to the features that the head and fusion read."""
        image = rgb.float().permute(0, 3, 1, 2) * (1 / 128) - 127 / 128
        features: Tensor = self.rgb_neck(*self.rgb_trunk(image))
        return features

    def thermal_features(self, thermal: Tensor) -> Tensor:
        """Mapped thermal images, uint8 [b, 256, 320, 1], to features. The frame's median (90) is 0."""
        image = one_channel(thermal) * (1 / 64) - 90 / 64
        features: Tensor = self.thermal_neck(*self.thermal_trunk(image))
        return features


def fold_norms(module: nn.Module) -> None:
    """Folds every batch normalisation in `module` into the convolution before it, in place.

    The module then computes what it computed in evaluation mode. A trunk is folded before
    fine-tuning (normalisation costs a CPU nearly half of a training step), everything before export.
    """
    for child in module.children():
        pair = list(child.children()) if isinstance(child, nn.Sequential) else []
        if len(pair) == 2 and isinstance(pair[0], nn.Conv2d) and isinstance(pair[1], nn.BatchNorm2d):
            assert isinstance(child, nn.Sequential)
            child[0] = fuse_conv_bn_eval(pair[0].eval(), pair[1].eval())
            child[1] = nn.Identity()
        else:
            fold_norms(child)
