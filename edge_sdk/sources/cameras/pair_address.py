"""The address of a pair of cameras: `camera:?rgb=ADDRESS&thermal=ADDRESS`, written and taken apart."""

from __future__ import annotations

from collections.abc import Mapping

from edge_sdk.credentials import without_password
from edge_sdk.errors import ConfigError
from edge_sdk.sources.cameras.device import CAMERAS
from edge_sdk.sources.cameras.settings import (
    CAMERA_OPTIONS,
    CameraAddress,
    camera_address,
)
from edge_sdk.sources.uri import SourceUri, parse_uri

__all__ = ["CAMERA_SCHEMES", "PAIR_OPTIONS", "camera_uri", "pair_number", "take_apart"]

PAIR_OPTIONS = (
    "rgb",
    "thermal",
    "registration",
    "registration_for",
    "limit_ms",
    "policy",
    "queue",
    "depth",
    "start",
    "patience_s",
)
CAMERA_SCHEMES: dict[str, tuple[str, ...]] = {
    "camera": PAIR_OPTIONS,
    **dict.fromkeys(("csi", "rtsp", "rtsps", "v4l2"), CAMERA_OPTIONS),
}


def camera_uri(rgb: str | None = None, thermal: str | None = None, **options: str | float) -> str:
    """Writes the address of a pair of cameras.

    Arguments:
        rgb, thermal: the address of each camera; None for one there is not.
        options: those of `CameraSource`, like `limit_ms=40`.

    Raises:
        ConfigError: neither camera is given.
    """
    parts = {"rgb": rgb, "thermal": thermal, **options}
    given = [
        f"{name}={str(value).replace('%', '%25').replace('&', '%26')}"
        for name, value in parts.items()
        if value is not None
    ]
    if rgb is None and thermal is None:
        raise ConfigError("camera: give the address of an RGB camera, of a thermal one, or both")
    return f"camera:?{'&'.join(given)}"


def take_apart(text: str) -> tuple[dict[str, CameraAddress], SourceUri]:
    """Returns the cameras of an address and the options of the pair; its text is without passwords.

    Raises:
        ConfigError: an address or option is wrong, or no camera is given.
    """
    if not text.strip().lower().startswith("camera:"):
        address = camera_address(text)
        return {address.role: address}, SourceUri(address.text, "camera", "", {})
    uri = parse_uri(text, {"camera": PAIR_OPTIONS})
    if uri.path:
        raise ConfigError(
            f"{without_password(text)}: write camera:?rgb=ADDRESS&thermal=ADDRESS; "
            f"found {uri.path!r} before the '?'"
        )
    addresses = {
        camera: camera_address(uri.options[camera], camera) for camera in CAMERAS if camera in uri.options
    }
    if not addresses:
        raise ConfigError(
            f"{text}: give the address of an RGB camera (rgb=), of a thermal one (thermal=), or both"
        )
    if len({address.path for address in addresses.values()}) < len(addresses):
        raise ConfigError(f"{_shown(text, addresses)}: both cameras have the same address")
    return addresses, SourceUri(_shown(text, addresses), "camera", "", uri.options)


def _shown(text: str, addresses: Mapping[str, CameraAddress]) -> str:
    """The address without passwords."""
    if not text.strip().lower().startswith("camera:"):
        return next(iter(addresses.values())).text
    head, _, query = text.partition("?")
    parts = []
    for part in query.split("&"):
        name, _, value = part.partition("=")
        if name.strip() in addresses:
            value = addresses[name.strip()].text.replace("%", "%25").replace("&", "%26")
        parts.append(f"{name}={value}")
    return f"{head}?{'&'.join(parts)}"


def pair_number(uri: SourceUri, name: str, default: float) -> float:
    """Returns an option that must be a number above 0, or the default where it was not given.

    Raises:
        ConfigError: it is none.
    """
    text = uri.options.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise ConfigError(f"{uri.text}: {name}: expected more than 0, found {text!r}")
    return value
