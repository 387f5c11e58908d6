"""Mixes of a project's own, in a TOML file of its own beside its pytest settings.

[mixes.web-shop]
blocks = { 8k = 90, 64k = 10 }
read_percent = 75
random_percent = 100
skew = { percent_of_io = 80, percent_of_space = 20 }    # or { zipf = 1.2 }, or left out
source = "our own, measured on the shop's database in May 2026"
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from pytest_cloudbench.workloads.sweep.errors import BadMix
from pytest_cloudbench.workloads.sweep.mixes import Mix, Skew
from pytest_cloudbench.workloads.sweep.named_mixes import MIXES

FILE_NAME = "cloudbench-mixes.toml"

_NEEDED = ("blocks", "read_percent", "random_percent", "source")
_KNOWN = (*_NEEDED, "skew")
_SKEW = ("percent_of_io", "percent_of_space", "zipf")


def read_mixes(path: Path) -> dict[str, Mix]:
    """The mixes of that file by name; none where there is no such file.

    Raises BadMix, naming the file, the mix and what cannot be used; for a name of ours too, which must keep
    meaning the same in every report.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    document = _parsed(path, data)
    mixes = document.get("mixes")
    if not isinstance(mixes, dict) or set(document) != {"mixes"}:
        raise BadMix(f"{path}: mixes are tables named [mixes.NAME], and there is nothing else in this file")
    try:
        return {name: _mix(name, table) for name, table in mixes.items()}
    except BadMix as error:
        raise BadMix(f"{path}: {error}") from None


def _parsed(path: Path, data: bytes) -> dict[str, Any]:
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        document: dict[str, Any] = toml.loads(data.decode())
    except ValueError as error:
        raise BadMix(f"{path} is no TOML: {error}") from None
    return document


def _mix(name: str, table: object) -> Mix:
    if name in MIXES:
        raise BadMix(f"the mix {name!r} comes with the plugin: give yours another name")
    table = _table(f"mix {name!r}", table, _KNOWN)
    if missing := [key for key in _NEEDED if key not in table]:
        raise BadMix(f"mix {name!r} lacks {', '.join(missing)}")
    blocks = table["blocks"]
    if not isinstance(blocks, dict):
        raise BadMix(f"mix {name!r}: blocks is a table of sizes and per cent such as {{ 8k = 90, 64k = 10 }}")
    skew = table.get("skew")
    if not isinstance(table["source"], str):
        raise BadMix(f"mix {name!r}: source is a text, not {table['source']!r}")
    return Mix.of(
        name,
        blocks,
        read_percent=table["read_percent"],
        random_percent=table["random_percent"],
        source=table["source"],
        skew=None if skew is None else _skew(name, skew),
    )


def _skew(name: str, given: object) -> Skew:
    table = _table(f"skew of mix {name!r}", given, _SKEW)
    for key, value in table.items():
        whole = isinstance(value, int) or (key == "zipf" and isinstance(value, float))
        if isinstance(value, bool) or not whole:
            raise BadMix(f"skew of mix {name!r}: {key} is {value!r}, no number of the right kind")
    try:
        return Skew(**table)
    except BadMix as error:
        raise BadMix(f"mix {name!r}: {error}") from None


def _table(what: str, given: object, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise BadMix(f"{what} is a table with {', '.join(known)}, not {given!r}")
    if unknown := [key for key in given if key not in known]:
        raise BadMix(f"{what} has no {', '.join(unknown)}: it takes {', '.join(known)}")
    return given
