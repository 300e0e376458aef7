"""Every error this SDK raises on purpose, in one tree.

    EdgeSdkError
      ConfigError(ValueError)        the request cannot be met; no hardware was touched
        ShapeError                     an array has the wrong shape or dtype
        ManifestError                  a bundle's manifest is wrong
        SlaFileError                   an SLA file is wrong
      StateError(RuntimeError)       used before open or after close
      DeviceError(RuntimeError)
        DeviceNotFoundError            nothing that can run the request; lists what was tried
          OpenCvMissingError             OpenCV is not installed, or does not load
        CudaError                      a call to the NVIDIA driver failed
        PoolExhaustedError             a buffer was asked for that is already lent out
        SaveError                      a file of results cannot be written
      SourceError(RuntimeError)      frames cannot be read
        FrameError                     one frame is bad; the next may be good
          FrameTooLargeError             a file states a larger picture than is read
          CamerasSilentError             a while without a frame of either camera
        CameraError                    a camera cannot be opened, or went away
          FrameTimeoutError(TimeoutError)  none within the time a camera is given for one
        SensorsUnusableError           neither camera of a pair can be used
      EngineError(RuntimeError)
        EngineMismatchError            a graph is not what its manifest says
        EngineIntegrityError           a file's bytes are not what its manifest says
        PlanMismatchError              a plan was built for another machine, version or bundle
        PlanRejectedError              a plan answers otherwise than the graph it was built from
        ProviderFallbackError          a slower provider loaded than the one asked for
        InferenceError                 a graph failed while running
        OutputError                    a graph's outputs do not mean what its manifest says
      MeterError(RuntimeError)       power cannot be read, or a window of it says nothing
        MeterNotFoundError             no power sensor; lists what was tried
      RecordError(ValueError)        a run record cannot be read or judged
      SlaViolationError              the run was sound and missed its budget

A message says what happened, what was found and expected with units, and what to do.
The same facts are attributes, so that a program need not parse text. Bugs stay plain exceptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edge_sdk.requirements import hint_for

__all__ = [
    "CameraError",
    "CamerasSilentError",
    "ConfigError",
    "CudaError",
    "DeviceError",
    "DeviceNotFoundError",
    "EdgeSdkError",
    "EngineError",
    "EngineIntegrityError",
    "EngineMismatchError",
    "FrameError",
    "FrameTimeoutError",
    "FrameTooLargeError",
    "InferenceError",
    "ManifestError",
    "MeterError",
    "MeterNotFoundError",
    "OpenCvMissingError",
    "OutputError",
    "PlanMismatchError",
    "PlanRejectedError",
    "PoolExhaustedError",
    "ProviderFallbackError",
    "RecordError",
    "SaveError",
    "SensorsUnusableError",
    "ShapeError",
    "SlaFileError",
    "SlaViolationError",
    "SourceError",
    "StateError",
]


class EdgeSdkError(Exception):
    """Base of all errors raised on purpose by this SDK.

    Its text can be printed whatever the files are called: bytes of a name that are no UTF-8 read `\\udce9`.
    """

    def __str__(self) -> str:
        return super().__str__().encode("utf-8", "backslashreplace").decode("utf-8")


class ConfigError(EdgeSdkError, ValueError):
    """The request cannot be met as it stands; nothing was touched."""


class ShapeError(ConfigError):
    """An array has the wrong shape or dtype.

    Attributes:
        name: what the array is.
        expected: the shape and dtype that were wanted, as text.
        found: the shape and dtype that came, as text.
    """

    def __init__(self, name: str, expected: str, found: str, fix: str = "") -> None:
        self.name, self.expected, self.found = name, expected, found
        super().__init__(_with_fix(f"{name}: expected {expected}, found {found}", fix))


class ManifestError(ConfigError):
    """A bundle's manifest is wrong.

    Attributes:
        path: the manifest.
        key: the dotted key at fault, or "" when the file as a whole is.
        expected, found: what was wanted and what stands there.
    """

    def __init__(self, path: Path, key: str, expected: str, found: str, fix: str = "") -> None:
        self.path, self.key, self.expected, self.found = path, key, expected, found
        where = f"{path}: {key}" if key else str(path)
        super().__init__(_with_fix(f"{where}: expected {expected}, found {found}", fix))


class SlaFileError(ConfigError):
    """An SLA file is wrong: an unknown key, a wrong type, a limit that is not a positive number.

    Attributes:
        path: the file, or None when the SLA came as text.
        key: the dotted key at fault.
    """

    def __init__(self, path: Path | None, key: str, problem: str, fix: str = "") -> None:
        self.path, self.key = path, key
        where = ": ".join(str(part) for part in (path, key) if part)
        super().__init__(_with_fix(f"{where}: {problem}" if where else problem, fix))


class StateError(EdgeSdkError, RuntimeError):
    """Something was used before it was opened or after it was closed."""


class DeviceError(EdgeSdkError, RuntimeError):
    """The machine cannot do what was asked."""


class DeviceNotFoundError(DeviceError):
    """Nothing on this machine can run the request.

    Attributes:
        wanted: what was asked for.
        tried: pairs of (what was tried, why it did not serve).
    """

    def __init__(self, wanted: str, tried: Sequence[tuple[str, str]], fix: str = "") -> None:
        self.wanted, self.tried = wanted, tuple(tried)
        reasons = "; ".join(f"{name}: {why}" for name, why in self.tried) or "nothing to try"
        super().__init__(_with_fix(f"no device for {wanted!r} ({reasons})", fix))


class OpenCvMissingError(DeviceNotFoundError):
    """OpenCV is not installed, not seen by this Python, or does not load.

    Attributes:
        problem: what `import cv2` said.
    """

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__("OpenCV", [("import cv2", problem)], self.advice_for(problem))

    @staticmethod
    def advice_for(problem: str) -> str:
        """Returns what to do about what `import cv2` said."""
        if ".so" in problem:
            return (
                "The wheel of opencv-python needs libraries for windows, which a machine without a screen "
                "may lack. Take the same module without windows: `pip uninstall opencv-python`, then "
                f"`pip install '{_HEADLESS}'`. Or bring them: `sudo apt-get install libgl1 libglib2.0-0`"
            )
        if "numpy" in problem.lower() or "multiarray" in problem:
            return (
                "This OpenCV and this NumPy do not fit. JetPack 6 builds its OpenCV for NumPy 1: "
                "`pip install 'numpy<2'`"
            )
        return (
            f"`{hint_for('opencv-python')}`. On a Jetson use its own, which has GStreamer: "
            "`sudo apt-get install libopencv-python`, and an environment with `--system-site-packages`"
        )

    @classmethod
    def behind(cls, error: ImportError) -> OpenCvMissingError | None:
        """Returns the error to show for an import that failed, if OpenCV is what failed."""
        if isinstance(error, ModuleNotFoundError) and error.name != "cv2":
            return None
        try:
            import cv2  # noqa: F401
        except ImportError:
            return cls(str(error))
        return None


class CudaError(DeviceError):
    """A call to the NVIDIA driver failed.

    Attributes:
        call: the driver's function, e.g. "cuMemAlloc".
        problem: what the driver said.
    """

    def __init__(self, call: str, problem: str, fix: str = "") -> None:
        self.call, self.problem = call, problem
        super().__init__(_with_fix(f"{call} failed: {problem}", fix))


class PoolExhaustedError(DeviceError):
    """A buffer was asked for while every one of its kind is lent out."""


class SaveError(DeviceError):
    """A file of results cannot be written. What stood there before still does.

    Attributes:
        path: the file.
        problem: what the system said, "No space left on device" for a full disk.
    """

    def __init__(self, path: Path | str, error: OSError, after: str = "") -> None:
        self.path, self.problem = Path(path), error.strerror or str(error)
        cannot = f"cannot be written {after}".rstrip()
        super().__init__(f"{path}: {cannot} ({self.problem})")


class SourceError(EdgeSdkError, RuntimeError):
    """Frames cannot be read from a source."""


class FrameError(SourceError):
    """One frame is bad: unreadable, truncated, of a wrong dtype or size. The next may be good.

    Attributes:
        key: the frame's key in its source.
        path: its file, or None when it has none.
        problem: what is wrong, with figures.
    """

    def __init__(self, key: str, problem: str, path: Path | None = None, fix: str = "") -> None:
        self.key, self.path, self.problem = key, path, problem
        where = f"frame {key!r}" + (f" ({path})" if path else "")
        super().__init__(_with_fix(f"{where}: {problem}", fix))


class FrameTooLargeError(FrameError):
    """A file states a larger picture than this SDK takes memory for; none was taken.

    Attributes:
        found, limit: both sizes with units, as text.
    """

    def __init__(self, key: str, found: str, limit: str, path: Path | None = None) -> None:
        self.found, self.limit = found, limit
        super().__init__(
            key,
            f"its header states {found}, at most {limit} are read",
            path,
            "If it is sound, make it smaller first.",
        )


class CamerasSilentError(FrameError):
    """Neither camera gave a usable frame for a while. Asking again goes on waiting.

    Attributes:
        waited_s: how long, in seconds.
        faults: camera to what is wrong with it, as text.
    """

    def __init__(self, key: str, waited_s: float, faults: dict[str, str]) -> None:
        self.waited_s, self.faults = waited_s, dict(faults)
        states = ", ".join(f"{camera}: {fault}" for camera, fault in faults.items())
        super().__init__(
            key,
            f"no usable frame for {waited_s:g} s ({states})",
            fix="Check the cables; reconnecting goes on. Pass on_bad='skip' to wait longer.",
        )


class CameraError(SourceError):
    """A camera cannot be opened, or went away. Opening it again may succeed.

    Attributes:
        camera: its address, without a password.
        problem: what is wrong.
    """

    def __init__(self, camera: str, problem: str, fix: str = "") -> None:
        self.camera, self.problem = camera, problem
        super().__init__(_with_fix(f"{camera}: {problem}", fix))


class FrameTimeoutError(CameraError, TimeoutError):
    """A camera gave no frame within the time it is given for one.

    Attributes:
        waited_ms: that time, in milliseconds.
    """

    def __init__(self, camera: str, waited_ms: float) -> None:
        self.waited_ms = waited_ms
        super().__init__(camera, f"no frame within {waited_ms:.0f} ms")


class SensorsUnusableError(SourceError):
    """Neither camera of a pair can be used, so no route exists for it.

    Attributes:
        key: the pair's key.
        rgb, thermal: the health of each camera, as text.
    """

    def __init__(self, key: str, rgb: str, thermal: str) -> None:
        self.key, self.rgb, self.thermal = key, rgb, thermal
        super().__init__(
            f"pair {key!r}: neither camera can be used (RGB {rgb}, thermal {thermal}). "
            "Check both cameras; pass on_bad='skip' to count such pairs and go on."
        )


class EngineError(EdgeSdkError, RuntimeError):
    """An engine bundle cannot be used."""


class EngineMismatchError(EngineError):
    """A graph is not what its manifest, or this machine, expects.

    Attributes:
        path: the file.
        expected, found: the two that differ.
    """

    def __init__(self, path: Path, what: str, expected: str, found: str, fix: str = "") -> None:
        self.path, self.expected, self.found = path, expected, found
        super().__init__(_with_fix(f"{path}: {what}: expected {expected}, found {found}", fix))


class EngineIntegrityError(EngineError):
    """A bundle's file is missing, changed, too large or outside its folder.

    Attributes:
        path: the file.
        expected, found: the two that differ.
    """

    def __init__(self, path: Path, what: str, expected: str, found: str, fix: str = "") -> None:
        self.path, self.expected, self.found = path, expected, found
        super().__init__(_with_fix(f"{path}: {what}: expected {expected}, found {found}", fix))


class PlanMismatchError(EngineError):
    """A plan was built for another machine, TensorRT version or bundle.

    Attributes:
        path: where the plans lie.
        built_for, found: what differs, as text: of the plans, and of this machine.
    """

    def __init__(self, path: Path, built_for: str, found: str, fix: str = "") -> None:
        self.path, self.built_for, self.found = path, built_for, found
        super().__init__(_with_fix(f"{path}: plans built for {built_for}, found {found}", fix))


class PlanRejectedError(EngineError):
    """A plan answers otherwise than the graph it was built from, or runs where it should not.

    Attributes:
        graph: name of the graph.
        problem: what differs, with the tolerance.
    """

    def __init__(self, graph: str, problem: str, fix: str = "") -> None:
        self.graph, self.problem = graph, problem
        super().__init__(_with_fix(f"the plan of graph {graph!r} was thrown away: {problem}", fix))


class ProviderFallbackError(EngineError):
    """ONNX Runtime loaded a slower provider than the one asked for.

    Attributes:
        wanted, loaded: names of execution providers.
    """

    def __init__(self, wanted: str, loaded: Sequence[str], fix: str = "") -> None:
        self.wanted, self.loaded = wanted, tuple(loaded)
        super().__init__(
            _with_fix(f"asked for {wanted}, ONNX Runtime loaded {', '.join(loaded) or 'nothing'}", fix)
        )


class InferenceError(EngineError):
    """A graph failed while running. Its outputs are not to be used.

    Attributes:
        graph: name of the graph.
        provider: where it ran.
    """

    def __init__(self, graph: str, provider: str, problem: str) -> None:
        self.graph, self.provider = graph, provider
        super().__init__(f"graph {graph!r} failed on {provider}: {problem}")


class OutputError(EngineError):
    """A graph's outputs cannot mean what the manifest's `decode` says: boxes and scores would be wrong.

    Attributes:
        graph: name of the graph.
        what: "scores", "boxes" or "labels".
        expected, found: what was wanted and what came, as text.
    """

    def __init__(self, graph: str, what: str, expected: str, found: str, fix: str = "") -> None:
        self.graph, self.what, self.expected, self.found = graph, what, expected, found
        super().__init__(_with_fix(f"graph {graph!r}, {what}: expected {expected}, found {found}", fix))


class MeterError(EdgeSdkError, RuntimeError):
    """Power cannot be read, or a window of it cannot be turned into an energy."""


class MeterNotFoundError(MeterError):
    """This machine has no power sensor that answers. Never to be read as 0 W.

    Attributes:
        wanted: the meter asked for, or "auto".
        tried: pairs of (what was tried, why it did not serve).
    """

    def __init__(self, wanted: str, tried: Sequence[tuple[str, str]], fix: str = "") -> None:
        self.wanted, self.tried = wanted, tuple(tried)
        reasons = "; ".join(f"{name}: {why}" for name, why in self.tried) or "nothing to try"
        super().__init__(_with_fix(f"no power sensor ({reasons})", fix))


class RecordError(EdgeSdkError, ValueError):
    """A run record cannot be read, or lacks what the SLA asks of it."""


class SlaViolationError(EdgeSdkError):
    """A run was sound and missed its budget."""


_HEADLESS = hint_for("opencv-python").split("'")[1].replace("python", "python-headless")


def _with_fix(problem: str, fix: str) -> str:
    return f"{problem}. {fix}" if fix else problem
