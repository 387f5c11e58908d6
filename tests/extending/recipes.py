"""The recipes of docs/extending.md as code, so that tests run what the documentation shows."""

import re
from pathlib import Path

_DOCS = Path(__file__).parent.parent.parent / "docs" / "extending.md"


def code_blocks(heading: str, language: str = "python") -> list[str]:
    """Return the blocks of code below a heading, up to the next heading of its level."""
    text = _DOCS.read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/extending.md has no heading {heading!r}"
    return re.findall(rf"^```{language}\n(.*?)^```", found[1], re.MULTILINE | re.DOTALL)
