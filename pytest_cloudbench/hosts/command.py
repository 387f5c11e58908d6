"""Commands for a host: lists of words, quoted by construction, with a fixed language and path."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class CommandResult:
    """A finished command. `seconds` is from sending it to having its exit code."""

    argv: tuple[str, ...]
    stdout: str
    stderr: str
    exit_code: int
    seconds: float
    stdout_bytes: bytes = b""


def checked_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """The words of a command; a string is refused, because quoting it would be guessing.

    Raises TypeError for a string or for words that are none, ValueError for an empty command or NUL.
    """
    if isinstance(argv, (str, bytes)):
        raise TypeError(f"a command is a list of words, not a string: {argv!r}")
    words = tuple(argv)
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"a command's words are strings, not {word!r}")
        if "\0" in word:
            raise ValueError(f"a command's word holds a NUL character: {word!r}")
    if not words or not words[0]:
        raise ValueError("the command is empty")
    return words


def command_line(argv: Sequence[str], *, sudo: bool) -> str:
    """The line for the login shell: English messages, and sbin in the path for plain users and sudo alike."""
    quoted = shlex.join(checked_argv(argv))
    # exec env, so that shells without "NAME=value command" work too and no shell stays in between.
    surroundings = f'env LC_ALL=C "PATH={_PATH}:$PATH"'
    return f"exec sudo -n -- {surroundings} {quoted}" if sudo else f"exec {surroundings} {quoted}"
