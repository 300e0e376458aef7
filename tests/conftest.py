"""Fixtures for all tests: toy bundles, made once a session. A test that changes one copies it first."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bundles import write_toy_fusion_bundle, write_toy_single_bundle
from emulator import Emulator, Unavailable, load_emulator
from hypothesis import settings

# A busy machine is no fault of the code under test.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")


# A background job begins with SIGINT ignored, `nohup` with SIGHUP, and a run respects that. Tests of what
# signals do, and the processes they start, must not depend on how the tests were started.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def toy_fusion(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a fusion bundle with all four graphs and fp32 twins. Do not change it."""
    return write_toy_fusion_bundle(tmp_path_factory.mktemp("engines") / "toy-fusion", screen=True)


@pytest.fixture(scope="session")
def toy_single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a single-graph RGB bundle with a uint8 NHWC input. Do not change it."""
    return write_toy_single_bundle(tmp_path_factory.mktemp("engines") / "toy-single")


def _missing(reason: str) -> Any:
    """Skips a test that needs what is not here; in CI, which has everything, fails it."""
    if os.environ.get("CI"):
        pytest.fail(f"in CI this test must run: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def emulated_driver() -> Emulator:
    """The emulated CUDA driver, loaded in place of a real one, with the real pycuda to use it."""
    try:
        driver = load_emulator()
    except Unavailable as reason:
        _missing(str(reason))
    for module, how in (
        ("pycuda", "make test builds it where there is a C++ compiler"),
        ("cuda.bindings", "pip install cuda-bindings"),
    ):
        if importlib.util.find_spec(module.partition(".")[0]) is None:
            _missing(f"needs {module}: {how}")
    return driver


@pytest.fixture
def emulator(emulated_driver: Emulator) -> Iterator[Emulator]:
    """The emulated driver as an integrated GPU, everything at 0. A test must give back all that it took."""
    emulated_driver.become("integrated")
    emulated_driver.reset_counts()
    emulated_driver.forget_calls()
    yield emulated_driver
    emulated_driver.stop_failing()
    emulated_driver.misalign(0)
    assert emulated_driver.alive() == {}
    assert emulated_driver.context_depth() == 0
    assert emulated_driver.count("context_pushes") == emulated_driver.count("context_pops")


@pytest.fixture(params=["10.3", "10.16", "11.4"])
def tensorrt(request: pytest.FixtureRequest, emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The double of TensorRT of each version, on the emulated driver, as the module that `import` finds."""
    yield from _double(request.param, emulator, monkeypatch)


@pytest.fixture
def tensorrt_11(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The same of the newest version alone, for what does not depend on versions."""
    yield from _double("11.4", emulator, monkeypatch)


def _double(version: str, emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from tensorrt_double import make_double

    module = make_double(version, emulator)
    monkeypatch.setitem(sys.modules, "tensorrt", module)
    yield module
    assert module.double.failures == []
