"""A live page over a run of toy pairs, on a thread, for tests that are its viewers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from pairs import make_pair

from edge_sdk.frames import FramePair
from edge_sdk.live.alarms import AlarmRule
from edge_sdk.live.guard import Address
from edge_sdk.live.server import LiveServer
from edge_sdk.live.session import LiveOptions, LiveSession
from edge_sdk.pipeline import load
from edge_sdk.recording import RecordingPlan
from edge_sdk.runs import run_source
from edge_sdk.sources import MemorySource


@dataclass
class Scene:
    """What the fake cameras see; tests change it while the run goes on."""

    hot: bool = False
    dark: bool = False
    no_rgb: bool = False
    no_thermal: bool = False
    hangs: threading.Event = field(default_factory=threading.Event)


class FakeCameras(MemorySource):
    """Two cameras at about 20 Hz that show a scene; either can be lost, or both hang."""

    def __init__(self, scene: Scene) -> None:
        super().__init__((), uri="memory:fake cameras")
        self._scene, self._numbers = scene, count()
        self.ended = threading.Event()

    def __next__(self) -> FramePair:
        self.ended.wait(0.05)
        while self._scene.hangs.is_set() and not self.ended.is_set():
            self.ended.wait(0.05)
        if self.ended.is_set():
            raise StopIteration
        number, scene = next(self._numbers), self._scene
        pair = make_pair(
            number, hot=scene.hot, dark=scene.dark, no_rgb=scene.no_rgb, no_thermal=scene.no_thermal
        )
        return replace(pair, skew_ms=0.0)


@dataclass
class Live:
    """A page that is up."""

    server: LiveServer
    session: LiveSession
    scene: Scene
    folder: Path

    @property
    def url(self) -> str:
        return self.server.url


@contextmanager
def live_page(engine: Path, folder: Path, **options: Any) -> Iterator[Live]:
    """Serves a run of fake cameras until the block ends."""
    scene = Scene()
    asked = {
        "serve": Address("127.0.0.1", 0),
        "record_on_demand": RecordingPlan(folder / "recordings", when_behind="drop"),
        "registration_file": folder / "registration.json",
        "alarms": AlarmRule(classes=("hot",)),
        **options,
    }
    with load(str(engine), device="cpu", threads=1) as detector:
        cameras = FakeCameras(scene)
        with LiveSession(detector, cameras, LiveOptions(**asked), asked_engine=str(engine)) as live:
            failed: list[BaseException] = []
            run = threading.Thread(target=_run, args=(detector, live, failed))
            run.start()
            try:
                assert live.server is not None
                yield Live(live.server, live, scene, folder)
            finally:
                cameras.ended.set()
                run.join()
        assert not failed, failed


def _run(detector: Any, live: LiveSession, failed: list[BaseException]) -> None:
    try:
        run_source(detector, live.source, on_bad="skip", force=live.force, observers=live.observers)
    except BaseException as error:
        failed.append(error)


def eventually(check: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Asks again until the answer is true; that answer, or the last one."""
    gate = threading.Event()
    for _ in range(int(seconds / 0.05)):
        if answer := check():
            return answer
        gate.wait(0.05)
    return check()
