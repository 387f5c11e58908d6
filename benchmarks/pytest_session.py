"""Run a separate pytest session with one test file at full pace, so benchmarks use the plugin as users do."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path


def run_session(text: str, *, captured: bool = False) -> subprocess.CompletedProcess[str]:
    """Run ``text`` as a test file, which can import the modules of this folder.

    Its output goes to this process's output, or into the result if ``captured``.
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
