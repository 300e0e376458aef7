"""The version of this SDK, stated once."""

__all__ = ["VERSION"]

VERSION = "0.1.0"
