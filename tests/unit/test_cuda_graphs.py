"""CUDA graphs: the real cuda-bindings on the emulated driver."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from emulator import Emulator

from edge_sdk.buffers.cuda import CudaBuffer, CudaDevice, CudaStream
from edge_sdk.buffers.cuda_graphs import capture
from edge_sdk.buffers.kinds import DEVICE, PINNED
from edge_sdk.errors import CudaError, DeviceNotFoundError, StateError


@pytest.fixture
def device(emulator: Emulator) -> Iterator[CudaDevice]:
    with CudaDevice.open() as opened:
        emulator.reset_counts()
        yield opened


@pytest.fixture
def stream(device: CudaDevice) -> Iterator[CudaStream]:
    made = device.new_stream()
    yield made
    made.close()


@pytest.fixture
def buffer(device: CudaDevice) -> Iterator[CudaBuffer]:
    made = device.allocate(100, PINNED)
    yield made
    made.free()


def test_a_graph_runs_when_launched_and_sees_new_input(
    emulator: Emulator, stream: CudaStream, buffer: CudaBuffer
) -> None:
    host = buffer.as_array("uint8", (100,))
    with capture(stream, lambda: stream.upload(buffer)) as graph:
        ran = emulator.count("operations_run")
        stream.synchronize()
        assert emulator.count("operations_run") == ran, "captured work does not run"
        for value in (3, 4):
            host[:] = value
            graph.launch(stream)
            stream.synchronize()
            assert (emulator.memory(buffer.device_pointer, 100) == value).all()
    assert emulator.count("graph_launches") == 2
    assert emulator.count("host_to_device_bytes") == 200


def test_a_second_stream_may_take_part_and_must_come_back(
    emulator: Emulator, device: CudaDevice, stream: CudaStream, buffer: CudaBuffer
) -> None:
    other, out, back = device.new_stream(), device.new_event(), device.new_event()

    def fork(join: bool) -> None:
        stream.record(out)
        other.wait(out)
        other.upload(buffer)
        if join:
            other.record(back)
            stream.wait(back)

    graph = capture(stream, lambda: fork(join=True))
    graph.launch(stream)
    stream.synchronize()
    assert emulator.count("host_to_device_bytes") == 100
    graph.close()
    graph.close()
    with pytest.raises(StateError, match="capture it again"):
        graph.launch(stream)
    with pytest.raises(CudaError, match=r"cuStreamEndCapture failed: capturing stream has unjoined work"):
        capture(stream, lambda: fork(join=False))
    for item in (other, out, back):
        item.close()


def test_a_failure_inside_leaves_the_stream_usable(
    emulator: Emulator, stream: CudaStream, buffer: CudaBuffer
) -> None:
    def refuse() -> None:
        stream.upload(buffer)
        raise ValueError("the library refused")

    with pytest.raises(ValueError, match="the library refused"):
        capture(stream, refuse)
    assert emulator.count("live_graphs") == 0
    stream.upload(buffer)
    stream.synchronize()


@pytest.mark.parametrize("what", ["wait", "wait for all", "allocate", "free"])
def test_waiting_and_allocating_inside_are_refused(
    emulator: Emulator, device: CudaDevice, stream: CudaStream, buffer: CudaBuffer, what: str
) -> None:
    forbidden = {
        "wait": stream.synchronize,
        "wait for all": device.synchronize,
        "allocate": lambda: device.allocate(1, DEVICE),
    }
    if what == "free":
        victim = device.allocate(1, DEVICE)
        with pytest.raises(CudaError, match=r"cuStreamEndCapture failed.*CAPTURE_INVALIDATED"):
            capture(stream, victim.free)
    else:
        with pytest.raises(CudaError, match="not permitted when stream is capturing"):
            capture(stream, forbidden[what])
    stream.upload(buffer)
    stream.synchronize()
    assert emulator.count("live_graphs") == 0


def test_another_thread_may_allocate_meanwhile(device: CudaDevice, stream: CudaStream) -> None:
    from threading import Thread

    failures: list[BaseException] = []

    def allocate() -> None:
        try:
            device.allocate(1, DEVICE).free()
        except BaseException as error:
            failures.append(error)

    def enqueue() -> None:
        thread = Thread(target=allocate)
        thread.start()
        thread.join()

    capture(stream, enqueue).close()
    assert failures == []


def test_a_graph_that_outlives_its_buffer_fails_and_the_gpu_can_be_opened_again(
    emulator: Emulator, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    device = CudaDevice.open()
    stream, doomed = device.new_stream(), device.allocate(100, PINNED)
    graph = capture(stream, lambda: stream.upload(doomed))
    doomed.free()
    graph.launch(stream)
    with pytest.raises(CudaError, match="an illegal memory access"):
        stream.synchronize()
    # The driver refuses everything from here on, giving back as well; letting go of the context frees all.
    graph.close()
    assert "cuGraphExecDestroy failed: an illegal memory access" in caplog.text
    stream.close()
    device.close()
    assert "cuStreamDestroy failed" in capfd.readouterr().err, "said by pycuda"
    assert emulator.alive() == {}
    with CudaDevice.open() as again, again.new_stream() as works:
        works.synchronize()


def test_without_cuda_bindings_it_says_what_to_install(
    stream: CudaStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(
        DeviceNotFoundError, match=r"pip install 'cuda-bindings>=12\.8.*', or run without graphs"
    ):
        capture(stream, lambda: None)


def test_every_failing_call_frees_what_was_taken(
    emulator: Emulator, stream: CudaStream, buffer: CudaBuffer
) -> None:
    def work() -> None:
        with capture(stream, lambda: stream.upload(buffer)) as graph:
            graph.launch(stream)
            stream.synchronize()

    before = emulator.alive()
    emulator.forget_calls()
    work()
    calls = emulator.calls()
    wanted = {"cuStreamBeginCapture", "cuMemcpyHtoDAsync", "cuStreamEndCapture", "cuGraphInstantiate"}
    assert wanted | {"cuGraphLaunch", "cuStreamSynchronize"} <= set(calls)
    gives_back = {"cuGraphDestroy", "cuGraphExecDestroy", "cuCtxPushCurrent", "cuCtxPopCurrent"}
    # A capture that cannot be ended stays; the driver has no other way out of it.
    for index, name in enumerate(calls):
        if name in gives_back | {"cuStreamEndCapture"}:
            continue
        emulator.fail("*", index + 1, 2)
        with pytest.raises(CudaError, match=f"{name} failed"):
            work()
        assert emulator.stop_failing()
        stream.synchronize()
        assert emulator.alive() == before, f"call {index}, {name}"
        assert emulator.context_depth() == 0
