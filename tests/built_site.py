"""The documentation, built as a site in a folder of the tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUILDER = Path(sys.executable).with_name("zensical")
needs_builder = pytest.mark.skipif(not BUILDER.exists(), reason="the extra docs is not installed")


def build_site(folder: Path) -> Path:
    """Build the site of a copy of the pages, and return its folder. Fails on any warning."""
    shutil.copy(ROOT / "mkdocs.yml", folder)
    shutil.copytree(ROOT / "docs", folder / "docs")
    (folder / "pytest_cloudbench").symlink_to(ROOT / "pytest_cloudbench")
    done = subprocess.run(
        [BUILDER, "build", "--strict"], cwd=folder, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"
