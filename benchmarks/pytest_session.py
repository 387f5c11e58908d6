"""A pytest session of its own with one test file, at full pace: how a benchmark uses the plugin as people do."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path


def run_session(text: str, *, captured: bool = False) -> subprocess.CompletedProcess[str]:
    """Run ``text`` as a test file; its output goes where this one's does unless it is to be ``captured``.

    The files beside this one can be imported in it.
    """
    with tempfile.TemporaryDirectory() as name:
        Path(name, "test_it.py").write_text(text)
        command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider"]
        return subprocess.run(
            [*command, "--cloudbench-pace=full"],
            cwd=name,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
            capture_output=captured,
            text=True,
            check=False,
        )
