"""What V4L2 cameras are there, what they can do, and their controls: a few ioctls, no library.

The library that does this (linuxpy) is GPL, so the core cannot use it. Structures and numbers are
those of the kernel's interface. Source: linux/videodev2.h.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["KNOWN_THERMAL", "CameraFacts", "Control", "PixelFormat", "find_cameras"]

_QUERYCAP = "16s32s32sIII12x"
_FMTDESC = "II I32s I I12x"
_FRMSIZE = "III II16x8x"
_FRMIVAL = "IIII I II16x8x"
_QUERYCTRL = "II32siiii I8x"
_CONTROL = "Ii"

_CAPTURE, _CAPTURE_MPLANE, _DEVICE_CAPS = 0x1, 0x1000, 0x80000000
_BUFFER_CAPTURE, _BUFFER_CAPTURE_MPLANE = 1, 9
_DISCRETE = 1
_NEXT_CONTROL, _DISABLED, _READ_ONLY = 0x80000000, 0x1, 0x4
_CLASS_TYPE, _STRING_TYPE, _BUTTON_TYPE = 6, 7, 4
_MOST_ENTRIES = 128

KNOWN_THERMAL = {
    "1e4e:0100": ("Lepton on a PureThermal board", "lepton"),
    "09cb:4007": ("FLIR Boson", "boson"),
    "0bda:5830": ("InfiRay P2 Pro or Topdon TC001", "infiray"),
}
"""USB ids of thermal cameras, and the `format=` each needs."""

Ioctl = Callable[[int, int, bytearray], Any]


@dataclass(frozen=True)
class PixelFormat:
    """A pixel format of a camera.

    Attributes:
        fourcc: four letters, blanks kept.
        description: the driver's words.
        sizes_wh: discrete frame sizes; empty where the driver states ranges.
        rates_hz: frame rates of the largest size.
    """

    fourcc: str
    description: str
    sizes_wh: tuple[tuple[int, int], ...] = ()
    rates_hz: tuple[float, ...] = ()


@dataclass(frozen=True)
class Control:
    """A control of a camera: name, value now, least, most and default."""

    name: str
    value: int | None
    least: int
    most: int
    default: int
    read_only: bool = False


@dataclass(frozen=True)
class CameraFacts:
    """A camera that is there.

    Attributes:
        device: its path, /dev/video0.
        name, driver, bus: the driver's words.
        usb_id: vendor:product, or "".
        role: "rgb" or "thermal", as far as can be told.
        why_role: what tells it.
        address: what to give to `--rgb` or `--thermal`.
        problem: why it could not be asked, or "".
    """

    device: str
    name: str
    driver: str = ""
    bus: str = ""
    usb_id: str = ""
    role: str = "rgb"
    why_role: str = ""
    address: str = ""
    formats: tuple[PixelFormat, ...] = ()
    controls: tuple[Control, ...] = field(default=())
    problem: str = ""


def find_cameras(
    *, sys_root: Path = Path("/sys"), dev_root: Path = Path("/dev"), ioctl: Ioctl | None = None
) -> list[CameraFacts]:
    """Returns the V4L2 cameras of this machine, in order of their numbers; metadata nodes are left out.

    Arguments:
        sys_root, dev_root: the file systems; a test gives its own.
        ioctl: the system call; a test gives its own.
    """
    folder = sys_root / "class" / "video4linux"
    if not folder.is_dir():
        return []
    nodes = sorted(
        (node for node in folder.iterdir() if node.name.startswith("video") and node.name[5:].isdigit()),
        key=lambda node: int(node.name[5:]),
    )
    found = (_ask(node, dev_root / node.name, ioctl or fcntl.ioctl) for node in nodes)
    return [facts for facts in found if facts is not None]


def _ask(node: Path, device: Path, ioctl: Ioctl) -> CameraFacts | None:
    name = _text_of(node / "name") or device.name
    usb_id = _usb_id(node)
    try:
        handle = os.open(device, os.O_RDWR | os.O_NONBLOCK)
    except OSError as error:
        fix = (
            " (sudo usermod -aG video $USER, then log in again)" if isinstance(error, PermissionError) else ""
        )
        problem = f"cannot be opened: {error.strerror}{fix}"
        return _facts(str(device), name, "", "", usb_id, (), (), problem)
    try:
        driver, card, bus, capabilities = _capabilities(handle, ioctl)
        if not capabilities & (_CAPTURE | _CAPTURE_MPLANE):
            return None
        kind = _BUFFER_CAPTURE if capabilities & _CAPTURE else _BUFFER_CAPTURE_MPLANE
        formats = tuple(_formats(handle, kind, ioctl))
        controls = tuple(_controls(handle, ioctl))
        return _facts(str(device), card or name, driver, bus, usb_id, formats, controls, "")
    except OSError as error:
        return _facts(str(device), name, "", "", usb_id, (), (), f"cannot be asked: {error.strerror}")
    finally:
        os.close(handle)


def _facts(
    device: str,
    name: str,
    driver: str,
    bus: str,
    usb_id: str,
    formats: tuple[PixelFormat, ...],
    controls: tuple[Control, ...],
    problem: str,
) -> CameraFacts:
    role, why, address = "rgb", "", f"v4l2://{device}"
    if usb_id in KNOWN_THERMAL:
        model, form = KNOWN_THERMAL[usb_id]
        role, why, address = "thermal", f"USB id of {model}", f"{address}?format={form}"
    elif any(one.fourcc == "Y16 " for one in formats):
        role, why, address = "thermal", "it gives raw 16 bits (Y16)", f"{address}?format=y16"
    if driver.startswith("tegra"):
        address = f"csi://{device.removeprefix('/dev/video')}"
    return CameraFacts(device, name, driver, bus, usb_id, role, why, address, formats, controls, problem)


def _capabilities(handle: int, ioctl: Ioctl) -> tuple[str, str, str, int]:
    data = bytearray(struct.calcsize(_QUERYCAP))
    ioctl(handle, _code("r", 0, len(data)), data)
    driver, card, bus, _version, all_of_it, of_node = struct.unpack(_QUERYCAP, data)
    return _text(driver), _text(card), _text(bus), of_node if all_of_it & _DEVICE_CAPS else all_of_it


def _formats(handle: int, kind: int, ioctl: Ioctl) -> Iterator[PixelFormat]:
    for index in range(_MOST_ENTRIES):
        data = bytearray(struct.pack(_FMTDESC, index, kind, 0, b"", 0, 0))
        if not _asked(handle, _code("rw", 2, len(data)), data, ioctl):
            return
        _, _, _, description, code, _ = struct.unpack(_FMTDESC, data)
        sizes = tuple(_sizes(handle, code, ioctl))
        largest = max(sizes, key=lambda size: size[0] * size[1], default=None)
        rates = tuple(_rates(handle, code, largest, ioctl)) if largest else ()
        yield PixelFormat(code.to_bytes(4, "little").decode("latin-1"), _text(description), sizes, rates)


def _sizes(handle: int, code: int, ioctl: Ioctl) -> Iterator[tuple[int, int]]:
    for index in range(_MOST_ENTRIES):
        data = bytearray(struct.pack(_FRMSIZE, index, code, 0, 0, 0))
        if not _asked(handle, _code("rw", 74, len(data)), data, ioctl):
            return
        _, _, kind, width, height = struct.unpack(_FRMSIZE, data)
        if kind != _DISCRETE:
            return
        yield width, height


def _rates(handle: int, code: int, size_wh: tuple[int, int], ioctl: Ioctl) -> Iterator[float]:
    for index in range(_MOST_ENTRIES):
        data = bytearray(struct.pack(_FRMIVAL, index, code, *size_wh, 0, 0, 0))
        if not _asked(handle, _code("rw", 75, len(data)), data, ioctl):
            return
        _, _, _, _, kind, above, below = struct.unpack(_FRMIVAL, data)
        if kind != _DISCRETE or not above:
            return
        yield round(below / above, 3)


def _controls(handle: int, ioctl: Ioctl) -> Iterator[Control]:
    number = 0
    for _ in range(_MOST_ENTRIES):
        data = bytearray(struct.pack(_QUERYCTRL, number | _NEXT_CONTROL, 0, b"", 0, 0, 0, 0, 0))
        if not _asked(handle, _code("rw", 36, len(data)), data, ioctl):
            return
        number, kind, name, least, most, _step, default, flags = struct.unpack(_QUERYCTRL, data)
        if flags & _DISABLED or kind in (_CLASS_TYPE, _STRING_TYPE, _BUTTON_TYPE):
            continue
        value = bytearray(struct.pack(_CONTROL, number, 0))
        known = _asked(handle, _code("rw", 27, len(value)), value, ioctl)
        yield Control(
            _text(name),
            struct.unpack(_CONTROL, value)[1] if known else None,
            least,
            most,
            default,
            bool(flags & _READ_ONLY),
        )


def _asked(handle: int, request: int, data: bytearray, ioctl: Ioctl) -> bool:
    """Asks; False where the driver has no (further) answer, which it says with EINVAL or ENOTTY."""
    try:
        ioctl(handle, request, data)
    except OSError:
        return False
    return True


def _code(direction: str, number: int, size: int) -> int:
    """The number of an ioctl of type 'V'. Source: asm-generic/ioctl.h."""
    bits = {"r": 2, "w": 1, "rw": 3}[direction]
    return bits << 30 | size << 16 | ord("V") << 8 | number


def _usb_id(node: Path) -> str:
    """Walks up from the video node to the USB device that holds it."""
    try:
        place = (node / "device").resolve(strict=True)
    except OSError:
        return ""
    for folder in (place, *place.parents):
        vendor, product = _text_of(folder / "idVendor"), _text_of(folder / "idProduct")
        if vendor and product:
            return f"{vendor}:{product}"
    return ""


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _text(raw: bytes) -> str:
    return raw.split(b"\0")[0].decode("utf-8", "replace")
