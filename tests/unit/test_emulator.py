"""The emulated driver notices the mistakes it is there to notice. The real pycuda makes them."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import emulated_driver
import numpy as np
import pytest
from emulator import Emulator

INVALID_CONTEXT, CONTEXT_IS_DESTROYED, NOT_PERMITTED = 201, 709, 800


@pytest.fixture
def cuda(emulator: Emulator) -> Iterator[Any]:
    """pycuda, with the primary context current."""
    from pycuda import driver

    driver.init()
    context = driver.Device(0).retain_primary_context()
    context.push()
    yield driver
    context.detach()
    emulated = ctypes.CDLL(str(emulator.path))
    assert emulated.cuCtxPopCurrent_v2(None) == 0


def test_its_sources_compile_without_a_warning(tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc")
    for source in sorted(emulated_driver.SOURCES.glob("*.c")):
        command = [compiler, *emulated_driver.FLAGS, "-Werror", "-c", str(source), "-o", str(tmp_path / "o")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_no_counter_of_an_unknown_name(emulator: Emulator) -> None:
    with pytest.raises(KeyError, match="live_zebras"):
        emulator.count("live_zebras")
    with pytest.raises(ValueError, match="no personality 'zebra'"):
        emulator.become("zebra")


def test_a_copy_of_ordinary_memory_is_counted_and_not_asynchronous(emulator: Emulator, cuda: Any) -> None:
    device, stream = cuda.mem_alloc(64), cuda.Stream()
    cuda.memcpy_htod_async(device, np.full(64, 5, np.uint8), stream)
    assert emulator.count("pageable_copies") == 1
    assert (emulator.memory(int(device), 64) == 5).all()


def test_a_copy_beyond_the_end_is_refused(emulator: Emulator, cuda: Any) -> None:
    device = cuda.mem_alloc(64)
    with pytest.raises(cuda.LogicError, match="cuMemcpyHtoD failed: invalid"):
        cuda.memcpy_htod(device, np.zeros(65, np.uint8))
    with pytest.raises(cuda.LogicError):
        cuda.memcpy_htod(int(device) + 64, np.zeros(1, np.uint8))
    assert emulator.count("illegal_addresses") == 2


def test_host_and_device_addresses_are_not_the_same(emulator: Emulator, cuda: Any) -> None:
    mapped = cuda.pagelocked_empty(64, np.uint8, mem_flags=cuda.host_alloc_flags.DEVICEMAP)
    host, device = mapped.ctypes.data, mapped.base.get_device_pointer()
    assert host != device
    with pytest.raises(cuda.LogicError):
        cuda.memcpy_dtod(device, host, 64)


def test_freed_memory_is_not_found_again(emulator: Emulator, cuda: Any) -> None:
    device = cuda.mem_alloc(64)
    address = int(device)
    device.free()
    again = cuda.mem_alloc(64)
    assert int(again) != address
    with pytest.raises(ValueError, match="not within one allocation"):
        emulator.memory(address, 64)


def test_each_query_lets_one_operation_run(emulator: Emulator, cuda: Any) -> None:
    stream, device, host = cuda.Stream(), cuda.mem_alloc(8), cuda.pagelocked_empty(8, np.uint8)
    for _ in range(3):
        cuda.memcpy_htod_async(device, host, stream)
    assert [stream.is_done() for _ in range(3)] == [False, False, True]
    assert emulator.count("operations_run") == 3


def test_a_host_function_may_not_call_the_driver(emulator: Emulator, cuda: Any) -> None:
    driver = ctypes.CDLL(str(emulator.path))
    answers = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def function(_: object) -> None:
        answers.append(driver.cuCtxSynchronize())

    stream = cuda.Stream()
    assert driver.cuLaunchHostFunc(ctypes.c_void_p(stream.handle), function, None) == 0
    assert answers == [], "nothing runs before somebody waits"
    stream.synchronize()
    assert answers == [NOT_PERMITTED]


def test_a_call_without_a_context_is_refused(emulator: Emulator) -> None:
    driver, pointer = ctypes.CDLL(str(emulator.path)), ctypes.c_uint64()
    assert driver.cuInit(0) == 0
    assert driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(8)) == INVALID_CONTEXT
    assert driver.cuCtxPopCurrent_v2(None) == INVALID_CONTEXT


def test_the_end_of_the_context_frees_and_counts_what_leaked(emulator: Emulator) -> None:
    driver = ctypes.CDLL(str(emulator.path))
    context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
    assert driver.cuInit(0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxPushCurrent_v2(context) == 0
    assert driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(8)) == 0
    assert driver.cuDevicePrimaryCtxRelease_v2(0) == 0
    assert emulator.count("leaked_by_release") == 1
    assert driver.cuCtxSynchronize() == CONTEXT_IS_DESTROYED, (
        "the context is destroyed, and still on the stack"
    )
    assert driver.cuCtxPopCurrent_v2(None) == 0
