"""What a bundle says of itself: the manifest `bundle.toml`.

A bundle is a folder with this file and its ONNX graphs. A complete example of a single graph
(`edge-sdk engines new` writes one; `edge-sdk engines verify` checks one):

    schema = 1                              # of this file; this version reads 1

    [bundle]
    name = "my-detector"                    # letters, digits, "-", "_", "."
    version = "1.0.0"
    description = "Insulators from a drone, day"
    kind = "single"                         # "single": one graph; "fusion": rgb, fuse, thermal
    licence = "Apache-2.0"                  # of the bundle as a whole

    [[classes]]                             # in the order of the graph's outputs
    name = "insulator"
    visible_in = ["rgb"]                    # "rgb", "thermal"; default both

    [images]                                # network input sizes [width, height]
    rgb_size_wh = [640, 512]                # required by graphs that read RGB
    # thermal_size_wh = [640, 512]          # required by graphs that read thermal

    [decode]                                # keys: edge_sdk.postprocess.DecodeSpec
    kind = "yolo"                           # "grid", "yolo" or "boxes"
    score_min = 0.3
    # [decode.score_calibration.rgb]        # per graph and class: probability = sigmoid(a * logit + b)
    # insulator = [1.0, 0.0]

    [gate]                                  # optional; keys: edge_sdk.routing.GateConfig
    rgb_confidence_min = 0.65
    calibrated_how = "0.65 is the smallest threshold at which ..."

    [graphs.detector]
    file = "detector.onnx"                  # inside the folder, "/" between folders
    sha256 = "9f86d0..."                    # 64 hexadecimal digits
    nbytes = 5242880
    precision = "fp32"                      # "int8", "fp16" or "fp32"
    opset = 17                              # of the default ONNX domain
    # fp32 = { file = "detector.fp32.onnx", sha256 = "...", nbytes = 20971520 }   # optional twin
    [[graphs.detector.inputs]]
    name = "images"                         # as in the ONNX file
    dtype = "float32"                       # uint8, int8, float16, float32, int32, int64
    shape = [1, 3, 512, 640]                # fixed
    layout = "nchw"                         # images: "nhwc" or "nchw"; else free text
    meaning = "rgb"                         # "rgb", "thermal", "rgb+thermal", "features"
    scale = 0.00392156862745098             # float images only: (pixel * scale - mean) / std
    mean = [0.0]                            # one number, or one a channel
    std = [1.0]
    [[graphs.detector.outputs]]
    name = "output0"
    dtype = "float32"
    shape = [1, 5, 6720]
    layout = "ncx"
    meaning = "predictions"                 # "scores", "boxes", "labels", "predictions", "features", "screen"

A fusion bundle has the graphs `rgb`, `fuse` and `thermal`, and may have `screen`; their images are
uint8 NHWC of one size, since the thermal frame is laid onto the RGB frame's grid. An output
of `rgb` that means "features" goes into the input of the same name of `fuse`, without a copy. `screen`
has one output that means "screen": one number, the logit of something hot being there. A bundle
that reads thermal may state

    [radiometry]                            # raw counts -> 8 bits; keys: edge_sdk.radiometry.Radiometry
    offset = 90.0
    gain = 38.0
    scale_k = 2.0
    netd_k = 0.05

    [registration]                          # default for pairs that bring none of their own
    homography = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]    # thermal -> RGB pixels
    rgb_size_wh = [640, 512]                # frame sizes that the homography was made for
    thermal_size_wh = [640, 512]
    depth_m = 12.0                          # optional: where it holds

and any bundle what is known of it:

    [[accuracy]]                            # measured, never guessed
    data = "test split of recipe 1, 300 pairs"
    metric = "AP50"
    notes = "..."                           # optional
    figures = { int8 = { fuse = 0.81 }, fp32 = { fuse = 0.815 } }   # numbers, in tables as deep as needed

    [provenance]                            # each optional, text
    data = "..."
    weights = "..."
    recipe = "..."
    licences = "..."
    seed = 7                                # a whole number

A key that is not listed here is refused, and the nearest one named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edge_sdk.errors import ConfigError
from edge_sdk.frames import Registration
from edge_sdk.postprocess import DecodeSpec
from edge_sdk.radiometry import Radiometry
from edge_sdk.routing import GateConfig
from edge_sdk.tensors import TensorSpec

__all__ = [
    "CAMERAS",
    "FEATURES",
    "FUSION_GRAPHS",
    "IMAGE_MEANINGS",
    "MANIFEST_NAME",
    "OUTPUT_MEANINGS",
    "PRECISIONS",
    "SCHEMA",
    "SCREEN_GRAPH",
    "Accuracy",
    "GraphFile",
    "GraphSpec",
    "Manifest",
    "Normalisation",
    "ObjectClass",
]

SCHEMA = 1
MANIFEST_NAME = "bundle.toml"
PRECISIONS = ("int8", "fp16", "fp32")
CAMERAS = ("rgb", "thermal")
IMAGE_MEANINGS = ("rgb", "thermal", "rgb+thermal")
FEATURES = "features"
OUTPUT_MEANINGS = ("scores", "boxes", "labels", "predictions", FEATURES, "screen")
FUSION_GRAPHS = ("rgb", "fuse", "thermal")
SCREEN_GRAPH = "screen"


@dataclass(frozen=True)
class GraphFile:
    """One ONNX file of a bundle.

    Attributes:
        file: path inside the bundle's folder, "/" between folders.
        sha256: of its bytes, 64 lower-case hexadecimal digits.
        nbytes: its size in bytes.
    """

    file: str
    sha256: str
    nbytes: int


@dataclass(frozen=True)
class Normalisation:
    """What a float graph wants done to 8-bit pixels: (pixel * scale - mean) / std.

    Attributes:
        scale: usually 1/255.
        mean, std: one number for all channels, or one a channel.
    """

    scale: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)


@dataclass(frozen=True)
class GraphSpec:
    """One graph of a bundle.

    Attributes:
        name: "rgb", "fuse", "thermal", "screen", or any name in a single-graph bundle.
        source: its file.
        precision: of that file: "int8", "fp16" or "fp32".
        opset: version of the default ONNX domain.
        inputs, outputs: as the ONNX file has them.
        normalisations: input name -> what it wants done to pixels; float images only.
        twin: the same graph in fp32, or None.
    """

    name: str
    source: GraphFile
    precision: str
    opset: int
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    normalisations: Mapping[str, Normalisation] = field(default_factory=dict)
    twin: GraphFile | None = None

    @property
    def images(self) -> tuple[TensorSpec, ...]:
        """The inputs that are pictures."""
        return tuple(spec for spec in self.inputs if spec.meaning in IMAGE_MEANINGS)

    @property
    def reads(self) -> frozenset[str]:
        """The cameras whose pictures are inputs of this graph: "rgb", "thermal"."""
        return frozenset(camera for spec in self.images for camera in spec.meaning.split("+"))

    @property
    def precisions(self) -> tuple[str, ...]:
        """The precisions in which this graph is there, the shipped one first."""
        return (self.precision, "fp32") if self.twin else (self.precision,)

    def file_for(self, precision: str | None = None) -> GraphFile:
        """Returns the file of a precision; None means the one the bundle ships to be run.

        A screening graph that is there in one precision serves with every other.

        Raises:
            ConfigError: the graph is not there in that precision.
        """
        alone = self.name == SCREEN_GRAPH and self.twin is None
        if precision is None or precision == self.precision or alone:
            return self.source
        if precision == "fp32" and self.twin:
            return self.twin
        raise ConfigError(
            f"graph {self.name!r} is not there in precision {precision!r}; "
            f"choose {' or '.join(self.precisions)}"
        )


@dataclass(frozen=True)
class ObjectClass:
    """A class that a bundle finds.

    Attributes:
        name: unique in its bundle.
        visible_in: cameras that can see it: "rgb", "thermal".
    """

    name: str
    visible_in: tuple[str, ...] = CAMERAS


@dataclass(frozen=True)
class Accuracy:
    """One measurement of a bundle's accuracy, as its author wrote it.

    Attributes:
        data, metric: what was measured on, and what.
        figures: numbers, in tables as deep as needed, the first level usually the precision.
        notes: what a reader should know.
    """

    data: str
    metric: str
    figures: Mapping[str, Any]
    notes: str = ""


@dataclass(frozen=True)
class Manifest:
    """A bundle's manifest, checked against itself.

    Attributes:
        name, version, description, licence: of the bundle.
        kind: "fusion" or "single".
        classes: in the order of the graphs' outputs.
        graphs: name -> graph, in the manifest's order.
        rgb_size_wh, thermal_size_wh: network input sizes in pixels, or None where no graph reads that camera.
        radiometry: raw counts to network input.
        registration: default for pairs without their own, or None.
        decode: how the outputs are read.
        gate: default thresholds of the router.
        accuracy, provenance: as the author wrote them.
    """

    name: str
    version: str
    description: str
    licence: str
    kind: str
    classes: tuple[ObjectClass, ...]
    graphs: Mapping[str, GraphSpec]
    rgb_size_wh: tuple[int, int] | None
    thermal_size_wh: tuple[int, int] | None
    radiometry: Radiometry
    registration: Registration | None
    decode: DecodeSpec
    gate: GateConfig
    accuracy: tuple[Accuracy, ...] = ()
    provenance: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the graphs' outputs."""
        return tuple(item.name for item in self.classes)

    @property
    def precisions(self) -> tuple[str, ...]:
        """The precisions in which the whole bundle can run, the shipped one first."""
        deciding = [graph for graph in self.graphs.values() if graph.name != SCREEN_GRAPH]
        return tuple(
            item for item in deciding[0].precisions if all(item in graph.precisions for graph in deciding)
        )

    @property
    def files(self) -> tuple[GraphFile, ...]:
        """Every file the manifest names, twins included, each once."""
        found = {}
        for graph in self.graphs.values():
            for item in (graph.source, graph.twin):
                if item is not None:
                    found[item.file] = item
        return tuple(found.values())

    @property
    def producers(self) -> Mapping[str, str]:
        """Feature tensor -> the graph that writes it; other graphs read it under the same name."""
        return {
            spec.name: graph.name
            for graph in self.graphs.values()
            for spec in graph.outputs
            if spec.meaning == FEATURES
        }
