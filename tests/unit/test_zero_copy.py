"""What a frame costs in copies and allocations, by the emulated driver's counters, and what faults leave.

A host function stands in for the graphs: it reads the images and writes a result, by device addresses.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from emulator import Emulator

from edge_sdk.buffers import BufferSpec, Pool, Use, default_kind
from edge_sdk.buffers.cuda import CudaDevice
from edge_sdk.errors import CudaError, DeviceNotFoundError

IMAGES = {"rgb": (1, 48, 64, 3), "thermal": (1, 48, 64, 1)}
FEATURES = {"features": (1, 12, 16, 8)}
RESULTS = {"scores": (1, 48, 2)}
IMAGE_BYTES = 48 * 64 * 3 + 48 * 64
RESULT_BYTES = 48 * 2
FRAMES = 5

HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Frames:
    """Frames through all memory of a fusion engine: images in, features between, a result out."""

    def __init__(self, emulator: Emulator) -> None:
        self.emulator = emulator
        self.device = CudaDevice.open()
        self.closing = [self.device.close]
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        def kind(use: Use) -> str:
            return default_kind(use, integrated=self.device.integrated, can_map_host=self.device.can_map_host)

        specs = [
            BufferSpec(name, shape, "uint8", kind=kind(use))
            for use, tensors in ((Use.IMAGE, IMAGES), (Use.FEATURES, FEATURES), (Use.RESULT, RESULTS))
            for name, shape in tensors.items()
        ]
        self.pool = Pool(specs, self.device.allocate)
        self.closing.append(self.pool.close)
        self.buffers = {spec.name: self.pool.lease(spec.name) for spec in specs}
        self.closing += [buffer.release for buffer in self.buffers.values()]
        self.stream = self.device.new_stream()
        self.closing.append(self.stream.close)
        self.events = []
        for _ in range(2):
            self.events.append(self.device.new_event())
            self.closing.append(self.events[-1].close)
        self._keep = [HostFunction(self._rgb_graph), HostFunction(self._fuse_graph)]

    def _view(self, name: str) -> np.ndarray:
        buffer = self.buffers[name]
        return self.emulator.memory(buffer.device_pointer, buffer.nbytes)

    def _rgb_graph(self, _: object) -> None:
        self._view("features")[:] = self._view("rgb")[0]

    def _fuse_graph(self, _: object) -> None:
        self._view("scores")[:] = self._view("features")[0] + self._view("thermal")[0]

    def answer(self, value: int) -> int:
        """One frame: a picture of this value in, twice the value out."""
        for name in IMAGES:
            self.buffers[name].array[:] = value
        driver = ctypes.CDLL("libcuda.so.1")
        with self.device.current():
            self.stream.record(self.events[0])
            for name in IMAGES:
                self.stream.upload(self.buffers[name])
            for graph in self._keep:
                status = driver.cuLaunchHostFunc(ctypes.c_void_p(self.stream.handle), graph, None)
                if status:
                    raise CudaError("cuLaunchHostFunc", str(status))
            for name in RESULTS:
                self.stream.download(self.buffers[name])
            self.stream.record(self.events[1])
            self.stream.synchronize()
        assert self.events[1].elapsed_ms_since(self.events[0]) > 0
        return int(self.buffers["scores"].array[0, 0, 0])

    def close(self) -> None:
        while self.closing:
            self.closing.pop()()


@pytest.fixture(params=["integrated", "discrete"])
def personality(request: pytest.FixtureRequest, emulator: Emulator) -> str:
    emulator.become(request.param)
    return str(request.param)


@pytest.fixture
def frames(personality: str, emulator: Emulator) -> Iterator[Frames]:
    made = Frames(emulator)
    yield made
    made.close()


def test_a_frame_in_steady_state(emulator: Emulator, personality: str, frames: Frames) -> None:
    frames.answer(1)
    emulator.reset_counts()
    assert [frames.answer(value) for value in range(FRAMES)] == [2 * value for value in range(FRAMES)]
    counts = emulator.counts()
    for never in (
        "device_allocations",
        "device_frees",
        "host_allocations",
        "host_frees",
        "managed_allocations",
        "pageable_copies",
        "illegal_addresses",
    ):
        assert never not in counts
    copied = (counts.get("host_to_device_bytes", 0), counts.get("device_to_host_bytes", 0))
    assert copied == (
        (0, 0) if personality == "integrated" else (FRAMES * IMAGE_BYTES, FRAMES * RESULT_BYTES)
    )
    assert "device_to_device_bytes" not in counts
    assert counts["synchronisations"] == FRAMES
    assert counts["host_functions"] == 2 * FRAMES


def test_load_allocates_once_for_each_kind(emulator: Emulator, personality: str, frames: Frames) -> None:
    probe = 1  # `CudaDevice.open` proves that the GPU works
    counts = emulator.counts()
    assert counts["host_allocations"] == 1
    assert counts["device_allocations"] - probe == (1 if personality == "integrated" else 2)


def test_features_never_visit_the_host(frames: Frames) -> None:
    assert frames.buffers["features"].host is None


@pytest.mark.parametrize("threads", [2])
def test_threads_push_and_pop_for_themselves(
    emulator: Emulator, personality: str, frames: Frames, threads: int
) -> None:
    """Each with its own buffers and stream; one device's context for all."""
    others = [Frames(emulator) for _ in range(threads)]
    wrong: list[object] = []

    def work(mine: Frames) -> None:
        try:
            for value in range(FRAMES):
                if mine.answer(value) != 2 * value:
                    wrong.append(value)
            mine.close()
            if emulator.context_depth():
                wrong.append("a context is left on the thread")
        except BaseException as error:
            wrong.append(error)

    workers = [threading.Thread(target=work, args=(other,)) for other in others]
    for worker in workers:
        worker.start()
    frames.answer(3)
    for worker in workers:
        worker.join()
    assert wrong == []


UNDOES = {
    "cuMemFree",
    "cuMemFreeHost",
    "cuStreamDestroy",
    "cuEventDestroy",
    "cuCtxPopCurrent",
    "cuCtxPushCurrent",
    "cuDevicePrimaryCtxRelease",
}
"""A driver that refuses these leaves nothing to be done: pycuda prints it, the context's end frees."""


def test_a_fault_at_every_call_frees_what_was_taken(emulator: Emulator, personality: str) -> None:
    def life() -> None:
        made = Frames(emulator)
        try:
            made.answer(1)
        finally:
            made.close()

    emulator.forget_calls()
    life()
    calls = emulator.calls()
    struck = set()
    for index, name in enumerate(calls):
        if name in UNDOES:
            continue
        emulator.fail("*", index + 1, 700)
        with pytest.raises((CudaError, DeviceNotFoundError)):
            life()
        assert emulator.stop_failing()
        assert emulator.alive() == {}, f"call {index}, {name}"
        assert emulator.context_depth() == 0, f"call {index}, {name}"
        struck.add(name)
    assert {"cuMemHostAlloc", "cuStreamCreate", "cuEventRecord", "cuStreamSynchronize"} <= struck
    if personality == "discrete":
        assert {"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync"} <= struck


def test_a_driver_that_refuses_to_give_back_is_survived(
    emulator: Emulator, personality: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("cuMemFree", "cuMemFreeHost", "cuStreamDestroy", "cuEventDestroy"):
        made = Frames(emulator)
        made.answer(1)
        emulator.fail(name, 1, 1)
        made.close()
        if emulator.stop_failing():
            assert f"{name} failed" in capfd.readouterr().err
        assert emulator.alive() == {}, name
