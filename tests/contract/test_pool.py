"""What every pool of buffers must do, with ordinary memory and with every kind that a GPU has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from emulator import Emulator

from edge_sdk.buffers import ALIGNMENT, KINDS, BufferSpec, HostMemory, Memory, Pool
from edge_sdk.buffers.cuda import CudaDevice
from edge_sdk.errors import ConfigError, CudaError, PoolExhaustedError, StateError

Allocate = Callable[[int, str], Memory]
CPU = "host, without a GPU"


@pytest.fixture(params=[CPU, *KINDS])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param).partition(",")[0]


@pytest.fixture
def allocate(request: pytest.FixtureRequest, kind: str) -> Iterator[Allocate]:
    if request.node.callspec.params["kind"] == CPU:
        yield HostMemory
        return
    request.getfixturevalue("emulator")
    with CudaDevice.open() as device:
        yield device.allocate


def spec(name: str, kind: str, shape: tuple[int, ...] = (3, 5), count: int = 1) -> BufferSpec:
    return BufferSpec(name, shape, "uint16", count, kind)


def test_each_piece_is_a_memory(allocate: Allocate, kind: str) -> None:
    memory = allocate(100, kind)
    with Pool([spec("a", kind)], allocate) as pool:
        pieces: list[tuple[Memory, int]] = [(memory, 100), (pool.lease("a"), 30)]
        for piece, nbytes in pieces:
            assert (piece.kind, piece.nbytes, piece.freed) == (kind, nbytes, False)
            host = piece.host
            assert (host is None) == (kind == "device")
            assert host is None or (host.dtype, host.shape) == (np.uint8, (nbytes,))
            piece.free()
            piece.free()
            assert piece.freed
            with pytest.raises(StateError):
                _ = piece.device_pointer


def test_buffers_are_aligned_zeroed_and_apart(allocate: Allocate, kind: str) -> None:
    with Pool([spec("a", kind), spec("b", kind, (7,), count=2)], allocate) as pool:
        assert pool.nbytes == 3 * ALIGNMENT
        buffers = [pool.lease(name) for name in ("a", "b", "b")]
        if kind != "device":
            for value, buffer in enumerate(buffers):
                assert buffer.array.dtype == np.uint16
                assert buffer.pointer % ALIGNMENT == 0
                assert not buffer.array.any()
                buffer.array[:] = value
            assert [int(buffer.array.max()) for buffer in buffers] == [0, 1, 2]
            assert buffers[0].array is buffers[0].array
        if kind != "host":
            pointers = sorted(buffer.device_pointer for buffer in buffers)
            assert all(pointer % ALIGNMENT == 0 for pointer in pointers)
            assert np.diff(pointers).tolist() == [ALIGNMENT, ALIGNMENT]
        for buffer in buffers:
            buffer.release()


def test_memory_that_one_side_cannot_reach_says_so(allocate: Allocate, kind: str) -> None:
    with Pool([spec("a", kind)], allocate) as pool, pool.lease("a") as buffer:
        if kind == "device":
            assert buffer.host is None
            with pytest.raises(ConfigError, match="'a' is device memory: the host cannot read it"):
                _ = buffer.array
        if kind == "host":
            with pytest.raises(ConfigError, match="host memory has no address on the GPU"):
                _ = buffer.device_pointer


def test_what_was_given_back_cannot_be_used_and_is_lent_again(allocate: Allocate, kind: str) -> None:
    with Pool([spec("a", kind)], allocate) as pool:
        buffer = pool.lease("a")
        with pytest.raises(PoolExhaustedError, match="all 1 lent out"):
            pool.lease("a")
        buffer.release()
        buffer.free()
        for use in (lambda: buffer.array, lambda: buffer.host, lambda: buffer.device_pointer):
            with pytest.raises(StateError, match="'a' was given back"):
                use()
        pool.lease("a").release()


def test_a_leak_is_a_warning_and_the_memory_is_gone(allocate: Allocate, kind: str) -> None:
    pool = Pool([spec("a", kind)], allocate)
    buffer = pool.lease("a")
    with pytest.warns(ResourceWarning, match="closed while lent out: a"):
        pool.close()
    pool.close()
    with pytest.raises(StateError, match="its memory gone"):
        _ = buffer.host
    with pytest.raises(StateError, match="the pool is closed"):
        pool.lease("a")


def test_everything_is_checked_before_anything_is_allocated(kind: str) -> None:
    def never(nbytes: int, kind: str) -> Memory:
        raise AssertionError(f"{nbytes} bytes of {kind} were allocated")

    good = spec("a", kind)
    for bad, problem in (
        (good, "named twice"),
        (spec("b", kind, (0,)), "at least one byte"),
        (spec("b", "fast"), "memory kind 'fast': expected one of host, pinned, mapped, managed, device"),
    ):
        with pytest.raises(ConfigError, match=problem):
            Pool([good, bad], never)


def test_without_a_gpu_there_is_ordinary_memory_only() -> None:
    with pytest.raises(ConfigError, match="mapped memory needs a GPU"):
        Pool([spec("a", "mapped")], HostMemory)


def test_a_pool_takes_one_allocation_of_each_kind(emulator: Emulator) -> None:
    with CudaDevice.open() as device:
        emulator.reset_counts()
        specs = [spec(f"{kind} {index}", kind, count=3) for kind in KINDS for index in range(4)]
        with Pool(specs, device.allocate) as pool:
            counts = emulator.counts()
            with pool.lease("mapped 0"), pool.lease("device 3"), pool.lease("pinned 1"):
                pass
            assert emulator.counts() == counts, "leasing asks nothing of the driver"
    # Pinned memory has a half on each side.
    assert counts["device_allocations"] == 2
    assert counts["host_allocations"] == 2
    assert counts["managed_allocations"] == 1


@pytest.mark.parametrize("refused", ["cuMemAlloc", "cuMemHostAlloc", "cuMemAllocManaged"])
def test_a_pool_that_cannot_be_made_frees_what_it_took(emulator: Emulator, refused: str) -> None:
    with CudaDevice.open() as device:
        before = emulator.alive()
        emulator.fail(refused, 1, code=1)  # pycuda asks a second time when memory is short
        with pytest.raises(CudaError, match=f"{refused} failed: invalid"):
            Pool([spec(kind, kind) for kind in KINDS], device.allocate)
        assert emulator.stop_failing()
        assert emulator.alive() == before
