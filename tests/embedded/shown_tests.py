"""Tests that pages of docs/ show, to be run as tests of this session: its region is up already."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pytest_cloudbench

DOCS = Path(__file__).resolve().parents[2] / "docs"


def shown_blocks(page: str, language: str = "python") -> list[str]:
    """Return the blocks of code of docs/PAGE.md."""
    text = (DOCS / f"{page}.md").read_text()
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for _, block in found]


def shown_function(page: str, name: str) -> Callable[..., None]:
    """Return the test of this name that docs/PAGE.md shows, with its markers."""
    (shown,) = (block for block in shown_blocks(page) if f"def {name}(" in block)
    # Some blocks leave out the imports.
    imported = ("FioCall", "Volume", "gp3")
    names: dict[str, Any] = {"pytest": pytest} | {each: getattr(pytest_cloudbench, each) for each in imported}
    exec(compile(shown, DOCS / f"{page}.md", "exec"), names)
    return names[name]


def shown_test(page: str, name: str) -> Callable[..., None]:
    """Return a shown test as a test of this session."""
    return pytest.mark.embedded(shown_function(page, name))
