"""Finds the router's thresholds, and what a detector's score is worth, from frames with known answers.

Pure functions on arrays: whoever calibrates an engine brings scores, answers and signals, from the
runtime's own preprocess and postprocess (`engines.recipe.gate` is an example).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_sdk.errors import ConfigError
from edge_sdk.routing import CONFIDENCE_RULES, frame_confidence

__all__ = [
    "FrameCounts",
    "RuleChoice",
    "area_under_curve",
    "choose_darkness",
    "choose_rule",
    "fit_scores",
    "threshold_for_recall",
]

_NEWTON_STEPS = 50
_PRIOR_WEIGHT = 2.0
"""Pull of the plain sigmoid (1, 0) on a class with few detections, in detections."""

_SLOPES = (0.2, 5.0)


@dataclass(frozen=True)
class FrameCounts:
    """What one route got right in one frame.

    Attributes:
        right, wrong, missed: reported detections that are right, that are not, and objects not reported.
    """

    right: int
    wrong: int
    missed: int

    @property
    def quality(self) -> float:
        """F1 score of the frame, 0 - 1; 1 where there was nothing to find and nothing was reported."""
        total = 2 * self.right + self.wrong + self.missed
        return 2 * self.right / total if total else 1.0


@dataclass(frozen=True)
class RuleChoice:
    """Which rule condenses a frame's RGB scores best.

    Attributes:
        rule: the one that saves most.
        kept_shares: rule -> share of frames that stay RGB at the threshold, 0 - 1.
        losses_f1: rule -> mean F1 over all frames that is lost by leaving those frames to RGB.
        curve_areas: rule -> how well it tells frames that fusion does not better (0.5 is chance, 1 perfect).
    """

    rule: str
    kept_shares: Mapping[str, float]
    losses_f1: Mapping[str, float]
    curve_areas: Mapping[str, float]


def fit_scores(logits: NDArray[np.float32], right: NDArray[np.bool_]) -> tuple[float, float]:
    """Fits (a, b) so that sigmoid(a * logit + b) is the probability that a detection is right.

    Platt scaling with smoothed answers, and a pull towards (1, 0) that matters for few detections only.

    Arguments:
        logits: of detections, [n].
        right: whether each took an object of its own, [n].
    """
    if not len(logits):
        return 1.0, 0.0
    positives = int(right.sum())
    high = (positives + 1) / (positives + 2)
    low = 1 / (len(right) - positives + 2)
    goal = np.where(right, high, low)
    x = np.stack((np.asarray(logits, np.float64), np.ones(len(logits))), axis=1)
    first = np.array([1.0, 0.0])
    pull = np.array([_PRIOR_WEIGHT, _PRIOR_WEIGHT * 0.05])
    weights = first.copy()
    for _ in range(_NEWTON_STEPS):
        probability = 1 / (1 + np.exp(-x @ weights))
        gradient = x.T @ (probability - goal) + pull * (weights - first)
        curvature = (x * (probability * (1 - probability))[:, None]).T @ x + np.diag(pull)
        step = np.linalg.solve(curvature, gradient)
        weights = weights - step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-9))
        if float(np.abs(step).max()) < 1e-7:
            break
    return float(np.clip(weights[0], *_SLOPES)), float(weights[1])


def threshold_for_recall(scores: NDArray[np.float64], recall_min: float, margin: float = 0.0) -> float:
    """Finds the highest threshold at which at least a share of the scores still reach it.

    Arguments:
        scores: of frames that must fire, [n].
        recall_min: least share, 0 - 1.
        margin: taken off, in the scores' unit, for frames that are a little harder than these.

    Raises:
        ConfigError: no scores.
    """
    if not len(scores):
        raise ConfigError("no frame that must fire: a threshold cannot be found")
    missed = int(np.floor((1 - recall_min) * len(scores) + 1e-9))
    return float(np.sort(scores)[missed]) - margin


def area_under_curve(signal: NDArray[np.float64], good: NDArray[np.bool_]) -> float:
    """How well a signal tells good frames from others: the chance that a good one has the higher signal."""
    positive, negative = signal[good], signal[~good]
    if not len(positive) or not len(negative):
        return 0.5
    higher = (positive[:, None] > negative[None, :]).mean()
    equal = (positive[:, None] == negative[None, :]).mean()
    return float(higher + equal / 2)


def choose_rule(
    scores: Sequence[NDArray[np.float32]],
    alone: Sequence[FrameCounts],
    fused: Sequence[FrameCounts],
    threshold: float,
    loss_max: float = 0.01,
) -> RuleChoice:
    """Chooses how a frame's RGB scores become one confidence: the rule that saves most at a small loss.

    Arguments:
        scores: calibrated scores of each frame's reported RGB detections.
        alone, fused: what RGB and fusion got right there, over the classes that RGB can see.
        threshold: confidence from which a frame stays RGB.
        loss_max: mean F1 over all frames that may be lost.
    """
    gain = np.array([b.quality - a.quality for a, b in zip(alone, fused, strict=True)])
    signals = {rule: np.array([frame_confidence(own, rule) for own in scores]) for rule in CONFIDENCE_RULES}
    kept = {rule: signal >= threshold for rule, signal in signals.items()}
    shares = {rule: round(float(chosen.mean()), 4) for rule, chosen in kept.items()}
    losses = {rule: round(float((gain * chosen).mean()), 4) for rule, chosen in kept.items()}
    areas = {rule: round(area_under_curve(signal, gain <= 0), 4) for rule, signal in signals.items()}
    sound = [rule for rule in CONFIDENCE_RULES if losses[rule] <= loss_max]
    best = max(sound, key=lambda rule: shares[rule]) if sound else min(losses, key=lambda rule: losses[rule])
    return RuleChoice(best, shares, losses, areas)


def choose_darkness(
    luminance: NDArray[np.float64],
    alone: Sequence[FrameCounts],
    fused: Sequence[FrameCounts],
    loss_max: float = 0.01,
    frames_min: int = 8,
) -> tuple[float, float] | None:
    """Finds the luminance below which one stream alone does as well as fusion.

    Every frame below the threshold earns `loss_max` less the F1 that it loses; the threshold is
    where they have earned most, so bright frames cannot hide behind many dark ones.

    Arguments:
        luminance: mean of each RGB frame, 0 - 255.
        alone, fused: what the one stream and fusion got right.
        loss_max: mean F1 that may be lost.
        frames_min: fewer frames below a threshold prove nothing.

    Returns: (enter below, leave above), or None where no threshold qualifies.
    """
    order = np.argsort(luminance, kind="stable")
    ordered = luminance[order]
    loss = np.array([b.quality - a.quality for a, b in zip(alone, fused, strict=True)])[order]
    earned = np.cumsum(loss_max - loss)
    last = int(earned.argmax())
    if earned[last] <= 0 or last + 1 < frames_min:
        return None
    edge = float(ordered[last])
    if last + 1 < len(ordered):
        edge = (edge + float(ordered[last + 1])) / 2
    return round(edge, 1), round(edge * 1.25 + 1, 1)
