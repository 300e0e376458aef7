"""The only file that imports Mitsuba: ray queries and path tracing of a world."""

from __future__ import annotations

import gc
import os
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from engines.recipe.render.conditions import Condition
from engines.recipe.render.rig import RGB_SIZE_WH, PlacedRig
from engines.recipe.render.sky import Sky
from engines.recipe.world.mesh import Mesh
from engines.recipe.world.vectors import Array

LIBRARY_VARIABLE = "DRJIT_LIBLLVM_PATH"
OLDEST_LLVM = 16
GROUND_HALF_M = 150.0
GROUND_REPEATS = 10
GROUND_TEXELS = 1024
FAR_M = 1e4


def find_llvm() -> str:
    """Returns the LLVM library for DrJIT: the one the environment names, else the newest installed one.

    Raises: RuntimeError where none of version 16 or later is found. LLVM 15 aborts the process ("Cannot
    select").
    """
    named = os.environ.get(LIBRARY_VARIABLE)
    if named:
        return named
    found = []
    for path in [*Path("/usr/lib").glob("*/libLLVM*.so*"), *Path("/usr/lib").glob("llvm-*/lib/libLLVM*.so*")]:
        version = re.search(r"libLLVM[-.a-z]*?(\d+)", path.name)
        if version and int(version.group(1)) >= OLDEST_LLVM:
            found.append((int(version.group(1)), str(path)))
    if not found:
        raise RuntimeError(
            f"no LLVM library of version {OLDEST_LLVM} or later found for Mitsuba's llvm variant; "
            f"run `apt-get install libllvm19`, or set {LIBRARY_VARIABLE} to the library"
        )
    return max(found)[1]


def load_mitsuba(threads: int = 1) -> ModuleType:
    """Imports Mitsuba with its LLVM variant and sets its thread count."""
    os.environ[LIBRARY_VARIABLE] = find_llvm()
    import drjit
    import mitsuba

    if mitsuba.variant() != "llvm_ad_rgb":
        mitsuba.set_variant("llvm_ad_rgb")
    drjit.set_thread_count(threads)
    cv2.setNumThreads(threads)
    return mitsuba


@dataclass
class Hits:
    """What rays met, one row a ray. ``surface`` has the columns of the mesh (zeros off the mesh)."""

    distance_m: NDArray[np.float32]
    valid: NDArray[np.bool_]
    on_mesh: NDArray[np.bool_]
    face: NDArray[np.int64]
    normal: NDArray[np.float32]
    surface: NDArray[np.float32]
    object_id: NDArray[np.int32]


