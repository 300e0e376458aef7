"""The options of a camera's address, checked and typed before any device is touched."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite

from edge_sdk.credentials import fill_in, without_password
from edge_sdk.errors import ConfigError
from edge_sdk.sources.cameras.formats import THERMAL_FORMATS, ThermalFormat, thermal_format
from edge_sdk.sources.orientation import AS_TAGGED, Orientation, orientation_of
from edge_sdk.sources.uri import SourceUri, nearest, parse_uri, user_path

__all__ = ["CAMERA_OPTIONS", "CameraAddress", "camera_address"]

CAMERA_OPTIONS = (
    "as",
    "width",
    "height",
    "fps",
    "format",
    "unit",
    "gain",
    "telemetry",
    "via",
    "delay_ms",
    "timeout_ms",
    "repeats",
    "orientation",
    "sequence",
)
"""Options of one camera; `camera_address` documents them."""

_VIAS = {
    "v4l2": ("opencv", "gstreamer"),
    "csi": ("gstreamer",),
    "rtsp": ("av", "opencv", "gstreamer"),
    "rtsps": ("av", "opencv", "gstreamer"),
    "file": ("av", "opencv"),
}

_SCHEMES = dict.fromkeys(_VIAS, CAMERA_OPTIONS)


@dataclass(frozen=True)
class CameraAddress:
    """One camera, as its address says.

    Attributes:
        text: for people and records, without a password.
        scheme: "v4l2", "csi", "rtsp", "rtsps" or "file".
        path: device, sensor number, file, or for RTSP the whole address with its password.
        role: "rgb" or "thermal".
        width, height, fps: asked of the camera, or None.
        thermal: the layout of a thermal camera's memory, None for colour.
        fourcc: pixel format asked of a colour camera, or "".
        unit: what a count of a thermal file is, as the caller says; "auto" where not said.
        via: library to read with, or None for the best there is.
        delay_ms: constant time from the picture to its timestamp.
        timeout_ms: how long one frame may take.
        keep_repeats: pass identical pictures on.
        orientation: how its pictures are turned.
        sequence: whether a file follows on from frame to frame, as the caller says; None where not said.
    """

    text: str
    scheme: str
    path: str = field(repr=False)
    role: str
    width: int | None = None
    height: int | None = None
    fps: float | None = None
    thermal: ThermalFormat | None = None
    fourcc: str = ""
    unit: str = "auto"
    via: str | None = None
    delay_ms: float = 0.0
    timeout_ms: float = 1000.0
    keep_repeats: bool = False
    orientation: Orientation = AS_TAGGED
    sequence: bool | None = None

    @property
    def live(self) -> bool:
        """Whether frames come by themselves."""
        return self.scheme != "file"


def camera_address(text: str, role: str | None = None) -> CameraAddress:
    """Reads the address of one camera: `v4l2:///dev/video0?width=1280&fps=30`.

    Options, all schemes:
        as: `rgb` or `thermal`; by default what the place in a pair says, else `rgb`.
        width, height, fps: asked of the camera, read back, and a deviation is noted.
        format: of a thermal camera `y16`, `lepton`, `boson`, `centikelvin`, `infiray`, `p2pro` or `tc001`;
            of a colour camera its FOURCC, like `MJPG`.
        unit: what a thermal count is: `auto`, `counts`, `centikelvin`, `decikelvin`, `kelvin`,
            `kelvin/64`, `celsius`, a number of kelvin (0.04 of a FLIR Tau), or `linear:GAIN:OFFSET`.
        gain: `high` or `low`, of an InfiRay camera.
        telemetry: where a Lepton's rows stand: `auto`, `header`, `footer` or `none`.
        via: `opencv`, `gstreamer` or `av`.
        delay_ms: constant time from the picture to its timestamp, from the data sheet.
        timeout_ms: how long one frame may take before the camera counts as silent.
        repeats: `drop` (default) or `keep` identical pictures.
        orientation: `tag` (default: as a file says), `stored`, or degrees clockwise, 90, 180 or 270.
        sequence: of a file: `1` says that its frames follow each other, `0` that each is a still; by default
            a single picture is a still and everything else is not.

    Of an RTSP address, options that are none of these belong to the camera and stay in it. A password need
    not be written there: `rtsp://USER:${NAME}@HOST/PATH` takes it from the environment, `${file:PATH}` from
    a file's one line.

    Arguments:
        text: the address.
        role: "rgb" or "thermal" where its place in a pair says so.

    Raises:
        ConfigError: the address or an option cannot be met.
    """
    is_rtsp = text.strip().lower().startswith(("rtsp:", "rtsps:"))
    if ":" not in text.partition("?")[0]:
        raise ConfigError(f"{text!r} is no address of a camera.{_meant(text.strip(), role)}")
    own, url = _split_rtsp(fill_in(text.strip())) if is_rtsp else (text, "")
    uri = parse_uri(own, _SCHEMES)
    shown = without_password(uri.text)
    uri = SourceUri(shown, uri.scheme, uri.path, uri.options)
    stated = uri.choice("as", ("rgb", "thermal"))
    if role is not None and stated not in (None, role):
        raise ConfigError(f"{shown}: as={stated}, but it was given as the {role} camera")
    role = role or stated or "rgb"
    form, fourcc = _format(uri, role)
    via = uri.choice("via", _VIAS[uri.scheme])
    sequence = uri.choice("sequence", ("0", "1"))
    if sequence == "0" and uri.scheme != "file":
        raise ConfigError(f"{shown}: sequence=0 is of files; a live camera gives a stream")
    return CameraAddress(
        text=shown,
        scheme=uri.scheme,
        path=url or _device_path(uri),
        role=role,
        width=_whole(uri, "width"),
        height=_whole(uri, "height"),
        fps=_number(uri, "fps", None, least=0.01),
        thermal=form,
        fourcc=fourcc,
        unit=uri.option("unit", "auto"),
        via=via,
        delay_ms=_number(uri, "delay_ms", 0.0, least=0.0) or 0.0,
        timeout_ms=_number(uri, "timeout_ms", 1000.0, least=10.0) or 1000.0,
        keep_repeats=uri.choice("repeats", ("drop", "keep")) == "keep",
        orientation=orientation_of(uri),
        sequence=None if sequence is None else sequence == "1",
    )


def _meant(text: str, role: str | None) -> str:
    """Says how the camera is written that a bare number, device or file most likely means."""
    name = text.rpartition("/")[2].removeprefix("video")
    if name.isdecimal() and (text == name or text.rpartition("/")[2] != name):
        return f" Did you mean 'v4l2:///dev/video{int(name)}'? `edge-sdk cameras` lists what is plugged in."
    if user_path(text).is_file():
        return f" It is a file: write 'file:{text}'."
    example = "v4l2:///dev/video2" if role == "thermal" else "v4l2:///dev/video0"
    return (
        f" Write '{example}', 'csi://0' or 'rtsp://HOST/PATH'; `edge-sdk cameras` lists what is plugged in."
    )


def _split_rtsp(text: str) -> tuple[str, str]:
    """Returns the address with our options alone, and with the camera's alone."""
    head, _, query = text.partition("?")
    parts = [part for part in query.split("&") if part]
    ours = [part for part in parts if part.partition("=")[0] in CAMERA_OPTIONS]
    theirs = [part for part in parts if part not in ours]
    return (
        head + ("?" + "&".join(ours) if ours else ""),
        head + ("?" + "&".join(theirs) if theirs else ""),
    )


