"""The files beside Allure's results: what was tested on, the categories, and who ran it.

What somebody else put there stays: their environment lines, their categories, their executor.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_cloudbench.reports.allure.ci_executor import executor
from pytest_cloudbench.reports.allure.outcome import categories

ENVIRONMENT = "environment.properties"
CATEGORIES = "categories.json"
EXECUTOR = "executor.json"
_WRITER = "writtenBy"
_OURS = "pytest-cloudbench"


def write_categories(folder: Path) -> None:
    """Write the categories, after those that are there already under other names."""
    ours = categories()
    names = {category["name"] for category in ours}
    present = _json(folder / CATEGORIES)
    kept = (
        [each for each in present if not (isinstance(each, dict) and each.get("name") in names)]
        if isinstance(present, list)
        else []
    )
    # Ours first: the first that matches counts in Allure 3, and theirs may match everything.
    _write(folder / CATEGORIES, json.dumps(ours + kept, indent=2, ensure_ascii=False) + "\n")


def write_executor(folder: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Write who ran this where a CI says so and nobody else did; what an earlier run of ours wrote goes."""
    path = folder / EXECUTOR
    present = _json(path)
    if path.exists() and not (isinstance(present, dict) and present.get(_WRITER) == _OURS):
        return
    said = executor(environment)
    if said is not None:
        _write(path, json.dumps({**said, _WRITER: _OURS}, indent=2, ensure_ascii=False) + "\n")
    elif path.exists():
        path.unlink()


def write_environment(folder: Path, facts: Mapping[str, Sequence[str]]) -> None:
    """Write what was tested on, one line a fact, several values joined; lines of other names stay as they are."""
    path = folder / ENVIRONMENT
    lines = path.read_text("utf-8", errors="replace").splitlines() if path.exists() else []
    ours = {_escaped(name, key=True): _escaped(", ".join(values)) for name, values in facts.items() if values}
    kept = [line for line in lines if line.partition("=")[0].strip() not in ours]
    _write(path, "\n".join([*kept, *(f"{name}={value}" for name, value in ours.items())]) + "\n")


def _escaped(text: str, *, key: bool = False) -> str:
    """Text as java.util.Properties reads it back, whatever encoding it is read with."""
    out = []
    for number, char in enumerate(text):
        if char in "\\" or (char in "=:#! " and (key or number == 0)):
            out.append(f"\\{char}")
        elif char in "\n\r\t":
            out.append({"\n": "\\n", "\r": "\\r", "\t": "\\t"}[char])
        elif " " <= char <= "~":
            out.append(char)
        else:
            units = char.encode("utf-16-be")
            out += [f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)]
    return "".join(out)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None


def _write(path: Path, text: str) -> None:
    """Write it whole: a report that is made at this moment sees the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    unfinished.write_text(text, "utf-8")
    unfinished.replace(path)
