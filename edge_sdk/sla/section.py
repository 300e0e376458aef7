"""Reading the YAML of an SLA key by key, with errors that say where and what."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_sdk.errors import SlaFileError

__all__ = ["Section", "load_yaml"]


_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_DECIMAL = re.compile(r"[-+]?(0|[1-9]\d*)?(\.\d*)?([eE][-+]?\d+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


@dataclass(frozen=True)
class Section:
    """One mapping of the file, with where it stands."""

    path: Path | None
    key: str
    entries: Mapping[str, Any]

    def dotted(self, key: str) -> str:
        """Names a key of this section as the file's reader would."""
        return f"{self.key}.{key}" if self.key else key

    def unknown(self, key: str, known: Iterable[str]) -> SlaFileError:
        """Makes the error for a key that is not known, with the nearest one that is."""
        names = list(known)
        near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
        fix = f"Did you mean {near[0]}?" if near else f"Known keys: {', '.join(names)}."
        return SlaFileError(self.path, self.dotted(key), "unknown key", fix)

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Refuses every key that is not among the known ones."""
        names = list(known)
        for key in self.entries:
            if key not in names:
                raise self.unknown(key, names)

    def section(self, key: str) -> Section:
        """Reads a section; an empty one where the file has none."""
        value = self.entries.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "a section with keys of its own", value)
        return Section(self.path, self.dotted(key), value)

    def text(self, key: str, *, required: bool = False) -> str | None:
        """Reads text, or None where the file has none."""
        if key not in self.entries:
            if required:
                raise SlaFileError(self.path, self.dotted(key), "missing", "Every SLA names it.")
            return None
        value = self.entries[key]
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(key, "text", value)
        return value

    def flag(self, key: str) -> bool | None:
        """Reads true or false, or None where the file has none."""
        if key not in self.entries:
            return None
        value = self.entries[key]
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false", value)
        return value

    def whole(self, key: str, least: int, most: int) -> int | None:
        """Reads a whole number within bounds, or None where the file has none."""
        if key not in self.entries:
            return None
        value = self.entries[key]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.wrong(key, f"a whole number, {least} - {most}", value)
        return value

    def number(
        self,
        key: str,
        *,
        least: float | None = None,
        above: float | None = None,
        below: float | None = None,
        most: float | None = None,
        unit: str = "",
    ) -> float | None:
        """Reads a finite number within bounds, or None where the file has none."""
        if key not in self.entries:
            return None
        value = self.entries[key]
        # An int may be too large for a float, so only a float is asked whether it is finite.
        sound = type(value) is int or (isinstance(value, float) and math.isfinite(value))
        if (
            not sound
            or (least is not None and value < least)
            or (above is not None and value <= above)
            or (below is not None and value >= below)
            or (most is not None and value > most)
        ):
            words = (("at least", least), ("more than", above), ("less than", below), ("at most", most))
            limits = " and ".join(f"{word} {bound:g}" for word, bound in words if bound is not None)
            raise self.wrong(key, " ".join(part for part in ("a number", limits, unit) if part), value)
        return float(value)

    def wrong(self, key: str, expected: str, value: Any) -> SlaFileError:
        """Makes the error for a value: what was expected there and what was found."""
        kinds = {bool: "yes/no", str: "text", dict: "section", list: "list", type(None): "nothing"}
        kind = kinds.get(type(value))
        shown = str(value) if len(str(value)) <= 40 else str(value)[:37] + "..."
        found = kind if kind == "nothing" else f"{shown} ({kind})" if kind else shown
        return SlaFileError(self.path, self.dotted(key), f"expected {expected}, found {found}")


def load_yaml(raw: bytes, path: Path | None) -> dict[str, Any]:
    """Reads YAML with the safe loader, less anchors, aliases, duplicate keys and keys that are no names.

    Raises:
        SlaFileError: the text is not such YAML, or has no keys.
    """
    import yaml

    class StrictLoader(yaml.SafeLoader):
        """YAML's safe loader without the parts that hide or multiply content."""

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
            if getattr(event, "anchor", None):  # an alias has one too
                line = event.start_mark.line + 1 if event.start_mark else "?"
                raise SlaFileError(
                    path, "", f"line {line}: anchors and aliases are not taken", "Write the value out."
                )
            return super().compose_node(parent, index)

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
            seen: set[str] = set()
            for key_node, _ in node.value:
                key, line = key_node.value, key_node.start_mark.line + 1
                if key_node.tag != "tag:yaml.org,2002:str":
                    raise SlaFileError(path, "", f"line {line}: expected a name as key, found {key!r}")
                if key in seen:
                    raise SlaFileError(path, key, f"line {line}: given twice", "Keep one.")
                seen.add(key)
            return super().construct_mapping(node, deep=True)

        def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
            """Refuses a number that is written otherwise than people read it: octal, base 60, with `_`."""
            if node.tag in _NUMBERS and not _DECIMAL.fullmatch(str(node.value)):
                line = node.start_mark.line + 1
                raise SlaFileError(
                    path,
                    "",
                    f"line {line}: {node.value!r} is read by YAML as another number than it looks like",
                    "Write a plain decimal number; text goes in quotes.",
                )
            return super().construct_scalar(node)

    try:
        document = yaml.load(raw, StrictLoader)
    except RecursionError:
        raise SlaFileError(path, "", "nested too deeply") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        if isinstance(error, SlaFileError):
            raise
        what = " ".join(str(error).split())
        raise SlaFileError(path, "", f"not YAML that can be read: {what}") from error
    if not isinstance(document, dict):
        found = "nothing" if document is None else type(document).__name__
        raise SlaFileError(path, "", f"expected keys such as engine and latency, found {found}")
    return document
