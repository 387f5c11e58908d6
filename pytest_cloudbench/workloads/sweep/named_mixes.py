"""Mixes by name: the bundled ones, as data, and a project's own from a TOML file beside its pytest settings.

The bundled mixes do not include the database and desktop mixes of a published review, because their parameters are
unpublished. Ours have other names and say that they are our own. An entry of the file:

    [mixes.web-shop]
    blocks = { 8k = 90, 64k = 10 }
    read_percent = 75
    random_percent = 100
    skew = { percent_of_io = 80, percent_of_space = 20 }    # or { zipf = 1.2 }; optional
    source = "our own, measured on the shop's database in May 2026"
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from pytest_cloudbench.workloads.sweep.errors import BadMix, UnknownMix
from pytest_cloudbench.workloads.sweep.mixes import Mix, Skew

OUR_OWN = "our own"
_CORNERS = "the four corners of VDBench reviews, such as one of i3.metal in 2018: 4K random, 64K sequential"
_IOMETER = (
    "Iometer's database pattern, as in Tom's Hardware, Storage Charts 2009: 8 KiB, 67 % reads, all random"
)
_ORION = "Oracle's calibration tool Orion, -run dss by its defaults: random reads of 1 MiB"
_HOT = Skew(percent_of_io=80, percent_of_space=20)

_SQL = {"8k": 85, "16k": 5, "64k": 10}
_ORACLE = {"8k": 75, "16k": 10, "32k": 10, "64k": 5}
_VDI_INITIAL = {"4k": 30, "8k": 10, "16k": 15, "32k": 20, "64k": 15, "128k": 10}
_VDI_MONDAY = {"4k": 30, "8k": 15, "16k": 10, "32k": 20, "64k": 15, "128k": 10}
FILE_NAME = "cloudbench-mixes.toml"
_NEEDED = ("blocks", "read_percent", "random_percent", "source")
_KNOWN = (*_NEEDED, "skew")
_SKEW = ("percent_of_io", "percent_of_space", "zipf")


def _mix(
    name: str, blocks: Mapping[str, int], reads: int, random: int = 100, source: str = OUR_OWN
) -> tuple[str, Mix]:
    """Return a mix by its name. Our own mixes have a hot spot; the published ones have none."""
    skew = _HOT if source == OUR_OWN else None
    return name, Mix.of(name, blocks, read_percent=reads, random_percent=random, source=source, skew=skew)


MIXES: dict[str, Mix] = dict(
    (
        _mix("4k-random-read", {"4k": 100}, 100, 100, _CORNERS),
        _mix("4k-random-write", {"4k": 100}, 0, 100, _CORNERS),
        _mix("64k-sequential-read", {"64k": 100}, 100, 0, _CORNERS),
        _mix("64k-sequential-write", {"64k": 100}, 0, 0, _CORNERS),
        _mix("oltp", {"8k": 100}, 67, 100, _IOMETER),
        _mix("olap", {"1m": 100}, 100, 100, _ORION),
        _mix("sql-like", _SQL, 100),
        _mix("sql-like-90-10", _SQL, 90),
        _mix("sql-like-80-20", _SQL, 80),
        _mix("oracle-like", _ORACLE, 100),
        _mix("oracle-like-90-10", _ORACLE, 90),
        _mix("oracle-like-80-20", _ORACLE, 80),
        _mix("vdi-boot", {"4k": 30, "8k": 10, "16k": 15, "32k": 20, "64k": 25}, 85, 70),
        _mix("vdi-initial-login", _VDI_INITIAL, 35, 80),
        _mix("vdi-monday-login", _VDI_MONDAY, 55, 80),
    )
)

FOUR_CORNERS = ("4k-random-read", "4k-random-write", "64k-sequential-read", "64k-sequential-write")


def find_mix(asked: str | Mix, own: Mapping[str, Mix]) -> Mix:
    """Return the bundled mix or the project's ``own`` mix of this name; a Mix is returned as it is.

    Raises UnknownMix.
    """
    if isinstance(asked, Mix):
        return asked
    known = {**MIXES, **own}
    if not isinstance(asked, str) or asked not in known:
        names = sorted(known)
        raise UnknownMix(asked, difflib.get_close_matches(str(asked).lower(), names, n=3, cutoff=0.4), names)
    return known[asked]


def read_mixes(path: Path) -> dict[str, Mix]:
    """Read the mixes of a file by name; empty if the file does not exist.

    Raises BadMix with the file, the mix and the invalid value. The name of a bundled mix is invalid too, because it
    must mean the same in every report.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        document: dict[str, Any] = toml.loads(data.decode())
    except ValueError as error:
        raise BadMix(f"{path} is not valid TOML: {error}") from None
    mixes = document.get("mixes")
    if not isinstance(mixes, dict) or set(document) != {"mixes"}:
        raise BadMix(f"{path}: the file must contain only tables named [mixes.NAME]")
    try:
        return {name: _parse_mix(name, table) for name, table in mixes.items()}
    except BadMix as error:
        raise BadMix(f"{path}: {error}") from None


def _parse_mix(name: str, table: object) -> Mix:
    if name in MIXES:
        raise BadMix(f"mix {name!r} is bundled with the plugin: use another name")
    table = _checked_table(f"mix {name!r}", table, _KNOWN)
    if missing := [key for key in _NEEDED if key not in table]:
        raise BadMix(f"mix {name!r} lacks {', '.join(missing)}")
    blocks = table["blocks"]
    if not isinstance(blocks, dict):
        raise BadMix(
            f"mix {name!r}: blocks must be a table of sizes and per cent such as {{ 8k = 90, 64k = 10 }}"
        )
    skew = table.get("skew")
    if not isinstance(table["source"], str):
        raise BadMix(f"mix {name!r}: source must be text, got {table['source']!r}")
    return Mix.of(
        name,
        blocks,
        read_percent=table["read_percent"],
        random_percent=table["random_percent"],
        source=table["source"],
        skew=None if skew is None else _parse_skew(name, skew),
    )


def _parse_skew(name: str, given: object) -> Skew:
    table = _checked_table(f"skew of mix {name!r}", given, _SKEW)
    for key, value in table.items():
        whole = isinstance(value, int) or (key == "zipf" and isinstance(value, float))
        if isinstance(value, bool) or not whole:
            kind = "a number" if key == "zipf" else "a whole number"
            raise BadMix(f"skew of mix {name!r}: {key} must be {kind}, got {value!r}")
    try:
        return Skew(**table)
    except BadMix as error:
        raise BadMix(f"mix {name!r}: {error}") from None


def _checked_table(what: str, given: object, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise BadMix(f"{what} must be a table with {', '.join(known)}, got {given!r}")
    if unknown := [key for key in given if key not in known]:
        raise BadMix(f"{what} has unknown keys {', '.join(unknown)}: use {', '.join(known)}")
    return given
