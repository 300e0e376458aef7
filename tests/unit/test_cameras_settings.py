"""Addresses of cameras: read, checked, written, and shown without passwords."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sdk.credentials import without_password
from edge_sdk.errors import CameraError, ConfigError
from edge_sdk.sources import open_source
from edge_sdk.sources.cameras.device import Setting
from edge_sdk.sources.cameras.gstreamer import has_gstreamer, pipeline_for, require_gstreamer
from edge_sdk.sources.cameras.pair_address import camera_uri, take_apart
from edge_sdk.sources.cameras.settings import camera_address

WITH, WITHOUT = "    GStreamer:                   YES (1.20.3)\n", "    GStreamer:                   NO\n"


def test_an_address_is_taken_apart() -> None:
    found = camera_address("v4l2:///dev/video2?width=1280&height=720&fps=29.97&format=mjpg&delay_ms=12")
    assert (found.scheme, found.path, found.role) == ("v4l2", "/dev/video2", "rgb")
    assert (found.width, found.height, found.fps, found.fourcc) == (1280, 720, 29.97, "MJPG")
    assert found.delay_ms == 12
    assert found.live
    assert camera_address("v4l2://1").path == "/dev/video1"
    assert camera_address("csi://0").path == "0"


def test_a_thermal_address_has_a_format() -> None:
    found = camera_address("v4l2:///dev/video1?format=boson&unit=centikelvin", "thermal")
    assert found.thermal is not None
    assert (found.thermal.name, found.thermal.unit, found.thermal.fourcc) == ("boson", "centikelvin", "Y16 ")
    assert camera_address("v4l2://0?as=thermal").thermal is not None


def test_an_rtsp_address_keeps_what_is_the_cameras() -> None:
    text = "rtsp://admin:p%40ss@10.0.0.5:554/stream?channel=1&subtype=0&width=640"
    found = camera_address(text)
    assert found.path == "rtsp://admin:p%40ss@10.0.0.5:554/stream?channel=1&subtype=0"
    assert found.width == 640
    assert "p%40ss" not in found.text + repr(found)
    assert found.text.startswith("rtsp://admin:***@10.0.0.5:554/stream")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("v4l2:///dev/video0?widht=3", "Did you mean 'width'"),
        ("v4l2:///dev/video0?width=0", "1 to 16384 pixels, found '0'"),
        ("v4l2:///dev/video0?fps=fast", "fps: expected a number"),
        ("v4l2:///dev/video0?via=av", "via: expected opencv or gstreamer"),
        ("v4l2:///dev/video0?format=lepton", "add as=thermal"),
        ("v4l2:///dev/video0?unit=kelvin", "add as=thermal"),
        ("v4l2:///dev/video0?format=leptonn", "FOURCC of four letters"),
        ("csi://front", "number of a CSI sensor"),
        ("webcam://0", "unknown scheme"),
        ("v4l2://", "nothing stands after"),
        ("v4l2://0?as=depth", "as: expected rgb or thermal"),
    ],
)
def test_a_wrong_address_says_what_is_wrong(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        camera_address(text)


def test_a_camera_in_the_wrong_place_is_refused() -> None:
    with pytest.raises(ConfigError, match="as=rgb, but it was given as the thermal camera"):
        camera_address("v4l2://0?as=rgb", "thermal")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("camera:?limit_ms=3", "give the address of an RGB camera"),
        ("camera:/dev/video0?rgb=csi://0", "before the"),
        ("camera:?rgb=v4l2://0&thermal=v4l2:///dev/video0", "the same address"),
        ("camera:?rgb=csi://0&polcy=latest", "Did you mean 'policy'"),
        ("camera:?rgb=v4l2://0&limit_ms=-4", "limit_ms: expected more than 0"),
        ("camera:?rgb=v4l2://0&policy=newest", "policy: expected latest"),
        ("camera:?rgb=v4l2://0&thermal=file:///x.cptv", "never meet"),
        ("camera:?thermal=file:///no/such.cptv", "no file"),
    ],
)
def test_a_wrong_pair_says_what_is_wrong(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        open_source(text)


def test_a_camera_that_is_not_there_says_how_to_look() -> None:
    with pytest.raises(CameraError, match=r"no device /dev/video99\. See edge-sdk cameras"):
        open_source("v4l2:///dev/video99")


ADDRESS = st.text(alphabet="abc%&=?/:@.", min_size=1, max_size=12).map(lambda tail: f"rtsp://h/{tail}")


@given(ADDRESS)
def test_a_written_pair_is_read_back(address: str) -> None:
    uri = camera_uri(address, "v4l2:///dev/video1?format=y16&unit=centikelvin", limit_ms=40)
    addresses, options = take_apart(uri)
    assert addresses["rgb"] == camera_address(address, "rgb")
    assert addresses["thermal"].thermal is not None
    assert addresses["thermal"].thermal.unit == "centikelvin"
    assert options.options["limit_ms"] == "40"


def test_a_pair_is_shown_without_passwords() -> None:
    _, options = take_apart(camera_uri("rtsp://u:secret@h/a?x=1&y=2", "rtsp://u:other@h/b"))
    assert "secret" not in options.text
    assert "other" not in options.text
    assert options.text.count("u:***@h") == 2


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rtsp://h/p@th", "rtsp://h/p@th"),
        ("rtsp://u@h/", "rtsp://u@h/"),
        ("rtsp://u:a:b@h", "rtsp://u:***@h"),
        ("rtsp://u:se/cret@h/x", "rtsp://u:***@h/x"),
        ("rtsp://h:554/a@b", "rtsp://h:554/a@b"),
        ("v4l2:///dev/video0", "v4l2:///dev/video0"),
    ],
)
def test_only_passwords_are_hidden(text: str, shown: str) -> None:
    assert without_password(text) == shown


@pytest.mark.parametrize(
    ("asked", "got", "kept"),
    [
        ("1280", "1280", True),
        ("30", "29.97", True),
        ("30", "25", False),
        ("Y16 ", "Y16 ", True),
        ("Y16 ", "YUYV", False),
    ],
)
def test_a_setting_knows_whether_it_was_kept(asked: str, got: str, kept: bool) -> None:
    setting = Setting("fps", asked, got)
    assert setting.kept is kept
    assert asked in setting.sentence
    assert got in setting.sentence


def test_pipelines() -> None:
    csi = pipeline_for(camera_address("csi://1?width=1920&height=1080&fps=60"))
    assert csi.startswith("nvarguscamerasrc sensor-id=1 ! video/x-raw(memory:NVMM),format=NV12,width=1920")
    assert "framerate=60/1" in csi
    assert csi.endswith("appsink drop=true max-buffers=1 sync=false")
    thermal = pipeline_for(camera_address("v4l2:///dev/video1?format=lepton&width=160&height=120", "thermal"))
    assert "v4l2src device=/dev/video1 ! video/x-raw,format=GRAY16_LE,width=160,height=120" in thermal
    assert "videoconvert" not in thermal
    assert "framerate=29970/1000" in pipeline_for(camera_address("v4l2://0?fps=29.97&via=gstreamer"))
    assert 'location="rtsp://h/%22x"' in pipeline_for(camera_address('rtsp://h/"x'))


def test_a_csi_camera_without_nvidias_plugin_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    with pytest.raises(CameraError, match=r"nvarguscamerasrc.*nvidia-l4t-gstreamer"):
        require_gstreamer(camera_address("csi://0"), WITH, tmp_path)
    folder = tmp_path / "aarch64-linux-gnu" / "gstreamer-1.0"
    folder.mkdir(parents=True)
    (folder / "libgstnvarguscamerasrc.so").touch()
    require_gstreamer(camera_address("csi://0"), WITH, tmp_path)


def test_an_opencv_without_gstreamer_says_what_to_do() -> None:
    assert has_gstreamer(WITH)
    assert not has_gstreamer(WITHOUT)
    require_gstreamer(camera_address("v4l2://0?via=gstreamer"), WITH)
    with pytest.raises(CameraError, match=r"built without it.*JetPack's own OpenCV.*--system-site-packages"):
        require_gstreamer(camera_address("csi://0"), WITHOUT)


@pytest.mark.parametrize(
    ("address", "advice"),
    [
        ("0", "Did you mean 'v4l2:///dev/video0'?"),
        ("/dev/video2", "Did you mean 'v4l2:///dev/video2'?"),
        ("video3", "Did you mean 'v4l2:///dev/video3'?"),
        ("webcam", "Write 'v4l2:///dev/video0', 'csi://0' or 'rtsp://HOST/PATH'"),
        (__file__, f"It is a file: write 'file:{__file__}'"),
    ],
)
def test_what_is_no_address_is_advised_as_a_camera(address: str, advice: str) -> None:
    with pytest.raises(ConfigError, match="is no address of a camera") as caught:
        camera_address(address, "rgb")
    assert advice in str(caught.value)
    assert "clip:" not in str(caught.value)
