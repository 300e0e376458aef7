"""The stages of one pair: laid into the engine's memory, run, read.

`Stages` holds everything that is allocated once for a detector; `Work` is one pair on its way.
Which stages a pair passes is the pipeline's to say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import exp, isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_sdk.box_heat import temperatures
from edge_sdk.buffers import BufferSpec, HostPool
from edge_sdk.clock import Clock
from edge_sdk.detections import BoxTemperatures, Detections
from edge_sdk.engine.inputs import GraphInputs
from edge_sdk.engine.manifest import FEATURES, SCREEN_GRAPH, Manifest
from edge_sdk.engine.runner import Runner
from edge_sdk.errors import ConfigError, InferenceError, StateError
from edge_sdk.frames import FramePair, Registration, RgbFrame, ThermalFrame, ThermalPlane
from edge_sdk.postprocess import Candidates, decode
from edge_sdk.preprocess import Letterbox, rgb_into, thermal_into, thermal_plane
from edge_sdk.registration import (
    NO_RGB_YET,
    Chosen,
    Given,
    RegistrationBy,
    RegistrationWord,
    choose_registration,
    unregistered,
)

__all__ = ["Stages", "Work", "no_pair"]

_MAX_EXPONENT = 60.0


@dataclass
class Work:
    """One pair on its way: what was done to it so far, and what that took.

    `registration` is the one in force: thermal to RGB pixels, None where none was needed.
    """

    pair: FramePair
    clock: Clock
    stage_ns: dict[str, int] = field(default_factory=dict)
    engine_ns: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    plane: ThermalPlane | None = None
    laid: NDArray[np.uint8] | None = None
    laid_at: int = 0
    registration: Registration | None = None
    rgb_candidates: Candidates | None = None
    _last_ns: int = 0

    def __post_init__(self) -> None:
        self._last_ns = self.clock.now_ns()

    def mark(self, stage: str) -> int:
        """Books the time since the last mark on a stage, and returns it in nanoseconds."""
        now_ns = self.clock.now_ns()
        elapsed_ns = now_ns - self._last_ns
        self.stage_ns[stage] = self.stage_ns.get(stage, 0) + elapsed_ns
        self._last_ns = now_ns
        return elapsed_ns


class Stages:
    """Lays pictures, runs graphs and reads their outputs, on memory that is allocated once.

    Arguments:
        manifest: of the bundle.
        runner: runs its graphs; closed with the stages.
        registration: what the caller of `load` gave, for pairs that bring none of their own.

    Raises:
        ConfigError: RGB and thermal inputs differ in size, or the bundle's registration is asked for and
            it has none.
    """

    def __init__(self, manifest: Manifest, runner: Runner, registration: Given | None = None) -> None:
        self._manifest, self._given = manifest, registration
        if registration is RegistrationWord.BUNDLE:
            self._refuse_no_rig()
        self._runner: Runner | None = runner
        graphs = self._manifest.graphs
        self._inputs = {name: GraphInputs(spec, partial(runner.array, name)) for name, spec in graphs.items()}
        # Features stay where they are: only graphs read them.
        self._outputs = {
            name: {
                spec.meaning: runner.array(name, spec.name)
                for spec in graph.outputs
                if spec.meaning != FEATURES
            }
            for name, graph in graphs.items()
        }
        self._input_wh = width, height = _input_wh(self._manifest)
        self._pool = HostPool(
            [
                BufferSpec("raw thermal", (height, width), "uint16"),
                BufferSpec("table indices", (height, width), "int64"),
            ]
        )
        self._raw = self._pool.lease("raw thermal")
        self._scratch = self._pool.lease("table indices")
        self._thermal_places = {
            name: inputs.picture("thermal").__array_interface__["data"][0]
            for name, inputs in self._inputs.items()
            if "thermal" in inputs.meanings
        }
        self._letterboxes: dict[tuple[int, int], Letterbox] = {}
        self._upload_ahead: Callable[[str], None] | None = getattr(runner, "upload_ahead", None)
        self._gpu_times: Callable[[str], Any] | None = getattr(runner, "gpu_times", None)
        self._rgb_wh: tuple[int, int] | None = None  # of the last RGB frame seen
        self._thermal_alone = all(graph.reads == {"thermal"} for graph in graphs.values())

    @property
    def runner(self) -> Runner:
        """What runs the graphs.

        Raises:
            StateError: the stages are closed.
        """
        if self._runner is None:
            raise StateError(f"detector {self._manifest.name!r} is closed: load it again")
        return self._runner

    @property
    def has_screen(self) -> bool:
        """Whether the bundle has a screening graph."""
        return SCREEN_GRAPH in self._inputs

    @property
    def rgb_wh(self) -> tuple[int, int] | None:
        """Size of the last RGB frame, (width, height) in pixels, or None before the first."""
        return self._rgb_wh

    def see(self, rgb_wh: tuple[int, int] | None) -> None:
        """Remembers the size of the last RGB frame: boxes stay in its pixels while the camera is lost."""
        self._rgb_wh = rgb_wh

    def pictures(self, graph: str) -> frozenset[str]:
        """Returns what a graph reads: "rgb", "thermal" or both."""
        return frozenset(self._inputs[graph].meanings)

    @property
    def rgb_picture(self) -> NDArray[np.uint8] | None:
        """The memory of the RGB picture that the engine reads, uint8 [height, width, 3]; None without one."""
        readers = (inputs for inputs in self._inputs.values() if "rgb" in inputs.meanings)
        first = next(readers, None)
        return None if first is None else first.picture("rgb")

    def screen_score(self) -> float:
        """Returns the screening graph's last output as a probability."""
        logit = float(self._outputs[SCREEN_GRAPH]["screen"].flat[0])
        return logit if isnan(logit) else 1.0 / (1.0 + exp(min(-logit, _MAX_EXPONENT)))

    def close(self) -> None:
        """Gives the engine and all memory back. A second call does nothing."""
        if self._runner is not None:
            self._raw.release()
            self._scratch.release()
            self._pool.close()
            self._inputs, self._outputs = {}, {}
            self._upload_ahead = self._gpu_times = None
            self._runner.close()
            self._runner = None

    def lay_rgb(self, work: Work, graph: str) -> None:
        assert work.pair.rgb is not None
        image = work.pair.rgb.image
        rgb_into(image, self._letterbox(work), self._inputs[graph].picture("rgb"))
        work.mark("preprocess")

    def lay_thermal(self, work: Work, graph: str) -> ThermalPlane:
        """Lays the thermal frame once; a graph whose input is other memory gets a copy."""
        picture = self._inputs[graph].picture("thermal")
        if work.plane is None:
            assert work.pair.thermal is not None
            work.plane = thermal_into(
                work.pair.thermal,
                self._registration(work),
                self._letterbox(work),
                self._manifest.radiometry,
                self._raw.array,
                picture,
                self._scratch.array,
            )
            work.laid, work.laid_at = picture, self._thermal_places[graph]
        elif work.laid is not None and self._thermal_places[graph] != work.laid_at:
            np.copyto(picture, work.laid)
        work.mark("preprocess")
        return work.plane

    def place_thermal(self, work: Work) -> None:
        """Finds where the thermal frame lies, for the heat under the boxes of an engine that reads RGB alone.

        Where that cannot be known a note says why.
        """
        assert work.pair.thermal is not None
        try:
            registration = self._registration(work)
            work.plane = thermal_plane(
                work.pair.thermal, registration, self._letterbox(work), self._manifest.radiometry
            )
        except ConfigError as error:
            work.registration = None
            work.notes.append(f"no temperatures under the boxes: {error}")
        work.mark("preprocess")

    def registration_of(self, work: Work) -> Registration | None:
        """Returns the registration in force; where nothing was laid, the one that would be, or None."""
        thermal = work.pair.thermal
        if work.registration is None and thermal is not None and self._rgb_wh is not None:
            try:
                likely = self._rule(work, thermal.size_wh).registration
                if likely is not None:
                    likely.matrix_for(self._rgb_wh, thermal.size_wh)
                return likely
            except ConfigError:
                return None
        return work.registration

    def run_rgb(self, work: Work) -> None:
        if "rgb" not in work.engine_ns:
            self.lay_rgb(work, "rgb")
            if work.plane is not None and self._upload_ahead is not None:
                self._upload_ahead("fuse")  # beside the RGB graph; thermal is laid already
            self.run(work, "rgb")

    def run(self, work: Work, graph: str) -> None:
        self._inputs[graph].commit()
        work.mark("buffers")
        self.runner.run(graph)
        work.engine_ns[graph] = work.mark("engine")

    def gpu_ms(self, work: Work) -> dict[str, dict[str, float]]:
        """Reads the GPU's events of the graphs that ran for a pair; see `FrameResult.gpu_ms`."""
        if self._gpu_times is None:
            return {}
        found = {graph: self._gpu_times(graph) for graph in work.engine_ns}
        return {
            graph: {"upload": times.upload_ms, "engine": times.engine_ms, "download": times.download_ms}
            for graph, times in found.items()
            if times is not None
        }

    def decode(self, work: Work, graph: str) -> Candidates:
        outputs = self._outputs[graph]
        for meaning, array in outputs.items():
            if isnan(array.min()):
                raise InferenceError(graph, self.runner.provider, f"output that means {meaning!r} holds NaN")
        found = decode(self._manifest.decode, graph, self._manifest.class_names, outputs)
        work.mark("postprocess")
        return found

    def read(self, work: Work, candidates: Candidates) -> Detections:
        """Turns candidates into detections in RGB pixels, with the heat under each box."""
        heat: tuple[BoxTemperatures | None, ...] = ()
        if work.plane is not None and work.pair.thermal is not None:
            heat = temperatures(work.pair.thermal, work.plane, candidates.xyxy)
        detections = Detections(
            self._boxes(work, candidates),
            candidates.scores,
            candidates.class_ids,
            self._manifest.class_names,
            heat,
        )
        work.mark("postprocess")
        return detections

    def _boxes(self, work: Work, candidates: Candidates) -> NDArray[np.float32]:
        """Boxes in RGB pixels; in thermal pixels where a thermal engine has no registration."""
        boxes = self._letterbox(work).boxes_to_frame(candidates.xyxy)
        if not self._thermal_alone:
            return boxes
        thermal = work.pair.thermal
        assert thermal is not None
        chosen = self._rule(work, thermal.size_wh)
        if chosen.registration is None or NO_RGB_YET in chosen.registration.origin:
            work.notes.append("no registration: boxes are in pixels of the thermal frame")
            return boxes
        registration = work.registration = self._noted(work, chosen)
        return registration.boxes_to_rgb(boxes, self._rgb_wh or registration.rgb_size_wh, thermal.size_wh)

    def _letterbox(self, work: Work) -> Letterbox:
        """Where the RGB frame lies in the network's input; without one, where it would lie.

        An engine that reads thermal alone gets the thermal frame as it is.
        """
        if self._thermal_alone:
            assert work.pair.thermal is not None
            frame_wh = work.pair.thermal.size_wh
        else:
            # While the RGB camera is lost, boxes stay in the pixels that it had.
            frame_wh = self._rgb_wh or self._registration(work).rgb_size_wh
        if frame_wh not in self._letterboxes:
            self._letterboxes[frame_wh] = Letterbox.fit(frame_wh, self._input_wh)
        return self._letterboxes[frame_wh]

    def _registration(self, work: Work) -> Registration:
        """Where the thermal frame lies on the RGB frame; what is assumed of it is noted."""
        thermal = work.pair.thermal
        assert thermal is not None
        if self._thermal_alone:
            return Registration.identity(thermal.size_wh, "the thermal frame itself")
        if work.registration is None:
            chosen = self._rule(work, thermal.size_wh)
            if chosen.registration is None:
                assert self._rgb_wh is not None
                raise unregistered(
                    work.pair.key,
                    self._rgb_wh,
                    thermal.size_wh,
                    self._manifest.registration,
                    work.pair.notes,
                )
            work.registration = self._noted(work, chosen)
        return work.registration

    def _rule(self, work: Work, thermal_wh: tuple[int, int]) -> Chosen:
        """Applies the rule of every door to one pair."""
        said, by = work.pair.registration, work.pair.registration_by
        given = self._given
        if by is RegistrationBy.BUNDLE:
            self._refuse_no_rig()
            given = RegistrationWord.BUNDLE
        return choose_registration(
            self._rgb_wh,
            thermal_wh,
            own=said if by in (RegistrationBy.PAIR, RegistrationBy.CALLER) else None,
            given=given,
            stated=said if by is RegistrationBy.SOURCE else None,
            bundle=self._manifest.registration,
        )

    def _noted(self, work: Work, chosen: Chosen) -> Registration:
        assert chosen.registration is not None
        work.notes.extend(
            note for note in chosen.notes if not any(note in known for known in work.pair.notes)
        )
        return chosen.registration

    def _refuse_no_rig(self) -> None:
        if self._manifest.registration is None:
            raise ConfigError(
                f"registration bundle: engine {self._manifest.name!r} states no camera rig of its own. "
                "Give a registration file, or put [registration] into its manifest"
            )


def no_pair(found: object) -> ConfigError:
    """Names what was given in place of a pair, and the line to write instead."""
    what, line = type(found).__name__, "FramePair(key, RgbFrame(rgb), ThermalFrame(raw, unit))"
    if isinstance(found, RgbFrame):
        line = "FramePair(key, rgb_frame)"
    elif isinstance(found, ThermalFrame):
        line = "FramePair(key, thermal=thermal_frame)"
    return ConfigError(f"a detector answers a FramePair, found {what}: write detector({line})")


def _input_wh(manifest: Manifest) -> tuple[int, int]:
    """Width and height in pixels of the pictures that the graphs read; RGB and thermal share one grid."""
    sizes = {size for size in (manifest.rgb_size_wh, manifest.thermal_size_wh) if size is not None}
    if len(sizes) != 1:
        raise ConfigError(
            f"engine {manifest.name!r}: RGB and thermal inputs must have one size, found {sorted(sizes)}"
        )
    return sizes.pop()
