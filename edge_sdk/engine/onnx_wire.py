"""Protobuf on the wire, as far as ONNX files need it: one part read after the other, and parts written.

Nothing is looked up in a schema and nothing is copied that is not asked for, so that a file can be walked,
or rewritten in one place, without the ONNX package. Source: protobuf.dev, "Encoding".
"""

from __future__ import annotations

__all__ = ["BYTES", "VARINT", "MalformedError", "part", "read_part"]

VARINT, BYTES = 0, 2
_FIXED64, _FIXED32 = 1, 5


class MalformedError(Exception):
    """The bytes are not a protobuf message."""


def read_part(data: memoryview, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Reads one part of a message.

    Arguments:
        data: the bytes.
        at: where the part begins.
        end: where its message ends.

    Returns: its number, wire type, start and stop of its content, and its value if it is a varint (else 0).

    Raises:
        MalformedError: these are no protobuf bytes.
    """
    tag, start = _varint(data, at, end)
    number, wire = tag >> 3, tag & 7
    value = 0
    if wire == VARINT:
        value, stop = _varint(data, start, end)
    elif wire == BYTES:
        length, start = _varint(data, start, end)
        stop = start + length
    elif wire in (_FIXED32, _FIXED64):
        stop = start + (4 if wire == _FIXED32 else 8)
    else:
        raise MalformedError(f"wire type {wire} at byte {at}")
    if number == 0 or stop > end:
        raise MalformedError(f"a part at byte {at} that ends at {stop}, beyond {end}")
    return number, wire, start, stop, value


def part(number: int, content: int | str | bytes) -> bytes:
    """Writes one part of a message: a varint (not negative), a text, or bytes."""
    if isinstance(content, int):
        return _as_varint(number << 3 | VARINT) + _as_varint(content)
    data = content.encode("utf-8") if isinstance(content, str) else content
    return _as_varint(number << 3 | BYTES) + _as_varint(len(data)) + data


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise MalformedError(f"a number without end at byte {at}")


def _as_varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
