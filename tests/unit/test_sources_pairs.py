"""Tests of folders of pairs: matching, order, partners, units, registration, label files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from frames_on_disk import HOMOGRAPHY, write_clip, write_label, write_pairs
from hypothesis import given
from hypothesis import strategies as st

from edge_sdk.errors import ConfigError, FrameError
from edge_sdk.frames import RegistrationBy, ThermalUnit
from edge_sdk.sources import PairsSource, open_source
from edge_sdk.sources.pairs import natural_key


def keys_of(uri: str) -> list[str]:
    with open_source(uri) as source:
        return [pair.key for pair in source]


def test_natural_order_by_default_by_name_when_asked(tmp_path: Path) -> None:
    write_pairs(tmp_path, ["frame10", "frame2", "frame1"])
    assert keys_of(f"pairs:{tmp_path}") == ["frame1", "frame2", "frame10"]
    assert keys_of(f"pairs:{tmp_path}?sort=name") == ["frame1", "frame10", "frame2"]


@given(st.lists(st.text(max_size=12), max_size=8))
def test_natural_keys_are_a_total_order(stems: list[str]) -> None:
    in_order = sorted(stems, key=natural_key)
    backwards = in_order[::-1]
    assert sorted(backwards, key=natural_key) == in_order


@given(st.text(max_size=5), st.integers(0, 10**6), st.integers(0, 10**6))
def test_natural_keys_count(prefix: str, a: int, b: int) -> None:
    prefix += "_"
    assert (natural_key(f"{prefix}{a}") < natural_key(f"{prefix}{b}")) == (a < b)


def test_sub_folders_and_formats_may_differ(tmp_path: Path) -> None:
    write_pairs(
        tmp_path / "my site", rgb="left eye", thermal="ir16", rgb_suffix=".JPG", thermal_suffix=".tiff"
    )
    assert len(keys_of(f"pairs:{tmp_path}/my site?rgb=left eye&thermal=ir16")) == 4
    assert len(keys_of(f"pairs:{tmp_path}/my%20site?rgb=left%20eye&thermal=ir16")) == 4


def test_relative_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pairs(tmp_path / "site")
    monkeypatch.chdir(tmp_path)
    with open_source("pairs:site") as source:
        assert source.length == 4
        assert source.describe()["uri"] == "pairs:site"


def test_other_files_are_ignored_and_counted(tmp_path: Path) -> None:
    write_pairs(tmp_path)
    (tmp_path / "rgb" / "notes.txt").touch()
    (tmp_path / "thermal" / ".hidden.png").touch()
    with open_source(f"pairs:{tmp_path}") as source:
        assert len(list(source)) == 4
        assert source.describe()["ignored_files"] == 2


def test_a_missing_partner_is_bad_unless_allowed(tmp_path: Path) -> None:
    write_pairs(tmp_path)
    (tmp_path / "thermal" / "1.png").unlink()
    (tmp_path / "rgb" / "2.png").unlink()
    with open_source(f"pairs:{tmp_path}", on_bad="skip") as source:
        assert [pair.key for pair in source] == ["0", "10"]
        assert [skipped.key for skipped in source.skipped] == ["1", "2"]
        assert "no thermal file of this name" in source.skipped[0].why
        assert "?partial=allow" in source.skipped[1].why
    with open_source(f"pairs:{tmp_path}?partial=allow") as source:
        sides = [(pair.rgb is not None, pair.thermal is not None) for pair in source]
        assert sides == [(True, True), (True, False), (False, True), (True, True)]
        assert source.skipped_count == 0


def test_partial_does_not_excuse_broken_files(tmp_path: Path) -> None:
    write_pairs(tmp_path)
    (tmp_path / "thermal" / "0.png").write_bytes(b"")
    with open_source(f"pairs:{tmp_path}?partial=allow") as source, pytest.raises(FrameError, match="0 bytes"):
        next(source)


@pytest.mark.parametrize(("camera", "other"), [("rgb", "thermal"), ("thermal", "rgb")])
def test_one_camera_alone(tmp_path: Path, camera: str, other: str) -> None:
    write_pairs(tmp_path)
    for path in (tmp_path / other).iterdir():
        path.unlink()
    (tmp_path / other).rmdir()
    with open_source(f"pairs:{tmp_path}?{other}=none") as source:
        pairs = list(source)
    assert len(pairs) == 4
    assert all(getattr(pair, camera) is not None and getattr(pair, other) is None for pair in pairs)


def test_folders_that_do_not_match(tmp_path: Path) -> None:
    write_pairs(tmp_path, ["a1", "a2"])
    for path in (tmp_path / "thermal").iterdir():
        path.rename(path.with_name("ir_" + path.name))
    with pytest.raises(
        ConfigError, match=r"2 RGB files \(like 'a1.png'\), 2 thermal files \(like 'ir_a1.png'\)"
    ):
        open_source(f"pairs:{tmp_path}")
    with open_source(f"pairs:{tmp_path}?partial=allow") as source:
        assert source.length == 4


def test_two_files_for_one_key(tmp_path: Path) -> None:
    write_pairs(tmp_path)
    write_pairs(tmp_path, ["0"], rgb_suffix=".bmp")
    with pytest.raises(ConfigError, match=r"two rgb files for pair '0': 0\.bmp and 0\.png"):
        open_source(f"pairs:{tmp_path}")


def test_missing_folders_name_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no folder '.*nowhere'"):
        open_source(f"pairs:{tmp_path}/nowhere")
    write_pairs(tmp_path, thermal="ir16")
    with pytest.raises(
        ConfigError, match=r"no thermal folder .* Sub-folders there: ir16, rgb; name one with \?thermal=NAME"
    ):
        open_source(f"pairs:{tmp_path}")
    (tmp_path / "empty" / "rgb").mkdir(parents=True)
    (tmp_path / "empty" / "thermal").mkdir()
    with pytest.raises(ConfigError, match=r"no image file in .*Read are: \.bmp"):
        open_source(f"pairs:{tmp_path}/empty")
    with pytest.raises(ConfigError, match="write % as %25"):
        open_source("pairs:100%20x")


def test_counts_unless_someone_says_centikelvin(tmp_path: Path) -> None:
    write_pairs(tmp_path)

    def unit(query: str = "") -> ThermalUnit:
        with open_source(f"pairs:{tmp_path}{query}") as source:
            thermal = next(source).thermal
            assert thermal is not None
            assert source.describe()["thermal_unit"] == thermal.unit.value
            return thermal.unit

    assert unit() is ThermalUnit.COUNTS
    assert unit("?unit=centikelvin") is ThermalUnit.CENTIKELVIN
    (tmp_path / "pairs.json").write_text('{"thermal_unit": "centikelvin", "licence": "CC0-1.0"}')
    assert unit() is ThermalUnit.CENTIKELVIN
    assert unit("?unit=counts") is ThermalUnit.COUNTS
    with open_source(f"pairs:{tmp_path}") as source:
        assert source.describe()["licences"] == ["CC0-1.0"]


def test_equal_sizes_are_taken_as_registered_and_said_so(tmp_path: Path) -> None:
    write_pairs(tmp_path)
    with open_source(f"pairs:{tmp_path}") as source:
        pair = next(source)
        assert pair.registration is not None
        assert pair.registration.origin == "assumed: equal frame sizes"
        assert pair.notes == ("registration assumed: equal frame sizes",)
        assert source.describe()["registration"] == "assumed: equal frame sizes"


def test_unequal_sizes_are_left_to_the_detector(tmp_path: Path) -> None:
    write_pairs(tmp_path, thermal_size_wh=(24, 16))
    with open_source(f"pairs:{tmp_path}") as source:
        pair = next(source)
        assert pair.registration is None
        assert pair.notes == ()
        assert source.describe()["registration"] == "none given"


def test_the_caller_chooses_the_registration(tmp_path: Path) -> None:
    write_pairs(tmp_path, thermal_size_wh=(24, 16))
    stated = {
        "homography_thermal_to_rgb": HOMOGRAPHY,
        "rgb_size_wh": [48, 32],
        "thermal_size_wh": [24, 16],
        "depth_m": 8,
    }
    (tmp_path / "mine.json").write_text(json.dumps(stated))
    with open_source(f"pairs:{tmp_path}?registration=mine.json") as source:
        chosen = next(source).registration
        assert chosen is not None
        assert (chosen.origin, chosen.depth_m) == ("file mine.json", 8.0)
        np.testing.assert_array_equal(chosen.homography, HOMOGRAPHY)
    with open_source(f"pairs:{tmp_path}?registration=identity") as source:
        chosen = next(source).registration
        assert chosen is not None
        np.testing.assert_allclose(chosen.matrix_for((48, 32), (24, 16)), np.diag([2, 2, 1]))
    (tmp_path / "pairs.json").write_text(json.dumps(stated))
    with open_source(f"pairs:{tmp_path}") as source:
        chosen = next(source).registration
        assert chosen is not None
        assert chosen.origin == "pairs.json"
    with open_source(f"pairs:{tmp_path}?registration=bundle") as source:
        pair = next(source)
        assert (pair.registration, pair.registration_by) == (None, RegistrationBy.BUNDLE)
        assert source.describe()["registration"] == "the engine bundle's own camera rig"


def test_a_label_file_registers_its_pair(tmp_path: Path) -> None:
    write_pairs(tmp_path, thermal_size_wh=(24, 16))
    write_label(tmp_path, "1", homography_thermal_to_rgb=HOMOGRAPHY, plane_depth_m=6.5)
    with open_source(f"pairs:{tmp_path}") as source:
        first, second, *_ = source
        assert source.describe()["registration"] == "label file; none given"
    assert first.registration is None
    assert second.registration is not None
    assert (second.registration.origin, second.registration.depth_m) == ("label file", 6.5)
    assert second.registration.rgb_size_wh == (48, 32)
    assert second.registration.thermal_size_wh == (24, 16)


def test_a_thermal_frame_alone_keeps_the_registration_of_its_kind(tmp_path: Path) -> None:
    write_pairs(tmp_path)
    (tmp_path / "rgb" / "1.png").unlink()
    with open_source(f"pairs:{tmp_path}?partial=allow") as source:
        _, second, *_ = source
    assert second.rgb is None
    assert second.registration is not None
    assert second.registration.rgb_size_wh == (48, 32)


def test_a_malformed_label_file_is_a_bad_frame(tmp_path: Path) -> None:
    write_pairs(tmp_path)
    write_label(tmp_path, "0").write_text("{")
    with open_source(f"pairs:{tmp_path}", on_bad="skip") as source:
        assert len(list(source)) == 3
        assert "not JSON" in source.skipped[0].why
    with open_source(f"pairs:{tmp_path}?registration=identity") as source:
        assert len(list(source)) == 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", "expected a JSON object, found list"),
        ('{"thermal_unit": "kelvins"}', "thermal_unit: unit: expected .* Did you mean 'kelvin'"),
        ('{"thermal_unit": ["kelvin"]}', "thermal_unit: unit: expected"),
        ('{"homography_thermal_to_rgb": [[1, 0], [0, 1]]}', "expected 3x3 finite numbers"),
        ('{"homography_thermal_to_rgb": [[1,0,0],[0,1,0],[0,0,1]]}', "add rgb_size_wh and thermal_size_wh"),
        (
            '{"homography_thermal_to_rgb": [[0,0,0],[0,0,0],[0,0,0]], '
            '"rgb_size_wh": [4, 4], "thermal_size_wh": [4, 4]}',
            "invertible",
        ),
        ('{"rgb_size_wh": [640]}', r"rgb_size_wh: expected \[width, height\]"),
    ],
)
def test_a_malformed_sidecar_is_refused(tmp_path: Path, content: str, message: str) -> None:
    write_pairs(tmp_path)
    (tmp_path / "pairs.json").write_text(content)
    with pytest.raises(ConfigError, match=message):
        open_source(f"pairs:{tmp_path}")


def test_a_registration_file_must_be_there_and_hold_one(tmp_path: Path) -> None:
    write_pairs(tmp_path)
    with pytest.raises(ConfigError, match=r"or a JSON file\. Did you mean 'identity'\? No file"):
        open_source(f"pairs:{tmp_path}?registration=idntity")
    (tmp_path / "empty.json").write_text("{}")
    with pytest.raises(ConfigError, match="add homography_thermal_to_rgb"):
        open_source(f"pairs:{tmp_path}?registration=empty.json")


def test_ground_truth_of_a_folder(tmp_path: Path) -> None:
    write_pairs(tmp_path)
    write_label(tmp_path, "1")
    with open_source(f"pairs:{tmp_path}") as source:
        assert isinstance(source, PairsSource)
        assert source.labels("0") == ()
        (found,) = source.labels("1")
        assert (found.class_name, found.box_xyxy) == ("hotspot", (3.0, 4.0, 6.0, 7.0))
        with pytest.raises(ConfigError, match="no pair 'nothing'"):
            source.labels("nothing")


def test_a_clip_folder_reads_as_pairs(tmp_path: Path) -> None:
    clip = write_clip(tmp_path)
    with open_source(f"pairs:{clip}") as source:
        pair = next(source)
        assert pair.thermal is not None
        assert pair.thermal.unit is ThermalUnit.CENTIKELVIN
        assert pair.registration is not None
        assert pair.registration.origin == "clip.json"
