"""Host buffers: allocated once, lent, given back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sdk.buffers import ALIGNMENT, BufferSpec, HostPool
from edge_sdk.errors import ConfigError, PoolExhaustedError, StateError


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=6))
def test_buffers_are_aligned_zeroed_and_apart(shapes: list[tuple[int, int]]) -> None:
    specs = [
        BufferSpec(str(index), shape, "uint8" if index % 2 else "float32")
        for index, shape in enumerate(shapes)
    ]
    pool = HostPool(specs)
    buffers = [pool.lease(spec.name) for spec in specs]
    for index, (spec, buffer) in enumerate(zip(specs, buffers, strict=True)):
        assert buffer.pointer % ALIGNMENT == 0
        assert buffer.array.shape == spec.shape
        assert buffer.array.dtype == spec.dtype
        assert not buffer.array.any()
        assert buffer.nbytes == spec.nbytes
        buffer.array.fill(index + 1)
    assert all((buffer.array == index + 1).all() for index, buffer in enumerate(buffers))
    assert pool.nbytes >= sum(spec.nbytes for spec in specs)
    for buffer in buffers:
        buffer.release()
    pool.close()


def test_memory_comes_back_and_is_lent_again() -> None:
    pool = HostPool([BufferSpec("frame", (4, 4), "uint8")])
    with pool.lease("frame") as buffer:
        first = buffer.pointer
        assert pool.lent == ("frame",)
    assert pool.lent == ()
    with pool.lease("frame") as buffer:
        assert buffer.pointer == first
    pool.close()


def test_a_buffer_given_back_cannot_be_used() -> None:
    pool = HostPool([BufferSpec("frame", (4, 4), "uint8")])
    buffer = pool.lease("frame")
    buffer.release()
    buffer.release()
    with pytest.raises(StateError, match="'frame' was given back"):
        buffer.array  # noqa: B018
    with pytest.raises(StateError, match="'frame' was given back"):
        buffer.pointer  # noqa: B018
    assert pool.lent == ()
    assert "given back" in repr(buffer)


def test_a_pool_lent_out_refuses() -> None:
    pool = HostPool([BufferSpec("frame", (4, 4), "uint8", count=2)])
    with (
        pool.lease("frame"),
        pool.lease("frame"),
        pytest.raises(PoolExhaustedError, match=r"all 2 lent out.*count=3"),
    ):
        pool.lease("frame")
    pool.close()


def test_leaks_are_warned_of_at_close() -> None:
    pool = HostPool([BufferSpec("frame", (4, 4), "uint8"), BufferSpec("other", (1,), "uint8")])
    buffer = pool.lease("frame")
    with pytest.warns(ResourceWarning, match="lent out: frame"):
        pool.close()
    pool.close()
    buffer.release()
    with pytest.raises(StateError, match="the pool is closed"):
        pool.lease("other")


@pytest.mark.parametrize(
    ("specs", "problem"),
    [
        ([BufferSpec("a", (1,), "uint8"), BufferSpec("a", (2,), "uint8")], "named twice"),
        ([BufferSpec("a", (0, 4), "uint8")], "at least one byte"),
        ([BufferSpec("a", (1,), "uint8", count=0)], "at least one buffer"),
    ],
)
def test_unsound_requests_are_refused(specs: list[BufferSpec], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        HostPool(specs)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with (
        HostPool([BufferSpec("rgb", (1,), "uint8")]) as pool,
        pytest.raises(ConfigError, match="pool has rgb"),
    ):
        pool.lease("thermal")


def test_steady_use_touches_the_same_memory() -> None:
    with HostPool([BufferSpec("a", (64, 64), "float16", count=2)]) as pool:
        seen = set()
        for _ in range(100):
            with pool.lease("a") as buffer:
                seen.add(buffer.pointer)
                np.add(buffer.array, 1, out=buffer.array)
        assert len(seen) == 1
