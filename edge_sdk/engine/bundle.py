"""Engine bundles on disk: finding them by name, loading them with every byte verified."""

from __future__ import annotations

import hashlib
import importlib.resources
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edge_sdk.engine.manifest import MANIFEST_NAME, GraphSpec, Manifest
from edge_sdk.engine.onnx_scan import scan_onnx
from edge_sdk.engine.parse import MAX_MANIFEST_NBYTES, parse_manifest
from edge_sdk.engine.tables import nearest
from edge_sdk.engine.verify import read_inside, read_verified
from edge_sdk.errors import ConfigError, EngineMismatchError

__all__ = ["ENGINES_VARIABLE", "Bundle", "find_bundle", "list_bundles", "load_bundle"]

ENGINES_VARIABLE = "EDGE_SDK_ENGINES"
"""Environment variable: folders that hold bundles, searched before the installed ones."""
_INSTALLED_PACKAGE = "edge_sdk_engines"


@dataclass(frozen=True)
class Bundle:
    """A bundle whose files were all verified when it was loaded.

    Attributes:
        folder: where it lies.
        manifest: what it says of itself.
        sha256: of the manifest and all files it names, for records: two bundles with the same one
            are the same to the last byte.
    """

    folder: Path
    manifest: Manifest
    sha256: str

    @property
    def name(self) -> str:
        """Name of the bundle."""
        return self.manifest.name

    def read_graph(self, graph: str, precision: str | None = None) -> bytes:
        """Reads one graph's ONNX file and verifies it again: what is returned is what was hashed.

        Arguments:
            graph: name of the graph.
            precision: as in `GraphSpec.file_for`; None means the one shipped to be run.

        Raises:
            ConfigError: no such graph, or not in that precision.
            EngineIntegrityError: the file is not what it was when the bundle was loaded.
        """
        if graph not in self.manifest.graphs:
            known = ", ".join(self.manifest.graphs)
            raise ConfigError(f"bundle {self.name!r} has no graph {graph!r}; it has {known}")
        return read_verified(self.folder, self.manifest.graphs[graph].file_for(precision))


def load_bundle(name_or_path: str | os.PathLike[str]) -> Bundle:
    """Finds a bundle and verifies all of its files, twins included.

    Arguments:
        name_or_path: as for `find_bundle`.

    Raises:
        ConfigError: no such bundle.
        ManifestError: its manifest is wrong.
        EngineIntegrityError: a file is missing, changed, too large, a link, outside the folder, or no
            self-contained ONNX model.
        EngineMismatchError: a graph's opset is not the manifest's.
    """
    folder = find_bundle(name_or_path)
    text = read_inside(folder, MANIFEST_NAME, MAX_MANIFEST_NBYTES)
    manifest = parse_manifest(text, folder / MANIFEST_NAME)
    # The manifest holds the SHA-256 of every file, and each is compared below, so the manifest's
    # bytes stand for the whole bundle.
    digest = hashlib.sha256(b"edge-sdk bundle 1\n")
    digest.update(text)
    bundle = Bundle(folder, manifest, digest.hexdigest())
    for graph in manifest.graphs.values():
        for precision in graph.precisions:
            _check_content(bundle, graph, precision)
    return bundle


def _check_content(bundle: Bundle, graph: GraphSpec, precision: str) -> None:
    """Refuses a file that is not self-contained, or of another opset. Its hash stands for that later."""
    path = bundle.folder / graph.file_for(precision).file
    found = scan_onnx(bundle.read_graph(graph.name, precision), path).opset
    if found != graph.opset:
        fix = f"Correct graphs.{graph.name}.opset in {MANIFEST_NAME}."
        raise EngineMismatchError(path, "opset", str(graph.opset), str(found), fix)


def find_bundle(name_or_path: str | os.PathLike[str]) -> Path:
    """Finds a bundle's folder, from any working directory. Nothing but its manifest's presence is checked.

    Arguments:
        name_or_path: a folder that holds `bundle.toml` (or that file), or the name of a bundle in a
            folder of `EDGE_SDK_ENGINES` or among the installed ones. A text without "/" is a name
            first and a path second.

    Raises:
        ConfigError: there is none; says where it looked and which there are.
    """
    text = os.fspath(name_or_path)
    known = list_bundles()
    if text in known:
        return known[text]
    path = _expanded(text)
    if path.name == MANIFEST_NAME and path.is_file():
        path = path.parent
    if text and (path / MANIFEST_NAME).is_file():
        return path.resolve()
    where = "; ".join(str(folder) for folder in _search_path()) or "nowhere: no engines are installed"
    have = ", ".join(sorted(known)) or "none"
    problem = f"a folder without {MANIFEST_NAME}" if text and path.is_dir() else "no such bundle"
    hint = nearest(text, known) or f"Give the folder that holds a {MANIFEST_NAME}, or set {ENGINES_VARIABLE}."
    raise ConfigError(f"engine {text!r}: {problem}. Searched {where}. Found: {have}. {hint}")


def list_bundles() -> Mapping[str, Path]:
    """Lists the bundles that `find_bundle` knows by name: name -> folder. None is verified.

    A bundle's name here is its folder's name. Of two with one name the first found counts.
    """
    found: dict[str, Path] = {}
    for folder in _search_path():
        try:
            entries = sorted(folder.iterdir())
        except OSError:
            continue
        for entry in entries:
            if (entry / MANIFEST_NAME).is_file():
                found.setdefault(entry.name, entry)
    return found


def _search_path() -> list[Path]:
    given = os.environ.get(ENGINES_VARIABLE, "").split(os.pathsep)
    folders = [_expanded(part) for part in given if part]
    try:
        installed = importlib.resources.files(_INSTALLED_PACKAGE)
    except ModuleNotFoundError:
        return folders
    # A zipped package has no folder: its bundles cannot be listed, and the error says what was searched.
    return [*folders, installed] if isinstance(installed, Path) else folders


def _expanded(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:  # "~name" of nobody
        return Path(text)
