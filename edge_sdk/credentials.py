"""Secrets: where they may come from, and how they are kept out of what is shown.

A command line can be read by every user of the machine (`ps`), so a secret comes from a file or from the
environment; one that is given on the command line still works, with a warning.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from edge_sdk.errors import ConfigError

__all__ = [
    "Credential",
    "fill_in",
    "find_credential",
    "holds_password",
    "make_token",
    "read_secret_file",
    "without_password",
]

_MOST_BYTES = 4096
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")


@dataclass(frozen=True)
class Credential:
    """A secret and where it came from.

    Attributes:
        value: the secret; not part of the object's text.
        origin: an option, a variable or a file, for people.
        warning: what is wrong with having it from there, or "".
    """

    value: str = field(repr=False)
    origin: str
    warning: str = ""


def find_credential(
    option: str,
    given: str | None,
    file: Path | None,
    variable: str,
    *,
    file_option: str = "",
    environment: Mapping[str, str] = os.environ,
) -> Credential | None:
    """Takes a secret from the command line, else from a file, else from the environment.

    Arguments:
        option: that would hold it on the command line, for messages.
        given: what the command line says, or None.
        file: that holds it, or None.
        variable: of the environment that may hold it; an empty one counts as not set.
        file_option: the option that names the file; by default `option` with "-file" behind.
        environment: the process's by default.

    Returns: None where there is none.

    Raises:
        ConfigError: both are given, or the file cannot be read.
    """
    file_option = file_option or f"{option}-file"
    if given is not None and file is not None:
        raise ConfigError(f"{option} and {file_option}: a secret from both; leave one out")
    if file is not None:
        return Credential(read_secret_file(file, file_option), str(file), _open_to_others(file))
    if given is not None:
        warning = (
            f"a secret on the command line ({option}) can be read by every user of this machine; "
            f"use {file_option} FILE or the environment variable {variable}"
        )
        return Credential(given, option, warning)
    found = environment.get(variable)
    return Credential(found, variable) if found else None


def read_secret_file(path: Path, option: str = "") -> str:
    """Reads a secret: the file's one line.

    Arguments:
        path: a file of at most 4096 bytes, or a pipe.
        option: that named it, for messages.

    Raises:
        ConfigError: it cannot be read, is empty, or holds something else than one line of text.
    """
    where = f"{option} {path}".strip()
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read: {error.strerror or error}") from None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{where}: expected one line of text, found other bytes") from None
    text = text.removesuffix("\n").removesuffix("\r")
    if not text or len(content) > _MOST_BYTES or any(mark in text for mark in "\r\n\0"):
        raise ConfigError(
            f"{where}: expected one line of 1 to {_MOST_BYTES} bytes, "
            f"found {'none' if not text.strip() else 'more'}"
        )
    return text


def make_token(path: Path | None = None) -> str:
    """Makes a token of 128 random bits.

    Arguments:
        path: a file to keep it in, which must not be there yet; only its owner can read it.

    Raises:
        ConfigError: the file cannot be made.
    """
    token = secrets.token_urlsafe(16)
    if path is not None:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(handle, "w", encoding="ascii") as file:  # noqa: PTH123 - made with its mode above
                file.write(token + "\n")
        except OSError as error:
            raise ConfigError(f"{path}: a token cannot be kept there: {error.strerror or error}") from None
    return token


def fill_in(address: str, environment: Mapping[str, str] = os.environ) -> str:
    """Puts secrets into an address that refers to them: `rtsp://USER:${NAME}@HOST/PATH`.

    `${NAME}` is a variable of the environment, `${file:PATH}` the one line of a file. What is put in is
    percent-encoded, so a password may hold any character.

    Raises:
        ConfigError: the variable is not set, or the file cannot be read.
    """

    def secret(found: re.Match[str]) -> str:
        name = found[1]
        if name.startswith("file:"):
            return quote(read_secret_file(Path(name.removeprefix("file:"))), safe="")
        if not environment.get(name):
            raise ConfigError(f"{found[0]} in an address: the environment variable {name!r} is not set")
        return quote(environment[name], safe="")

    return _REFERENCE.sub(secret, address)


def without_password(text: str) -> str:
    """Returns an address, or a source's URI with addresses in it, in which passwords read `***`."""
    if text.strip().lower().startswith("camera:"):  # there "&" stands between addresses, never in one
        return "&".join(_part_without_password(part) for part in text.split("&"))
    return _part_without_password(text)


def holds_password(text: str) -> bool:
    """Whether an address, or a URI with addresses in it, has a password written out and not referred to."""
    written = re.sub(r":\$\{[^{}]*\}@", "@", text)
    return without_password(written) != written


def _part_without_password(text: str) -> str:
    scheme, mark, rest = text.partition("://")
    authority, slash, path = rest.partition("/")
    port = authority.partition(":")[2]
    if "@" in path and port and not port.isdigit() and "@" not in authority:
        # No port is no number: it is the first half of a password with a slash in it.
        authority, slash, path = rest, "", ""
    if not mark or "@" not in authority:
        return text
    user, _, host = authority.rpartition("@")
    name, colon, _ = user.partition(":")
    return f"{scheme}://{name}{':***' if colon else ''}@{host}{slash}{path}"


def _open_to_others(path: Path) -> str:
    """A warning where every user can read the file."""
    try:
        found = path.stat()
    except OSError:
        return ""
    if stat.S_ISREG(found.st_mode) and found.st_mode & stat.S_IROTH:
        return f"{path} can be read by every user of this machine: chmod o-r {path}"
    return ""
