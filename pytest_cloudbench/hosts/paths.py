"""Checks of the paths and names that a test passes for a host, before they are used."""

from __future__ import annotations

import unicodedata

from pytest_cloudbench.hosts.errors import BadPath


def check_path(what: str, path: object) -> None:
    """Raise BadPath unless a path or a name is text without line breaks, NUL and other control characters.

    ``what`` is the name of the argument in the message.
    """
    if not isinstance(path, str) or not path:
        raise BadPath(f"invalid {what}={path!r}: give a text that is not empty")
    bad = next((char for char in path if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")), None)
    if bad is not None:
        raise BadPath(
            f"invalid {what}={path!r}: it contains the character {bad!r}, which no path or name may have"
        )
