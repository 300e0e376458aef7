"""Tests of the clips that come with the package."""

from __future__ import annotations

from pathlib import Path

import pytest
from frames_on_disk import write_clip, write_label

from edge_sdk.errors import ConfigError
from edge_sdk.frames import ThermalUnit
from edge_sdk.sources import ClipSource, known_clips, open_source
from edge_sdk.sources.uri import SourceUri

URI = SourceUri("clip:toy", "clip", "toy", {})


def test_a_clip_knows_itself(tmp_path: Path) -> None:
    write_clip(tmp_path)
    with ClipSource(URI, clips=tmp_path) as source:
        pair = next(source)
        assert pair.key == "000"
        assert pair.thermal is not None
        assert pair.thermal.unit is ThermalUnit.CENTIKELVIN
        assert pair.registration is not None
        assert pair.registration.origin == "clip.json"
        assert pair.registration.thermal_size_wh == (32, 24)
        assert source.fps == 10
        assert source.classes == ("insulator", "hotspot")
        assert [found.class_name for found in source.labels("002")] == ["hotspot"]
        described = source.describe()
    assert (described["kind"], described["seed"], described["licences"]) == ("clip", 7, ["CC0-1.0"])


def test_a_frame_may_have_its_own_registration(tmp_path: Path) -> None:
    clip = write_clip(tmp_path)
    write_label(clip, "001", homography_thermal_to_rgb=[[1, 0, 5], [0, 1, 0], [0, 0, 1]])
    with ClipSource(URI, clips=tmp_path) as source:
        first, second, *_ = (pair.registration for pair in source)
    assert first is not None
    assert second is not None
    assert (first.origin, second.origin) == ("clip.json", "label file")
    assert second.homography[0][2] == 5


def test_an_unknown_clip_lists_the_known_ones(tmp_path: Path) -> None:
    write_clip(tmp_path, "substation")
    write_clip(tmp_path, "tunnel")
    with pytest.raises(
        ConfigError, match=r"no clip 'substaton'\. Did you mean 'substation'\? Known: substation, tunnel"
    ):
        ClipSource(SourceUri("clip:substaton", "clip", "substaton", {}), clips=tmp_path)
    with pytest.raises(ConfigError, match="Known: none; this installation has no clips"):
        ClipSource(URI, clips=tmp_path / "nowhere")


def test_no_path_leads_out_of_the_clips(tmp_path: Path) -> None:
    write_clip(tmp_path / "outside")
    (tmp_path / "clips").mkdir()
    uri = SourceUri("clip:../outside/toy", "clip", "../outside/toy", {})
    with pytest.raises(ConfigError, match="no clip"):
        ClipSource(uri, clips=tmp_path / "clips")


def test_a_clip_that_lost_frames_is_refused(tmp_path: Path) -> None:
    clip = write_clip(tmp_path)
    (clip / "rgb" / "003.jpg").unlink()
    (clip / "thermal" / "003.png").unlink()
    with pytest.raises(ConfigError, match=r"3 pairs found, clip\.json states 4"):
        ClipSource(URI, clips=tmp_path)


def test_a_clip_has_few_options() -> None:
    with pytest.raises(ConfigError, match=r"unknown option 'thermal'\. Known: registration"):
        open_source("clip:substation?thermal=x")


@pytest.mark.skipif("substation" not in known_clips(), reason="needs the clip 'substation' in this package")
def test_the_shipped_clip_reads_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_source("clip:substation") as source:
        assert isinstance(source, ClipSource)
        pairs = list(source)
        assert len(pairs) == source.length
        assert source.describe()["licences"]
        assert any(source.labels(pair.key) for pair in pairs)
    for pair in pairs:
        assert pair.rgb is not None
        assert pair.thermal is not None
        assert pair.thermal.unit is ThermalUnit.CENTIKELVIN
        assert pair.registration is not None
