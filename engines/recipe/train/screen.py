"""The screen: a tiny thermal network that says whether a frame may hold a hot spot.

    python -m engines.recipe.train.screen --data data --out runs/substation-rgbt

It guards the router: what it lets pass, no other network looks at in thermal. So a missed hot spot
weighs more in its loss than a false alarm, and it costs a twentieth of the graph that it saves.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from edge_sdk.radiometry import Radiometry
from engines.recipe.train.data import Crop, Labels, epoch_batches, network_input, read_pairs
from engines.recipe.train.net import CLASSES, INPUT_WH, conv_bn, one_channel

__all__ = ["ScreenNet", "fit_screen", "load_screen", "screen_loss"]

BLOCK_PX = 8
HOTSPOT = CLASSES.index("hotspot")
_PRIOR = 0.02
_HOT_WEIGHT = 4.0
"""A missed hot spot costs as much as this many false alarms."""

_BATCH = 32
_RATE = 4e-3
_AVERAGE = 0.995
_HEAT_GAIN = 1.4
"""Less than the detector's: how hot a thing is, is most of what the screen can go by."""


class ScreenNet(nn.Module):
    """One logit a frame: the largest of a map with a cell for each block of 8x8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Sequential(nn.Conv2d(1, 16, 4, 4, bias=False), nn.BatchNorm2d(16)), nn.ReLU(),
            conv_bn(16, 16, 3, 2), nn.ReLU(),
            conv_bn(16, 16, 5, groups=16), conv_bn(16, 32), nn.ReLU(),
            conv_bn(32, 32, 3, groups=32), conv_bn(32, 32), nn.ReLU(),
            nn.Conv2d(32, 1, 1),
        )  # fmt: skip
        nn.init.constant_(self.body[-1].bias, -math.log((1 - _PRIOR) / _PRIOR))

    def heat_map(self, thermal: Tensor) -> Tensor:
        """Mapped thermal images, uint8 [b, h, w, 1], to logits [b, 1, h / 8, w / 8].

        The first layer's normalisation takes the pixels' scale along: no operation for it.
        """
        out: Tensor = self.body(one_channel(thermal))
        return out

    def forward(self, thermal: Tensor) -> Tensor:
        return self.heat_map(thermal).amax(dim=(2, 3))


def screen_loss(heat_map: Tensor, labels: Sequence[Labels]) -> Tensor:
    """Loss of each block, and of each frame's maximum, against the hot spots that thermal shows.

    Arguments:
        heat_map: logits [b, 1, h, w].
        labels: one entry a picture, boxes in its pixels.
    """
    goal, counted = torch.zeros_like(heat_map), torch.ones_like(heat_map)
    height, width = heat_map.shape[2:]
    for place, objects in enumerate(labels):
        hot = objects.class_ids == HOTSPOT
        for box, shown in zip(objects.boxes[hot], objects.in_thermal[hot], strict=True):
            x0, y0 = np.maximum(box[:2] // BLOCK_PX, 0).astype(int)
            x1, y1 = np.ceil(box[2:] / BLOCK_PX).astype(int)
            counted[place, 0, y0:y1, x0:x1] = 0
            if shown:
                x = min(int((box[0] + box[2]) / 2 // BLOCK_PX), width - 1)
                y = min(int((box[1] + box[3]) / 2 // BLOCK_PX), height - 1)
                goal[place, 0, y, x] = 1
    counted = torch.where(goal > 0, torch.full_like(counted, _HOT_WEIGHT), counted)
    cells = functional.binary_cross_entropy_with_logits(heat_map, goal, reduction="none") * counted
    frame_goal = goal.amax(dim=(1, 2, 3))
    frame_weight = 1 + (_HOT_WEIGHT - 1) * frame_goal
    frame = functional.binary_cross_entropy_with_logits(
        heat_map.amax(dim=(1, 2, 3)), frame_goal, reduction="none"
    )
    return 0.5 * cells.sum() / goal.sum().clamp(min=1) + (frame * frame_weight).mean()


def fit_screen(
    data: Path,
    out: Path,
    epochs: int = 150,
    seed: int = 7,
    threads: int = 1,
    first_weights: Path | None = None,
) -> None:
    """Trains the screen and writes `screen.pt` and `screen.json` into `out`.

    Arguments:
        data: folder with `train/` and `val/`.
        out: folder, made where it is missing.
        epochs: passes over the whole frames.
        seed: of everything random.
        threads: of PyTorch.
        first_weights: a screen to go on from with a new schedule, or None.
    """
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    out.mkdir(parents=True, exist_ok=True)
    pairs = read_pairs(data / "train")
    held_out = [network_input(pair, Radiometry()) for pair in read_pairs(data / "val")]
    net = load_screen(first_weights) if first_weights else ScreenNet()
    averaged = torch.optim.swa_utils.AveragedModel(
        net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(_AVERAGE), use_buffers=True
    )
    optimizer = torch.optim.AdamW(net.parameters(), lr=_RATE, weight_decay=0.01)
    steps = epochs * (len(pairs) // _BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, total_steps=steps, pct_start=0.1)
    history = []
    for epoch in range(epochs):
        begun_s = time.monotonic()
        losses = []
        net.train()
        for crops in epoch_batches(
            pairs, _BATCH, INPUT_WH, (seed, epoch), colours=False, heat_gain=_HEAT_GAIN
        ):
            loss = screen_loss(net.heat_map(_stack(crops)), [crop.labels for crop in crops])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            averaged.update_parameters(net)
            losses.append(loss.item())
        history.append(
            {
                "epoch": epoch + 1,
                "loss": round(float(np.mean(losses)), 4),
                "train_s": round(time.monotonic() - begun_s, 1),
                **(_validate(averaged.module, held_out) if (epoch + 1) % 10 == 0 else {}),
            }
        )
        print(json.dumps(history[-1]), flush=True)
    torch.save(averaged.module.state_dict(), out / "screen.pt")
    record = {"conditions": {"epochs": epochs, "seed": seed, "pairs": len(pairs)}, "epochs": history}
    (out / "screen.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def load_screen(path: Path) -> ScreenNet:
    """Loads a trained screen in evaluation mode."""
    net = ScreenNet()
    net.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return net.eval()


def _stack(crops: Sequence[Crop]) -> Tensor:
    return torch.from_numpy(np.stack([crop.thermal for crop in crops])[..., None])


def _validate(net: nn.Module, crops: Sequence[Crop]) -> dict[str, float]:
    """Share of frames without a hot spot that fire when 99 % and when all of those with one do."""
    net.eval()
    with torch.no_grad():
        logits = np.array([float(net(_stack([crop]))) for crop in crops])
    hot = np.array(
        [bool((crop.labels.in_thermal & (crop.labels.class_ids == HOTSPOT)).any()) for crop in crops]
    )
    lowest = np.sort(logits[hot])
    return {
        f"fires_at_recall_{share}": round(
            float((logits[~hot] >= lowest[int((1 - share) * hot.sum())]).mean()), 4
        )
        for share in (0.95, 0.99, 1.0)
    }


def main(arguments: list[str] | None = None) -> None:
    """Reads the command line and trains."""
    parser = argparse.ArgumentParser(prog="python -m engines.recipe.train.screen", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with train/ and val/")
    parser.add_argument("--out", type=Path, required=True, help="folder for screen.pt and screen.json")
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--first-weights", type=Path, help="screen.pt to go on from with a new schedule")
    fit_screen(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    main()
