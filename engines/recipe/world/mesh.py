"""Builds one triangle mesh out of primitives, with surface constants on each vertex."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engines.recipe.world.materials import MATERIALS
from engines.recipe.world.vectors import frame_along, unit

Rise = float | Callable[[NDArray[np.float64]], NDArray[np.float64]]
SURFACE_COLUMNS = (
    "emissivity",
    "absorptivity",
    "locality",
    "load_rise_k",
    "body_share",
    "rust",
    "fault_rise_k",
)


@dataclass
class SceneObject:
    """A part of the world. ``label`` is the class to be detected, or None; ``kind`` names what it is."""

    kind: str
    label: str | None = None
    rustable: bool = False


@dataclass
class Mesh:
    """All triangles of a world. ``surface`` has one column for each of SURFACE_COLUMNS."""

    vertices: NDArray[np.float32]
    normals: NDArray[np.float32]
    faces: NDArray[np.int32]
    face_object: NDArray[np.int32]
    vertex_object: NDArray[np.int32]
    color_rgb: NDArray[np.float32]
    roughness: NDArray[np.float32]
    metallic: NDArray[np.float32]
    surface: NDArray[np.float32]
    objects: list[SceneObject]
    patch_id: NDArray[np.int32] = field(init=False)
    fault_id: NDArray[np.int32] = field(init=False)

    def __post_init__(self) -> None:
        self.patch_id = np.zeros(len(self.vertices), np.int32)
        self.fault_id = np.zeros(len(self.vertices), np.int32)

    def column(self, name: str) -> NDArray[np.float32]:
        """Returns a writable view of one surface column; it lives as long as the mesh."""
        return self.surface[:, SURFACE_COLUMNS.index(name)]

    def objects_of(self, *kinds: str) -> list[int]:
        """Returns the ids of the objects of the named kinds."""
        return [index for index, item in enumerate(self.objects) if item.kind in kinds]


def _strip_faces(rings: int, segments: int) -> NDArray[np.int64]:
    start = (np.arange(rings - 1)[:, None] * (segments + 1) + np.arange(segments)).ravel()
    upper = start + segments + 1
    return np.concatenate(
        [np.stack([start, start + 1, upper + 1], 1), np.stack([start, upper + 1, upper], 1)]
    )


class MeshBuilder:
    """Collects primitives; ``build`` joins them into a Mesh."""

    def __init__(self) -> None:
        self.objects: list[SceneObject] = []
        self._parts: list[tuple[NDArray[np.float32], ...]] = []
        self._faces: list[NDArray[np.int64]] = []
        self._face_object: list[NDArray[np.int32]] = []
        self._vertex_object: list[NDArray[np.int32]] = []
        self._count = 0

    def new_object(self, kind: str, label: str | None = None, rustable: bool = False) -> int:
        """Registers a part and returns its id."""
        self.objects.append(SceneObject(kind, label, rustable))
        return len(self.objects) - 1

    def add(
        self,
        vertices: ArrayLike,
        normals: ArrayLike,
        faces: ArrayLike,
        material: str,
        owner: int,
        rise_k: Rise = 0.0,
        tint: float | NDArray[np.float64] = 1.0,
        body_share: float = 0.0,
    ) -> None:
        """Adds triangles. ``rise_k`` is the warming by load over the air, a number or a function of the
        vertices.
        """
        points = np.asarray(vertices, dtype=np.float64)
        count, constants = len(points), MATERIALS[material]
        color = np.clip(np.broadcast_to(np.asarray(constants.color_rgb) * tint, (count, 3)), 0.004, 0.9)
        surface = np.zeros((count, len(SURFACE_COLUMNS)), np.float32)
        surface[:, 0], surface[:, 1] = constants.emissivity, constants.absorptivity
        surface[:, 2], surface[:, 4] = constants.locality, body_share
        surface[:, 3] = rise_k(points) if callable(rise_k) else rise_k
        shine = np.tile(np.float32([[constants.roughness, constants.metallic]]), (count, 1))
        triangles = np.asarray(faces, dtype=np.int64)
        self._parts.append(
            (
                points.astype(np.float32),
                np.asarray(normals, np.float32),
                color.astype(np.float32),
                shine,
                surface,
            )
        )
        self._faces.append(triangles + self._count)
        self._face_object.append(np.full(len(triangles), owner, np.int32))
        self._vertex_object.append(np.full(count, owner, np.int32))
        self._count += count

    def quad(
        self,
        corner: ArrayLike,
        side_u: ArrayLike,
        side_v: ArrayLike,
        step_m: float,
        material: str,
        owner: int,
        rise_k: Rise = 0.0,
        tint: float = 1.0,
    ) -> None:
        """Adds a parallelogram that faces along side_u x side_v, divided into cells of about ``step_m``."""
        u, v = np.asarray(side_u, float), np.asarray(side_v, float)
        cells_u = max(1, round(float(np.linalg.norm(u)) / step_m))
        cells_v = max(1, round(float(np.linalg.norm(v)) / step_m))
        grid_v, grid_u = np.meshgrid(
            np.linspace(0, 1, cells_v + 1), np.linspace(0, 1, cells_u + 1), indexing="ij"
        )
        points = np.asarray(corner) + grid_u.reshape(-1, 1) * u + grid_v.reshape(-1, 1) * v
        normals = np.tile(unit(np.cross(u, v)), (len(points), 1))
        self.add(points, normals, _strip_faces(cells_v + 1, cells_u), material, owner, rise_k, tint)

    def box(
        self,
        center: ArrayLike,
        size: ArrayLike,
        material: str,
        owner: int,
        rotation: ArrayLike | None = None,
        step_m: float = 9.0,
        rise_k: Rise = 0.0,
        tint: float = 1.0,
    ) -> None:
        """Adds a box."""
        turn = np.eye(3) if rotation is None else np.asarray(rotation)
        sides, half = np.diag(np.asarray(size, float)), np.asarray(size, float) / 2
        for axis in range(3):
            for sign in (1, -1):
                first, second = (axis + 1) % 3, (axis + 2) % 3
                corner = -half.copy()
                corner[axis] = sign * half[axis]
                u, v = (sides[first], sides[second]) if sign > 0 else (sides[second], sides[first])
                self.quad(
                    np.asarray(center) + turn @ corner,
                    turn @ u,
                    turn @ v,
                    step_m,
                    material,
                    owner,
                    rise_k,
                    tint,
                )

    def revolve(
        self,
        profile: ArrayLike,
        base: ArrayLike,
        axis: ArrayLike,
        material: str,
        owner: int,
        segments: int = 20,
        rise_k: Rise = 0.0,
        tint: float = 1.0,
        body_share: float = 0.0,
    ) -> None:
        """Adds a surface of revolution.

        ``profile`` is (radius, height) pairs along the axis, double points are edges.
        """
        outline = np.asarray(profile, float)
        angle = np.linspace(0, 2 * np.pi, segments + 1)
        slope = np.gradient(outline, axis=0)
        length = np.hypot(slope[:, 0], slope[:, 1]) + 1e-9
        normal_r, normal_z = slope[:, 1] / length, -slope[:, 0] / length
        heights = np.repeat(outline[:, 1:], segments + 1, 1)
        points = np.stack([outline[:, :1] * np.cos(angle), outline[:, :1] * np.sin(angle), heights], -1)
        normals = np.stack(
            [
                normal_r[:, None] * np.cos(angle),
                normal_r[:, None] * np.sin(angle),
                np.repeat(normal_z[:, None], segments + 1, 1),
            ],
            -1,
        )
        turn = frame_along(axis)
        world = points.reshape(-1, 3) @ turn.T + np.asarray(base)
        faces = _strip_faces(len(outline), segments)
        self.add(world, normals.reshape(-1, 3) @ turn.T, faces, material, owner, rise_k, tint, body_share)

    def cylinder(
        self,
        start: ArrayLike,
        end: ArrayLike,
        radius_m: float,
        material: str,
        owner: int,
        segments: int = 14,
        step_m: float = 9.0,
        rise_k: Rise = 0.0,
        tint: float = 1.0,
    ) -> None:
        """Adds a closed cylinder with sharp rims."""
        first, last = np.asarray(start, float), np.asarray(end, float)
        length = float(np.linalg.norm(last - first))
        rings = max(1, round(length / step_m))
        profile = [(0.0, 0.0), (radius_m, 0.0), (radius_m, 0.0)]
        profile += [(radius_m, length * ring / rings) for ring in range(1, rings)]
        profile += [(radius_m, length), (radius_m, length), (0.0, length)]
        self.revolve(profile, first, last - first, material, owner, segments, rise_k, tint)

    def tube(
        self,
        path: ArrayLike,
        radius_m: float,
        material: str,
        owner: int,
        segments: int = 8,
        rise_k: Rise = 0.0,
        tint: float = 1.0,
    ) -> None:
        """Adds a round wire along a path of points, closed at both ends."""
        middle = np.asarray(path, float)
        along = np.gradient(middle, axis=0)
        along /= np.linalg.norm(along, axis=1, keepdims=True) + 1e-9
        up = np.array([0.0, 0.0, 1.0]) if np.abs(along[:, 2]).max() < 0.95 else unit([0.31, 0.95, 0.1])
        side = np.cross(along, up)
        side /= np.linalg.norm(side, axis=1, keepdims=True) + 1e-9
        other = np.cross(along, side)
        angle = np.linspace(0, 2 * np.pi, segments + 1)[None, :, None]
        normals = np.cos(angle) * side[:, None] + np.sin(angle) * other[:, None]
        points = middle[:, None] + radius_m * normals
        caps = [np.broadcast_to(middle[end], points[end].shape)[None] for end in (0, -1)]
        cap_normals = [
            np.broadcast_to(sign * along[end], points[end].shape)[None] for end, sign in ((0, -1), (-1, 1))
        ]
        points = np.concatenate([caps[0], points, caps[1]])
        normals = np.concatenate([cap_normals[0], normals, cap_normals[1]])
        faces = _strip_faces(len(points), segments)
        self.add(points.reshape(-1, 3), normals.reshape(-1, 3), faces, material, owner, rise_k, tint)

    def blades(
        self,
        centers: ArrayLike,
        outward: ArrayLike,
        size_m: ArrayLike,
        material: str,
        owner: int,
        rng: np.random.Generator,
        tint: ArrayLike = 1.0,
        rise_k: float = 0.0,
    ) -> None:
        """Adds loose two-sided square blades (clumps of leaves), shaded as if they faced ``outward``."""
        middle, count = np.asarray(centers, float), len(np.asarray(centers))
        u, v = rng.normal(size=(2, count, 3))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        v -= (v * u).sum(1, keepdims=True) * u
        v /= np.linalg.norm(v, axis=1, keepdims=True) + 1e-9
        half = np.broadcast_to(np.asarray(size_m, float), (count,))[:, None] / 2
        corners = [
            middle + half * (a * u + b * v) for a, b in ((-1, -0.7), (1, -0.5), (0.8, 0.9), (-0.6, 0.6))
        ]
        points = np.stack(corners, 1).reshape(-1, 3)
        normals = np.repeat(np.asarray(outward, float), 4, axis=0)
        start = np.arange(count)[:, None] * 4
        faces = np.concatenate([start + [0, 1, 2], start + [0, 2, 3]])
        tints = np.repeat(np.broadcast_to(np.asarray(tint, float), (count,)), 4)[:, None]
        self.add(points, normals, faces, material, owner, rise_k, tints)

    def triangles(self) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Returns copies of all vertices and faces added so far."""
        return np.concatenate([part[0] for part in self._parts]), np.concatenate(self._faces)

    def build(self) -> Mesh:
        """Joins the parts and drops triangles without area."""
        columns: Sequence[NDArray[np.float32]] = [
            np.concatenate(column) for column in zip(*self._parts, strict=True)
        ]
        vertices, normals, color, shine, surface = columns
        faces, owner = np.concatenate(self._faces), np.concatenate(self._face_object)
        a, b, c = (vertices[faces[:, corner]].astype(np.float64) for corner in range(3))
        kept = np.linalg.norm(np.cross(b - a, c - a), axis=1) > 1e-10
        return Mesh(
            vertices,
            normals,
            faces[kept].astype(np.int32),
            owner[kept],
            np.concatenate(self._vertex_object),
            color,
            shine[:, 0].copy(),
            shine[:, 1].copy(),
            surface,
            self.objects,
        )