def ground_texture(rng: np.random.Generator) -> NDArray[np.float32]:
    """Draws a tile of gravel, grass or concrete, reflectance (1024, 1024, 3)."""
    size = GROUND_TEXELS

    def blobs(period: int) -> NDArray[np.float32]:
        grid = rng.random((max(2, size // period),) * 2).astype(np.float32)
        return cv2.resize(grid, (size, size), interpolation=cv2.INTER_CUBIC)

    broad = 0.5 * blobs(170) + 0.3 * blobs(67) + 0.2 * blobs(25)
    fine = 0.45 * blobs(4) + 0.35 * blobs(2) + 0.2 * rng.random((size, size)).astype(np.float32)
    kind = str(rng.choice(["gravel", "grass", "concrete"]))
    color = {"gravel": [0.24, 0.225, 0.20], "grass": [0.09, 0.13, 0.04], "concrete": [0.36, 0.34, 0.31]}[kind]
    strength = {"gravel": 1.3, "grass": 1.1, "concrete": 0.35}[kind]
    shade = 1 + strength * (fine - 0.5) + 0.7 * (broad - 0.5)
    tile = np.float32(color) * np.float32(rng.uniform(0.75, 1.2)) * shade[..., None]
    if kind != "concrete":
        spots = np.clip((0.6 * blobs(100) + 0.4 * blobs(27) - 0.55) * 6, 0, 1)[..., None]
        other = np.float32([0.10, 0.12, 0.045] if kind == "gravel" else [0.2, 0.15, 0.09])
        tile = tile * (1 - spots) + other * (0.6 + 0.8 * fine[..., None]) * spots
    return np.clip(tile, 0.01, 0.9).astype(np.float32)


class Tracer:
    """Traces one world. The mesh is uploaded once; ``set_light`` exchanges sky, sun, lamp and wetness."""

    def __init__(self, mesh: Mesh, ground: NDArray[np.float32], lamp_at: Array, threads: int = 1) -> None:
        self.mi = load_mitsuba(threads)
        self.mesh, self.ground, self._lamp_at = mesh, ground, lamp_at
        self._shape = self._upload()
        self._integrator = self.mi.load_dict({"type": "path", "max_depth": 3})
        self._scene: Any = None

    def _upload(self) -> Any:
        mi, mesh = self.mi, self.mesh

        def attribute(name: str) -> dict[str, str]:
            return {"type": "mesh_attribute", "name": name}

        surface = {
            "type": "principled",
            "base_color": attribute("vertex_color"),
            "roughness": attribute("vertex_rough"),
            "metallic": attribute("vertex_metal"),
            "specular": 0.4,
        }
        properties = mi.Properties()
        properties["bsdf"] = mi.load_dict({"type": "twosided", "inner": surface})
        shape = mi.Mesh(
            "world", len(mesh.vertices), len(mesh.faces), has_vertex_normals=True, props=properties
        )
        parameters = mi.traverse(shape)
        parameters["vertex_positions"] = mesh.vertices.ravel()
        parameters["vertex_normals"] = mesh.normals.ravel()
        parameters["faces"] = mesh.faces.ravel().astype(np.uint32)
        parameters.update()
        shape.add_attribute("vertex_color", 3, np.clip(mesh.color_rgb, 0.004, 0.9).ravel())
        shape.add_attribute("vertex_rough", 1, mesh.roughness)
        shape.add_attribute("vertex_metal", 1, mesh.metallic)
        return shape

    def set_light(self, condition: Condition, sky: Sky) -> None:
        """Rebuilds the scene around the uploaded mesh for a condition."""
        mi, wet = self.mi, condition.wetness
        self._scene = None
        gc.collect()
        parameters = mi.traverse(self._shape)
        parameters["vertex_color"] = np.clip(self.mesh.color_rgb * (1 - 0.25 * wet), 0.004, 0.9).ravel()
        parameters["vertex_rough"] = self.mesh.roughness * (1 - 0.4 * wet)
        parameters.update()
        texture = {
            "type": "bitmap",
            "bitmap": mi.Bitmap(self.ground * np.float32(1 - 0.4 * wet)),
            "raw": True,
            "to_uv": mi.ScalarTransform4f().scale([GROUND_REPEATS, GROUND_REPEATS, 1]),
        }
        ground = {
            "type": "rectangle",
            "to_world": mi.ScalarTransform4f().scale([GROUND_HALF_M, GROUND_HALF_M, 1]),
            "surface": {"type": "diffuse", "reflectance": texture},
        }
        dome = {
            "type": "envmap",
            "bitmap": mi.Bitmap(sky.radiance),
            "to_world": mi.ScalarTransform4f().rotate([1, 0, 0], 90),
        }
        scene = {"type": "scene", "world": self._shape, "ground": ground, "sky": dome}
        if condition.direct_klx > 0:
            air_mass = 1 / max(float(np.sin(np.radians(condition.sun_elevation_deg))), 0.03)
            color = np.exp(-air_mass * np.array([0.02, 0.06, 0.13]))
            color *= condition.direct_klx / color.mean()
            scene["sun"] = {
                "type": "directional",
                "direction": (-condition.sun_direction()).tolist(),
                "irradiance": {"type": "rgb", "value": color.tolist()},
            }
        elif condition.lamp_lux > 0:
            color = np.array([1.25, 0.95, 0.6]) * condition.lamp_lux / 1000 * 36
            scene["lamp"] = {
                "type": "point",
                "position": self._lamp_at.tolist(),
                "intensity": {"type": "rgb", "value": color.tolist()},
            }
        self._scene = mi.load_dict(scene)

    def render_rgb(self, placed: PlacedRig, samples: int, seed: int) -> NDArray[np.float32]:
        """Path-traces the RGB frame, linear radiance in kilolux per pi, shape (384, 480, 3)."""
        mi, (width, height) = self.mi, RGB_SIZE_WH
        eye, rotation = placed.rgb_eye, placed.rgb_rotation
        look = mi.ScalarTransform4f().look_at(
            eye.tolist(), (eye + rotation[:, 2]).tolist(), (-rotation[:, 1]).tolist()
        )
        fov_deg = float(np.degrees(2 * np.arctan(width / 2 / placed.rig.rgb_matrix[0, 0])))
        sensor = mi.load_dict(
            {
                "type": "perspective",
                "fov": fov_deg,
                "to_world": look,
                "film": {
                    "type": "hdrfilm",
                    "width": width,
                    "height": height,
                    "rfilter": {"type": "box"},
                    "component_format": "float32",
                },
                "sampler": {"type": "multijitter", "sample_count": samples},
            }
        )
        image = mi.render(self._scene, sensor=sensor, integrator=self._integrator, spp=samples, seed=seed)
        return np.array(image)[..., :3]

    def cast(self, origins: NDArray[Any], directions: NDArray[Any]) -> Hits:
        """Returns what rays meet first; origins may be one point for all."""
        import drjit

        mi, mesh = self.mi, self.mesh
        start = np.broadcast_to(origins, directions.shape)
        ray = mi.Ray3f(self._point(start), self._vector(directions))
        first = self._scene.ray_intersect_preliminary(ray, coherent=True)
        valid = first.is_valid()
        on_mesh = valid & (first.shape == mi.ShapePtr(self._shape))
        drjit.eval(first, valid, on_mesh)
        hit, inside = np.array(valid), np.array(on_mesh)
        face = np.where(inside, np.array(first.prim_index), 0).astype(np.int64)
        share = np.array(first.prim_uv).T
        corners = mesh.faces[face]
        weights = (1 - share[:, 0] - share[:, 1], share[:, 0], share[:, 1])
        surface = sum(mesh.surface[corners[:, k]] * weights[k][:, None] for k in range(3))
        normal = sum(mesh.normals[corners[:, k]] * weights[k][:, None] for k in range(3))
        surface = np.where(inside[:, None], surface, 0).astype(np.float32)
        normal = np.where(inside[:, None], normal, np.float32([0, 0, 1]))
        normal /= np.linalg.norm(normal, axis=1, keepdims=True) + 1e-9
        owner = np.where(inside, mesh.face_object[face], -1).astype(np.int32)
        distance = np.where(hit, np.array(first.t), FAR_M).astype(np.float32)
        return Hits(distance, hit, inside, face, normal.astype(np.float32), surface, owner)

    def lit(self, points: NDArray[Any], direction: Array) -> NDArray[np.float32]:
        """Returns 1 where a point sees along the direction freely and 0 where something is in the way."""
        ray = self.mi.Ray3f(self._point(points), self.mi.Vector3f(*[float(value) for value in direction]))
        return 1 - np.array(self._scene.ray_test(ray)).astype(np.float32)

    def _point(self, rows: NDArray[Any]) -> Any:
        return self.mi.Point3f(
            *[self.mi.Float(np.ascontiguousarray(rows[:, k], np.float32)) for k in range(3)]
        )

    def _vector(self, rows: NDArray[Any]) -> Any:
        return self.mi.Vector3f(
            *[self.mi.Float(np.ascontiguousarray(rows[:, k], np.float32)) for k in range(3)]
        )
