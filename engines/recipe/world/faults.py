"""Hot joints: a contact with too much resistance warms its clamp and the conductors next to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engines.recipe.world.mesh import Mesh
from engines.recipe.world.yard import Joint

MIN_RISE_K, MAX_RISE_K = 5.0, 60.0
HOT_SHARE = 0.45
CARRIER_KINDS = ("clamp", "conductor", "terminal")


@dataclass(frozen=True)
class HotJoint:
    """A faulty joint; its index + 1 is the mesh's ``fault_id``. ``rise_k`` is over what it has in health."""

    object_id: int
    position: tuple[float, float, float]
    rise_k: float
    decay_m: float


def draw_rise_k(rng: np.random.Generator) -> float:
    """Draws a severity, log-uniform between MIN_RISE_K and MAX_RISE_K."""
    return float(np.exp(rng.uniform(np.log(MIN_RISE_K), np.log(MAX_RISE_K))))


def heat_joints(
    mesh: Mesh, joints: Sequence[Joint], rises_k: Sequence[float], rng: np.random.Generator
) -> list[HotJoint]:
    """Writes the excess temperature of the joints into the mesh, in place. Nothing optical changes.

    The clamp is isothermal; along the conductors the excess decays exponentially (fin equation); the cap of
    the insulator warms a little. ``fault_id`` marks current-carrying surface over HOT_SHARE of the excess.
    """
    carriers = np.isin(mesh.vertex_object, mesh.objects_of(*CARRIER_KINDS))
    clamps = np.isin(mesh.vertex_object, mesh.objects_of("clamp"))
    insulators = np.isin(
        mesh.vertex_object, [index for index, item in enumerate(mesh.objects) if item.label == "insulator"]
    )
    excess_of, found = mesh.column("fault_rise_k"), []
    for joint, rise_k in zip(joints, rises_k, strict=True):
        decay_m = float(rng.uniform(0.08, 0.3))
        distance = np.linalg.norm(mesh.vertices - joint.position, axis=1)
        excess = np.zeros(len(mesh.vertices), np.float32)
        wire = carriers & ~clamps & (distance < 2.0)
        excess[wire] = 0.9 * rise_k * np.exp(-np.maximum(distance[wire] - 0.08, 0) / decay_m)
        cap = insulators & (distance < 0.6)
        excess[cap] = 0.42 * rise_k * np.exp(-np.maximum(distance[cap] - 0.1, 0) / 0.07)
        excess[mesh.vertex_object == joint.object_id] = rise_k
        x, y, z = (float(value) for value in joint.position)
        found.append(HotJoint(joint.object_id, (x, y, z), rise_k, decay_m))
        hotter = excess > excess_of
        excess_of[hotter] = excess[hotter]
        mesh.fault_id[hotter & carriers & (excess > HOT_SHARE * rise_k)] = len(found)
    return found
