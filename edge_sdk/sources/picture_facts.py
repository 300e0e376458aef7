"""What a picture file says of itself before anything is decoded: its size, and how it is to be turned."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from edge_sdk.picture_size import jpeg_segments, jpeg_size_wh
from edge_sdk.sources.integrity import check_complete
from edge_sdk.sources.orientation import UPRIGHT, Turn, turn_of_exif
from edge_sdk.sources.tiff import TiffPage, tiff_pages

__all__ = ["PictureFacts", "exif_value", "picture_facts"]

_EXIF_MAKER, _EXIF_MODEL, _EXIF_ORIENTATION = 271, 272, 274


@dataclass(frozen=True)
class PictureFacts:
    """The header of a picture file.

    Attributes:
        form: "JPEG", "PNG", "TIFF", "WebP" or "BMP".
        size_wh: width and height of the stored picture in pixels.
        turn: how its tag says that it is to be turned.
        page: the first page of a TIFF.
        camera: maker and model as a JPEG's EXIF block names them, or "".
    """

    form: str
    size_wh: tuple[int, int]
    turn: Turn = UPRIGHT
    page: TiffPage | None = None
    camera: str = ""


def picture_facts(data: bytes | bytearray | memoryview) -> PictureFacts:
    """Checks that a picture file is whole and reads its header.

    Raises:
        ValueError: it is no picture, truncated, damaged or without a size; with figures.
    """
    form = check_complete(data)
    view = memoryview(data)
    try:
        facts = _READERS[form](view)
    except (struct.error, IndexError):
        raise ValueError(f"truncated {form}: {len(view)} bytes end inside its header") from None
    if min(facts.size_wh) < 1:
        raise ValueError(f"damaged {form}: its header states {facts.size_wh[0]}x{facts.size_wh[1]} pixels")
    return facts


def _jpeg(view: memoryview) -> PictureFacts:
    for marker, content in jpeg_segments(view):
        if marker == 0xE1 and bytes(content[:6]) == b"Exif\0\0":
            exif = content[6:]
            names = (exif_value(exif, _EXIF_MAKER), exif_value(exif, _EXIF_MODEL))
            camera = " ".join(name for name in names if isinstance(name, str) and name)
            return PictureFacts("JPEG", jpeg_size_wh(view), _exif_turn(exif), camera=camera)
    return PictureFacts("JPEG", jpeg_size_wh(view))


def _png(view: memoryview) -> PictureFacts:
    turn, position = UPRIGHT, 8
    size_wh = struct.unpack_from(">II", view, 16)
    while position + 8 <= len(view):
        length, kind = struct.unpack_from(">I4s", view, position)
        if kind == b"eXIf":
            turn = _exif_turn(view[position + 8 : position + 8 + length])
        position += 12 + length
    return PictureFacts("PNG", (size_wh[0], size_wh[1]), turn)


def _tiff(view: memoryview) -> PictureFacts:
    page = next(iter(tiff_pages(view)), None)
    if page is None:
        raise ValueError("damaged TIFF: no page in it")
    return PictureFacts("TIFF", page.size_wh, turn_of_exif(page.orientation), page)


def _webp(view: memoryview) -> PictureFacts:
    size_wh, turn, position = (0, 0), UPRIGHT, 12
    while position + 8 <= len(view):
        kind, length = struct.unpack_from("<4sI", view, position)
        content = view[position + 8 : position + 8 + length]
        if kind == b"VP8X":
            size_wh = (_uint24(content, 4) + 1, _uint24(content, 7) + 1)
        elif kind == b"VP8 " and size_wh == (0, 0):
            width, height = struct.unpack_from("<HH", content, 6)
            size_wh = (width & 0x3FFF, height & 0x3FFF)
        elif kind == b"VP8L" and size_wh == (0, 0):
            (bits,) = struct.unpack_from("<I", content, 1)
            size_wh = ((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
        elif kind == b"EXIF":
            turn = _exif_turn(content[6:] if bytes(content[:6]) == b"Exif\0\0" else content)
        position += 8 + length + length % 2
    return PictureFacts("WebP", size_wh, turn)


def _bmp(view: memoryview) -> PictureFacts:
    (header,) = struct.unpack_from("<I", view, 14)
    if header == 12:
        width, height = struct.unpack_from("<HH", view, 18)
    else:
        width, height = struct.unpack_from("<ii", view, 18)
    return PictureFacts("BMP", (abs(width), abs(height)))


def exif_value(exif: memoryview, wanted: int) -> int | str | None:
    """Returns a whole number or text of an EXIF block's first directory; None where it is not to be found."""
    try:
        order = {b"II*\0": "<", b"MM\0*": ">"}[bytes(exif[:4])]
        (position,) = struct.unpack_from(order + "I", exif, 4)
        (entries,) = struct.unpack_from(order + "H", exif, position)
        for entry in range(position + 2, position + 2 + 12 * entries, 12):
            tag, kind, count = struct.unpack_from(order + "HHI", exif, entry)
            if tag != wanted:
                continue
            if kind == 3:
                return int(struct.unpack_from(order + "H", exif, entry + 8)[0])
            if kind == 2:
                at = entry + 8 if count <= 4 else struct.unpack_from(order + "I", exif, entry + 8)[0]
                return bytes(exif[at : at + count]).partition(b"\0")[0].decode("latin-1").strip()
    except (KeyError, struct.error):
        pass
    return None


def _exif_turn(exif: memoryview) -> Turn:
    """How an EXIF block says that its picture is to be turned; one that cannot be read asks for nothing."""
    value = exif_value(exif, _EXIF_ORIENTATION)
    return turn_of_exif(value) if isinstance(value, int) else UPRIGHT


def _uint24(view: memoryview, position: int) -> int:
    return view[position] | view[position + 1] << 8 | view[position + 2] << 16


_READERS = {"JPEG": _jpeg, "PNG": _png, "TIFF": _tiff, "WebP": _webp, "BMP": _bmp}
