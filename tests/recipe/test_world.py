"""The generator of training data: geometry, determinism, physics of the faults, labels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from engines.recipe.render import labels, tracer
from engines.recipe.render.conditions import DAY_KINDS, NIGHT_KINDS, draw_condition, draw_kinds
from engines.recipe.render.rgb_camera import RgbSettings, develop, wanted_brightness
from engines.recipe.render.rig import RGB_SIZE_WH, THERMAL_SIZE_WH, draw_rig
from engines.recipe.render.sky import make_sky
from engines.recipe.render.thermal import draw_thermal_camera, recent_hour
from engines.recipe.world.faults import HOT_SHARE, MAX_RISE_K, MIN_RISE_K, draw_rise_k, heat_joints
from engines.recipe.world.mesh import MeshBuilder
from engines.recipe.world.scene import SPLIT_SEEDS, CameraPose, build_world, split_of
from engines.recipe.world.vectors import bulged_line, frame_along


def _box(builder: MeshBuilder, owner: int) -> float:
    builder.box((1, 2, 3), (0.5, 0.4, 0.3), "concrete", owner, frame_along((1, 1, 0.2)), step_m=0.2)
    return 0.5 * 0.4 * 0.3


def _cylinder(builder: MeshBuilder, owner: int) -> float:
    builder.cylinder((0, 0, 1), (0.3, 0, 2), 0.2, "paint_grey", owner, segments=64, step_m=0.3)
    return float(np.pi * 0.2**2 * np.hypot(0.3, 1.0))


def _tube(builder: MeshBuilder, owner: int) -> float:
    builder.tube(bulged_line((0, 0, 0), (1, 0, 0)), 0.05, "aluminium", owner, segments=64)
    return float(np.pi * 0.05**2)


@pytest.mark.parametrize("primitive", [_box, _cylinder, _tube])
def test_primitives_are_closed_and_face_outward(primitive):
    builder = MeshBuilder()
    volume = primitive(builder, builder.new_object("thing"))
    mesh = builder.build()
    corners, merged = np.unique(np.round(mesh.vertices, 4), axis=0, return_inverse=True)
    faces = merged.reshape(-1)[mesh.faces]
    edges = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
    _, uses = np.unique(edges, axis=0, return_counts=True)
    assert set(uses.tolist()) == {2}, "every edge belongs to two triangles"
    a, b, c = (corners[faces[:, k]].astype(float) for k in range(3))
    enclosed = float((a * np.cross(b, c)).sum() / 6)
    assert enclosed == pytest.approx(volume, rel=0.02), "positive: the triangles face outward"
    across = np.cross(b - a, c - a)
    smooth = mesh.normals[mesh.faces].mean(1)
    assert ((across * smooth).sum(1) > 0).all(), "normals agree with the triangles"


def test_the_same_seed_builds_the_same_world():
    first, second, other = build_world(7), build_world(7), build_world(8)
    for name in ("vertices", "faces", "color_rgb", "surface", "fault_id", "patch_id"):
        assert np.array_equal(getattr(first.mesh, name), getattr(second.mesh, name)), name
    assert first.faults == second.faults
    assert np.array_equal(first.poses[0].eye, second.poses[0].eye)
    assert len(other.mesh.vertices) != len(first.mesh.vertices)


def test_splits_share_no_seed():
    seeds = [seed for split in SPLIT_SEEDS.values() for seed in split]
    assert len(seeds) == len(set(seeds))
    assert split_of(0) == "train"
    assert split_of(20999) == "test"
    with pytest.raises(ValueError, match="seed 15000 lies in no split"):
        split_of(15000)


def test_every_world_has_a_day_and_a_night():
    for seed in range(40):
        kinds = draw_kinds(seed)
        assert kinds[0] in DAY_KINDS
        assert kinds[1] in NIGHT_KINDS
        assert len(kinds) == 3
        assert kinds == draw_kinds(seed)


def test_a_fault_changes_temperatures_and_nothing_optical():
    world = build_world(11, fault_count=0)
    before = [world.mesh.color_rgb.copy(), world.mesh.roughness.copy(), world.mesh.metallic.copy()]
    assert not world.mesh.column("fault_rise_k").any()
    joint = world.joints[0]
    (fault,) = heat_joints(world.mesh, [joint], [25.0], np.random.default_rng(1))
    for old, new in zip(
        before, (world.mesh.color_rgb, world.mesh.roughness, world.mesh.metallic), strict=True
    ):
        assert np.array_equal(old, new)
    excess = world.mesh.column("fault_rise_k")
    assert excess.max() == pytest.approx(25.0)
    assert (excess[world.mesh.vertex_object == joint.object_id] == 25.0).all(), "a clamp is isothermal"
    assert (excess[world.mesh.fault_id == 1] > HOT_SHARE * fault.rise_k).all()
    far = np.linalg.norm(world.mesh.vertices - joint.position, axis=1) > 2.0
    assert not excess[far & (world.mesh.vertex_object != joint.object_id)].any()


def test_severities_stay_in_their_range():
    rng = np.random.default_rng(0)
    rises = [draw_rise_k(rng) for _ in range(200)]
    assert min(rises) >= MIN_RISE_K
    assert max(rises) <= MAX_RISE_K


def test_rust_keeps_the_emissivity_of_the_paint():
    world = next(world for world in map(build_world, range(20)) if world.patches)
    mesh = world.mesh
    for number, patch in enumerate(world.patches, start=1):
        rusty = mesh.patch_id == number
        assert set(mesh.vertex_object[rusty].tolist()) <= {patch.object_id}
        paint = mesh.column("emissivity")[(mesh.vertex_object == patch.object_id) & (mesh.patch_id == 0)]
        assert set(mesh.column("emissivity")[rusty].tolist()) <= set(paint.tolist())


def test_the_homography_is_exact_on_the_target_plane():
    pose = CameraPose(np.array([0.0, -6.0, 1.7]), np.array([0.2, 0.0, 2.4]), 0.01)
    placed = draw_rig(np.random.default_rng(3)).place(pose)
    thermal_px = np.array([[20.0, 30.0], [160.0, 128.0], [300.0, 200.0]])
    local = np.c_[thermal_px + 0.5, np.ones(3)] @ np.linalg.inv(placed.rig.thermal_matrix).T
    points = placed.thermal_eye + (local * placed.plane_depth_m) @ placed.thermal_rotation.T
    seen = (points - placed.rgb_eye) @ placed.rgb_rotation @ placed.rig.rgb_matrix.T
    expected = seen[:, :2] / seen[:, 2:] - 0.5
    mapped = np.c_[thermal_px, np.ones(3)] @ placed.homography.T
    assert np.allclose(mapped[:, :2] / mapped[:, 2:], expected, atol=1e-6)


def test_the_thermal_frame_covers_the_rgb_frame():
    pose = CameraPose(np.array([0.0, -5.0, 1.7]), np.array([0.0, 0.0, 2.0]), 0.0)
    (width, height), (thermal_w, thermal_h) = RGB_SIZE_WH, THERMAL_SIZE_WH
    for seed in range(20):
        inverse = np.linalg.inv(draw_rig(np.random.default_rng(seed)).place(pose).homography)
        frame = np.array([[0, 0, 1], [width - 1, 0, 1], [0, height - 1, 1], [width - 1, height - 1, 1.0]])
        mapped = frame @ inverse.T
        x, y = (mapped[:, :2] / mapped[:, 2:]).T
        assert x.min() > 0
        assert y.min() > 0
        assert x.max() < thermal_w - 1
        assert y.max() < thermal_h - 1


@pytest.mark.parametrize("kind", ["noon", "day", "dusk", "lit", "dark"])
def test_the_sky_gives_the_light_of_its_condition(kind):
    condition = draw_condition(np.random.default_rng(5), kind, 15.0)
    radiance = make_sky(condition).radiance[:128].astype(float).mean(2)
    theta = ((np.arange(128) + 0.5) / 128 * np.pi / 2)[:, None]
    weight = np.cos(theta) * np.sin(theta) * (np.pi / 256) * (2 * np.pi / 512)
    assert (radiance * weight).sum() == pytest.approx(condition.diffuse_klx, rel=1e-3)
    assert sum(past.share for past in recent_hour(condition)) == pytest.approx(1.0)


def test_an_unlit_night_is_black_and_a_day_is_not():
    rng = np.random.default_rng(2)
    flat = np.full((96, 120, 3), 0.3 / np.pi, np.float32)
    for kind, night in (("noon", False), ("dark", True)):
        condition = draw_condition(np.random.default_rng(5), kind, 15.0)
        light = 0.001e-3 if night else condition.diffuse_klx
        settings = RgbSettings(1.0, 1.0, 0.4).with_brightness(wanted_brightness(flat * light))
        mean = float(develop(flat * light, settings, condition, rng).mean())
        assert mean < 12 if night else 80 < mean < 200


def test_the_thermal_camera_gives_centikelvin():
    camera = draw_thermal_camera(np.random.default_rng(1))
    frame = camera.expose(np.full((256, 320), 20.0, np.float32), np.random.default_rng(2))
    assert frame.dtype == np.uint16
    assert frame.shape == (256, 320)
    assert abs(float(frame.mean()) / 100 - 293.15) < 3.0


def test_small_hotspot_boxes_grow_to_twelve_pixels_inside_the_frame():
    for box in ((100.0, 100.0, 104.0, 130.0), (0.0, 0.0, 3.0, 3.0), (476.0, 381.0, 480.0, 384.0)):
        left, top, right, bottom = labels._padded(box, labels.HOTSPOT_SIDE_PX)
        assert right - left >= 12
        assert bottom - top >= 12
        assert left >= 0
        assert top >= 0
        assert right <= 480
        assert bottom <= 384


def test_a_missing_llvm_says_what_to_install(monkeypatch):
    monkeypatch.delenv(tracer.LIBRARY_VARIABLE, raising=False)
    monkeypatch.setattr(tracer, "OLDEST_LLVM", 10**6)
    with pytest.raises(RuntimeError, match="apt-get install libllvm19"):
        tracer.find_llvm()


@pytest.fixture(scope="module")
def rendered():
    pytest.importorskip("mitsuba", reason="mitsuba, the path tracer of the renderer, is not installed")
    try:
        tracer.find_llvm()
    except RuntimeError as error:
        pytest.skip(str(error))
    from engines.recipe.render.shoot import Studio

    studio = Studio(build_world(3, fault_count=2))
    pairs = []
    for kind in ("noon", "dark"):
        condition = draw_condition(np.random.default_rng(1), kind, 15.0)
        studio.light(condition)
        view = studio.view(studio.world.poses[0])
        key = f"00003-{len(pairs)}{condition.light}"
        pairs.append(studio.shoot(key, view, condition, np.random.default_rng(2), samples=1))
    return pairs


def test_a_rendered_pair_has_the_format_of_the_data_set(rendered, tmp_path: Path):
    from engines.recipe.render.dataset import write_pair

    for pair in rendered:
        assert pair.rgb.shape == (384, 480, 3)
        assert pair.thermal.shape == (256, 320)
        assert pair.thermal.dtype == np.uint16
        write_pair(tmp_path, pair.key, pair)
        record = json.loads((tmp_path / "labels" / f"{pair.key}.json").read_text())
        assert record["key"] == pair.key
        assert record["split"] == "train"
        assert record["light"] in {"day", "dusk", "night"}
        assert np.array(record["homography_thermal_to_rgb"]).shape == (3, 3)
        assert record["labels"], "this world shows something"
        for label in record["labels"]:
            left, top, right, bottom = label["box_xyxy"]
            assert 0 <= left < right <= 480
            assert 0 <= top < bottom <= 384
            assert label["class"] in labels.CLASSES
            assert (label["delta_k"] is not None) == (label["class"] == "hotspot")


def test_each_camera_sees_only_what_physics_lets_it_see(rendered):
    day, dark = rendered
    for pair in rendered:
        for label in pair.labels:
            if label.target.label == "hotspot":
                assert not label.rgb_visible
            if label.target.label == "corrosion":
                assert not label.thermal_visible
    assert any(label.rgb_visible for label in day.labels)
    assert not any(label.rgb_visible for label in dark.labels)
    assert dark.rgb.mean() < 12
