"""Whether this CPU adds INT8 products exactly under ONNX Runtime: found by computing, not by a CPU's name.

x86 CPUs without VNNI multiply INT8 with an instruction that adds two products in 16 bits and cuts them off
at 32767; large activations then give wrong sums. ONNX Runtime has exact kernels for them, which are asked
for by an option. On all other CPUs the option changes nothing.
Source: onnxruntime_session_options_config_keys.h, `kOrtSessionOptionsAvx2PrecisionMode`; the Intel 64 manual
on PMADDUBSW.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from edge_sdk.engine.onnx_wire import part

__all__ = ["BY_OPTION", "EXACT", "EXACT_OPTION", "QUANTISED", "SATURATING", "probe_sums"]

EXACT = "exact"
"""INT8 sums are exact as they are."""

BY_OPTION = "exact by option"
"""They are exact with `EXACT_OPTION`, which takes longer, and is used."""

SATURATING = "saturating"
"""They saturate, and the option does not help."""

EXACT_OPTION = ("session.x64quantprecision", "1")

QUANTISED = frozenset(
    (
        "QuantizeLinear",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "QLinearConv",
        "QLinearMatMul",
        "ConvInteger",
        "MatMulInteger",
    )
)
"""Operators whose presence in a graph means that integers may be multiplied."""

_CHANNELS, _SIDE = 8, 4
_FLOAT, _INT8 = 1, 3


def probe_sums(run: Callable[[bytes, bool], float]) -> str:
    """Finds out how this machine adds.

    Arguments:
        run: runs an ONNX model on the CPU, with `EXACT_OPTION` or without it, on ones of float32
            [1, 8, 4, 4], and returns its first output's first number.

    Returns: `EXACT`, `BY_OPTION` or `SATURATING`.
    """
    model = _largest_sums()
    if _is_right(run(model, False)):
        return EXACT
    return BY_OPTION if _is_right(run(model, True)) else SATURATING


def _is_right(found: float) -> bool:
    return abs(found - _CHANNELS) < 1e-3


def _largest_sums() -> bytes:
    """An INT8 convolution of the largest weights over the largest activations; 1 in gives 8 out."""
    step, scaled = struct.pack("<f", 1 / 127), struct.pack("<f", _CHANNELS / 127)
    weights = b"\x7f" * _CHANNELS * _CHANNELS
    zeros = ("x_z", "x_dz", "w_z", "y_z", "y_dz")
    graph = (
        _node("QuantizeLinear", "x", "x_s", "x_z", gives="x_q"),
        _node("DequantizeLinear", "x_q", "x_s", "x_dz", gives="x_d"),
        _node("DequantizeLinear", "w", "w_s", "w_z", gives="w_d"),
        _node("Conv", "x_d", "w_d", gives="sums"),
        _node("QuantizeLinear", "sums", "y_s", "y_z", gives="y_q"),
        _node("DequantizeLinear", "y_q", "y_s", "y_dz", gives="y"),
        part(2, "probe"),
        _tensor("w", _INT8, (_CHANNELS, _CHANNELS, 1, 1), weights),
        _tensor("x_s", _FLOAT, (), step),
        _tensor("w_s", _FLOAT, (), step),
        _tensor("y_s", _FLOAT, (), scaled),
        *(_tensor(name, _INT8, (), b"\0") for name in zeros),
        _edge(11, "x"),
        _edge(12, "y"),
    )
    opset = part(8, part(1, "") + part(2, 17))
    return part(1, 8) + part(7, b"".join(graph)) + opset


def _node(operator: str, *inputs: str, gives: str) -> bytes:
    named = b"".join(part(1, name) for name in inputs)
    return part(1, named + part(2, gives) + part(3, gives) + part(4, operator))


def _tensor(name: str, kind: int, shape: tuple[int, ...], content: bytes) -> bytes:
    sides = b"".join(part(1, side) for side in shape)
    return part(5, sides + part(2, kind) + part(8, name) + part(9, content))


def _edge(number: int, name: str) -> bytes:
    sides = (1, _CHANNELS, _SIDE, _SIDE)
    shape = part(2, b"".join(part(1, part(1, side)) for side in sides))
    return part(number, part(1, name) + part(2, part(1, part(1, _FLOAT) + shape)))
