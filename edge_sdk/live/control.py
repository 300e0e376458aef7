"""What a viewer may change in a run: the route, the registration, and whether it is recorded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from edge_sdk.errors import ConfigError, DeviceError, SaveError
from edge_sdk.frames import FramePair, Registration, RegistrationBy
from edge_sdk.measurements import FrameResult, Route
from edge_sdk.recording import RunRecording
from edge_sdk.registering import RegistrationFit
from edge_sdk.saving import save_json

__all__ = ["Control", "SteeredSource"]

StartRecording = Callable[[], RunRecording]


class Control:
    """Holds a viewer's wishes and gives them to the run: an observer, and its `force`.

    Safe from several threads. A wish that cannot be met for a pair (a route whose camera is missing) is
    put aside for that pair, never an error of the run.

    Arguments:
        start_recording: makes a recording; None where recording is not allowed.
        registration_file: where a registration is saved; None where that is not allowed.
        force: the route that is forced from the start, or None.

    Attributes:
        stopped: set it to end the run after the pair in hand.
    """

    def __init__(
        self,
        *,
        start_recording: StartRecording | None = None,
        registration_file: Path | None = None,
        force: Route | None = None,
    ) -> None:
        self._start_recording, self._registration_file = start_recording, registration_file
        self._lock = threading.Lock()
        self._recording: RunRecording | None = None
        self._last_recording = ""
        self._recording_problem = ""
        self._force = force
        self._fit: RegistrationFit | None = None
        self._saved = ""
        self.stopped = False

    # The run asks ---------------------------------------------------------------------------------

    def force_for(self, pair: FramePair) -> Route | None:
        """Returns the route that a viewer forces on this pair, or None."""
        force = self._force
        lacks_rgb = pair.rgb is None and force in (Route.RGB, Route.FUSE)
        lacks_thermal = pair.thermal is None and force in (Route.THERMAL, Route.FUSE)
        return None if lacks_rgb or lacks_thermal else force

    @property
    def registration(self) -> Registration | None:
        """The registration that a viewer applied, or None."""
        fit = self._fit
        return None if fit is None else fit.registration

    @property
    def is_recording(self) -> bool:
        """Whether pairs are being recorded now."""
        recording = self._recording
        return recording is not None and not recording.state.ended

    @property
    def conditions(self) -> list[str]:
        """What the run's record must say of the recording that goes on, or ended by itself."""
        recording = self._recording
        return [] if recording is None else recording.conditions

    def arrived(self, pair: FramePair) -> None:
        """See `Observer.arrived`."""
        if (recording := self._recording) is not None:
            recording.arrived(pair)

    def answered(self, pair: FramePair, result: FrameResult) -> None:
        """See `Observer.answered`."""
        if (recording := self._recording) is not None:
            recording.answered(pair, result)

    def unanswered(self, pair: FramePair | None, key: str, why: str) -> None:
        """See `Observer.unanswered`."""
        if (recording := self._recording) is not None:
            recording.unanswered(pair, key, why)

    # A viewer asks --------------------------------------------------------------------------------

    def set_force(self, route: str | None) -> None:
        """Forces a route from the next pair on, or leaves it to the gate again.

        Raises:
            ConfigError: no such route.
        """
        if route is not None and route not in [known.value for known in Route]:
            raise ConfigError(f"force: expected rgb, fuse, thermal or null, found {route!r}")
        self._force = None if route is None else Route(route)

    def record(self, wanted: bool) -> None:
        """Starts a recording, or ends the one that goes on.

        Raises:
            ConfigError: recording is not allowed here, or the file cannot be made.
        """
        with self._lock:
            if wanted and not self.is_recording:
                if self._start_recording is None:
                    raise ConfigError("this run was started without a place for recordings")
                self._end_recording()
                self._recording = self._start_recording()
            elif not wanted:
                self._end_recording()

    def begin(self, recording: RunRecording) -> None:
        """Takes over a recording that the run starts with."""
        with self._lock:
            self._end_recording()
            self._recording = recording

    def apply_registration(self, fit: RegistrationFit | None) -> None:
        """Uses a registration from the next pair on; None goes back to the source's own."""
        self._fit, self._saved = fit, ""

    def save_registration(self) -> Path:
        """Writes the applied registration to its file, whole or not at all.

        Raises:
            ConfigError: none is applied, or saving is not allowed here.
            DeviceError: the file cannot be written.
        """
        fit, path = self._fit, self._registration_file
        if fit is None:
            raise ConfigError("no picked registration is applied: apply one first")
        if path is None:
            raise ConfigError("this run was started without a file for registrations")
        registration = fit.registration
        content = {
            "homography_thermal_to_rgb": registration.homography,
            "rgb_size_wh": registration.rgb_size_wh,
            "thermal_size_wh": registration.thermal_size_wh,
            "pixel_convention": "corner",
            "origin": registration.origin,
            "residual_rms_px": fit.rms_px,
        }
        try:
            path.absolute().parent.mkdir(parents=True, exist_ok=True)
            save_json(path, content)
        except SaveError as error:
            raise DeviceError(f"{path}: cannot be written: {error.problem}") from error
        except OSError as error:
            raise DeviceError(f"{path}: cannot be written: {error.strerror or error}") from error
        self._saved = path.name
        return path

    def as_json(self) -> dict[str, Any]:
        """Returns how all wishes stand."""
        recording, fit, force = self._recording, self._fit, self._force
        state = recording.state if recording is not None else None
        return {
            "force": None if force is None else force.value,
            "recording": {
                "allowed": self._start_recording is not None,
                "on": state is not None and not state.ended,
                "pairs": state.pairs if state else 0,
                "mb": round(state.nbytes / 1e6, 1) if state else 0.0,
                "left_out": state.left_out if state else 0,
                "ended": state.ended if state else "",
                "held": state.held if state else "",
                "file": state.paths[-1].name if state and state.paths else "",
                "last": self._last_recording,
            },
            "registration": {
                "origin": fit.registration.origin if fit else "",
                "rms_px": fit.rms_px if fit else None,
                "saved": self._saved,
                "can_save": self._registration_file is not None,
            },
        }

    @property
    def last_recording(self) -> str:
        """How the last recording ended, for people; "" where there was none."""
        return self._last_recording

    @property
    def recording_problem(self) -> str:
        """What the last recording failed with; "" where it is whole, or ended at its limit."""
        return self._recording_problem

    def close(self) -> None:
        """Ends a recording that goes on."""
        with self._lock:
            self._end_recording()

    def _end_recording(self) -> None:
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.close()
            self._last_recording = str(recording.state)
            ended = recording.state.ended
            whole = ended in ("", "closed") or ended.startswith("full")
            self._recording_problem = "" if whole else ended


class SteeredSource:
    """A source that stops when asked and whose pairs carry the registration a viewer applied."""

    def __init__(self, source: Any, control: Control) -> None:
        self._source, self._control = source, control

    def __iter__(self) -> Iterator[FramePair]:
        return self

    def __next__(self) -> FramePair:
        if self._control.stopped:
            raise StopIteration
        pair: FramePair = next(self._source)
        registration = self._control.registration
        if registration is None:
            return pair
        return replace(pair, registration=registration, registration_by=RegistrationBy.PAIR)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)
