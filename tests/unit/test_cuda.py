"""CUDA memory, streams and events: the real pycuda on the emulated driver."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from emulator import Emulator

from edge_sdk.buffers.cuda import CudaDevice, CudaStream
from edge_sdk.buffers.kinds import ALIGNMENT, DEVICE, HOST, KINDS, MANAGED, MAPPED, PINNED
from edge_sdk.errors import ConfigError, CudaError, DeviceError, DeviceNotFoundError, ShapeError, StateError


@pytest.fixture
def device(emulator: Emulator) -> Iterator[CudaDevice]:
    opened = CudaDevice.open()
    emulator.reset_counts()
    yield opened
    opened.close()


@pytest.fixture
def stream(device: CudaDevice) -> Iterator[CudaStream]:
    made = device.new_stream()
    yield made
    made.close()


def test_a_jetson_and_a_card_are_told_apart(emulator: Emulator) -> None:
    with CudaDevice.open() as jetson:
        assert (jetson.integrated, jetson.can_map_host, jetson.concurrent_managed) == (True, True, False)
        assert jetson.compute_capability == (8, 7)
        assert jetson.emulated
    emulator.become("discrete")
    with CudaDevice.open() as card:
        assert (card.integrated, card.concurrent_managed, card.compute_capability) == (False, True, (8, 9))


def test_a_driver_without_gpu_says_so(emulator: Emulator) -> None:
    emulator.become("none")
    with pytest.raises(
        DeviceNotFoundError, match=r"CUDA GPU 0.*cuInit failed.*no CUDA-capable device"
    ) as caught:
        CudaDevice.open()
    assert caught.value.tried[0][0] == "cuInit"


def test_there_is_no_second_gpu(emulator: Emulator) -> None:
    with pytest.raises(DeviceNotFoundError, match="1 GPUs on this machine"):
        CudaDevice.open(1)
    with pytest.raises(ConfigError, match="GPU -1"):
        CudaDevice.open(-1)


def test_a_machine_without_pycuda_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)
    with pytest.raises(DeviceNotFoundError, match=r"import pycuda\.driver.*device='cpu'"):
        CudaDevice.open()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_aligned_zeroed_and_freed(emulator: Emulator, device: CudaDevice, kind: str) -> None:
    buffer = device.allocate(1000, kind)
    assert (buffer.kind, buffer.nbytes, buffer.freed) == (kind, 1000, False)
    if kind != HOST:
        assert buffer.device_pointer % ALIGNMENT == 0
        assert not emulator.memory(buffer.device_pointer, 1000).any()
    if kind != DEVICE:
        assert buffer.host is not None
        assert buffer.host.ctypes.data % ALIGNMENT == 0
        assert not buffer.host.any()
        assert buffer.as_array("uint16", (4, 5)).shape == (4, 5)
    buffer.free()
    buffer.free()
    assert buffer.freed
    for use in (lambda: buffer.host, lambda: buffer.device_pointer, lambda: buffer.as_array("uint8", (1,))):
        with pytest.raises(StateError, match=f"{kind} buffer of 1000 bytes was freed"):
            use()


def test_what_each_kind_takes_from_the_driver(emulator: Emulator, device: CudaDevice) -> None:
    taken = {}
    for kind in KINDS:
        emulator.reset_counts()
        device.allocate(64, kind).free()
        names = ("device_allocations", "host_allocations", "managed_allocations")
        taken[kind] = tuple(emulator.count(name) for name in names)
    assert taken == {
        HOST: (0, 0, 0),
        PINNED: (1, 1, 0),
        MAPPED: (0, 1, 0),
        MANAGED: (0, 0, 1),
        DEVICE: (1, 0, 0),
    }


def test_wrong_requests_touch_nothing(emulator: Emulator, device: CudaDevice) -> None:
    emulator.forget_calls()
    with pytest.raises(ConfigError, match="'fast': expected one of host, pinned"):
        device.allocate(1, "fast")
    with pytest.raises(ConfigError, match="expected 1 byte or more, found 0"):
        device.allocate(0, DEVICE)
    device.can_map_host = False
    with pytest.raises(ConfigError, match="cannot map host memory: use kind 'pinned'"):
        device.allocate(1, MAPPED)
    assert emulator.calls() == []


def test_a_host_view_cannot_be_longer_than_the_buffer(device: CudaDevice) -> None:
    with_host, without = device.allocate(10, PINNED), device.allocate(10, DEVICE)
    with pytest.raises(ShapeError, match="at most 10 bytes, found 12 bytes"):
        with_host.as_array("float32", (3,))
    with pytest.raises(ConfigError, match="cannot be read by the host"):
        without.as_array("uint8", (1,))
    assert without.host is None
    with_host.free()
    without.free()


def test_host_memory_has_no_address_on_the_gpu(device: CudaDevice) -> None:
    buffer = device.allocate(10, HOST)
    with pytest.raises(ConfigError, match="no address on the GPU"):
        _ = buffer.device_pointer
    buffer.free()


def test_pinned_memory_is_copied_when_somebody_waits(device: CudaDevice, stream: CudaStream) -> None:
    buffer = device.allocate(100, PINNED)
    host = buffer.as_array("uint8", (100,))
    host[:] = 7
    stream.upload(buffer)
    stream.synchronize()
    host[:] = 0
    stream.download(buffer)
    assert not host.any(), "read too early, the data is old"
    stream.synchronize()
    assert (host == 7).all()
    buffer.free()


@pytest.mark.parametrize("kind", [MAPPED, MANAGED])
def test_mapped_and_managed_memory_is_not_copied(
    emulator: Emulator, device: CudaDevice, stream: CudaStream, kind: str
) -> None:
    buffer = device.allocate(100, kind)
    buffer.as_array("uint8", (100,))[:] = 7
    stream.upload(buffer)
    stream.download(buffer)
    stream.synchronize()
    assert (emulator.memory(buffer.device_pointer, 100) == 7).all()
    assert emulator.count("host_to_device_bytes") == emulator.count("device_to_host_bytes") == 0
    buffer.free()


@pytest.mark.parametrize("kind", [HOST, DEVICE])
def test_one_half_has_nothing_to_copy_to(device: CudaDevice, stream: CudaStream, kind: str) -> None:
    buffer = device.allocate(100, kind)
    with pytest.raises(ConfigError, match=f"{kind} memory has no other half"):
        stream.upload(buffer)
    buffer.free()
    with pytest.raises(StateError, match="was freed"):
        stream.download(buffer)


def test_a_second_stream_waits_for_an_event(device: CudaDevice, stream: CudaStream) -> None:
    other, event = device.new_stream(), device.new_event()
    buffer = device.allocate(100, PINNED)
    host = buffer.as_array("uint8", (100,))
    host[:] = 9
    stream.upload(buffer)
    stream.record(event)
    other.wait(event)
    other.download(buffer)
    other.synchronize()
    assert (host == 9).all()
    assert event.query()
    for item in (buffer, event, other):
        item.close()


def test_the_time_between_events_is_read_after_the_fact(device: CudaDevice, stream: CudaStream) -> None:
    before, after, never = device.new_event(), device.new_event(), device.new_event()
    buffer = device.allocate(100, PINNED)
    stream.record(before)
    stream.upload(buffer)
    stream.upload(buffer)
    stream.record(after)
    with pytest.raises(StateError, match="have not passed yet"):
        after.elapsed_ms_since(before)
    stream.synchronize()
    # Every operation of the emulated GPU takes one microsecond.
    assert after.elapsed_ms_since(before) == pytest.approx(0.003)
    with pytest.raises(CudaError, match="cuEventElapsedTime failed"):
        never.elapsed_ms_since(before)
    for item in (buffer, before, after, never):
        item.close()


def test_what_is_closed_cannot_be_used(device: CudaDevice) -> None:
    closed, event = device.new_stream(), device.new_event()
    closed.close()
    closed.close()
    event.close()
    event.close()
    for use in (closed.synchronize, lambda: closed.handle, event.query, event.synchronize):
        with pytest.raises(StateError, match="is closed: make a new one"):
            use()


def test_a_closed_device_cannot_be_used(emulator: Emulator) -> None:
    device = CudaDevice.open()
    device.close()
    device.close()
    with pytest.raises(StateError, match="is closed: open it again"):
        device.allocate(1, DEVICE)


def test_closing_frees_what_is_left_and_warns(emulator: Emulator) -> None:
    device = CudaDevice.open()
    buffer, stream, event = device.allocate(7, PINNED), device.new_stream(), device.new_event()
    with pytest.warns(ResourceWarning, match="closed with 3 in use: event, pinned buffer of 7 bytes, stream"):
        device.close()
    assert emulator.alive() == {}
    assert emulator.count("leaked_by_release") == 0
    assert buffer.freed
    with pytest.raises(StateError):
        stream.synchronize()
    with pytest.raises(StateError):
        event.query()


def test_a_device_that_is_never_closed_warns(emulator: Emulator) -> None:
    device = CudaDevice.open()
    with pytest.warns(ResourceWarning, match="was never closed"):
        device.__del__()
    device.close()


def test_closing_inside_current_is_refused(device: CudaDevice) -> None:
    with device.current(), pytest.raises(StateError, match="not inside"):
        device.close()


def test_contexts_are_pushed_once_for_a_block_and_popped_after_an_error(
    emulator: Emulator, device: CudaDevice
) -> None:
    def work() -> None:
        with device.current():
            assert emulator.context_depth() == 1
            device.allocate(1, DEVICE).free()
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert emulator.context_depth() == 0
    assert emulator.count("context_pushes") == emulator.count("context_pops") == 1


def test_another_thread_may_use_free_and_close(emulator: Emulator) -> None:
    device = CudaDevice.open()
    mine = device.allocate(10, PINNED)
    depths = []

    def work() -> None:
        stream, theirs = device.new_stream(), device.allocate(10, MAPPED)
        stream.upload(mine)
        stream.synchronize()
        for item in (theirs, mine, stream):
            item.close()
        device.close()
        depths.append(emulator.context_depth())

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert [str(item.message) for item in warned] == []
    assert depths == [0]


def test_the_programs_own_context_is_left_as_it_was(emulator: Emulator) -> None:
    import pycuda.driver as cuda

    cuda.init()
    own = cuda.Device(0).make_context()
    device = CudaDevice.open()
    device.allocate(1, DEVICE).free()
    device.close()
    assert cuda.Context.get_current() == own
    cuda.mem_alloc(1).free()
    assert emulator.context_depth() == 1
    own.pop()
    own.push()
    own.detach()
    emulator.reset_counts()


def test_an_address_that_is_not_aligned_is_refused(emulator: Emulator, device: CudaDevice) -> None:
    emulator.misalign(64)
    for kind in (PINNED, MAPPED, MANAGED, DEVICE):
        with pytest.raises(DeviceError, match=f"{kind} memory: expected addresses that are multiples of 256"):
            device.allocate(10, kind)
    assert emulator.count("live_allocations") == 0


def test_want_of_memory_says_what_to_do(device: CudaDevice) -> None:
    with pytest.raises(CudaError, match=r"cuMemAlloc failed: out of memory\. Close what else") as caught:
        device.allocate(1 << 40, DEVICE)
    assert (caught.value.call, caught.value.problem) == ("cuMemAlloc", "out of memory")


def test_half_an_allocation_is_freed_at_once_and_not_by_chance(
    emulator: Emulator, device: CudaDevice
) -> None:
    emulator.fail("cuMemAlloc", 1, 1)
    with pytest.raises(CudaError) as caught:
        device.allocate(10, PINNED)
    assert emulator.count("host_allocations") == 1
    assert emulator.count("live_allocations") == 0, "while the error still holds what was half made"
    assert caught.value.call == "cuMemAlloc"


def _whole_life() -> None:
    """Every call of the driver that buffers, streams and events make."""
    with CudaDevice.open() as device:
        items = []
        try:
            for make in (device.new_stream, device.new_event, device.new_event):
                items.append(make())
            stream, before, after = items
            for kind in KINDS:
                buffer = device.allocate(10, kind)
                items.append(buffer)
                if kind not in (HOST, DEVICE):
                    stream.record(before)
                    stream.upload(buffer)
                    stream.download(buffer)
                    stream.record(after)
                    stream.wait(after)
                    stream.synchronize()
                    after.elapsed_ms_since(before)
            device.synchronize()
        finally:
            for item in reversed(items):
                item.close()


GIVES_BACK = ("cuMemFree", "cuMemFreeHost", "cuStreamDestroy", "cuEventDestroy")
ENDS = ("cuCtxPopCurrent", "cuCtxPushCurrent", "cuDevicePrimaryCtxRelease")


def test_every_failing_call_frees_what_was_taken(emulator: Emulator) -> None:
    _whole_life()
    calls = emulator.calls()
    assert len(set(calls)) > 20
    tried = [index for index, name in enumerate(calls) if name not in GIVES_BACK + ENDS]
    for index in tried:
        emulator.fail("*", index + 1, 700)
        with pytest.raises((CudaError, DeviceNotFoundError)):
            _whole_life()
        assert emulator.stop_failing()
        assert emulator.alive() == {}, f"call {index}, {calls[index]}"
        assert emulator.context_depth() == 0, f"call {index}, {calls[index]}"


def test_the_host_cannot_read_device_memory(emulator: Emulator) -> None:
    died = _run_alone(
        emulator, "import ctypes; ctypes.string_at(device.allocate(8, 'device').device_pointer, 8)"
    )
    assert died == -11


def test_memory_has_a_guard_page_behind_it(emulator: Emulator) -> None:
    died = _run_alone(
        emulator,
        "b = device.allocate(4096, 'mapped'); import ctypes; ctypes.string_at(b.host.ctypes.data, 4097)",
    )
    assert died == -11


def test_a_view_kept_beyond_free_is_noticed(emulator: Emulator) -> None:
    assert (
        _run_alone(emulator, "b = device.allocate(8, 'mapped'); view = b.host; b.free(); print(view[0])")
        == -11
    )


def test_managed_memory_of_a_jetson_is_shut_while_the_gpu_works(emulator: Emulator) -> None:
    code = (
        "b, p, s = device.allocate(8, 'managed'), device.allocate(8, 'pinned'), device.new_stream(); "
        "s.upload(p)"
    )
    assert _run_alone(emulator, f"{code}; print(b.host[0])") == -11
    assert _run_alone(emulator, f"{code}; s.synchronize(); print(b.host[0])") == 0
    assert _run_alone(emulator, f"{code}; print(b.host[0])", "discrete") == 0


def _run_alone(emulator: Emulator, code: str, personality: str = "integrated") -> int:
    """Runs code in a process of its own, which may crash. Returns its exit status."""
    tests = Path(__file__).resolve().parents[1]
    begin = (
        f"import sys; sys.path.insert(0, {str(tests)!r}); from emulator import load_emulator; "
        f"load_emulator().become({personality!r}); from edge_sdk.buffers.cuda import CudaDevice; "
        "device = CudaDevice.open(); "
    )
    done = subprocess.run([sys.executable, "-c", begin + code], capture_output=True, text=True, check=False)
    assert done.returncode in (0, -11), done.stderr
    return done.returncode