def _format(uri: SourceUri, role: str) -> tuple[ThermalFormat | None, str]:
    word = uri.options.get("format")
    if role == "thermal":
        return (
            thermal_format(
                (word or "y16").lower(),
                unit=uri.option("unit", "auto"),
                telemetry=uri.option("telemetry", "auto"),
                gain=uri.option("gain", "high"),
                where=uri.text,
            ),
            "",
        )
    for option in ("unit", "gain", "telemetry"):
        if option in uri.options:
            raise ConfigError(f"{uri.text}: {option}= is of thermal cameras; add as=thermal if it is one")
    if word is None:
        return None, ""
    if word.lower() in THERMAL_FORMATS:
        raise ConfigError(f"{uri.text}: format={word} is a thermal camera's; add as=thermal")
    if len(word) > 4:
        raise ConfigError(
            f"{uri.text}: format: expected a FOURCC of four letters, like MJPG, found {word!r}"
            f"{nearest(word, (*THERMAL_FORMATS, 'MJPG', 'YUYV'))}"
        )
    return None, word.upper().ljust(4)


def _device_path(uri: SourceUri) -> str:
    path = uri.path
    if uri.scheme == "v4l2" and path.isdigit():
        return f"/dev/video{path}"
    if uri.scheme == "csi" and not path.isdigit():
        raise ConfigError(f"{uri.text}: expected the number of a CSI sensor, like csi://0, found {path!r}")
    return path


def _number(uri: SourceUri, name: str, default: float | None, least: float) -> float | None:
    text = uri.options.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value) or value < least:
        raise ConfigError(f"{uri.text}: {name}: expected a number of {least:g} or more, found {text!r}")
    return value


def _whole(uri: SourceUri, name: str) -> int | None:
    text = uri.options.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 6) or not 1 <= int(text) <= 16384:
        raise ConfigError(f"{uri.text}: {name}: expected 1 to 16384 pixels, found {text!r}")
    return int(text)
