"""Engine bundles: their manifest, their verified loading, and what runs their graphs."""

from edge_sdk.engine.bundle import Bundle, find_bundle, list_bundles, load_bundle
from edge_sdk.engine.manifest import GraphSpec, Manifest, Normalisation
from edge_sdk.engine.null_runner import NullRunner
from edge_sdk.engine.runner import Runner

__all__ = [
    "Bundle",
    "GraphSpec",
    "Manifest",
    "Normalisation",
    "NullRunner",
    "Runner",
    "find_bundle",
    "list_bundles",
    "load_bundle",
]
