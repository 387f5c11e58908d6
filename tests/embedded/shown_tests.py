"""Tests that pages of docs/ show, to be run as tests of this session: its region is up already."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pytest_cloudbench

DOCS = Path(__file__).resolve().parents[2] / "docs"


def shown_test(page: str, name: str) -> Callable[..., None]:
    """Return the test of this name that docs/PAGE.md shows, with its markers."""
    path = DOCS / f"{page}.md"
    blocks = re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)
    (shown,) = (block for block in blocks if f"def {name}(" in block)
    # Some pages leave out the imports.
    names: dict[str, Any] = {"pytest": pytest, "gp3": pytest_cloudbench.gp3}
    exec(compile(shown, path, "exec"), names)
    return pytest.mark.embedded(names[name])
