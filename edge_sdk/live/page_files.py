"""The files of the live page: every path that is served from disk, and nothing else is."""

from __future__ import annotations

__all__ = ["PAGE_FILES"]

_SCRIPTS = (
    "app.js",
    "boxes.js",
    "cameras.js",
    "charts.js",
    "connection.js",
    "control.js",
    "events.js",
    "figures.js",
    "labels.js",
    "palettes.js",
    "picture.js",
    "readings.js",
    "register.js",
    "settings.js",
    "sla.js",
    "snapshot.js",
    "words.js",
)

PAGE_FILES = {
    "/": ("index.html", "text/html"),
    "/style.css": ("style.css", "text/css"),
    "/cards.css": ("cards.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    **{f"/{name}": (name, "text/javascript") for name in _SCRIPTS},
}
"""Path -> (file in `static`, content type): a path is looked up here and never becomes a path on disk."""
